//! Which jobs can be leased, stand in a line or are due, found by looking at every job: what the indexes of an engine must
//! come to, in the plainest form. For engines that keep their jobs in maps.

use std::collections::BTreeSet;

use bursar_core::id::JobId;
use bursar_core::job::{Job, JobState, Place, wants};
use bursar_core::name::{FlowKey, Tenant};
use bursar_core::state::{LineKey, QueueKey, ScopeKey};
use bursar_core::time::{Span, Time};

use crate::figures::DueJobs;
use crate::transaction::rows::{ClaimAsk, Claimed};

/// Scheduled jobs that come due in one transaction and queue; the same on every engine.
pub const DUE_STEP: usize = 1_000;

/// Jobs that can be leased.
pub fn claim<'a>(jobs: impl Iterator<Item = &'a Job>, ask: &ClaimAsk, now: Time) -> Claimed {
    let mut ready: Vec<&Job> = jobs.filter(|job| is_in(job, &ask.queue)).collect();
    // Whoever asks promotes what is due, of whatever kind, so that nobody passes over it again and again.
    let mut due: Vec<(Time, &Job)> = ready.iter().filter_map(|job| Some((job.comes_due()?, *job))).collect();
    ready.retain(|job| job.is_ready() && wants(&ask.kinds, &job.kind));
    ready.sort_by_key(|job| (job.life.rank, job.id));
    due.sort_by_key(|(at, job)| (*at, job.id));
    let promoted = due.iter().take_while(|(at, _)| *at <= now).count().min(DUE_STEP);
    Claimed {
        ready: ready.into_iter().take(ask.count).cloned().collect(),
        next_at: due.get(promoted).map(|(at, _)| *at),
        due: due.into_iter().take(promoted).map(|(_, job)| job.clone()).collect(),
    }
}

/// The jobs behind the first of a line, so many, the best first.
pub fn behind<'a>(jobs: impl Iterator<Item = &'a Job>, line: &LineKey, count: usize) -> Vec<Job> {
    let stands = |job: &&Job| job.life.place == Place::Behind && job.line_key().as_ref() == Some(line);
    let mut behind: Vec<&Job> = jobs.filter(stands).collect();
    behind.sort_by_key(|job| (job.life.rank, job.id));
    behind.into_iter().take(count).cloned().collect()
}

/// Whether a job is the barred first of a line of one of these flow keys.
pub fn is_barred(job: &Job, keys: &[(QueueKey, FlowKey)]) -> bool {
    job.life.place == Place::Barred
        && keys.iter().any(|(queue, key)| is_in(job, queue) && job.key.as_ref() == Some(key))
}

/// The barred firsts of a queue, those of at most so many flow keys after one; and the last of these keys.
pub fn barred<'a, I: Iterator<Item = &'a Job>>(
    jobs: impl Fn() -> I,
    queue: &QueueKey,
    after: Option<&FlowKey>,
    limit: usize,
) -> (Vec<JobId>, Option<FlowKey>) {
    let lined = jobs().filter(|job| is_in(job, queue) && matches!(job.life.place, Place::Barred | Place::Behind));
    let keys: BTreeSet<&FlowKey> = lined.filter_map(|job| job.key.as_ref()).collect();
    let keys: BTreeSet<&FlowKey> =
        keys.into_iter().filter(|key| after.is_none_or(|after| *key > after)).take(limit).collect();
    let barred = |job: &&Job| {
        job.life.place == Place::Barred && is_in(job, queue) && job.key.as_ref().is_some_and(|key| keys.contains(key))
    };
    let last = keys.last().filter(|_| keys.len() == limit).map(|key| (*key).clone());
    (jobs().filter(barred).map(|job| job.id).collect(), last)
}

/// Scopes that jobs await units of.
pub fn awaited<'a>(jobs: impl Iterator<Item = &'a Job>) -> BTreeSet<ScopeKey> {
    let parked = jobs.filter(|job| job.life.state == JobState::AwaitingBudget);
    parked.filter_map(|job| Some((job.tenant.clone(), job.life.awaits.clone()?))).collect()
}

/// Jobs for the upkeep to look at, the first due first, at most so many of each kind. `kept` says for how long a finished
/// one is kept.
pub fn due<'a, I: Iterator<Item = &'a Job>>(
    jobs: impl Fn() -> I,
    kept: impl Fn(&Job) -> Option<Span>,
    now: Time,
    limit: usize,
) -> DueJobs {
    let some = |at: &dyn Fn(&Job) -> Option<Time>| -> Vec<(Tenant, JobId)> {
        let due = jobs().filter_map(|job| Some((at(job).filter(|at| *at <= now)?, job)));
        let mut due: Vec<(Time, &Job)> = due.collect();
        due.sort_by_key(|(at, job)| (*at, job.id));
        due.into_iter().take(limit).map(|(_, job)| (job.tenant.clone(), job.id)).collect()
    };
    DueJobs {
        lapsed: some(&|job| job.life.lease.as_ref().map(|lease| lease.lapses_at())),
        awaiting: some(&|job| (job.life.state == JobState::AwaitingBudget).then_some(job.life.run_at)),
        ended: some(&|job| Some(job.life.run_at.after(kept(job)?))),
    }
}

/// Whether a job waits or waited in a queue.
pub fn is_in(job: &Job, queue: &QueueKey) -> bool {
    job.tenant == queue.0 && job.queue == queue.1
}
