//! Jobs in the model: the state of each job, and which leases are allowed.

use std::collections::{BTreeMap, BTreeSet};

use bursar_core::answer::{Answer, Leased, Renewed};
use bursar_core::budget::Limit;
use bursar_core::event::{Event, LeasedJob};
use bursar_core::hold::HoldState;
use bursar_core::id::{BlobId, HoldId, JobId};
use bursar_core::job::{
    FlowScopes, HeartbeatItem, Job, JobError, JobSpec, JobState, LeaseEnd, LeaseRequest, Order, QueueConfig, Rate,
    Retry,
};
use bursar_core::name::{FlowKey, IdempotencyKey, JobKind, LeaseOwner, Queue, Scope, Tenant, WorkerName};
use bursar_core::refusal::Refusal;
use bursar_core::request::Op;
use bursar_core::state::JobKey;
use bursar_core::time::Span;

use super::event_cursor::EventCursor;
use super::expect::{Case, Check, charge_move, is};
use super::model::{Live, Micros, Model};
use super::reports::ReportsModel;

/// The rank of one priority step, in microseconds.
const STEP: Micros = 60_000_000;

/// What a transaction saw when it searched for jobs to lease.
#[derive(Debug)]
pub(crate) struct ClaimSeen {
    /// The number of commits at that time.
    pub(crate) commits: u64,
    pub(crate) at: Micros,
    /// Waiting jobs that another transaction had locked.
    pub(crate) locked: BTreeSet<JobId>,
    /// Whether other requests of the batch act on jobs too, so that found jobs may not be leasable.
    pub(crate) disturbed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct JobModel {
    pub(crate) tenant: Tenant,
    pub(crate) queue: Queue,
    /// The queue in which its idempotency key is unique.
    pub(crate) home: Queue,
    pub(crate) kind: JobKind,
    pub(crate) key: Option<FlowKey>,
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    pub(crate) priority: i16,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) retry: Option<Retry>,
    pub(crate) deadline: Option<Span>,
    /// `Queued` includes `Scheduled`: which of them is stored depends on time alone.
    pub(crate) state: JobState,
    /// The earliest time to run; of a finished job, when it ended.
    pub(crate) run_at: Micros,
    /// The number of commits when it began to wait in its queue.
    pub(crate) waits_since: u64,
    pub(crate) attempts: u32,
    pub(crate) fence: u64,
    pub(crate) lease: Option<LeaseModel>,
    pub(crate) ended: Option<LeaseEnd>,
    /// The error of the last failed attempt.
    pub(crate) error: Option<JobError>,
    pub(crate) cancelling: bool,
    pub(crate) hold: Option<HoldId>,
    /// All holds that it ever had.
    pub(crate) holds: Vec<HoldId>,
    pub(crate) awaits: Option<Scope>,
    pub(crate) cost: i64,
    /// Fences of leases that expired.
    pub(crate) lapsed: BTreeSet<u64>,
    /// The principals that its leases are bound to, by fence.
    pub(crate) owners: BTreeMap<u64, LeaseOwner>,
    /// The spend charged for the last lease, by scope.
    pub(crate) settled: BTreeMap<Scope, i64>,
    /// Fences of leases whose spend was charged.
    pub(crate) charged: BTreeSet<u64>,
    /// The fences among them whose lease had been lost.
    pub(crate) billed: BTreeSet<u64>,
    /// The blobs that it uses or made.
    pub(crate) blobs: Vec<BlobId>,
    pub(crate) reports: ReportsModel,
    /// Whether its payload was erased.
    pub(crate) erased: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct LeaseModel {
    pub(crate) worker: WorkerName,
    pub(crate) since: Micros,
    pub(crate) until: Micros,
    pub(crate) length: Micros,
    pub(crate) deadline: Micros,
    pub(crate) slots: Vec<Scope>,
}

impl LeaseModel {
    pub(crate) fn lapses_at(&self) -> Micros {
        self.until.min(self.deadline)
    }
}

impl JobModel {
    fn rank(&self) -> Micros {
        self.run_at - Micros::from(self.priority) * STEP
    }

