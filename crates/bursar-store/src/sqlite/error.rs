//! SQLite's errors in Bursar's words.

use rusqlite::{Error, ErrorCode};

use crate::error::StoreError;

/// What an error of the engine means for whoever asked.
pub(crate) fn failed(error: Error) -> StoreError {
    let (what, hint) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            return StoreError::Busy("another program is writing to the database file".into());
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            ("the database file is damaged", "keep a copy of the file and run `bursar doctor`: nothing was overwritten")
        }
        Some(ErrorCode::ReadOnly) => ("the database is read-only", "make the file and its folder writable"),
        Some(ErrorCode::DiskFull) => ("the disk is full", "free some space: nothing was changed"),
        Some(ErrorCode::CannotOpen) => {
            ("the database file cannot be opened", "check that its folder exists and may be written")
        }
        Some(ErrorCode::PermissionDenied) => ("the database file may not be used", "check the permissions of the file"),
        Some(ErrorCode::SystemIoFailure) => {
            ("the disk failed", "check the disk and the system log: nothing was changed")
        }
        Some(ErrorCode::OperationInterrupted) => return StoreError::Closure("did not end in time".into()),
        _ => ("the database refused a statement", "run `bursar doctor`"),
    };
    StoreError::Unavailable { what: what.into(), hint, source: Some(Box::new(error)) }
}
