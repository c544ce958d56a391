//! The end of a lease: complete, fail, snooze or return. The job's hold is settled in the same transaction.

use std::time::Duration;

use bursar_core::answer::{Answer, Finished, Outcome};
use bursar_core::bounds::ITEMS_MAX;
use bursar_core::id::{BlobId, JobId};
use bursar_core::job::{End, Finish, JobError, Usage};
use bursar_core::payload::Payload;
use bursar_core::request::{Op, Request};
use bursar_core::time::Span;
use sqlx::PgConnection;

use super::lease::unexpected;
use super::{Jobs, LostLease, only_answer};
use crate::api::command::Receipt;
use crate::error::Error;

/// The failure of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    error: JobError,
    retryable: bool,
    retry_after: Option<Span>,
    usage: Option<Vec<Usage>>,
}

impl Failure {
    /// Creates a failure with an error kind and a message. The job is retried by its retry policy.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure { error: JobError::new(kind, message), retryable: true, retry_after: None, usage: None }
    }

    /// Makes the failure final: the job is dead, without another attempt.
    pub fn for_good(self) -> Failure {
        Failure { retryable: false, ..self }
    }

    /// Sets the delay of the next attempt, instead of the policy's.
    pub fn retry_after(self, wait: Duration) -> Failure {
        Failure { retry_after: Some(wait.into()), ..self }
    }

    /// Sets the actual cost of the attempt, which is charged in the same transaction.
    pub fn spent(self, usage: impl IntoIterator<Item = Usage>) -> Failure {
        Failure { usage: Some(usage.into_iter().collect()), ..self }
    }
}

impl From<Failure> for End {
    fn from(failure: Failure) -> End {
        let Failure { error, retryable, retry_after, usage } = failure;
        End::Fail { error, retryable, retry_after, usage }
    }
}

impl Jobs<'_> {
    /// Completes a job and commits its hold. `usage` is the actual cost: `None` means the held units, an empty list means
    /// nothing. [`complete_with_blobs`](Jobs::complete_with_blobs) also names blobs.
    pub async fn complete(
        &self,
        job: JobId,
        fence: u64,
        result: Payload,
        usage: Option<Vec<Usage>>,
    ) -> Result<Finished, Error> {
        self.complete_with_blobs(job, fence, result, usage, Vec::new()).await
    }

    /// Completes a job that made blobs. The job refers to them, so that they are kept as long as the job.
    pub async fn complete_with_blobs(
        &self,
        job: JobId,
        fence: u64,
        result: Payload,
        usage: Option<Vec<Usage>>,
        blobs: Vec<BlobId>,
    ) -> Result<Finished, Error> {
        self.finish(Finish { job, fence, end: End::Complete { result, usage, blobs } }).await
    }

    /// Reports that an attempt failed.
    pub async fn fail(&self, job: JobId, fence: u64, failure: Failure) -> Result<Finished, Error> {
        self.finish(Finish { job, fence, end: failure.into() }).await
    }

    /// Postpones a job by `delay`. It does not count as an attempt.
    pub async fn snooze(&self, job: JobId, fence: u64, delay: Duration) -> Result<Finished, Error> {
        self.finish(Finish { job, fence, end: End::Snooze { delay: delay.into() } }).await
    }

    /// Returns a job that was not started to its queue. It does not count as an attempt.
    pub async fn hand_back(&self, job: JobId, fence: u64) -> Result<Finished, Error> {
        self.finish(Finish { job, fence, end: End::Return }).await
    }

    /// Ends a lease. A retry with the same end returns the same answer. If the lease was lost, the call fails, and the
    /// reported usage is charged once.
    pub async fn finish(&self, item: Finish) -> Result<Finished, Error> {
        only_answer(self.finish_all(vec![item]).await?)
    }

    /// Ends many leases, at most a thousand in one transaction. Returns one answer for each, in order.
    pub async fn finish_all(&self, items: Vec<Finish>) -> Result<Vec<Result<Finished, Error>>, Error> {
        let mut answers = Vec::with_capacity(items.len());
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            let items = items.by_ref().take(ITEMS_MAX).collect();
            answers.extend(finished(self.0.execute(Op::Finish { items }).await?)?);
        }
        Ok(answers)
    }

    /// Completes a job in the caller's own PostgreSQL transaction: its end, its cost and the caller's rows commit together.
    /// See [`Jobs::finish_in`], which can also name blobs.
    pub async fn complete_in(
        &self,
        conn: &mut PgConnection,
        job: JobId,
        fence: u64,
        result: Payload,
        usage: Option<Vec<Usage>>,
    ) -> Result<(Finished, Receipt), Error> {
        self.finish_in(conn, Finish { job, fence, end: End::Complete { result, usage, blobs: Vec::new() } }).await
    }

    /// Reports in the caller's own PostgreSQL transaction that an attempt failed. See [`Jobs::finish_in`].
    pub async fn fail_in(
        &self,
        conn: &mut PgConnection,
        job: JobId,
        fence: u64,
        failure: Failure,
    ) -> Result<(Finished, Receipt), Error> {
        self.finish_in(conn, Finish { job, fence, end: failure.into() }).await
    }

    /// Ends a lease in the caller's own PostgreSQL transaction (READ COMMITTED). The caller commits it and then passes the
    /// receipt to [`crate::Bursar::announce`].
    ///
    /// If the lease is lost and usage was reported, the error is [`Error::LeaseLost`]. Roll back, and then call
    /// [`Error::bill`], which charges the usage outside that transaction.
    pub async fn finish_in(&self, conn: &mut PgConnection, item: Finish) -> Result<(Finished, Receipt), Error> {
        let request = Request::from(Op::Finish { items: vec![item] }).in_context(self.0.context.clone());
        let outcome = self.0.request_in(conn, &request).await?;
        let lost = LostLease::of(self.0, &request, &outcome).pop();
        finished_in_transaction(outcome, lost)
    }
}

/// Returns the result of ending one lease in a caller's transaction, with the receipt to announce after its commit.
pub(crate) fn finished_in_transaction(outcome: Outcome, lost: Option<LostLease>) -> Result<(Finished, Receipt), Error> {
    match (only_answer(finished(outcome.answer.clone())?), lost) {
        (Ok(done), _) => Ok((done, Receipt::from(outcome))),
        (Err(_), Some(lost)) => Err(Error::LeaseLost(lost)),
        (Err(error), None) => Err(error),
    }
}

fn finished(answer: Answer) -> Result<Vec<Result<Finished, Error>>, Error> {
    match answer {
        Answer::Finished(each) => Ok(each.into_iter().map(|answer| answer.map_err(Error::from)).collect()),
        other => Err(unexpected(&other)),
    }
}
