//! Where jobs come from, and where what came of them goes.

use std::time::Duration;

use async_trait::async_trait;
use bursar_core::bounds::PROGRESS_BYTES_MAX;
use bursar_core::id::{HoldId, JobId};
use bursar_core::job::{Beat, Finish, LeaseAsk, Order};
use bursar_core::name::{FlowKey, IdempotencyKey, JobKind, Queue, Tag};
use bursar_core::payload::Payload;
use bursar_core::refusal::{Invalid, Refusal};
use bursar_core::trace::TraceParent;

/// A job that a worker has, as far as a worker needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedJob {
    /// Its id.
    pub id: JobId,
    /// The number of the lease: whoever ends the lease names it.
    pub fence: u64,
    /// How long the lease lasts without a sign of life.
    pub lease: Duration,
    /// Where it waited.
    pub queue: Queue,
    /// What it does.
    pub kind: JobKind,
    /// What it works on.
    pub payload: Payload,
    /// Which attempt this is.
    pub attempt: u32,
    /// After so many failed attempts it is dead, where the job itself says it.
    pub max_attempts: Option<u32>,
    /// What makes it unique: pass it on to whoever must not do a thing twice.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Groups it for flow control.
    pub key: Option<FlowKey>,
    /// Words to find it by.
    pub tags: Vec<Tag>,
    /// What its maker wants to remember of it.
    pub metadata: Payload,
    /// The hold that its end settles.
    pub hold: Option<HoldId>,
    /// The trace it was enqueued in: pass it on as the header `traceparent`.
    pub traceparent: Option<TraceParent>,
}

/// What a worker says of a job it works on. It is told as it happens and kept nowhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// How much of it is done, from 0 to 100.
    pub percent: Option<f64>,
    /// In words.
    pub message: Option<String>,
    /// Anything else.
    pub data: Payload,
}

impl Progress {
    /// Refuses a report that is too large: listeners keep it in memory.
    pub fn check(&self) -> Result<(), Invalid> {
        let bytes = self.message.as_ref().map_or(0, String::len) + self.data.as_str().len();
        if bytes > PROGRESS_BYTES_MAX {
            let problem = format!("has {bytes} bytes with its message; at most {PROGRESS_BYTES_MAX} are allowed");
            return Err(Invalid::new("data", problem));
        }
        Ok(())
    }

    /// So many percent.
    pub fn percent(percent: f64) -> Progress {
        Progress { percent: Some(percent), ..Progress::default() }
    }

    /// With words.
    pub fn message(self, message: impl Into<String>) -> Progress {
        Progress { message: Some(message.into()), ..self }
    }
}

/// Why a report on one job was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The lease is over, or somebody else has the job. What was spent is charged all the same.
    #[error("{0}")]
    Lost(String),
    /// The report is wrong in itself.
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

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// It may go away by itself: the same call may be made again.
    #[error("{0}")]
    Transient(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There is nobody to ask any more.
    #[error("closed")]
    Closed,
    /// What was asked is wrong; no repetition makes it right.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What was said of one job was not taken.
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
    /// Who asks may not, or is not known; no repetition makes it right.
    #[error("{0}")]
    Denied(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Anything else.
    #[error("{0}")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Where jobs come from: a Bursar in this process, or one over a network.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Takes jobs to work on, and waits so long for some if there are none. Jobs that are leased for a caller who has dropped
    /// the call must be handed back.
    async fn lease(&self, ask: LeaseAsk, wait: Duration) -> Result<Vec<LeasedJob>, SourceError>;
    /// Says that jobs are still worked on; one answer for each.
    async fn heartbeat(&self, beats: Vec<Beat>) -> Result<Vec<Result<Order, NotTaken>>, SourceError>;
    /// Ends leases; one answer for each. The same end of the same lease again is answered in the same way.
    async fn finish(&self, items: Vec<Finish>) -> Result<Vec<Result<(), NotTaken>>, SourceError>;
    /// Tells how far a job is, which is a sign of life too.
    async fn progress(&self, beat: Beat, progress: Progress) -> Result<(), SourceError>;
    /// Waits until jobs are handed back that came for a call which was dropped: the worker ends.
    async fn settle(&self) {}
}
