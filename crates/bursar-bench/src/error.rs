//! Errors of a measurement.

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The options are invalid.
    #[error("{0}")]
    Usage(String),
    /// Bursar failed or refused a request.
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
    /// `verify` found violations after the measurement.
    #[error("the measurement is invalid: verify found violations: {0}")]
    NotClean(String),
    /// The process received a signal.
    #[error("interrupted; the databases of the benchmark were removed")]
    Interrupted,
    /// Another error that makes the measurement invalid.
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
