//! The keys of the rows that a request needs, so that a store can load and lock them before it decides.

use std::collections::{BTreeMap, BTreeSet};

use crate::blob::{Blob, BlobState, NamespaceConfig, Reference, Sha256Digest, digest_key};
use crate::budget::WouldRefuse;
use crate::event::{Entry, Event, StartedBlob, StoredBlob};
use crate::hold::Hold;
use crate::id::{BlobId, GrantId, HoldId, JobId};
use crate::job::{FlowScopes, Job, JobSpec, LeaseRequest, QueueConfig, Schedule};
use crate::name::{JobKind, Queue, Scope, Tenant};
use crate::request::{Act, BlobOp, Op, Request};
use crate::state::{
    BlobDigestKey, IdempotencyRowKey, JobKey, NamespaceKey, QueueKey, ScheduleKey, ScopeKey, Workspace,
};
use crate::window::Window;

/// The keys of the rows to load, each kind sorted. Rows are locked in one order: keys, job keys, schedules, jobs, blobs,
/// holds, grants, scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Idempotency keys.
    pub keys: BTreeSet<IdempotencyRowKey>,
    /// Idempotency keys of jobs.
    pub job_keys: BTreeSet<JobKey>,
    /// Holds. Their scopes are needed too.
    pub holds: BTreeSet<HoldId>,
    /// Grants.
    pub grants: BTreeSet<GrantId>,
    /// Jobs. Their holds, lines and slots are needed too.
    pub jobs: BTreeSet<JobId>,
    /// Jobs whose leases are only renewed. Nothing else of them is needed.
    pub beats: BTreeSet<JobId>,
    /// Queues whose settings are read.
    pub queues: BTreeSet<QueueKey>,
    /// Queues whose settings are changed.
    pub queues_defined: BTreeSet<QueueKey>,
    /// Schedules. Their last jobs are needed too.
    pub schedules: BTreeSet<ScheduleKey>,
    /// Queues to lease jobs from.
    pub claims: BTreeMap<QueueKey, Claim>,
    /// Jobs to move, each with the queue they are moved to. They may join a line there.
    pub moves: BTreeSet<(JobId, Queue)>,
    /// Finished jobs to forget. The blobs they refer to are needed too.
    pub forgets: BTreeSet<JobId>,
    /// Blobs. Their namespaces and digests are needed too, and the holds of those that are not live.
    pub blobs: BTreeSet<BlobId>,
    /// Blobs to collect. Their holds are needed in any state, because another request of the batch may doom them.
    pub collects: BTreeSet<BlobId>,
    /// Digests by which live blobs are found.
    pub blob_digests: BTreeSet<BlobDigestKey>,
    /// Digests of uploads that end.
    pub stored_digests: Vec<(BlobId, Sha256Digest)>,
    /// Namespaces whose rules are read.
    pub namespaces: BTreeSet<NamespaceKey>,
    /// Namespaces whose rules are changed.
    pub namespaces_defined: BTreeSet<NamespaceKey>,
    /// Namespaces that an upload begins in. The scopes they charge are needed too.
    pub uploads: BTreeSet<NamespaceKey>,
    /// Scopes. Their ancestors are needed too.
    pub scopes: BTreeMap<ScopeKey, ScopeNeed>,
}

/// The jobs that lease requests want from a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The kinds that each request wants, exact or with a `*` suffix; an empty set means all kinds. `count` jobs are loaded
    /// for each set, because one request may take jobs that another wants too.
    pub kinds: BTreeSet<BTreeSet<JobKind>>,
    /// The number of jobs that all requests want together.
    pub count: usize,
}

impl Claim {
    fn add(&mut self, lease: &LeaseRequest) {
        self.count += lease.capacity as usize;
        self.kinds.insert(lease.kinds.iter().cloned().collect());
    }

    fn merge(&mut self, other: &Claim) {
        self.count += other.count;
        self.kinds.extend(other.kinds.iter().cloned());
    }
}

