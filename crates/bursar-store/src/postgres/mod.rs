//! PostgreSQL: any number of nodes on one database. All tables live in the schema `bursar`.
//!
//! SQL here loads and stores; it decides nothing. Three habits run through it:
//! - Lock, then read: a statement that waited for a lock has the row as it is now, and everything else as it was before. So
//!   what stands in the locked row itself is read with the lock, and all else in a later statement.
//! - Arrays, not loops: a batch of a thousand requests takes the same few statements as one.
//! - Joins by `LATERAL` subqueries that cannot be flattened, or by `ctid`: so that the plan is a look-up by primary key
//!   on a table of any size, with or without statistics.

mod bell;
mod commit;
mod due;
mod empty;
mod error;
mod forget;
mod in_tx;
mod jobs;
mod journal;
mod lane;
mod maintain;
mod migrate;
mod payloads;
mod places;
mod read;
mod rows;
mod scopes;
mod statement;
mod swift;
mod wire;
mod write;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, GrantId, HoldId, IdSource, JobId};
use bursar_core::job::{Job, JobState, QueueState, Schedule};
use bursar_core::live::ChargeMark;
use bursar_core::name::{FlowKey, Queue, ScheduleName, Scope, Tenant};
use bursar_core::request::Request;
use bursar_core::scope::ScopeState;
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::Time;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Connection, PgConnection, Postgres, Transaction};
use tokio::time::Instant;

use self::bell::{Bell, PgHints};
pub use self::empty::is_empty;
use self::error::{redacted, store_error};
use self::lane::{Kept, SHARE};
pub use self::migrate::migration_sql;
use self::swift::Alone;
use crate::attempt;
use crate::clock::{Clock, SystemClock};
use crate::codec::Budgets;
use crate::error::StoreError;
use crate::figures::{Cost, CostMark, DueJobs, Figures, HeldMark, HeldSum, JobFilter};
use crate::hint::Hints;
use crate::store::{Health, Journaled, Patience, Setup, Store, Verdict};
use crate::swift::Wary;
use crate::verify::Report;

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    pool: PgPool,
    kept: Kept,
    /// Where there are enough of them.
    alone: Option<Alone>,
    wary: Wary,
    /// The last batch locked its rows.
    locked_last: AtomicBool,
    /// Connections for short statements that somebody needs who has a connection already: never the same pool, in which
    /// all could wait for each other.
    side: PgPool,
    bell: Arc<Bell>,
    setup: Setup,
    options: PostgresOptions,
    place: String,
    /// The time of the latest event this node has written.
    high: AtomicI64,
    /// Scopes that were seen, with their parents: hints that save statements, and are not relied upon.
    known: Mutex<HashMap<ScopeKey, Option<Scope>>>,
    budgets: Budgets,
    /// Why the last commit could not be done, and when that was; `None` once one was done.
    trouble: Mutex<Option<(Instant, String, &'static str)>>,
}

/// How long a commit that could not be done counts against the readiness of the server.
const TROUBLE: Duration = Duration::from_secs(5);

/// How the store uses its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Connections at most, beside two for short statements and, where somebody waits for jobs, two for that. Of each four, one is for batches that lock nothing, and one is kept by those that lock.
    pub connections: u32,
    /// How long to wait for a free connection, or for the server.
    pub connect_within: Duration,
    /// How long the server may take to answer a batch, beside waiting for locks, before it is taken for lost.
    pub answer_within: Duration,
    /// How long a batch that skips locked rows waits for a key that somebody else is about to take.
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

