//! The one thread that owns the writing connection.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, PoisonError};
use std::thread;

use bursar_core::id::BatchId;
use bursar_core::mutant::Mutant;
use bursar_core::request::CheckedRequest;
use bursar_core::state::Workspace;
use bursar_core::time::Time;
use futures_util::FutureExt;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::codec::Budgets;
use crate::error::StoreError;
use crate::sqlite::SqliteStore;
use crate::sqlite::caller_transaction::still_open;
use crate::sqlite::checkpoint::Checkpoints;
use crate::sqlite::error::failed;
use crate::sqlite::files::Files;
use crate::sqlite::journal_encoder::JournalEncoder;
use crate::sqlite::parallel_decide::{self, DecidedBatch};
use crate::sqlite::process_lock::{BUSY_TIMEOUT, ProcessLock, WAITS};
use crate::sqlite::rows::SqliteRows;
use crate::sqlite::scope_cache::ScopeCache;
use crate::store::{RequestOutcome, Setup};
use crate::transaction::rows::Rows;
use crate::transaction::{self, BatchStart, LoadedBatch};

/// The writing connection and what goes with it.
pub(super) struct Writer {
    /// Before the connection, whose end copies what is left of the log. None for a database in memory.
    checkpoints: Option<Checkpoints>,
    pub(super) conn: Connection,
    process_lock: ProcessLock,
    pub(super) shared: Arc<Shared>,
    scope_cache: RefCell<ScopeCache>,
    encoder: JournalEncoder,
    /// What the last batch worked on, to be kept or freed once its callers are told.
    done: Option<Workspace>,
}

/// What the writer shares with readers.
pub(super) struct Shared {
    pub(super) setup: Setup,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) budgets: Budgets,
    pub(super) effort: Counters,
    /// The instant of this process's latest decision: time does not go below it.
    pub(super) latest: AtomicI64,
    /// `None` for a database in memory.
    pub(super) path: Option<PathBuf>,
    /// Likewise.
    pub(super) files: Option<Files>,
}

/// What the engine has done so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) statements: AtomicU64,
    pub(super) steps: AtomicU64,
}

impl Shared {
    pub(super) fn rows<'a>(&'a self, conn: &'a Connection) -> SqliteRows<'a> {
        let (clock, budgets, effort) = (&*self.clock, &self.budgets, &self.effort);
        SqliteRows { conn, clock, budgets, effort, scope_cache: None, encoder: None }
    }
}

/// Something to do on the writer's thread.
type Task = Box<dyn FnOnce(&mut Writer) + Send>;

/// The way to the writer's thread. It ends when the last handle is gone.
#[derive(Clone)]
pub(super) struct Handle(mpsc::Sender<Task>);

impl Handle {
    /// Starts the thread on an open writer; the second part tells when the connection is closed.
    pub(super) fn start(mut writer: Writer) -> Result<(Handle, oneshot::Receiver<()>), StoreError> {
        let (tasks, waiting) = mpsc::channel::<Task>();
        let (closed, closing) = oneshot::channel();
        let named = thread::Builder::new().name("bursar-sqlite".into());
        let run = move || {
            while let Ok(task) = waiting.recv() {
                task(&mut writer);
                writer.clear();
                writer.checkpoint();
            }
            drop(writer);
            let _ = closed.send(());
        };
        named.spawn(run).map_err(|source| StoreError::Unavailable {
            what: "the writer's thread cannot be started".into(),
            hint: "check the limits on threads",
            source: Some(Box::new(source)),
        })?;
        Ok((Handle(tasks), closing))
    }

    /// Runs something on the thread and returns what came of it; a panic there is an error here.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let task = Box::new(move |writer: &mut Writer| {
            let _ = answer.send(work(writer));
        });
        self.0.send(task).map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }
}

impl Writer {
    /// Opens the writing connection; a file that is not there is made only when the tables may be made too.
    pub(super) fn open(shared: Arc<Shared>) -> Result<Writer, StoreError> {
        let (conn, process_lock) = match &shared.path {
            None => (Connection::open_in_memory().map_err(failed)?, ProcessLock::none()),
            Some(path) => {
                let create = if shared.setup.migrate { OpenFlags::SQLITE_OPEN_CREATE } else { OpenFlags::empty() };
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;
                let conn = Connection::open_with_flags(path, flags).map_err(|error| named(path, error))?;
                // A file that is no database is left alone: no lock files beside it.
                configure(&conn)?;
                let look = |conn: &Connection| conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
                retrying(&conn, look).map_err(|error| named(path, error))?;
                (conn, ProcessLock::beside(path)?)
            }
        };
        configure(&conn)?;
        let (scope_cache, encoder) = (RefCell::default(), JournalEncoder::default());
        let mut writer = Writer { checkpoints: None, conn, process_lock, shared, scope_cache, encoder, done: None };
        writer.durable()?;
        let path = writer.shared.path.as_deref();
        writer.checkpoints = path.map(|path| Checkpoints::of(&writer.conn, path));
        Ok(writer)
    }