    /// Makes it wait for a worker from a time on.
    pub(super) fn wait(&mut self, run_at: Micros, commits: u64) {
        self.state = JobState::Queued;
        self.run_at = run_at;
        self.waits_since = commits;
    }
}

/// The leases counted so far per rate limit, and the posted charges with their limits.
type Counted<'a> = (&'a BTreeMap<Scope, (Rate, i64)>, &'a Posted);
type Posted = BTreeMap<Scope, Vec<Limit>>;

/// Returns the guarantee that a mismatch violates, by its first word.
pub(crate) fn promise(what: &str) -> &'static str {
    match what.split(':').next() {
        Some("fence") => "I7 fenced",
        Some("gone") => "I8 no job disappears",
        Some("spend") => "I6 real spend is never dropped",
        Some("held") => "I2 conservation",
        Some("limit") => "J17 limits of queues",
        Some("order") => "J6 the best first",
        Some("attempts") => "J14 attempts",
        Some("errors") => "J16 dead jobs by error",
        Some("dedup") => "B4 one blob per digest",
        Some("references") => "B8 references keep blobs",
        Some("reach") => "B9 reach of workers",
        Some("bytes") => "B11 bytes are spend",
        _ => "jobs, by the model",
    }
}

/// Returns whether two states are equal up to the passing of time.
pub(super) fn same_state(answered: JobState, expected: JobState) -> bool {
    answered == expected || answered == JobState::Scheduled && expected == JobState::Queued
}

impl Model {
    /// Judges a request on jobs, which is answered job by job.
    pub(super) fn work(&mut self, case: &Case<'_>) -> Check<bool> {
        let mut events = EventCursor::of(case);
        let effect = events.peek().is_some();
        match (&case.request.op, case.answer()?) {
            (Op::Lease(ask), Answer::Leased(answered)) => self.leased(case, ask, answered, &mut events)?,
            (Op::Heartbeat { beats }, Answer::Renewed(answered)) => {
                is("heartbeats", &answered.len(), &beats.len())?;
                let mut both = beats.iter().zip(answered);
                both.try_for_each(|(beat, answered)| self.beaten(case, beat, answered, &mut events))?;
            }
            (Op::Finish { items }, Answer::Finished(answered)) => {
                is("ends of leases", &answered.len(), &items.len())?;
                items
                    .iter()
                    .zip(answered)
                    .try_for_each(|(item, answered)| self.finish(case, item, answered, &mut events))?;
            }
            (Op::Act { act, jobs }, Answer::Acted { each: answered, more: false }) => {
                self.act(case, act, jobs, answered, &mut events)?;
            }
            (_, answered) => return Err(format!("a request on jobs is answered with {answered:?}")),
        }
        self.follow_all(case, events)?;
        Ok(effect)
    }

    pub(super) fn define_queue(&mut self, case: &Case<'_>, queue: &Queue, config: &QueueConfig) -> Check<bool> {
        is("a queue", case.answer()?, &Answer::Done)?;
        if case.request.dry_run {
            return Ok(false);
        }
        let known = self.queues.entry((case.tenant().clone(), queue.clone())).or_default();
        known.push((case.commits, config.clone()));
        Ok(true)
    }

    /// Judges pausing or resuming a queue. The row is locked, so that its latest settings were read.
    pub(super) fn pause_queue(&mut self, case: &Case<'_>, queue: &Queue, paused: bool) -> Check<bool> {
        let known = self.queues.get(&(case.tenant().clone(), queue.clone())).and_then(|known| known.last());
        let config = known.map(|(_, config)| config.clone()).unwrap_or_default();
        if config.paused == paused {
            return is("a queue", case.answer()?, &Answer::Done).map(|()| false);
        }
        self.define_queue(case, queue, &QueueConfig { paused, ..config })
    }

