//! SQLite, the embedded engine: one file, one writer, nothing to install.
//!
//! The files `commit`, `read`, `maintain` and `notify` implement the parts of [`Store`](crate::Store). Below them:
//!
//! | file | what it does |
//! | --- | --- |
//! | `writer` | the thread that owns the only connection that writes |
//! | `rows`, `jobs`, `schedules`, `write`, `inserts` | the SQL that loads and writes the rows of a transaction |
//! | `second_thread` | decides and encodes large batches beside the writer thread |
//! | `checkpoint` | copies the write-ahead log into the database file beside the writer thread |
//! | `caller_transaction` | callers' closures, in a transaction on the writer thread |
//! | `scope_cache` | the scopes that this process wrote last |
//! | `process_lock` | lets several processes write to one file in fair order |
//! | `change_counter`, `wal_watch` | notice the commits of other processes |
//! | `files`, `integrity` | notice deleted, replaced and damaged files |
//! | `backup`, `salvage`, `rebuild`, `verify` | copy, recover, rebuild and check a database |
//! | `moving` | copies a database to or from another engine |
//!
//! Reads run on up to four connections of their own, each in one snapshot, and do not wait for the writer.

mod archive;
mod backup;
mod blobs;
mod caller_transaction;
mod change_counter;
mod checkpoint;
mod commit;
mod connection;
mod error;
mod files;
mod forget;
mod inserts;
mod integrity;
mod jobs;
mod maintain;
pub(crate) mod moving;
mod notify;
mod payloads;
mod process_lock;
mod read;
mod rebuild;
mod rows;
mod salvage;
mod schedules;
pub mod schema;
mod scope_cache;
mod second_thread;
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
use self::connection::open_reader;
use self::error::store_error;
use self::files::Files;
pub use self::salvage::{archived_segments, is_part_of_move, salvage, set_clock_back};
use self::writer::{Counters, Handle, Shared, Writer};
use crate::clock::SystemClock;
use crate::codec::Budgets;
use crate::error::StoreError;
use crate::store::Setup;

/// A store in a SQLite file, or in memory.
pub struct SqliteStore {
    writer: Mutex<Option<(Handle, oneshot::Receiver<()>)>>,
    shared: Arc<Shared>,
    readers: Arc<Mutex<Vec<Connection>>>,
    read_permits: Semaphore,
    closure_permits: Arc<Semaphore>,
    change_counter: ChangeCounter,
}

/// How a file is opened.
#[derive(Clone, Copy, Default)]
struct OpenMode {
    /// Whether only for reading.
    read_only: bool,
    /// Whether also a file that is a part of a move, which is not used otherwise.
    in_move: bool,
}

/// The connections that read at the same time.
const READERS: usize = 4;
/// The most closures that run or wait on the writer thread. One more fails with `Busy`.
const CLOSURES_MAX: usize = 1_000;

impl SqliteStore {
    /// The page cache of the writing connection, in KiB: enough that a batch on a thousand scopes reads no page twice.
    pub const CACHE_KIB: u32 = 16_384;

    /// Opens a database file.
    pub async fn open(path: impl AsRef<Path>, setup: Setup) -> Result<SqliteStore, StoreError> {
        SqliteStore::start(Some(path.as_ref().to_owned()), setup).await
    }

    /// Opens a database in memory. It is lost when the store is dropped.
    pub async fn in_memory(setup: Setup) -> Result<SqliteStore, StoreError> {
        SqliteStore::start(None, Setup { migrate: true, ..setup }).await
    }

    /// Opens a database file for reading. It needs no permission to write the file or its folder, and every write fails. The file is
    /// neither created nor migrated.
    pub async fn open_read_only(path: impl AsRef<Path>, setup: Setup) -> Result<SqliteStore, StoreError> {
        let mode = OpenMode { read_only: true, in_move: false };
        SqliteStore::start_with(Some(path.as_ref().to_owned()), Setup { migrate: false, ..setup }, mode).await
    }

