//! A cache of the scopes that the writing connection wrote last, so that the next batch need not read them. `PRAGMA data_version` shows
//! whether another connection has committed since.

use std::collections::HashMap;

use bursar_core::scope::{Balance, ScopeState};
use bursar_core::state::{ScopeKey, Table};
use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::error::store_error;

/// Scopes as they are stored. Valid as long as no other connection has written to the database.
#[derive(Default)]
pub(super) struct ScopeCache {
    rows: HashMap<ScopeKey, ScopeState, foldhash::fast::RandomState>,
    /// `PRAGMA data_version`, which changes when another connection has committed.
    version: Option<i64>,
}

impl ScopeCache {
    /// A cache with more rows than this is cleared before rows are added.
    const ROWS_MAX: usize = 10_000;

    /// Clears the cache if another connection has written since the last transaction of this one.
    pub(super) fn check(&mut self, conn: &Connection) -> Result<(), StoreError> {
        let mut statement = conn.prepare_cached("PRAGMA data_version").map_err(store_error)?;
        let version = statement.query_row([], |row| row.get(0)).map_err(store_error)?;
        if self.version != Some(version) {
            self.rows.clear();
            self.version = Some(version);
        }
        Ok(())
    }

    /// Removes and returns a row. It must not stay in the cache: the transaction may change it and then fail.
    pub(super) fn take(&mut self, key: &ScopeKey) -> Option<ScopeState> {
        self.rows.remove(key)
    }

    /// Adds the rows of a committed transaction.
    pub(super) fn keep(&mut self, scopes: Table<ScopeKey, ScopeState>) {
        if self.rows.len() > ScopeCache::ROWS_MAX {
            self.rows.clear();
        }
        for (key, mut row) in scopes.into_changed_rows() {
            row.balances.retain(Balance::is_stored);
            row.redefined = false;
            self.rows.insert(key, row);
        }
    }

    /// Clears the cache, because this connection has written without it.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }
}
