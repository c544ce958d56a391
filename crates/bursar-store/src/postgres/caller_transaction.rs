//! Requests inside a caller's own transaction: its rows and Bursar's commit together, or not at all.
//!
//! Each call works within a savepoint. It waits for locks in the lock order, up to
//! [`caller_patience`](super::PostgresOptions::caller_patience). If it fails, it rolls back to the savepoint, which also restores the
//! caller's settings.

use bursar_core::answer::Outcome;
use bursar_core::name::Tenant;
use bursar_core::refusal::Refusal;
use bursar_core::request::CheckedRequest;
use bursar_core::state::ScopeKey;
use sqlx::{PgConnection, Postgres, Transaction};

use super::commit::writer_settings;
use super::conn::Conn;
use super::connections::lock_timeout_ms;
use super::error::{Conflict, code, commit_error, conflict, store_error};
use super::pg_types::{CtidArrayByName, CtidByName};
use super::rows::{LockMode, PgRows};
use super::wall::TenantList;
use super::{PostgresStore, READ_COMMITTED, REBUILD_LOCK};
use crate::error::StoreError;
use crate::store::RequestOutcome;
use crate::transaction::rows::Rows;
use crate::transaction::{self, BatchStart};

/// How often a request is decided again because another transaction has taken one of its keys.
const ATTEMPTS_MAX: u32 = 6;
/// The most steps that fold due charges in one request: two million charges on one scope.
const STEPS_MAX: u32 = 1_000;

/// The outcome of one attempt.
enum StepOutcome {
    Answered(Result<Outcome, Refusal>),
    /// More is due on the scopes than one step folds.
    Again,
    /// Another transaction has taken a key since it was looked up.
    KeyTaken,
}

/// The caller's values of the settings that are restored after a request. `synchronous_commit` is not: once it is turned on, it stays on
/// for the rest of the transaction, so that its commit is durable.
struct CallerSettings {
    lock_timeout: String,
    enable_seqscan: String,
    tenants: String,
    role: String,
}

impl PostgresStore {
    /// Executes a request on a connection with an open READ COMMITTED transaction, which the caller commits or rolls back. Other
    /// transactions see the changes after that commit. After an error the transaction is as before the call, unless the error is
    /// [`RetryTransaction`](StoreError::RetryTransaction). If this future is dropped before it completes, the caller must roll back.
    pub async fn commit_in(
        &self,
        conn: &mut PgConnection,
        request: &CheckedRequest,
    ) -> Result<Result<Outcome, Refusal>, StoreError> {
        let mut conn = Conn::in_transaction(conn, self.pool.pooled);
        let settings = self.open_savepoint(&mut conn).await?;
        // Boxed, because the futures of callers contain this one, and its type is deep.
        let result = Box::pin(self.commit_in_steps(&mut conn, request)).await;
        close_savepoint(&mut conn, settings, result).await
    }

    /// Locks a scope in the caller's transaction, so that no other transaction changes it until the caller's ends. After an error the
    /// transaction is as before the call, unless the error is [`RetryTransaction`](StoreError::RetryTransaction).
    pub async fn lock_scope(&self, conn: &mut PgConnection, key: &ScopeKey) -> Result<(), StoreError> {
        let mut conn = Conn::in_transaction(conn, self.pool.pooled);
        let settings = self.open_savepoint(&mut conn).await?;
        let result = Box::pin(self.lock_scope_row(&mut conn, key)).await;
        close_savepoint(&mut conn, settings, result).await
    }

