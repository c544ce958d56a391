//! Errors of the database and of its use.

use std::fmt;

/// An error of a store. Nothing was changed, except after [`StoreError::UnknownOutcome`], where the change may or may not be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another transaction held a lock for too long, or too much work is queued. The same request can be retried.
    #[error("busy: {0}; retry")]
    Busy(String),
    /// The database cannot be used in its present state.
    #[error("{what}; {hint}")]
    Unavailable {
        /// The problem.
        what: String,
        /// What to do about it.
        hint: &'static str,
        /// Whether it stays so until something else is changed: a permission, a path, a password, a damaged file. Otherwise it may
        /// pass by itself.
        permanent: bool,
        /// The error of the engine, if there is one.
        #[source]
        source: Option<Source>,
    },
    /// The connection was lost during a commit. The transaction may or may not be committed.
    #[error("unknown outcome: the connection was lost during commit; retry with the same idempotency key")]
    UnknownOutcome(#[source] Source),
    /// The caller's transaction has failed. Roll it back and run it again.
    #[error("retry your transaction: {0}")]
    RetryTransaction(String),
    /// The caller's transaction has settings or contents that Bursar cannot work with.
    #[error("{0}")]
    WrongTransaction(String),
    /// The tables were created or upgraded by a newer version of Bursar.
    #[error(
        "the database has schema version {found}, this build supports versions up to {known}; nothing was changed; use a newer bursar"
    )]
    NewerSchema {
        /// The schema version of the database.
        found: i64,
        /// The newest schema version that this build supports.
        known: i64,
    },
    /// The tables are missing or of an older version, and migrations are off.
    #[error(
        "the database has schema version {found}, this build needs {needed}; nothing was changed; run `bursar migrate`, or open it with \
         migrations on"
    )]
    NotMigrated {
        /// The schema version of the database; 0 without tables.
        found: i64,
        /// The schema version that this build needs.
        needed: i64,
    },
    /// The URL of a database is wrong.
    #[error("{0:?} is not a database URL; use sqlite://PATH, sqlite::memory: or postgres://…")]
    BadUrl(String),
    /// A stored row cannot be read.
    #[error("a stored {what} cannot be read: {problem}; nothing was changed; run `bursar doctor`")]
    Corrupt {
        /// The kind of row.
        what: &'static str,
        /// Why it cannot be read.
        problem: String,
    },
    /// The database rejected a value of the request, or one computed from it.
    #[error("the database rejected a value of the request: {0}; nothing was changed; correct the request")]
    Rejected(#[source] Source),
    /// A caller's closure failed or ran too long. Its transaction was rolled back.
    #[error("the closure {0}; its transaction was rolled back")]
    Closure(String),
    /// The store has been closed.
    #[error("the store is closed; open it again")]
    Closed,
}

/// The error of an engine.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

impl StoreError {
    pub(crate) fn corrupt(what: &'static str, problem: impl fmt::Display) -> StoreError {
        StoreError::Corrupt { what, problem: problem.to_string() }
    }

    /// Returns whether the same request can be retried without further action.
    pub fn is_retryable(&self) -> bool {
        matches!(self, StoreError::Busy(_))
    }
}
