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
        if length < LONG || length < self.copied {
            (self.copied, self.again) = (0, 0);
        }
        if length < LONG.max(self.again) {
            return;
        }
        let copying = self.copier.as_mut().is_some_and(|copier| copier.is_copying(length >= TOO_LONG));
        if copying {
            return;
        }
        let to_copy = length.saturating_sub(self.copied);
        let mine = self.copied > 0 && to_copy <= WRITERS_SHARE;
        if mine || !self.ask() {
            let whole = copy(conn).unwrap_or_else(|error| {
                tracing::warn!(%error, pages = length, "the write-ahead log was not copied");
                false
            });
            self.again = if whole { 0 } else { length.saturating_add(length / 2) };
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
    done: Receiver<()>,
    copying: bool,
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
                    Some(conn) => copy(conn),
                    None => open_durable(&path).and_then(|opened| copy(conn.insert(opened))),
                };
                if let Err(error) = copied {
                    tracing::warn!(%error, "the write-ahead log was not copied");
                }
                if tell.send(()).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("bursar-checkpoint".into()).spawn(run).ok()?;
        Some(Copier { asks: Some(asks), done, copying: false, thread: Some(thread) })
    }

    fn ask(&mut self) -> bool {
        self.copying = self.asks.as_ref().is_some_and(|asks| asks.send(()).is_ok());
        self.copying
    }

    fn is_copying(&mut self, wait: bool) -> bool {
        if self.copying {
            self.copying = match wait {
                true => self.done.recv().is_err(),
                false => self.done.try_recv() == Err(TryRecvError::Empty),
            };
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

/// Copies as much as can be without waiting for anybody; says whether that is all, but for what others may have added meanwhile.
fn copy(conn: &Connection) -> Result<bool, StoreError> {
    let count = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let (busy, pages, copied) = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], count).map_err(failed)?;
    Ok(busy == 0 && pages - copied <= i64::from(WRITERS_SHARE))
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

    #[test]
    fn a_reader_that_stays_is_not_run_against_at_every_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let conn = Connection::open(&path).unwrap();
        let set = "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0;
            CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB)";
        conn.execute_batch(set).unwrap();
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
