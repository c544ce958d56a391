//! SQLite, the embedded engine: one file, one writer, nothing to install.
//!
//! The files follow the parts of [`Store`](crate::Store): `commit`, `read`, `maintain`, `notify`. One thread owns the connection that
//! writes (`writer`); reads run on connections of their own.

mod backup;
mod caller_transaction;
mod change_counter;
mod checkpoint;
mod commit;
mod error;
mod files;
mod forget;
mod inserts;
mod integrity;
mod jobs;
mod journal_encoder;
mod maintain;
mod notify;
mod parallel_decide;
mod process_lock;
mod read;
mod rebuild;
mod rows;
mod salvage;
mod schedules;
pub mod schema;
mod scope_cache;
mod verify;
mod wal_watch;
mod write;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar_core::event::Entry;
use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

pub use self::backup::{Copied, CopyOptions, CopyProgress, backup, restore};
pub use self::caller_transaction::SqliteTx;
use self::change_counter::ChangeCounter;
use self::error::failed;
use self::files::Files;
pub use self::salvage::{salvage, set_clock_back};
use self::writer::{Counters, Handle, Shared, Writer, open_reader};
use crate::clock::SystemClock;
use crate::codec::Budgets;
use crate::error::StoreError;
use crate::store::Setup;

/// A store in a SQLite file, or in memory.
pub struct SqliteStore {
    writer: Mutex<Option<(Handle, oneshot::Receiver<()>)>>,
    shared: Arc<Shared>,
    readers: Arc<Mutex<Vec<Connection>>>,
    reading: Semaphore,
    closures: Arc<Semaphore>,
    change_counter: ChangeCounter,
}

/// Connections that read at once.
const READERS: usize = 4;
/// The most closures that run or wait on the writer's thread; one more fails with `Busy`.
const CLOSURES_MAX: usize = 1_000;

impl SqliteStore {
    /// The page cache of the writer, in KiB: enough that a batch over a thousand scopes reads no page twice.
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
            latest: AtomicI64::new(i64::MIN),
            files: path.as_deref().map(Files::of),
            path,
        });
        let opened = shared.clone();
        let prepare = move || {
            let mut writer = Writer::open(opened)?;
            if writer.shared.setup.migrate {
                // A database that is up to date is not written to.
                if matches!(schema::check(&writer.conn), Err(StoreError::NotMigrated { .. })) {
                    writer.transaction(|_, conn| schema::migrate(conn))?;
                }
            }
            schema::check(&writer.conn)?;
            if let Some(path) = &writer.shared.path {
                integrity::check(&writer.shared, &writer.conn, path)?;
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
            change_counter: ChangeCounter::default(),
        })
    }

    /// Runs a closure in a transaction of its own on the writer's thread, so that its rows and Bursar's commit
    /// together. The transaction is rolled back when the closure fails, panics or runs longer than `limit`. Returns the result of the
    /// closure and the journal entries to publish. Fails with `Busy` when a thousand closures are waiting.
    pub async fn transaction<T, E>(
        &self,
        limit: Duration,
        work: impl FnOnce(&mut SqliteTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<Result<(T, Vec<Arc<Entry>>), E>, StoreError>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let full = |_| StoreError::Busy(format!("{CLOSURES_MAX} closures are waiting for the writer"));
        let permit = self.closures.clone().try_acquire_owned().map_err(full)?;
        let run = move |writer: &mut Writer| {
            // Held until the closure has run, even if the caller no longer waits for it.
            let _permit = permit;
            writer.run_closure(limit, work)
        };
        self.writer()?.call(run).await
    }

    /// How many statements ran and how many steps SQLite's virtual machine took: a cost that does not depend on the machine.
    pub fn effort(&self) -> (u64, u64) {
        let Counters { statements, steps } = &self.shared.effort;
        (statements.load(Ordering::Relaxed), steps.load(Ordering::Relaxed))
    }

    fn writer(&self) -> Result<Handle, StoreError> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.as_ref().map(|(handle, _)| handle.clone()).ok_or(StoreError::Closed)
    }

    /// Reads in one snapshot, on a connection of its own; a database in memory has only the writer's.
    async fn in_snapshot<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Shared, &Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let writer = self.writer()?;
        let Some(path) = self.shared.path.clone() else {
            return writer.call(move |writer| query(&writer.shared, &writer.conn)).await;
        };
        let _permit = self.reading.acquire().await.map_err(|_| StoreError::Closed)?;
        let (shared, readers) = (self.shared.clone(), self.readers.clone());
        let work = move || {
            let idle = readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let conn = idle.map_or_else(|| open_reader(&path), Ok)?;
            let run = |sql| conn.prepare_cached(sql)?.execute([]);
            run("BEGIN").map_err(failed)?;
            let answer = query(&shared, &conn);
            run("ROLLBACK").map_err(failed)?;
            readers.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
            answer
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Closed)?
    }
}
