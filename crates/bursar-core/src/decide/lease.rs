//! Leases: who gets which job, and signs of life.

use std::collections::{BTreeMap, BTreeSet};

use crate::answer::{Beaten, Leased};
use crate::decide::decision::Decision as Deed;
use crate::event::{Charged, Event};
use crate::id::JobId;
use crate::job::{Beat, FlowScopes, Job, LeaseAsk, Order, QueueConfig, Rate};
use crate::mutant::Mutant;
use crate::name::{Queue, Scope};
use crate::page::{Filling, Weighs};
use crate::refusal::Refusal;
use crate::scope::Posting;
use crate::time::{Span, Time};

/// Whether a job may be leased.
enum Flow {
    /// It may, and takes these slots.
    Open(Vec<Scope>),
    /// Nothing more from this queue.
    QueueFull,
    /// Nothing more from this queue until then.
    QueueAt(Time),
    /// Its key is at its limit.
    KeyFull,
    /// Its key may be leased again from then on.
    KeyAt(Time),
    /// It waits no more, or elsewhere: a neighbour in the batch has done something to it since it was read.
    Gone,
    /// Not by this transaction.
    Not,
    /// Its payload was not read: there were too many large ones.
    Unread,
}

/// Leases as many jobs as are wanted and can be had, the best first. `None` when those that were read could not go, and there
/// may be others: load again.
pub(super) fn lease(deed: &mut Deed<'_>, ask: &LeaseAsk) -> Option<Leased> {
    // What was read is what the queue asked for before a neighbour in the batch changed it.
    if ask.queues.iter().any(|queue| deed.ws.queues.is_changed(&(deed.context.tenant.clone(), queue.clone()))) {
        return None;
    }
    let mut leased = Leased { at: deed.now(), ..Leased::default() };
    let mut gone = false;
    let mut rates: BTreeMap<Scope, (Rate, i64)> = BTreeMap::new();
    let mut closed: BTreeSet<Queue> = BTreeSet::new();
    for queue in &ask.queues {
        let claims = deed.ws.claims.get(&(deed.context.tenant.clone(), queue.clone()));
        let next_at = claims.and_then(|claims| claims.next_at);
        leased.next_at = [leased.next_at, next_at].into_iter().flatten().min();
        if deed.config(queue).paused && !Mutant::LeasePaused.on() {
            closed.insert(queue.clone());
        }
    }
    let mut page = Filling::new(ask.capacity as usize);
    while !page.is_full() {
        let Some((queue, place)) = best(deed, ask, &closed) else { break };
        let key = (deed.context.tenant.clone(), queue.clone());
        let claims = deed.ws.claims.get_mut(&key).expect("the best is among them");
        let id = claims.jobs.remove(place).expect("the best is among them");
        let config = deed.config(&queue);
        match flow(deed, id, &queue, &config, &rates) {
            Flow::Open(slots) => {
                take(deed, ask, id, &config, slots);
                for (scope, rate) in rated(deed, id, &config) {
                    rates.entry(scope).or_insert((rate, 0)).1 += 1;
                }
                let job = deed.ws.jobs.get(&id).expect("it was just leased").clone();
                page.add(job.bytes());
                leased.jobs.push(job);
            }
            stop @ (Flow::QueueFull | Flow::QueueAt(_)) => {
                let claims = deed.ws.claims.get_mut(&key).expect("the best was among them");
                claims.jobs.insert(place, id);
                closed.insert(queue);
                if let Flow::QueueAt(at) = stop {
                    leased.next_at = Some(leased.next_at.map_or(at, |known| known.min(at)));
                }
            }
            Flow::KeyFull => {
                deed.ws.bar(id);
                deed.ws.claims.entry(key).or_default().passed_over = true;
            }
            Flow::KeyAt(at) => {
                deed.ws.put_off(id, at);
                deed.ws.claims.entry(key).or_default().passed_over = true;
                leased.next_at = Some(leased.next_at.map_or(at, |known| known.min(at)));
            }
            Flow::Unread => {
                let claims = deed.ws.claims.entry(key).or_default();
                (claims.more, claims.passed_over) = (true, true);
            }
            Flow::Gone => gone = true,
            Flow::Not => {}
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
        deed.emit(Event::Posted { charges });
    }
    let unseen = |queue: &Queue| {
        let claims = deed.ws.claims.get(&(deed.context.tenant.clone(), queue.clone()));
        !closed.contains(queue) && claims.is_some_and(|claims| claims.more && claims.passed_over)
    };
    let again = leased.jobs.is_empty() && (gone || ask.queues.iter().any(unseen));
    (!again).then_some(leased)
}

/// The best job that is wanted: its queue, and its place among what can be leased there.
fn best(deed: &Deed<'_>, ask: &LeaseAsk, closed: &BTreeSet<Queue>) -> Option<(Queue, usize)> {
    let open = ask.queues.iter().filter(|queue| !closed.contains(*queue));
    let firsts = open.filter_map(|queue| {
        let claims = deed.ws.claims.get(&(deed.context.tenant.clone(), queue.clone()))?;
        let wanted = |id: &JobId| deed.ws.jobs.get(id).is_some_and(|job| ask.wants(&job.kind));
        let place = claims.jobs.iter().position(wanted)?;
        let job = deed.ws.jobs.get(&claims.jobs[place])?;
        Some((job.life.rank, job.id, queue, place))
    });
    firsts.min_by_key(|(rank, id, ..)| (*rank, *id)).map(|(_, _, queue, place)| (queue.clone(), place))
}

fn take(deed: &mut Deed<'_>, ask: &LeaseAsk, id: JobId, config: &QueueConfig, slots: Vec<Scope>) {
    let job = deed.ws.jobs.get(&id).expect("it was loaded to be leased");
    let line = job.line_led();
    let deadline = job.deadline.or(config.deadline).map_or(Time::NEVER, |span| deed.now().after(span));
    let event = Event::JobLeased {
        job: id,
        fence: job.life.fence + u64::from(!Mutant::SameFence.on()),
        attempt: job.life.attempts + 1,
        worker: ask.worker.clone(),
        lease: ask.lease.unwrap_or(config.lease),
        deadline,
        slots,
        owner: deed.context.reporter.as_ref().map(|reporter| reporter.owner.clone()),
    };
    let queue = (job.tenant.clone(), job.queue.clone());
    deed.emit(event);
    // The next of its line may go as well, after those that wait already.
    if let Some(next) = line.and_then(|line| deed.next_in(&line)) {
        let rank = deed.ws.jobs.get(&next).expect("it stood in the line").life.rank;
        let jobs = &deed.ws.jobs;
        let claims = deed.ws.claims.entry(queue).or_default();
        // Also after those of the same instant, whose keys would otherwise go by who was enqueued first.
        let before = |other: &JobId| jobs.get(other).is_some_and(|job| job.life.rank <= rank);
        let place = claims.jobs.iter().rposition(before).map_or(0, |place| place + 1);
        claims.jobs.insert(place, next);
    }
}

fn flow(deed: &Deed<'_>, id: JobId, queue: &Queue, config: &QueueConfig, rates: &BTreeMap<Scope, (Rate, i64)>) -> Flow {
    let Some(job) = deed.ws.jobs.get(&id) else { return Flow::Not };
    if !job.is_ready() || job.queue != *queue {
        return Flow::Gone;
    }
    if job.payload.is_elsewhere() {
        return Flow::Unread;
    }
    if !deed.can_leave(job) {
        return Flow::Not;
    }
    let mut slots = Vec::new();
    let queue = FlowScopes::of_queue(&job.queue);
    if let Some(most) = config.concurrency {
        if running(deed, &queue.slots) >= i64::from(most) && !Mutant::IgnoreConcurrency.on() {
            return Flow::QueueFull;
        }
        slots.push(queue.slots);
    }
    match config.rate.map(|rate| wait_for(deed, &queue.rate, rate, rates)) {
        Some(wait) if wait > Span::ZERO && !Mutant::IgnoreRate.on() => return Flow::QueueAt(deed.now().after(wait)),
        _ => {}
    }
    let Some(key) = &job.key else { return Flow::Open(slots) };
    let key = FlowScopes::of_key(&job.queue, key);
    if let Some(most) = config.key_concurrency {
        if running(deed, &key.slots) >= i64::from(most) && !Mutant::IgnoreKeyConcurrency.on() {
            return Flow::KeyFull;
        }
        slots.push(key.slots);
    }
    match config.key_rate.map(|rate| wait_for(deed, &key.rate, rate, rates)) {
        Some(wait) if wait > Span::ZERO => Flow::KeyAt(deed.now().after(wait)),
        _ => Flow::Open(slots),
    }
}

/// The rates that a lease of the job counts for.
fn rated(deed: &Deed<'_>, id: JobId, config: &QueueConfig) -> Vec<(Scope, Rate)> {
    let job = deed.ws.jobs.get(&id).expect("it was just leased");
    let queue = config.rate.map(|rate| (FlowScopes::of_queue(&job.queue).rate, rate));
    let key = job.key.as_ref().and_then(|key| Some((FlowScopes::of_key(&job.queue, key).rate, config.key_rate?)));
    queue.into_iter().chain(key).collect()
}

fn running(deed: &Deed<'_>, slots: &Scope) -> i64 {
    let row = deed.ws.scopes.get(&(deed.context.tenant.clone(), slots.clone()));
    row.map_or(0, |row| row.balances[0].held)
}

/// How long it takes until one more lease fits the rate; zero when it does.
fn wait_for(deed: &Deed<'_>, scope: &Scope, rate: Rate, taken: &BTreeMap<Scope, (Rate, i64)>) -> Span {
    let limit = rate.limit();
    let taken = taken.get(scope).map_or(0, |(_, count)| *count);
    let row = deed.ws.scopes.get(&(deed.context.tenant.clone(), scope.clone()));
    let Some(balance) = row.and_then(|row| row.balance(&limit.window)) else {
        return if taken < limit.amount { Span::ZERO } else { rate.per };
    };
    if balance.remaining(limit.amount) > taken {
        return Span::ZERO;
    }
    // What this request has taken is posted once it is known how many it takes.
    let mut after = row.expect("it has a balance").clone();
    let posting = Posting { at: deed.now(), seq: u64::MAX, amount: taken, hold: None };
    after.settle(Time::MIN, 0, &[posting]);
    let wait = after.balance(&limit.window).and_then(|left| left.retry_after(limit.amount, 1, deed.now(), Time::NEVER));
    wait.unwrap_or(rate.per).max(Span::from_micros(1))
}

/// A sign of life puts the lapse off, and tells what to do.
pub(super) fn beat(deed: &mut Deed<'_>, beat: &Beat) -> Result<Beaten, Refusal> {
    let now = deed.now();
    let job = deed.job(beat.job)?;
    check_owner(deed, job, beat.fence)?;
    if job.life.lease.is_none() || job.life.fence != beat.fence {
        return Err(lost(job, beat.fence, false));
    }
    let order = match () {
        () if job.life.cancelling => Order::Cancel,
        () if deed.config(&job.queue).paused => Order::Drain,
        () => Order::Continue,
    };
    let job = deed.ws.jobs.get_mut(&beat.job).expect("it was just there");
    let lease = job.life.lease.as_mut().expect("it was just there");
    lease.until = lease.until.max(now.after(lease.length));
    Ok(Beaten { job: beat.job, order, until: lease.lapses_at() })
}

/// Refuses a principal that reports on a lease which another one took.
pub(super) fn check_owner(deed: &Deed<'_>, job: &Job, fence: u64) -> Result<(), Refusal> {
    let Some(reporter) = &deed.context.reporter else { return Ok(()) };
    let foreign = match job.owner_of(fence) {
        Some(owner) => *owner != reporter.owner,
        // The program that embeds Bursar took it. Of leases that an earlier build began it is not known who did.
        None => fence == job.life.fence && job.life.settled.is_some(),
    };
    match foreign && !Mutant::AnyoneReports.on() {
        true => Err(Refusal::ForeignLease { job: job.id, fence }),
        false => Ok(()),
    }
}

/// The lease is not the asker's any more.
pub(super) fn lost(job: &Job, fence: u64, billed: bool) -> Refusal {
    Refusal::LeaseLost { job: job.id, fence, state: job.life.state, billed }
}
