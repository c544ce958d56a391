//! The files of a database: whether those that are open are still the ones that its path leads to.
//!
//! A file that is deleted or replaced stays open in this process. SQLite would go on writing to it, and all that it wrote would be gone with
//! the process. So the device and inode of each are compared before a commit is answered.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::StoreError;

/// Bytes that must go onto the disk of a database that takes writes.
const SPACE: usize = 256 << 10;

/// How long it is believed that there is room: anybody may ask whether the server is ready.
const SPACE_KNOWN: Duration = Duration::from_secs(1);

/// The files of one database.
pub(super) struct Files {
    /// The database, its log and the index of its log; the latter two are there from the first use on.
    all: Mutex<Vec<KnownFile>>,
    folder_probe: PathBuf,
    /// When there was room last.
    had_space: Mutex<Option<Instant>>,
    gone: AtomicBool,
}

struct KnownFile {
    path: PathBuf,
    what: &'static str,
    identity: Option<Identity>,
}

type Identity = (u64, u64);

impl Files {
    pub(super) fn of(database: &Path) -> Files {
        // SQLite keeps the log beside the file that a link leads to.
        let database = &fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
        let beside = |suffix: &str| {
            let mut path = database.as_os_str().to_owned();
            path.push(suffix);
            PathBuf::from(path)
        };
        let known = |suffix, what| KnownFile { path: beside(suffix), what, identity: None };
        let all = [known("", "file"), known("-wal", "write-ahead log"), known("-shm", "index of the write-ahead log")];
        Files {
            all: Mutex::new(all.into()),
            folder_probe: beside("-space"),
            had_space: Mutex::default(),
            gone: AtomicBool::new(false),
        }
    }

    /// Refuses to go on when a file is gone or another one. From then on it always does: what was written since is lost.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if self.gone.load(Ordering::Acquire) {
            return Err(gone("file or log"));
        }
        for known in all.iter_mut() {
            let found = match fs::metadata(&known.path) {
                Ok(metadata) => Some(identity(&metadata)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(source) => {
                    return Err(StoreError::Unavailable {
                        what: format!("the {} of the database cannot be looked at", known.what),
                        hint: "check the disk and the permissions of the folder",
                        source: Some(Box::new(source)),
                    });
                }
            };
            match (known.identity, found) {
                (Some(before), now) if now != Some(before) => {
                    self.gone.store(true, Ordering::Release);
                    tracing::error!(
                        path = %known.path.display(),
                        "the {} of the database was deleted or replaced while it was in use: nothing more is written; \
                         put it back or restore a backup, and start again",
                        known.what
                    );
                    return Err(gone(known.what));
                }
                (None, now) => known.identity = now,
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether there is room for a commit: what a full or read-only disk refuses is tried.
    pub(super) fn check_space(&self) -> Result<(), StoreError> {
        let mut had_space = self.had_space.lock().unwrap_or_else(PoisonError::into_inner);
        if had_space.is_some_and(|at| at.elapsed() < SPACE_KNOWN) {
            return Ok(());
        }
        *had_space = None;
        let wrote = write_some(&self.folder_probe);
        *had_space = wrote.is_ok().then(Instant::now);
        let _ = fs::remove_file(&self.folder_probe);
        wrote.map_err(|source| {
            let (what, hint) = match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    ("the disk of the database is full", "free some space on it")
                }
                _ => {
                    ("the folder of the database cannot be written", "check the disk and the permissions of the folder")
                }
            };
            StoreError::Unavailable { what: what.into(), hint, source: Some(Box::new(source)) }
        })
    }
}

fn write_some(path: &Path) -> io::Result<()> {
    // Not all the same byte: some file systems store that in no space at all.
    let bytes: Vec<u8> = (0..SPACE).map(|place| (place * 31 + place / 251) as u8).collect();
    let mut file = File::create(path)?;
    file.write_all(&bytes)?;
    file.flush()
}

fn gone(what: &str) -> StoreError {
    StoreError::Unavailable {
        what: format!("the {what} of the database was deleted or replaced while it was in use"),
        hint: "put it back or restore a backup, and start again: nothing is answered as done until then",
        source: None,
    }
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// Elsewhere an open file cannot be deleted or replaced.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {
    (0, 0)
}
