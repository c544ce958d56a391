//! Notices connections whose server does not answer any more, and closes them.
//!
//! A pool checks a connection when it is returned, and waits for the answer without a bound. So a connection with a statement that was not
//! answered is not returned but closed, and the pool opens another one in its place. Any other is returned within a bound ([`give_back`]).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, Error, Postgres, SqlSafeStr};
use tokio::time::{Instant, timeout, timeout_at};

use super::conn::{Conn, Step};

/// The longest wait for the answer to a check of a connection, before its use and after it.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// How often at most all connections are replaced, so that a server that stays read-only does not get a new one for each statement.
const REPLACED_EVERY: Duration = Duration::from_secs(1);

/// When a connection of a pool was found to lead nowhere. Those that are older are not used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Distrust(Arc<Mutex<Option<Instant>>>);

impl Distrust {
    pub(super) fn mark(&self) {
        let mut marked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if marked.is_none_or(|at| at.elapsed() >= REPLACED_EVERY) {
            *marked = Some(Instant::now());
        }
    }

    fn includes(&self, age: Duration) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| age > at.elapsed())
    }
}

/// Lets a pool check a connection before each use, for a bounded time. Its own check has no bound.
pub(super) fn checked(options: PgPoolOptions, connect_within: Duration, distrust: Distrust) -> PgPoolOptions {
    let within = CHECK_TIMEOUT.min(connect_within / 2);
    options.test_before_acquire(false).before_acquire(move |conn, meta| {
        let distrusted = distrust.includes(meta.age);
        Box::pin(async move { Ok(!distrusted && matches!(timeout(within, conn.ping()).await, Ok(Ok(())))) })
    })
}

/// Returns a connection to its pool. If the server does not answer the pool's check, the connection is closed.
pub(super) fn give_back(mut conn: PoolConnection<Postgres>) {
    tokio::spawn(async move { timeout(CHECK_TIMEOUT, conn.return_to_pool()).await });
}

/// Bounds the statements on a connection of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch<'c> {
    /// Whether a statement was sent that is not answered.
    unanswered: &'c AtomicBool,
    within: Option<Duration>,
    distrust: &'c Distrust,
}

impl<'c> Watch<'c> {
    pub(super) fn stream<'e>(self, steps: BoxStream<'e, Result<Step, Error>>) -> BoxStream<'e, Result<Step, Error>>
    where
        'c: 'e,
    {
        let deadline = self.within.map(|within| Instant::now() + within);
        let watched = stream::unfold(Some(steps), move |steps| async move {
            let mut steps = steps?;
            self.unanswered.store(true, Ordering::Relaxed);
            let next = match deadline {
                Some(deadline) => timeout_at(deadline, steps.next()).await,
                None => Ok(steps.next().await),
            };
            match next {
                Ok(Some(Ok(step))) => Some((Ok(step), Some(steps))),
                Ok(Some(Err(error))) => {
                    self.failed(&error);
                    Some((Err(error), None))
                }
                Ok(None) => {
                    self.unanswered.store(false, Ordering::Relaxed);
                    None
                }
                Err(_) => Some((Err(self.no_answer()), None)),
            }
        });
        watched.boxed()
    }

    pub(super) async fn future<T>(self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.unanswered.store(true, Ordering::Relaxed);
        let answer = match self.within {
            Some(within) => timeout(within, answer).await.unwrap_or_else(|_| Err(self.no_answer())),
            None => answer.await,
        };
        match &answer {
            Ok(_) => self.unanswered.store(false, Ordering::Relaxed),
            Err(error) => self.failed(error),
        }
        answer
    }

    /// An error of the server is an answer.
    fn failed(self, error: &Error) {
        if error.as_database_error().is_some() {
            self.unanswered.store(false, Ordering::Relaxed);
        }
    }

    fn no_answer(self) -> Error {
        self.distrust.mark();
        let within = self.within.unwrap_or_default();
        Error::Io(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("the database server did not answer within {within:?}"),
        ))
    }
}

/// A connection of a pool, without an open transaction.
pub(super) struct Acquired {
    /// `Some` until it is dropped.
    conn: Option<PoolConnection<Postgres>>,
    pooled: bool,
    unanswered: AtomicBool,
    /// How long a statement may take; `None` without a bound.
    within: Option<Duration>,
    distrust: Distrust,
}

impl Acquired {
    pub(super) fn new(
        conn: PoolConnection<Postgres>,
        pooled: bool,
        answer_within: Duration,
        distrust: Distrust,
    ) -> Acquired {
        Acquired { conn: Some(conn), pooled, unanswered: AtomicBool::new(false), within: Some(answer_within), distrust }
    }

    pub(super) fn conn(&mut self) -> Conn<'_> {
        self.conn_in(Conn::idle)
    }

    fn conn_in<'c>(&'c mut self, mode: impl FnOnce(&'c mut sqlx::PgConnection, bool) -> Conn<'c>) -> Conn<'c> {
        let conn = self.conn.as_mut().expect("the connection is there until the end");
        let watch = Watch { unanswered: &self.unanswered, within: self.within, distrust: &self.distrust };
        mode(conn, self.pooled).watched(watch)
    }
}

impl Drop for Acquired {
    fn drop(&mut self) {
        let Some(conn) = self.conn.take() else { return };
        if *self.unanswered.get_mut() { drop(conn.detach()) } else { give_back(conn) }
    }
}

/// A transaction on a connection of a pool. Dropping it rolls it back.
pub(super) struct Tx {
    /// `Some` until it ends.
    conn: Option<Acquired>,
}

impl Tx {
    pub(super) async fn begin(conn: Acquired, statement: impl SqlSafeStr) -> Result<Tx, Error> {
        let mut tx = Tx { conn: Some(conn) };
        sqlx::raw_sql(statement).execute(tx.conn()).await?;
        Ok(tx)
    }

    /// Lets its statements take longer by the time that they may wait for locks.
    pub(super) fn waiting_up_to(mut self, wait: Duration) -> Tx {
        let conn = self.acquired();
        conn.within = conn.within.map(|within| within + wait);
        self
    }

    /// Lets its statements take as long as they need.
    pub(super) fn unbounded(mut self) -> Tx {
        self.acquired().within = None;
        self
    }

    fn acquired(&mut self) -> &mut Acquired {
        self.conn.as_mut().expect("the connection is there until the end")
    }

    pub(super) fn conn(&mut self) -> Conn<'_> {
        self.acquired().conn_in(Conn::in_transaction)
    }

    pub(super) async fn commit(self) -> Result<(), Error> {
        self.end("COMMIT").await
    }

    pub(super) async fn rollback(self) -> Result<(), Error> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, statement: &'static str) -> Result<(), Error> {
        sqlx::raw_sql(statement).execute(self.conn()).await?;
        self.conn = None;
        Ok(())
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        let Some(mut conn) = self.conn.take() else { return };
        if !*conn.unanswered.get_mut() {
            // If the rollback is not answered, the connection is closed, which rolls back too.
            tokio::spawn(async move {
                sqlx::raw_sql("ROLLBACK").execute(conn.conn_in(Conn::in_transaction)).await.map(drop)
            });
        }
    }
}
