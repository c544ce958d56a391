//! What PostgreSQL's errors mean to a caller.

use std::io;

use super::migrate;
use crate::error::{Source, StoreError};

/// Why a statement failed that may succeed at the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conflict {
    /// A lock was not available within the lock timeout.
    LockTimeout,
    /// PostgreSQL chose this transaction as the victim of a deadlock.
    Deadlock,
    /// The connection was lost. Before the commit nothing has happened.
    Lost,
}

/// The conflict behind an error, if it is one.
pub(super) fn conflict(error: &sqlx::Error) -> Option<Conflict> {
    if is_lost(error) {
        return Some(Conflict::Lost);
    }
    match code(error).as_deref() {
        Some("55P03") => Some(Conflict::LockTimeout),
        Some("40P01" | "40001") => Some(Conflict::Deadlock),
        _ => None,
    }
}

/// The SQLSTATE, if the server answered with one.
pub(super) fn code(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

/// An error of anything but a commit: nothing has happened.
pub(super) fn store_error(error: sqlx::Error) -> StoreError {
    let code = code(&error).unwrap_or_default();
    match code.as_str() {
        "55P03" => return StoreError::Busy("others held what was needed for too long".into()),
        "40P01" => return StoreError::Busy("a deadlock with other transactions".into()),
        "40001" => return StoreError::Busy("other transactions changed the same rows".into()),
        "57014" => return StoreError::Busy("the database cancelled the statement".into()),
        // Data that is out of range, or larger than the server takes: it comes from one request, not from the server.
        _ if code.starts_with("22") || code.starts_with("54") => return StoreError::Rejected(Box::new(error)),
        "3F000" | "42P01" => return StoreError::NotMigrated { found: 0, needed: migrate::KNOWN },
        _ => {}
    }
    match &error {
        sqlx::Error::PoolClosed => return StoreError::Closed,
        sqlx::Error::PoolTimedOut => {
            return StoreError::Busy("no connection became free in time".into());
        }
        sqlx::Error::ColumnDecode { index, source } => {
            return StoreError::corrupt("row", format!("column {index}: {source}"));
        }
        _ => {}
    }
    let (what, hint) = explain(&code, &error);
    StoreError::Unavailable { what: what.into(), hint, source: Some(Box::new(error)) }
}

/// An error of a commit. Only the server's own word says that nothing has happened.
pub(super) fn commit_error(error: sqlx::Error) -> StoreError {
    if is_lost(&error) { StoreError::UnknownOutcome(Box::new(error) as Source) } else { store_error(error) }
}

/// The connection is gone, or the server is on its way out and may have done what it was told. It also ends connections whose
/// transactions are idle for too long.
fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => true,
        _ => code(error).is_some_and(|code| ["57P", "08", "25P03", "25P04"].iter().any(|lost| code.starts_with(lost))),
    }
}

fn explain(code: &str, error: &sqlx::Error) -> (&'static str, &'static str) {
    match code {
        "25006" => (
            "the database is read only",
            "connect to the primary server, or end its recovery or read-only mode, and try again",
        ),
        "53100" => ("the disk of the database server is full", "free space on it, and try again"),
        "53300" => (
            "the database server has no connection left",
            "raise its max_connections, or open the store with fewer connections",
        ),
        "XX001" | "XX002" => (
            "the database server reports corrupt data",
            "stop writing, and restore from a standby or a backup; where only tables other than the journal are hurt, `bursar rebuild` makes them anew",
        ),
        "28P01" | "28000" => ("the database server refused the login", "check the user, the password and pg_hba.conf"),
        "3D000" => ("the database does not exist", "create it, or correct its name in the address"),
        "42501" => (
            "the database user lacks a permission",
            "let the user create the schema bursar, or make it the owner of that schema",
        ),
        "57P01" | "57P02" | "57P03" => {
            ("the database server is stopping or starting", "try again when it is up; nothing was changed")
        }
        _ if code.starts_with("53") => ("the database server is out of resources", "see its log, and try again"),
        _ if code.starts_with("08") => ("the connection to the database was lost", "try again; nothing was changed"),
        _ => match error {
            sqlx::Error::Io(problem) if problem.kind() == io::ErrorKind::ConnectionRefused => {
                ("the database server cannot be reached", "check that it runs, and the host and port of its address")
            }
            sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed | sqlx::Error::Protocol(_) => {
                ("the connection to the database was lost", "try again; nothing was changed")
            }
            sqlx::Error::Tls(_) => {
                ("no secure connection to the database could be made", "check the certificates and sslmode")
            }
            _ => ("the database answered with an error", "see the error below and the server's log"),
        },
    }
}

/// An address that could not be read, as it may be shown. Where it may hold a password, only its scheme.
pub(super) fn redacted(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) if rest.contains(['@', '?']) => format!("{scheme}://…"),
        _ => url.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        let cases = [
            ("postgres://bob:s3?c@ret@db:x/shop", "postgres://…"),
            ("postgres://db:x/shop?user=bob&password=s3cret", "postgres://…"),
            ("postgres://db:x/shop", "postgres://db:x/shop"),
            ("nonsense", "nonsense"),
        ];
        for (url, shown) in cases {
            assert_eq!(redacted(url), shown);
        }
    }

    #[test]
    fn a_lost_connection_is_certain_before_a_commit_and_not_during_it() {
        let lost = || sqlx::Error::Io(io::Error::from(io::ErrorKind::ConnectionReset));
        assert!(matches!(store_error(lost()), StoreError::Unavailable { .. }));
        assert!(matches!(commit_error(lost()), StoreError::UnknownOutcome(_)));
        assert_eq!(conflict(&lost()), Some(Conflict::Lost));
    }
}
