//! The embedded engine: one file, one writer, nothing to install.

mod ahead;
mod backup;
mod bell;
mod checkpoint;
mod closure;
mod error;
mod files;
mod forget;
mod inserts;
mod jobs;
mod known;
mod read;
mod rows;
mod salvage;
mod schedules;
pub mod schema;
mod scribe;
mod soundness;
mod stirs;
mod turnstile;
mod verify;
mod write;
mod writer;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::event::Entry;
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, JobState, QueueState, Schedule};
use bursar_core::live::ChargeMark;
use bursar_core::name::{FlowKey, Queue, ScheduleName, Scope, Tenant};
use bursar_core::request::Request;
use bursar_core::scope::ScopeState;
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::Time;
use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

pub use self::backup::{Copied, CopyOptions, CopyProgress, backup, restore};
use self::bell::Bell;
pub use self::closure::SqliteTx;
use self::files::Files;
pub use self::salvage::{salvage, set_clock_back};
use self::writer::{Counters, Handle, Shared, Writer, open_reader};
use crate::clock::SystemClock;
use crate::codec::Budgets;
use crate::error::StoreError;
use crate::figures::{Cost, CostMark, DueJobs, Figures, HeldMark, HeldSum, JobFilter};
use crate::hint::Hints;
use crate::sqlite::error::failed;
use crate::store::{Health, Journaled, Patience, Setup, Store, Verdict};
use crate::verify::Report;

/// A store in a SQLite file, or in memory.
pub struct SqliteStore {
    writer: Mutex<Option<(Handle, oneshot::Receiver<()>)>>,
    shared: Arc<Shared>,
    readers: Arc<Mutex<Vec<Connection>>>,
    reading: Semaphore,
    closures: Arc<Semaphore>,
    bell: Bell,
}

/// Connections that read at once.
const READERS: usize = 4;
/// Closures that run or wait for their turn on the writer's thread; one more is told busy.
const CLOSURES_MAX: usize = 1_000;

impl SqliteStore {
    /// Pages the writer keeps in memory, in KiB: enough that a batch over a thousand scopes reads none of them again.
    pub const CACHE_KIB: u32 = 16_384;

    /// Opens a database file.
    pub async fn open(path: impl AsRef<Path>, setup: Setup) -> Result<SqliteStore, StoreError> {
        SqliteStore::start(Some(path.as_ref().to_owned()), setup).await
    }

    /// Opens a database in memory, gone when dropped.
    pub async fn in_memory(setup: Setup) -> Result<SqliteStore, StoreError> {
        SqliteStore::start(None, Setup { migrate: true, ..setup }).await
    }

    async fn start(path: Option<PathBuf>, setup: Setup) -> Result<SqliteStore, StoreError> {
        let clock = setup.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
        let shared = Arc::new(Shared {
            setup,
            clock,
            budgets: Budgets::default(),
            effort: Counters::default(),
            high: AtomicI64::new(i64::MIN),
            files: path.as_deref().map(Files::of),
            path,
        });
        let opened = shared.clone();
        let prepare = move || {
            let mut writer = Writer::open(opened)?;
            if writer.shared.setup.migrate {
                // Only a database that needs it is written to.
                if matches!(schema::check(&writer.conn), Err(StoreError::NotMigrated { .. })) {
                    writer.transaction(|_, conn| schema::migrate(conn))?;
                }
            }
            schema::check(&writer.conn)?;
            if let Some(path) = &writer.shared.path {
                soundness::check(&writer.shared, &writer.conn, path)?;
            }
            Handle::start(writer)
        };
        let writer = tokio::task::spawn_blocking(prepare).await.map_err(|_| StoreError::Closed)??;
        Ok(SqliteStore {
            writer: Mutex::new(Some(writer)),
            shared,
            readers: Arc::default(),
            reading: Semaphore::new(READERS),
            closures: Arc::new(Semaphore::new(CLOSURES_MAX)),
            bell: Bell::default(),
        })
    }

    /// Runs a closure in a transaction of its own on the writer's thread, so that its rows and Bursar's commit
    /// together. It is rolled back when it fails, panics, or runs longer than `limit`. What it did is returned to be
    /// told to those who listen. When a thousand wait already, one more is busy.
    pub async fn transaction<T, E>(
        &self,
        limit: Duration,
        work: impl FnOnce(&mut SqliteTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<Result<(T, Vec<Arc<Entry>>), E>, StoreError>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let full = |_| StoreError::Busy(format!("{CLOSURES_MAX} closures wait already for the one writer"));
        let permit = self.closures.clone().try_acquire_owned().map_err(full)?;
        let run = move |writer: &mut Writer| {
            // Kept until it has run, also when the caller no longer waits for it.
            let _permit = permit;
            writer.run_closure(limit, work)
        };
        self.writer()?.call(run).await
    }

    /// Statements run and steps of SQLite's virtual machine taken so far: what the work costs, whatever the machine's mood.
    pub fn effort(&self) -> (u64, u64) {
        let Counters { statements, steps } = &self.shared.effort;
        (statements.load(Ordering::Relaxed), steps.load(Ordering::Relaxed))
    }

    fn writer(&self) -> Result<Handle, StoreError> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.as_ref().map(|(handle, _)| handle.clone()).ok_or(StoreError::Closed)
    }

