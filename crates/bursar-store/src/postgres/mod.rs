//! PostgreSQL: any number of nodes on one database. All tables live in the schema `bursar`.
//!
//! SQL here loads and stores; it decides nothing. Four files implement the parts of [`Store`](crate::Store): `commit`, `read`,
//! `maintain` and `notify`. The others do one task each:
//!
//! | module | task |
//! | --- | --- |
//! | `rows`, `scopes`, `jobs`, `due` | lock and read the rows of a transaction |
//! | `write`, `statement` | write all changes of a batch in one statement |
//! | `row_locations`, `pg_types` | find locked rows by their `ctid` |
//! | `conn` | run statements on a server or on a pooler |
//! | `connections` | begin and end batches in one round trip each |
//! | `connection_watch` | close connections whose server does not answer any more |
//! | `caller_transaction` | execute requests in a transaction of the caller |
//! | `journal`, `payloads` | read the journal, assign its positions, load large payloads |
//! | `wall` | name the tenants of a transaction for row-level security |
//! | `verify`, `rebuild`, `forget` | check the tables, restore them from the journal, delete old rows |
//! | `migrate`, `error`, `is_empty` | create the tables, translate errors, inspect a database |
//! | `moving` | copies a database to or from another engine |
//!
//! # Statements
//!
//! Three rules hold for every statement:
//! - Lock, then read. Under READ COMMITTED a statement that waited for a lock sees the latest version of the locked row, but everything
//!   else as of its start. So a locking statement reads only the locked row, and later statements read the rest.
//! - Arrays, not loops. A batch of a thousand requests runs the same few statements as one request.
//! - Joins by `LATERAL` subqueries that cannot be flattened, or by `ctid`. The plan is then a look-up by primary key on a table of any
//!   size, with or without statistics.
//!
//! Nothing relies on session state: a transaction sets what it needs for itself (`SET LOCAL`), and its locks end with it.
//!
//! # Locks
//!
//! Every transaction locks rows in one order ([`Lock`](crate::store::Lock)): idempotency keys, job keys, schedules, jobs, holds, grants,
//! scopes; each kind sorted. A batch skips rows that another transaction has locked, and reports the requests that need them as blocked.
//! It waits only in these cases:
//! - Another transaction is inserting the same idempotency key or job key, or defines the same queue. The batch waits for
//!   [`PostgresOptions::key_patience`].
//! - The batch runs with [`LockPolicy::WaitFor`](crate::store::LockPolicy::WaitFor). It locks the row of that policy first, then waits up to
//!   `key_patience` for rows later in the lock order. It skips locked rows that come earlier.
//! - A rebuild of the tables is running, or another transaction adds to the same counter (`jobs/write`).
//!
//! A request in a caller's own transaction waits for all its rows, in the same order, for [`PostgresOptions::caller_patience`]. Such a
//! transaction can deadlock, because the caller may have locked rows before in another order. PostgreSQL then aborts one transaction, and
//! the caller has to run it again.
//!
//! # Durability
//!
//! Where the database has `synchronous_commit = off`, each transaction that writes turns it on for itself.

mod archive;
mod blobs;
mod caller_transaction;
mod commit;
mod conn;
mod connection_watch;
mod connections;
mod due;
mod error;
mod forget;
mod is_empty;
mod jobs;
mod journal;
mod maintain;
mod migrate;
pub(crate) mod moving;
mod notify;
mod payloads;
mod pg_types;
mod read;
mod rebuild;
mod row_locations;
mod rows;
mod scopes;
mod settings;
mod statement;
mod verify;
mod wall;
mod write;

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar_core::id::{BatchId, IdSource};
use bursar_core::time::Time;
use sqlx::postgres::PgPool;
use sqlx::{Connection, PgConnection};

