//! Translates errors of PostgreSQL and of the driver into [`StoreError`].

use std::io;

use super::migrate;
use crate::error::{Source, StoreError};
use crate::moving::marks::{REFUSAL_CODE, refused_write};

/// Why a statement failed that may succeed in the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conflict {
    /// A lock was not available within the lock timeout.
    LockTimeout,
    /// PostgreSQL chose this transaction as the victim of a deadlock.
    Deadlock,
    /// The connection was lost. If that happens before the commit, nothing is changed.
    ConnectionLost,
    /// The server writes no more, because it has become a standby or read-only. Another connection may lead to a server that writes.
    ReadOnly,
}

/// Returns the conflict behind an error, if it is one.
pub(super) fn conflict(error: &sqlx::Error) -> Option<Conflict> {
    if is_connection_lost(error) {
        return Some(Conflict::ConnectionLost);
    }
    match code(error).as_deref() {
        Some("55P03") => Some(Conflict::LockTimeout),
        Some("40P01" | "40001") => Some(Conflict::Deadlock),
        Some("25006") => Some(Conflict::ReadOnly),
        _ => None,
    }
}

/// Returns the SQLSTATE, if the server answered with one.
pub(super) fn code(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

/// Translates an error of anything but a commit: nothing was changed.
pub(super) fn store_error(error: sqlx::Error) -> StoreError {
    let code = code(&error).unwrap_or_default();
    match code.as_str() {
        "55P03" => return StoreError::Busy("a lock wait timed out; nothing was changed".into()),
        "40P01" => return StoreError::Busy("a deadlock with another transaction; nothing was changed".into()),
        "40001" => return StoreError::Busy("another transaction changed the same rows; nothing was changed".into()),
        "57014" => return StoreError::Busy("the database server cancelled the statement; nothing was changed".into()),
        // A value is out of range or too large for the server. One request is at fault, not the server.
        _ if code.starts_with("22") || code.starts_with("54") => return StoreError::Rejected(Box::new(error)),
        "3F000" | "42P01" => return StoreError::NotMigrated { found: 0, needed: migrate::SCHEMA_VERSION },
        REFUSAL_CODE => {
            if let Some(refused) = error.as_database_error().and_then(|error| refused_write(error.message())) {
                return refused;
            }
        }
        _ => {}
    }
    match &error {
        sqlx::Error::PoolClosed => return StoreError::Closed,
        sqlx::Error::PoolTimedOut => {
            return StoreError::Busy("all database connections are in use".into());
        }
        sqlx::Error::ColumnDecode { index, source } => {
            return StoreError::corrupt("row", format!("column {index}: {source}"));
        }
        _ => {}
    }
    if is_unexpected_pooler(&code, &error) {
        return StoreError::Unavailable {
            what: "a pooler in transaction mode answers at the URL of the database".into(),
            hint: "nothing was changed; set postgres.pooled to true, or connect to the server directly, as `bursar move` must",
            permanent: true,
            source: Some(Box::new(error)),
        };
    }
    let (what, hint) = describe(&code, &error);
    // A login, a name, a permission or damage does not change by itself. A standby may become the primary.
    let permanent = matches!(code.as_str(), "28P01" | "28000" | "3D000" | "42501" | "XX001" | "XX002");
    StoreError::Unavailable { what: what.into(), hint, permanent, source: Some(Box::new(error)) }
}

/// Translates an error of a commit. If the connection is lost before the server answers, the outcome is unknown.
pub(super) fn commit_error(error: sqlx::Error) -> StoreError {
    if is_connection_lost(&error) { StoreError::UnknownOutcome(Box::new(error) as Source) } else { store_error(error) }
}

/// Returns whether the connection is lost, or about to be: the server is shutting down, or it ends a connection whose transaction was
/// idle for too long. The server may have executed the last statement.
fn is_connection_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => true,
        _ => code(error).is_some_and(|code| ["57P", "08", "25P03", "25P04"].iter().any(|lost| code.starts_with(lost))),
    }
}

/// Returns whether only a pooler answers like this: it rejects a parameter that a server accepts, or a statement has the name of a statement
/// of another client, or its statement is gone.
fn is_unexpected_pooler(code: &str, error: &sqlx::Error) -> bool {
    match code {
        "42P05" | "26000" => true,
        "08P01" => error.as_database_error().is_some_and(|e| e.message().starts_with("unsupported startup parameter")),
        _ => false,
    }
}

fn describe(code: &str, error: &sqlx::Error) -> (&'static str, &'static str) {
    match code {
        "25006" => (
            "the database is read-only",
            "nothing was changed; connect to the primary server, or end its recovery or read-only mode, and try again",
        ),
        "53100" => ("the disk of the database server is full", "nothing was changed; free space on it, and try again"),
        "53300" => (
            "the database server has no connection left",
            "raise its max_connections, or open the store with fewer connections",
        ),
        "XX001" | "XX002" => (
            "the database server reports corrupt data",
            "stop writing, and restore from a standby or a backup; if the journal and the payloads are intact, `bursar rebuild` restores the other tables from them",
        ),
        "28P01" | "28000" => ("the database server refused the login", "check the user, the password and pg_hba.conf"),
        "3D000" => ("the database does not exist", "create it, or correct its name in the URL"),
        "42501" => (
            "the database user lacks a permission",
            "grant the user CREATE on the database, or make it the owner of the schema bursar",
        ),
        "57P01" | "57P02" | "57P03" => {
            ("the database server is starting or stopping", "nothing was changed; try again when it is up")
        }
        _ if code.starts_with("53") => {
            ("the database server is out of resources", "nothing was changed; see its log, and try again")
        }
        _ if code.starts_with("08") => ("the connection to the database was lost", "nothing was changed; try again"),
        _ => match error {
            sqlx::Error::Io(problem) if problem.kind() == io::ErrorKind::ConnectionRefused => {
                ("the database server cannot be reached", "check that it runs, and the host and port in its URL")
            }
            sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed | sqlx::Error::Protocol(_) => {
                ("the connection to the database was lost", "nothing was changed; try again")
            }
            sqlx::Error::Tls(_) => ("the TLS connection to the database failed", "check the certificates and sslmode"),
            _ => ("the database answered with an error", "read its message and the server's log"),
        },
    }
}

/// Returns a URL that could not be parsed, in a form that may be shown: only its scheme if it may contain a password.
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
    fn an_invalid_url_is_shown_without_its_password() {
        let cases = [
            ("postgres://bob:s3?c@ret@db:x/shop", "postgres://…"),
            ("postgres://db:x/shop?user=bob&password=s3cret", "postgres://…"),
            ("postgres://db:x/shop", "postgres://db:x/shop"),
            ("nonsense", "nonsense"),
        ];
        for (url, expected) in cases {
            assert_eq!(redacted(url), expected);
        }
    }

    #[test]
    fn a_connection_lost_during_a_commit_has_an_unknown_outcome() {
        let lost = || sqlx::Error::Io(io::Error::from(io::ErrorKind::ConnectionReset));
        assert!(matches!(store_error(lost()), StoreError::Unavailable { .. }));
        assert!(matches!(commit_error(lost()), StoreError::UnknownOutcome(_)));
        assert_eq!(conflict(&lost()), Some(Conflict::ConnectionLost));
    }
}
