//! Applies the events of jobs and queues.
//!
//! Beside the row of the job, applying keeps three kinds of derived data in step:
//!
//! - **Slots.** A lease takes a unit of the slot scope of its queue and flow key, and its end frees it.
//! - **Lines.** Waiting jobs with a flow key are counted in the row of the key's slot scope ([`crate::job::Place`]).
//! - **Figures.** Jobs by state, jobs per minute, cost per day, units held by queue, kind and unit, and dead jobs by error
//!   are added up here and stored as sums.

use crate::context::Context;
use crate::event::{Charged, CheckpointedJob, Event, LeasedJob, Stream};
use crate::id::{HoldId, JobId};
use crate::job::{
    Emit, Job, JobError, JobRuntime, JobSpec, JobState, Lapsed, LastReport, Lease, LeaseEnd, Place, QueueConfig,
    QueueState, kept_checkpoint, rank,
};
use crate::mutant::Mutant;
use crate::name::{JobKind, Queue, Scope, Tenant};
use crate::payload::Payload;
use crate::state::{Counted, DeadGroupKey, ScopeKeyRef, Tally, Workspace};
use crate::time::{Span, Time};

use super::scope::{post, touch_scope};

/// Applies an event of a job or a queue.
pub(super) fn apply(ws: &mut Workspace, context: &Context, event: &Event) -> u64 {
    let tenant = &context.tenant;
    match event {
        Event::JobEnqueued { job, spec, run_at, hold } => enqueued(ws, context, *job, spec, *run_at, *hold),
        Event::JobFound { .. } => 0,
        Event::QueueDefined { queue, config } => queue_defined(ws, tenant, queue, config),
        Event::JobForgotten { job } => forgotten(ws, *job),
        Event::JobLeased(event) => leased(ws, event),
        Event::JobSucceeded { job, result, .. } => {
            end_lease(ws, *job, LeaseEnd::Completed);
            change(ws, *job, |job, now| {
                job.life.result = result.clone();
                job.end(JobState::Succeeded, now);
            })
        }
        Event::JobFailed { job, error, run_at, .. } => failed(ws, *job, LeaseEnd::Failed, error, *run_at),
        Event::JobRescued { job, fence, error, run_at, .. } => {
            let life = &mut ws.jobs.get_mut(job).expect("a job is enqueued before its other events").life;
            life.lapsed.push(Lapsed { fence: *fence, billed: false, owner: life.owner.clone() });
            failed(ws, *job, LeaseEnd::Lapsed, error, *run_at)
        }
        Event::JobCheckpointed(event) => checkpointed(ws, event),
        // The row keeps none of it.
        Event::JobEmitted(Emit { job, .. }) => change(ws, *job, |_, _| {}),
        Event::JobSnoozed { job, run_at, .. } => put_off(ws, *job, LeaseEnd::Snoozed, Some(*run_at)),
        Event::JobReturned { job, .. } => put_off(ws, *job, LeaseEnd::Returned, None),
        Event::JobDied { job } => change(ws, *job, |job, now| job.end(JobState::Dead, now)),
        Event::JobDiscarded { job } => change(ws, *job, |job, now| job.end(JobState::Cancelled, now)),
        Event::JobErased { job } => change(ws, *job, |job, _| job.erase()),
        Event::JobParked { job, scope, run_at } => {
            stop_waiting(ws, *job);
            scope_row(ws, tenant, scope).awaited += 1;
            change(ws, *job, |job, _| {
                job.life.state = JobState::AwaitingBudget;
                job.life.awaits = Some(scope.clone());
                job.life.run_at = if Mutant::NeverLookAgain.on() { Time::NEVER } else { *run_at };
            })
        }
        Event::JobResumed { job, hold, .. } => {
            stop_waiting(ws, *job);
            set_aside(ws, *job, Some(*hold));
            change(ws, *job, |job, now| {
                job.hold = Some(*hold);
                job.wait_until(now, now);
            })
        }
        Event::JobRetried { job, hold } => {
            stop_waiting(ws, *job);
            hold.iter().for_each(|hold| set_aside(ws, *job, Some(*hold)));
            change(ws, *job, |job, now| {
                job.hold = hold.or(job.hold);
                job.life.attempts = 0;
                job.life.cancelling = false;
                job.wait_until(now, now);
            })
        }
        Event::JobFunded { job, hold } => {
            set_aside(ws, *job, Some(*hold));
            change(ws, *job, |job, _| job.hold = Some(*hold))
        }
        Event::JobCancelling { job } => change(ws, *job, |job, _| job.life.cancelling = true),
        Event::JobCancelled { job } => {
            stop_waiting(ws, *job);
            end_lease(ws, *job, LeaseEnd::Cancelled);
            change(ws, *job, |job, now| job.end(JobState::Cancelled, now))
        }
        Event::JobMoved { job, queue } => {
            leave_line(ws, *job);
            change(ws, *job, |job, _| {
                let left = std::mem::replace(&mut job.queue, queue.clone());
                job.home.get_or_insert(left);
            })
        }
        Event::JobEdited { job, priority, run_at } => {
            stop_waiting(ws, *job);
            change(ws, *job, |job, now| {
                job.priority = *priority;
                job.wait_until(*run_at, now);
            })
        }
        Event::JobBilled { job, fence, charges, lost } => {
            post(ws, tenant, charges);
            charge(ws, *job, !*lost, charges.iter().map(|charged| (&charged.scope, charged.amount)));
            change(ws, *job, |job, _| {
                let own = job.life.lapsed.iter_mut().find(|lapsed| *lost && lapsed.fence == *fence);
                own.into_iter().for_each(|lapsed| lapsed.billed = true);
            })
        }
        other => unreachable!("{} is not an event of a job", other.kind()),
    }
}

