//! Backup: copying a database that is in use to a file, and restoring a database from such a copy.
//!
//! A backup uses SQLite's online backup, page by page, within one read transaction. Without that transaction the backup would start
//! over with each commit of another process, and never end under load. With it the copy is one snapshot and no writer waits. The
//! write-ahead log cannot start over before the backup ends, so it grows by what is written meanwhile. `VACUUM INTO` would also give
//! one snapshot, but does more work and renumbers the rows of tables without an integer key.
//!
//! A copy is written to `NAME.part` beside its destination. It is checked and synced before it is renamed, so a file with the final
//! name is complete. A restore checks the copy before it changes anything, and replaces a database only while it holds an exclusive
//! lock on it, so that no other process has it open.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::StoreError;
use crate::sqlite::connection::{open_durable, open_reader};
use crate::sqlite::error::{is_busy, store_error, store_error_at, with_path};
use crate::sqlite::{SqliteStore, schema};
use crate::store::{Health, Maintain, Read as _, Setup};
use crate::verify::Report;

/// Options of a backup or restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// Whether an existing destination is replaced.
    pub replace: bool,
    /// Whether the copy is opened and verified before it gets its final name.
    pub verify: bool,
}

/// The result of a backup or restore.
#[derive(Clone, Debug)]
pub struct Copied {
    /// The size of the copy, in bytes.
    pub bytes: u64,
    /// The health of the copy and the report of its verification; `None` if it was not verified.
    pub checked: Option<(Health, Report)>,
}

/// A callback that gets the bytes copied so far and the bytes in all.
pub type CopyProgress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Pages copied between two calls of the progress callback.
const PAGES_STEP: i32 = 1_024;
/// Bytes of a file copied between two calls of the progress callback.
const BYTES_STEP: usize = 4 << 20;

/// Copies a database, which may be in use, to a file. The copy has everything that was committed before the call. The file gets its
/// name when it is complete, verified if requested, and on the disk.
pub async fn backup(
    database: &Path,
    to: &Path,
    options: CopyOptions,
    setup: Setup,
    progress: CopyProgress,
) -> Result<Copied, StoreError> {
    if !database.is_file() {
        return Err(refused(format!("there is no database at {}", database.display()), "check the path"));
    }
    check_destination(database, to, options)?;
    let part = PartFile::beside(to)?;
    let (from, path) = (database.to_owned(), part.path.clone());
    let copy = move || copy_pages(&from, &path, &progress);
    let bytes = tokio::task::spawn_blocking(copy).await.map_err(|_| StoreError::Closed)??;
    let mut copied = Copied { bytes, checked: None };
    if options.verify {
        copied.checked = Some(check(&part.path, Setup { migrate: false, ..setup }).await?);
    }
    part.publish(to)?;
    Ok(copied)
}

/// Makes a database from a copy, which is only read. A damaged copy is refused before anything is changed. A database is replaced
/// only if no other process has it open.
pub async fn restore(
    copy: &Path,
    database: &Path,
    options: CopyOptions,
    setup: Setup,
    progress: CopyProgress,
) -> Result<Copied, StoreError> {
    if !copy.is_file() {
        return Err(refused(format!("there is no file {}", copy.display()), "check the path"));
    }
    if std::fs::metadata(beside(copy, "-wal")).is_ok_and(|log| log.len() > 0) {
        let what =
            format!("{} has a write-ahead log beside it, so it is a live database and not a backup", copy.display());
        return Err(refused(what, "nothing was changed; copy it with `bursar backup`, and restore the copy"));
    }
    check_destination(copy, database, options)?;
    let logs = ["-wal", "-journal"].map(|end| beside(database, end));
    if !database.exists()
        && !options.replace
        && let Some(log) = logs.iter().find(|log| log.exists())
    {
        let what = format!("{} is the log of a database that no longer exists", log.display());
        return Err(refused(
            what,
            "nothing was changed; SQLite would apply it to the restored database: move it away first",
        ));
    }
    let part = PartFile::beside(database)?;
    let (from, path) = (copy.to_owned(), part.path.clone());
    let copied = move || copy_file(&from, &path, &progress).and_then(|bytes| check_file(&from, &path).map(|()| bytes));
    let bytes = tokio::task::spawn_blocking(copied).await.map_err(|_| StoreError::Closed)??;
    let mut copied = Copied { bytes, checked: None };
    if options.verify {
        let checked = check(&part.path, Setup { migrate: true, ..setup }).await;
        copied.checked = Some(checked.map_err(|error| damaged(copy, &reason(&error)))?);
    }
    // Held until the new file has replaced the old one, so that no process opens the old one meanwhile.
    let exclusive = if database.exists() { Some(lock_exclusively(database)?) } else { None };
    for log in logs.iter().filter(|log| exclusive.is_none() && log.exists()) {
        std::fs::remove_file(log).map_err(|error| unwritable(log, error))?;
    }
    part.publish(database)?;
    drop(exclusive);
    Ok(copied)
}

