//! One attempt at a batch: lock and load, decide, write, commit.
//!
//! A batch of commands costs four round trips: begin the transaction with its settings (`connections`), lock and read the rows (`rows`),
//! write all changes (`write`), commit. Idempotency keys, holds, jobs and due charges add a statement each.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::request::CheckedRequest;
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use sqlx::Row;
use uuid::Uuid;

use super::conn::Conn;
use super::connections::{OpenBatch, lock_timeout_ms};
use super::error::{Conflict, commit_error, conflict, store_error};
use super::rows::{LockMode, PgRows};
use super::wall::{Reach, TenantList};
use super::{PostgresStore, READ_COMMITTED, REBUILD_LOCK, no_answer};
use crate::error::StoreError;
use crate::store::{Commit, LockPolicy, RequestOutcome};
use crate::transaction::lock_order::Lock;
use crate::transaction::lock_order::LockOrder;
use crate::transaction::retry::{self, AttemptError, Engine, Prepared};
use crate::transaction::rows::Rows;
use crate::transaction::{self, BatchStart};

/// The most times that a batch is run again because its scopes had to be created. Each time it may have read rows that name further scopes.
const RESTARTS_MAX: u32 = 10;

/// Part of the settings of `connections::begin`, for a transaction that is open already.
macro_rules! writer_settings {
    ($more:literal) => {
        concat!(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, set_config('lock_timeout', $1, true),
                set_config('enable_seqscan', 'off', true),
                set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true),
                pg_advisory_xact_lock_shared($2)",
            $more
        )
    };
}
pub(super) use writer_settings;

#[async_trait]
impl Commit for PostgresStore {
    async fn commit(
        &self,
        requests: &[Arc<CheckedRequest>],
        policy: LockPolicy,
    ) -> Result<Vec<RequestOutcome>, StoreError> {
        let requests: Vec<&CheckedRequest> = requests.iter().map(|request| &**request).collect();
        let outcomes = retry::commit_all(self, &requests, policy).await;
        self.readiness.record(&outcomes);
        outcomes
    }
}

impl Engine for PostgresStore {
    type Tx = OpenBatch;

    fn name_timeout(&self) -> Duration {
        self.options.key_patience
    }

    async fn prepare(
        &self,
        requests: &[&CheckedRequest],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<Prepared<Self::Tx>, AttemptError> {
        let within = self.options.answer_within + wait + first.map_or(Duration::ZERO, |(_, wait)| wait);
        let tenants = tenants_of(requests);
        if self.side_pool.pooled {
            self.create_first(within, self.create_named_scopes(requests)).await?;
        }
        for _ in 0..RESTARTS_MAX {
            let tx = self.open_transaction(first.map_or(wait, |(_, wait)| wait), within, &tenants).await?;
            match tokio::time::timeout(within, self.prepare_in(tx, requests, first, wait)).await {
                Ok(Ok(prepared)) => return Ok(prepared),
                Ok(Err(NotPrepared::Failed(error))) => return Err(error),
                Ok(Err(NotPrepared::Uncreated(keys))) => self.create_first(within, self.create_scopes(&keys)).await?,
                Err(_) => {
                    self.replace_connections();
                    return Err(AttemptError::Final(no_answer(within)));
                }
            }
        }
        Err(AttemptError::Final(StoreError::Busy("other transactions kept deleting the scopes of the requests".into())))
    }

    async fn finish(&self, tx: Self::Tx) -> Result<(), AttemptError> {
        match tokio::time::timeout(self.options.answer_within, self.close_batch(tx)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if conflict(&error) == Some(Conflict::Deadlock) => {
                Err(AttemptError::Transient(store_error(error)))
            }
            Ok(Err(error)) => Err(AttemptError::Final(commit_error(error))),
            Err(timeout) => {
                self.replace_connections();
                Err(AttemptError::Final(StoreError::UnknownOutcome(Box::new(timeout))))
            }
        }
    }

    /// Inserts the name in a transaction that is rolled back. The insert waits until the other transaction ends.
    async fn wait_for_row(
        &self,
        requests: &[&CheckedRequest],
        lock: &Lock,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let tx = self.begin(READ_COMMITTED, Reach::Tenants(&tenants_of(requests))).await?;
        let mut tx = tx.waiting_up_to(timeout);
        configure_writer(tx.conn(), timeout).await.map_err(store_error)?;
        let waited = lock_row(tx.conn(), lock).await.map_err(store_error);
        tx.rollback().await.map_err(store_error)?;
        waited
    }

    fn note_decided_at(&self, now: Time) {
        self.advance_time_floor(now);
    }
}

impl PostgresStore {
    /// Opens a transaction. The timeout is that of a whole batch, because a running rebuild delays the answer.
    async fn open_transaction(
        &self,
        lock_timeout: Duration,
        within: Duration,
        tenants: &TenantList,
    ) -> Result<OpenBatch, AttemptError> {
        match tokio::time::timeout(self.options.connect_within + within, self.open_batch(lock_timeout, tenants)).await {
            Ok(Ok(tx)) => Ok(tx),
            Ok(Err(error)) => Err(attempt_error(conflict(&error), self.pool_error(error))),
            Err(_) => {
                self.replace_connections();
                Err(AttemptError::Final(no_answer(within)))
            }
        }
    }

