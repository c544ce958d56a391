//! The end of a lease: done, failed, put off or handed back. Each settles what it has to in the same transaction.

use std::time::Duration;

use bursar_core::answer::{Answer, Finished, Outcome};
use bursar_core::bounds::ITEMS_MAX;
use bursar_core::id::JobId;
use bursar_core::job::{End, Finish, JobError, Usage};
use bursar_core::payload::Payload;
use bursar_core::request::{Op, Request};
use bursar_core::time::Span;
use sqlx::PgConnection;

use super::lease::unexpected;
use super::{Jobs, LostLease, only_answer};
use crate::api::command::Receipt;
use crate::error::Error;

/// An attempt that did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    error: JobError,
    retryable: bool,
    retry_after: Option<Span>,
    usage: Option<Vec<Usage>>,
}

impl Failure {
    /// An error of a kind; the job is tried again as its policy says.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure { error: JobError::new(kind, message), retryable: true, retry_after: None, usage: None }
    }

    /// Trying again does not help: the job is dead.
    pub fn for_good(self) -> Failure {
        Failure { retryable: false, ..self }
    }

    /// Tried again after this, whatever the policy says.
    pub fn retry_after(self, wait: Duration) -> Failure {
        Failure { retry_after: Some(wait.into()), ..self }
    }

    /// What the attempt cost: it is charged at once.
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
    /// A job is done. `usage` is what it really cost: as much as was held if it is `None`, nothing if it is empty.
    pub async fn complete(
        &self,
        job: JobId,
        fence: u64,
        result: Payload,
        usage: Option<Vec<Usage>>,
    ) -> Result<Finished, Error> {
        self.finish(Finish { job, fence, end: End::Complete { result, usage } }).await
    }

    /// An attempt did not work.
    pub async fn fail(&self, job: JobId, fence: u64, failure: Failure) -> Result<Finished, Error> {
        self.finish(Finish { job, fence, end: failure.into() }).await
    }

    /// Puts a job off; it was no attempt.
    pub async fn snooze(&self, job: JobId, fence: u64, delay: Duration) -> Result<Finished, Error> {
        self.finish(Finish { job, fence, end: End::Snooze { delay: delay.into() } }).await
    }

    /// Hands a job back that was not begun; it was no attempt.
    pub async fn hand_back(&self, job: JobId, fence: u64) -> Result<Finished, Error> {
        self.finish(Finish { job, fence, end: End::Return }).await
    }

    /// Ends a lease. Ending it in the same way again is answered in the same way.
    pub async fn finish(&self, item: Finish) -> Result<Finished, Error> {
        only_answer(self.finish_all(vec![item]).await?)
    }

    /// Ends many leases, a thousand in a transaction; one answer for each, in order.
    pub async fn finish_all(&self, items: Vec<Finish>) -> Result<Vec<Result<Finished, Error>>, Error> {
        let mut answers = Vec::with_capacity(items.len());
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            let some = items.by_ref().take(ITEMS_MAX).collect();
            answers.extend(finished(self.0.execute(Op::Finish { items: some }).await?)?);
        }
        Ok(answers)
    }

    /// A job is done, in the caller's own PostgreSQL transaction (READ COMMITTED): its end, what it cost and the caller's rows
    /// commit together. The caller commits, then calls [`crate::Bursar::announce`] with the receipt. Where the lease is lost, see
    /// [`Jobs::finish_in`].
    pub async fn complete_in(
        &self,
        conn: &mut PgConnection,
        job: JobId,
        fence: u64,
        result: Payload,
        usage: Option<Vec<Usage>>,
    ) -> Result<(Finished, Receipt), Error> {
        self.finish_in(conn, Finish { job, fence, end: End::Complete { result, usage } }).await
    }

    /// An attempt did not work, in the caller's own PostgreSQL transaction.
    pub async fn fail_in(
        &self,
        conn: &mut PgConnection,
        job: JobId,
        fence: u64,
        failure: Failure,
    ) -> Result<(Finished, Receipt), Error> {
        self.finish_in(conn, Finish { job, fence, end: failure.into() }).await
    }

    /// Ends a lease in the caller's own PostgreSQL transaction.
    ///
    /// Where the lease is lost and `usage` was reported, the error is [`Error::LeaseLost`]: roll back, then [`Error::bill`] charges
    /// it outside.
    pub async fn finish_in(&self, conn: &mut PgConnection, item: Finish) -> Result<(Finished, Receipt), Error> {
        let request = Request::from(Op::Finish { items: vec![item] }).in_context(self.0.context.clone());
        let outcome = self.0.request_in(conn, &request).await?;
        let lost = LostLease::of(self.0, &request, &outcome).pop();
        one_of(outcome, lost)
    }
}

/// What one lease that was ended in a caller's transaction came to, with what is to be told once that is committed.
pub(crate) fn one_of(outcome: Outcome, lost: Option<LostLease>) -> Result<(Finished, Receipt), Error> {
    match (only_answer(finished(outcome.answer.clone())?), lost) {
        (Ok(done), _) => Ok((done, Receipt::from(outcome))),
        (Err(_), Some(lost)) => Err(Error::LeaseLost(lost)),
        (Err(error), None) => Err(error),
    }
}

fn finished(answer: Answer) -> Result<Vec<Result<Finished, Error>>, Error> {
    match answer {
        Answer::Finished(some) => Ok(some.into_iter().map(|answer| answer.map_err(Error::from)).collect()),
        other => Err(unexpected(&other)),
    }
}