    /// Opens a file that is a part of a move, to verify it.
    async fn open_in_move(path: &Path, setup: Setup) -> Result<SqliteStore, StoreError> {
        let mode = OpenMode { read_only: false, in_move: true };
        SqliteStore::start_with(Some(path.to_owned()), Setup { migrate: false, ..setup }, mode).await
    }

    async fn start(path: Option<PathBuf>, setup: Setup) -> Result<SqliteStore, StoreError> {
        SqliteStore::start_with(path, setup, OpenMode::default()).await
    }

    async fn start_with(path: Option<PathBuf>, setup: Setup, mode: OpenMode) -> Result<SqliteStore, StoreError> {
        let clock = setup.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
        let shared = Arc::new(Shared {
            setup,
            clock,
            budgets: Budgets::default(),
            effort: Counters::default(),
            latest: AtomicI64::new(i64::MIN),
            files: path.as_deref().map(Files::of),
            path,
            read_only: mode.read_only,
        });
        let opened = shared.clone();
        let prepare = move || {
            let mut writer = Writer::open(opened)?;
            if writer.shared.setup.migrate {
                // A database that is up to date is not written.
                if matches!(schema::check(&writer.conn), Err(StoreError::NotMigrated { .. })) {
                    writer.transaction(|_, conn| schema::migrate(conn))?;
                }
            }
            if !mode.in_move {
                schema::check(&writer.conn)?;
            }
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
            read_permits: Semaphore::new(READERS),
            closure_permits: Arc::new(Semaphore::new(CLOSURES_MAX)),
            change_counter: ChangeCounter::default(),
        })
    }

    /// Runs a closure in a transaction of its own on the writer thread, so that its rows and Bursar's commit together. The transaction
    /// is rolled back if the closure fails, panics or runs longer than `limit`. Returns the result of the closure and the journal
    /// entries to publish. Fails with `Busy` if a thousand closures are running or waiting.
    pub async fn transaction<T, E>(
        &self,
        limit: Duration,
        closure: impl FnOnce(&mut SqliteTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<Result<(T, Vec<Arc<Entry>>), E>, StoreError>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let full = |_| StoreError::Busy(format!("{CLOSURES_MAX} closures are running or waiting for the writer"));
        let permit = self.closure_permits.clone().try_acquire_owned().map_err(full)?;
        let run = move |writer: &mut Writer| {
            // Released when the closure has run, even if the caller no longer awaits it.
            let _permit = permit;
            writer.run_closure(limit, closure)
        };
        self.writer()?.call(run).await
    }

    /// Returns how many statements ran, and how many steps SQLite's virtual machine took: a cost that does not depend on the machine.
    pub fn effort(&self) -> (u64, u64) {
        let Counters { statements, steps } = &self.shared.effort;
        (statements.load(Ordering::Relaxed), steps.load(Ordering::Relaxed))
    }

    fn writer(&self) -> Result<Handle, StoreError> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.as_ref().map(|(handle, _)| handle.clone()).ok_or(StoreError::Closed)
    }

    /// Runs a query in one snapshot, on a connection for reading. A database in memory has only the writing connection.
    async fn in_snapshot<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Shared, &Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let writer = self.writer()?;
        let Some(path) = self.shared.path.clone() else {
            return writer.call(move |writer| query(&writer.shared, &writer.conn)).await;
        };
        let _permit = self.read_permits.acquire().await.map_err(|_| StoreError::Closed)?;
        let (shared, readers) = (self.shared.clone(), self.readers.clone());
        let run = move || {
            let idle = readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let conn = idle.map_or_else(|| open_reader(&path, shared.read_only), Ok)?;
            let execute = |sql| conn.prepare_cached(sql)?.execute([]);
            execute("BEGIN").map_err(store_error)?;
            let answer = query(&shared, &conn);
            execute("ROLLBACK").map_err(store_error)?;
            readers.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
            answer
        };
        tokio::task::spawn_blocking(run).await.map_err(|_| StoreError::Closed)?
    }
}