    /// Begins a transaction for `commit_in`, at READ COMMITTED whatever the default of the server is.
    pub async fn begin_own(&self) -> Result<Transaction<'static, Postgres>, StoreError> {
        self.pool.pool.begin_with(READ_COMMITTED).await.map_err(|error| self.pool_error(error))
    }

    /// Commits a transaction. If the connection is lost or the server does not answer, the outcome is unknown.
    pub async fn finish(&self, tx: Transaction<'static, Postgres>) -> Result<(), StoreError> {
        match tokio::time::timeout(self.options.answer_within, tx.commit()).await {
            Ok(committed) => committed.map_err(commit_error),
            Err(timeout) => Err(StoreError::UnknownOutcome(Box::new(timeout))),
        }
    }

    /// Checks the caller's transaction and sets a savepoint; returns the caller's settings.
    async fn open_savepoint(&self, conn: &mut Conn<'_>) -> Result<CallerSettings, StoreError> {
        let settings = check_caller(conn).await?;
        execute(conn, "SAVEPOINT bursar").await.map_err(caller_error)?;
        Ok(settings)
    }

    /// Sets what a writer needs. Row-level security may apply to the role of the caller even if it does not apply to that of this store, so
    /// the tenant is always named.
    async fn configure(&self, conn: &mut Conn<'_>, tenant: &Tenant) -> Result<(), StoreError> {
        let configure = writer_settings!(
            ", set_config('bursar.tenants', $3, true), set_config('role', coalesce($4, current_setting('role')), true)"
        );
        let configure = sqlx::query(configure)
            .bind(format!("{}ms", lock_timeout_ms(self.options.caller_patience)))
            .bind(REBUILD_LOCK)
            .bind(TenantList::new([tenant]).as_str().to_owned())
            .bind(self.wall.role());
        configure.execute(conn).await.map(drop).map_err(caller_error)
    }

    async fn lock_scope_row(&self, conn: &mut Conn<'_>, key: &ScopeKey) -> Result<(), StoreError> {
        self.configure(conn, &key.0).await?;
        let mut rows = PgRows::new(conn.reborrow(), self, LockMode::Wait);
        let locked = rows.scopes(&[(key.clone(), true)]).await;
        locked.map(drop).map_err(|error| deadlock_or(rows.conflict, error))
    }

    async fn commit_in_steps(
        &self,
        conn: &mut Conn<'_>,
        request: &CheckedRequest,
    ) -> Result<Result<Outcome, Refusal>, StoreError> {
        self.configure(conn, &request.context.tenant).await?;
        let (mut attempts, mut steps) = (0, 0);
        loop {
            match self.commit_step(conn, request).await? {
                StepOutcome::Answered(answer) => return Ok(answer),
                StepOutcome::Again if steps < STEPS_MAX => steps += 1,
                // The transaction that took the key has committed, so the next attempt sees it.
                StepOutcome::KeyTaken if attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    execute(conn, "ROLLBACK TO SAVEPOINT bursar").await.map_err(caller_error)?;
                    self.configure(conn, &request.context.tenant).await?;
                }
                StepOutcome::Again => {
                    return Err(StoreError::Busy("too many charges are due on the scopes of the request".into()));
                }
                StepOutcome::KeyTaken => {
                    return Err(StoreError::Busy("other transactions kept taking the same keys".into()));
                }
            }
        }
    }

    async fn commit_step(&self, conn: &mut Conn<'_>, request: &CheckedRequest) -> Result<StepOutcome, StoreError> {
        let start = BatchStart { floor: self.time_floor(), batch: self.next_batch() };
        let mut rows = PgRows::new(conn.reborrow(), self, LockMode::Wait);
        let step = async {
            let (mut ws, mut outcomes) =
                transaction::run(&mut rows, &[request], &self.setup.rules, start, &mut self.ids()).await?;
            let batch = ws.take_batch();
            if !rows.store(&ws, batch).await? {
                return Ok(StepOutcome::KeyTaken);
            }
            Ok(match outcomes.pop() {
                Some(RequestOutcome::Answered(answer)) => StepOutcome::Answered(answer),
                Some(RequestOutcome::Again) => StepOutcome::Again,
                Some(RequestOutcome::Blocked(_) | RequestOutcome::Failed(_)) | None => {
                    return Err(StoreError::Busy("other transactions have locked rows of the request".into()));
                }
            })
        };
        let outcome = step.await;
        outcome.map_err(|error| deadlock_or(rows.conflict, error))
    }
}

