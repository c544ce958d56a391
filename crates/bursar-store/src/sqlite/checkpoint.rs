//! Checkpoints: copying the write-ahead log into the database file.
//!
//! SQLite's automatic checkpoint runs in the commit that makes the log too long, and syncs the database file there. The writer thread
//! would be blocked for that time, so checkpoints mostly run on a thread with a connection of its own:
//!
//! 1. When the log reaches [`START_PAGES`], the checkpoint thread copies it, and then what the writer has added meanwhile, up to
//!    [`ROUNDS_MAX`] times.
//! 2. As long as the writer adds pages, the thread hardly ever reaches the end of the log, and only a log that is copied to its end is
//!    reused from its start. The writer thread copies the last pages itself once they are at most [`WRITER_PAGES_MAX`].
//! 3. At [`WAIT_PAGES`] the writer thread waits for the checkpoint thread and copies the rest, however much it is. This bounds the log.
//!
//! A reader with an old snapshot, or a full disk, can keep pages from being copied. They stay in the log, where they are durable. The
//! next attempt follows when the log is half as long again, because each attempt makes SQLite sort all pages of the log.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::connection::open_durable;
use crate::sqlite::error::store_error;

/// The pages in the log at which a checkpoint starts. One batch can add two thousand. A longer log means that a page that changes
/// with every batch is copied less often.
const START_PAGES: u32 = 8_192;
/// The most pages that the writer thread copies itself while the log is shorter than [`WAIT_PAGES`].
const WRITER_PAGES_MAX: u32 = 2_048;
/// How often the checkpoint thread copies what was added since its last round. In the last round there is little left and often
/// nothing is added meanwhile, so that SQLite syncs the database file there and not on the writer thread.
const ROUNDS_MAX: usize = 4;
/// The pages in the log at which the writer thread waits for the checkpoint thread.
const WAIT_PAGES: u32 = 4 * START_PAGES;

thread_local! {
    /// The pages in the log after the last commit on this thread; 0 after the writer has run a checkpoint.
    static LOG_PAGES: Cell<u32> = const { Cell::new(0) };
}

/// Keeps the write-ahead log of a database short.
pub(super) struct Checkpoints {
    path: PathBuf,
    /// Started when the log is long enough for the first time.
    thread: Option<CheckpointThread>,
    /// The page of the log up to which it has been copied, or is to be copied by the checkpoint that runs.
    copied: u32,
    /// After an attempt that could not copy everything: the length of the log, in pages, at which the next one starts. Otherwise 0.
    retry_at: u32,
}

impl Checkpoints {
    /// Replaces SQLite's automatic checkpoint on the writing connection.
    pub(super) fn new(conn: &Connection, path: &Path) -> Checkpoints {
        conn.wal_hook(Some(|_, pages| {
            LOG_PAGES.set(pages.unsigned_abs());
            Ok(())
        }));
        Checkpoints { path: path.to_owned(), thread: None, copied: 0, retry_at: 0 }
    }

    /// Starts, continues or finishes a checkpoint if the log is long enough. Called between two transactions.
    pub(super) fn run(&mut self, conn: &Connection) {
        let length = LOG_PAGES.get();
        // Nothing was committed since the writer's last checkpoint.
        if length == 0 {
            return;
        }
        if length < START_PAGES || length < self.copied {
            // The log was started over. The result of a checkpoint that still runs refers to the previous log.
            (self.copied, self.retry_at) = (0, 0);
            self.thread.iter_mut().for_each(|thread| thread.outdated = thread.running);
        }
        if length < START_PAGES.max(self.retry_at) {
            return;
        }
        if let Some(thread) = &mut self.thread {
            if thread.is_running(length >= WAIT_PAGES) {
                return;
            }
            self.copied = self.copied.max(std::mem::take(&mut thread.copied));
        }
        let to_copy = length.saturating_sub(self.copied);
        let by_writer = length >= WAIT_PAGES || (self.copied > 0 && to_copy <= WRITER_PAGES_MAX);
        if by_writer || !self.start_on_thread() {
            let left = checkpoint(conn).map_or_else(
                |error| {
                    tracing::warn!(%error, pages = length, "checkpoint failed, retrying when the log is longer");
                    length
                },
                |progress| progress.left,
            );
            // Other processes may have added a few pages meanwhile.
            self.retry_at = if left <= WRITER_PAGES_MAX { 0 } else { length.saturating_add(length / 2) };
            // The next commit sets the new length.
            LOG_PAGES.set(0);
        }
        self.copied = length;
    }

