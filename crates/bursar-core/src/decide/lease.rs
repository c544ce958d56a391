//! Decides which jobs a worker gets, and heartbeats.
//!
//! # Order
//!
//! Jobs are leased in order of rank, then id; see [`rank`](crate::job::rank). The store loads the first ready jobs of
//! each queue ([`Claims`](crate::state::Claims)), and the best one over all requested queues is leased until the worker
//! has enough.
//!
//! # Flow control
//!
//! The limits of a queue are limits on internal scopes ([`FlowScopes`]). A lease takes one slot of the queue and one of
//! its flow key, and a token of each rate. If the queue is at a limit, no more jobs are leased from it. If only the flow
//! key is at a limit, the head of its line waits: for a free slot (it is barred), or until the rate admits it. The next
//! best job is then tried.
//!
//! # Stale reads
//!
//! The loaded jobs may have changed since: by an earlier request of the batch, or because a queue was redefined. Every
//! job is checked again here. If the worker would get nothing but other jobs may be ready, the request is loaded and
//! decided again.

use std::collections::{BTreeMap, BTreeSet};

use crate::answer::{Leased, Renewed};
use crate::decide::decision::{Decision, Stop};
use crate::event::{Charged, CheckpointedJob, Event, LeasedJob};
use crate::id::JobId;
use crate::job::{
    Emit, FlowScopes, HeartbeatItem, Job, LastReport, LeaseRequest, Order, Progress, QueueConfig, Rate, kept_checkpoint,
};
use crate::mutant::Mutant;
use crate::name::{Queue, Scope};
use crate::page::{PageFill, PageItem};
use crate::refusal::Refusal;
use crate::scope::Posting;
use crate::time::{Span, Time};

/// Whether a job may be leased.
enum Check {
    /// It may, and takes these slots.
    Allowed(Vec<Scope>),
    /// The queue is at its concurrency limit.
    QueueFull,
    /// The rate of the queue admits the next lease at this instant.
    QueueAt(Time),
    /// The flow key is at its concurrency limit.
    KeyFull,
    /// The rate of the flow key admits the next lease at this instant.
    KeyAt(Time),
    /// An earlier request of the batch changed the job: it is not ready any more, or in another queue.
    Stale,
    /// The job is not loaded, or the next job of its line is not.
    NotLoaded,
    /// Its payload was not loaded, because the loaded payloads reached their bound.
    PayloadNotLoaded,
}