/// Adds the committed units of a job's hold to the cost of the job.
pub(super) fn charge_committed(ws: &mut Workspace, job: JobId, charges: &[Charged]) {
    charge(ws, job, true, charges.iter().map(|charged| (&charged.scope, charged.actual.unwrap_or(charged.amount))));
}

/// Adds units to the cost of a job, to the figures of the day and, if `by_last`, to its last lease.
fn charge<'a>(ws: &mut Workspace, id: JobId, by_last: bool, amounts: impl Iterator<Item = (&'a Scope, i64)>) {
    let day = ws.now.micros().div_euclid(86_400_000_000);
    let Some(job) = ws.jobs.get_mut(&id) else { return };
    for (scope, amount) in amounts.filter(|(_, amount)| *amount != 0) {
        add(&mut job.life.cost, scope, amount);
        if let Some(settled) = job.life.settled.as_mut().filter(|_| by_last) {
            add(settled, scope, amount);
        }
        let key = (job.tenant.clone(), day, job.queue.clone(), job.kind.clone(), scope.clone());
        *ws.costs.entry(key).or_insert(0) += amount;
    }
}

fn add(sums: &mut Vec<(Scope, i64)>, scope: &Scope, amount: i64) {
    match sums.iter_mut().find(|(known, _)| known == scope) {
        Some((_, sum)) => *sum = sum.saturating_add(amount),
        None => sums.push((scope.clone(), amount)),
    }
}

