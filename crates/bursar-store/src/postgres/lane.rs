//! The connections of batches, and how a batch begins and ends on one: in as few trips to the server as there can be.
//!
//! A batch that ends well keeps its connection for the next one. A pool would ask the server twice for each batch whether
//! the connection is still good; the first statement of a batch says so too.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::time::Time;
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row};

use super::error::{Trouble, trouble};
use super::{GATE, PostgresStore};

/// Of so many connections one is kept for batches: the others remain for everybody.
const SHARE: u32 = 4;

/// An open transaction of a batch. Dropped before its end it takes its connection with it, and the server undoes it.
pub struct OpenBatch {
    conn: Option<PoolConnection<Postgres>>,
    /// The database's clock when it began.
    pub(super) began: Time,
}

impl OpenBatch {
    pub(super) fn conn(&mut self) -> &mut PgConnection {
        self.conn.as_mut().expect("it is there until the end")
    }
}

impl Drop for OpenBatch {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            drop(conn.detach());
        }
    }
}

/// Connections of the pool that batches use again and again. None once the store is closed.
pub(super) struct Kept(Mutex<Option<Vec<PoolConnection<Postgres>>>>);

impl Default for Kept {
    fn default() -> Kept {
        Kept(Mutex::new(Some(Vec::new())))
    }
}

impl Kept {
    fn list(&self) -> MutexGuard<'_, Option<Vec<PoolConnection<Postgres>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the pool back what is kept, which looks whether it is still good.
    fn give_back(&self) {
        if let Some(kept) = self.list().as_mut() {
            kept.clear();
        }
    }

    /// Keeps nothing from now on: the pool waits for all of its connections when it is closed.
    pub(super) fn close(&self) {
        self.list().take();
    }
}

/// Somebody may drop a store where there is no runtime any more, which a pool needs to take a connection back.
impl Drop for Kept {
    fn drop(&mut self) {
        self.list().take().into_iter().flatten().for_each(|conn| drop(conn.detach()));
    }
}

impl PostgresStore {
    /// Begins a transaction that waits so long for locks, has its commit wait for the disk, and joins the writers.
    pub(super) async fn open_batch(&self, wait: Duration) -> Result<OpenBatch, sqlx::Error> {
        let begin = begin(wait);
        let kept = self.kept.list().as_mut().and_then(Vec::pop);
        if let Some(conn) = kept {
            match open(conn, &begin).await {
                // It was lost while nobody used it, and with it all that were kept as long.
                Err(error) if trouble(&error) == Some(Trouble::Lost) => self.kept.give_back(),
                opened => return opened,
            }
        }
        open(self.pool.acquire().await?, &begin).await
    }

    /// Commits.
    pub(super) async fn close_batch(&self, batch: OpenBatch) -> Result<(), sqlx::Error> {
        self.end(batch, "COMMIT").await
    }

    /// Undoes what was done. A connection that cannot do even this is lost, and its locks with it.
    pub(super) async fn undo_batch(&self, batch: OpenBatch) {
        let _ = self.end(batch, "ROLLBACK").await;
    }

    async fn end(&self, mut batch: OpenBatch, how: &'static str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(how).execute(batch.conn()).await?;
        if let Some(conn) = batch.conn.take() {
            self.keep(conn);
        }
        Ok(())
    }

    fn keep(&self, conn: PoolConnection<Postgres>) {
        let most = (self.options.connections / SHARE) as usize;
        match self.kept.list().as_mut() {
            Some(kept) if kept.len() < most => kept.push(conn),
            // The pool takes it back.
            _ => drop(conn),
        }
    }
}

async fn open(conn: PoolConnection<Postgres>, begin: &str) -> Result<OpenBatch, sqlx::Error> {
    let mut batch = OpenBatch { conn: Some(conn), began: Time::MIN };
    let row = sqlx::raw_sql(AssertSqlSafe(begin.to_owned())).fetch_one(batch.conn()).await?;
    batch.began = Time::from_micros(row.try_get(0)?);
    Ok(batch)
}

/// One message of several statements, so that there is one answer to wait for.
/// A plan is made once and kept. One made while a table is small would read all of it by and by: not that one.
fn begin(wait: Duration) -> String {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {}; SET LOCAL enable_seqscan = off;
         SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, pg_advisory_xact_lock_shared({GATE}),
             set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)",
        lock_timeout_ms(wait)
    )
}

/// Zero would mean to wait for ever.
pub(super) fn lock_timeout_ms(wait: Duration) -> u128 {
    wait.as_millis().clamp(1, i32::MAX as u128)
}
