//! What can go wrong below the rules.

use std::fmt;

/// A failure of the database, or of what was asked of it. Nothing was changed, except where it says `unknown outcome`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Others held what was needed for too long. Try again.
    #[error("busy: {0}; try again")]
    Busy(String),
    /// The database cannot be used as it is.
    #[error("unavailable: {what}; {hint}")]
    Unavailable {
        /// What is wrong.
        what: String,
        /// The way back.
        hint: &'static str,
        /// The engine's own words.
        #[source]
        source: Option<Source>,
    },
    /// The connection was lost while committing: the work may or may not be done.
    #[error("unknown outcome: the connection was lost during commit; ask again with the same idempotency key")]
    UnknownOutcome(#[source] Source),
    /// The caller's transaction cannot go on; roll it back and run it again.
    #[error("retry your transaction: {0}")]
    RetryTransaction(String),
    /// The caller's transaction is not one Bursar can work in.
    #[error("{0}")]
    WrongTransaction(String),
    /// The database was made by a newer version.
    #[error("the database has schema version {found}, this build knows up to {known}: use a newer bursar")]
    NewerSchema {
        /// What the database says.
        found: i64,
        /// What this build knows.
        known: i64,
    },
    /// The database has not been prepared.
    #[error(
        "the database has schema version {found}, this build needs {needed}: run `bursar migrate`, or open with migrations on"
    )]
    NotMigrated {
        /// What the database says.
        found: i64,
        /// What this build needs.
        needed: i64,
    },
    /// The address of a database is wrong.
    #[error("{0:?} is not a database address: use sqlite://PATH, sqlite::memory: or postgres://…")]
    BadUrl(String),
    /// A stored row cannot be read.
    #[error("a stored {what} cannot be read: {problem}; run `bursar doctor`")]
    Corrupt {
        /// Which kind of row.
        what: &'static str,
        /// Why.
        problem: String,
    },
    /// The database does not take a value of the request, or one that follows from it.
    #[error("the database does not take a value: {0}")]
    Rejected(#[source] Source),
    /// A caller's closure failed or did not end in time; its transaction was rolled back.
    #[error("the closure {0}; its transaction was rolled back")]
    Closure(String),
    /// The store is closed.
    #[error("closed")]
    Closed,
}

/// The engine's own error.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

impl StoreError {
    pub(crate) fn corrupt(what: &'static str, problem: impl fmt::Display) -> StoreError {
        StoreError::Corrupt { what, problem: problem.to_string() }
    }

    /// Whether the same request may simply be tried again.
    pub fn is_retryable(&self) -> bool {
        matches!(self, StoreError::Busy(_))
    }
}
