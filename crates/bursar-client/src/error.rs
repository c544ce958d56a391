//! Why a call came to nothing.

use std::error::Error as StdError;

use bursar_core::name::IdempotencyKey;
use bursar_core::refusal::Invalid;
use bursar_wire::problem::{Kind, Problem, ViolationAnswer};

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server says no, and why.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// A part of the call is wrong in itself; nobody was asked.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Nobody could be asked. Nothing was done.
    #[error("the server cannot be reached: {source}")]
    Unreachable {
        /// What went wrong at last.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The server was asked and did not answer: it may have been done. Asked again with the same key, it is done once.
    #[error("nobody knows whether it was done: {source}")]
    UnknownOutcome {
        /// The key it was asked with; `None` where none is needed to ask again.
        key: Option<IdempotencyKey>,
        /// What went wrong at last.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The answer is none of Bursar's, or of another version.
    #[error("the answer with status {status} cannot be read: {detail}")]
    Unreadable {
        /// The status it came with.
        status: u16,
        /// What is wrong with it.
        detail: String,
    },
}

impl Error {
    /// The problem, if the server told one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// The kind of problem, if the server told one.
    pub fn kind(&self) -> Option<Kind> {
        self.problem().map(|problem| problem.kind)
    }

    /// The limits, freezes and grants that speak against it.
    pub fn violations(&self) -> &[ViolationAnswer] {
        self.problem().map_or(&[], |problem| &problem.violations)
    }

    /// It may go away by itself: the same call may be made again, with the same key.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::UnknownOutcome { .. } => true,
            Error::Problem(problem) => problem.kind.is_transient(),
            Error::Invalid(_) | Error::Unreadable { .. } => false,
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::Problem(Box::new(problem))
    }
}

/// As a server would tell it.
impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let detail = error.to_string();
        match error {
            Error::Problem(problem) => *problem,
            Error::Invalid(invalid) => Problem::from(invalid),
            Error::Unreachable { .. } => Problem::new(Kind::Unavailable, detail),
            Error::UnknownOutcome { .. } => Problem::new(Kind::UnknownOutcome, detail),
            Error::Unreadable { .. } => Problem::new(Kind::Internal, detail),
        }
    }
}
