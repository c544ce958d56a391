//! The connections of batches. A batch begins and ends in one round trip each.
//!
//! After a batch its connection is kept for the next batch. Returning it to the pool would cost two round trips per batch, in which the
//! pool checks the connection. The first statement of the next batch checks it as well.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::time::Time;
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Postgres, Row};

use super::conn::Conn;
use super::connection_watch::give_back;
use super::error::{Conflict, conflict};
use super::wall::{Reach, TenantList};
use super::{PostgresStore, READ_COMMITTED, REBUILD_LOCK};

/// One in this many connections is kept by batches; the others serve reads and callers' own transactions.
const KEPT_SHARE: u32 = 4;

/// An open transaction of a batch. Dropping it before its end closes its connection, and the server rolls it back.
pub struct OpenBatch {
    conn: Option<PoolConnection<Postgres>>,
    /// Whether the connection goes to a pooler.
    pooled: bool,
    /// The clock of the database at its beginning.
    pub(super) began: Time,
}

impl OpenBatch {
    pub(super) fn conn(&mut self) -> Conn<'_> {
        let conn = self.conn.as_mut().expect("the connection is there until the end");
        Conn::in_transaction(conn, self.pooled)
    }
}

impl Drop for OpenBatch {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            drop(conn.detach());
        }
    }
}

/// The idle connections that batches keep.
#[derive(Default)]
pub(super) struct BatchConnections(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    connections: Vec<PoolConnection<Postgres>>,
    /// Whether the store is closed, so that no connection is kept.
    closed: bool,
}

impl BatchConnections {
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<PoolConnection<Postgres>> {
        self.idle().connections.pop()
    }

    /// Keeps a connection unless `limit` are kept already; otherwise it returns to the pool.
    fn keep(&self, conn: PoolConnection<Postgres>, limit: usize) {
        let mut idle = self.idle();
        if !idle.closed && idle.connections.len() < limit { idle.connections.push(conn) } else { give_back(conn) }
    }

    /// Closes all connections. Returning them to the pool would wait for an answer on each.
    pub(super) fn close_all(&self) {
        self.idle().connections.drain(..).for_each(|conn| drop(conn.detach()));
    }

    /// Returns all connections and keeps none from now on, because closing the pool waits for all of its connections.
    pub(super) fn close(&self) {
        let mut idle = self.idle();
        idle.closed = true;
        idle.connections.drain(..).for_each(give_back);
    }
}

/// Closes the connections. Returning them to the pool needs an async runtime, and a store may be dropped outside of one.
impl Drop for BatchConnections {
    fn drop(&mut self) {
        self.idle().connections.drain(..).for_each(|conn| drop(conn.detach()));
    }
}

impl PostgresStore {
    /// Begins a transaction of some tenants, with a lock timeout and a durable commit. Waits until no rebuild of the tables is running.
    pub(super) async fn open_batch(
        &self,
        lock_timeout: Duration,
        tenants: &TenantList,
    ) -> Result<OpenBatch, sqlx::Error> {
        let begin = begin(&self.wall.begin(READ_COMMITTED, Reach::Tenants(tenants)), lock_timeout);
        let idle = self.batch_connections.take();
        if let Some(conn) = idle {
            match self.begin_batch(conn, &begin).await {
                // The connection was lost while it was idle, and the other idle ones probably too.
                Err(error) if conflict(&error) == Some(Conflict::ConnectionLost) => self.replace_connections(),
                opened => return opened,
            }
        }
        self.begin_batch(self.pool.pool.acquire().await?, &begin).await
    }

    /// Commits a batch and keeps its connection.
    pub(super) async fn close_batch(&self, batch: OpenBatch) -> Result<(), sqlx::Error> {
        self.end(batch, "COMMIT").await
    }

    /// Rolls back a batch. If that fails, the connection is closed, which releases its locks as well.
    pub(super) async fn roll_back_batch(&self, batch: OpenBatch) {
        let _ = self.end(batch, "ROLLBACK").await;
    }

    async fn end(&self, mut batch: OpenBatch, statement: &'static str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(statement).execute(batch.conn()).await?;
        if let Some(conn) = batch.conn.take() {
            self.batch_connections.keep(conn, (self.options.connections / KEPT_SHARE) as usize);
        }
        Ok(())
    }

    async fn begin_batch(&self, conn: PoolConnection<Postgres>, begin: &str) -> Result<OpenBatch, sqlx::Error> {
        let mut batch = OpenBatch { conn: Some(conn), pooled: self.pool.pooled, began: Time::MIN };
        let row = sqlx::raw_sql(AssertSqlSafe(begin.to_owned())).fetch_one(batch.conn()).await?;
        batch.began = Time::from_micros(row.try_get(0)?);
        Ok(batch)
    }
}

/// Returns the statements that begin a batch, as one message: they cost one round trip. All settings end with the transaction.
///
/// - `plan_cache_mode`: one generic plan serves arrays of any length.
/// - `jit`: compiling the plan would take longer than running it.
/// - `enable_seqscan`: plans are cached, and a plan made while a table is small would still scan the table when it has grown.
fn begin(begin: &str, lock_timeout: Duration) -> String {
    format!(
        "{begin}; SET LOCAL lock_timeout = {}; SET LOCAL enable_seqscan = off;
         SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL jit = off;
         SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, pg_advisory_xact_lock_shared({REBUILD_LOCK}),
             set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)",
        lock_timeout_ms(lock_timeout)
    )
}

/// Returns a lock timeout in milliseconds, at least 1: zero would disable the timeout.
pub(super) fn lock_timeout_ms(wait: Duration) -> u128 {
    wait.as_millis().clamp(1, i32::MAX as u128)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use bursar_core::decide::Rules;
    use bursar_testkit::SeqIds;
    use sqlx::{Connection, PgConnection};

    use super::*;
    use crate::postgres::PostgresOptions;
    use crate::store::Setup;

    #[tokio::test]
    async fn a_batch_commits_durably_whatever_the_database_default() {
        let url = bursar_testkit::fresh_database();
        let mut conn = PgConnection::connect(&url).await.expect("a connection");
        let name = url.rsplit('/').next().expect("a name");
        let set = format!("ALTER DATABASE {name} SET synchronous_commit = off");
        sqlx::raw_sql(AssertSqlSafe(set)).execute(&mut conn).await.expect("set");
        let ids = Arc::new(Mutex::new(SeqIds::new(1)));
        let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: true };
        let store = PostgresStore::open(&url, setup, PostgresOptions::default()).await.expect("a store");
        let mut batch = store.open_batch(Duration::from_secs(1), &TenantList::new([])).await.expect("a transaction");
        let setting: String = sqlx::query_scalar("SELECT current_setting('synchronous_commit')")
            .fetch_one(batch.conn())
            .await
            .expect("a setting");
        assert_eq!(setting, "on");
    }
}