/// Leases up to the requested number of jobs, best rank first. Returns `None` if the loaded jobs could not be leased
/// but others may be ready: the request must be loaded and decided again.
pub(super) fn lease(decision: &mut Decision<'_>, request: &LeaseRequest) -> Option<Leased> {
    // The jobs were loaded for the settings that the queue had before an earlier request of the batch changed them.
    if request
        .queues
        .iter()
        .any(|queue| decision.ws.queues.is_changed(&(decision.context.tenant.clone(), queue.clone())))
    {
        return None;
    }
    let mut leased = Leased { at: decision.now(), ..Leased::default() };
    let mut stale = false;
    let mut rates: BTreeMap<Scope, (Rate, i64)> = BTreeMap::new();
    let mut closed: BTreeSet<Queue> = BTreeSet::new();
    for queue in &request.queues {
        let claims = decision.ws.claims.get(&(decision.context.tenant.clone(), queue.clone()));
        let next_at = claims.and_then(|claims| claims.next_at);
        leased.next_at = [leased.next_at, next_at].into_iter().flatten().min();
        if decision.config(queue).paused && !Mutant::LeasePaused.on() {
            closed.insert(queue.clone());
        }
    }
    let mut page = PageFill::new(request.capacity as usize);
    while !page.is_full() {
        let Some((queue, place)) = best(decision, request, &closed) else { break };
        let key = (decision.context.tenant.clone(), queue.clone());
        let claims = decision.ws.claims.get_mut(&key).expect("the best job is among the claims");
        let id = claims.jobs.remove(place).expect("the best job is among the claims");
        let config = decision.config(&queue);
        match check(decision, id, &queue, &config, &rates) {
            Check::Allowed(slots) => {
                take(decision, request, id, &config, slots);
                for (scope, rate) in rates_of(decision, id, &config) {
                    rates.entry(scope).or_insert((rate, 0)).1 += 1;
                }
                let job = decision.ws.jobs.get(&id).expect("the job was just leased").clone();
                page.add(job.bytes());
                leased.jobs.push(job);
            }
            stop @ (Check::QueueFull | Check::QueueAt(_)) => {
                let claims = decision.ws.claims.get_mut(&key).expect("the best job was among the claims");
                claims.jobs.insert(place, id);
                closed.insert(queue);
                if let Check::QueueAt(at) = stop {
                    leased.next_at = Some(leased.next_at.map_or(at, |known| known.min(at)));
                }
            }
            Check::KeyFull => {
                decision.ws.bar(id);
                decision.ws.claims.entry(key).or_default().skipped_some = true;
            }
            Check::KeyAt(at) => {
                decision.ws.put_off(id, at);
                decision.ws.claims.entry(key).or_default().skipped_some = true;
                leased.next_at = Some(leased.next_at.map_or(at, |known| known.min(at)));
            }
            Check::PayloadNotLoaded => {
                let claims = decision.ws.claims.entry(key).or_default();
                (claims.more, claims.skipped_some) = (true, true);
            }
            Check::Stale => stale = true,
            Check::NotLoaded => {}
        }
    }
    let charges = rates.into_iter().map(|(scope, (rate, count))| Charged {
        scope,
        amount: count,
        actual: None,
        ancestors: Vec::new(),
        limits: vec![rate.limit()],
        balances: Vec::new(),
    });
    let charges: Vec<Charged> = charges.collect();
    if !charges.is_empty() {
        decision.emit(Event::Posted { charges });
    }
    let may_have_more = |queue: &Queue| {
        let claims = decision.ws.claims.get(&(decision.context.tenant.clone(), queue.clone()));
        !closed.contains(queue) && claims.is_some_and(|claims| claims.more && claims.skipped_some)
    };
    let again = leased.jobs.is_empty() && (stale || request.queues.iter().any(may_have_more));
    (!again).then_some(leased)
}

/// Returns the queue of the best requested job, and the job's index among the claims of that queue.
fn best(decision: &Decision<'_>, request: &LeaseRequest, closed: &BTreeSet<Queue>) -> Option<(Queue, usize)> {
    let open = request.queues.iter().filter(|queue| !closed.contains(*queue));
    let firsts = open.filter_map(|queue| {
        let claims = decision.ws.claims.get(&(decision.context.tenant.clone(), queue.clone()))?;
        let wanted = |id: &JobId| decision.ws.jobs.get(id).is_some_and(|job| request.wants(&job.kind));
        let place = claims.jobs.iter().position(wanted)?;
        let job = decision.ws.jobs.get(&claims.jobs[place])?;
        Some((job.life.rank, job.id, queue, place))
    });
    firsts.min_by_key(|(rank, id, ..)| (*rank, *id)).map(|(_, _, queue, place)| (queue.clone(), place))
}

/// Leases a job, and promotes the next job of its line.
fn take(decision: &mut Decision<'_>, request: &LeaseRequest, id: JobId, config: &QueueConfig, slots: Vec<Scope>) {
    let job = decision.ws.jobs.get(&id).expect("the job was loaded to be leased");
    let line = job.headed_line();
    let deadline = job.deadline.or(config.deadline).map_or(Time::NEVER, |span| decision.now().after(span));
    let event = Event::JobLeased(LeasedJob {
        job: id,
        fence: job.life.fence + u64::from(!Mutant::SameFence.on()),
        attempt: job.life.attempts + 1,
        worker: request.worker.clone(),
        lease: request.lease.unwrap_or(config.lease),
        deadline,
        slots,
        owner: decision.context.reporter.as_ref().map(|reporter| reporter.owner.clone()),
    });
    let queue = (job.tenant.clone(), job.queue.clone());
    decision.emit(event);
    // The next job of the line becomes ready, behind the jobs that are ready already.
    if let Some(next) = line.and_then(|line| decision.promote_next(&line)) {
        let rank = decision.ws.jobs.get(&next).expect("the next job was in the line").life.rank;
        let jobs = &decision.ws.jobs;
        let claims = decision.ws.claims.entry(queue).or_default();
        // It goes behind jobs of the same rank too. Otherwise the ids of jobs would decide the order of flow keys.
        let before = |other: &JobId| jobs.get(other).is_some_and(|job| job.life.rank <= rank);
        let place = claims.jobs.iter().rposition(before).map_or(0, |place| place + 1);
        claims.jobs.insert(place, next);
    }
}

