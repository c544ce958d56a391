//! What events of jobs and queues do.

use crate::context::Context;
use crate::event::{Charged, Event, Stream};
use crate::id::{HoldId, JobId};
use crate::job::{
    Job, JobError, JobSpec, JobState, Lapsed, Lease, LeaseEnd, Life, Place, QueueConfig, QueueState, rank,
};
use crate::mutant::Mutant;
use crate::name::{JobKind, Queue, Scope, Tenant};
use crate::state::{At, Counted, Tally, Workspace};
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
        Event::JobLeased { job, .. } => leased(ws, *job, event),
        Event::JobSucceeded { job, result, .. } => {
            end_lease(ws, *job, LeaseEnd::Completed);
            change(ws, *job, |job, now| {
                job.life.result = result.clone();
                job.end(JobState::Succeeded, now);
            })
        }
        Event::JobFailed { job, error, run_at, .. } => failed(ws, *job, LeaseEnd::Failed, error, *run_at),
        Event::JobRescued { job, fence, error, run_at, .. } => {
            let life = &mut ws.jobs.get_mut(job).expect("an event of a job follows its enqueueing").life;
            life.lapsed.push(Lapsed { fence: *fence, billed: false, owner: life.owner.clone() });
            failed(ws, *job, LeaseEnd::Lapsed, error, *run_at)
        }
        Event::JobSnoozed { job, run_at, .. } => {
            end_lease(ws, *job, LeaseEnd::Snoozed);
            change(ws, *job, |job, now| {
                job.life.attempts = job.life.attempts.saturating_sub(u32::from(!Mutant::BurnSnoozed.on()));
                job.wait_until(*run_at, now);
            })
        }
        Event::JobReturned { job, .. } => {
            end_lease(ws, *job, LeaseEnd::Returned);
            change(ws, *job, |job, now| {
                job.life.attempts = job.life.attempts.saturating_sub(u32::from(!Mutant::BurnReturned.on()));
                job.wait_until(job.life.run_at, now);
            })
        }
        Event::JobDied { job } => change(ws, *job, |job, now| job.end(JobState::Dead, now)),
        Event::JobDiscarded { job } => change(ws, *job, |job, now| job.end(JobState::Cancelled, now)),
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
        other => unreachable!("{} is no event of a job", other.kind()),
    }
}

/// What a hold of a job really cost counts for the job.
pub(super) fn charge_committed(ws: &mut Workspace, job: JobId, charges: &[Charged]) {
    charge(ws, job, true, charges.iter().map(|charged| (&charged.scope, charged.actual.unwrap_or(charged.amount))));
}

/// Units count for the job and, where `by_last` says so, for its last lease.
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

