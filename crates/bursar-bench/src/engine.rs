//! Places to measure in: databases of the bench's own, on either engine, gone afterwards.

use serde::Serialize;

use crate::error::BenchError;
use crate::{postgres, sqlite};

/// An engine beneath Bursar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The embedded one.
    Sqlite,
    /// The server.
    Postgres,
}

/// Where databases are made.
pub(crate) enum Home {
    Sqlite(sqlite::Folder),
    Postgres(postgres::Server),
}

/// A database of the bench's own.
pub(crate) enum Database {
    Sqlite(sqlite::File),
    Postgres(postgres::Named),
}

impl Home {
    pub(crate) fn engine(&self) -> Engine {
        match self {
            Home::Sqlite(_) => Engine::Sqlite,
            Home::Postgres(_) => Engine::Postgres,
        }
    }

    /// The engine, its durability, and where it is.
    pub(crate) async fn describe(&self) -> Result<String, BenchError> {
        match self {
            Home::Sqlite(folder) => Ok(folder.describe()),
            Home::Postgres(server) => server.describe().await,
        }
    }

    /// The time in ms that its disk takes to keep something for good.
    pub(crate) async fn fsync_ms(&self) -> Result<f64, BenchError> {
        match self {
            Home::Sqlite(folder) => folder.fsync_ms(),
            Home::Postgres(server) => server.fsync_ms().await,
        }
    }

    /// Makes an empty database.
    pub(crate) async fn database(&mut self) -> Result<Database, BenchError> {
        match self {
            Home::Sqlite(folder) => folder.file().map(Database::Sqlite),
            Home::Postgres(server) => server.database().await.map(Database::Postgres),
        }
    }

    /// Removes a database.
    pub(crate) async fn remove(&mut self, database: Database) -> Result<(), BenchError> {
        match (self, database) {
            (Home::Postgres(server), Database::Postgres(named)) => server.remove(&named).await,
            // A file goes with its folder, when that is dropped.
            _ => Ok(()),
        }
    }

    /// Removes all that is left, also after a failure.
    pub(crate) async fn close(self) -> Result<(), BenchError> {
        match self {
            Home::Sqlite(folder) => folder.close().await,
            Home::Postgres(server) => server.close().await,
        }
    }
}

impl Database {
    /// Its address.
    pub(crate) fn url(&self) -> String {
        match self {
            Database::Sqlite(file) => format!("sqlite://{}", file.path().display()),
            Database::Postgres(named) => named.url.clone(),
        }
    }
}
