//! Copying the write-ahead log into the database, most of it beside the writer, which would stand still for it otherwise.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::error::failed;
use crate::sqlite::writer::open_durable;

/// Pages in the log before it is copied. A batch can leave two thousand; copying less often copies a page that changes
/// with every batch less often.
const LONG: u32 = 8_192;
/// Pages that the writer copies itself. Only it can bring the copy to the end of the log, so that the log begins anew: while
/// it goes on writing, whoever copies beside it never arrives.
const WRITERS_SHARE: u32 = 2_048;
/// How often the log is copied beside the writer before it does the rest. The last time there is little left, and often
/// nothing is added meanwhile: then SQLite syncs the database, which would keep the writer longer than all the rest.
const PASSES: usize = 4;
/// Where the writer waits for the copy.
const TOO_LONG: u32 = 4 * LONG;

thread_local! {
    /// Pages in the log after the last commit on this thread.
    static LENGTH: Cell<u32> = const { Cell::new(0) };
}

/// What keeps the log of a database short.
pub(super) struct Checkpoints {
    path: PathBuf,
    /// Started when the log is long for the first time.
    copier: Option<Copier>,
    /// How long the log was when it was copied last.
    copied: u32,
    /// How long it must be before that is tried again, where something was in the way.
    again: u32,
}

impl Checkpoints {
    /// Watches the log of the connection that writes.
    pub(super) fn of(conn: &Connection, path: &Path) -> Checkpoints {
        conn.wal_hook(Some(|_, pages| {
            LENGTH.set(pages.unsigned_abs());
            Ok(())
        }));
        Checkpoints { path: path.to_owned(), copier: None, copied: 0, again: 0 }
    }

    /// Sees to the log between two transactions. What cannot be copied, for somebody still reads what was before, or for the
    /// disk is full, stays in the log, where nothing is lost, and is tried again when there is half as much more: to try, SQLite
    /// puts all pages of the log in order.
    pub(super) fn tend(&mut self, conn: &Connection) {
        let length = LENGTH.get();
        // Nothing was committed since it was copied.
        if length == 0 {
            return;
        }
        if length < LONG || length < self.copied {
            (self.copied, self.again) = (0, 0);
            // What was copied of the log that was is nothing of this one.
            self.copier.iter_mut().for_each(|copier| copier.outdated = copier.copying);
        }
        if length < LONG.max(self.again) {
            return;
        }
        if let Some(copier) = &mut self.copier {
            if copier.is_copying(length >= TOO_LONG) {
                return;
            }
            self.copied = self.copied.max(std::mem::take(&mut copier.reached));
        }
        let to_copy = length.saturating_sub(self.copied);
        let mine = length >= TOO_LONG || (self.copied > 0 && to_copy <= WRITERS_SHARE);
        if mine || !self.ask() {
            let left = copy(conn).map_or_else(
                |error| {
                    tracing::warn!(%error, pages = length, "the write-ahead log was not copied");
                    length
                },
                |copied| copied.left,
            );
            // Others may have added something meanwhile.
            self.again = if left <= WRITERS_SHARE { 0 } else { length.saturating_add(length / 2) };
            // The next commit tells how long it is then.
            LENGTH.set(0);
        }
        self.copied = length;
    }

    /// Lets the other thread copy; false when there is none.
    fn ask(&mut self) -> bool {
        if self.copier.is_none() {
            self.copier = Copier::start(self.path.clone());
        }
        self.copier.as_mut().is_some_and(Copier::ask)
    }
}

/// The thread beside the writer's.
struct Copier {
    asks: Option<Sender<()>>,
    /// So many pages were copied in all.
    done: Receiver<u32>,
    copying: bool,
    /// The log has begun anew since it was asked.
    outdated: bool,
    /// So far it came the last time.
    reached: u32,
    thread: Option<JoinHandle<()>>,
}

