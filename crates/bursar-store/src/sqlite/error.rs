//! SQLite's errors as [`StoreError`]s.

use std::path::Path;

use rusqlite::ffi::SQLITE_CONSTRAINT_TRIGGER;
use rusqlite::{Error, ErrorCode};

use crate::error::StoreError;
use crate::moving::marks::refused_write;

/// Converts an error of SQLite into what it means for the caller.
pub(crate) fn store_error(error: Error) -> StoreError {
    if let Error::SqliteFailure(failure, Some(message)) = &error
        && failure.extended_code == SQLITE_CONSTRAINT_TRIGGER
        && let Some(refused) = refused_write(message)
    {
        return refused;
    }
    let code = error.sqlite_error_code();
    let (what, hint) = match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            return StoreError::Busy("another process is writing to the database file".into());
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            ("the database file is damaged", "nothing was overwritten; keep a copy of the file and run `bursar doctor`")
        }
        Some(ErrorCode::NotADatabase) => (
            "the database file is damaged, or is not a SQLite database",
            "nothing was overwritten; check the path, keep a copy of the file and run `bursar doctor`",
        ),
        Some(ErrorCode::ReadOnly) => {
            ("the database is read-only", "nothing was changed; make the file and its folder writable for this user")
        }
        Some(ErrorCode::DiskFull) => ("the disk is full", "nothing was changed; free some space and retry"),
        Some(ErrorCode::CannotOpen) => (
            "the database file cannot be opened",
            "check the path, and that this user may read and write the file and its folder",
        ),
        Some(ErrorCode::PermissionDenied) => {
            ("access to the database file was denied", "check the permissions of the file")
        }
        Some(ErrorCode::SystemIoFailure) => {
            ("the disk reported an error", "nothing was changed; check the disk and the system log")
        }
        Some(ErrorCode::OperationInterrupted) => return StoreError::Closure("did not end in time".into()),
        _ => ("SQLite refused a statement", "nothing was changed; run `bursar doctor`"),
    };
    let passes = matches!(code, Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure));
    StoreError::Unavailable { what: what.into(), hint, permanent: !passes, source: Some(Box::new(error)) }
}

/// Converts an error of SQLite and names the file.
pub(super) fn store_error_at(path: &Path, error: Error) -> StoreError {
    with_path(path, store_error(error))
}

/// Adds the path of the file to an error.
pub(super) fn with_path(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { what, hint, permanent, source } => {
            StoreError::Unavailable { what: format!("{what} ({})", path.display()), hint, permanent, source }
        }
        other => other,
    }
}

/// Returns whether another connection holds a lock that the statement needs.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
