//! What a handler knows of its job, and can say while it works on it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar_core::bounds::ITEMS_MAX;
use bursar_core::id::JobId;
use bursar_core::job::{Beat, Usage};
use bursar_core::name::{IdempotencyKey, Scope};
use bursar_core::refusal::Invalid;
use tokio::sync::watch;

use crate::source::{LeasedJob, Progress, Source, SourceError};

/// Why a handler is to let go of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The worker shuts down: come to an end soon, or return an error; the job is run again elsewhere.
    Draining,
    /// The job is to be cancelled.
    Cancelled,
    /// The lease is lost: somebody else may have the job. Nothing that is done for it counts any more.
    Lost,
}

/// A job that a handler works on. Cheap to clone.
///
/// A job runs **at least once**: a worker that loses its connection, its lease or its life may have done the work, and another
/// does it again. Make the effects of a handler safe to repeat: with the job's [`idempotency_key`](JobContext::idempotency_key)
/// where somebody else takes one, with [`id`](JobContext::id) where not, and with rows that commit together with the job's end
/// where the database is shared.
#[derive(Clone)]
pub struct JobContext(Arc<Shared>);

struct Shared {
    job: LeasedJob,
    source: Arc<dyn Source>,
    stop: watch::Receiver<Option<Stop>>,
    usage: Mutex<Option<Vec<Usage>>>,
}

impl JobContext {
    pub(crate) fn new(job: LeasedJob, source: Arc<dyn Source>, stop: watch::Receiver<Option<Stop>>) -> JobContext {
        JobContext(Arc::new(Shared { job, source, stop, usage: Mutex::default() }))
    }

    /// The job.
    pub fn job(&self) -> &LeasedJob {
        &self.0.job
    }

    /// The job's id: the same for every attempt.
    pub fn id(&self) -> JobId {
        self.0.job.id
    }

    /// The number of the lease, for who ends it in a transaction of its own.
    pub fn fence(&self) -> u64 {
        self.0.job.fence
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.job.attempt
    }

    /// What makes the job unique.
    pub fn idempotency_key(&self) -> Option<&IdempotencyKey> {
        self.0.job.idempotency_key.as_ref()
    }

    /// Tells how far the job is. It is a sign of life too.
    pub async fn progress(&self, progress: Progress) -> Result<(), SourceError> {
        let beat = Beat { job: self.id(), fence: self.fence() };
        self.0.source.progress(beat, progress).await
    }

    /// Units that were really spent, on the only scope of the job's hold; added to what was said before. A handler that says
    /// nothing has spent what was held when it succeeds, and nothing when it fails.
    pub fn usage(&self, amount: i64) -> Result<(), Invalid> {
        self.add(None, amount)
    }

    /// The same, on a scope of the hold or any other.
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
            return Err(Invalid::new("usage.scope", "is one of Bursar's own"));
        }
        let mut usage = self.0.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = usage.get_or_insert_default();
        if let Some(known) = usage.iter_mut().find(|usage| usage.scope == scope) {
            let sum = known.amount.checked_add(amount);
            known.amount = sum.ok_or_else(|| Invalid::new("usage.amount", "passes 64 bits"))?;
            return Ok(());
        }
        if usage.len() >= ITEMS_MAX {
            return Err(Invalid::new("usage", format!("is on more than {ITEMS_MAX} scopes")));
        }
        usage.push(Usage { scope, amount });
        Ok(())
    }

    /// What was said to be spent.
    pub(crate) fn reported(&self) -> Option<Vec<Usage>> {
        self.0.usage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the handler is to let go of the job, and why.
    pub fn stop(&self) -> Option<Stop> {
        *self.0.stop.borrow()
    }

    /// Waits until the handler is to let go of the job. A handler that takes long should listen: after a while it is dropped.
    pub async fn stopped(&self) -> Stop {
        let mut stop = self.0.stop.clone();
        let told = stop.wait_for(Option::is_some).await.ok().and_then(|stop| *stop);
        // Where nobody is left who could say it, the lease is over.
        told.unwrap_or(Stop::Lost)
    }

    /// Waits until the handler was to let go of the job so long ago.
    pub(crate) async fn overdue(&self, grace: Duration) -> Stop {
        self.stopped().await;
        tokio::time::sleep(grace).await;
        // It may have become worse meanwhile.
        self.stopped().await
    }
}
