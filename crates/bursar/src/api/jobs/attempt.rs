//! The attempts of a job, as the journal tells them.

use bursar_core::event::Event;
use bursar_core::job::JobError;
use bursar_core::name::WorkerName;
use bursar_core::time::Time;

use crate::api::journal::JournalEvent;

/// One attempt of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Which attempt it was; a job that is retried after its end begins with the first again.
    pub attempt: u32,
    /// The number of its lease.
    pub fence: u64,
    /// Who worked on it.
    pub worker: WorkerName,
    /// When it began.
    pub began_at: Time,
    /// When and how it ended, unless it goes on.
    pub end: Option<(Time, AttemptEnd)>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// It worked.
    Succeeded,
    /// It did not.
    Failed(JobError),
    /// The worker gave no sign of life, or the run took too long.
    Rescued(JobError),
    /// The worker put it off; it does not count.
    Snoozed,
    /// The worker handed it back; it does not count.
    Returned,
}

impl AttemptEnd {
    /// What went wrong, if something did.
    pub fn error(&self) -> Option<&JobError> {
        match self {
            AttemptEnd::Failed(error) | AttemptEnd::Rescued(error) => Some(error),
            _ => None,
        }
    }
}

/// The attempts that events of one job tell, oldest first.
pub(super) fn attempts(events: &[JournalEvent]) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    for JournalEvent { event, at, .. } in events {
        let (ended, end) = match event {
            Event::JobLeased { attempt, fence, worker, .. } => {
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