use self::conn::{Conn, ConnPool, Server, Servers, check_same_database};
use self::connection_watch::{Acquired, Tx};
use self::connections::BatchConnections;
use self::error::store_error;
pub use self::is_empty::is_empty;
use self::maintain::Readiness;
pub(crate) use self::migrate::SCHEMA_VERSION;
pub use self::migrate::migration_sql;
use self::notify::ChangeWatch;
use self::scopes::ScopeCache;
use self::wall::{Reach, Wall};
use crate::clock::{Clock, SystemClock};
use crate::codec::Budgets;
use crate::error::StoreError;
use crate::store::Setup;

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    pool: ConnPool,
    batch_connections: BatchConnections,
    /// Connections for short statements of a task that already has a connection. If they came from the same pool, tasks could wait for
    /// each other's connections. They are direct if there is a direct URL.
    side_pool: ConnPool,
    change_watch: Arc<ChangeWatch>,
    setup: Setup,
    options: PostgresOptions,
    /// Host, port and database name, without user and password.
    address: String,
    /// The latest instant at which a batch was decided, as far as this node knows, in microseconds.
    latest_decision_at: AtomicI64,
    scope_cache: ScopeCache,
    budgets: Budgets,
    readiness: Readiness,
    wall: Wall,
}

/// Connections and timeouts of a store.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Whether the URL is that of a pooler in transaction mode, such as PgBouncer. Statements then have no name, and nothing relies on a
    /// session.
    pub pooled: bool,
    /// The URL of the server behind the pooler, for what needs a session: notifications and migrations. Without it, a pooled store polls
    /// instead of listening.
    pub direct_url: Option<String>,
    /// The role that transactions take, so that row-level security applies to them. It must not own the tables, and the role of the URL must
    /// be a member of it. `None`: transactions run as the role of the URL.
    pub role: Option<String>,
    /// Whether a migration makes row-level security apply to the owner of the tables too. Nodes of versions before row-level security, and
    /// running nodes that connect as the owner without `role`, then see no rows.
    pub force_row_security: bool,
    /// The most connections in the pool. Batches keep one in four of them. Not counted are two connections for short statements and,
    /// while callers wait for jobs, two for notifications.
    pub connections: u32,
    /// How long to wait for a free connection, or for the server to accept a new one.
    pub connect_within: Duration,
    /// How long the server may take to execute a batch or a statement outside of one, not counting lock waits, before the connection is
    /// considered lost.
    pub answer_within: Duration,
    /// How long a batch waits for an idempotency key or a job key that another transaction is inserting.
    pub key_patience: Duration,
    /// How long a request in a caller's own transaction waits for locks.
    pub caller_patience: Duration,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions {
            pooled: false,
            direct_url: None,
            role: None,
            force_row_security: false,
            connections: 8,
            connect_within: Duration::from_secs(10),
            answer_within: Duration::from_secs(30),
            key_patience: Duration::from_millis(200),
            caller_patience: Duration::from_secs(10),
        }
    }
}

/// Hides the direct URL, which may contain a password.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PostgresOptions { pooled, direct_url, role, connections, .. } = self;
        let (connect, answer) = (self.connect_within, self.answer_within);
        f.debug_struct("PostgresOptions")
            .field("pooled", pooled)
            .field("direct_url", &direct_url.as_ref().map(|_| "…"))
            .field("role", role)
            .field("force_row_security", &self.force_row_security)
            .field("connections", connections)
            .field("connect_within", &connect)
            .field("answer_within", &answer)
            .field("key_patience", &self.key_patience)
            .field("caller_patience", &self.caller_patience)
            .finish()
    }
}

/// The advisory lock that every writer holds shared and a rebuild of the tables holds exclusively.
const REBUILD_LOCK: i64 = 0x6275_7273_6172_0002;

const READ_COMMITTED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const ONE_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

impl PostgresStore {
    /// Connects to `postgres://…`, and creates or upgrades the tables if the setup allows it.
    pub async fn open(url: &str, setup: Setup, options: PostgresOptions) -> Result<PostgresStore, StoreError> {
        let mut store = PostgresStore::connect(url, setup, options).await?;
        migrate::prepare(&store).await?;
        store.find_wall().await?;
        let newest: Option<i64> = sqlx::query_scalar("SELECT at FROM bursar.journal ORDER BY id DESC LIMIT 1")
            .fetch_optional(store.read(Reach::Journal).await?.conn())
            .await
            .map_err(store_error)?;
        store.advance_time_floor(Time::from_micros(newest.unwrap_or(i64::MIN)));
        Ok(store)
    }