/// Checks whether a job may be leased now. `rates` has what this request has taken of each rate so far.
fn check(
    decision: &Decision<'_>,
    id: JobId,
    queue: &Queue,
    config: &QueueConfig,
    rates: &BTreeMap<Scope, (Rate, i64)>,
) -> Check {
    let Some(job) = decision.ws.jobs.get(&id) else { return Check::NotLoaded };
    if !job.is_ready() || job.queue != *queue {
        return Check::Stale;
    }
    if job.payload.is_elsewhere() {
        return Check::PayloadNotLoaded;
    }
    if !decision.can_leave_line(job) {
        return Check::NotLoaded;
    }
    let mut slots = Vec::new();
    let queue = FlowScopes::of_queue(&job.queue);
    if let Some(limit) = config.concurrency {
        if slots_taken(decision, &queue.slots) >= i64::from(limit) && !Mutant::IgnoreConcurrency.on() {
            return Check::QueueFull;
        }
        slots.push(queue.slots);
    }
    match config.rate.map(|rate| rate_wait(decision, &queue.rate, rate, rates)) {
        Some(wait) if wait > Span::ZERO && !Mutant::IgnoreRate.on() => {
            return Check::QueueAt(decision.now().after(wait));
        }
        _ => {}
    }
    let Some(key) = &job.key else { return Check::Allowed(slots) };
    let key = FlowScopes::of_key(&job.queue, key);
    if let Some(limit) = config.key_concurrency {
        if slots_taken(decision, &key.slots) >= i64::from(limit) && !Mutant::IgnoreKeyConcurrency.on() {
            return Check::KeyFull;
        }
        slots.push(key.slots);
    }
    match config.key_rate.map(|rate| rate_wait(decision, &key.rate, rate, rates)) {
        Some(wait) if wait > Span::ZERO && !Mutant::IgnoreKeyRate.on() => Check::KeyAt(decision.now().after(wait)),
        _ => Check::Allowed(slots),
    }
}

/// Returns the rates that a lease of the job counts for, with their scopes.
fn rates_of(decision: &Decision<'_>, id: JobId, config: &QueueConfig) -> Vec<(Scope, Rate)> {
    let job = decision.ws.jobs.get(&id).expect("the job was just leased");
    let queue = config.rate.map(|rate| (FlowScopes::of_queue(&job.queue).rate, rate));
    let key = job.key.as_ref().and_then(|key| Some((FlowScopes::of_key(&job.queue, key).rate, config.key_rate?)));
    queue.into_iter().chain(key).collect()
}

/// Returns the number of leases that hold a slot of the scope.
fn slots_taken(decision: &Decision<'_>, slots: &Scope) -> i64 {
    let row = decision.ws.scopes.get(&(decision.context.tenant.clone(), slots.clone()));
    row.map_or(0, |row| row.balances[0].held)
}

/// Returns how long until one more lease fits the rate; zero if it fits now.
fn rate_wait(decision: &Decision<'_>, scope: &Scope, rate: Rate, taken: &BTreeMap<Scope, (Rate, i64)>) -> Span {
    let limit = rate.limit();
    let taken = taken.get(scope).map_or(0, |(_, count)| *count);
    let row = decision.ws.scopes.get(&(decision.context.tenant.clone(), scope.clone()));
    let Some(balance) = row.and_then(|row| row.balance(&limit.window)) else {
        return if taken < limit.amount { Span::ZERO } else { rate.per };
    };
    if balance.remaining(limit.amount) > taken {
        return Span::ZERO;
    }
    // The leases of this request are posted at its end, so they are not in the balance yet.
    let mut after = row.expect("the row has a balance").clone();
    let posting = Posting { at: decision.now(), seq: u64::MAX, amount: taken, hold: None };
    after.settle(Time::MIN, 0, &[posting]);
    let wait =
        after.balance(&limit.window).and_then(|left| left.retry_after(limit.amount, 1, decision.now(), Time::NEVER));
    wait.unwrap_or(rate.per).max(Span::from_micros(1))
}