    /// Every commit is on the disk before it is answered.
    fn durable(&self) -> Result<(), StoreError> {
        let mode: String =
            retrying(&self.conn, |conn| conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)))
                .map_err(failed)?;
        if self.shared.path.is_some() && mode != "wal" {
            return Err(StoreError::Unavailable {
                what: format!("the database cannot use a write-ahead log (it says {mode})"),
                hint: "use a local disk and a writable folder",
                source: None,
            });
        }
        synced(&self.conn)?;
        let pragma = format!("PRAGMA cache_size = -{}", SqliteStore::CACHE_KIB);
        self.conn.execute_batch(&pragma).map_err(failed)
    }

    /// One transaction: everything or nothing, also when `work` panics.
    pub(super) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Shared, &Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.scope_cache.borrow_mut().clear();
        self.in_turn(|writer| work(&writer.shared, &writer.conn))
    }

    fn in_turn<T>(&mut self, work: impl FnOnce(&Writer) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let _turn = self.process_lock.enter()?;
        self.check_files()?;
        retrying(&self.conn, |conn| conn.execute_batch("BEGIN IMMEDIATE")).map_err(failed)?;
        let done = catch_unwind(AssertUnwindSafe(|| work(self)));
        let done = match done {
            Ok(Ok(done)) => {
                let committed = still_open(&self.conn).and_then(|()| self.conn.execute_batch("COMMIT").map_err(failed));
                // What was written to a file that is not there any more is not answered as done.
                let lost = |error| StoreError::UnknownOutcome(Box::new(error));
                committed.and_then(|()| self.check_files().map_err(lost)).map(|()| done)
            }
            Ok(Err(error)) => Err(error),
            Err(panic) => Err(StoreError::Closure(format!("panicked: {}", panic_text(&*panic)))),
        };
        if done.is_err() && !self.conn.is_autocommit() {
            // An error here means that SQLite rolled back by itself.
            let _ = self.conn.execute_batch("ROLLBACK");
        }
        done
    }

    fn check_files(&self) -> Result<(), StoreError> {
        self.shared.files.as_ref().map_or(Ok(()), Files::check)
    }

    /// Does the requests in one transaction.
    pub(super) fn commit(&mut self, requests: &Arc<[Arc<CheckedRequest>]>) -> Result<Vec<RequestOutcome>, StoreError> {
        let done = self.in_turn(|writer| {
            writer.scope_cache.borrow_mut().check(&writer.conn)?;
            let (scope_cache, encoder) = (Some(&writer.scope_cache), Some(&writer.encoder));
            let rows = SqliteRows { scope_cache, encoder, ..writer.shared.rows(&writer.conn) };
            if requests.len() >= parallel_decide::REQUESTS_MIN {
                return decide_in_parallel(&writer.shared, &writer.encoder, rows, requests);
            }
            let requests: Vec<&CheckedRequest> = requests.iter().map(|request| &**request).collect();
            decide_with(&writer.shared, rows, &requests)
        });
        match done {
            Ok((ws, outcomes)) => {
                self.done = Some(ws);
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
            checkpoints.tend(&self.conn);
        }
    }

    /// Keeps what is worth it of the last batch, whose callers have been told, and frees the rest.
    fn clear(&mut self) {
        let Some(mut ws) = self.done.take() else { return };
        self.scope_cache.borrow_mut().keep(std::mem::take(&mut ws.scopes));
        let rows = ws.holds.count() + ws.grants.count() + ws.jobs.count();
        self.encoder.free(ws, rows);
    }
}

/// Decides requests within a transaction that is open on the connection.
pub(super) fn decide_in(
    shared: &Shared,
    conn: &Connection,
    requests: &[&CheckedRequest],
) -> Result<Vec<RequestOutcome>, StoreError> {
    decide_with(shared, shared.rows(conn), requests).map(|(_, outcomes)| outcomes)
}