/// Rejects a transaction that is read-only or may read old rows; returns the caller's settings.
async fn check_caller(conn: &mut Conn<'_>) -> Result<CallerSettings, StoreError> {
    // The arguments make the driver look up types that later statements use: see `conn`.
    let settings = "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'),
                            current_setting('lock_timeout'), current_setting('enable_seqscan'),
                            coalesce(current_setting('bursar.tenants', true), ''), current_setting('role')
                    WHERE $1 IS NULL AND $2 IS NULL";
    let (isolation, read_only, lock_timeout, enable_seqscan, tenants, role): (
        String,
        String,
        String,
        String,
        String,
        String,
    ) = sqlx::query_as(settings)
        .bind(None::<CtidByName>)
        .bind(None::<CtidArrayByName>)
        .fetch_one(conn)
        .await
        .map_err(caller_error)?;
    if read_only == "on" {
        let text = "the transaction is READ ONLY; begin it READ WRITE, on the primary server";
        return Err(StoreError::WrongTransaction(text.into()));
    }
    if isolation != "read committed" {
        return Err(StoreError::WrongTransaction(format!(
            "the transaction is {}, which could read outdated balances; \
                 begin it with BEGIN ISOLATION LEVEL READ COMMITTED",
            isolation.to_uppercase()
        )));
    }
    Ok(CallerSettings { lock_timeout, enable_seqscan, tenants, role })
}

/// Releases the savepoint after a success. After an error rolls back to it, which also releases locks and restores the settings.
async fn close_savepoint<T>(
    conn: &mut Conn<'_>,
    settings: CallerSettings,
    result: Result<T, StoreError>,
) -> Result<T, StoreError> {
    match result {
        Ok(answer) => {
            execute(conn, "RELEASE SAVEPOINT bursar").await.map_err(caller_error)?;
            restore_settings(conn, settings).await?;
            Ok(answer)
        }
        Err(error) => {
            // If the rollback fails too, the connection is lost. The first error says more.
            if execute(conn, "ROLLBACK TO SAVEPOINT bursar").await.is_ok() {
                execute(conn, "RELEASE SAVEPOINT bursar").await.map_err(caller_error)?;
            }
            Err(error)
        }
    }
}

async fn restore_settings(conn: &mut Conn<'_>, settings: CallerSettings) -> Result<(), StoreError> {
    let restore = "SELECT set_config('lock_timeout', $1, true), set_config('enable_seqscan', $2, true),
                          set_config('bursar.tenants', $3, true), set_config('role', $4, true)";
    let CallerSettings { lock_timeout, enable_seqscan, tenants, role } = settings;
    let restore = sqlx::query(restore).bind(lock_timeout).bind(enable_seqscan).bind(tenants).bind(role);
    restore.execute(conn).await.map(drop).map_err(caller_error)
}

/// Replaces the error of a deadlock. Retrying within the transaction would not help: the caller still holds the locks that it had before.
fn deadlock_or(conflict: Option<Conflict>, error: StoreError) -> StoreError {
    if conflict == Some(Conflict::Deadlock) { deadlock() } else { error }
}

fn deadlock() -> StoreError {
    StoreError::RetryTransaction("it was in a deadlock with another transaction; roll it back and run it again".into())
}

async fn execute(conn: &mut Conn<'_>, sql: &'static str) -> Result<(), sqlx::Error> {
    sqlx::query(sql).execute(conn).await.map(drop)
}

/// Translates the error of a statement in the caller's transaction.
fn caller_error(error: sqlx::Error) -> StoreError {
    match code(&error).as_deref() {
        Some("25P01") => StoreError::WrongTransaction(
            "the connection has no open transaction; begin one, pass it, and commit it afterwards".into(),
        ),
        Some("25P02") => {
            StoreError::RetryTransaction("an earlier statement in it failed; roll it back and run it again".into())
        }
        _ if conflict(&error) == Some(Conflict::Deadlock) => deadlock(),
        _ => store_error(error),
    }
}
