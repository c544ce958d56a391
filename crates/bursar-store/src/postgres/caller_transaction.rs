//! Requests inside a caller's own transaction: its rows and Bursar's commit together, or not at all.

use bursar_core::answer::Outcome;
use bursar_core::refusal::Refusal;
use bursar_core::request::CheckedRequest;
use bursar_core::state::ScopeKey;
use sqlx::{PgConnection, Postgres, Transaction};

use super::commit::enter;
use super::error::{Conflict, code, commit_error, conflict, store_error};
use super::rows::{LockMode, PgRows};
use super::{PostgresStore, READ_COMMITTED};
use crate::error::StoreError;
use crate::store::RequestOutcome;
use crate::transaction::rows::Rows;
use crate::transaction::{self, BatchStart};

/// How often a request is decided anew because a key was taken meanwhile.
const ATTEMPTS: u32 = 6;
/// Steps of folding in one request at most: two million due charges on one scope.
const STEPS_MAX: u32 = 1_000;

/// What one attempt came to.
enum Step {
    Answered(Result<Outcome, Refusal>),
    Again,
    Taken,
}

/// The caller's own settings of what is set differently meanwhile.
struct Settings {
    lock_timeout: String,
    seq_scan: String,
}

impl PostgresStore {
    /// Does a request on a connection with an open READ COMMITTED transaction, which the caller commits or rolls back.
    /// Nothing of it is seen by others before that. After an error the transaction is as it was before the call, unless
    /// the error says to retry it. Whoever drops this future before it is done must roll the transaction back.
    pub async fn commit_in(
        &self,
        conn: &mut PgConnection,
        request: &CheckedRequest,
    ) -> Result<Result<Outcome, Refusal>, StoreError> {
        let own = self.open_part(conn).await?;
        let done = self.steps_in(conn, request).await;
        end_part(conn, own, done).await
    }

    /// Locks a scope in the caller's transaction, so that what is read next is not changed by another hold on it. After
    /// an error the transaction is as it was before the call, unless the error says to retry it.
    pub async fn lock_scope(&self, conn: &mut PgConnection, key: &ScopeKey) -> Result<(), StoreError> {
        let own = self.open_part(conn).await?;
        let done = self.take_in(conn, key).await;
        end_part(conn, own, done).await
    }

    /// Begins a transaction in which `commit_in` can work, whatever level the server begins one with by itself.
    pub async fn begin_own(&self) -> Result<Transaction<'static, Postgres>, StoreError> {
        self.begin(READ_COMMITTED).await
    }

    /// Commits a transaction. Only where the connection was lost meanwhile is it not known what came of it.
    pub async fn finish(&self, tx: Transaction<'static, Postgres>) -> Result<(), StoreError> {
        match tokio::time::timeout(self.options.answer_within, tx.commit()).await {
            Ok(done) => done.map_err(commit_error),
            Err(late) => Err(StoreError::UnknownOutcome(Box::new(late))),
        }
    }

    /// Opens a part of the caller's transaction that can be undone by itself; returns the caller's own settings.
    async fn open_part(&self, conn: &mut PgConnection) -> Result<Settings, StoreError> {
        let own = self.check_caller(conn).await?;
        run(conn, "SAVEPOINT bursar").await.map_err(caller_error)?;
        Ok(own)
    }

    async fn take_in(&self, conn: &mut PgConnection, key: &ScopeKey) -> Result<(), StoreError> {
        enter(conn, self.options.caller_patience).await.map_err(caller_error)?;
        let mut rows = PgRows::new(conn, self, LockMode::Wait);
        let taken = rows.scopes(&[(key.clone(), true)]).await;
        taken.map(drop).map_err(|error| retried(rows.conflict, error))
    }

    async fn steps_in(
        &self,
        conn: &mut PgConnection,
        request: &CheckedRequest,
    ) -> Result<Result<Outcome, Refusal>, StoreError> {
        enter(conn, self.options.caller_patience).await.map_err(caller_error)?;
        let (mut attempts, mut steps) = (0, 0);
        loop {
            match self.step_in(conn, request).await? {
                Step::Answered(answer) => return Ok(answer),
                Step::Again if steps < STEPS_MAX => steps += 1,
                // Whoever took the key has committed: now it is seen.
                Step::Taken if attempts < ATTEMPTS => {
                    attempts += 1;
                    run(conn, "ROLLBACK TO SAVEPOINT bursar").await.map_err(caller_error)?;
                    enter(conn, self.options.caller_patience).await.map_err(caller_error)?;
                }
                Step::Again => return Err(StoreError::Busy("more is due on its scopes than one call folds".into())),
                Step::Taken => return Err(StoreError::Busy("keys were taken again and again".into())),
            }
        }
    }

    async fn step_in(&self, conn: &mut PgConnection, request: &CheckedRequest) -> Result<Step, StoreError> {
        let start = BatchStart { floor: self.floor(), batch: self.next_batch() };
        let mut rows = PgRows::new(conn, self, LockMode::Wait);
        let done = async {
            let (mut ws, mut outcomes) =
                transaction::run(&mut rows, &[request], &self.setup.rules, start, &mut self.ids()).await?;
            let batch = ws.take_batch();
            if !rows.store(&ws, batch).await? {
                return Ok(Step::Taken);
            }
            Ok(match outcomes.pop() {
                Some(RequestOutcome::Answered(answer)) => Step::Answered(answer),
                Some(RequestOutcome::Again) => Step::Again,
                Some(RequestOutcome::Blocked(_) | RequestOutcome::Failed(_)) | None => {
                    return Err(StoreError::Busy("others have locked its rows".into()));
                }
            })
        };
        let done = done.await;
        done.map_err(|error| retried(rows.conflict, error))
    }

    /// Refuses what would give wrong answers; returns the caller's own settings of what is set here meanwhile.
    async fn check_caller(&self, conn: &mut PgConnection) -> Result<Settings, StoreError> {
        let settings = "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'),
                            current_setting('lock_timeout'), current_setting('enable_seqscan')";
        let (isolation, read_only, lock_timeout, seq_scan): (String, String, String, String) =
            sqlx::query_as(settings).fetch_one(conn).await.map_err(caller_error)?;
        if read_only == "on" {
            let text = "the transaction is READ ONLY: begin it READ WRITE, on the primary server";
            return Err(StoreError::WrongTransaction(text.into()));
        }
        if isolation != "read committed" {
            return Err(StoreError::WrongTransaction(format!(
                "the transaction is {}, in which balances could be read that are out of date: \
                 begin it with BEGIN ISOLATION LEVEL READ COMMITTED",
                isolation.to_uppercase()
            )));
        }
        Ok(Settings { lock_timeout, seq_scan })
    }
}

