//! The context of a running handler: its job, its progress, its usage and the signal to stop.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar_core::bounds::{ITEMS_MAX, JOB_BLOBS_MAX};
use bursar_core::id::{BlobId, JobId};
use bursar_core::job::{Emit, HeartbeatItem, Usage};
use bursar_core::name::{EventName, IdempotencyKey, Scope};
use bursar_core::payload::Payload;
use bursar_core::refusal::{Invalid, Refusal};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::blobs::BlobStore;
use crate::source::{LeasedJob, Progress, Source, SourceError};

/// Why a handler must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The worker shuts down. The handler should finish soon or return an error; then the job is retried.
    Draining,
    /// The job was cancelled.
    Cancelled,
    /// The lease is lost: another worker may have the job, and the result of this handler is discarded.
    Lost,
}

/// The context of a running handler. Cheap to clone.
///
/// A job runs **at least once**: a worker that crashes, or loses its connection or its lease, may have done the work already when another
/// worker does it again. Make the effects of a handler safe to repeat: pass the job's
/// [`idempotency_key`](JobContext::idempotency_key) to services that accept one, use the job's [`id`](JobContext::id) as a key elsewhere,
/// and write rows of the same database in the transaction that ends the job.
#[derive(Clone)]
pub struct JobContext(Arc<Shared>);

struct Shared {
    job: LeasedJob,
    source: Arc<dyn Source>,
    blobs: Option<Arc<dyn BlobStore>>,
    stop: watch::Receiver<Option<Stop>>,
    usage: Mutex<Option<Vec<Usage>>>,
    made: Mutex<Vec<BlobId>>,
}

impl JobContext {
    pub(crate) fn new(
        job: LeasedJob,
        source: Arc<dyn Source>,
        blobs: Option<Arc<dyn BlobStore>>,
        stop: watch::Receiver<Option<Stop>>,
    ) -> JobContext {
        JobContext(Arc::new(Shared { job, source, blobs, stop, usage: Mutex::default(), made: Mutex::default() }))
    }

    /// Returns the job.
    pub fn job(&self) -> &LeasedJob {
        &self.0.job
    }

    /// Returns the id of the job, which is the same for every attempt.
    pub fn id(&self) -> JobId {
        self.0.job.id
    }

    /// Returns the fence of the lease, which a transaction of the caller needs to end the job.
    pub fn fence(&self) -> u64 {
        self.0.job.fence
    }

    /// Returns the number of this attempt, counted from 1.
    pub fn attempt(&self) -> u32 {
        self.0.job.attempt
    }

    /// Returns the idempotency key of the job.
    pub fn idempotency_key(&self) -> Option<&IdempotencyKey> {
        self.0.job.idempotency_key.as_ref()
    }

    /// Returns the units that the job's hold sets aside, by scope: what this attempt may spend without an overrun. `None` if they could
    /// not be read; empty if the job has no hold.
    pub fn held(&self) -> Option<&[(Scope, i64)]> {
        self.0.job.held.as_deref()
    }

    /// Returns the last checkpoint of the job: the one that an earlier attempt reported with its progress. `None` in the first attempt, and
    /// if there was none.
    ///
    /// A handler that begins with it does not repeat the work up to it.
    pub fn checkpoint(&self) -> Option<&Payload> {
        self.0.job.checkpoint.as_ref()
    }

    /// Returns the last checkpoint of the job as a value, or `None` if there is none. Fails if it does not have the type's shape, as after a
    /// deployment that changed it.
    pub fn checkpoint_as<T: DeserializeOwned>(&self) -> Result<Option<T>, Invalid> {
        let parse = |json: &Payload| serde_json::from_str(json.as_str());
        let parsed = self.checkpoint().map(parse).transpose();
        parsed.map_err(|problem| Invalid::new("checkpoint", format!("does not have the expected shape: {problem}")))
    }

    /// Sends progress to listeners and extends the lease. The job keeps the last report. A report with a
    /// [`checkpoint`](Progress::checkpoint()) is in the journal, and the next attempt gets it as [`checkpoint`](JobContext::checkpoint).
    pub async fn progress(&self, progress: Progress) -> Result<(), SourceError> {
        let beat = HeartbeatItem::new(self.id(), self.fence());
        self.0.source.progress(beat, progress).await
    }