    /// Starts a checkpoint on the checkpoint thread. Returns false if the thread cannot be started.
    fn start_on_thread(&mut self) -> bool {
        if self.thread.is_none() {
            self.thread = CheckpointThread::start(self.path.clone());
        }
        self.thread.as_mut().is_some_and(CheckpointThread::start_checkpoint)
    }
}

/// A thread that runs checkpoints on a connection of its own.
struct CheckpointThread {
    requests: Option<Sender<()>>,
    /// For each request, the pages of the log that are copied.
    results: Receiver<u32>,
    running: bool,
    /// Whether the log was started over since the checkpoint that runs was requested.
    outdated: bool,
    /// The pages of the log that the last checkpoint has copied.
    copied: u32,
    thread: Option<JoinHandle<()>>,
}

impl CheckpointThread {
    fn start(path: PathBuf) -> Option<CheckpointThread> {
        let (requests, received) = channel::<()>();
        let (sender, results) = channel();
        let run = move || {
            let mut conn = None;
            for () in received {
                let copied = match &conn {
                    Some(conn) => checkpoint_in_rounds(conn),
                    None => open_durable(&path).and_then(|opened| checkpoint_in_rounds(conn.insert(opened))),
                };
                let copied = copied.unwrap_or_else(|error| {
                    tracing::warn!(%error, "checkpoint failed, retrying");
                    0
                });
                if sender.send(copied).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("bursar-checkpoint".into()).spawn(run).ok()?;
        let (requests, thread) = (Some(requests), Some(thread));
        Some(CheckpointThread { requests, results, running: false, outdated: false, copied: 0, thread })
    }

    fn start_checkpoint(&mut self) -> bool {
        self.running = self.requests.as_ref().is_some_and(|requests| requests.send(()).is_ok());
        self.running
    }

    /// Returns whether a checkpoint still runs. If `wait`, waits for its end first. Sets `copied` when it has ended.
    fn is_running(&mut self, wait: bool) -> bool {
        if self.running {
            let result = if wait { self.results.recv().map_err(TryRecvError::from) } else { self.results.try_recv() };
            self.running = result == Err(TryRecvError::Empty);
            if !self.running {
                self.copied = if std::mem::take(&mut self.outdated) { 0 } else { result.unwrap_or_default() };
            }
        }
        self.running
    }
}

impl Drop for CheckpointThread {
    /// Waits for the thread. Its connection must close before the writer's, whose close copies the rest of the log.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The pages of the log at the start of a checkpoint.
struct Progress {
    copied: u32,
    left: u32,
}

/// Copies what can be copied without waiting for readers or writers.
fn checkpoint(conn: &Connection) -> Result<Progress, StoreError> {
    let count = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let (busy, all, copied) = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], count).map_err(store_error)?;
    let pages = |count: i64| u32::try_from(count).unwrap_or(0);
    Ok(Progress { copied: pages(copied), left: if busy == 0 { pages(all - copied) } else { u32::MAX } })
}

/// Runs checkpoints until one copies nothing new, up to [`ROUNDS_MAX`]. Returns the pages of the log that are copied.
fn checkpoint_in_rounds(conn: &Connection) -> Result<u32, StoreError> {
    let mut copied = 0;
    for _ in 0..ROUNDS_MAX {
        let progress = checkpoint(conn)?;
        if progress.copied == copied {
            break;
        }
        copied = progress.copied;
    }
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds pages to the log, one commit each.
    fn write(conn: &Connection, pages: u32) {
        for _ in 0..pages {
            conn.execute_batch("INSERT INTO t (x) VALUES (randomblob(3500))").unwrap();
        }
    }

    fn open(path: &Path) -> Connection {
        let conn = Connection::open(path).unwrap();
        let set = "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0;
            CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB)";
        conn.execute_batch(set).unwrap();
        conn
    }

