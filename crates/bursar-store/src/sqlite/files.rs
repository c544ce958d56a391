//! Detecting that the files of a database were deleted or replaced, and that its disk is full.
//!
//! A deleted or replaced file stays open in this process. SQLite would continue to write to it, and all of that would be lost with the
//! process. The device and inode of each open file are therefore compared with those at its path before and after every commit.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::StoreError;

/// The bytes that the disk must have room for.
const SPACE_BYTES: usize = 256 << 10;

/// How long the result of a check is reused, because any client can request the readiness of a server.
const SPACE_CHECK_REUSE: Duration = Duration::from_secs(1);

/// The files of one database.
pub(super) struct Files {
    /// The database, its write-ahead log and the log's index. SQLite creates the latter two at the first use.
    all: Mutex<Vec<OpenFile>>,
    /// A file that is written to find out whether there is room.
    space_probe: PathBuf,
    /// When the last check found room.
    had_space_at: Mutex<Option<Instant>>,
    /// Whether a file was found deleted or replaced.
    gone: AtomicBool,
}

struct OpenFile {
    path: PathBuf,
    what: &'static str,
    /// `None` until the file exists.
    identity: Option<Identity>,
}

/// Device and inode.
type Identity = (u64, u64);

impl Files {
    pub(super) fn of(database: &Path) -> Files {
        // For a symbolic link, SQLite keeps the log beside the link's target.
        let database = &fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
        let beside = |suffix: &str| {
            let mut path = database.as_os_str().to_owned();
            path.push(suffix);
            PathBuf::from(path)
        };
        let file = |suffix, what| OpenFile { path: beside(suffix), what, identity: None };
        let all = [file("", "file"), file("-wal", "write-ahead log"), file("-shm", "index of the write-ahead log")];
        Files {
            all: Mutex::new(all.into()),
            space_probe: beside("-space"),
            had_space_at: Mutex::default(),
            gone: AtomicBool::new(false),
        }
    }

    /// Fails if a file was deleted or replaced. Every later call fails too, because the open files no longer belong together.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if self.gone.load(Ordering::Acquire) {
            return Err(gone_error("file or log"));
        }
        for file in all.iter_mut() {
            let found = match fs::metadata(&file.path) {
                Ok(metadata) => Some(identity(&metadata)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(source) => {
                    return Err(StoreError::Unavailable {
                        what: format!("the {} of the database cannot be checked", file.what),
                        hint: "check the disk and the permissions of the folder",
                        permanent: false,
                        source: Some(Box::new(source)),
                    });
                }
            };
            match (file.identity, found) {
                (Some(before), now) if now != Some(before) => {
                    self.gone.store(true, Ordering::Release);
                    tracing::error!(
                        path = %file.path.display(),
                        "the {} of the database was deleted or replaced while in use; all writes are refused; \
                         put the file back or restore a backup, and restart",
                        file.what
                    );
                    return Err(gone_error(file.what));
                }
                (None, now) => file.identity = now,
                _ => {}
            }
        }
        Ok(())
    }

    /// Fails if the disk has no room for a commit or is read-only. It writes a file to find out.
    pub(super) fn check_space(&self) -> Result<(), StoreError> {
        let mut had_space_at = self.had_space_at.lock().unwrap_or_else(PoisonError::into_inner);
        if had_space_at.is_some_and(|at| at.elapsed() < SPACE_CHECK_REUSE) {
            return Ok(());
        }
        *had_space_at = None;
        let written = write_probe(&self.space_probe);
        *had_space_at = written.is_ok().then(Instant::now);
        let _ = fs::remove_file(&self.space_probe);
        written.map_err(|source| {
            let (what, hint) = match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    ("the disk of the database is full", "free some space on it")
                }
                _ => {
                    ("the folder of the database cannot be written", "check the disk and the permissions of the folder")
                }
            };
            StoreError::Unavailable { what: what.into(), hint, permanent: false, source: Some(Box::new(source)) }
        })
    }
}

fn write_probe(path: &Path) -> io::Result<()> {
    // The bytes differ, because some file systems store a run of equal bytes in no space.
    let bytes: Vec<u8> = (0..SPACE_BYTES).map(|index| (index * 31 + index / 251) as u8).collect();
    let mut file = File::create(path)?;
    file.write_all(&bytes)?;
    file.flush()
}

fn gone_error(what: &str) -> StoreError {
    StoreError::Unavailable {
        what: format!("the {what} of the database was deleted or replaced while in use"),
        hint: "put the file back or restore a backup, and restart; writes are refused until then",
        permanent: false,
        source: None,
    }
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// Other systems do not let an open file be deleted or replaced.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {
    (0, 0)
}