/// Records in the job what its hold sets aside, or nothing if `hold` is `None`, and updates the sum of its queue and
/// kind.
///
/// The sums are by unit and not by scope, so that a thousand jobs on a thousand scopes change one row more and not a
/// thousand. The unit is that of the scope's budget when the job gets the hold.
pub(super) fn set_aside(ws: &mut Workspace, id: JobId, hold: Option<HoldId>) {
    if hold.is_none() && Mutant::CountSettled.on() {
        return;
    }
    let hold = hold.and_then(|hold| ws.holds.get(&hold));
    let mut held: Vec<(String, i128)> = Vec::new();
    for (tenant, charge) in hold.iter().flat_map(|hold| hold.charges.iter().map(|charge| (&hold.tenant, charge))) {
        let budget = ws.scopes.get(&ScopeKeyRef(tenant, &charge.scope)).and_then(|row| row.budget.as_deref());
        let unit = budget.map_or("", |budget| &budget.unit);
        match held.iter_mut().find(|(known, _)| known == unit) {
            Some((_, sum)) => *sum += i128::from(charge.amount),
            None => held.push((unit.to_owned(), charge.amount.into())),
        }
    }
    let Some(job) = ws.jobs.get_mut(&id) else { return };
    let before = std::mem::replace(&mut job.life.held, held.clone());
    let (tenant, queue, kind) = (job.tenant.clone(), job.queue.clone(), job.kind.clone());
    count_held(ws, (&tenant, &queue, &kind), &before, -1);
    count_held(ws, (&tenant, &queue, &kind), &held, 1);
}

fn enqueued(
    ws: &mut Workspace,
    context: &Context,
    id: JobId,
    spec: &JobSpec,
    run_at: Time,
    hold: Option<HoldId>,
) -> u64 {
    let (tenant, spec) = (&context.tenant, spec.clone());
    if let Some(key) = &spec.idempotency_key {
        ws.job_keys.put((tenant.clone(), spec.queue.clone(), key.clone()), id);
    }
    let job = Job {
        id,
        tenant: tenant.clone(),
        life: JobRuntime::new(run_at, spec.priority, ws.now),
        queue: spec.queue,
        home: None,
        kind: spec.kind,
        payload: spec.payload,
        idempotency_key: spec.idempotency_key,
        key: spec.key,
        tags: spec.tags,
        metadata: spec.metadata,
        parent: spec.parent,
        priority: spec.priority,
        max_attempts: spec.max_attempts,
        retry: spec.retry,
        deadline: spec.deadline,
        traceparent: context.traceparent,
        hold,
        enqueued_at: ws.now,
        version: 1,
        last: Some(ws.batch),
    };
    let minute = minute(ws.now);
    count(ws, &job, Counted::In(job.life.state), 1);
    count(ws, &job, Counted::Enqueued(minute), 1);
    ws.jobs.put(id, job);
    if hold.is_some() {
        set_aside(ws, id, hold);
    }
    enter_line(ws, id);
    1
}

fn leased(ws: &mut Workspace, event: &LeasedJob) -> u64 {
    let LeasedJob { job: id, fence, attempt, worker, lease, deadline, slots, owner } = event;
    let id = *id;
    leave_line(ws, id);
    let (now, tenant) = (ws.now, job(ws, id).tenant.clone());
    for scope in slots {
        touch_scope(ws, &(tenant.clone(), scope.clone())).hold(now, Time::NEVER, 1);
    }
    change(ws, id, |job, now| {
        job.life.state = JobState::Leased;
        job.life.fence = *fence;
        job.life.attempts = *attempt;
        job.life.ended = None;
        job.life.owner = owner.clone();
        job.life.settled = Some(Vec::new());
        job.life.checkpoint = job.life.checkpoint.take().filter(|_| !Mutant::DropCheckpoint.on());
        job.life.lease = Some(Lease {
            worker: worker.clone(),
            since: now,
            until: now.after(*lease),
            length: *lease,
            deadline: *deadline,
            slots: slots.clone(),
        });
    })
}

fn checkpointed(ws: &mut Workspace, event: &CheckpointedJob) -> u64 {
    let CheckpointedJob { job, fence, report: number, checkpoint, percent, message, data } = event.clone();
    change(ws, job, |job, at| {
        job.life.checkpoint = kept_checkpoint(&checkpoint);
        job.life.progress = Some(Box::new(LastReport { at, fence, number, percent, message, data }));
    })
}

