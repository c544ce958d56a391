//! Exit codes: how it ended, for scripts.

use std::process::ExitCode;

use crate::output::Output;
use bursar_server::wire::problem::{Kind, Problem};

/// How a command of this program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done = 0,
    /// It failed, or found something wrong.
    Failed = 1,
    /// It was asked in a wrong way.
    Usage = 2,
    /// A limit or a grant says no.
    Refused = 3,
    /// There is no such thing.
    NotFound = 4,
    /// The state of things does not allow it.
    Conflict = 5,
    /// The database cannot be used now.
    Unavailable = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// The exit code of a problem. [`Problem`] knows the kind of every error of the library.
pub(crate) fn of_problem(kind: Kind) -> Exit {
    match kind {
        Kind::Refused | Kind::QuotaExceeded => Exit::Refused,
        Kind::UnknownScope | Kind::NotFound => Exit::NotFound,
        Kind::AlreadySettled | Kind::LeaseLost | Kind::Conflict | Kind::Changed => Exit::Conflict,
        Kind::Invalid | Kind::TooLarge | Kind::HeadTooLarge | Kind::MethodNotAllowed | Kind::UnsupportedMediaType => {
            Exit::Usage
        }
        Kind::Unauthorized | Kind::Forbidden | Kind::TooManyAttempts | Kind::Timeout => Exit::Failed,
        Kind::Overloaded
        | Kind::Busy
        | Kind::Unavailable
        | Kind::NotReady
        | Kind::UnknownOutcome
        | Kind::TooManyBytes => Exit::Unavailable,
        Kind::Internal => Exit::Failed,
    }
}

/// Tells what is wrong with the arguments, or shows the help that was asked for.
pub(crate) fn of_usage(error: &clap::Error) -> Exit {
    // Arguments that cannot be read cannot say that JSON is wanted in the usual way.
    if error.use_stderr() && std::env::args().any(|arg| arg == "--json") {
        let text = error.to_string();
        // What follows the first paragraph is how to call it, for people.
        let detail = text.split("\n\n").next().unwrap_or(&text).trim().trim_start_matches("error: ");
        Output::new(true).problem(&Problem::invalid("arguments".into(), detail));
        return Exit::Usage;
    }
    // A reader that went away is no reason to fail.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage } else { Exit::Done }
}

#[cfg(test)]
mod tests {
    use bursar::{Error, HoldId, HoldState, Invalid, Refusal, Scope, StoreError, Time};

    use super::*;

    #[test]
    fn every_error_has_its_code() {
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
            (StoreError::NotMigrated { found: 0, needed: 1 }.into(), Exit::Unavailable),
            (StoreError::NewerSchema { found: 2, known: 1 }.into(), Exit::Unavailable),
            (StoreError::Closed.into(), Exit::Unavailable),
            (Error::Overloaded { waiting: 1 }, Exit::Unavailable),
            (Error::Internal("x".into()), Exit::Failed),
        ];
        for (error, exit) in cases {
            let text = error.to_string();
            assert_eq!(of_problem(Problem::from(error).kind), exit, "{text}");
        }
    }
}
