//! PostgreSQL: any number of nodes on one database. All tables live in the schema `bursar`.
//!
//! SQL here loads and stores; it decides nothing. The files follow the parts of [`Store`](crate::Store): `commit`, `read`, `maintain`,
//! `notify`. `rows` locks and reads the rows of a transaction, `write` writes them.
//!
//! Three rules hold for every statement:
//! - Lock, then read. Under READ COMMITTED a statement that waited for a lock sees the latest version of the locked row, but everything
//!   else as of its start. So a locking statement reads only the locked row, and later statements read the rest.
//! - Arrays, not loops. A batch of a thousand requests runs the same few statements as one request.
//! - Joins by `LATERAL` subqueries that cannot be flattened, or by `ctid`. The plan is then a look-up by primary key on a table of any
//!   size, with or without statistics.
//!
//! Nothing relies on session state: a transaction sets what it needs for itself (`SET LOCAL`), and its locks end with it.

mod caller_transaction;
mod commit;
mod connections;
mod due;
mod error;
mod forget;
mod is_empty;
mod jobs;
mod journal;
mod maintain;
mod migrate;
mod notify;
mod payloads;
mod pg_types;
mod read;
mod rebuild;
mod row_locations;
mod rows;
mod scopes;
mod statement;
mod verify;
mod write;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar_core::id::{BatchId, IdSource};
use bursar_core::time::Time;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Connection, PgConnection, Postgres, Transaction};

use self::connections::BatchConnections;
use self::error::{redacted, store_error};
pub use self::is_empty::is_empty;
use self::maintain::Readiness;
pub use self::migrate::migration_sql;
use self::notify::ChangeWatch;
use self::scopes::ScopeCache;
use crate::clock::{Clock, SystemClock};
use crate::codec::Budgets;
use crate::error::StoreError;
use crate::store::Setup;

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    pool: PgPool,
    batch_connections: BatchConnections,
    /// Connections for short statements of a task that already has a connection. Taken from the same pool, tasks could wait for each
    /// other's connections.
    side: PgPool,
    change_watch: Arc<ChangeWatch>,
    setup: Setup,
    options: PostgresOptions,
    place: String,
    /// The time of the latest event this node has written, in microseconds.
    latest: AtomicI64,
    scope_cache: ScopeCache,
    budgets: Budgets,
    readiness: Readiness,
}

/// How the store uses its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresOptions {
    /// The most connections, besides two for short statements and, while callers wait for jobs, two for notifications. Batches keep
    /// one in four of them.
    pub connections: u32,
    /// How long to wait for a free connection or for the server to accept one.
    pub connect_within: Duration,
    /// How long the server may take to execute a batch, not counting lock waits, before the connection is considered lost.
    pub answer_within: Duration,
    /// How long a batch waits for a name (an idempotency key or a key of a job) that another transaction is inserting.
    pub key_patience: Duration,
    /// How long a request in a caller's own transaction waits for locks.
    pub caller_patience: Duration,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions {
            connections: 8,
            connect_within: Duration::from_secs(10),
            answer_within: Duration::from_secs(30),
            key_patience: Duration::from_millis(200),
            caller_patience: Duration::from_secs(10),
        }
    }
}

/// Every writer holds this advisory lock shared; a rebuild of the tables holds it exclusively.
const GATE: i64 = 0x6275_7273_6172_0002;

const READ_COMMITTED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const ONE_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

impl PostgresStore {
    /// Connects to `postgres://…` and prepares the tables if the setup says so.
    pub async fn open(url: &str, setup: Setup, options: PostgresOptions) -> Result<PostgresStore, StoreError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(StoreError::BadUrl(redacted(url)));
        }
        let connect: PgConnectOptions = url.parse().map_err(|_| StoreError::BadUrl(redacted(url)))?;
        let place = format!(
            "postgres://{}:{}/{}",
            connect.get_host(),
            connect.get_port(),
            connect.get_database().unwrap_or_else(|| connect.get_username())
        );
        let pool =
            |connections| PgPoolOptions::new().max_connections(connections).acquire_timeout(options.connect_within);
        probe(&connect, options.connect_within).await?;
        let change_watch = ChangeWatch::new(connect.clone(), options.connect_within, options.answer_within);
        let store = PostgresStore {
            pool: pool(options.connections.max(1)).connect_lazy_with(connect.clone()),
            batch_connections: BatchConnections::default(),
            side: pool(2).connect_lazy_with(connect),
            change_watch: Arc::new(change_watch),
            setup,
            options,
            place,
            latest: AtomicI64::new(i64::MIN),
            scope_cache: ScopeCache::default(),
            budgets: Budgets::default(),
            readiness: Readiness::default(),
        };
        migrate::prepare(&store).await?;
        let newest: Option<i64> = sqlx::query_scalar("SELECT at FROM bursar.journal ORDER BY id DESC LIMIT 1")
            .fetch_optional(&mut *store.acquire().await?)
            .await
            .map_err(store_error)?;
        store.note_written(Time::from_micros(newest.unwrap_or(i64::MIN)));
        Ok(store)
    }

    /// The connections, for callers' own transactions.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    async fn acquire(&self) -> Result<PoolConnection<Postgres>, StoreError> {
        self.pool.acquire().await.map_err(|error| self.pool_error(error))
    }

    async fn begin(&self, how: &'static str) -> Result<Transaction<'static, Postgres>, StoreError> {
        self.pool.begin_with(how).await.map_err(|error| self.pool_error(error))
    }

    /// A pool that timed out although it is not full could not connect.
    fn pool_error(&self, error: sqlx::Error) -> StoreError {
        match error {
            sqlx::Error::PoolTimedOut if self.pool.size() < self.pool.options().get_max_connections() => {
                no_answer(self.options.connect_within)
            }
            other => store_error(other),
        }
    }

    /// Records that this node has written an event of this instant.
    fn note_written(&self, at: Time) {
        self.latest.fetch_max(at.micros(), Ordering::SeqCst);
    }

    fn floor(&self) -> Time {
        Time::from_micros(self.latest.load(Ordering::SeqCst))
    }

    fn ids(&self) -> Ids {
        Ids(self.setup.ids.clone())
    }

    /// An id for the next transaction. The clock here only makes ids grow; the instant of a batch is read after its locks.
    fn next_batch(&self) -> BatchId {
        let now = self.setup.clock.as_ref().map_or_else(|| SystemClock.now(), |clock| clock.now());
        BatchId(self.ids().next_id(now.max(self.floor())))
    }
}

/// Connects once outside the pool. The pool would retry until its timeout and not report why.
async fn probe(connect: &PgConnectOptions, within: Duration) -> Result<(), StoreError> {
    match tokio::time::timeout(within, PgConnection::connect_with(connect)).await {
        Ok(Ok(conn)) => conn.close().await.map_err(store_error),
        Ok(Err(error)) => Err(store_error(error)),
        Err(_) => Err(no_answer(within)),
    }
}

fn no_answer(within: Duration) -> StoreError {
    StoreError::Unavailable {
        what: format!("the database server did not answer within {within:?}"),
        hint: "check that it runs, and the host and port of its address; nothing was changed",
        source: None,
    }
}

/// The source of ids, locked for one id at a time, so that a batch that waits for the database does not hold the lock.
struct Ids(Arc<Mutex<dyn IdSource + Send>>);

impl IdSource for Ids {
    fn next_id(&mut self, now: Time) -> u128 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_id(now)
    }
}
