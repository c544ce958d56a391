//! Where the database is: a file, or a server of our own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar_testkit::Cluster;
use clap::ValueEnum;
use tempfile::TempDir;

/// What keeps the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// A file that several processes write to.
    Sqlite,
    /// A server that is killed too.
    Postgres,
}

/// A folder for diaries and files, and a server where one is wanted.
pub(crate) struct Place {
    folder: TempDir,
    cluster: Option<Arc<Cluster>>,
    databases: u32,
}

impl Place {
    pub(crate) fn new(engine: Engine) -> io::Result<Place> {
        let folder = tempfile::Builder::new().prefix("bursar-crash-").tempdir()?;
        // With everything on that keeps data safe: that is what is tried here.
        let cluster = (engine == Engine::Postgres).then(|| Arc::new(Cluster::start(true)));
        Ok(Place { folder, cluster, databases: 0 })
    }

    /// Where diaries are kept.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The server, where there is one.
    pub(crate) fn cluster(&self) -> Option<Arc<Cluster>> {
        self.cluster.clone()
    }

    /// The address of a new, empty database.
    pub(crate) fn fresh(&mut self) -> String {
        self.databases += 1;
        match &self.cluster {
            Some(cluster) => cluster.fresh_database(),
            None => format!("sqlite://{}", self.folder().join(format!("bursar-{}.db", self.databases)).display()),
        }
    }

    /// The address of a copy of a database that nobody has open.
    pub(crate) fn copy(&mut self, url: &str) -> io::Result<String> {
        let Some(cluster) = &self.cluster else {
            let to = self.fresh();
            let (from, new) = (file(url), file(&to));
            std::fs::copy(&from, &new)?;
            // What is not in the file yet is in its log; the index of the log is made anew.
            if wal(&from).exists() {
                std::fs::copy(wal(&from), wal(&new))?;
            }
            return Ok(to);
        };
        Ok(cluster.copy_database(url))
    }
}

/// The file of a SQLite address.
pub(crate) fn file(url: &str) -> PathBuf {
    PathBuf::from(url.trim_start_matches("sqlite://"))
}

/// The write-ahead log beside a database file.
pub(crate) fn wal(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push("-wal");
    PathBuf::from(path)
}