/// What a request needs of a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeNeed {
    /// Windows that need a balance, in addition to those of its budget.
    pub windows: BTreeSet<Window>,
    /// Windows of default budgets. They need a balance if no caller has defined a budget.
    pub defaults: BTreeSet<Window>,
    /// Whether to create the row if it does not exist.
    pub create: bool,
}

impl ScopeNeed {
    fn merge(&mut self, other: &ScopeNeed) {
        self.windows.extend(other.windows.iter().cloned());
        self.defaults.extend(other.defaults.iter().cloned());
        self.create |= other.create;
    }
}

impl Needs {
    /// Returns what a request needs.
    pub(crate) fn of(request: &Request) -> Needs {
        let mut needs = Needs::default();
        needs.add_request(request);
        needs
    }

    /// Adds what another request needs, so that a batch can load everything together.
    pub fn merge(&mut self, other: &Needs) {
        self.keys.extend(other.keys.iter().cloned());
        self.job_keys.extend(other.job_keys.iter().cloned());
        self.holds.extend(&other.holds);
        self.grants.extend(&other.grants);
        self.jobs.extend(&other.jobs);
        self.beats.extend(&other.beats);
        self.queues.extend(other.queues.iter().cloned());
        self.queues_defined.extend(other.queues_defined.iter().cloned());
        self.schedules.extend(other.schedules.iter().cloned());
        self.moves.extend(other.moves.iter().cloned());
        self.forgets.extend(&other.forgets);
        self.blobs.extend(&other.blobs);
        self.collects.extend(&other.collects);
        self.blob_digests.extend(other.blob_digests.iter().cloned());
        self.stored_digests.extend(&other.stored_digests);
        self.namespaces.extend(other.namespaces.iter().cloned());
        self.namespaces_defined.extend(other.namespaces_defined.iter().cloned());
        self.uploads.extend(other.uploads.iter().cloned());
        for (queue, claim) in &other.claims {
            self.claims.entry(queue.clone()).or_default().merge(claim);
        }
        for (scope, need) in &other.scopes {
            self.scopes.entry(scope.clone()).or_default().merge(need);
        }
    }