/// Extends a lease, and tells the worker to continue, cancel or drain.
pub(super) fn beat(decision: &mut Decision<'_>, beat: &HeartbeatItem) -> Result<Renewed, Refusal> {
    beat.progress.as_ref().map_or(Ok(()), Progress::check)?;
    let now = decision.now();
    let job = decision.job(beat.job)?;
    check_owner(decision, job, beat.fence)?;
    if job.life.lease.is_none() || job.life.fence != beat.fence {
        let lost = lost(job, beat.fence, false);
        if let Some(progress) = beat.progress.as_ref().filter(|_| Mutant::KeepLostCheckpoint.on()) {
            report(decision, beat, progress);
        }
        return Err(lost);
    }
    let order = match () {
        () if job.life.cancelling => Order::Cancel,
        () if decision.config(&job.queue).paused => Order::Drain,
        () => Order::Continue,
    };
    let job = decision.ws.jobs.get_mut(&beat.job).expect("the job was just read");
    let lease = job.life.lease.as_mut().expect("the lease was just read");
    lease.until = lease.until.max(now.after(lease.length));
    let until = lease.lapses_at();
    if let Some(progress) = &beat.progress {
        report(decision, beat, progress);
    }
    let reports = reports_of(decision.job(beat.job)?, beat.fence);
    Ok(Renewed { job: beat.job, order, until, reports })
}

/// Stores a progress report. Only a checkpoint that differs from the last one is an event: it is what the next attempt needs.
fn report(decision: &mut Decision<'_>, beat: &HeartbeatItem, progress: &Progress) {
    let now = decision.now();
    let job = decision.ws.jobs.get_mut(&beat.job).expect("the job was just read");
    let number = reports_of(job, beat.fence) + 1;
    let Progress { percent, message, data, checkpoint } = progress.clone();
    match checkpoint.filter(|checkpoint| kept_checkpoint(checkpoint) != job.life.checkpoint) {
        Some(checkpoint) => {
            let (job, fence, report) = (beat.job, beat.fence, number);
            let event = CheckpointedJob { job, fence, report, checkpoint, percent, message, data };
            decision.emit(Event::JobCheckpointed(event));
        }
        None => {
            let report = LastReport { at: now, fence: beat.fence, number, percent, message, data };
            job.life.progress = Some(Box::new(report));
        }
    }
}

/// Records an event that a worker emits.
pub(super) fn emit(decision: &mut Decision<'_>, emit: &Emit) -> Result<(), Stop> {
    let job = decision.job(emit.job)?;
    check_owner(decision, job, emit.fence)?;
    if (job.life.lease.is_none() || job.life.fence != emit.fence) && !Mutant::EmitAfterLoss.on() {
        return Err(lost(job, emit.fence, false).into());
    }
    decision.emit(Event::JobEmitted(emit.clone()));
    Ok(())
}

/// Returns the number of progress reports under a lease so far.
fn reports_of(job: &Job, fence: u64) -> u64 {
    job.life.progress.as_ref().filter(|report| report.fence == fence).map_or(0, |report| report.number)
}

/// Refuses a principal that reports on a lease of another principal.
pub(super) fn check_owner(decision: &Decision<'_>, job: &Job, fence: u64) -> Result<(), Refusal> {
    let Some(reporter) = &decision.context.reporter else { return Ok(()) };
    let foreign = match job.owner_of(fence) {
        Some(owner) => *owner != reporter.owner,
        // The embedding program took the lease. The owner of a lease begun by an earlier build is unknown.
        None => fence == job.life.fence && job.life.settled.is_some(),
    };
    match foreign && !Mutant::AnyoneReports.on() {
        true => Err(Refusal::ForeignLease { job: job.id, fence }),
        false => Ok(()),
    }
}

/// Builds the refusal of a report on a lease that has ended.
pub(super) fn lost(job: &Job, fence: u64, billed: bool) -> Refusal {
    Refusal::LeaseLost { job: job.id, fence, state: job.life.state, billed }
}
