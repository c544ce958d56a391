//! SQLite transactions that contain the caller's own statements and Bursar's requests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar_core::answer::{Enqueued, Finished, Outcome};
use bursar_core::budget::Limit;
use bursar_core::id::{BlobId, JobId};
use bursar_core::job::{End, Finish, JobSpec, Usage};
use bursar_core::name::{Purpose, Scope, Subject};
use bursar_core::payload::Payload;
use bursar_core::refusal::{Invalid, Refusal};
use bursar_core::request::{CheckedRequest, Op, Request};
use bursar_core::window::Window;
use bursar_store::StoreError;
use bursar_store::sqlite::SqliteTx;
use rusqlite::Connection;

use crate::api::command::{CommandBuilder, Receipt};
use crate::api::instance::{Backend, Bursar};
use crate::api::jobs::{Failure, LostLease, finished_in_transaction};
use crate::erasure;
use crate::error::Error;

/// A SQLite transaction with the caller's own statements and requests to Bursar, all of which commit together or not at
/// all. From [`Bursar::transaction`]. It runs on the thread of the only writing connection.
pub struct Transaction<'a, 'tx> {
    tx: &'a mut SqliteTx<'tx>,
    bursar: &'a Bursar,
    lost: LostLeases,
}

/// The lost leases of a transaction, whose usage is charged even if the transaction is rolled back.
type LostLeases = Arc<Mutex<Vec<LostLease>>>;

impl Transaction<'_, '_> {
    /// Returns the connection, for the caller's own statements. Transaction control, `ATTACH` and `PRAGMA` are refused.
    pub fn connection(&self) -> &Connection {
        self.tx.connection()
    }

    /// Starts a command, to be passed to [`Transaction::submit`].
    pub fn command(&self) -> CommandBuilder {
        self.bursar.command()
    }

    /// Executes a command in the transaction. A refused command changes nothing, and the transaction can continue. After
    /// any other error the transaction is rolled back, whatever the closure returns.
    pub fn submit(&mut self, command: CommandBuilder) -> Result<Receipt, Error> {
        let request = command.into_request()?;
        Ok(Receipt::from(self.request(&request)?))
    }

    /// Executes any request in the transaction.
    pub fn request(&mut self, request: &Request) -> Result<Outcome, Error> {
        erasure::refuse(request)?;
        Ok(self.execute(request)?.0)
    }

    /// Redeems a token and returns its payload. A rollback leaves the token redeemable.
    pub fn redeem<P, S>(&mut self, purpose: P, subject: S, token: &str) -> Result<Payload, Error>
    where
        P: TryInto<Purpose, Error = Invalid>,
        S: TryInto<Subject, Error = Invalid>,
    {
        let receipt = self.submit(self.bursar.command().redeem(purpose, subject, token))?;
        Ok(receipt.done.grants.first().and_then(|grant| grant.payload.clone()).unwrap_or_default())
    }

    /// Enqueues a job; see [`Jobs::enqueue`](crate::Jobs::enqueue).
    pub fn enqueue(&mut self, job: JobSpec) -> Result<Enqueued, Error> {
        let receipt = self.submit(self.bursar.command().job(job))?;
        receipt.done.jobs.first().copied().ok_or_else(|| Error::Internal("a job command enqueued no job".into()))
    }

    /// Completes a job: its end, its cost and the caller's rows commit together. `usage` is the actual cost: `None` means
    /// the held units, an empty list means nothing. [`complete_with_blobs`](Transaction::complete_with_blobs) also names blobs.
    pub fn complete(
        &mut self,
        job: JobId,
        fence: u64,
        result: Payload,
        usage: Option<Vec<Usage>>,
    ) -> Result<Finished, Error> {
        self.complete_with_blobs(job, fence, result, usage, Vec::new())
    }

