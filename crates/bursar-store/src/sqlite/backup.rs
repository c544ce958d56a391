//! A copy of a database that is in use, and the way back.
//!
//! The copy is SQLite's online backup, page by page, within one read transaction. Without that transaction each commit of another
//! process would make it start over, for ever under load. With it the writer waits for nobody; only the log cannot begin
//! anew before the copy is done, so that it grows by what is written meanwhile. `VACUUM INTO` would do the same with more work, and
//! give rows of tables without a key of their own new numbers.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::StoreError;
use crate::sqlite::error::failed;
use crate::sqlite::writer::{is_busy, named, open_durable, open_reader};
use crate::sqlite::{SqliteStore, schema};
use crate::store::{Health, Maintain, Read as _, Setup};
use crate::verify::Report;

/// How a copy is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// What is there already is replaced.
    pub replace: bool,
    /// The copy is opened, and its books are checked, before it gets its name.
    pub verify: bool,
}

/// What was copied.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Bytes of the copy.
    pub bytes: u64,
    /// How the copy is, and what its books say, where they were checked.
    pub checked: Option<(Health, Report)>,
}

/// Is told how many bytes of how many have been copied.
pub type CopyProgress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Pages that are copied between two reports.
const PAGES_STEP: i32 = 1_024;
/// Bytes of a file that are copied between two reports.
const BYTES_STEP: usize = 4 << 20;

/// Copies a database, which may be in use, to a file. Everything that was committed before is in it. The file has its name only when
/// it is whole, checked and on the disk.
pub async fn backup(
    database: &Path,
    to: &Path,
    how: CopyOptions,
    setup: Setup,
    progress: CopyProgress,
) -> Result<Copied, StoreError> {
    if !database.is_file() {
        return Err(refused(format!("there is no database at {}", database.display()), "check the path"));
    }
    free(database, to, how)?;
    let part = Part::beside(to)?;
    let (from, path) = (database.to_owned(), part.path.clone());
    let copy = move || copy_pages(&from, &path, &progress);
    let bytes = tokio::task::spawn_blocking(copy).await.map_err(|_| StoreError::Closed)??;
    let mut copied = Copied { bytes, checked: None };
    if how.verify {
        copied.checked = Some(check(&part.path, Setup { migrate: false, ..setup }).await?);
    }
    part.publish(to)?;
    Ok(copied)
}

/// Makes a database from a copy, which is only read. What is wrong with the copy is found before anything has changed; a database
/// that is replaced must be used by nobody.
pub async fn restore(
    copy: &Path,
    database: &Path,
    how: CopyOptions,
    setup: Setup,
    progress: CopyProgress,
) -> Result<Copied, StoreError> {
    if !copy.is_file() {
        return Err(refused(format!("there is no file {}", copy.display()), "check the path"));
    }
    if std::fs::metadata(beside(copy, "-wal")).is_ok_and(|log| log.len() > 0) {
        let what = format!("{} has a write-ahead log beside it: it is a database in use and no copy", copy.display());
        return Err(refused(what, "make a copy of it with `bursar backup`"));
    }
    free(copy, database, how)?;
    let logs = ["-wal", "-journal"].map(|end| beside(database, end));
    if !database.exists()
        && !how.replace
        && let Some(log) = logs.iter().find(|log| log.exists())
    {
        let what = format!("{} is left of a database that is gone", log.display());
        return Err(refused(what, "it would be taken for a part of the restored one: move it away first"));
    }
    let part = Part::beside(database)?;
    let (from, path) = (copy.to_owned(), part.path.clone());
    let copied = move || copy_file(&from, &path, &progress).and_then(|bytes| whole(&from, &path).map(|()| bytes));
    let bytes = tokio::task::spawn_blocking(copied).await.map_err(|_| StoreError::Closed)??;
    let mut copied = Copied { bytes, checked: None };
    if how.verify {
        let checked = check(&part.path, Setup { migrate: true, ..setup }).await;
        copied.checked = Some(checked.map_err(|error| damaged(copy, &words(&error)))?);
    }
    // Held until the new file is in its place, so that nobody opens the old one meanwhile.
    let held = if database.exists() { Some(alone(database)?) } else { None };
    for log in logs.iter().filter(|log| held.is_none() && log.exists()) {
        std::fs::remove_file(log).map_err(|error| unwritable(log, error))?;
    }
    part.publish(database)?;
    drop(held);
    Ok(copied)
}