    /// Returns the settings that a request may have read. Queues are not locked: a transaction that began before a change may
    /// have read the old settings.
    pub(super) fn configs(&self, case: &Case<'_>, queue: &Queue) -> Vec<QueueConfig> {
        let known = self.queues.get(&(case.tenant().clone(), queue.clone())).map_or(&[][..], Vec::as_slice);
        let before = known.iter().rev().find(|(commits, _)| *commits <= case.began).map(|(_, config)| config.clone());
        let since = known.iter().filter(|(commits, _)| *commits > case.began).map(|(_, config)| config.clone());
        let mut configs: Vec<QueueConfig> = since.collect();
        configs.push(before.unwrap_or_default());
        configs
    }

    pub(super) fn enqueued(&mut self, case: &Case<'_>, id: JobId, spec: &JobSpec, hold: Option<HoldId>) {
        let job = JobModel {
            tenant: case.tenant().clone(),
            queue: spec.queue.clone(),
            home: spec.queue.clone(),
            kind: spec.kind.clone(),
            key: spec.key.clone(),
            idempotency_key: spec.idempotency_key.clone(),
            priority: spec.priority,
            max_attempts: spec.max_attempts,
            retry: spec.retry.clone(),
            deadline: spec.deadline,
            state: JobState::Queued,
            run_at: case.now + spec.delay.micros(),
            waits_since: case.commits,
            attempts: 0,
            fence: 0,
            lease: None,
            ended: None,
            error: None,
            cancelling: false,
            hold,
            holds: hold.into_iter().collect(),
            awaits: None,
            cost: 0,
            lapsed: BTreeSet::new(),
            owners: BTreeMap::new(),
            settled: BTreeMap::new(),
            charged: BTreeSet::new(),
            billed: BTreeSet::new(),
            blobs: Vec::new(),
            reports: ReportsModel::default(),
            erased: false,
        };
        self.jobs.insert(id, job);
        self.unended.insert(id);
    }

    /// Returns the job of a key that was removed since a decision began: the decision may have found it, unless it created a
    /// new job.
    pub(super) fn just_removed(&self, case: &Case<'_>, key: &JobKey, made: bool) -> Option<JobId> {
        let since = |(_, commits): &&(JobId, u64)| *commits > case.began && !made;
        self.removed_keys.get(key).filter(since).map(|(job, _)| *job)
    }

    /// Checks the hold of an existing job. It is read without a lock, so that any hold the job ever had is right.
    pub(super) fn is_hold_of_found(&self, job: JobId, answered: Option<HoldId>) -> Check {
        let Some(known) = self.jobs.get(&job) else { return Ok(()) };
        let right = match answered {
            Some(hold) => known.holds.contains(&hold),
            None => known.holds.is_empty(),
        };
        if right { Ok(()) } else { Err(format!("{answered:?} is not a hold of {job}, which had {:?}", known.holds)) }
    }

    pub(super) fn job(&self, case: &Case<'_>, id: JobId) -> Option<&JobModel> {
        self.jobs.get(&id).filter(|job| job.tenant == *case.tenant())
    }

