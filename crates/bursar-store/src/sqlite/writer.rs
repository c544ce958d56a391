//! The writer thread, and the one connection of a store that writes.
//!
//! SQLite allows one writer at a time. A store therefore has one thread that owns the writing connection and runs tasks one after
//! the other: batches of requests, callers' closures, maintenance. Callers hand it tasks through a [`Handle`] and await the result.
//!
//! The database uses a write-ahead log with `synchronous = FULL`, so a commit is on the disk before it is answered. Each transaction
//! begins with `BEGIN IMMEDIATE`, after the process has its turn among the processes that write to the same file (`process_lock`), and
//! after a check that the open files are still those at the database's path (`files`). That check is repeated after the commit.
//!
//! Two helper threads take work off this one: `second_thread` decides and encodes large batches, and `checkpoint` copies the
//! write-ahead log into the database file.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, PoisonError};
use std::thread;

use bursar_core::id::BatchId;
use bursar_core::request::CheckedRequest;
use bursar_core::state::Workspace;
use bursar_core::time::Time;
use futures_util::FutureExt;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::codec::Budgets;
use crate::error::StoreError;
use crate::sqlite::SqliteStore;
use crate::sqlite::caller_transaction::check_open;
use crate::sqlite::checkpoint::Checkpoints;
use crate::sqlite::connection::{configure, open_read_only, open_writer, retry_busy, sync_commits};
use crate::sqlite::error::store_error;
use crate::sqlite::files::Files;
use crate::sqlite::process_lock::ProcessLock;
use crate::sqlite::rows::SqliteRows;
use crate::sqlite::scope_cache::ScopeCache;
use crate::sqlite::second_thread::SecondThread;
use crate::sqlite::second_thread::decide::{DecidedBatch, REQUESTS_MIN, decide};
use crate::store::{RequestOutcome, Setup};
use crate::transaction::rows::Rows;
use crate::transaction::{self, BatchStart, LoadedBatch};

/// The writing connection, and the state that belongs to it.
pub(super) struct Writer {
    /// `None` for a database in memory. Dropped before `conn`, whose close copies the rest of the write-ahead log.
    checkpoints: Option<Checkpoints>,
    pub(super) conn: Connection,
    process_lock: ProcessLock,
    pub(super) shared: Arc<Shared>,
    scope_cache: RefCell<ScopeCache>,
    second_thread: SecondThread,
    /// The workspace of the last batch. It is cached or freed after the callers have their answers.
    last_batch: Option<Workspace>,
}

/// What the writer shares with readers.
pub(super) struct Shared {
    pub(super) setup: Setup,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) budgets: Budgets,
    pub(super) effort: Counters,
    /// The instant of this process's latest batch, in microseconds. No later batch is decided at an earlier instant.
    pub(super) latest: AtomicI64,
    /// `None` for a database in memory.
    pub(super) path: Option<PathBuf>,
    /// `None` for a database in memory.
    pub(super) files: Option<Files>,
    /// Whether the file is open for reading only.
    pub(super) read_only: bool,
}

/// The statements that ran, and the steps that SQLite's virtual machine took.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) statements: AtomicU64,
    pub(super) steps: AtomicU64,
}

impl Shared {
    pub(super) fn rows<'a>(&'a self, conn: &'a Connection) -> SqliteRows<'a> {
        let (clock, budgets, effort) = (&*self.clock, &self.budgets, &self.effort);
        SqliteRows { conn, clock, budgets, effort, scope_cache: None, second_thread: None }
    }
}

/// A function to run on the writer thread.
type Task = Box<dyn FnOnce(&mut Writer) + Send>;

/// Sends tasks to the writer thread. The thread ends when the last handle is dropped.
#[derive(Clone)]
pub(super) struct Handle(mpsc::Sender<Task>);

impl Handle {
    /// Starts the thread. The receiver gets a message when the connection is closed.
    pub(super) fn start(mut writer: Writer) -> Result<(Handle, oneshot::Receiver<()>), StoreError> {
        let (sender, tasks) = mpsc::channel::<Task>();
        let (closed, on_close) = oneshot::channel();
        let run = move || {
            while let Ok(task) = tasks.recv() {
                task(&mut writer);
                writer.release_last_batch();
                writer.checkpoint();
            }
            drop(writer);
            let _ = closed.send(());
        };
        let builder = thread::Builder::new().name("bursar-sqlite".into());
        builder.spawn(run).map_err(|source| StoreError::Unavailable {
            what: "the writer thread cannot be started".into(),
            hint: "check the limits on threads",
            permanent: false,
            source: Some(Box::new(source)),
        })?;
        Ok((Handle(sender), on_close))
    }