/// Writers hold this advisory lock together; whoever makes the tables anew holds it alone.
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
        let pool = |connections| {
            PgPoolOptions::new().max_connections(connections).acquire_timeout(options.connect_within).after_connect(
                |conn, _| {
                    Box::pin(async move {
                        // A plan for arrays of any length, made once; compiling it would cost more than running it.
                        // A database may say that commits need not wait for the disk. Bursar's do; where more than
                        // that is asked for, as waiting for a standby, it stays.
                        let set = "SET plan_cache_mode = force_generic_plan; SET jit = off;
                                   SELECT set_config('synchronous_commit', 'on', false)
                                   WHERE current_setting('synchronous_commit') = 'off'";
                        sqlx::raw_sql(set).execute(conn).await.map(drop)
                    })
                },
            )
        };
        probe(&connect, options.connect_within).await?;
        let bell = Bell::new(connect.clone(), options.connect_within, options.answer_within);
        let share = options.connections / SHARE;
        let store = PostgresStore {
            pool: pool(options.connections.max(1) - share).connect_lazy_with(connect.clone()),
            alone: (share > 0).then(|| Alone::new(pool(share), connect.clone())),
            kept: Kept::default(),
            wary: Wary::default(),
            locked_last: AtomicBool::new(false),
            side: pool(2).connect_lazy_with(connect),
            bell: Arc::new(bell),
            setup,
            options,
            place,
            high: AtomicI64::new(i64::MIN),
            known: Mutex::default(),
            budgets: Budgets::default(),
            trouble: Mutex::default(),
        };
        migrate::prepare(&store).await?;
        let newest: Option<i64> = sqlx::query_scalar("SELECT at FROM bursar.journal ORDER BY id DESC LIMIT 1")
            .fetch_optional(&mut *store.acquire().await?)
            .await
            .map_err(store_error)?;
        store.note_seen(Time::from_micros(newest.unwrap_or(i64::MIN)));
        Ok(store)
    }

    /// The connections, for transactions of the caller's own.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    async fn acquire(&self) -> Result<PoolConnection<Postgres>, StoreError> {
        self.pool.acquire().await.map_err(|error| self.pool_error(error))
    }

    async fn begin(&self, how: &'static str) -> Result<Transaction<'static, Postgres>, StoreError> {
        self.pool.begin_with(how).await.map_err(|error| self.pool_error(error))
    }

    /// A pool that is not even full could not connect: that is not for others to make way.
    fn pool_error(&self, error: sqlx::Error) -> StoreError {
        match error {
            sqlx::Error::PoolTimedOut if self.pool.size() < self.pool.options().get_max_connections() => {
                no_answer(self.options.connect_within)
            }
            other => store_error(other),
        }
    }

    /// This node has written an event of this instant.
    fn note_seen(&self, at: Time) {
        self.high.fetch_max(at.micros(), Ordering::SeqCst);
    }

    fn floor(&self) -> Time {
        Time::from_micros(self.high.load(Ordering::SeqCst))
    }

    fn ids(&self) -> Ids {
        Ids(self.setup.ids.clone())
    }

    /// A name for the next transaction. The clock only makes names grow; time itself is read after the locks.
    fn next_batch(&self) -> BatchId {
        let now = self.setup.clock.as_ref().map_or_else(|| SystemClock.now(), |clock| clock.now());
        BatchId(self.ids().next_id(now.max(self.floor())))
    }
}

/// One connection outside the pool first: the pool would try in vain until its time is over, and not say why.
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

/// The source of ids, locked for one id at a time: a batch that waits for the database must not keep others from it.
struct Ids(Arc<Mutex<dyn IdSource + Send>>);

impl IdSource for Ids {
    fn next_id(&mut self, now: Time) -> u128 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_id(now)
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn commit(&self, requests: &[Arc<Request>], patience: Patience) -> Result<Vec<Verdict>, StoreError> {
        let requests: Vec<&Request> = requests.iter().map(|request| &**request).collect();
        let done = attempt::commit_all(self, &requests, patience).await;
        let trouble = match &done {
            Err(StoreError::Unavailable { what, hint, .. }) => Some((Instant::now(), what.clone(), *hint)),
            _ => None,
        };
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
        done
    }

    async fn stand_ready(&self) {
        if self.has_locked_last() {
            self.open_early().await;
        }
    }

    async fn stand_down(&self) {
        self.close_early().await;
    }

