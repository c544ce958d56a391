//! The databases of a run: files in a temporary folder, or databases on a server of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar_testkit::Cluster;
use clap::ValueEnum;
use tempfile::TempDir;

/// A database engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// One file that several processes write to.
    Sqlite,
    /// A server, which is killed as well.
    Postgres,
}

/// A folder for client logs and database files, and a server for PostgreSQL.
pub(crate) struct Databases {
    folder: TempDir,
    cluster: Option<Arc<Cluster>>,
    created: u32,
}

impl Databases {
    pub(crate) fn new(engine: Engine) -> io::Result<Databases> {
        let folder = tempfile::Builder::new().prefix("bursar-crash-").tempdir()?;
        // Durable: this test is about the settings that protect data in a crash.
        let cluster = (engine == Engine::Postgres).then(|| Arc::new(Cluster::start(true)));
        Ok(Databases { folder, cluster, created: 0 })
    }

    /// Returns the folder for client logs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the PostgreSQL server, if there is one.
    pub(crate) fn cluster(&self) -> Option<Arc<Cluster>> {
        self.cluster.clone()
    }

    /// Creates an empty database and returns its URL.
    pub(crate) fn create(&mut self) -> String {
        self.created += 1;
        match &self.cluster {
            Some(cluster) => cluster.fresh_database(),
            None => format!("sqlite://{}", self.folder().join(format!("bursar-{}.db", self.created)).display()),
        }
    }

    /// Copies a database that has no open connections and returns the URL of the copy.
    pub(crate) fn copy(&mut self, url: &str) -> io::Result<String> {
        let Some(cluster) = &self.cluster else {
            let to = self.create();
            let (from, new) = (file(url), file(&to));
            std::fs::copy(&from, &new)?;
            // The write-ahead log holds commits that are not in the file yet; SQLite recreates its index.
            if wal(&from).exists() {
                std::fs::copy(wal(&from), wal(&new))?;
            }
            return Ok(to);
        };
        Ok(cluster.copy_database(url))
    }
}

/// Returns the path of a SQLite URL.
pub(crate) fn file(url: &str) -> PathBuf {
    PathBuf::from(url.trim_start_matches("sqlite://"))
}

/// Returns the path of a database file's write-ahead log.
pub(crate) fn wal(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push("-wal");
    PathBuf::from(path)
}
