//! The folder of SQLite files to measure on.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

use crate::error::BenchError;
use crate::machine::{folder_on_disk, fsync_ms};

/// The folder of the database files.
pub(crate) struct Folder(TempDir);

/// A database file in a folder of its own.
pub(crate) struct File(TempDir);

const WAIT: Duration = Duration::from_millis(20);
const WAITS_MAX: usize = 100;

impl Folder {
    /// Creates the folder next to the file of the URL, which is not touched, or in a temporary folder.
    pub(crate) fn new(url: Option<&str>) -> Result<Folder, BenchError> {
        let parent = match url {
            Some(url) => parent_folder(url)?,
            None => folder_on_disk()?,
        };
        let folder = tempfile::Builder::new().prefix("bursar-bench-").tempdir_in(&parent);
        folder.map(Folder).map_err(|error| {
            BenchError::Usage(format!(
                "no database can be created in {}: {error}; name another folder",
                parent.display()
            ))
        })
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "sqlite: version {}, journal_mode=WAL, synchronous=FULL, in {}",
            rusqlite::version(),
            self.0.path().display()
        )
    }

    pub(crate) fn fsync_ms(&self) -> Result<f64, BenchError> {
        fsync_ms(self.0.path())
    }

    /// Deletes the folder; retries while an interrupted writer still uses a file.
    pub(crate) async fn close(self) -> Result<(), BenchError> {
        let mut waits = 0;
        loop {
            match std::fs::remove_dir_all(self.0.path()) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) if waits == WAITS_MAX => return Err(error.into()),
                Err(_) => tokio::time::sleep(WAIT).await,
            }
            waits += 1;
        }
    }

    pub(crate) fn file(&self) -> Result<File, BenchError> {
        Ok(File(TempDir::new_in(self.0.path())?))
    }
}

impl File {
    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("bursar.db")
    }

    /// Opens a connection with the same durability as Bursar's.
    pub(crate) fn connect(&self) -> Result<Connection, BenchError> {
        let conn = Connection::open(self.path())?;
        conn.set_prepared_statement_cache_capacity(64);
        conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        conn.execute_batch("PRAGMA synchronous = FULL")?;
        Ok(conn)
    }
}

/// Returns the folder of a SQLite URL's file.
fn parent_folder(url: &str) -> Result<PathBuf, BenchError> {
    let Some(path) = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")) else {
        return Err(BenchError::Usage("not a database URL: use sqlite://PATH or postgres://…".into()));
    };
    if path.is_empty() || path == ":memory:" {
        return Err(BenchError::Usage(
            "a benchmark needs a database on disk: use sqlite://PATH or postgres://…".into(),
        ));
    }
    let parent = Path::new(path).parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(parent.unwrap_or(Path::new(".")).to_owned())
}