    /// Completes a job that made blobs. The job refers to them, so that they are kept as long as the job.
    pub fn complete_with_blobs(
        &mut self,
        job: JobId,
        fence: u64,
        result: Payload,
        usage: Option<Vec<Usage>>,
        blobs: Vec<BlobId>,
    ) -> Result<Finished, Error> {
        self.finish(Finish { job, fence, end: End::Complete { result, usage, blobs } })
    }

    /// Reports that an attempt of a job failed.
    pub fn fail(&mut self, job: JobId, fence: u64, failure: Failure) -> Result<Finished, Error> {
        self.finish(Finish { job, fence, end: failure.into() })
    }

    /// Ends a lease. If the lease is lost, the reported usage is charged once, even if the transaction is rolled back.
    pub fn finish(&mut self, item: Finish) -> Result<Finished, Error> {
        let request = Request::from(Op::Finish { items: vec![item] }).in_context(self.bursar.context.clone());
        let (outcome, mut lost) = self.execute(&request)?;
        Ok(finished_in_transaction(outcome, lost.pop())?.0)
    }

    /// Posts `amount` units if at most `limit` units are then posted and held in the window; see
    /// [`Ledger::try_reserve`](crate::Ledger::try_reserve).
    pub fn try_reserve<S>(&mut self, scope: S, amount: i64, limit: i64, window: Window) -> Result<bool, Error>
    where
        S: TryInto<Scope, Error = Invalid>,
    {
        match self.submit(self.bursar.command().charge_within(scope, amount, [Limit::new(limit, window)])) {
            Ok(_) => Ok(true),
            Err(Error::Refused(Refusal::Refused(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Transaction<'_, '_> {
    fn execute(&mut self, request: &Request) -> Result<(Outcome, Vec<LostLease>), Error> {
        let outcome = self.tx.request(&CheckedRequest::new(request.clone())?)??;
        let lost = LostLease::of(self.bursar, request, &outcome);
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).extend(lost.iter().cloned());
        Ok((outcome, lost))
    }
}

/// The default time limit of a closure. All other writes wait for it.
const TIME_LIMIT: Duration = Duration::from_secs(5);

impl Bursar {
    /// Runs a closure in a SQLite transaction, on the thread of the only writing connection. All other writes wait for it.
    /// The transaction is committed if the closure succeeds. It is rolled back if the closure fails, panics or takes
    /// longer than five seconds.
    ///
    /// After a rollback, usage reported under a lost lease is charged all the same; if that fails, its error is returned.
    /// Fails on PostgreSQL.
    pub async fn transaction<T, E>(
        &self,
        work: impl FnOnce(&mut Transaction<'_, '_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.transaction_within(TIME_LIMIT, work).await
    }

    /// Runs a closure in a SQLite transaction with another time limit; see [`Bursar::transaction`].
    pub async fn transaction_within<T, E>(
        &self,
        limit: Duration,
        work: impl FnOnce(&mut Transaction<'_, '_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let Backend::Sqlite(store) = &self.inner.backend else {
            let hint = "this Bursar uses PostgreSQL: pass your connection to the methods that end in `_in`";
            return Err(Error::from(StoreError::WrongTransaction(hint.into())).into());
        };
        let bursar = self.clone();
        let shared = LostLeases::default();
        let lost = shared.clone();
        let done = store.transaction(limit, move |tx| work(&mut Transaction { tx, bursar: &bursar, lost })).await;
        let lost = std::mem::take(&mut *shared.lock().unwrap_or_else(PoisonError::into_inner));
        let rolled_back = match done {
            Ok(Ok((answer, entries))) => {
                entries.iter().for_each(|entry| self.inner.feed.publish(entry));
                lost.iter().for_each(LostLease::mark_settled);
                return Ok(answer);
            }
            Ok(Err(error)) => error,
            Err(error) => Error::from(error).into(),
        };
        for lost in &lost {
            lost.bill().await?;
        }
        Err(rolled_back)
    }
}
