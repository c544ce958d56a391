//! The connections of batches, and how a batch begins and ends on one: in as few trips to the server as there can be.
//!
//! A batch that ends well keeps its connection for the next one. A pool would ask the server twice for each batch whether
//! the connection is still good; the first statement of a batch says so too.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::time::{Span, Time};
use futures_util::future::join_all;
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row};
use tokio::time::Instant;

use super::error::{Trouble, trouble};
use super::{GATE, PostgresStore};

/// Of so many connections one is kept for batches that lock, and one is for those that do not: the others remain for everybody.
pub(super) const SHARE: u32 = 4;

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

/// Connections of the pool that batches use again and again.
#[derive(Default)]
pub(super) struct Kept(Mutex<Connections>);

#[derive(Default)]
struct Connections {
    idle: Vec<PoolConnection<Postgres>>,
    /// Transactions that are open already, since then, for batches that are expected any moment.
    ready: Vec<(OpenBatch, Instant)>,
    /// The store is closed: none is kept.
    closed: bool,
}

impl Kept {
    fn list(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self) -> Option<PoolConnection<Postgres>> {
        self.list().idle.pop()
    }

    /// Keeps one if so many are not kept already: the pool takes the others back.
    pub(super) fn keep(&self, conn: PoolConnection<Postgres>, most: usize) {
        let mut list = self.list();
        if !list.closed && list.idle.len() + list.ready.len() < most {
            list.idle.push(conn);
        }
    }

    /// Gives the pool back what is kept, which looks whether it is still good.
    fn give_back(&self) {
        self.list().idle.clear();
    }

    /// Keeps nothing from now on: the pool waits for all of its connections when it is closed.
    pub(super) fn close(&self) {
        let mut list = self.list();
        list.closed = true;
        list.idle.clear();
        list.ready.clear();
    }
}

/// Somebody may drop a store where there is no runtime any more, which a pool needs to take a connection back.
impl Drop for Kept {
    fn drop(&mut self) {
        self.list().idle.drain(..).for_each(|conn| drop(conn.detach()));
    }
}

impl PostgresStore {
    /// Begins a transaction that waits so long for locks, has its commit wait for the disk, and joins the writers.
    pub(super) async fn open_batch(&self, wait: Duration) -> Result<OpenBatch, sqlx::Error> {
        if wait == self.options.key_patience
            && let Some((mut batch, since)) = self.kept.list().ready.pop()
        {
            // It is later than it was when that began.
            batch.began = batch.began.after(Span::from(since.elapsed()));
            return Ok(batch);
        }
        let begin = begin(wait);
        let kept = self.kept.take();
        if let Some(conn) = kept {
            match open(conn, &begin).await {
                // It was lost while nobody used it, and with it all that were kept as long.
                Err(error) if trouble(&error) == Some(Trouble::Lost) => self.kept.give_back(),
                opened => return opened,
            }
        }
        open(self.pool.acquire().await?, &begin).await
    }

    /// Begins the transaction of a batch that is expected any moment, where there is a connection for it: one trip less while
    /// its callers wait.
    pub(super) async fn open_early(&self) {
        let kept = self.kept.take();
        let Some(conn) = kept else { return };
        let begin = begin(self.options.key_patience);
        // Where that fails the batch itself finds out why. It is not worth a wait.
        let Ok(Ok(batch)) = tokio::time::timeout(self.options.key_patience, open(conn, &begin)).await else { return };
        let mut list = self.kept.list();
        if !list.closed {
            list.ready.push((batch, Instant::now()));
        }
    }

    /// Ends what was begun early.
    pub(super) async fn close_early(&self) {
        let ready = std::mem::take(&mut self.kept.list().ready);
        // Of one that has no answer in time the connection is dropped, and with it the transaction.
        let undo = |batch| tokio::time::timeout(self.options.key_patience, self.undo_batch(batch));
        join_all(ready.into_iter().map(|(batch, _)| undo(batch))).await;
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
            self.kept.keep(conn, (self.options.connections / SHARE) as usize);
        }
        Ok(())
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
