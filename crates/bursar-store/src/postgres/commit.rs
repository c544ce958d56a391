//! One attempt at a batch: lock, load, decide, store, commit.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::request::CheckedRequest;
use bursar_core::time::Time;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::connections::{OpenBatch, lock_timeout_ms};
use super::error::{Conflict, commit_error, conflict, store_error};
use super::rows::{LockMode, PgRows};
use super::{GATE, PostgresStore, READ_COMMITTED, no_answer};
use crate::error::StoreError;
use crate::store::{Commit, LockPolicy, RequestOutcome};
use crate::transaction::lock_order::Lock;
use crate::transaction::lock_order::LockOrder;
use crate::transaction::retry::{self, AttemptError, Engine, Prepared};
use crate::transaction::rows::Rows;
use crate::transaction::{self, BatchStart};

#[async_trait]
impl Commit for PostgresStore {
    async fn commit(
        &self,
        requests: &[Arc<CheckedRequest>],
        policy: LockPolicy,
    ) -> Result<Vec<RequestOutcome>, StoreError> {
        let requests: Vec<&CheckedRequest> = requests.iter().map(|request| &**request).collect();
        let done = retry::commit_all(self, &requests, policy).await;
        self.readiness.note(&done);
        done
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
        let tx = self.opened(first.map_or(wait, |(_, patience)| patience), within).await?;
        let prepared = tokio::time::timeout(within, self.prepare_in(tx, requests, first, wait)).await;
        prepared.unwrap_or_else(|_| Err(AttemptError::Final(no_answer(within))))
    }

    async fn finish(&self, tx: Self::Tx) -> Result<(), AttemptError> {
        match tokio::time::timeout(self.options.answer_within, self.close_batch(tx)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if conflict(&error) == Some(Conflict::Deadlock) => {
                Err(AttemptError::Transient(store_error(error)))
            }
            Ok(Err(error)) => Err(AttemptError::Final(commit_error(error))),
            Err(late) => Err(AttemptError::Final(StoreError::UnknownOutcome(Box::new(late)))),
        }
    }

    /// Inserts the name in a transaction that is rolled back: the insert waits for the other transaction.
    async fn wait_for_name(&self, lock: &Lock, timeout: Duration) -> Result<(), StoreError> {
        let mut tx = self.begin(READ_COMMITTED).await?;
        enter(&mut tx, timeout).await.map_err(store_error)?;
        let waited = lock_row(&mut tx, lock).await.map_err(store_error);
        tx.rollback().await.map_err(store_error)?;
        waited
    }

    fn note_decided_at(&self, now: Time) {
        self.note_written(now);
    }
}

impl PostgresStore {
    /// Opens a transaction. The server may take as long to answer as for a whole batch.
    async fn opened(&self, lock_timeout: Duration, within: Duration) -> Result<OpenBatch, AttemptError> {
        match tokio::time::timeout(self.options.connect_within + within, self.open_batch(lock_timeout)).await {
            Ok(Ok(tx)) => Ok(tx),
            Ok(Err(error)) => Err(retryable(conflict(&error), self.pool_error(error))),
            Err(_) => Err(AttemptError::Final(no_answer(within))),
        }
    }

    /// Everything but the commit. A failed attempt is rolled back before this returns, so that a retry does not find rows that are
    /// locked by the attempt before.
    async fn prepare_in(
        &self,
        mut tx: OpenBatch,
        requests: &[&CheckedRequest],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<Prepared<OpenBatch>, AttemptError> {
        match self.load_and_write(&mut tx, requests, first, wait).await {
            Ok((outcomes, now)) => Ok(Prepared { tx, outcomes, now }),
            Err(setback) => {
                self.roll_back_batch(tx).await;
                Err(setback)
            }
        }
    }

    async fn load_and_write(
        &self,
        tx: &mut OpenBatch,
        requests: &[&CheckedRequest],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<(Vec<RequestOutcome>, Time), AttemptError> {
        if let Some((lock, _)) = first {
            let waited = async {
                lock_row(tx.conn(), lock).await?;
                enter(tx.conn(), wait).await
            };
            tx.began = waited.await.map_err(|error| retryable(conflict(&error), store_error(error)))?;
        }
        let start = BatchStart { floor: self.floor(), batch: self.next_batch() };
        // A batch that has waited for a row waits a moment for the others too, as far as the lock order allows.
        let mode = if first.is_some() { LockMode::Wait } else { LockMode::Skip };
        let order = first.map(|(lock, _)| LockOrder::from(lock));
        let began = tx.began;
        let mut rows = PgRows { clock: Some(began), order, ..PgRows::new(tx.conn(), self, mode) };
        let run = transaction::run(&mut rows, requests, &self.setup.rules, start, &mut self.ids()).await;
        let (mut ws, outcomes) = run.map_err(|error| match rows.conflict {
            Some(Conflict::LockTimeout) if mode == LockMode::Wait => AttemptError::Contended,
            // In this mode only a queue that the batch defines is waited for.
            Some(Conflict::LockTimeout) => AttemptError::NameLocked,
            conflict => retryable(conflict, error),
        })?;
        let batch = ws.take_batch();
        let now = ws.now;
        match rows.store(&ws, batch).await {
            Ok(true) => Ok((outcomes, now)),
            Ok(false) => Err(AttemptError::Outdated),
            Err(_) if rows.conflict == Some(Conflict::LockTimeout) => Err(AttemptError::NameLocked),
            Err(error) => Err(retryable(rows.conflict, error)),
        }
    }
}

/// Locks one row, waiting up to the lock timeout of the transaction.
async fn lock_row(conn: &mut PgConnection, lock: &Lock) -> Result<(), sqlx::Error> {
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

/// Sets the lock timeout and a durable commit for this transaction, and excludes a rebuild of the tables; returns the clock of the
/// database.
pub(super) async fn enter(conn: &mut PgConnection, wait: Duration) -> Result<Time, sqlx::Error> {
    let row = sqlx::query(ENTER).bind(format!("{}ms", lock_timeout_ms(wait))).bind(GATE).fetch_one(conn).await?;
    row.try_get(0).map(Time::from_micros)
}

// The same settings as `connections::begin`, for a transaction that is open already.
const ENTER: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, set_config('lock_timeout', $1, true), set_config('enable_seqscan', 'off', true),
    set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true),
    pg_advisory_xact_lock_shared($2)";

/// Before the commit nothing has happened, so that a transient error can be retried. A lock timeout is final: the batch has waited.
fn retryable(conflict: Option<Conflict>, error: StoreError) -> AttemptError {
    match conflict {
        Some(Conflict::Deadlock | Conflict::Lost) => AttemptError::Transient(error),
        Some(Conflict::LockTimeout) | None => AttemptError::Final(error),
    }
}