/// Refuses to copy a file onto itself, or onto an existing file unless it is to be replaced.
fn check_destination(from: &Path, to: &Path, options: CopyOptions) -> Result<(), StoreError> {
    if !to.exists() {
        return Ok(());
    }
    if std::fs::canonicalize(from).is_ok_and(|from| std::fs::canonicalize(to).is_ok_and(|to| to == from)) {
        return Err(refused(
            format!("{} and {} are the same file", from.display(), to.display()),
            "nothing was changed; name another file",
        ));
    }
    match options.replace {
        true => Ok(()),
        false => Err(refused(
            format!("{} already exists", to.display()),
            "nothing was changed; name another file, or pass --force",
        )),
    }
}

fn copy_pages(from: &Path, to: &Path, progress: &CopyProgress) -> Result<u64, StoreError> {
    // A copy needs no permission to write the source.
    let readable = |conn: Connection| {
        let read = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
        read.map(|()| conn).map_err(store_error)
    };
    let source = open_reader(from, false).and_then(readable).or_else(|_| open_reader(from, true));
    let source = source.map_err(|error| with_path(from, error))?;
    source.execute_batch("BEGIN").map_err(store_error)?;
    // The first read pins the snapshot.
    match schema::version(&source).map_err(|error| with_path(from, error))? {
        0 => return Err(refused(format!("{} has no Bursar tables", from.display()), "check the path")),
        found if found > schema::KNOWN => return Err(StoreError::NewerSchema { found, known: schema::KNOWN }),
        _ => {}
    }
    let page: i64 = source.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(store_error)?;
    let bytes = |pages: i32| u64::from(pages.unsigned_abs()) * page.unsigned_abs();
    let mut target = Connection::open(to).map_err(|error| store_error_at(to, error))?;
    // An incomplete copy is deleted, and a complete one is synced at the end.
    target.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;").map_err(store_error)?;
    let copy = Backup::new(&source, &mut target).map_err(store_error)?;
    loop {
        let step = copy.step(PAGES_STEP).map_err(|error| store_error_at(to, error))?;
        let pages = copy.progress();
        progress(bytes(pages.pagecount - pages.remaining), bytes(pages.pagecount));
        match step {
            StepResult::Done => return Ok(bytes(pages.pagecount)),
            StepResult::More => {}
            _ => return Err(StoreError::Busy(format!("{} is locked by another process", from.display()))),
        }
    }
}

fn copy_file(from: &Path, to: &Path, progress: &CopyProgress) -> Result<u64, StoreError> {
    let unreadable =
        |error: io::Error| refused_by(&format!("{} cannot be read", from.display()), "check the file", error);
    let mut source = File::open(from).map_err(unreadable)?;
    let total = source.metadata().map_err(unreadable)?.len();
    let mut target = OpenOptions::new().write(true).open(to).map_err(|error| unwritable(to, error))?;
    let (mut buffer, mut done) = (vec![0; BYTES_STEP], 0);
    loop {
        let read = source.read(&mut buffer).map_err(unreadable)?;
        if read == 0 {
            return Ok(done);
        }
        target.write_all(&buffer[..read]).map_err(|error| unwritable(to, error))?;
        done += read as u64;
        progress(done, total);
    }
}

/// Refuses a copied file that is damaged, cut off, or not a database of Bursar. The error names the copy it was made from.
fn check_file(copy: &Path, path: &Path) -> Result<(), StoreError> {
    let damaged = |reason: &str| damaged(copy, reason);
    let conn = open_durable(path).map_err(|error| damaged(&reason(&error)))?;
    let result: Result<String, _> = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0));
    match result {
        Ok(result) if result == "ok" => {}
        Ok(problem) => return Err(damaged(&problem)),
        Err(error) => return Err(damaged(&error.to_string())),
    }
    // The integrity check does not notice that the end of the last page is missing.
    let pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
    let bytes: i64 = conn.query_row(pages, [], |row| row.get(0)).map_err(|error| damaged(&error.to_string()))?;
    if std::fs::metadata(path).is_ok_and(|file| file.len() != bytes.unsigned_abs()) {
        return Err(damaged("it is truncated"));
    }
    match schema::version(&conn).map_err(|error| damaged(&reason(&error)))? {
        0 => Err(damaged("it has no Bursar tables")),
        found if found > schema::KNOWN => Err(StoreError::NewerSchema { found, known: schema::KNOWN }),
        _ => Ok(()),
    }
}

