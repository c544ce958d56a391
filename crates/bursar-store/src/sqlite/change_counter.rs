//! A number that changes when any process has committed, for polling.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::connection::open_reader;
use crate::sqlite::error::store_error;
use crate::sqlite::writer::{Handle, Shared};

/// A connection that only reads `PRAGMA data_version`, which changes when another connection has committed.
#[derive(Default)]
pub(super) struct ChangeCounter(Arc<Mutex<Option<Connection>>>);

impl ChangeCounter {
    /// Returns the counter. Opens the connection at the first call.
    pub(super) async fn read(&self, writer: Handle, shared: &Arc<Shared>) -> Result<u64, StoreError> {
        if shared.path.is_none() {
            // A database in memory has no other connection; its journal grows with every commit.
            return writer.call(|writer| Ok(writer.shared.rows(&writer.conn).end_of_journal()?.0)).await;
        }
        let (connection, shared) = (self.0.clone(), shared.clone());
        let read = move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            if connection.is_none() {
                *connection = shared.path.as_deref().map(|path| open_reader(path, shared.read_only)).transpose()?;
            }
            let conn = connection.as_ref().ok_or(StoreError::Closed)?;
            let mut statement = conn.prepare_cached("PRAGMA data_version").map_err(store_error)?;
            let version: i64 = statement.query_row([], |row| row.get(0)).map_err(store_error)?;
            Ok(version.unsigned_abs())
        };
        tokio::task::spawn_blocking(read).await.map_err(|_| StoreError::Closed)?
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
