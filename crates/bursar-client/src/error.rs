//! Why a call failed.

use std::error::Error as StdError;
use std::io;

use bursar_core::name::IdempotencyKey;
use bursar_core::refusal::Invalid;
use bursar_wire::problem::{Kind, Problem, ViolationAnswer};
use bursar_worker::SourceError;

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
        "the server at {url} cannot be reached: {}; nothing was changed; check the URL, and that the server is running",
        reason(.source.as_ref())
    )]
    Unreachable {
        /// The base URL of the server.
        url: String,
        /// The error of the last attempt.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The request was sent and not answered: it may have been executed. A retry with the same key is safe.
    #[error("unknown outcome: the request may have been executed, but no answer arrived: {}", reason(.source.as_ref()))]
    UnknownOutcome {
        /// The idempotency key of the request; `None` if it had none.
        key: Option<IdempotencyKey>,
        /// The error of the last attempt.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The answer does not have the expected form; it may come from a proxy or from another version of the server.
    #[error(
        "{url} does not answer like a Bursar server (status {status}: {detail}); nothing was changed; check the URL"
    )]
    Unreadable {
        /// The base URL of the server.
        url: String,
        /// The HTTP status of the answer.
        status: u16,
        /// Why it cannot be parsed.
        detail: String,
    },
}

/// Returns why a request got no answer. The errors of the HTTP library name the reason only in their innermost cause.
fn reason(error: &(dyn StdError + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    match innermost.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => "no program listens at that address".to_owned(),
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe) => {
            "the connection was closed".to_owned()
        }
        Some(io::ErrorKind::TimedOut) => "the connection attempt timed out".to_owned(),
        _ => innermost.to_string(),
    }
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

/// Converts the error to one of a worker.
pub(crate) fn source_error(error: Error) -> SourceError {
    match error.kind() {
        _ if error.is_transient() => SourceError::Transient(error.into()),
        Some(Kind::Internal) | None => SourceError::Failed(error.into()),
        Some(_) => SourceError::Denied(error.into()),
    }
}