    fn add_request(&mut self, request: &Request) {
        let tenant = &request.context.tenant;
        self.keys.extend(request.key().map(|key| (tenant.clone(), key.into_owned())));
        match &request.op {
            Op::Submit(command) => {
                for charge in &command.charges {
                    let windows = charge.limits.iter().map(|limit| limit.window.clone());
                    let limited = !charge.limits.is_empty() || charge.default.is_some();
                    self.add_scope(tenant, &charge.scope, windows, limited && !request.dry_run);
                    if let Some(default) = &charge.default {
                        let need = self.scopes.get_mut(&(tenant.clone(), charge.scope.clone()));
                        need.expect("the scope was just added").defaults.extend(default.windows().cloned());
                    }
                }
                self.grants.extend(command.redeem.iter().map(|redemption| redemption.grant));
                self.blobs.extend(command.references.iter().map(|reference| reference.blob));
                self.blobs.extend(command.jobs.iter().flat_map(|job| &job.blobs));
                for job in &command.jobs {
                    let key = job.idempotency_key.iter();
                    self.job_keys.extend(key.map(|key| (tenant.clone(), job.queue.clone(), key.clone())));
                    self.add_line(tenant, job);
                }
            }
            Op::Commit { hold, .. } | Op::Release { hold } | Op::Extend { hold, .. } => {
                self.holds.insert(*hold);
            }
            Op::Credit { scope, hold, .. } => {
                self.holds.extend(hold);
                self.add_scope(tenant, scope, [], false);
            }
            Op::Define { scope, budget } => {
                self.add_scope(tenant, scope, budget.windows().cloned(), !request.dry_run);
                if let Some(parent) = &budget.parent {
                    self.add_scope(tenant, parent, [], false);
                }
            }
            Op::RemoveBudget { scope } | Op::Freeze { scope } | Op::Unfreeze { scope } => {
                self.add_scope(tenant, scope, [], false);
            }
            // The grant is new: there is no row to load.
            Op::Mint(_) => {}
            Op::Rotate { grant, .. } | Op::Revoke { grant } | Op::EraseGrant { grant } | Op::Use { grant } => {
                self.grants.insert(*grant);
            }
            Op::PurgeGrants { grants } => self.grants.extend(grants),
            Op::Expire { holds } => self.holds.extend(holds),
            Op::Tidy { scopes } => scopes.iter().for_each(|scope| self.add_scope(tenant, scope, [], false)),
            Op::Lease(lease) => {
                for queue in &lease.queues {
                    self.queues.insert((tenant.clone(), queue.clone()));
                    self.claims.entry((tenant.clone(), queue.clone())).or_default().add(lease);
                }
            }
            Op::Heartbeat { beats } => self.beats.extend(beats.iter().map(|beat| beat.job)),
            Op::Emit(emit) => {
                self.beats.insert(emit.job);
            }
            Op::Finish { items } => {
                // An invalid item is refused without its rows.
                let items = || items.iter().filter(|item| item.check().is_ok());
                self.jobs.extend(items().map(|item| item.job));
                self.blobs.extend(items().flat_map(|item| item.end.blobs()));
                let usage = items().filter_map(|item| item.end.usage()).flatten();
                usage
                    .filter_map(|usage| usage.scope.as_ref())
                    .for_each(|scope| self.add_scope(tenant, scope, [], false));
            }
            Op::Act { act, jobs } => {
                self.jobs.extend(jobs);
                if *act == Act::Forget {
                    self.forgets.extend(jobs);
                }
                if let Act::Move { queue } = act {
                    self.queues.insert((tenant.clone(), queue.clone()));
                    self.moves.extend(jobs.iter().map(|job| (*job, queue.clone())));
                }
            }
            Op::DefineSchedule { schedule, spec } => {
                self.schedules.insert((tenant.clone(), schedule.clone()));
                // Another request of the same batch may run it, which enqueues this job.
                self.add_line(tenant, &spec.job);
            }
            Op::PauseSchedule { schedule, .. }
            | Op::RemoveSchedule { schedule }
            | Op::RunSchedule { schedule }
            | Op::Tick { schedule } => {
                self.schedules.insert((tenant.clone(), schedule.clone()));
            }
            Op::Blob(op) => self.add_blob_op(tenant, op),
            Op::DefineQueue { queue, .. } | Op::PauseQueue { queue, .. } => {
                self.queues_defined.insert((tenant.clone(), queue.clone()));
            }
        }
    }

    /// Adds what it takes to apply an entry of the journal again.
    pub fn add_entry(&mut self, entry: &Entry) {
        let tenant = &entry.context.tenant;
        self.keys.extend(entry.key.iter().map(|used| (tenant.clone(), used.key.clone())));
        for recorded in &entry.events {
            for scope in recorded.e.scopes() {
                self.add_scope(tenant, scope, [], true);
            }
            self.add_event(tenant, &recorded.e);
        }
    }