/// Keeps what a part has done, or undoes it, which gives back its locks and its settings too.
async fn end_part<T>(conn: &mut PgConnection, own: Settings, done: Result<T, StoreError>) -> Result<T, StoreError> {
    match done {
        Ok(answer) => {
            run(conn, "RELEASE SAVEPOINT bursar").await.map_err(caller_error)?;
            restore(conn, own).await?;
            Ok(answer)
        }
        Err(error) => {
            // Where even this fails the connection is gone, and the first error tells more.
            if run(conn, "ROLLBACK TO SAVEPOINT bursar").await.is_ok() {
                run(conn, "RELEASE SAVEPOINT bursar").await.map_err(caller_error)?;
            }
            Err(error)
        }
    }
}

/// The caller's own settings again.
async fn restore(conn: &mut PgConnection, own: Settings) -> Result<(), StoreError> {
    let restore = "SELECT set_config('lock_timeout', $1, true), set_config('enable_seqscan', $2, true)";
    let restore = sqlx::query(restore).bind(own.lock_timeout).bind(own.seq_scan);
    restore.execute(conn).await.map(drop).map_err(caller_error)
}

/// What stood in the way of the victim of a deadlock stands there until the caller gives its other locks back.
fn retried(conflict: Option<Conflict>, error: StoreError) -> StoreError {
    match conflict {
        Some(Conflict::Deadlock) => StoreError::RetryTransaction(
            "it and another one waited for each other: roll back, and run it again from the start".into(),
        ),
        _ => error,
    }
}

async fn run(conn: &mut PgConnection, sql: &'static str) -> Result<(), sqlx::Error> {
    sqlx::query(sql).execute(conn).await.map(drop)
}

/// What a failed statement means to somebody whose transaction it is.
fn caller_error(error: sqlx::Error) -> StoreError {
    match code(&error).as_deref() {
        Some("25P01") => StoreError::WrongTransaction(
            "the connection has no open transaction: begin one, pass it, and commit it afterwards".into(),
        ),
        Some("25P02") => StoreError::RetryTransaction("an earlier statement of it failed: roll it back".into()),
        _ if conflict(&error) == Some(Conflict::Deadlock) => {
            StoreError::RetryTransaction("it and another one waited for each other".into())
        }
        _ => store_error(error),
    }
}
