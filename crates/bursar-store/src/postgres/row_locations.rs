//! The locations of locked rows, by which they are written without a look-up by key.

use std::collections::HashMap;

use bursar_core::state::ScopeKey;

use super::pg_types::Ctid;

/// The locations of the rows that a transaction has locked. A locked row keeps its location until the transaction writes it.
#[derive(Default)]
pub(super) struct RowLocations {
    pub(super) jobs: HashMap<u128, Ctid>,
    pub(super) holds: HashMap<u128, Ctid>,
    pub(super) grants: HashMap<u128, Ctid>,
    pub(super) scopes: HashMap<ScopeKey, Ctid>,
}

impl RowLocations {
    pub(super) fn clear(&mut self) {
        *self = RowLocations::default();
    }
}