    /// Runs a function on the thread and returns its result. A panic there is an error here.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        run: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, on_answer) = oneshot::channel();
        let task = Box::new(move |writer: &mut Writer| {
            let _ = answer.send(run(writer));
        });
        self.0.send(task).map_err(|_| StoreError::Closed)?;
        on_answer.await.map_err(|_| StoreError::Closed)?
    }
}

impl Writer {
    /// Opens the writing connection. A missing file is created only if migration is allowed.
    pub(super) fn open(shared: Arc<Shared>) -> Result<Writer, StoreError> {
        let (conn, process_lock) = match &shared.path {
            None => (Connection::open_in_memory().map_err(store_error)?, ProcessLock::none()),
            Some(path) if shared.read_only => (open_read_only(path)?, ProcessLock::none()),
            // The lock files are created only beside a file that is a database.
            Some(path) => (open_writer(path, shared.setup.migrate)?, ProcessLock::beside(path)?),
        };
        configure(&conn)?;
        let mut writer = Writer {
            checkpoints: None,
            conn,
            process_lock,
            shared,
            scope_cache: RefCell::default(),
            second_thread: SecondThread::default(),
            last_batch: None,
        };
        if writer.shared.read_only {
            return Ok(writer);
        }
        writer.set_durable()?;
        let path = writer.shared.path.as_deref();
        writer.checkpoints = path.map(|path| Checkpoints::new(&writer.conn, path));
        Ok(writer)
    }

    /// Turns on the write-ahead log and synced commits.
    fn set_durable(&self) -> Result<(), StoreError> {
        let set_mode = |conn: &Connection| conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        let mode: String = retry_busy(&self.conn, set_mode).map_err(store_error)?;
        if self.shared.path.is_some() && mode != "wal" {
            return Err(StoreError::Unavailable {
                what: format!("the database cannot use a write-ahead log (its journal mode is {mode})"),
                hint: "use a local disk and a writable folder",
                permanent: true,
                source: None,
            });
        }
        sync_commits(&self.conn)?;
        let pragma = format!("PRAGMA cache_size = -{}", SqliteStore::CACHE_KIB);
        self.conn.execute_batch(&pragma).map_err(store_error)
    }

    /// Runs a function in one transaction, which is rolled back if the function fails or panics.
    pub(super) fn transaction<T>(
        &mut self,
        run: impl FnOnce(&Shared, &Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.scope_cache.borrow_mut().clear();
        self.locked_transaction(|writer| run(&writer.shared, &writer.conn))
    }

    /// Waits for this process's turn to write, and runs a function in one transaction. The scope cache is left as it is.
    fn locked_transaction<T>(&mut self, run: impl FnOnce(&Writer) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let _turn = self.process_lock.enter()?;
        self.check_files()?;
        retry_busy(&self.conn, |conn| conn.execute_batch("BEGIN IMMEDIATE")).map_err(store_error)?;
        let result = match catch_unwind(AssertUnwindSafe(|| run(self))) {
            Ok(Ok(value)) => self.commit_transaction().map(|()| value),
            Ok(Err(error)) => Err(error),
            Err(panic) => Err(StoreError::Closure(format!("panicked: {}", panic_text(&*panic)))),
        };
        if result.is_err() && !self.conn.is_autocommit() {
            // An error here means that SQLite has rolled back already.
            let _ = self.conn.execute_batch("ROLLBACK");
        }
        result
    }

    fn commit_transaction(&self) -> Result<(), StoreError> {
        check_open(&self.conn)?;
        self.conn.execute_batch("COMMIT").map_err(store_error)?;
        // A commit to a file that was deleted or replaced meanwhile is not durable.
        self.check_files().map_err(|error| StoreError::UnknownOutcome(Box::new(error)))
    }

    fn check_files(&self) -> Result<(), StoreError> {
        self.shared.files.as_ref().map_or(Ok(()), Files::check)
    }

    /// Decides and writes a batch of requests in one transaction.
    pub(super) fn commit(&mut self, requests: &Arc<[Arc<CheckedRequest>]>) -> Result<Vec<RequestOutcome>, StoreError> {
        let result = self.locked_transaction(|writer| {
            writer.scope_cache.borrow_mut().check(&writer.conn)?;
            let (scope_cache, second_thread) = (Some(&writer.scope_cache), Some(&writer.second_thread));
            let rows = SqliteRows { scope_cache, second_thread, ..writer.shared.rows(&writer.conn) };
            if requests.len() >= REQUESTS_MIN {
                return run_on_two_threads(&writer.shared, &writer.second_thread, rows, requests);
            }
            let requests: Vec<&CheckedRequest> = requests.iter().map(|request| &**request).collect();
            run_on_one_thread(&writer.shared, rows, &requests)
        });
        match result {
            Ok((ws, outcomes)) => {
                self.last_batch = Some(ws);
                Ok(outcomes)
            }
            Err(error) => {
                self.scope_cache.borrow_mut().clear();
                Err(error)
            }
        }
    }

    fn checkpoint(&mut self) {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.run(&self.conn);
        }
    }