/// Ends a lease whose attempt does not count. The job waits until `run_at`, or as it did before.
fn put_off(ws: &mut Workspace, id: JobId, end: LeaseEnd, run_at: Option<Time>) -> u64 {
    end_lease(ws, id, end);
    let snoozed = end == LeaseEnd::Snoozed;
    let counts = if snoozed { Mutant::BurnSnoozed.on() } else { Mutant::BurnReturned.on() };
    change(ws, id, |job, now| {
        job.life.attempts = job.life.attempts.saturating_sub(u32::from(!counts));
        job.wait_until(run_at.unwrap_or(job.life.run_at), now);
    })
}

fn failed(ws: &mut Workspace, id: JobId, end: LeaseEnd, error: &JobError, run_at: Option<Time>) -> u64 {
    end_lease(ws, id, end);
    let minute = minute(ws.now);
    let failed = job(ws, id).clone();
    count(ws, &failed, Counted::Failed(minute), 1);
    change(ws, id, |job, now| {
        job.life.error = Some(error.clone());
        job.life.attempts -= u32::from(end == LeaseEnd::Lapsed && Mutant::FreeLapse.on());
        // Without a retry, the next event ends or parks the job.
        job.wait_until(run_at.unwrap_or(Time::NEVER), now);
    })
}

fn forgotten(ws: &mut Workspace, id: JobId) -> u64 {
    let version = change(ws, id, |_, _| {});
    let job = job(ws, id).clone();
    count(ws, &job, Counted::In(job.life.state), -1);
    count_dead(ws, job.dead_group(), None);
    if let Some(key) = job.idempotency_key {
        let key = (job.tenant, job.home.unwrap_or(job.queue), key);
        ws.job_keys.load(key.clone(), Some(id));
        if !Mutant::KeepJobKey.on() {
            ws.job_keys.remove(&key);
        }
    }
    ws.jobs.remove(&id);
    version
}

fn queue_defined(ws: &mut Workspace, tenant: &Tenant, queue: &Queue, config: &QueueConfig) -> u64 {
    let key = (tenant.clone(), queue.clone());
    let before = ws.queues.get(&key).cloned().unwrap_or_default();
    ws.link(|| Stream::Queue(tenant.clone(), queue.clone()), before.last);
    let version = before.version + 1;
    ws.queues.put(key, QueueState { config: config.clone(), version, last: Some(ws.batch) });
    version
}

/// Ends the lease of a job and frees its slots.
fn end_lease(ws: &mut Workspace, id: JobId, end: LeaseEnd) {
    let job = ws.jobs.get_mut(&id).expect("a job is enqueued before its other events");
    let Some(lease) = job.life.lease.take() else { return };
    job.life.ended = Some(end);
    let tenant = job.tenant.clone();
    for scope in lease.slots.into_iter().filter(|_| !Mutant::LeakSlot.on()) {
        touch_scope(ws, &(tenant.clone(), scope)).release(lease.since, 1);
    }
}

/// Takes a job out of its line, and ends its wait for a budget.
fn stop_waiting(ws: &mut Workspace, id: JobId) {
    leave_line(ws, id);
    let job = ws.jobs.get_mut(&id).expect("a job is enqueued before its other events");
    let tenant = job.tenant.clone();
    if let Some(scope) = job.life.awaits.take() {
        let row = scope_row(ws, &tenant, &scope);
        row.awaited = row.awaited.saturating_sub(1);
    }
}

/// Adds a queued job to the line of its flow key, if it has one and is not in it yet.
fn enter_line(ws: &mut Workspace, id: JobId) {
    let job = job(ws, id);
    let (Some(line), JobState::Queued, Place::Out) = (job.line(), job.life.state, job.life.place) else { return };
    let (tenant, kind) = (job.tenant.clone(), job.kind.clone());
    let row = scope_row(ws, &tenant, &line);
    let place = if row.line.len(&kind) == 0 { Place::First } else { Place::Behind };
    row.line.add(&kind);
    ws.jobs.get_mut(&id).expect("the row was just read").life.place = place;
    if place == Place::Behind {
        ws.add_line_candidate(id);
    }
}