    fn add_event(&mut self, tenant: &Tenant, event: &Event) {
        match event {
            Event::HoldPlaced { charges, hold, .. } => {
                self.holds.insert(*hold);
                for charge in charges {
                    self.add_scope(tenant, &charge.scope, charge.limits.iter().map(|l| l.window.clone()), true);
                }
            }
            Event::Posted { charges } => {
                for charge in charges {
                    self.add_scope(tenant, &charge.scope, charge.limits.iter().map(|l| l.window.clone()), true);
                }
            }
            Event::HoldCommitted { hold, .. }
            | Event::HoldReleased { hold, .. }
            | Event::HoldExpired { hold, .. }
            | Event::HoldExtended { hold, .. } => {
                self.holds.insert(*hold);
            }
            Event::BudgetDefined { scope, budget } => {
                self.add_scope(tenant, scope, budget.windows().cloned(), true);
                budget.parent.iter().for_each(|parent| self.add_scope(tenant, parent, [], true));
            }
            Event::BudgetRemoved { scope }
            | Event::BudgetFrozen { scope }
            | Event::BudgetTripped { scope, .. }
            | Event::BudgetUnfrozen { scope, .. }
            | Event::BudgetCrossed { scope, .. }
            | Event::BudgetCleared { scope, .. }
            | Event::BudgetWouldRefuse(WouldRefuse { scope, .. }) => self.add_scope(tenant, scope, [], true),
            Event::GrantMinted { grant, .. }
            | Event::GrantRedeemed { grant, .. }
            | Event::GrantRevoked { grant }
            | Event::GrantErased { grant }
            | Event::GrantCurtailed { grant, .. }
            | Event::GrantUsed { grant }
            | Event::GrantPurged { grant } => {
                self.grants.insert(*grant);
            }
            Event::JobEnqueued { job, spec, .. } => {
                self.jobs.insert(*job);
                self.add_line(tenant, spec);
                let key = spec.idempotency_key.iter();
                self.job_keys.extend(key.map(|key| (tenant.clone(), spec.queue.clone(), key.clone())));
            }
            Event::Credited { hold, .. } => self.holds.extend(hold),
            Event::JobFound { .. } => {}
            Event::JobParked { job, scope, .. } => {
                self.jobs.insert(*job);
                self.add_scope(tenant, scope, [], true);
            }
            Event::JobMoved { job, queue } => {
                self.jobs.insert(*job);
                self.moves.insert((*job, queue.clone()));
            }
            Event::QueueDefined { queue, .. } => {
                self.queues_defined.insert((tenant.clone(), queue.clone()));
            }
            Event::ScheduleDefined { schedule, .. }
            | Event::ScheduleRemoved { schedule }
            | Event::ScheduleTicked { schedule, .. }
            | Event::ScheduleSkipped { schedule, .. } => {
                self.schedules.insert((tenant.clone(), schedule.clone()));
            }
            Event::NamespaceDefined { namespace, .. } => {
                self.namespaces_defined.insert((tenant.clone(), namespace.clone()));
            }
            Event::BlobReferenced { blob, by } => {
                self.blobs.insert(*blob);
                if let Reference::Job(job) = by {
                    self.jobs.insert(*job);
                }
            }
            Event::BlobStarted(StartedBlob { blob, spec, .. }) => {
                self.blobs.insert(*blob);
                self.namespaces.insert((tenant.clone(), spec.namespace.clone()));
            }
            _ => {
                self.blobs.extend(event.blob());
                self.jobs.extend(event.job());
            }
        }
        if let Event::BlobStored(StoredBlob { blob, digest, .. }) = event {
            self.stored_digests.push((*blob, *digest));
        }
    }

    fn add_blob_op(&mut self, tenant: &Tenant, op: &BlobOp) {
        self.blobs.extend(op.blobs());
        match op {
            BlobOp::DefineNamespace { namespace, config } => {
                self.namespaces_defined.insert((tenant.clone(), namespace.clone()));
                config.charge.iter().for_each(|scope| self.add_scope(tenant, scope, [], false));
            }
            BlobOp::Start { spec, .. } => {
                let key = (tenant.clone(), spec.namespace.clone());
                self.blob_digests.extend(spec.digest.map(|digest| digest_key(&key.0, &key.1, digest)));
                self.namespaces.insert(key.clone());
                self.uploads.insert(key);
            }
            BlobOp::Store { blob, digest, .. } => self.stored_digests.push((*blob, *digest)),
            BlobOp::Collect { blobs } => self.collects.extend(blobs),
            _ => {}
        }
    }