    /// Moves the scopes of the last batch into the cache and frees its other rows.
    fn release_last_batch(&mut self) {
        let Some(mut ws) = self.last_batch.take() else { return };
        self.scope_cache.borrow_mut().keep(std::mem::take(&mut ws.scopes));
        let rows = ws.holds.count() + ws.grants.count() + ws.jobs.count();
        self.second_thread.free(ws, rows);
    }
}

/// Decides and writes requests in the transaction that is open on a connection.
pub(super) fn run_in(
    shared: &Shared,
    conn: &Connection,
    requests: &[&CheckedRequest],
) -> Result<Vec<RequestOutcome>, StoreError> {
    run_on_one_thread(shared, shared.rows(conn), requests).map(|(_, outcomes)| outcomes)
}

fn run_on_one_thread(
    shared: &Shared,
    mut rows: SqliteRows<'_>,
    requests: &[&CheckedRequest],
) -> Result<(Workspace, Vec<RequestOutcome>), StoreError> {
    let start = batch_start(shared, &rows)?;
    let mut ids = shared.setup.ids.lock().unwrap_or_else(PoisonError::into_inner);
    let run = async {
        let (mut ws, outcomes) = transaction::run(&mut rows, requests, &shared.setup.rules, start, &mut *ids).await?;
        let batch = ws.take_batch();
        rows.store(&ws, batch).await?;
        Ok((ws, outcomes))
    };
    finish(shared, run.now_or_never())
}

fn run_on_two_threads(
    shared: &Arc<Shared>,
    second_thread: &SecondThread,
    mut rows: SqliteRows<'_>,
    requests: &Arc<[Arc<CheckedRequest>]>,
) -> Result<(Workspace, Vec<RequestOutcome>), StoreError> {
    let start = batch_start(shared, &rows)?;
    let borrowed: Vec<&CheckedRequest> = requests.iter().map(|request| &**request).collect();
    let run = async {
        let loaded = LoadedBatch::load(&mut rows, &borrowed, start).await?;
        let DecidedBatch { ws, mut outcomes, journal } = decide(shared, second_thread, &rows, loaded, requests)?;
        transaction::conclude(&mut rows, &borrowed, &shared.setup.rules, &ws, &mut outcomes).await?;
        rows.write(&ws, journal.as_ref())?;
        second_thread.free(journal, requests.len());
        Ok((ws, outcomes))
    };
    finish(shared, run.now_or_never())
}

fn batch_start(shared: &Shared, rows: &SqliteRows<'_>) -> Result<BatchStart, StoreError> {
    let (position, last) = rows.end_of_journal()?;
    let latest = Time::from_micros(shared.latest.load(Ordering::SeqCst));
    Ok(BatchStart { floor: last.unwrap_or(Time::MIN).max(latest), batch: BatchId(u128::from(position)) })
}

/// Records the instant of a batch. Later batches of this process are not decided before it.
fn finish(
    shared: &Shared,
    result: Option<Result<(Workspace, Vec<RequestOutcome>), StoreError>>,
) -> Result<(Workspace, Vec<RequestOutcome>), StoreError> {
    let (ws, outcomes) = result.expect("SQLite never waits within a transaction")?;
    shared.latest.fetch_max(ws.now.micros(), Ordering::SeqCst);
    Ok((ws, outcomes))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown")
}
