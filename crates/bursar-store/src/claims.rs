//! Which jobs can be leased, wait in a line or are due, found by a scan of all jobs. For engines that keep their jobs in maps; the
//! SQL engines return the same jobs from indexes.

use std::collections::BTreeSet;

use bursar_core::id::JobId;
use bursar_core::job::{Job, JobState, Place, wants};
use bursar_core::name::{FlowKey, Tenant};
use bursar_core::state::{LineKey, QueueKey, ScopeKey};
use bursar_core::time::{Span, Time};

use crate::figures::DueJobs;
use crate::transaction::rows::{ClaimQuery, Claimed};

/// The most due jobs of a queue that one transaction promotes; the same on every engine.
pub const DUE_STEP: usize = 1_000;

/// Returns the jobs of a queue that can be leased, and the due jobs to promote.
pub fn claim<'a>(jobs: impl Iterator<Item = &'a Job>, query: &ClaimQuery, now: Time) -> Claimed {
    let mut ready: Vec<&Job> = jobs.filter(|job| is_in(job, &query.queue)).collect();
    // Due jobs of every kind are promoted, so that later requests do not scan past them again.
    let mut due: Vec<(Time, &Job)> = ready.iter().filter_map(|job| Some((job.comes_due()?, *job))).collect();
    ready.retain(|job| job.is_ready() && wants(&query.kinds, &job.kind));
    ready.sort_by_key(|job| (job.life.rank, job.id));
    due.sort_by_key(|(at, job)| (*at, job.id));
    let promoted = due.iter().take_while(|(at, _)| *at <= now).count().min(DUE_STEP);
    Claimed {
        ready: ready.into_iter().take(query.count).cloned().collect(),
        next_at: due.get(promoted).map(|(at, _)| *at),
        due: due.into_iter().take(promoted).map(|(_, job)| job.clone()).collect(),
    }
}

/// Returns up to `count` jobs behind the head of a line, the best rank first.
pub fn behind<'a>(jobs: impl Iterator<Item = &'a Job>, line: &LineKey, count: usize) -> Vec<Job> {
    let is_behind = |job: &&Job| job.life.place == Place::Behind && job.line_key().as_ref() == Some(line);
    let mut behind: Vec<&Job> = jobs.filter(is_behind).collect();
    behind.sort_by_key(|job| (job.life.rank, job.id));
    behind.into_iter().take(count).cloned().collect()
}

/// Returns the barred heads of the lines of flow keys.
pub fn barred_heads<'a>(jobs: impl Iterator<Item = &'a Job>, keys: &[(QueueKey, FlowKey)]) -> Vec<Job> {
    let wanted = |job: &Job| keys.iter().any(|(queue, key)| is_in(job, queue) && job.key.as_ref() == Some(key));
    jobs.filter(|job| job.life.place == Place::Barred && wanted(job)).cloned().collect()
}

/// Returns the barred heads of a queue's lines, for at most `limit` flow keys after one; and the last of these keys, `None` at the
/// end.
pub fn barred<'a, I: Iterator<Item = &'a Job>>(
    jobs: impl Fn() -> I,
    queue: &QueueKey,
    after: Option<&FlowKey>,
    limit: usize,
) -> (Vec<JobId>, Option<FlowKey>) {
    let waiting = jobs().filter(|job| is_in(job, queue) && matches!(job.life.place, Place::Barred | Place::Behind));
    let keys: BTreeSet<&FlowKey> = waiting.filter_map(|job| job.key.as_ref()).collect();
    let keys: BTreeSet<&FlowKey> =
        keys.into_iter().filter(|key| after.is_none_or(|after| *key > after)).take(limit).collect();
    let barred = |job: &&Job| {
        job.life.place == Place::Barred && is_in(job, queue) && job.key.as_ref().is_some_and(|key| keys.contains(key))
    };
    let last = keys.last().filter(|_| keys.len() == limit).map(|key| (*key).clone());
    (jobs().filter(barred).map(|job| job.id).collect(), last)
}

/// Returns the scopes that jobs await units of.
pub fn awaited<'a>(jobs: impl Iterator<Item = &'a Job>) -> BTreeSet<ScopeKey> {
    let parked = jobs.filter(|job| job.life.state == JobState::AwaitingBudget);
    parked.filter_map(|job| Some((job.tenant.clone(), job.life.awaits.clone()?))).collect()
}

/// Returns the jobs that maintenance has to look at, the longest overdue first, at most `limit` of each sort. `kept` returns the
/// retention of a finished job.
pub fn due<'a, I: Iterator<Item = &'a Job>>(
    jobs: impl Fn() -> I,
    kept: impl Fn(&Job) -> Option<Span>,
    now: Time,
    limit: usize,
) -> DueJobs {
    let due_by = |at: &dyn Fn(&Job) -> Option<Time>| -> Vec<(Tenant, JobId)> {
        let due = jobs().filter_map(|job| Some((at(job).filter(|at| *at <= now)?, job)));
        let mut due: Vec<(Time, &Job)> = due.collect();
        due.sort_by_key(|(at, job)| (*at, job.id));
        due.into_iter().take(limit).map(|(_, job)| (job.tenant.clone(), job.id)).collect()
    };
    DueJobs {
        lapsed: due_by(&|job| job.life.lease.as_ref().map(|lease| lease.lapses_at())),
        awaiting: due_by(&|job| (job.life.state == JobState::AwaitingBudget).then_some(job.life.run_at)),
        ended: due_by(&|job| Some(job.life.run_at.after(kept(job)?))),
    }
}

/// Whether a job belongs to a queue.
pub fn is_in(job: &Job, queue: &QueueKey) -> bool {
    job.tenant == queue.0 && job.queue == queue.1
}