/// What a job's hold sets aside counts for its queue and kind, from now on or, without one, no more.
pub(super) fn set_aside(ws: &mut Workspace, id: JobId, hold: Option<HoldId>) {
    if hold.is_none() && Mutant::CountSettled.on() {
        return;
    }
    let hold = hold.and_then(|hold| ws.holds.get(&hold));
    let mut held: Vec<(String, i128)> = Vec::new();
    for (tenant, charge) in hold.iter().flat_map(|hold| hold.charges.iter().map(|charge| (&hold.tenant, charge))) {
        let budget = ws.scopes.get(&At(tenant, &charge.scope)).and_then(|row| row.budget.as_deref());
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
        life: Life::new(run_at, spec.priority, ws.now),
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

fn leased(ws: &mut Workspace, id: JobId, event: &Event) -> u64 {
    let Event::JobLeased { fence, attempt, worker, lease, deadline, slots, owner, .. } = event else {
        unreachable!("it is the event of a lease")
    };
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

fn failed(ws: &mut Workspace, id: JobId, end: LeaseEnd, error: &JobError, run_at: Option<Time>) -> u64 {
    end_lease(ws, id, end);
    let minute = minute(ws.now);
    let failed = job(ws, id).clone();
    count(ws, &failed, Counted::Failed(minute), 1);
    change(ws, id, |job, now| {
        job.life.error = Some(error.clone());
        job.life.attempts -= u32::from(end == LeaseEnd::Lapsed && Mutant::FreeLapse.on());
        // Where it is not tried again, the next event says what becomes of it.
        job.wait_until(run_at.unwrap_or(Time::NEVER), now);
    })
}

fn forgotten(ws: &mut Workspace, id: JobId) -> u64 {
    let version = change(ws, id, |_, _| {});
    let job = job(ws, id).clone();
    count(ws, &job, Counted::In(job.life.state), -1);
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

/// The job's lease is over, and with it the slots it took.
fn end_lease(ws: &mut Workspace, id: JobId, end: LeaseEnd) {
    let job = ws.jobs.get_mut(&id).expect("an event of a job follows its enqueueing");
    let Some(lease) = job.life.lease.take() else { return };
    job.life.ended = Some(end);
    let tenant = job.tenant.clone();
    for scope in lease.slots.into_iter().filter(|_| !Mutant::LeakSlot.on()) {
        touch_scope(ws, &(tenant.clone(), scope)).release(lease.since, 1);
    }
}

/// The job waits no more, in its line or for its budget.
fn stop_waiting(ws: &mut Workspace, id: JobId) {
    leave_line(ws, id);
    let job = ws.jobs.get_mut(&id).expect("an event of a job follows its enqueueing");
    let tenant = job.tenant.clone();
    if let Some(scope) = job.life.awaits.take() {
        let row = scope_row(ws, &tenant, &scope);
        row.awaited = row.awaited.saturating_sub(1);
    }
}

/// A job that waits for a worker takes its place in the line of its flow key.
fn enter_line(ws: &mut Workspace, id: JobId) {
    let job = job(ws, id);
    let (Some(line), JobState::Queued, Place::Out) = (job.line(), job.life.state, job.life.place) else { return };
    let (tenant, kind) = (job.tenant.clone(), job.kind.clone());
    let row = scope_row(ws, &tenant, &line);
    let place = if row.line.len(&kind) == 0 { Place::First } else { Place::Behind };
    row.line.add(&kind);
    ws.jobs.get_mut(&id).expect("it was just there").life.place = place;
    if place == Place::Behind {
        ws.stand_behind(id);
    }
}

fn leave_line(ws: &mut Workspace, id: JobId) {
    let job = ws.jobs.get_mut(&id).expect("an event of a job follows its enqueueing");
    let place = std::mem::take(&mut job.life.place);
    let (Some(line), true) = (job.line(), place != Place::Out) else { return };
    let (tenant, kind) = (job.tenant.clone(), job.kind.clone());
    let row = scope_row(ws, &tenant, &line);
    row.line.take(&kind);
    row.line.barred -= u64::from(place == Place::Barred && row.line.barred > 0);
}

/// Changes a job, with its version, its link and the figures of its queue.
fn change(ws: &mut Workspace, id: JobId, with: impl FnOnce(&mut Job, Time)) -> u64 {
    let (now, batch) = (ws.now, ws.batch);
    let row = ws.jobs.get_mut(&id).expect("an event of a job follows its enqueueing");
    let (queue, before) = (row.queue.clone(), row.life.state);
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

fn minute(now: Time) -> i64 {
    now.micros().div_euclid(60_000_000)
}

fn job(ws: &Workspace, id: JobId) -> &Job {
    ws.jobs.get(&id).expect("an event of a job follows its enqueueing")
}

/// A scope's row for what follows from jobs, which no event of the scope tells.
fn scope_row<'a>(ws: &'a mut Workspace, tenant: &Tenant, scope: &Scope) -> &'a mut crate::scope::ScopeState {
    let key = (tenant.clone(), scope.clone());
    if ws.scopes.get(&key).is_none() {
        ws.scopes.put(key.clone(), crate::scope::ScopeState::default());
    }
    ws.scopes.get_mut(&key).expect("it was just put")
}

impl Job {
    fn end(&mut self, state: JobState, now: Time) {
        self.life.state = state;
        self.life.run_at = now;
        self.life.cancelling = false;
    }

    /// It waits for a worker, from an instant on.
    fn wait_until(&mut self, run_at: Time, now: Time) {
        self.life.state = if run_at > now { JobState::Scheduled } else { JobState::Queued };
        self.life.run_at = run_at;
        self.life.rank = rank(run_at, self.priority);
    }
}

impl Workspace {
    /// The time of a scheduled job has come: it waits for a worker. Follows from time; no event tells it.
    pub fn come_due(&mut self, id: JobId) {
        let due = self.jobs.get(&id).and_then(Job::comes_due);
        if due.is_none_or(|at| at > self.now) {
            return;
        }
        let job = self.jobs.get_mut(&id).expect("it was just there");
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

    /// The first of its line cannot go now: until its key has a slot again …
    pub(crate) fn bar(&mut self, id: JobId) {
        let job = self.jobs.get_mut(&id).expect("it was loaded to be leased");
        job.life.place = Place::Barred;
        let (tenant, line) = (job.tenant.clone(), job.line().expect("only a key can be at its limit"));
        scope_row(self, &tenant, &line).line.barred += 1;
        self.barred.entry((tenant, line)).or_default().push(id);
    }

    /// … and then it can.
    pub(crate) fn unbar(&mut self, id: JobId) {
        // Who was barred may have left its line since it was read.
        if self.jobs.get(&id).is_none_or(|job| job.life.place != Place::Barred) {
            return;
        }
        let job = self.jobs.get_mut(&id).expect("it was just there");
        job.life.place = Place::First;
        let (tenant, line) = (job.tenant.clone(), job.line().expect("only a key can be at its limit"));
        let row = scope_row(self, &tenant, &line);
        row.line.barred = row.line.barred.saturating_sub(1);
    }

    /// The next of a line becomes the first. Its turn comes after those who wait already: round and round.
    pub(crate) fn step_up(&mut self, id: JobId) {
        // Those of one instant stand in the order in which they stepped up, also for who comes later.
        let now = self.now.after(Span::from_micros(self.turns));
        self.turns += 1;
        let job = self.jobs.get_mut(&id).expect("it was loaded with its line");
        job.life.place = Place::First;
        job.life.rank = job.life.rank.max(rank(now, job.priority));
    }

    /// A job waits until its key may be leased again: it keeps its place in the line.
    pub(crate) fn put_off(&mut self, id: JobId, at: Time) {
        self.jobs.get_mut(&id).expect("it was loaded to be leased").life.place = Place::Until(at);
    }

    /// Who takes its place in a line during this batch is among those that may be the next, unless one that stands
    /// there already is known to be better: others may come before it that were not read.
    fn stand_behind(&mut self, id: JobId) {
        let job = self.jobs.get(&id).expect("it was just there");
        let line = job.line_key().expect("who stands behind has a line");
        let mark = |id: &JobId| self.jobs.get(id).map(|job| (job.life.rank, *id));
        let known = self.lines.entry(line).or_default();
        known.retain(|known| *known != id);
        if known.back().is_none_or(|last| mark(&id) < mark(last)) {
            let place = known.partition_point(|other| mark(other) < mark(&id));
            known.insert(place, id);
        }
    }
}