    /// Emits an event of the application about the job, such as `preview.ready`: listeners to the job and its queue hear it
    /// (`job.emitted`), and the journal keeps it. `data` has at most 16 KiB. The token of the worker must have a capability for the event.
    pub async fn emit<N>(&self, event: N, data: Payload) -> Result<(), SourceError>
    where
        N: TryInto<EventName, Error = Invalid>,
    {
        let event = event.try_into().map_err(Refusal::Invalid)?;
        self.0.source.emit(Emit { job: self.id(), fence: self.fence(), event, data }).await
    }

    /// Adds units to what the attempt has spent on the only scope of the job's hold. A handler that reports no usage has spent the held
    /// units if it succeeds, and nothing if it fails.
    pub fn usage(&self, amount: i64) -> Result<(), Invalid> {
        self.add(None, amount)
    }

    /// Adds units to what the attempt has spent on a scope, of the hold or any other.
    pub fn usage_on<S>(&self, scope: S, amount: i64) -> Result<(), Invalid>
    where
        S: TryInto<Scope, Error = Invalid>,
    {
        self.add(Some(scope.try_into()?), amount)
    }

    fn add(&self, scope: Option<Scope>, amount: i64) -> Result<(), Invalid> {
        if amount < 0 {
            return Err(Invalid::new("usage.amount", "must not be negative"));
        }
        if scope.as_ref().is_some_and(Scope::is_internal) {
            return Err(Invalid::new("usage.scope", "is reserved for internal use"));
        }
        let mut usage = self.0.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = usage.get_or_insert_default();
        if let Some(known) = usage.iter_mut().find(|usage| usage.scope == scope) {
            let sum = known.amount.checked_add(amount);
            known.amount = sum.ok_or_else(|| Invalid::new("usage.amount", "exceeds 64 bits"))?;
            return Ok(());
        }
        if usage.len() >= ITEMS_MAX {
            return Err(Invalid::new("usage", format!("names more than {ITEMS_MAX} scopes")));
        }
        usage.push(Usage { scope, amount });
        Ok(())
    }

    /// Returns the usage that the handler has reported.
    pub(crate) fn reported(&self) -> Option<Vec<Usage>> {
        self.0.usage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn blob_store(&self) -> Option<&dyn BlobStore> {
        self.0.blobs.as_deref()
    }

    /// Records a blob that the job made and did not store with [`blobs`](JobContext::blobs). If the handler succeeds, the job refers to it from the transaction that completes the job on, so
    /// that it is kept as long as the job. A job whose lease is lost refers to nothing.
    pub fn made(&self, blob: BlobId) -> Result<(), Invalid> {
        let used = &self.0.job.blobs;
        let mut made = self.0.made.lock().unwrap_or_else(PoisonError::into_inner);
        // The job refers to those that it uses already.
        if used.contains(&blob) || made.contains(&blob) {
            return Ok(());
        }
        if used.len() + made.len() >= JOB_BLOBS_MAX {
            let problem = format!("has more than {JOB_BLOBS_MAX} entries together with those that the job uses");
            return Err(Invalid::new("blobs", problem));
        }
        made.push(blob);
        Ok(())
    }

    /// Returns the blobs that the handler has recorded.
    pub(crate) fn recorded_blobs(&self) -> Vec<BlobId> {
        self.0.made.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns why the handler must stop, or `None` if it may go on.
    pub fn stop(&self) -> Option<Stop> {
        *self.0.stop.borrow()
    }

    /// Waits until the handler must stop. A long handler should watch this: it is dropped when the grace period ends.
    pub async fn stopped(&self) -> Stop {
        let mut stop = self.0.stop.clone();
        let reason = stop.wait_for(Option::is_some).await.ok().and_then(|stop| *stop);
        // The sender is dropped together with the lease.
        reason.unwrap_or(Stop::Lost)
    }

    /// Waits until the job is cancelled or its lease is lost.
    pub(crate) async fn stopped_for_good(&self) -> Stop {
        let mut stop = self.0.stop.clone();
        let reason = stop.wait_for(|stop| stop.is_some_and(|stop| stop != Stop::Draining)).await;
        reason.ok().and_then(|stop| *stop).unwrap_or(Stop::Lost)
    }

    /// Waits until the handler had to stop and the grace period is over.
    pub(crate) async fn overdue(&self, grace: Duration) -> Stop {
        self.stopped().await;
        tokio::time::sleep(grace).await;
        // A job that was draining may be cancelled or lost by now.
        self.stopped().await
    }
}
