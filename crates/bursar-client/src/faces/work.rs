//! What workers ask. The fence of a lease makes every report safe to repeat, so that no key is needed.

use std::time::Duration;

use bursar_core::id::JobId;
use bursar_wire::job::{BeatenAnswer, FinishedAnswer};
use bursar_wire::work::{
    BeatItem, BeatenItems, CompleteBody, CompleteItem, FailBody, FailItem, FinishedItems, HeartbeatBody, ItemsBody,
    LeaseBody, LeasedJobsAnswer, ProgressBody, ProgressItem, ReturnBody, ReturnItem, SnoozeBody, SnoozeItem,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// Leases and reports, by hand; [`Client::worker`] does it by itself.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a>(&'a Client);

impl Client {
    /// Leases and reports, by hand.
    pub fn work(&self) -> Work<'_> {
        Work(self)
    }
}

impl Work<'_> {
    /// Takes jobs to work on, and waits for some if that is said.
    pub async fn lease(&self, ask: &LeaseBody) -> Result<Answered<LeasedJobsAnswer>, Error> {
        let waits = Duration::from_millis(u64::try_from(ask.wait_ms).unwrap_or_default());
        self.0.post(Path::new("/v1/jobs/lease"), ask).by_nature().waits(waits).answer().await
    }

    /// A job is still worked on.
    pub async fn heartbeat(&self, id: JobId, body: &HeartbeatBody) -> Result<Answered<BeatenAnswer>, Error> {
        self.one(id, "heartbeat", body).await
    }

    /// How far a job is.
    pub async fn progress(&self, id: JobId, body: &ProgressBody) -> Result<Answered<BeatenAnswer>, Error> {
        self.one(id, "progress", body).await
    }

    /// A job is done.
    pub async fn complete(&self, id: JobId, body: &CompleteBody) -> Result<Answered<FinishedAnswer>, Error> {
        self.one(id, "complete", body).await
    }

    /// An attempt did not work.
    pub async fn fail(&self, id: JobId, body: &FailBody) -> Result<Answered<FinishedAnswer>, Error> {
        self.one(id, "fail", body).await
    }

    /// Puts a job off; it was no attempt.
    pub async fn snooze(&self, id: JobId, body: &SnoozeBody) -> Result<Answered<FinishedAnswer>, Error> {
        self.one(id, "snooze", body).await
    }

    /// Hands back a job that was not begun; it was no attempt.
    pub async fn hand_back(&self, id: JobId, body: &ReturnBody) -> Result<Answered<FinishedAnswer>, Error> {
        self.one(id, "return", body).await
    }

    /// Many jobs are still worked on; one answer an item.
    pub async fn heartbeats(&self, items: Vec<BeatItem>) -> Result<Answered<BeatenItems>, Error> {
        self.many("heartbeat", items).await
    }

    /// How far many jobs are; one answer an item.
    pub async fn progress_all(&self, items: Vec<ProgressItem>) -> Result<Answered<BeatenItems>, Error> {
        self.many("progress", items).await
    }

    /// Many jobs are done; one answer an item.
    pub async fn complete_all(&self, items: Vec<CompleteItem>) -> Result<Answered<FinishedItems>, Error> {
        self.many("complete", items).await
    }

    /// Many attempts did not work; one answer an item.
    pub async fn fail_all(&self, items: Vec<FailItem>) -> Result<Answered<FinishedItems>, Error> {
        self.many("fail", items).await
    }

    /// Puts many jobs off; one answer an item.
    pub async fn snooze_all(&self, items: Vec<SnoozeItem>) -> Result<Answered<FinishedItems>, Error> {
        self.many("snooze", items).await
    }

    /// Hands many jobs back; one answer an item.
    pub async fn return_all(&self, items: Vec<ReturnItem>) -> Result<Answered<FinishedItems>, Error> {
        self.many("return", items).await
    }

    async fn one<T: DeserializeOwned + Send + 'static>(
        &self,
        id: JobId,
        report: &str,
        body: &impl Serialize,
    ) -> Result<Answered<T>, Error> {
        self.0.post(Path::new("/v1/jobs").part(id).then(report), body).by_nature().answer().await
    }

    async fn many<T: DeserializeOwned + Send + 'static>(
        &self,
        report: &str,
        items: Vec<impl Serialize>,
    ) -> Result<Answered<T>, Error> {
        self.0.post(Path::new("/v1/jobs").then(report), &ItemsBody { items }).by_nature().answer().await
    }
}
