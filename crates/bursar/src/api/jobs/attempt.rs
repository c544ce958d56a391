//! The attempts of a job, derived from its events.

use bursar_core::event::{Event, LeasedJob};
use bursar_core::job::JobError;
use bursar_core::name::WorkerName;
use bursar_core::time::Time;

use crate::api::journal::JournalEvent;

/// One attempt of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The number of the attempt, from 1. A job that is retried after its end starts at 1 again.
    pub attempt: u32,
    /// The fence of its lease.
    pub fence: u64,
    /// The worker that leased the job.
    pub worker: WorkerName,
    /// When the lease started.
    pub began_at: Time,
    /// When and how it ended; `None` while it runs.
    pub end: Option<(Time, AttemptEnd)>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The job succeeded.
    Succeeded,
    /// The worker reported an error.
    Failed(JobError),
    /// The lease expired, or the run exceeded its deadline.
    Rescued(JobError),
    /// The worker postponed the job. It does not count as an attempt.
    Snoozed,
    /// The worker returned the job before starting it. It does not count as an attempt.
    Returned,
}

impl AttemptEnd {
    /// Returns the error of a failed or rescued attempt.
    pub fn error(&self) -> Option<&JobError> {
        match self {
            AttemptEnd::Failed(error) | AttemptEnd::Rescued(error) => Some(error),
            _ => None,
        }
    }
}

/// Returns the attempts in the events of one job, both oldest first.
pub(super) fn from_events(events: &[JournalEvent]) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    for JournalEvent { event, at, .. } in events {
        let (ended, end) = match event {
            Event::JobLeased(LeasedJob { attempt, fence, worker, .. }) => {
                let (attempt, fence, worker, began_at) = (*attempt, *fence, worker.clone(), *at);
                attempts.push(Attempt { attempt, fence, worker, began_at, end: None });
                continue;
            }
            Event::JobSucceeded { fence, .. } => (*fence, AttemptEnd::Succeeded),
            Event::JobFailed { fence, error, .. } => (*fence, AttemptEnd::Failed(error.clone())),
            Event::JobRescued { fence, error, .. } => (*fence, AttemptEnd::Rescued(error.clone())),
            Event::JobSnoozed { fence, .. } => (*fence, AttemptEnd::Snoozed),
            Event::JobReturned { fence, .. } => (*fence, AttemptEnd::Returned),
            _ => continue,
        };
        if let Some(attempt) = attempts.iter_mut().find(|attempt| attempt.fence == ended) {
            attempt.end = Some((*at, end));
        }
    }
    attempts
}
