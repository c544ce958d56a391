//! How connections to a database file are opened and configured, and how long they wait for locks.

use std::path::Path;
use std::thread;

use bursar_core::mutant::Mutant;
use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;
use crate::sqlite::error::{is_busy, store_error, store_error_at};
use crate::sqlite::process_lock::{BUSY_TIMEOUT, WAITS};

/// Opens the connection of the writer. With `create`, a missing file is created.
pub(super) fn open_writer(path: &Path, create: bool) -> Result<Connection, StoreError> {
    let conn = open(path, create).map_err(|error| store_error_at(path, error))?;
    configure(&conn)?;
    // The first read fails if the file is not a database.
    let read = |conn: &Connection| conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    retry_busy(&conn, read).map_err(|error| store_error_at(path, error))?;
    Ok(conn)
}

/// Opens a connection whose writes are synced to the disk, for checkpoints, backups and restores.
pub(super) fn open_durable(path: &Path) -> Result<Connection, StoreError> {
    let conn = open(path, false).map_err(store_error)?;
    configure(&conn)?;
    sync_commits(&conn)?;
    Ok(conn)
}

/// Opens a connection that only reads. With `read_only`, it needs no permission to write.
pub(super) fn open_reader(path: &Path, read_only: bool) -> Result<Connection, StoreError> {
    let conn = if read_only { open_read_only(path)? } else { open(path, false).map_err(store_error)? };
    configure(&conn)?;
    conn.execute_batch("PRAGMA query_only = 1").map_err(store_error)?;
    Ok(conn)
}

/// Opens a file that this user may not write. Without permission to write the folder, SQLite cannot create the write-ahead log and its
/// index. If they are missing, everything is in the file itself, which is then read as it is.
pub(super) fn open_read_only(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read = |conn: Connection| {
        conn.busy_timeout(BUSY_TIMEOUT)?;
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(conn)
    };
    let opened = Connection::open_with_flags(path, flags).and_then(read);
    let log = path.with_file_name(format!("{}-wal", path.file_name().unwrap_or_default().display()));
    let opened = match opened {
        Err(_) if std::fs::metadata(&log).map_or(true, |log| log.len() == 0) => {
            Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI).and_then(read)
        }
        opened => opened,
    };
    opened.map_err(|error| store_error_at(path, error))
}

/// Returns the URI of a file that no process changes while it is open.
fn immutable_uri(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let escaped = path.display().to_string().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file://{escaped}?immutable=1")
}

fn open(path: &Path, create: bool) -> rusqlite::Result<Connection> {
    let create = if create { OpenFlags::SQLITE_OPEN_CREATE } else { OpenFlags::empty() };
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create)
}

/// Sets what every connection has in common.
pub(super) fn configure(conn: &Connection) -> Result<(), StoreError> {
    conn.set_prepared_statement_cache_capacity(64);
    // SQLite then reports a page with overlapping cells as damaged instead of reading it.
    conn.pragma_update(None, "cell_size_check", true).map_err(store_error)?;
    // Deleted bytes, also those of payloads that are erased, would stay in free space of the file until something else is written there.
    conn.query_row("PRAGMA secure_delete = ON", [], |_| Ok(())).map_err(store_error)?;
    conn.busy_timeout(BUSY_TIMEOUT).map_err(store_error)
}

/// Makes every commit of a connection wait until it is on the disk.
pub(super) fn sync_commits(conn: &Connection) -> Result<(), StoreError> {
    let pragma = if Mutant::SynchronousOff.on() {
        "PRAGMA synchronous = OFF"
    } else if Mutant::SynchronousNormal.on() {
        "PRAGMA synchronous = NORMAL"
    } else {
        "PRAGMA synchronous = FULL"
    };
    conn.execute_batch(pragma).map_err(store_error)
}

/// Retries while another connection holds the lock, a bounded number of times. SQLite's own timeout does not cover every case of
/// `SQLITE_BUSY`.
pub(super) fn retry_busy<T>(
    conn: &Connection,
    attempt: impl Fn(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let mut waits = WAITS.iter();
    loop {
        match attempt(conn) {
            Err(error) if is_busy(&error) => match waits.next() {
                Some(wait) => thread::sleep(*wait),
                None => return Err(error),
            },
            other => return other,
        }
    }
}
