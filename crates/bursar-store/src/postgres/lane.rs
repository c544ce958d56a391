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

/// How a connection is set for statements that commit by themselves: for a plan see `begin`. What is locked is mostly not as it
/// was seen any more when it is free, so that it is not worth a wait.
const SET_ALONE: &str = "SET enable_seqscan = off; SET lock_timeout = '5ms';
    SET default_transaction_isolation = 'read committed'";
const RESET_ALONE: &str = "RESET enable_seqscan; RESET lock_timeout; RESET default_transaction_isolation";

/// Of so many connections one is kept for batches: the others remain for everybody.
const SHARE: u32 = 4;

/// A connection of the pool. One that is set for batches is not given back to it, but ended.
struct Laned {
    conn: Option<PoolConnection<Postgres>>,
    set: bool,
}

impl Laned {
    fn new(conn: PoolConnection<Postgres>) -> Laned {
        Laned { conn: Some(conn), set: false }
    }

    fn conn(&mut self) -> &mut PgConnection {
        self.conn.as_mut().expect("it is there until the end")
    }

    fn end(&mut self) {
        if let Some(conn) = self.conn.take() {
            drop(conn.detach());
        }
    }
}

impl Drop for Laned {
    fn drop(&mut self) {
        if self.set {
            self.end();
        }
    }
}

/// What a batch has in hand: a connection, mostly with an open transaction. Dropped before its end it takes its connection with
/// it, and the server undoes what it did.
pub struct OpenBatch {
    laned: Option<Laned>,
    /// The database's clock when it began.
    pub(super) began: Time,
}

impl OpenBatch {
    pub(super) fn conn(&mut self) -> &mut PgConnection {
        self.laned.as_mut().expect("it is there until the end").conn()
    }
}

impl Drop for OpenBatch {
    fn drop(&mut self) {
        if let Some(mut laned) = self.laned.take() {
            laned.end();
        }
    }
}

/// Connections of the pool that batches use again and again.
#[derive(Default)]
pub(super) struct Kept(Mutex<Connections>);

#[derive(Default)]
struct Connections {
    idle: Vec<Laned>,
    /// Transactions that are open already, since then, for batches that are expected any moment.
    ready: Vec<(OpenBatch, Instant)>,
    /// The store is closed: none is kept.
    closed: bool,
}

impl Kept {
    fn list(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.list().idle.drain(..).for_each(|mut laned| laned.end());
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
        let kept = self.kept.list().idle.pop();
        if let Some(conn) = kept {
            match open(conn, &begin).await {
                // It was lost while nobody used it, and with it all that were kept as long.
                Err(error) if trouble(&error) == Some(Trouble::Lost) => self.kept.give_back(),
                opened => return opened,
            }
        }
        open(Laned::new(self.pool.acquire().await?), &begin).await
    }

    /// Whether batches keep connections from one to the next.
    pub(super) fn keeps_connections(&self) -> bool {
        self.kept_at_most() > 0
    }

    fn kept_at_most(&self) -> usize {
        (self.options.connections / SHARE) as usize
    }

    /// A connection without a transaction, for statements that are transactions of their own. It is set for that once; `None` where
    /// that fails.
    pub(super) async fn open_alone(&self) -> Result<Option<OpenBatch>, sqlx::Error> {
        let kept = {
            let mut list = self.kept.list();
            let set = list.idle.iter().position(|laned| laned.set);
            set.map(|place| list.idle.swap_remove(place)).or_else(|| list.idle.pop())
        };
        let laned = match kept {
            Some(laned) => laned,
            None => Laned::new(self.pool.acquire().await?),
        };
        let is_set = laned.set;
        let mut batch = OpenBatch { laned: Some(laned), began: Time::MIN };
        if !is_set {
            if sqlx::raw_sql(SET_ALONE).execute(batch.conn()).await.is_err() {
                return Ok(None);
            }
            batch.laned.as_mut().expect("it was just there").set = true;
        }
        Ok(Some(batch))
    }

    /// Keeps the connection of a batch that had no transaction.
    pub(super) async fn close_alone(&self, mut batch: OpenBatch) {
        if let Some(laned) = batch.laned.take() {
            self.keep(laned).await;
        }
    }

    /// Begins the transaction of a batch that is expected any moment, where there is a connection for it: one trip less while
    /// its callers wait.
    pub(super) async fn open_early(&self) {
        let kept = self.kept.list().idle.pop();
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
        if let Some(laned) = batch.laned.take() {
            self.keep(laned).await;
        }
        Ok(())
    }

    /// Keeps a connection, or lets the pool have it: one that is not set for batches first, or as it was before.
    async fn keep(&self, laned: Laned) {
        let mut left_over = {
            let mut list = self.kept.list();
            list.idle.push(laned);
            if !list.closed && list.idle.len() + list.ready.len() <= self.kept_at_most() {
                return;
            }
            let other = list.idle.iter().position(|laned| !laned.set).unwrap_or(0);
            list.idle.swap_remove(other)
        };
        if left_over.set {
            let reset = sqlx::raw_sql(RESET_ALONE).execute(left_over.conn());
            let reset = tokio::time::timeout(self.options.key_patience, reset).await;
            left_over.set = !matches!(reset, Ok(Ok(_)));
        }
    }
}

async fn open(laned: Laned, begin: &str) -> Result<OpenBatch, sqlx::Error> {
    let mut batch = OpenBatch { laned: Some(laned), began: Time::MIN };
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