    /// Connects to a database, whose tables may be missing or a part of a move.
    async fn connect(url: &str, setup: Setup, options: PostgresOptions) -> Result<PostgresStore, StoreError> {
        let servers = Servers::new(url, &options)?;
        let connect = &servers.main.connect;
        let address = format!(
            "postgres://{}:{}/{}",
            connect.get_host(),
            connect.get_port(),
            connect.get_database().unwrap_or_else(|| connect.get_username())
        );
        let within = options.connect_within;
        probe(&servers.main, within).await?;
        let pool = servers.main.pool(options.connections.max(1), within, options.answer_within);
        let side_pool = servers.side().pool(2, within, options.answer_within);
        if let (Some(_), Some(direct)) = (&options.direct_url, &servers.direct) {
            probe(direct, within).await.map_err(at_direct_url)?;
            check_same_database(&pool, &side_pool).await?;
        }
        Ok(PostgresStore {
            pool,
            batch_connections: BatchConnections::default(),
            side_pool,
            change_watch: Arc::new(ChangeWatch::new(servers, within, options.answer_within)),
            setup,
            options,
            address,
            latest_decision_at: AtomicI64::new(i64::MIN),
            scope_cache: ScopeCache::default(),
            budgets: Budgets::default(),
            readiness: Readiness::default(),
            wall: Wall::default(),
        })
    }

    /// Returns the connection pool, for callers' own transactions.
    pub fn pool(&self) -> &PgPool {
        &self.pool.pool
    }

    async fn acquire(&self) -> Result<Acquired, StoreError> {
        self.pool.acquire().await.map_err(|error| self.pool_error(error))
    }

    /// Closes the idle connections: they may lead to a server that is gone, or that has become a standby.
    fn replace_connections(&self) {
        self.batch_connections.close_all();
        self.pool.replace_connections();
        self.side_pool.replace_connections();
    }

    /// Translates an error of the pool. If the pool timed out although it is not full, the server did not accept a connection.
    fn pool_error(&self, error: sqlx::Error) -> StoreError {
        match error {
            sqlx::Error::PoolTimedOut if self.pool.pool.size() < self.pool.pool.options().get_max_connections() => {
                no_answer(self.options.connect_within)
            }
            other => store_error(other),
        }
    }

    /// Records that this node has decided a batch at this instant.
    fn advance_time_floor(&self, at: Time) {
        self.latest_decision_at.fetch_max(at.micros(), Ordering::SeqCst);
    }

    /// The time before which this node decides nothing, so that its time never goes back.
    fn time_floor(&self) -> Time {
        Time::from_micros(self.latest_decision_at.load(Ordering::SeqCst))
    }

    fn ids(&self) -> Ids {
        Ids(self.setup.ids.clone())
    }

    /// Returns an id for the next transaction. The clock here only makes ids grow; the instant of a batch is read after its locks.
    fn next_batch(&self) -> BatchId {
        let now = self.setup.clock.as_ref().map_or_else(|| SystemClock.now(), |clock| clock.now());
        BatchId(self.ids().next_id(now.max(self.time_floor())))
    }
}

/// Connects once outside the pool, to report why connecting fails: the pool would retry until its timeout and hide the reason.
///
/// Executes a statement as well. If a pooler answers although the options do not say so, the statement leaves its name behind, and the
/// first statement of the pool fails because the name is taken.
async fn probe(server: &Server, within: Duration) -> Result<(), StoreError> {
    let probe = async {
        let mut conn = PgConnection::connect_with(&server.connect).await?;
        sqlx::query("SELECT 1").execute(Conn::idle(&mut conn, server.pooled)).await?;
        conn.close().await
    };
    tokio::time::timeout(within, probe).await.map_err(|_| no_answer(within))?.map_err(store_error)
}

/// Says that the error is about the direct URL.
fn at_direct_url(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { what, permanent, source, .. } => StoreError::Unavailable {
            what: format!("the server at postgres.direct_url cannot be used: {what}"),
            hint: "nothing was changed; correct postgres.direct_url, or remove it to poll instead of listening",
            permanent,
            source,
        },
        other => other,
    }
}

fn no_answer(within: Duration) -> StoreError {
    StoreError::Unavailable {
        what: format!("the database server did not answer within {within:?}"),
        hint: "nothing was changed; check that the server runs, and the host and port in its URL",
        permanent: false,
        source: None,
    }
}

/// The shared source of ids. It is locked for one id at a time, so that a batch does not hold the lock while it waits for the database.
struct Ids(Arc<Mutex<dyn IdSource + Send>>);

impl IdSource for Ids {
    fn next_id(&mut self, now: Time) -> u128 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_id(now)
    }
}