    async fn scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
        self.read_scope(key).await
    }

    async fn scopes(
        &self,
        tenant: &Tenant,
        prefix: &str,
        after: Option<&Scope>,
        limit: usize,
    ) -> Result<Vec<(Scope, ScopeState)>, StoreError> {
        self.read_scopes(tenant, prefix, after, limit).await
    }

    async fn spent(&self, key: &ScopeKey, from: Time, to: Time) -> Result<i64, StoreError> {
        self.read_spent(key, from, to).await
    }

    async fn hold(&self, id: HoldId) -> Result<Option<Hold>, StoreError> {
        self.read_hold(id).await
    }

    async fn live_holds(
        &self,
        key: &ScopeKey,
        after: Option<ChargeMark>,
        limit: usize,
    ) -> Result<Vec<Hold>, StoreError> {
        self.read_live_holds(key, after, limit).await
    }

    async fn grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.read_grant(id).await
    }

    async fn grants(&self, tenant: &Tenant, after: Option<GrantId>, limit: usize) -> Result<Vec<Grant>, StoreError> {
        self.read_grants(tenant, after, limit).await
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.read_job(id).await
    }

    async fn list_jobs(
        &self,
        tenant: &Tenant,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError> {
        self.read_jobs(tenant, filter, after, limit).await
    }

    async fn queue(&self, key: &QueueKey) -> Result<Option<QueueState>, StoreError> {
        self.read_queue(key).await
    }

    async fn list_queues(
        &self,
        tenant: &Tenant,
        after: Option<&Queue>,
        limit: usize,
    ) -> Result<Vec<(Queue, QueueState)>, StoreError> {
        self.read_queues(tenant, after, limit).await
    }

    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        self.read_schedule(key).await
    }

    async fn list_schedules(
        &self,
        tenant: &Tenant,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, StoreError> {
        self.read_schedules(tenant, after, limit).await
    }

    async fn due_schedules(&self, limit: usize) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError> {
        self.read_due_schedules(limit).await
    }

    async fn figures(&self, key: &QueueKey, since_minute: i64) -> Result<Figures, StoreError> {
        self.read_figures(key, since_minute).await
    }

    async fn costs(
        &self,
        tenant: &Tenant,
        days: RangeInclusive<i64>,
        after: Option<&CostMark>,
        limit: usize,
    ) -> Result<Vec<Cost>, StoreError> {
        self.read_costs(tenant, days, after, limit).await
    }

    async fn held(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&HeldMark>,
        limit: usize,
    ) -> Result<Vec<HeldSum>, StoreError> {
        self.read_held(tenant, queue, after, limit).await
    }

    async fn job_counts(&self) -> Result<Vec<(JobState, i64)>, StoreError> {
        self.read_job_counts().await
    }

    async fn due_jobs(&self, limit: usize) -> Result<DueJobs, StoreError> {
        self.read_due_jobs(limit).await
    }

    async fn awaiting(&self, scope: &ScopeKey, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.read_awaiting(scope, limit).await
    }

    async fn barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError> {
        self.read_barred(queue, after, limit).await
    }

    async fn awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError> {
        self.read_awaited(limit).await
    }

    async fn bell(&self) -> Result<u64, StoreError> {
        self.bell.look().await
    }

    fn hints(&self) -> Option<Arc<dyn Hints>> {
        Some(Arc::new(PgHints(self.bell.clone())))
    }

    async fn journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        self.read_journal(after, limit).await
    }

    async fn batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError> {
        self.read_batch(id).await
    }

    async fn erase_payload(&self, id: u128) -> Result<bool, StoreError> {
        self.delete_payload(id).await
    }

    async fn due_holds(&self, limit: usize) -> Result<(Vec<(Tenant, HoldId)>, Time), StoreError> {
        self.read_due_holds(limit).await
    }

    async fn page_scopes(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError> {
        self.read_scope_keys(after, limit).await
    }

    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError> {
        self.delete_keys(limit).await
    }

    async fn forget_figures(&self, after: Option<&QueueKey>, limit: usize) -> Result<Option<QueueKey>, StoreError> {
        self.delete_figures(after, limit).await
    }

    async fn forget_flows(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Option<ScopeKey>, StoreError> {
        self.delete_flows(after, limit).await
    }

    async fn verify(&self) -> Result<Report, StoreError> {
        self.check_all().await
    }

    async fn rebuild(&self) -> Result<u64, StoreError> {
        self.make_anew().await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        let read_only = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'";
        let mut conn = self.acquire().await?;
        if sqlx::query_scalar(read_only).fetch_one(&mut *conn).await.map_err(store_error)? {
            return Err(StoreError::Unavailable {
                what: "the database server takes no writes".into(),
                hint: "it is a standby or read-only: connect to the primary",
                source: None,
            });
        }
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match trouble.filter(|(at, ..)| at.elapsed() < TROUBLE) {
            Some((_, what, hint)) => Err(StoreError::Unavailable { what, hint, source: None }),
            None => Ok(()),
        }
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.read_health().await
    }

    async fn close(&self) {
        self.kept.close();
        if let Some(alone) = &self.alone {
            alone.close().await;
        }
        self.bell.close().await;
        self.pool.close().await;
        self.side.close().await;
    }
}
