//! A number that changes when any process has committed, for polling.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::error::failed;
use crate::sqlite::writer::{Handle, Shared, open_reader};

/// A connection that only reads `PRAGMA data_version`, which changes when another connection has committed.
#[derive(Default)]
pub(super) struct ChangeCounter(Arc<Mutex<Option<Connection>>>);

impl ChangeCounter {
    pub(super) async fn read(&self, writer: Handle, shared: &Arc<Shared>) -> Result<u64, StoreError> {
        if shared.path.is_none() {
            // A database in memory has no other connection; its journal grows with every commit.
            return writer.call(|writer| Ok(writer.shared.rows(&writer.conn).end_of_journal()?.0)).await;
        }
        let (own, shared) = (self.0.clone(), shared.clone());
        let ask = move || {
            let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
            if own.is_none() {
                *own = shared.path.as_deref().map(open_reader).transpose()?;
            }
            let conn = own.as_ref().ok_or(StoreError::Closed)?;
            let mut ask = conn.prepare_cached("PRAGMA data_version").map_err(failed)?;
            let version: i64 = ask.query_row([], |row| row.get(0)).map_err(failed)?;
            Ok(version.unsigned_abs())
        };
        tokio::task::spawn_blocking(ask).await.map_err(|_| StoreError::Closed)?
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