    fn leased(
        &mut self,
        case: &Case<'_>,
        ask: &LeaseRequest,
        answered: &Leased,
        events: &mut EventCursor<'_>,
    ) -> Check {
        if answered.jobs.len() > ask.capacity as usize {
            return Err(format!(
                "limit: {} jobs are leased, but the capacity is {}",
                answered.jobs.len(),
                ask.capacity
            ));
        }
        let posted = events.rest().find_map(|event| match event {
            Event::Posted { charges } => Some(charges.as_slice()),
            _ => None,
        });
        let posted = posted.unwrap_or_default().iter().map(|charge| (charge.scope.clone(), charge.limits.clone()));
        let posted: Posted = posted.collect();
        let mut rates: BTreeMap<Scope, (Rate, i64)> = BTreeMap::new();
        for leased in &answered.jobs {
            let event = events.next("a lease")?;
            if event.job() != Some(leased.id) {
                return Err(format!("{event:?} is recorded, but {} is answered", leased.id));
            }
            self.check_order(case, leased.id)?;
            let config = self.check_lease(case, ask, event, (&rates, &posted))?;
            self.take(case, leased, event)?;
            for (scope, rate) in rates_of(leased, &config) {
                rates.entry(scope).or_insert((rate, 0)).1 += 1;
            }
        }
        if rates.is_empty() {
            return Ok(());
        }
        let Event::Posted { charges } = events.next("the postings for rate limits")? else {
            return Err("limit: leases are not counted for the rate limit of their queue".into());
        };
        let answered: BTreeMap<_, _> = charges.iter().map(|charge| (charge.scope.clone(), charge.amount)).collect();
        is("limit: leases counted for rates", &answered, &rates.iter().map(|(s, (_, n))| (s.clone(), *n)).collect())?;
        for (scope, (rate, count)) in rates {
            let model = self.scope(&case.key(&scope), case.now);
            model.open_bucket(&rate.limit().window, case.now);
            model.apply(case.now, charge_move(case.now, count, false));
        }
        Ok(())
    }

    /// Checks that no job of better rank was available.
    fn check_order(&self, case: &Case<'_>, id: JobId) -> Check {
        let claim = case.claim.filter(|claim| !claim.disturbed);
        let (Some(job), Some(claim)) = (self.jobs.get(&id), claim) else { return Ok(()) };
        // The search may spend its capacity on jobs whose flow key has no slot, so that the order is not defined with keys.
        let keyed =
            |other: &JobModel| other.key.is_some() && (&other.tenant, &other.queue) == (&job.tenant, &job.queue);
        if self.unended.iter().any(|other| keyed(&self.jobs[other])) {
            return Ok(());
        }
        let passed = self.unended.iter().filter(|other| !claim.locked.contains(other)).find(|other| {
            let better = &self.jobs[other];
            better.state == JobState::Queued
                && better.key.is_none()
                && (&better.tenant, &better.queue, &better.kind) == (&job.tenant, &job.queue, &job.kind)
                && (better.rank(), **other) < (job.rank(), id)
                && better.run_at <= claim.at.min(case.now)
                && better.waits_since <= claim.commits
        });
        match passed {
            Some(better) => Err(format!("order: {id} is leased before {better}, which was waiting with a better rank")),
            None => Ok(()),
        }
    }

    /// Checks that the settings of the queue admit the lease, and returns them.
    fn check_lease(
        &self,
        case: &Case<'_>,
        ask: &LeaseRequest,
        event: &Event,
        counted: Counted<'_>,
    ) -> Check<QueueConfig> {
        let Event::JobLeased(LeasedJob { job: id, fence, attempt, worker, .. }) = event else {
            return Err(format!("{event:?} is not a lease"));
        };
        let job = self.job(case, *id).ok_or_else(|| format!("gone: {id} is leased, but does not exist"))?;
        if job.state != JobState::Queued || job.lease.is_some() {
            return Err(format!("fence: {id} is {} and leased to {:?}: it cannot be leased", job.state, job.lease));
        }
        is("fence: the number of a lease", fence, &(job.fence + 1))?;
        is("attempts: of a lease", attempt, &(job.attempts + 1))?;
        is("the worker of a lease", worker, &ask.worker)?;
        let early = job.run_at > case.now.max(self.high);
        let wanted = ask.queues.contains(&job.queue) && (ask.kinds.is_empty() || ask.kinds.contains(&job.kind));
        if early || !wanted {
            return Err(format!("{id} is leased; requested: {wanted}, before its time: {early}"));
        }
        let mut wrong = String::new();
        for config in self.configs(case, &job.queue) {
            match self.admits(case, ask, job, &config, event, counted) {
                Ok(()) => return Ok(config),
                Err(what) => wrong = what,
            }
        }
        Err(format!("limit: {id}: {wrong}"))
    }