/// Takes a job out of the line of its flow key.
fn leave_line(ws: &mut Workspace, id: JobId) {
    let job = ws.jobs.get_mut(&id).expect("a job is enqueued before its other events");
    let place = std::mem::take(&mut job.life.place);
    let (Some(line), true) = (job.line(), place != Place::Out) else { return };
    let (tenant, kind) = (job.tenant.clone(), job.kind.clone());
    let row = scope_row(ws, &tenant, &line);
    row.line.take(&kind);
    row.line.barred -= u64::from(place == Place::Barred && row.line.barred > 0);
}

/// Changes a job, its version, its journal link and the figures of its queue. Returns the new version.
fn change(ws: &mut Workspace, id: JobId, with: impl FnOnce(&mut Job, Time)) -> u64 {
    let (now, batch) = (ws.now, ws.batch);
    let row = ws.jobs.get_mut(&id).expect("a job is enqueued before its other events");
    let (queue, before, group) = (row.queue.clone(), row.life.state, row.dead_group());
    with(row, now);
    row.version += 1;
    let (version, after, moved) = (row.version, row.life.state, row.queue != queue);
    let last = row.last.replace(batch);
    ws.link(|| Stream::Job(id), last);
    if before != after || moved {
        let row = job(ws, id).clone();
        let left = Job { queue, ..row.clone() };
        count(ws, &left, Counted::In(before), -1);
        count(ws, &row, Counted::In(after), 1);
        if moved {
            count_held(ws, (&left.tenant, &left.queue, &left.kind), &left.life.held, -1);
            count_held(ws, (&row.tenant, &row.queue, &row.kind), &row.life.held, 1);
        }
        if after.is_final() && before != after {
            count(ws, &row, Counted::Ended(after, minute(now)), 1);
        }
        count_dead(ws, group, row.dead_group());
    }
    enter_line(ws, id);
    version
}

fn count(ws: &mut Workspace, job: &Job, what: Counted, by: i64) {
    let tally = Tally { tenant: job.tenant.clone(), queue: job.queue.clone(), what };
    *ws.tallies.entry(tally).or_insert(0) += by;
}

fn count_held(ws: &mut Workspace, of: (&Tenant, &Queue, &JobKind), held: &[(String, i128)], by: i128) {
    for (unit, amount) in held {
        let key = (of.0.clone(), of.1.clone(), of.2.clone(), unit.clone());
        *ws.held.entry(key).or_insert(0) += by * amount;
    }
}

/// Moves a job from the group that counted it as dead to the one that does now.
fn count_dead(ws: &mut Workspace, before: Option<DeadGroupKey>, after: Option<DeadGroupKey>) {
    if let Some(group) = before.filter(|_| !Mutant::CountRevived.on()) {
        *ws.dead.entry(group).or_insert(0) -= 1;
    }
    if let Some(group) = after {
        *ws.dead.entry(group).or_insert(0) += 1;
    }
}

fn minute(now: Time) -> i64 {
    now.micros().div_euclid(60_000_000)
}

fn job(ws: &Workspace, id: JobId) -> &Job {
    ws.jobs.get(&id).expect("a job is enqueued before its other events")
}

/// Returns the row of a scope for derived data of jobs, without counting it as touched by an event.
fn scope_row<'a>(ws: &'a mut Workspace, tenant: &Tenant, scope: &Scope) -> &'a mut crate::scope::ScopeState {
    let key = (tenant.clone(), scope.clone());
    if ws.scopes.get(&key).is_none() {
        ws.scopes.put(key.clone(), crate::scope::ScopeState::default());
    }
    ws.scopes.get_mut(&key).expect("the row was just put")
}

impl Job {
    fn end(&mut self, state: JobState, now: Time) {
        self.life.state = state;
        self.life.run_at = now;
        self.life.cancelling = false;
    }