impl Copier {
    fn start(path: PathBuf) -> Option<Copier> {
        let (asks, asked) = channel::<()>();
        let (tell, done) = channel();
        let run = move || {
            let mut conn = None;
            for () in asked {
                let copied = match &conn {
                    Some(conn) => copy_on(conn),
                    None => open_durable(&path).and_then(|opened| copy_on(conn.insert(opened))),
                };
                let reached = copied.unwrap_or_else(|error| {
                    tracing::warn!(%error, "the write-ahead log was not copied");
                    0
                });
                if tell.send(reached).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("bursar-checkpoint".into()).spawn(run).ok()?;
        Some(Copier { asks: Some(asks), done, copying: false, outdated: false, reached: 0, thread: Some(thread) })
    }

    fn ask(&mut self) -> bool {
        self.copying = self.asks.as_ref().is_some_and(|asks| asks.send(()).is_ok());
        self.copying
    }

    fn is_copying(&mut self, wait: bool) -> bool {
        if self.copying {
            let told = if wait { self.done.recv().map_err(TryRecvError::from) } else { self.done.try_recv() };
            self.copying = told == Err(TryRecvError::Empty);
            if !self.copying {
                self.reached = if std::mem::take(&mut self.outdated) { 0 } else { told.unwrap_or_default() };
            }
        }
        self.copying
    }
}

impl Drop for Copier {
    /// Its connection is closed before the writer's, which copies what is left.
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Pages of the log, of those it had when it was looked at.
struct Copied {
    pages: u32,
    left: u32,
}

/// Copies as much as can be without waiting for anybody.
fn copy(conn: &Connection) -> Result<Copied, StoreError> {
    let count = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let (busy, all, copied) = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], count).map_err(failed)?;
    let pages = |count: i64| u32::try_from(count).unwrap_or(0);
    Ok(Copied { pages: pages(copied), left: if busy == 0 { pages(all - copied) } else { u32::MAX } })
}

/// Copies what is there, and what is added meanwhile, until there is nothing new or nothing more can be copied; says how far it
/// came.
fn copy_on(conn: &Connection) -> Result<u32, StoreError> {
    let mut reached = 0;
    for _ in 0..PASSES {
        let Copied { pages, .. } = copy(conn)?;
        if pages == reached {
            break;
        }
        reached = pages;
    }
    Ok(reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds so many pages to the log, by single commits.
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
    fn who_copies_beside_the_writer_says_how_far_it_came() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let conn = open(&path);
        let _checkpoints = Checkpoints::of(&conn, &path);
        write(&conn, 100);
        let length = LENGTH.get();
        let mut copier = Copier::start(path.clone()).unwrap();
        assert!(copier.ask());
        assert!(!copier.is_copying(true));
        assert_eq!(copier.reached, length);
        // What a reader is kept from seeing is not copied, and not tried for ever. The log began anew with this.
        write(&conn, 10);
        let seen = LENGTH.get();
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        write(&conn, 10);
        assert!(LENGTH.get() > seen && seen < length);
        assert!(copier.ask());
        assert!(!copier.is_copying(true));
        assert_eq!(copier.reached, seen);
    }

    #[test]
    fn what_was_copied_of_the_log_that_was_is_nothing_of_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let conn = open(&path);
        let mut checkpoints = Checkpoints::of(&conn, &path);
        // One that was asked, and has copied all.
        let (asks, asked) = channel();
        let (tell, done) = channel();
        tell.send(LONG + 5).unwrap();
        let copying = Copier { asks: Some(asks), done, copying: true, outdated: false, reached: 0, thread: None };
        (checkpoints.copier, checkpoints.copied) = (Some(copying), LONG + 5);
        LENGTH.set(3);
        checkpoints.tend(&conn);
        LENGTH.set(LONG + 10);
        checkpoints.tend(&conn);
        assert_eq!(asked.try_recv(), Ok(()), "it is asked to copy this one too");
        assert_eq!(checkpoints.copied, LONG + 10);
        // Where it is always a batch behind, the writer ends it some time: the next commit tells how long the log is then.
        tell.send(LONG + 10).unwrap();
        LENGTH.set(TOO_LONG);
        checkpoints.tend(&conn);
        assert_eq!(LENGTH.get(), 0, "the writer has copied the rest");
    }

    #[test]
    fn a_reader_that_stays_is_not_run_against_at_every_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let conn = open(&path);
        let mut checkpoints = Checkpoints::of(&conn, &path);
        // No thread beside it, so that it is known when a copy is over.
        let alone = |checkpoints: &mut Checkpoints| checkpoints.copied = LENGTH.get().saturating_sub(1);
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        write(&conn, LONG);
        alone(&mut checkpoints);
        let length = LENGTH.get();
        checkpoints.tend(&conn);
        assert_eq!((checkpoints.copied, checkpoints.again), (length, length + length / 2), "it was tried, in vain");
        write(&conn, 10);
        checkpoints.tend(&conn);
        assert_eq!(checkpoints.copied, length, "it is not tried again so soon");
        reader.execute_batch("COMMIT").unwrap();
        write(&conn, length / 2);
        assert!(LENGTH.get() >= checkpoints.again);
        alone(&mut checkpoints);
        checkpoints.tend(&conn);
        assert_eq!(checkpoints.again, 0, "all of it was copied");
        write(&conn, 1);
        assert!(LENGTH.get() < LONG, "the log begins anew");
        checkpoints.tend(&conn);
        assert_eq!((checkpoints.copied, checkpoints.again), (0, 0));
    }
}
