//! Which jobs can be leased, stand in a line or are due, found by looking at every job: what the indexes of an engine must
//! come to, in the plainest form. For engines that keep their jobs in maps.

use bursar_core::job::{Job, JobState, Place, wants};
use bursar_core::name::{FlowKey, Tenant};
use bursar_core::state::{LineKey, QueueKey};
use bursar_core::time::{Span, Time};

use crate::figures::DueJobs;
use crate::rows::{ClaimAsk, Claimed};

/// Scheduled jobs that come due in one transaction and queue; the same on every engine.
pub const DUE_STEP: usize = 1_000;

/// Jobs that can be leased.
pub fn claim<'a>(jobs: impl Iterator<Item = &'a Job>, ask: &ClaimAsk, now: Time) -> Claimed {
    let wanted = jobs.filter(|job| is_in(job, &ask.queue) && wants(&ask.kinds, &job.kind));
    let (mut ready, mut due) = (Vec::new(), Vec::new());
    for job in wanted {
        match job.life.state {
            JobState::Queued if matches!(job.life.place, Place::Out | Place::First) => ready.push(job),
            JobState::Scheduled => due.push(job),
            _ => {}
        }
    }
    ready.sort_by_key(|job| (job.life.rank, job.id));
    due.sort_by_key(|job| (job.life.run_at, job.id));
    let next_at = due.iter().map(|job| job.life.run_at).find(|run_at| *run_at > now);
    due.retain(|job| job.life.run_at <= now);
    let some = |jobs: Vec<&Job>, count: usize| jobs.into_iter().take(count).cloned().collect::<Vec<_>>();
    Claimed { ready: some(ready, ask.count), due: some(due, DUE_STEP), next_at }
}

/// The jobs behind the first of a line, so many, the best first.
pub fn behind<'a>(jobs: impl Iterator<Item = &'a Job>, line: &LineKey, count: usize) -> Vec<Job> {
    let (tenant, queue, key, kind) = line;
    let mut behind: Vec<&Job> = jobs
        .filter(|job| job.life.place == Place::Behind && job.key.as_ref() == Some(key))
        .filter(|job| (&job.tenant, &job.queue, &job.kind) == (tenant, queue, kind))
        .collect();
    behind.sort_by_key(|job| (job.life.rank, job.id));
    behind.into_iter().take(count).cloned().collect()
}

/// Whether a job is the barred first of a line of one of these flow keys.
pub fn is_barred(job: &Job, keys: &[(QueueKey, FlowKey)]) -> bool {
    job.life.place == Place::Barred
        && keys.iter().any(|(queue, key)| is_in(job, queue) && job.key.as_ref() == Some(key))
}

/// Jobs for the upkeep to look at, at most so many of each kind. `kept` says for how long a finished one is kept.
pub fn due<'a, I: Iterator<Item = &'a Job>>(
    jobs: impl Fn() -> I,
    kept: impl Fn(&Job) -> Option<Span>,
    now: Time,
    limit: usize,
) -> DueJobs {
    let some = |wanted: &dyn Fn(&&Job) -> bool| -> Vec<(Tenant, bursar_core::id::JobId)> {
        jobs().filter(wanted).take(limit).map(|job| (job.tenant.clone(), job.id)).collect()
    };
    DueJobs {
        lapsed: some(&|job| job.life.lease.as_ref().is_some_and(|lease| lease.lapses_at() <= now)),
        awaiting: some(&|job| job.life.state == JobState::AwaitingBudget && job.life.run_at <= now),
        ended: some(&|job| kept(job).is_some_and(|kept| job.life.run_at.after(kept) <= now)),
    }
}

/// Whether a job waits or waited in a queue.
pub fn is_in(job: &Job, queue: &QueueKey) -> bool {
    job.tenant == queue.0 && job.queue == queue.1
}
