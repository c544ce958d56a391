//! Where rows lie, to be written there.

use std::collections::HashMap;

use bursar_core::id::GrantId;
use bursar_core::state::{Change, ScopeKey, Workspace};
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::error::store_error;
use super::rows::{PgRows, Taking};
use super::wire::{Place, Writer};
use crate::error::StoreError;

/// Where rows lie that are to be written. Grants and scopes may only have been looked at: that they still are as they were is
/// known by who wrote them.
#[derive(Default)]
pub(super) struct Places {
    pub(super) jobs: HashMap<u128, Place>,
    pub(super) holds: HashMap<u128, Place>,
    pub(super) grants: HashMap<u128, (Place, Writer)>,
    pub(super) scopes: HashMap<ScopeKey, (Place, Writer)>,
}

impl Places {
    pub(super) fn clear(&mut self) {
        *self = Places::default();
    }
}

impl PgRows<'_> {
    /// Whether it is noted where the rows lie that are taken: they are written there.
    pub(super) fn notes_places(&self) -> bool {
        matches!(self.taking, Taking::Skip | Taking::Wait | Taking::See)
    }

    /// Notes where a scope lies. It may be read twice, and what is worked on is as it was the first time.
    pub(super) fn note_scope(&mut self, key: &ScopeKey, lies: Place, row: &PgRow) -> Result<(), StoreError> {
        if self.notes_places() {
            let writer = writer_of(row)?;
            self.places.scopes.entry(key.clone()).or_insert((lies, writer));
        }
        Ok(())
    }

    /// Whether it is known of all scopes and grants that change where they lie, and of whom.
    pub(super) fn has_places_of(&self, ws: &Workspace) -> bool {
        let grant =
            |(id, change): (&GrantId, _)| matches!(change, Change::Insert(_)) || self.places.grants.contains_key(&id.0);
        ws.scopes.changes().all(|(key, _)| self.places.scopes.contains_key(key)) && ws.grants.changes().all(grant)
    }
}

/// Who wrote a row as it is, of a statement that takes grants or scopes.
pub(super) fn writer_of(row: &PgRow) -> Result<Writer, StoreError> {
    row.try_get_unchecked(5).map_err(store_error)
}
