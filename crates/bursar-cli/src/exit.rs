//! Exit codes.

use std::process::ExitCode;

use bursar_wire::problem::{Kind, Problem};

use crate::output::Output;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Done = 0,
    /// The command failed, or a check found a problem.
    Failed = 1,
    /// The arguments or the input are invalid.
    Usage = 2,
    /// A limit, a freeze, a grant or a quota refused the request.
    Refused = 3,
    /// The named object does not exist.
    NotFound = 4,
    /// The current state does not allow the operation.
    Conflict = 5,
    /// The database or the server is unavailable, and a retry may succeed without any other change.
    Unavailable = 6,
    /// The token is missing or invalid, or does not permit the operation.
    Denied = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Returns the exit code of a problem.
pub(crate) fn for_problem(kind: Kind) -> Exit {
    match kind {
        Kind::Refused | Kind::QuotaExceeded => Exit::Refused,
        Kind::UnknownScope | Kind::NotFound => Exit::NotFound,
        Kind::AlreadySettled | Kind::LeaseLost | Kind::Conflict | Kind::Changed => Exit::Conflict,
        Kind::Invalid
        | Kind::TooLarge
        | Kind::HeadTooLarge
        | Kind::MethodNotAllowed
        | Kind::UnsupportedMediaType
        | Kind::RangeNotSatisfiable => Exit::Usage,
        Kind::Unauthorized | Kind::SignatureRefused | Kind::Forbidden => Exit::Denied,
        Kind::TooManyAttempts | Kind::Timeout | Kind::Unusable => Exit::Failed,
        Kind::Overloaded
        | Kind::Busy
        | Kind::Unavailable
        | Kind::StorageUnavailable
        | Kind::NotReady
        | Kind::UnknownOutcome
        | Kind::TooManyBytes => Exit::Unavailable,
        Kind::Internal => Exit::Failed,
    }
}

/// Prints an error of the command line, or the help or version that was requested.
pub(crate) fn report_usage(error: &clap::Error) -> Exit {
    // The arguments did not parse, so `--json` must be looked up by hand.
    if error.use_stderr() && std::env::args().any(|arg| arg == "--json") {
        let text = error.to_string();
        // The first paragraph is the error; the usage follows.
        let detail = text.split("\n\n").next().unwrap_or(&text).trim().trim_start_matches("error: ");
        Output::new(true).problem(&Problem::invalid("arguments".into(), detail));
        return Exit::Usage;
    }
    // A closed pipe is not a failure.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage } else { Exit::Done }
}

#[cfg(test)]
mod tests {
    use bursar::{Error, HoldId, HoldState, Invalid, JobId, Refusal, Scope, StoreError, Time};

    use super::*;

    fn unavailable(permanent: bool) -> StoreError {
        StoreError::Unavailable { what: "x".into(), hint: "y", permanent, source: None }
    }

    #[test]
    fn every_error_has_an_exit_code() {
        let hold = HoldId(7);
        let scope = Scope::new("a").unwrap();
        let cases: Vec<(Error, Exit)> = vec![
            (Refusal::Refused(Vec::new()).into(), Exit::Refused),
            (Refusal::LateRefused { hold, at: Time::NEVER }.into(), Exit::Refused),
            (Refusal::UnknownHold { hold }.into(), Exit::NotFound),
            (Refusal::UnknownScope { scope: scope.clone() }.into(), Exit::NotFound),
            (Refusal::AlreadySettled { hold, state: HoldState::Released }.into(), Exit::Conflict),
            (Refusal::KeyReused { key: "k".try_into().unwrap() }.into(), Exit::Conflict),
            (Refusal::Cycle { scope: scope.clone(), parent: scope }.into(), Exit::Conflict),
            (Refusal::ActualAmbiguous { hold, charges: 2 }.into(), Exit::Usage),
            (Invalid::new("scope", "must not be empty").into(), Exit::Usage),
            (StoreError::BadUrl("x".into()).into(), Exit::Usage),
            (StoreError::Busy("x".into()).into(), Exit::Unavailable),
            (StoreError::NotMigrated { found: 0, needed: 1 }.into(), Exit::Failed),
            (StoreError::NewerSchema { found: 2, known: 1 }.into(), Exit::Failed),
            (unavailable(false).into(), Exit::Unavailable),
            (unavailable(true).into(), Exit::Failed),
            (StoreError::Closed.into(), Exit::Unavailable),
            (Error::Overloaded { waiting: 1 }, Exit::Unavailable),
            (Error::Internal("x".into()), Exit::Failed),
            (Refusal::ForeignLease { job: JobId(7), fence: 1 }.into(), Exit::Denied),
        ];
        for (error, exit) in cases {
            let text = error.to_string();
            assert_eq!(for_problem(Problem::from(error).kind), exit, "{text}");
        }
    }
}
