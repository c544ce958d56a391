//! What can end a measurement.

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// It was asked for in a wrong way.
    #[error("{0}")]
    Usage(String),
    /// Bursar refused or failed where it should not.
    #[error(transparent)]
    Bursar(#[from] bursar::Error),
    /// A baseline failed on SQLite.
    #[error("SQLite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A baseline failed on PostgreSQL.
    #[error("PostgreSQL: {0}")]
    Postgres(#[from] sqlx::Error),
    /// A file could not be written or read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The books do not balance after the measurement, which is worth nothing then.
    #[error("after the measurement the books do not balance: {0}")]
    NotClean(String),
    /// It was told to stop.
    #[error("interrupted: what was made is removed")]
    Interrupted,
    /// Something else that makes the measurement worth nothing.
    #[error("{0}")]
    Failed(String),
}

impl From<bursar::StoreError> for BenchError {
    fn from(error: bursar::StoreError) -> BenchError {
        BenchError::Bursar(error.into())
    }
}

impl From<bursar::Invalid> for BenchError {
    fn from(error: bursar::Invalid) -> BenchError {
        BenchError::Bursar(error.into())
    }
}

impl From<bursar::SourceError> for BenchError {
    fn from(error: bursar::SourceError) -> BenchError {
        BenchError::Failed(format!("the worker stopped: {error}"))
    }
}

impl From<tokio::task::JoinError> for BenchError {
    fn from(error: tokio::task::JoinError) -> BenchError {
        BenchError::Failed(format!("a caller stopped: {error}"))
    }
}