    /// Adds what a loaded blob leads to: the rules of its namespace, the key of its digest, the digest of an upload that
    /// ends, the scope that an upload charges, and the holds of a blob that is not live.
    pub fn add_blob(&mut self, blob: &Blob) {
        let (tenant, namespace) = (&blob.tenant, &blob.namespace);
        self.namespaces.insert((tenant.clone(), namespace.clone()));
        self.blob_digests.extend(blob.digest_key());
        let stored = self.stored_digests.iter().filter(|(id, _)| *id == blob.id);
        let stored: Vec<_> = stored.map(|(_, digest)| digest_key(tenant, namespace, *digest)).collect();
        self.blob_digests.extend(stored);
        if blob.state != BlobState::Live || self.collects.contains(&blob.id) {
            self.holds.extend(&blob.holds);
            blob.charge.iter().for_each(|scope| self.add_scope(tenant, scope, [], false));
        }
    }

    /// Adds the scope that the uploads of a loaded namespace charge.
    pub fn add_namespace(&mut self, key: &NamespaceKey, config: &NamespaceConfig) {
        if self.uploads.contains(key) {
            config.charge.iter().for_each(|scope| self.add_scope(&key.0, scope, [], false));
        }
    }

    /// Adds what a loaded schedule leads to: its last job, and the line that its next job may join.
    pub fn add_schedule(&mut self, tenant: &Tenant, schedule: &Schedule) {
        self.jobs.extend(schedule.last_job);
        self.add_line(tenant, &schedule.spec.job);
    }

    /// Adds the line that a new job may join.
    fn add_line(&mut self, tenant: &Tenant, job: &JobSpec) {
        if let Some(key) = &job.key {
            self.add_scope(tenant, &FlowScopes::of_key(&job.queue, key).slots, [], true);
        }
    }

    /// Adds what a loaded job leads to: its line, the slots of its lease, the scope whose budget it awaits, the settings of
    /// its queue, and its hold.
    pub fn add_job(&mut self, job: &Job) {
        let tenant = &job.tenant;
        self.queues.insert((tenant.clone(), job.queue.clone()));
        self.holds.extend(job.hold);
        let slots = job.life.lease.iter().flat_map(|lease| &lease.slots);
        for scope in job.line().iter().chain(slots).chain(&job.life.awaits) {
            self.add_scope(tenant, scope, [], true);
        }
    }

    /// Adds the line that a job may join when it is moved to another queue.
    pub fn add_move(&mut self, job: &Job, to: &Queue) {
        if let Some(key) = &job.key {
            self.add_scope(&job.tenant, &FlowScopes::of_key(to, key).slots, [], true);
        }
    }

    /// Adds what the lease of a job needs: the scopes of the limits of its queue.
    pub fn add_flow_limits(&mut self, job: &Job, config: &QueueConfig) {
        let tenant = &job.tenant;
        let queue = FlowScopes::of_queue(&job.queue);
        if config.concurrency.is_some() {
            self.add_scope(tenant, &queue.slots, [], true);
        }
        if let Some(rate) = config.rate {
            self.add_scope(tenant, &queue.rate, [rate.limit().window], true);
        }
        let Some(key) = &job.key else { return };
        let key = FlowScopes::of_key(&job.queue, key);
        self.add_scope(tenant, &key.slots, [], true);
        if let Some(rate) = config.key_rate {
            self.add_scope(tenant, &key.rate, [rate.limit().window], true);
        }
    }

    /// Adds the windows of a hold that may be placed again, for the next attempt of a job.
    pub fn add_hold_windows(&mut self, hold: &Hold) {
        for charge in &hold.charges {
            self.add_scope(&hold.tenant, &charge.scope, charge.limits.iter().map(|limit| limit.window.clone()), true);
        }
    }