    #[test]
    fn the_checkpoint_thread_reports_how_many_pages_it_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let conn = open(&path);
        let _checkpoints = Checkpoints::new(&conn, &path);
        write(&conn, 100);
        let length = LOG_PAGES.get();
        let mut thread = CheckpointThread::start(path.clone()).unwrap();
        assert!(thread.start_checkpoint());
        assert!(!thread.is_running(true));
        assert_eq!(thread.copied, length);
        // The log starts over. Pages after a reader's snapshot cannot be copied, and the thread does not try forever.
        write(&conn, 10);
        let snapshot = LOG_PAGES.get();
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        write(&conn, 10);
        assert!(LOG_PAGES.get() > snapshot && snapshot < length);
        assert!(thread.start_checkpoint());
        assert!(!thread.is_running(true));
        assert_eq!(thread.copied, snapshot);
    }

    #[test]
    fn a_checkpoint_of_the_previous_log_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let conn = open(&path);
        let mut checkpoints = Checkpoints::new(&conn, &path);
        // A checkpoint that was requested and has copied everything.
        let (requests, received) = channel();
        let (sender, results) = channel();
        sender.send(START_PAGES + 5).unwrap();
        let requests = Some(requests);
        let thread = CheckpointThread { requests, results, running: true, outdated: false, copied: 0, thread: None };
        (checkpoints.thread, checkpoints.copied) = (Some(thread), START_PAGES + 5);
        LOG_PAGES.set(3);
        checkpoints.run(&conn);
        LOG_PAGES.set(START_PAGES + 10);
        checkpoints.run(&conn);
        assert_eq!(received.try_recv(), Ok(()), "a checkpoint of the new log is requested");
        assert_eq!(checkpoints.copied, START_PAGES + 10);
        // If the thread is always one batch behind, the writer finishes the checkpoint at `WAIT_PAGES`.
        sender.send(START_PAGES + 10).unwrap();
        LOG_PAGES.set(WAIT_PAGES);
        checkpoints.run(&conn);
        assert_eq!(LOG_PAGES.get(), 0, "the writer has copied the rest");
    }

    #[test]
    fn a_checkpoint_blocked_by_a_reader_is_not_retried_at_every_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let conn = open(&path);
        let mut checkpoints = Checkpoints::new(&conn, &path);
        // The writer runs the checkpoint itself, so that the test knows when it has ended.
        let by_writer = |checkpoints: &mut Checkpoints| checkpoints.copied = LOG_PAGES.get().saturating_sub(1);
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        write(&conn, START_PAGES);
        by_writer(&mut checkpoints);
        let length = LOG_PAGES.get();
        checkpoints.run(&conn);
        assert_eq!((checkpoints.copied, checkpoints.retry_at), (length, length + length / 2), "one attempt failed");
        write(&conn, 10);
        checkpoints.run(&conn);
        assert_eq!(checkpoints.copied, length, "no second attempt yet");
        reader.execute_batch("COMMIT").unwrap();
        write(&conn, length / 2);
        assert!(LOG_PAGES.get() >= checkpoints.retry_at);
        by_writer(&mut checkpoints);
        checkpoints.run(&conn);
        assert_eq!(checkpoints.retry_at, 0, "everything was copied");
        write(&conn, 1);
        assert!(LOG_PAGES.get() < START_PAGES, "the log starts over");
        checkpoints.run(&conn);
        assert_eq!((checkpoints.copied, checkpoints.retry_at), (0, 0));
    }
}
