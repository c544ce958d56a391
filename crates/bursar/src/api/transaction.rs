//! A caller's own rows and Bursar's in one SQLite transaction.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar_core::answer::{Enqueued, Finished, Outcome};
use bursar_core::budget::Limit;
use bursar_core::id::JobId;
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
use crate::api::jobs::{Failure, LostLease, one_of};
use crate::error::Error;

/// A transaction on the writer's thread. What is done in it commits together, or not at all.
pub struct Transaction<'a, 'tx> {
    tx: &'a mut SqliteTx<'tx>,
    bursar: &'a Bursar,
    lost: LostLeases,
}

/// Leases that turned out to be lost, with what was spent under them: a rollback must not take that back.
type LostLeases = Arc<Mutex<Vec<LostLease>>>;

impl Transaction<'_, '_> {
    /// The connection, for the caller's own statements. Transaction control, `ATTACH` and `PRAGMA` are refused.
    pub fn connection(&self) -> &Connection {
        self.tx.connection()
    }

    /// Begins a command, to be submitted here.
    pub fn command(&self) -> CommandBuilder {
        self.bursar.command()
    }

    /// Does a command within the transaction.
    pub fn submit(&mut self, command: CommandBuilder) -> Result<Receipt, Error> {
        let request = command.into_request()?;
        Ok(Receipt::from(self.request(&request)?))
    }

    /// Does any request within the transaction.
    pub fn request(&mut self, request: &Request) -> Result<Outcome, Error> {
        Ok(self.execute(request)?.0)
    }

    /// Redeems a token; a rollback leaves it unspent.
    pub fn redeem<P, S>(&mut self, purpose: P, subject: S, token: &str) -> Result<Payload, Error>
    where
        P: TryInto<Purpose, Error = Invalid>,
        S: TryInto<Subject, Error = Invalid>,
    {
        let receipt = self.submit(self.bursar.command().redeem(purpose, subject, token))?;
        Ok(receipt.done.grants.first().and_then(|grant| grant.payload.clone()).unwrap_or_default())
    }

    /// Enqueues a job.
    pub fn enqueue(&mut self, job: JobSpec) -> Result<Enqueued, Error> {
        let receipt = self.submit(self.bursar.command().job(job))?;
        receipt.done.jobs.first().copied().ok_or_else(|| Error::Internal("a job command enqueued no job".into()))
    }

    /// A job is done: its end, what it cost and the caller's rows commit together. `usage` is what it really cost: as much as
    /// was held if it is `None`, nothing if it is empty.
    pub fn complete(
        &mut self,
        job: JobId,
        fence: u64,
        result: Payload,
        usage: Option<Vec<Usage>>,
    ) -> Result<Finished, Error> {
        self.finish(Finish { job, fence, end: End::Complete { result, usage } })
    }

    /// An attempt of a job did not work.
    pub fn fail(&mut self, job: JobId, fence: u64, failure: Failure) -> Result<Finished, Error> {
        self.finish(Finish { job, fence, end: failure.into() })
    }

    /// Ends a lease. Where it is lost, what was reported as spent is charged once, also if all else is rolled back.
    pub fn finish(&mut self, item: Finish) -> Result<Finished, Error> {
        let request = Request::from(Op::Finish { items: vec![item] }).in_context(self.bursar.context.clone());
        let (outcome, mut lost) = self.execute(&request)?;
        Ok(one_of(outcome, lost.pop())?.0)
    }

    /// Spends `amount` if no more than `limit` units are spent in the window with it.
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

/// How long a closure may take unless told otherwise. Everybody else waits for it.
const LIMIT: Duration = Duration::from_secs(5);

impl Bursar {
    /// Runs a closure in a transaction of its own on the thread that owns the writing connection. It is rolled back
    /// when the closure fails, panics or takes longer than five seconds; nobody hears of it then. What was spent under a lost
    /// lease is charged all the same; if that fails, its error is what is returned.
    pub async fn transaction<T, E>(
        &self,
        work: impl FnOnce(&mut Transaction<'_, '_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.transaction_within(LIMIT, work).await
    }

    /// The same with another time limit.
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
            let hint =
                "this Bursar keeps its tables in PostgreSQL: pass your connection to the methods that end in `_in`";
            return Err(Error::from(StoreError::WrongTransaction(hint.into())).into());
        };
        let bursar = self.clone();
        let lost = LostLeases::default();
        let noted = lost.clone();
        let done =
            store.transaction(limit, move |tx| work(&mut Transaction { tx, bursar: &bursar, lost: noted })).await;
        let lost = std::mem::take(&mut *lost.lock().unwrap_or_else(PoisonError::into_inner));
        let rolled_back = match done {
            Ok(Ok((answer, told))) => {
                told.iter().for_each(|entry| self.inner.feed.publish(entry));
                lost.iter().for_each(LostLease::settled);
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
