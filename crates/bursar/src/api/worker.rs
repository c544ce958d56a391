//! Workers in this process, which lease jobs from the library directly.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::context::Actor;
use bursar_core::job::{Emit, Finish, HeartbeatItem, Job, LeaseRequest, Order};
use bursar_core::name::Scope;
use bursar_store::StoreError;
use bursar_worker::{LeasedJob, NotTaken, Progress, Source, SourceError, Worker};

use crate::api::instance::Bursar;
use crate::error::Error;

impl Bursar {
    /// Returns a worker in this process for this tenant's jobs. It runs once it is started.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use bursar::{Bursar, HandlerError, JobContext};
    ///
    /// # let bursar = Bursar::open("sqlite::memory:").await?;
    /// let worker = bursar.worker().queue("media").on("video.cut", async |seconds: u32, context: JobContext| {
    ///     // Runs at least once: make it safe to repeat.
    ///     context.usage(i64::from(seconds) * 10)?;
    ///     Ok::<_, HandlerError>(format!("cut {seconds} s"))
    /// });
    /// let running = worker.start()?;
    /// running.drain().await?;
    /// # bursar.close().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn worker(&self) -> Worker {
        Worker::new(Arc::new(InProcess(self.clone())))
    }
}

/// A source of jobs that calls Bursar in this process.
struct InProcess(Bursar);

#[async_trait]
impl Source for InProcess {
    async fn lease(&self, request: LeaseRequest, wait: Duration) -> Result<Vec<LeasedJob>, SourceError> {
        let bursar = self.0.by(Actor::Worker(request.worker.to_string()));
        let leased = bursar.jobs().lease_wait(request, wait).await?;
        let mut held = bursar.jobs().held_for(&leased.jobs).await;
        Ok(leased.jobs.into_iter().map(|job| leased_job(held.remove(&job.id), job)).collect())
    }

    async fn heartbeat(&self, beats: Vec<HeartbeatItem>) -> Result<Vec<Result<Order, NotTaken>>, SourceError> {
        item_answers(self.0.jobs().heartbeats(beats).await?, |renewed| renewed.order)
    }

    async fn finish(&self, items: Vec<Finish>) -> Result<Vec<Result<(), NotTaken>>, SourceError> {
        item_answers(self.0.jobs().finish_all(items).await?, drop)
    }

    async fn progress(&self, beat: HeartbeatItem, progress: Progress) -> Result<(), SourceError> {
        taken(self.0.jobs().progress(beat, progress).await)
    }

    async fn emit(&self, emit: Emit) -> Result<(), SourceError> {
        taken(self.0.jobs().emit(emit).await)
    }
}

/// Returns whether a report on one job was accepted.
fn taken<T>(answer: Result<T, Error>) -> Result<(), SourceError> {
    match answer {
        Ok(_) => Ok(()),
        Err(Error::Refused(refusal)) => Err(NotTaken::from(refusal).into()),
        Err(error) => Err(error.into()),
    }
}

fn leased_job(held: Option<Vec<(Scope, i64)>>, job: Job) -> LeasedJob {
    LeasedJob {
        id: job.id,
        fence: job.life.fence,
        lease: job.life.lease.map(|lease| lease.length.into()).unwrap_or_default(),
        queue: job.queue,
        kind: job.kind,
        payload: job.payload,
        attempt: job.life.attempts,
        max_attempts: job.max_attempts,
        idempotency_key: job.idempotency_key,
        key: job.key,
        tags: job.tags,
        metadata: job.metadata,
        blobs: job.life.blobs,
        hold: job.hold,
        held,
        traceparent: job.traceparent,
        checkpoint: job.life.checkpoint,
    }
}

/// Converts one answer for each item. A refusal concerns its item only; any other error fails the whole call.
fn item_answers<T, A>(
    answers: Vec<Result<T, Error>>,
    convert: impl Fn(T) -> A,
) -> Result<Vec<Result<A, NotTaken>>, SourceError> {
    let item_answer = |answer| match answer {
        Ok(done) => Ok(Ok(convert(done))),
        Err(Error::Refused(refusal)) => Ok(Err(refusal.into())),
        Err(error) => Err(error.into()),
    };
    answers.into_iter().map(item_answer).collect()
}

/// Converts the error to one of a worker.
impl From<Error> for SourceError {
    fn from(error: Error) -> SourceError {
        match error {
            Error::Refused(refusal) => SourceError::Refused(refusal),
            error if error.is_closed() => SourceError::Closed,
            error if error.is_transient() => SourceError::Transient(Box::new(error)),
            // A worker goes on when the permissions or the file have been corrected.
            Error::Store(error) if matches!(*error, StoreError::Unavailable { .. }) => {
                SourceError::Transient(Box::new(Error::Store(error)))
            }
            error => SourceError::Failed(Box::new(error)),
        }
    }
}