/// Refuses to copy something onto itself, or onto what is there.
fn free(from: &Path, to: &Path, how: CopyOptions) -> Result<(), StoreError> {
    if !to.exists() {
        return Ok(());
    }
    if std::fs::canonicalize(from).is_ok_and(|from| std::fs::canonicalize(to).is_ok_and(|to| to == from)) {
        return Err(refused(format!("{} and {} are one file", from.display(), to.display()), "name another"));
    }
    match how.replace {
        true => Ok(()),
        false => Err(refused(format!("{} is there already", to.display()), "name another, or say --force")),
    }
}

fn copy_pages(from: &Path, to: &Path, progress: &CopyProgress) -> Result<u64, StoreError> {
    let source = open_reader(from).map_err(|error| of(from, error))?;
    source.execute_batch("BEGIN").map_err(failed)?;
    // The first read pins the snapshot.
    match schema::version(&source).map_err(|error| of(from, error))? {
        0 => return Err(refused(format!("{} has no tables of Bursar's", from.display()), "check the path")),
        found if found > schema::KNOWN => return Err(StoreError::NewerSchema { found, known: schema::KNOWN }),
        _ => {}
    }
    let page: i64 = source.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(failed)?;
    let bytes = |pages: i32| u64::from(pages.unsigned_abs()) * page.unsigned_abs();
    let mut target = Connection::open(to).map_err(|error| named(to, error))?;
    // It is thrown away unless it becomes whole, and synced as a whole then.
    target.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;").map_err(failed)?;
    let copy = Backup::new(&source, &mut target).map_err(failed)?;
    loop {
        let step = copy.step(PAGES_STEP).map_err(|error| named(to, error))?;
        let told = copy.progress();
        progress(bytes(told.pagecount - told.remaining), bytes(told.pagecount));
        match step {
            StepResult::Done => return Ok(bytes(told.pagecount)),
            StepResult::More => {}
            _ => return Err(StoreError::Busy(format!("{} is locked by another program", from.display()))),
        }
    }
}

fn copy_file(from: &Path, to: &Path, progress: &CopyProgress) -> Result<u64, StoreError> {
    let unread = |error: io::Error| refused_by(&format!("{} cannot be read", from.display()), "check the file", error);
    let mut source = File::open(from).map_err(unread)?;
    let total = source.metadata().map_err(unread)?.len();
    let mut target = OpenOptions::new().write(true).open(to).map_err(|error| unwritable(to, error))?;
    let (mut buffer, mut done) = (vec![0; BYTES_STEP], 0);
    loop {
        let read = source.read(&mut buffer).map_err(unread)?;
        if read == 0 {
            return Ok(done);
        }
        target.write_all(&buffer[..read]).map_err(|error| unwritable(to, error))?;
        done += read as u64;
        progress(done, total);
    }
}

/// Refuses a file that is damaged, cut off, or not Bursar's.
fn whole(copy: &Path, path: &Path) -> Result<(), StoreError> {
    let damaged = |said: &str| damaged(copy, said);
    let conn = open_durable(path).map_err(|error| damaged(&words(&error)))?;
    let said: Result<String, _> = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0));
    match said {
        Ok(said) if said == "ok" => {}
        Ok(said) => return Err(damaged(&said)),
        Err(error) => return Err(damaged(&error.to_string())),
    }
    // Nobody checks the end of the last page.
    let pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
    let bytes: i64 = conn.query_row(pages, [], |row| row.get(0)).map_err(|error| damaged(&error.to_string()))?;
    if std::fs::metadata(path).is_ok_and(|file| file.len() != bytes.unsigned_abs()) {
        return Err(damaged("it was cut off"));
    }
    match schema::version(&conn).map_err(|error| damaged(&words(&error)))? {
        0 => Err(damaged("it has no tables of Bursar's")),
        found if found > schema::KNOWN => Err(StoreError::NewerSchema { found, known: schema::KNOWN }),
        _ => Ok(()),
    }
}

