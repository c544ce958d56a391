//! Scopes that need not be read again: this connection wrote them last.

use std::collections::HashMap;

use bursar_core::scope::{Balance, ScopeState};
use bursar_core::state::{ScopeKey, Table};
use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::error::failed;

/// Scopes as they are stored, for as long as SQLite says that nobody else has written to the database.
#[derive(Default)]
pub(super) struct Known {
    rows: HashMap<ScopeKey, ScopeState, foldhash::fast::RandomState>,
    /// SQLite's word for what others have written.
    version: Option<i64>,
}

impl Known {
    const KEPT: usize = 10_000;

    /// Forgets everything when another connection has written since the last transaction of this one.
    pub(super) fn check(&mut self, conn: &Connection) -> Result<(), StoreError> {
        let mut ask = conn.prepare_cached("PRAGMA data_version").map_err(failed)?;
        let version = ask.query_row([], |row| row.get(0)).map_err(failed)?;
        if self.version != Some(version) {
            self.rows.clear();
            self.version = Some(version);
        }
        Ok(())
    }

    /// Takes a row out: whoever has it may change it, and what becomes of that is not known before the commit.
    pub(super) fn take(&mut self, key: &ScopeKey) -> Option<ScopeState> {
        self.rows.remove(key)
    }

    /// Keeps what a transaction wrote, once it is committed.
    pub(super) fn keep(&mut self, scopes: Table<ScopeKey, ScopeState>) {
        if self.rows.len() > Known::KEPT {
            self.rows.clear();
        }
        for (key, mut row) in scopes.into_written() {
            row.balances.retain(Balance::lasts);
            row.redefined = false;
            self.rows.insert(key, row);
        }
    }

    /// Somebody wrote on this connection in another way.
    pub(super) fn forget(&mut self) {
        self.rows.clear();
    }
}
