//! One attempt at a batch: lock, load, decide, store, commit.

use std::time::Duration;

use bursar_core::request::Request;
use bursar_core::time::Time;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::error::{Trouble, commit_error, store_error, trouble};
use super::lane::{OpenBatch, lock_timeout_ms};
use super::rows::{PgRows, Taking};
use super::{GATE, PostgresStore, READ_COMMITTED, no_answer};
use crate::attempt::{Attempts, Prepared, Setback};
use crate::error::StoreError;
use crate::rows::Rows;
use crate::store::{Lock, Verdict};
use crate::turn::Turn;
use crate::work::{self, When};

impl Attempts for PostgresStore {
    type Tx = OpenBatch;

    fn key_patience(&self) -> Duration {
        self.options.key_patience
    }

    async fn at_once(&self, requests: &[&Request]) -> Result<Option<(Vec<Verdict>, Time)>, Setback> {
        self.do_at_once(requests).await
    }

    async fn prepare(
        &self,
        requests: &[&Request],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<Prepared<Self::Tx>, Setback> {
        let within = self.options.answer_within + wait + first.map_or(Duration::ZERO, |(_, wait)| wait);
        let tx = self.opened(first.map_or(wait, |(_, patience)| patience), within).await?;
        let prepared = tokio::time::timeout(within, self.work(tx, requests, first, wait)).await;
        prepared.unwrap_or_else(|_| Err(Setback::Final(no_answer(within))))
    }

    async fn finish(&self, tx: Self::Tx) -> Result<(), Setback> {
        match tokio::time::timeout(self.options.answer_within, self.close_batch(tx)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if trouble(&error) == Some(Trouble::Deadlock) => Err(Setback::Passing(store_error(error))),
            Ok(Err(error)) => Err(Setback::Final(commit_error(error))),
            Err(late) => Err(Setback::Final(StoreError::UnknownOutcome(Box::new(late)))),
        }
    }

    /// By trying to take it: in a transaction that is rolled back.
    async fn wait_for_name(&self, lock: &Lock, patience: Duration) -> Result<(), StoreError> {
        let mut tx = self.begin(READ_COMMITTED).await?;
        enter(&mut tx, patience).await.map_err(store_error)?;
        let waited = lock_row(&mut tx, lock).await.map_err(store_error);
        tx.rollback().await.map_err(store_error)?;
        waited
    }

    fn seen(&self, now: Time) {
        self.note_seen(now);
    }
}

impl PostgresStore {
    /// A transaction in which to work. The server may take a while to answer, but not longer than for a whole batch.
    async fn opened(&self, patience: Duration, within: Duration) -> Result<OpenBatch, Setback> {
        match tokio::time::timeout(self.options.connect_within + within, self.open_batch(patience)).await {
            Ok(Ok(tx)) => Ok(tx),
            Ok(Err(error)) => Err(tried(trouble(&error), self.pool_error(error))),
            Err(_) => Err(Setback::Final(no_answer(within))),
        }
    }

    /// Everything but the commit. What comes to nothing has let go of its rows before anybody hears of it: whoever asks
    /// again must not find them locked by the attempt before.
    async fn work(
        &self,
        mut tx: OpenBatch,
        requests: &[&Request],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<Prepared<OpenBatch>, Setback> {
        match self.work_in(&mut tx, requests, first, wait).await {
            Ok((verdicts, now)) => Ok(Prepared { tx, verdicts, now }),
            Err(setback) => {
                self.undo_batch(tx).await;
                Err(setback)
            }
        }
    }

    async fn work_in(
        &self,
        tx: &mut OpenBatch,
        requests: &[&Request],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<(Vec<Verdict>, Time), Setback> {
        if let Some((lock, _)) = first {
            let waited = async {
                lock_row(tx.conn(), lock).await?;
                enter(tx.conn(), wait).await
            };
            tx.began = waited.await.map_err(|error| tried(trouble(&error), store_error(error)))?;
        }
        let when = When { floor: self.floor(), batch: self.next_batch() };
        // With the row in hand that was waited for, those it is wanted with are worth a moment, as far as it is their turn.
        let taking = if first.is_some() { Taking::Wait } else { Taking::Skip };
        let turn = first.map(|(lock, _)| Turn::from(lock));
        let began = tx.began;
        let mut rows = PgRows { clock: Some(began), turn, ..PgRows::new(tx.conn(), self, taking) };
        let run = work::run(&mut rows, requests, &self.setup.rules, when, &mut self.ids()).await;
        let (mut ws, verdicts) = run.map_err(|error| match rows.trouble {
            Some(Trouble::LockTimeout) if taking == Taking::Wait => Setback::Contended,
            // Only a queue that is to be changed is waited for otherwise: whoever wants others is not held up.
            Some(Trouble::LockTimeout) => Setback::KeyLocked,
            trouble => tried(trouble, error),
        })?;
        let batch = ws.take_batch();
        let now = ws.now;
        match rows.store(&ws, batch).await {
            Ok(true) => Ok((verdicts, now)),
            Ok(false) => Err(Setback::Taken),
            Err(_) if rows.trouble == Some(Trouble::LockTimeout) => Err(Setback::KeyLocked),
            Err(error) => Err(tried(rows.trouble, error)),
        }
    }
}

/// Locks one row, waiting for it as long as the transaction waits for locks.
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

/// Sets how long this transaction waits for locks, has its commit wait for the disk, and joins the writers; tells the
/// database's clock.
pub(super) async fn enter(conn: &mut PgConnection, wait: Duration) -> Result<Time, sqlx::Error> {
    let row = sqlx::query(ENTER).bind(format!("{}ms", lock_timeout_ms(wait))).bind(GATE).fetch_one(conn).await?;
    row.try_get(0).map(Time::from_micros)
}

// A plan is made once and kept. One made while a table is small would read all of it by and by: not that one.
const ENTER: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, set_config('lock_timeout', $1, true), set_config('enable_seqscan', 'off', true),
    set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true),
    pg_advisory_xact_lock_shared($2)";

/// Before the commit nothing has happened: what passes by itself is tried again. Whoever waited for a lock has waited.
fn tried(trouble: Option<Trouble>, error: StoreError) -> Setback {
    match trouble {
        Some(Trouble::Deadlock | Trouble::Lost) => Setback::Passing(error),
        Some(Trouble::LockTimeout) | None => Setback::Final(error),
    }
}