fn damaged(copy: &Path, reason: &str) -> StoreError {
    let what = format!("{} is damaged or is not a backup: {reason}", copy.display());
    refused(what, "nothing was changed; use another backup")
}

/// The journal rows read at once.
const PAGE: usize = 500;

/// Opens a copy, reads its whole journal and verifies its balances.
async fn check(path: &Path, setup: Setup) -> Result<(Health, Report), StoreError> {
    let store = SqliteStore::open(path, setup).await?;
    let checked = async {
        let mut after = 0;
        // All other tables can be rebuilt from the journal, so every row of it must be readable.
        while let Some(last) = store.list_journal(after, PAGE).await?.pop() {
            after = last.position + last.batch.count() as u64 - 1;
        }
        Ok((store.health().await?, store.verify().await?))
    };
    let checked: Result<(Health, Report), StoreError> = checked.await;
    store.close().await;
    let (health, report) = checked?;
    if let Some(violation) = report.violations.first() {
        let count = report.violations.len();
        let what = format!("the copy failed verification: {violation}, and {} more", count - 1);
        return Err(refused(what, "nothing was changed; check the original with `bursar doctor`"));
    }
    Ok((health, report))
}

/// Opens a database that no other process has open, and keeps others from opening it until the connection is dropped.
fn lock_exclusively(database: &Path) -> Result<Connection, StoreError> {
    let cannot_lock = |reason: &str| {
        let shown = database.display();
        let what = format!("{shown} cannot be locked ({reason}), so another process may be using it");
        refused(
            what,
            "nothing was changed; stop all processes that use it, move it and its -wal and -shm files away, and retry",
        )
    };
    let conn = open_durable(database).map_err(|error| cannot_lock(&reason(&error)))?;
    match conn.execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE") {
        Ok(()) => Ok(conn),
        Err(error) if is_busy(&error) => {
            Err(StoreError::Busy(format!("{} is in use: stop every process that has it open", database.display())))
        }
        Err(error) => Err(cannot_lock(&error.to_string())),
    }
}

/// An incomplete copy beside its destination. It is deleted unless it is renamed to the destination.
struct PartFile {
    path: PathBuf,
    /// Locked, so that two processes do not write the same copy. It must be closed after all connections to the file, because closing
    /// it releases their POSIX locks.
    file: File,
    published: bool,
}

impl PartFile {
    fn beside(to: &Path) -> Result<PartFile, StoreError> {
        let path = beside(to, ".part");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| unwritable(&path, error))?;
        if file.try_lock().is_err() {
            return Err(StoreError::Busy(format!("another process is writing {}", path.display())));
        }
        let part = PartFile { path, file, published: false };
        // A process that was killed may have left an incomplete copy.
        part.file.set_len(0).map_err(|error| unwritable(&part.path, error))?;
        part.remove_companions();
        Ok(part)
    }

    /// Syncs the file, renames it to its destination and syncs the folder.
    fn publish(mut self, to: &Path) -> Result<(), StoreError> {
        self.remove_companions();
        self.file.sync_all().map_err(|error| unwritable(&self.path, error))?;
        std::fs::rename(&self.path, to).map_err(|error| unwritable(to, error))?;
        self.published = true;
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = File::open(folder).and_then(|folder| folder.sync_all());
        folder.map_err(|error| unwritable(to, error))
    }

    /// Removes the files that SQLite and Bursar create beside a database.
    fn remove_companions(&self) {
        for end in ["-wal", "-shm", "-journal", "-gate", "-turn"] {
            let _ = std::fs::remove_file(beside(&self.path, end));
        }
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.published {
            self.remove_companions();
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

fn refused(what: String, hint: &'static str) -> StoreError {
    StoreError::Unavailable { what, hint, permanent: true, source: None }
}

fn refused_by(what: &str, hint: &'static str, error: io::Error) -> StoreError {
    StoreError::Unavailable { what: format!("{what} ({error})"), hint, permanent: true, source: Some(Box::new(error)) }
}

fn unwritable(path: &Path, error: io::Error) -> StoreError {
    refused_by(
        &format!("{} cannot be written", path.display()),
        "check the folder, its permissions and the disk",
        error,
    )
}

/// Returns SQLite's own message if there is one.
fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable { source: Some(source), .. } => source.to_string(),
        other => other.to_string(),
    }
}