    fn admits(
        &self,
        case: &Case<'_>,
        ask: &LeaseRequest,
        job: &JobModel,
        config: &QueueConfig,
        event: &Event,
        (rates, posted): Counted<'_>,
    ) -> Check {
        let Event::JobLeased(LeasedJob { lease, deadline, slots, .. }) = event else {
            unreachable!("the event was checked before")
        };
        if config.paused {
            return Err("the queue is paused".into());
        }
        is("the length of a lease", lease, &ask.lease.unwrap_or(config.lease))?;
        let run = job.deadline.or(config.deadline).map_or(Micros::MAX, |span| case.now + span.micros());
        is("the end of a run", &deadline.micros(), &run)?;
        let key = job.key.as_ref().map(|key| FlowScopes::of_key(&job.queue, key));
        let of_queue = config.concurrency.map(|most| (FlowScopes::of_queue(&job.queue).slots, most));
        let of_key = key.and_then(|key| Some((key.slots, config.key_concurrency?)));
        let limits: Vec<(Scope, u32)> = of_queue.into_iter().chain(of_key).collect();
        is("slots", slots, &limits.iter().map(|(scope, _)| scope.clone()).collect())?;
        for (scope, most) in limits {
            let running = self.scopes.get(&case.key(&scope)).map_or(0, |scope| scope.live.len());
            if running >= most as usize {
                return Err(format!("{running} jobs are leased at once on {scope}, the limit is {most}"));
            }
        }
        let own = rates_in(&job.queue, job.key.as_ref(), config);
        let both =
            [Some(FlowScopes::of_queue(&job.queue)), job.key.as_ref().map(|key| FlowScopes::of_key(&job.queue, key))];
        for scope in both.into_iter().flatten().map(|flow| flow.rate) {
            let limits = own.iter().find(|(own, _)| *own == scope).map(|(_, rate)| vec![rate.limit()]);
            is("the rate limits of a lease", &posted.get(&scope), &limits.as_ref())?;
        }
        for (scope, rate) in own {
            let taken = rates.get(&scope).map_or(0, |(_, count)| *count);
            let limit = rate.limit();
            let left = self.scopes.get(&case.key(&scope)).map_or(limit.amount, |s| s.remaining(&limit, case.now));
            if left <= taken {
                return Err(format!("{scope} leaves {left} leases, but {taken} are taken"));
            }
        }
        Ok(())
    }

    /// Gives the lease to the worker.
    fn take(&mut self, case: &Case<'_>, leased: &Job, event: &Event) -> Check {
        let Event::JobLeased(LeasedJob { job: id, fence, attempt, worker, lease, deadline, slots, owner }) = event
        else {
            unreachable!("the event was checked before")
        };
        let taker = case.request.context.reporter.as_ref().map(|reporter| &reporter.owner);
        is("owner: of a lease", &owner.as_ref(), &taker)?;
        for scope in slots {
            let slot =
                Live { hold: HoldId(id.0), placed_at: case.now, expires_at: Micros::MAX, amount: 1, on_expiry: 0 };
            let scope = self.scope(&case.key(scope), case.now);
            scope.live.push(slot);
            scope.known = true;
        }
        let job = self.jobs.get_mut(id).expect("the job was found above");
        job.state = JobState::Leased;
        (job.fence, job.attempts, job.ended) = (*fence, *attempt, None);
        job.owners.extend(owner.iter().map(|owner| (*fence, owner.clone())));
        job.settled.clear();
        job.lease = Some(LeaseModel {
            worker: worker.clone(),
            since: case.now,
            until: case.now + lease.micros(),
            length: lease.micros(),
            deadline: deadline.micros(),
            slots: slots.clone(),
        });
        self.compare_job(*id, Some(leased))
    }