    fn add_scope(&mut self, tenant: &Tenant, scope: &Scope, windows: impl IntoIterator<Item = Window>, create: bool) {
        let need = self.scopes.entry((tenant.clone(), scope.clone())).or_default();
        need.windows.extend(windows);
        need.create |= create;
    }

    /// Returns the scopes that uploads charge and that collected bytes are credited to.
    fn upload_scopes_in(&self, ws: &Workspace) -> Vec<ScopeKey> {
        let namespaces = self.uploads.iter().filter(|key| ws.namespaces.is_loaded(*key));
        let begun = namespaces.filter_map(|key| Some((key.0.clone(), ws.namespaces.get(key)?.config.charge.clone()?)));
        let blobs = self.blobs.iter().filter(|id| ws.blobs.is_loaded(*id)).filter_map(|id| ws.blobs.get(id));
        let held = blobs.flat_map(|blob| {
            let holds = blob.holds.iter().filter(|id| ws.holds.is_loaded(*id)).filter_map(|id| ws.holds.get(id));
            let held = holds.flat_map(|hold| hold.totals().into_keys());
            held.chain(blob.charge.clone()).map(|scope| (blob.tenant.clone(), scope)).collect::<Vec<_>>()
        });
        begun.chain(held).collect()
    }

    /// Returns all scopes that it needs in a loaded workspace: those it names, those of its holds, jobs and schedules, and
    /// their ancestors.
    pub fn scopes_in<'a>(&self, ws: &'a Workspace) -> impl Iterator<Item = ScopeKey> + use<'a> {
        let held = self.holds.iter().filter(|id| ws.holds.is_loaded(*id)).filter_map(|id| ws.holds.get(id));
        let held = held.flat_map(|hold| hold.totals().into_keys().map(|scope| (hold.tenant.clone(), scope)));
        let schedules = self.schedules.iter().filter(|key| ws.schedules.is_loaded(*key));
        let schedules: Vec<_> = schedules.filter_map(|key| Some((key, ws.schedules.get(key)?))).collect();
        let lines = schedules.iter().filter_map(|((tenant, _), schedule)| {
            let job = &schedule.spec.job;
            Some((tenant.clone(), FlowScopes::of_key(&job.queue, job.key.as_ref()?).slots))
        });
        let ids = self.jobs.iter().copied().chain(schedules.iter().filter_map(|(_, schedule)| schedule.last_job));
        let jobs = ids.filter(|id| ws.jobs.is_loaded(id)).filter_map(|id| ws.jobs.get(&id));
        let jobs = jobs.flat_map(|job| {
            let hold = job.hold.filter(|id| ws.holds.is_loaded(id)).and_then(|id| ws.holds.get(&id));
            let held = hold.into_iter().flat_map(|hold| hold.totals().into_keys());
            let slots = job.life.lease.iter().flat_map(|lease| lease.slots.iter().cloned());
            let moved = self.moves.iter().filter(|(id, _)| *id == job.id);
            let moved = moved.filter_map(|(_, to)| Some(FlowScopes::of_key(to, job.key.as_ref()?).slots));
            let all = held.chain(slots).chain(job.line()).chain(job.life.awaits.clone()).chain(moved);
            all.map(|scope| (job.tenant.clone(), scope)).collect::<Vec<_>>()
        });
        let mut wanted: Vec<ScopeKey> = self.scopes.keys().cloned().chain(held).chain(lines).chain(jobs).collect();
        wanted.extend(self.upload_scopes_in(ws));
        let mut seen: BTreeSet<ScopeKey> = BTreeSet::new();
        std::iter::from_fn(move || {
            loop {
                let key = wanted.pop()?;
                if !seen.insert(key.clone()) {
                    continue;
                }
                if ws.scopes.is_loaded(&key) {
                    let parent = ws.scopes.get(&key).and_then(|row| row.budget.as_ref()?.parent.clone());
                    wanted.extend(parent.map(|parent| (key.0.clone(), parent)));
                }
                return Some(key);
            }
        })
    }
}