    /// Creates scopes before a transaction is opened.
    async fn create_first(
        &self,
        within: Duration,
        create: impl Future<Output = Result<(), sqlx::Error>>,
    ) -> Result<(), AttemptError> {
        match tokio::time::timeout(self.options.connect_within + within, create).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(attempt_error(conflict(&error), store_error(error))),
            Err(_) => Err(AttemptError::Final(no_answer(within))),
        }
    }

    /// Does everything but commit. A failed attempt is rolled back before this returns, so that the retry does not find rows that this
    /// attempt has locked.
    async fn prepare_in(
        &self,
        mut tx: OpenBatch,
        requests: &[&CheckedRequest],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<Prepared<OpenBatch>, NotPrepared> {
        match self.load_and_write(&mut tx, requests, first, wait).await {
            Ok((outcomes, now)) => Ok(Prepared { tx, outcomes, now }),
            // The connection is lost, or its server writes no more, so the retry gets another connection.
            Err(error @ NotPrepared::Failed(AttemptError::Transient(StoreError::Unavailable { .. }))) => {
                drop(tx);
                self.replace_connections();
                Err(error)
            }
            Err(error) => {
                self.roll_back_batch(tx).await;
                Err(error)
            }
        }
    }

    async fn load_and_write(
        &self,
        tx: &mut OpenBatch,
        requests: &[&CheckedRequest],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<(Vec<RequestOutcome>, Time), NotPrepared> {
        if let Some((lock, _)) = first {
            let waited = async {
                lock_row(tx.conn(), lock).await?;
                configure_writer(tx.conn(), wait).await
            };
            tx.began = waited.await.map_err(|error| attempt_error(conflict(&error), store_error(error)))?;
        }
        let start = BatchStart { floor: self.time_floor(), batch: self.next_batch() };
        // A batch that has waited for one row also waits for the others, up to `wait` and as far as the lock order allows.
        let mode = if first.is_some() { LockMode::Wait } else { LockMode::Skip };
        let order = first.map(|(lock, _)| LockOrder::from(lock));
        let (began, restarts) = (tx.began, self.side_pool.pooled);
        let mut rows = PgRows { clock: Some(began), order, restarts, ..PgRows::new(tx.conn(), self, mode) };
        let run = transaction::run(&mut rows, requests, &self.setup.rules, start, &mut self.ids()).await;
        if !rows.uncreated.is_empty() {
            return Err(NotPrepared::Uncreated(rows.uncreated));
        }
        let (mut ws, outcomes) = run.map_err(|error| match rows.conflict {
            Some(Conflict::LockTimeout) if mode == LockMode::Wait => AttemptError::Contended,
            // In this mode the batch waits only for a queue that it defines.
            Some(Conflict::LockTimeout) => AttemptError::NameLocked,
            conflict => attempt_error(conflict, error),
        })?;
        let batch = ws.take_batch();
        let now = ws.now;
        match rows.store(&ws, batch).await {
            Ok(true) => Ok((outcomes, now)),
            Ok(false) => Err(AttemptError::Outdated.into()),
            Err(_) if rows.conflict == Some(Conflict::LockTimeout) => Err(AttemptError::NameLocked.into()),
            Err(error) => Err(attempt_error(rows.conflict, error).into()),
        }
    }
}

/// Returns the tenants whose rows a batch may touch.
fn tenants_of(requests: &[&CheckedRequest]) -> TenantList {
    TenantList::new(requests.iter().map(|request| &request.context.tenant))
}

/// Why a transaction was not prepared.
enum NotPrepared {
    Failed(AttemptError),
    /// These scopes must be created first.
    Uncreated(Vec<ScopeKey>),
}

impl From<AttemptError> for NotPrepared {
    fn from(error: AttemptError) -> NotPrepared {
        NotPrepared::Failed(error)
    }
}

/// Locks one row, waiting up to the lock timeout of the transaction. A key that may not exist is locked by inserting it.
async fn lock_row(conn: Conn<'_>, lock: &Lock) -> Result<(), sqlx::Error> {
    let none = Uuid::nil();
    let statement = match lock {
        Lock::Scope((tenant, scope)) => {
            let sql = "SELECT 1 FROM bursar.scopes WHERE tenant = $1 AND scope = $2 FOR UPDATE";
            sqlx::query(sql).bind(tenant.as_str()).bind(scope.as_str())
        }
        Lock::Schedule((tenant, name)) => {
            let sql = "SELECT 1 FROM bursar.schedules WHERE tenant = $1 AND name = $2 FOR UPDATE";
            sqlx::query(sql).bind(tenant.as_str()).bind(name.as_str())
        }
        Lock::Job(id) => {
            let sql = "SELECT 1 FROM (SELECT 1 FROM bursar.jobs WHERE id = $1 FOR UPDATE) live
                UNION ALL SELECT 1 FROM (SELECT 1 FROM bursar.ended_jobs WHERE id = $1 FOR UPDATE) ended";
            sqlx::query(sql).bind(Uuid::from_u128(id.0))
        }
        Lock::Blob(id) => {
            sqlx::query("SELECT 1 FROM bursar.blobs WHERE id = $1 FOR UPDATE").bind(Uuid::from_u128(id.0))
        }
        Lock::Hold(id) => {
            sqlx::query("SELECT 1 FROM bursar.holds WHERE id = $1 FOR UPDATE").bind(Uuid::from_u128(id.0))
        }
        Lock::Grant(id) => {
            sqlx::query("SELECT 1 FROM bursar.grants WHERE id = $1 FOR UPDATE").bind(Uuid::from_u128(id.0))
        }
        Lock::Key((tenant, key)) => {
            let sql = "INSERT INTO bursar.keys (tenant, key, fingerprint, batch, command, until) VALUES ($1, $2, $3, $3, $3, 0) ON CONFLICT DO NOTHING";
            sqlx::query(sql).bind(tenant.as_str()).bind(key.as_str()).bind(none)
        }
        Lock::JobKey((tenant, queue, key)) => {
            let sql =
                "INSERT INTO bursar.job_keys (tenant, queue, key, job) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
            sqlx::query(sql).bind(tenant.as_str()).bind(queue.as_str()).bind(key.as_str()).bind(none)
        }
    };
    statement.execute(conn).await.map(drop)
}

/// Sets the lock timeout and a durable commit for an open transaction, and waits until no rebuild is running. Returns the clock of the
/// database.
pub(super) async fn configure_writer(conn: Conn<'_>, lock_timeout: Duration) -> Result<Time, sqlx::Error> {
    let row = sqlx::query(writer_settings!(""))
        .bind(format!("{}ms", lock_timeout_ms(lock_timeout)))
        .bind(REBUILD_LOCK)
        .fetch_one(conn)
        .await?;
    row.try_get(0).map(Time::from_micros)
}

/// Classifies an error before the commit. Nothing is changed yet, so a transient error can be retried. A lock timeout is final, because
/// the batch has waited already.
fn attempt_error(conflict: Option<Conflict>, error: StoreError) -> AttemptError {
    match conflict {
        Some(Conflict::Deadlock | Conflict::ConnectionLost | Conflict::ReadOnly) => AttemptError::Transient(error),
        Some(Conflict::LockTimeout) | None => AttemptError::Final(error),
    }
}
