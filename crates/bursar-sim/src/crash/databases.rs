//! The databases of a run: files in a temporary folder, or databases on a server of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bursar_testkit::{Cluster, Pooler};
use clap::ValueEnum;
use tempfile::TempDir;

use super::opening::{Extras, Opening};

/// A database engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// One file that several processes write to.
    Sqlite,
    /// A server, which is killed as well.
    Postgres,
}

/// Connections of the pooler to the server: fewer than the processes ask for.
const POOLED: u32 = 12;
/// How long the pooler keeps a connection that no process uses.
const POOLED_IDLE: Duration = Duration::from_secs(1);

/// A folder for client logs and database files, and a server for PostgreSQL.
pub(crate) struct Databases {
    folder: TempDir,
    /// Declared before the server, so that it stops first.
    pooler: Option<Pooler>,
    cluster: Option<Arc<Cluster>>,
    extras: Extras,
    created: u32,
}

impl Databases {
    pub(crate) fn new(engine: Engine, extras: Extras) -> io::Result<Databases> {
        let folder = tempfile::Builder::new().prefix("bursar-crash-").tempdir()?;
        // Durable: this test is about the settings that protect data in a crash.
        let cluster = (engine == Engine::Postgres).then(|| Arc::new(Cluster::start(true)));
        let pooled = cluster.as_ref().filter(|_| extras.pooler);
        let pooler = pooled.map(|cluster| Pooler::start(cluster, POOLED, POOLED_IDLE));
        Ok(Databases { folder, pooler, cluster, extras, created: 0 })
    }

    /// Returns the folder for client logs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the PostgreSQL server, if there is one.
    pub(crate) fn cluster(&self) -> Option<Arc<Cluster>> {
        self.cluster.clone()
    }

    /// Creates an empty database.
    pub(crate) fn create(&mut self) -> Opening {
        let url = match &self.cluster {
            Some(cluster) => cluster.fresh_database(),
            None => self.new_file(),
        };
        let archive = self.extras.archive.then(|| self.folder().join(format!("archive-{}", self.created)));
        self.created += 1;
        let opening = Opening { archive, retention: self.extras.retention, ..Opening::plain(url) };
        match &self.pooler {
            Some(pooler) => Opening { url: pooler.url(&opening.url), direct_url: Some(opening.url), ..opening },
            None => opening,
        }
    }

    fn new_file(&mut self) -> String {
        self.created += 1;
        format!("sqlite://{}", self.folder().join(format!("bursar-{}.db", self.created)).display())
    }

    /// Copies a database that no process uses. The copy has the same archive, and is reached without the pooler.
    pub(crate) fn copy(&mut self, of: &Opening) -> io::Result<Opening> {
        let url = self.copy_database(of.direct_url.as_ref().unwrap_or(&of.url))?;
        Ok(Opening { url, direct_url: None, ..of.clone() })
    }

    fn copy_database(&mut self, url: &str) -> io::Result<String> {
        let Some(cluster) = &self.cluster else {
            let to = self.new_file();
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