    /// Erases what the caller and the workers gave.
    fn erase(&mut self) {
        if !Mutant::KeepErased.on() {
            self.payload = Payload::erased();
        }
        // A result that was archived and deleted is not there when the journal is replayed.
        if self.life.state == JobState::Succeeded {
            self.life.result = Payload::erased();
        }
        self.life.checkpoint = None;
        self.life.progress = None;
    }

    /// Makes the job wait for a worker from an instant on.
    fn wait_until(&mut self, run_at: Time, now: Time) {
        self.life.state = if run_at > now { JobState::Scheduled } else { JobState::Queued };
        self.life.run_at = run_at;
        self.life.rank = rank(run_at, self.priority);
    }
}

impl Workspace {
    /// Makes a scheduled job ready if its time has come. This follows from time and has no event.
    pub fn make_due_job_ready(&mut self, id: JobId) {
        let due = self.jobs.get(&id).and_then(Job::comes_due);
        if due.is_none_or(|at| at > self.now) {
            return;
        }
        let job = self.jobs.get_mut(&id).expect("the row was just read");
        if matches!(job.life.place, Place::Until(_)) {
            job.life.place = Place::First;
            return;
        }
        job.life.state = JobState::Queued;
        let job = job.clone();
        count(self, &job, Counted::In(JobState::Scheduled), -1);
        count(self, &job, Counted::In(JobState::Queued), 1);
        enter_line(self, id);
    }

    /// Bars the head of a line whose key is at its concurrency limit, until a slot is free.
    pub(crate) fn bar(&mut self, id: JobId) {
        let job = self.jobs.get_mut(&id).expect("the job was loaded to be leased");
        job.life.place = Place::Barred;
        let (tenant, line) = (job.tenant.clone(), job.line().expect("only jobs with a flow key are barred"));
        scope_row(self, &tenant, &line).line.barred += 1;
        self.barred.entry((tenant, line)).or_default().push(id);
    }

    /// Makes a barred head ready again. Always safe: leasing bars it again if the key is still at its limit.
    pub(crate) fn unbar(&mut self, id: JobId) {
        // The job may have left its line since it was read.
        if self.jobs.get(&id).is_none_or(|job| job.life.place != Place::Barred) {
            return;
        }
        let job = self.jobs.get_mut(&id).expect("the row was just read");
        job.life.place = Place::First;
        let (tenant, line) = (job.tenant.clone(), job.line().expect("only jobs with a flow key are barred"));
        let row = scope_row(self, &tenant, &line);
        row.line.barred = row.line.barred.saturating_sub(1);
    }

    /// Makes the next job of a line its head. It ranks behind the jobs that are ready already, so that keys take turns
    /// (round-robin).
    pub(crate) fn promote_to_head(&mut self, id: JobId) {
        // Jobs promoted in the same transaction keep the order of their promotion.
        let now = self.now.after(Span::from_micros(self.promotions));
        self.promotions += 1;
        let job = self.jobs.get_mut(&id).expect("the job was loaded with its line");
        job.life.place = Place::First;
        job.life.rank = job.life.rank.max(rank(now, job.priority));
    }

    /// Makes the head of a line wait until the rate of its key admits it. It stays the head.
    pub(crate) fn put_off(&mut self, id: JobId, at: Time) {
        self.jobs.get_mut(&id).expect("the job was loaded to be leased").life.place = Place::Until(at);
    }

    /// Adds a job that joined a line in this batch to the loaded candidates for its next head.
    ///
    /// It is left out if it ranks behind the last candidate: jobs that were not loaded may rank between them.
    fn add_line_candidate(&mut self, id: JobId) {
        let job = self.jobs.get(&id).expect("the row was just read");
        let line = job.line_key().expect("a job behind another is in a line");
        let mark = |id: &JobId| self.jobs.get(id).map(|job| (job.life.rank, *id));
        let known = self.lines.entry(line).or_default();
        known.retain(|known| *known != id);
        if known.back().is_none_or(|last| mark(&id) < mark(last)) {
            let place = known.partition_point(|other| mark(other) < mark(&id));
            known.insert(place, id);
        }
    }
}