    /// Reads in one snapshot: on a connection of its own, or on the writer's when the database is in memory.
    async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Shared, &Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let writer = self.writer()?;
        let Some(path) = self.shared.path.clone() else {
            return writer.call(move |writer| ask(&writer.shared, &writer.conn)).await;
        };
        let _permit = self.reading.acquire().await.map_err(|_| StoreError::Closed)?;
        let (shared, readers) = (self.shared.clone(), self.readers.clone());
        let work = move || {
            let idle = readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let conn = idle.map_or_else(|| open_reader(&path), Ok)?;
            let run = |sql| conn.prepare_cached(sql)?.execute([]);
            run("BEGIN").map_err(failed)?;
            let answer = ask(&shared, &conn);
            run("ROLLBACK").map_err(failed)?;
            readers.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
            answer
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Closed)?
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(&self, requests: &[Arc<Request>], _: Patience) -> Result<Vec<Verdict>, StoreError> {
        let requests: Arc<[Arc<Request>]> = requests.into();
        self.writer()?.call(move |writer| writer.commit(&requests)).await
    }

    async fn scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
        let key = key.clone();
        self.read(move |shared, conn| read::scope(shared, conn, &key)).await
    }

    async fn scopes(
        &self,
        tenant: &Tenant,
        prefix: &str,
        after: Option<&Scope>,
        limit: usize,
    ) -> Result<Vec<(Scope, ScopeState)>, StoreError> {
        let (tenant, prefix, after) = (tenant.clone(), prefix.to_owned(), after.cloned());
        self.read(move |shared, conn| read::scopes(shared, conn, &tenant, &prefix, after.as_ref(), limit)).await
    }

    async fn spent(&self, key: &ScopeKey, from: Time, to: Time) -> Result<i64, StoreError> {
        let key = key.clone();
        self.read(move |_, conn| read::spent(conn, &key, from, to)).await
    }

    async fn hold(&self, id: HoldId) -> Result<Option<Hold>, StoreError> {
        self.read(move |shared, conn| shared.rows(conn).read_hold(id)).await
    }

    async fn live_holds(
        &self,
        key: &ScopeKey,
        after: Option<ChargeMark>,
        limit: usize,
    ) -> Result<Vec<Hold>, StoreError> {
        let key = key.clone();
        self.read(move |shared, conn| read::live_holds(shared, conn, &key, after, limit)).await
    }

    async fn grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.read(move |shared, conn| shared.rows(conn).read_grant(id)).await
    }

    async fn grants(&self, tenant: &Tenant, after: Option<GrantId>, limit: usize) -> Result<Vec<Grant>, StoreError> {
        let tenant = tenant.clone();
        self.read(move |shared, conn| read::grants(shared, conn, &tenant, after, limit)).await
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.read(move |shared, conn| shared.rows(conn).read_job(id)).await
    }

    async fn list_jobs(
        &self,
        tenant: &Tenant,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read(move |shared, conn| jobs::list_jobs(shared, conn, &tenant, &filter, after, limit)).await
    }

    async fn queue(&self, key: &QueueKey) -> Result<Option<QueueState>, StoreError> {
        let key = key.clone();
        self.read(move |shared, conn| jobs::queue(shared, conn, &key)).await
    }

    async fn list_queues(
        &self,
        tenant: &Tenant,
        after: Option<&Queue>,
        limit: usize,
    ) -> Result<Vec<(Queue, QueueState)>, StoreError> {
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.read(move |shared, conn| jobs::list_queues(shared, conn, &tenant, after.as_ref(), limit)).await
    }

    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        let key = key.clone();
        self.read(move |shared, conn| shared.rows(conn).read_schedule(&key)).await
    }

    async fn list_schedules(
        &self,
        tenant: &Tenant,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, StoreError> {
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.read(move |_, conn| schedules::list(conn, &tenant, after.as_ref(), limit)).await
    }

    async fn due_schedules(&self, limit: usize) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError> {
        self.read(move |shared, conn| schedules::due(shared, conn, limit)).await
    }

    async fn figures(&self, key: &QueueKey, since_minute: i64) -> Result<Figures, StoreError> {
        let key = key.clone();
        self.read(move |shared, conn| jobs::figures(shared, conn, &key, since_minute)).await
    }

    async fn costs(
        &self,
        tenant: &Tenant,
        days: RangeInclusive<i64>,
        after: Option<&CostMark>,
        limit: usize,
    ) -> Result<Vec<Cost>, StoreError> {
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.read(move |shared, conn| jobs::costs(shared, conn, &tenant, days, after.as_ref(), limit)).await
    }

    async fn held(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&HeldMark>,
        limit: usize,
    ) -> Result<Vec<HeldSum>, StoreError> {
        let (tenant, queue, after) = (tenant.clone(), queue.cloned(), after.cloned());
        self.read(move |shared, conn| jobs::held(shared, conn, &tenant, queue.as_ref(), after.as_ref(), limit)).await
    }

    async fn job_counts(&self) -> Result<Vec<(JobState, i64)>, StoreError> {
        self.read(jobs::job_counts).await
    }

    async fn due_jobs(&self, limit: usize) -> Result<DueJobs, StoreError> {
        self.read(move |shared, conn| jobs::due_jobs(shared, conn, limit)).await
    }

    async fn awaiting(&self, scope: &ScopeKey, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let scope = scope.clone();
        self.read(move |shared, conn| jobs::awaiting(shared, conn, &scope, limit)).await
    }

    async fn barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError> {
        let (queue, after) = (queue.clone(), after.cloned());
        self.read(move |shared, conn| jobs::barred(shared, conn, &queue, after, limit)).await
    }

    async fn awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError> {
        self.read(move |shared, conn| jobs::awaited(shared, conn, limit)).await
    }

    async fn bell(&self) -> Result<u64, StoreError> {
        self.bell.listen(self.writer()?, &self.shared).await
    }

    fn hints(&self) -> Option<Arc<dyn Hints>> {
        stirs::of(self.shared.path.as_deref()?)
    }

    async fn journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        self.read(move |shared, conn| read::journal(shared, conn, after, limit)).await
    }

    async fn batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError> {
        self.read(move |shared, conn| {
            let position = id.0 as u64;
            Ok(shared.rows(conn).read_batch(position as i64)?.map(|batch| Journaled { position, batch }))
        })
        .await
    }

    async fn erase_payload(&self, id: u128) -> Result<bool, StoreError> {
        let work = move |_: &Shared, conn: &Connection| {
            let erased = conn.execute("DELETE FROM bursar_payloads WHERE id = ?1", [id.to_be_bytes()]);
            Ok(erased.map_err(failed)? > 0)
        };
        self.writer()?.call(move |writer| writer.transaction(work)).await
    }

    async fn due_holds(&self, limit: usize) -> Result<(Vec<(Tenant, HoldId)>, Time), StoreError> {
        self.read(move |shared, conn| read::due_holds(shared, conn, limit)).await
    }

    async fn page_scopes(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError> {
        let after = after.cloned();
        self.read(move |shared, conn| read::page_scopes(shared, conn, after.as_ref(), limit)).await
    }

    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError> {
        let work = move |shared: &Shared, conn: &Connection| {
            let sql = "DELETE FROM bursar_keys WHERE (tenant, key) IN
                (SELECT tenant, key FROM bursar_keys WHERE until <= ?1 ORDER BY until LIMIT ?2)";
            conn.execute(sql, (shared.clock.now().micros(), limit as i64)).map_err(failed)
        };
        self.writer()?.call(move |writer| writer.transaction(work)).await
    }

    async fn forget_figures(&self, after: Option<&QueueKey>, limit: usize) -> Result<Option<QueueKey>, StoreError> {
        let after = after.cloned();
        let work = move |shared: &Shared, conn: &Connection| forget::figures(shared, conn, after, limit);
        self.writer()?.call(move |writer| writer.transaction(work)).await
    }

    async fn forget_flows(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Option<ScopeKey>, StoreError> {
        let after = after.cloned();
        let unused =
            move |shared: &Shared, conn: &Connection| forget::unused_flows(shared, conn, after.as_ref(), limit);
        let (unused, next) = self.read(unused).await?;
        if !unused.is_empty() {
            let work = move |shared: &Shared, conn: &Connection| forget::flows(shared, conn, &unused);
            self.writer()?.call(move |writer| writer.transaction(work)).await?;
        }
        Ok(next)
    }

    async fn verify(&self) -> Result<Report, StoreError> {
        self.read(verify::verify).await
    }

    async fn rebuild(&self) -> Result<u64, StoreError> {
        self.writer()?.call(|writer| writer.transaction(read::rebuild)).await
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.read(read::health).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let check =
            move || shared.files.as_ref().map_or(Ok(()), |files| files.check().and_then(|()| files.check_space()));
        tokio::task::spawn_blocking(check).await.map_err(|_| StoreError::Closed)??;
        self.read(|_, conn| schema::check(conn)).await
    }

    async fn close(&self) {
        let Some((writer, closed)) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        // Reads that were accepted are still answered; then nobody keeps a connection to read with.
        let reading = self.reading.acquire_many(READERS as u32).await;
        self.reading.close();
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.bell.silence();
        drop(reading);
        // Tasks that were accepted are still done: the thread ends when the last handle is gone. Its connection is the
        // last of this process to close, and copies the log into the file: a process may end right after this.
        drop(writer);
        let _ = closed.await;
    }
}