fn damaged(copy: &Path, said: &str) -> StoreError {
    let what = format!("{} is damaged, or no copy of a database: {said}", copy.display());
    refused(what, "use another backup: nothing was changed")
}

/// Rows of the journal that are read at once.
const PAGE: usize = 500;

/// Opens a copy, reads its journal and checks its books.
async fn check(path: &Path, setup: Setup) -> Result<(Health, Report), StoreError> {
    let store = SqliteStore::open(path, setup).await?;
    let checked = async {
        let mut after = 0;
        // Everything else can be made anew from it, so that it must be readable to the last row.
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
        let what = format!("the copy does not verify: {violation}, and {} more", count - 1);
        return Err(refused(what, "look at the original with `bursar doctor`"));
    }
    Ok((health, report))
}

/// The only connection to a database, which keeps everybody else out until it is dropped.
fn alone(database: &Path) -> Result<Connection, StoreError> {
    let unlocked = |said: &str| {
        let shown = database.display();
        let what = format!("{shown} cannot be locked ({said}), so that it is not known whether somebody uses it");
        refused(what, "end whoever uses it, move it with its -wal and -shm files away, and restore again")
    };
    let conn = open_durable(database).map_err(|error| unlocked(&words(&error)))?;
    match conn.execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE") {
        Ok(()) => Ok(conn),
        Err(error) if is_busy(&error) => {
            Err(StoreError::Busy(format!("{} is in use: end every process that has it open", database.display())))
        }
        Err(error) => Err(unlocked(&error.to_string())),
    }
}

/// A file that is being made beside the one it is to become. It is removed unless it gets that name.
struct Part {
    path: PathBuf,
    /// Whoever makes the same file has it locked. It is closed after every connection to the file: closing it would free
    /// their locks.
    file: File,
    published: bool,
}

impl Part {
    fn beside(to: &Path) -> Result<Part, StoreError> {
        let path = beside(to, ".part");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| unwritable(&path, error))?;
        if file.try_lock().is_err() {
            return Err(StoreError::Busy(format!("another process is writing {}", path.display())));
        }
        let part = Part { path, file, published: false };
        // Something may be left of one that was killed.
        part.file.set_len(0).map_err(|error| unwritable(&part.path, error))?;
        part.forget_companions();
        Ok(part)
    }

    /// Gives it its name, once all of it is on the disk.
    fn publish(mut self, to: &Path) -> Result<(), StoreError> {
        self.forget_companions();
        self.file.sync_all().map_err(|error| unwritable(&self.path, error))?;
        std::fs::rename(&self.path, to).map_err(|error| unwritable(to, error))?;
        self.published = true;
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = File::open(folder).and_then(|folder| folder.sync_all());
        folder.map_err(|error| unwritable(to, error))
    }

    /// What SQLite and its writers leave beside a database that was opened.
    fn forget_companions(&self) {
        for end in ["-wal", "-shm", "-journal", "-gate", "-turn"] {
            let _ = std::fs::remove_file(beside(&self.path, end));
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.published {
            self.forget_companions();
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
    StoreError::Unavailable { what, hint, source: None }
}

fn refused_by(what: &str, hint: &'static str, error: io::Error) -> StoreError {
    StoreError::Unavailable { what: format!("{what} ({error})"), hint, source: Some(Box::new(error)) }
}

fn unwritable(path: &Path, error: io::Error) -> StoreError {
    refused_by(
        &format!("{} cannot be written", path.display()),
        "check the folder, its permissions and the disk",
        error,
    )
}

/// What is wrong with which file.
fn of(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { what, hint, source } => {
            StoreError::Unavailable { what: format!("{what} ({})", path.display()), hint, source }
        }
        other => other,
    }
}

/// The engine's own words where there are some.
fn words(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable { source: Some(source), .. } => source.to_string(),
        other => other.to_string(),
    }
}
