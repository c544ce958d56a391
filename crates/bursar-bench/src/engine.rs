//! Temporary databases to measure on, on either engine.

use bursar::PostgresOptions;
use serde::Serialize;

use crate::error::BenchError;
use crate::plan::Through;
use crate::{postgres, sqlite};

/// A database engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// SQLite, embedded.
    Sqlite,
    /// A PostgreSQL server.
    Postgres,
}

/// The folder or server on which databases are created.
pub(crate) enum DatabaseHost {
    Sqlite(sqlite::Folder),
    Postgres(postgres::Server),
}

/// A temporary database.
pub(crate) enum Database {
    Sqlite(sqlite::File),
    Postgres(postgres::PgDatabase),
}

impl DatabaseHost {
    pub(crate) fn engine(&self) -> Engine {
        match self {
            DatabaseHost::Sqlite(_) => Engine::Sqlite,
            DatabaseHost::Postgres(_) => Engine::Postgres,
        }
    }

    /// Describes the engine, its durability settings and its location.
    pub(crate) async fn describe(&self) -> Result<String, BenchError> {
        match self {
            DatabaseHost::Sqlite(folder) => Ok(folder.describe()),
            DatabaseHost::Postgres(server) => server.describe().await,
        }
    }

    /// Measures the time of one fsync on its disk, in milliseconds.
    pub(crate) async fn fsync_ms(&self) -> Result<f64, BenchError> {
        match self {
            DatabaseHost::Sqlite(folder) => folder.fsync_ms(),
            DatabaseHost::Postgres(server) => server.fsync_ms().await,
        }
    }

    /// Creates an empty database.
    pub(crate) async fn database(&mut self) -> Result<Database, BenchError> {
        match self {
            DatabaseHost::Sqlite(folder) => folder.file().map(Database::Sqlite),
            DatabaseHost::Postgres(server) => server.database().await.map(Database::Postgres),
        }
    }

    /// Returns the URL and the options with which Bursar reaches a database.
    pub(crate) fn connection(&mut self, database: &Database, through: Option<Through>) -> (String, PostgresOptions) {
        match (self, database, through) {
            (DatabaseHost::Postgres(server), Database::Postgres(named), Some(through)) => {
                server.through(named, through)
            }
            _ => (database.url(), PostgresOptions::default()),
        }
    }

    /// Removes a database.
    pub(crate) async fn remove(&mut self, database: Database) -> Result<(), BenchError> {
        match (self, database) {
            (DatabaseHost::Postgres(server), Database::Postgres(named)) => server.remove(&named).await,
            // A file is deleted with its folder on drop.
            _ => Ok(()),
        }
    }

    /// Removes all remaining databases.
    pub(crate) async fn close(self) -> Result<(), BenchError> {
        match self {
            DatabaseHost::Sqlite(folder) => folder.close().await,
            DatabaseHost::Postgres(server) => server.close().await,
        }
    }
}

impl Database {
    /// Returns its URL.
    pub(crate) fn url(&self) -> String {
        match self {
            Database::Sqlite(file) => format!("sqlite://{}", file.path().display()),
            Database::Postgres(named) => named.url.clone(),
        }
    }
}