    /// Ends a lease and frees its slots.
    pub(super) fn end_lease(&mut self, case: &Case<'_>, id: JobId, end: LeaseEnd) {
        let job = self.jobs.get_mut(&id).expect("the job was found above");
        let Some(lease) = job.lease.take() else { return };
        job.ended = Some(end);
        if end == LeaseEnd::Lapsed {
            job.lapsed.insert(job.fence);
        }
        for scope in lease.slots {
            self.scope(&case.key(&scope), case.now).live.retain(|live| live.hold != HoldId(id.0));
        }
    }

    fn beaten(
        &mut self,
        case: &Case<'_>,
        beat: &HeartbeatItem,
        answered: &Result<Renewed, Refusal>,
        events: &mut EventCursor<'_>,
    ) -> Check {
        let Some(job) = self.job(case, beat.job) else { return unknown(beat.job, answered) };
        if job.is_foreign(case, beat.fence) {
            return foreign(beat.job, beat.fence, answered);
        }
        if job.lease.is_none() || job.fence != beat.fence {
            return self.lost(beat.job, beat.fence, false, answered);
        }
        let Ok(answered) = answered else {
            return Err(format!("fence: a heartbeat of a running lease is refused: {answered:?}"));
        };
        let drains: Vec<bool> = self.configs(case, &job.queue).iter().map(|config| config.paused).collect();
        let right = match answered.order {
            Order::Cancel => job.cancelling,
            Order::Drain => !job.cancelling && drains.contains(&true),
            Order::Continue => !job.cancelling && drains.contains(&false),
        };
        if !right {
            return Err(format!("{:?} was answered for {job:?}", answered.order));
        }
        let lease =
            self.jobs.get_mut(&beat.job).and_then(|job| job.lease.as_mut()).ok_or("the lease was found above")?;
        lease.until = lease.until.max(case.now + lease.length);
        is("the end of a lease", &answered.until.micros(), &lease.lapses_at())?;
        self.reported(beat, answered, events)
    }

    /// Expects a refusal because the lease is lost.
    pub(super) fn lost<T: std::fmt::Debug>(
        &self,
        id: JobId,
        fence: u64,
        billed: bool,
        answered: &Result<T, Refusal>,
    ) -> Check {
        let job = &self.jobs[&id];
        match answered {
            Err(Refusal::LeaseLost { job: lost, fence: by, state, billed: charged })
                if (*lost, *by, *charged) == (id, fence, billed) && same_state(*state, job.state) =>
            {
                Ok(())
            }
            answered => Err(format!(
                "fence: lease {fence} is lost, billed {billed}, but answered {answered:?}; the job is {job:?}"
            )),
        }
    }

