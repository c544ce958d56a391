//! The source of a worker's jobs, which also receives its heartbeats and reports.

use std::time::Duration;

use async_trait::async_trait;
use bursar_core::id::{BlobId, HoldId, JobId};
pub use bursar_core::job::Progress;
use bursar_core::job::{Emit, Finish, HeartbeatItem, LeaseRequest, Order};
use bursar_core::name::{FlowKey, IdempotencyKey, JobKind, Queue, Scope, Tag};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::trace::TraceParent;

/// A job that is leased to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedJob {
    /// The id of the job.
    pub id: JobId,
    /// The number of the lease, which every report must carry.
    pub fence: u64,
    /// How long the lease lasts without a heartbeat.
    pub lease: Duration,
    /// The queue of the job.
    pub queue: Queue,
    /// The type of work.
    pub kind: JobKind,
    /// The input of the handler.
    pub payload: Payload,
    /// The number of this attempt, counted from 1.
    pub attempt: u32,
    /// The number of failed attempts after which the job is dead, if the job sets it.
    pub max_attempts: Option<u32>,
    /// The idempotency key of the job; pass it to services that must not repeat an effect.
    pub idempotency_key: Option<IdempotencyKey>,
    /// The flow key.
    pub key: Option<FlowKey>,
    /// Words to find the job by.
    pub tags: Vec<Tag>,
    /// JSON that was stored with the job for its owner.
    pub metadata: Payload,
    /// The blobs that the job uses.
    pub blobs: Vec<BlobId>,
    /// The hold that the end of the job settles.
    pub hold: Option<HoldId>,
    /// The units that the hold sets aside, by scope; `None` if they could not be read. Empty if the job has no hold.
    pub held: Option<Vec<(Scope, i64)>>,
    /// The trace in which the job was enqueued; pass it on as the header `traceparent`.
    pub traceparent: Option<TraceParent>,
    /// The last checkpoint that an earlier attempt reported.
    pub checkpoint: Option<Payload>,
}

/// Why a heartbeat or a report on one job was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The lease has expired, or another worker has the job. Reported usage is charged nevertheless.
    #[error("{0}")]
    Lost(String),
    /// A rule refuses the report; a retry is refused too.
    #[error("{0}")]
    Refused(String),
}

impl From<Refusal> for NotTaken {
    fn from(refusal: Refusal) -> NotTaken {
        match refusal {
            Refusal::LeaseLost { .. } | Refusal::UnknownJob { .. } => NotTaken::Lost(refusal.to_string()),
            refusal => NotTaken::Refused(refusal.to_string()),
        }
    }
}

/// Why a call of a worker failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The same call may succeed later.
    #[error("{0}")]
    Transient(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The source is closed.
    #[error("the source of jobs is closed")]
    Closed,
    /// A rule refuses the call; a retry is refused too.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A heartbeat or a report on one job was not accepted.
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
    /// The caller is unknown or lacks the permission; a retry is denied too.
    #[error("{0}")]
    Denied(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Any other failure.
    #[error("{0}")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A source of jobs: the library in this process, or a server.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Leases jobs; if none is ready, waits for up to `wait`. An implementation must return the jobs that it has leased for a call that
    /// the caller dropped.
    async fn lease(&self, ask: LeaseRequest, wait: Duration) -> Result<Vec<LeasedJob>, SourceError>;
    /// Extends leases; returns one answer for each heartbeat, in order.
    async fn heartbeat(&self, beats: Vec<HeartbeatItem>) -> Result<Vec<Result<Order, NotTaken>>, SourceError>;
    /// Ends leases; returns one answer for each, in order. Repeating the same end of the same lease returns the same answer.
    async fn finish(&self, items: Vec<Finish>) -> Result<Vec<Result<(), NotTaken>>, SourceError>;
    /// Sends the progress of a job, which keeps it, and extends its lease.
    async fn progress(&self, beat: HeartbeatItem, progress: Progress) -> Result<(), SourceError>;
    /// Records an event of the application about a job.
    async fn emit(&self, emit: Emit) -> Result<(), SourceError>;
    /// Waits until the jobs of dropped lease calls are returned. The worker calls it when it ends.
    async fn settle(&self) {}
}
