//! The calls of workers under `/v1/jobs`. The fence of a lease makes every report idempotent, so that it needs no idempotency key. An event
//! that a worker emits has one.

use std::time::Duration;

use bursar_core::id::JobId;
use bursar_wire::job::{BeatenAnswer, FinishedAnswer};
use bursar_wire::worker_calls::{
    BeatItem, BeatenItems, CompleteBody, CompleteItem, EmitBody, FailBody, FailItem, FinishedItems, HeartbeatBody,
    ItemsBody, LeaseBody, LeasedJobsAnswer, ProgressBody, ProgressItem, ReturnBody, ReturnItem, SnoozeBody, SnoozeItem,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The calls of workers. From [`Client::work`]; [`Client::worker`] makes a worker that uses them.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a>(&'a Client);

impl Client {
    /// The calls of workers.
    pub fn work(&self) -> Work<'_> {
        Work(self)
    }
}

impl Work<'_> {
    /// Leases jobs; waits for one if `wait_ms` is set.
    pub async fn lease(&self, ask: &LeaseBody) -> Result<Answered<LeasedJobsAnswer>, Error> {
        let waits = Duration::from_millis(u64::try_from(ask.wait_ms).unwrap_or_default());
        self.0.post(Path::new("/v1/jobs/lease"), ask).idempotent().waits(waits).answer().await
    }

    /// Extends the lease of a job.
    pub async fn heartbeat(&self, id: JobId, body: &HeartbeatBody) -> Result<Answered<BeatenAnswer>, Error> {
        self.one(id, "heartbeat", body).await
    }

    /// Sends the progress of a job and extends its lease.
    pub async fn progress(&self, id: JobId, body: &ProgressBody) -> Result<Answered<BeatenAnswer>, Error> {
        self.one(id, "progress", body).await
    }

    /// Emits an event of the application about a job. A retry emits it once.
    pub async fn emit(&self, id: JobId, body: &EmitBody) -> Result<Answered<()>, Error> {
        self.0.post(Path::new("/v1/jobs").part(id).then("events"), body).done().await
    }

    /// Completes a job.
    pub async fn complete(&self, id: JobId, body: &CompleteBody) -> Result<Answered<FinishedAnswer>, Error> {
        self.one(id, "complete", body).await
    }

    /// Reports a failed attempt.
    pub async fn fail(&self, id: JobId, body: &FailBody) -> Result<Answered<FinishedAnswer>, Error> {
        self.one(id, "fail", body).await
    }

    /// Snoozes a job: it runs later, and the attempt does not count.
    pub async fn snooze(&self, id: JobId, body: &SnoozeBody) -> Result<Answered<FinishedAnswer>, Error> {
        self.one(id, "snooze", body).await
    }

    /// Returns a job to its queue; the attempt does not count.
    pub async fn hand_back(&self, id: JobId, body: &ReturnBody) -> Result<Answered<FinishedAnswer>, Error> {
        self.one(id, "return", body).await
    }

    /// Extends the leases of several jobs; returns one answer per item, in order.
    pub async fn heartbeats(&self, items: Vec<BeatItem>) -> Result<Answered<BeatenItems>, Error> {
        self.many("heartbeat", items).await
    }

    /// Sends the progress of several jobs; returns one answer per item, in order.
    pub async fn progress_all(&self, items: Vec<ProgressItem>) -> Result<Answered<BeatenItems>, Error> {
        self.many("progress", items).await
    }

    /// Completes several jobs; returns one answer per item, in order.
    pub async fn complete_all(&self, items: Vec<CompleteItem>) -> Result<Answered<FinishedItems>, Error> {
        self.many("complete", items).await
    }

    /// Reports several failed attempts; returns one answer per item, in order.
    pub async fn fail_all(&self, items: Vec<FailItem>) -> Result<Answered<FinishedItems>, Error> {
        self.many("fail", items).await
    }

    /// Snoozes several jobs; returns one answer per item, in order.
    pub async fn snooze_all(&self, items: Vec<SnoozeItem>) -> Result<Answered<FinishedItems>, Error> {
        self.many("snooze", items).await
    }

    /// Returns several jobs to their queues; returns one answer per item, in order.
    pub async fn return_all(&self, items: Vec<ReturnItem>) -> Result<Answered<FinishedItems>, Error> {
        self.many("return", items).await
    }

    async fn one<T: DeserializeOwned + Send + 'static>(
        &self,
        id: JobId,
        report: &str,
        body: &impl Serialize,
    ) -> Result<Answered<T>, Error> {
        self.0.post(Path::new("/v1/jobs").part(id).then(report), body).idempotent().answer().await
    }

    async fn many<T: DeserializeOwned + Send + 'static>(
        &self,
        report: &str,
        items: Vec<impl Serialize>,
    ) -> Result<Answered<T>, Error> {
        self.0.post(Path::new("/v1/jobs").then(report), &ItemsBody { items }).idempotent().answer().await
    }
}