    /// Compares a written row with the model.
    pub(crate) fn compare_job(&self, id: JobId, row: Option<&Job>) -> Check {
        let (row, job) = match (row, self.jobs.get(&id)) {
            (None, None) => return Ok(()),
            (Some(row), Some(job)) => (row, job),
            (row, known) => return Err(format!("gone: {id} is {row:?}, expected {known:?}")),
        };
        let life = &row.life;
        let lease = life.lease.as_ref().map(|lease| {
            let times = [lease.since, lease.until, lease.deadline].map(|time| time.micros());
            (lease.worker.clone(), times, lease.length.micros(), lease.slots.clone())
        });
        let leased = job.lease.as_ref().map(|lease| {
            (lease.worker.clone(), [lease.since, lease.until, lease.deadline], lease.length, lease.slots.clone())
        });
        is(&format!("fence: the lease of {id}"), &(life.fence, lease, life.ended), &(job.fence, leased, job.ended))?;
        is(&format!("owner: of the lease of {id}"), &life.owner.as_ref(), &job.owners.get(&job.fence))?;
        is(&format!("attempts: of {id}"), &life.attempts, &job.attempts)?;
        is(&format!("errors: of {id}"), &life.error, &job.error)?;
        let lapsed: BTreeSet<u64> = life.lapsed.iter().map(|lapsed| lapsed.fence).collect();
        is(&format!("fence: lapsed leases of {id}"), &lapsed, &job.lapsed)?;
        let billed: BTreeSet<u64> = life.lapsed.iter().filter(|l| l.billed).map(|lapsed| lapsed.fence).collect();
        is(&format!("spend: of {id}"), &(row.total_cost(), billed), &(job.cost, job.billed.clone()))?;
        is(&format!("the hold of {id}"), &(row.hold, &life.awaits), &(job.hold, &job.awaits))?;
        let live = job.hold.and_then(|hold| self.holds.get(&hold)).filter(|hold| hold.state == HoldState::Held);
        let set_aside: i128 = live.iter().flat_map(|hold| &hold.charges).map(|charge| i128::from(charge.amount)).sum();
        is(&format!("held: for {id}"), &life.held.iter().map(|(_, amount)| amount).sum(), &set_aside)?;
        is(&format!("references: of {id}"), &life.blobs, &job.blobs)?;
        is(&format!("erased: {id}"), &row.payload.is_erased(), &job.erased)?;
        job.compare_reports(id, life)?;
        is(&format!("the place of {id}"), &(&row.queue, row.priority), &(&job.queue, job.priority))?;
        let waits = job.state == JobState::Queued;
        let exact = job.state.is_final() || waits;
        if !same_state(life.state, job.state) || life.cancelling != job.cancelling {
            return Err(format!("{id} is {}, cancelling {}: expected {job:?}", life.state, life.cancelling));
        }
        // A job that moved up in its line has another rank until it waits again.
        let ranked = waits && job.key.is_none();
        if exact && life.run_at.micros() != job.run_at || ranked && life.rank.micros() != job.rank() {
            return Err(format!("{id} runs or ended at {}, rank {}: expected {job:?}", life.run_at, life.rank));
        }
        Ok(())
    }
}

impl JobModel {
    /// Returns whether another principal took this lease than the reporter. Of leases that did not expire only the last is
    /// remembered.
    pub(super) fn is_foreign(&self, case: &Case<'_>, fence: u64) -> bool {
        let Some(reporter) = &case.request.context.reporter else { return false };
        match self.owners.get(&fence) {
            Some(owner) => (fence == self.fence || self.lapsed.contains(&fence)) && reporter.owner != *owner,
            // A program that embeds Bursar took the lease.
            None => fence == self.fence && fence > 0,
        }
    }
}

/// Expects a refusal because another principal took the lease.
pub(super) fn foreign<T: std::fmt::Debug>(job: JobId, fence: u64, answered: &Result<T, Refusal>) -> Check {
    match answered {
        Err(Refusal::ForeignLease { job: id, fence: by }) if (*id, *by) == (job, fence) => Ok(()),
        answered => Err(format!("owner: lease {fence} of {job} is another principal's, but answered {answered:?}")),
    }
}

/// Expects a refusal because the job does not exist or belongs to another tenant.
pub(super) fn unknown<T: std::fmt::Debug>(id: JobId, answered: &Result<T, Refusal>) -> Check {
    match answered {
        Err(Refusal::UnknownJob { job }) if *job == id => Ok(()),
        answered => Err(format!("gone: {id} does not exist, but answered {answered:?}")),
    }
}

fn rates_of(job: &Job, config: &QueueConfig) -> Vec<(Scope, Rate)> {
    rates_in(&job.queue, job.key.as_ref(), config)
}

fn rates_in(queue: &Queue, key: Option<&FlowKey>, config: &QueueConfig) -> Vec<(Scope, Rate)> {
    let of_queue = config.rate.map(|rate| (FlowScopes::of_queue(queue).rate, rate));
    let of_key = key.and_then(|key| Some((FlowScopes::of_key(queue, key).rate, config.key_rate?)));
    of_queue.into_iter().chain(of_key).collect()
}
