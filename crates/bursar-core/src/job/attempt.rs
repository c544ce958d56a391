//! Attempts that have ended, for traces.

use crate::id::JobId;
use crate::job::{Job, JobRuntime, Lease, LeaseEnd};
use crate::name::{JobKind, Queue, WorkerName};
use crate::time::Time;
use crate::trace::TraceParent;

/// An attempt that has ended, of a job whose trace is sampled.
///
/// The row of a job forgets when a lease began as soon as the lease ends. So what a span needs to know is collected when the end is
/// decided. It is not in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedAttempt {
    /// The event of the entry that ends it, counted from 0.
    pub event: usize,
    /// The job.
    pub job: JobId,
    /// The queue that the job was leased from.
    pub queue: Queue,
    /// The kind of the job.
    pub kind: JobKind,
    /// The trace of the job.
    pub traceparent: TraceParent,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The fence of the lease.
    pub fence: u64,
    /// The worker.
    pub worker: WorkerName,
    /// When the lease began.
    pub began: Time,
    /// When it ended.
    pub ended: Time,
    /// How it ended.
    pub end: LeaseEnd,
    /// The kind of the error, if it failed or lapsed.
    pub error: Option<String>,
}

/// An attempt that runs, of a job whose trace is sampled.
pub(crate) struct RunningAttempt {
    traceparent: TraceParent,
    attempt: u32,
    lease: Lease,
}

impl RunningAttempt {
    /// Returns the attempt of a job, if it has one and its trace is sampled.
    pub(crate) fn of(job: &Job) -> Option<RunningAttempt> {
        let traceparent = job.traceparent.filter(TraceParent::is_sampled)?;
        Some(RunningAttempt { traceparent, attempt: job.life.attempts, lease: job.life.lease.clone()? })
    }

    /// Returns the attempt as an event has left it, if the event has ended it.
    pub(crate) fn ended_by(self, event: usize, job: &Job, now: Time) -> Option<EndedAttempt> {
        let JobRuntime { ended: Some(end), lease: None, fence, error, .. } = &job.life else { return None };
        let failed = matches!(end, LeaseEnd::Failed | LeaseEnd::Lapsed);
        Some(EndedAttempt {
            event,
            job: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            traceparent: self.traceparent,
            attempt: self.attempt,
            fence: *fence,
            worker: self.lease.worker,
            began: self.lease.since,
            ended: now,
            end: *end,
            error: error.as_ref().filter(|_| failed).map(|error| error.kind.clone()),
        })
    }
}