fn decide_with(
    shared: &Shared,
    mut rows: SqliteRows<'_>,
    requests: &[&CheckedRequest],
) -> Result<(Workspace, Vec<RequestOutcome>), StoreError> {
    let start = batch_start(shared, &rows)?;
    let mut ids = shared.setup.ids.lock().unwrap_or_else(PoisonError::into_inner);
    let work = async {
        let (mut ws, outcomes) = transaction::run(&mut rows, requests, &shared.setup.rules, start, &mut *ids).await?;
        let batch = ws.take_batch();
        rows.store(&ws, batch).await?;
        Ok((ws, outcomes))
    };
    reached(shared, work.now_or_never())
}

/// The same, with a second thread that decides.
fn decide_in_parallel(
    shared: &Arc<Shared>,
    encoder: &JournalEncoder,
    mut rows: SqliteRows<'_>,
    requests: &Arc<[Arc<CheckedRequest>]>,
) -> Result<(Workspace, Vec<RequestOutcome>), StoreError> {
    let start = batch_start(shared, &rows)?;
    let borrowed: Vec<&CheckedRequest> = requests.iter().map(|request| &**request).collect();
    let work = async {
        let loaded = LoadedBatch::load(&mut rows, &borrowed, start).await?;
        let DecidedBatch { ws, mut outcomes, journal } =
            parallel_decide::decide(shared, encoder, &rows, loaded, requests)?;
        transaction::conclude(&mut rows, &borrowed, &shared.setup.rules, &ws, &mut outcomes).await?;
        rows.write(&ws, journal.as_ref())?;
        encoder.free(journal, requests.len());
        Ok((ws, outcomes))
    };
    reached(shared, work.now_or_never())
}

fn batch_start(shared: &Shared, rows: &SqliteRows<'_>) -> Result<BatchStart, StoreError> {
    let (position, last) = rows.end_of_journal()?;
    let high = Time::from_micros(shared.latest.load(Ordering::SeqCst));
    Ok(BatchStart { floor: last.unwrap_or(Time::MIN).max(high), batch: BatchId(u128::from(position)) })
}

/// What was decided, whose instant time does not go below any more.
fn reached(
    shared: &Shared,
    done: Option<Result<(Workspace, Vec<RequestOutcome>), StoreError>>,
) -> Result<(Workspace, Vec<RequestOutcome>), StoreError> {
    let (ws, outcomes) = done.expect("SQLite never waits within a transaction")?;
    shared.latest.fetch_max(ws.now.micros(), Ordering::SeqCst);
    Ok((ws, outcomes))
}

/// Asks again while others are in the way, a bounded time: not all that is busy is waited for by SQLite itself.
fn retrying<T>(conn: &Connection, ask: impl Fn(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let mut waits = WAITS.iter();
    loop {
        match ask(conn) {
            Err(error) if is_busy(&error) => match waits.next() {
                Some(wait) => thread::sleep(*wait),
                None => return Err(error),
            },
            other => return other,
        }
    }
}

/// What is wrong with which file.
pub(super) fn named(path: &Path, error: rusqlite::Error) -> StoreError {
    match failed(error) {
        StoreError::Unavailable { what, hint, source } => {
            StoreError::Unavailable { what: format!("{what} ({})", path.display()), hint, source }
        }
        other => other,
    }
}

/// Opens a connection that writes what others have committed to where it belongs.
pub(super) fn open_durable(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    configure(&conn)?;
    synced(&conn)?;
    Ok(conn)
}

/// Opens a connection that only reads.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    configure(&conn)?;
    conn.execute_batch("PRAGMA query_only = 1").map_err(failed)?;
    Ok(conn)
}

fn configure(conn: &Connection) -> Result<(), StoreError> {
    conn.set_prepared_statement_cache_capacity(64);
    // A page whose cells do not fit together is damage, not data.
    conn.pragma_update(None, "cell_size_check", true).map_err(failed)?;
    conn.busy_timeout(BUSY_TIMEOUT).map_err(failed)
}

fn synced(conn: &Connection) -> Result<(), StoreError> {
    let pragma = if Mutant::SynchronousOff.on() {
        "PRAGMA synchronous = OFF"
    } else if Mutant::SynchronousNormal.on() {
        "PRAGMA synchronous = NORMAL"
    } else {
        "PRAGMA synchronous = FULL"
    };
    conn.execute_batch(pragma).map_err(failed)
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unscope_cache")
}
