//! Why a call failed.

use std::error::Error as StdError;

use bursar_core::name::IdempotencyKey;
use bursar_core::refusal::Invalid;
use bursar_wire::problem::{Kind, Problem, ViolationAnswer};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered with a problem.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// A part of the request is invalid; it was not sent.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The server could not be reached. The request was not executed.
    #[error(
        "the server cannot be reached: {}; nothing was changed; check its URL, and that it is running",
        causes(.source.as_ref())
    )]
    Unreachable {
        /// The error of the last attempt.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The request was sent and not answered: it may have been executed. A retry with the same key is safe.
    #[error("unknown outcome: the request may have been executed, but no answer arrived: {}", causes(.source.as_ref()))]
    UnknownOutcome {
        /// The idempotency key of the request; `None` if it had none.
        key: Option<IdempotencyKey>,
        /// The error of the last attempt.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The answer does not have the expected form; it may come from a proxy or from another version of the server.
    #[error("the answer with status {status} cannot be read: {detail}; check that the URL is that of a Bursar server")]
    Unreadable {
        /// The HTTP status of the answer.
        status: u16,
        /// Why it cannot be parsed.
        detail: String,
    },
}

/// Formats an error with all its causes. The error of a connection names the reason only in its causes.
fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

impl Error {
    /// Returns the problem that the server answered with, if any.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// Returns the kind of the problem that the server answered with, if any.
    pub fn kind(&self) -> Option<Kind> {
        self.problem().map(|problem| problem.kind)
    }

    /// Returns the limits, freezes and grants that refused the request.
    pub fn violations(&self) -> &[ViolationAnswer] {
        self.problem().map_or(&[], |problem| &problem.violations)
    }

    /// Returns whether the same call, with the same idempotency key, may succeed later.
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

/// Converts the error to the problem that describes it best.
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
