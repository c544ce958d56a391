//! Finds the rows of busy scopes without reading past their old versions.
//!
//! Every write leaves an old version of a row. The server removes it soon, but not while a snapshot is held open that is older. A look-up
//! by key then reads every version, of which a busy scope gets hundreds in a second.
//!
//! So a busy row has a *spot*: a number of its own, with an index. After [`WRITES_PER_SPOT`] writes of a node it gets another one, and a
//! look-up by the new number finds only the versions since. Each node remembers the spots that it has read or written. They are hints: the
//! row that a spot leads to must have the key that is looked for, and a scope that is not found by its spot is looked up by its key.

use std::hash::{DefaultHasher, Hash, Hasher};

use bursar_core::state::ScopeKey;

/// The writes after which a row gets another spot. The write that changes it costs an entry in every index.
const WRITES_PER_SPOT: u32 = 256;

/// What a node remembers of a row. The spot is 0 if the row has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spot {
    number: i64,
    /// The writes of this node since the row has it.
    writes: u32,
}

impl Spot {
    /// Notes the spot that a row has.
    pub(super) fn saw(&mut self, number: i64) {
        if self.number != number {
            *self = Spot { number, writes: 0 };
        }
    }

    /// Returns the spot for the next write of a row.
    pub(super) fn write(&mut self, key: &ScopeKey, version: u64) -> i64 {
        self.writes += 1;
        if self.writes >= WRITES_PER_SPOT {
            let mut hasher = DefaultHasher::new();
            (key, version).hash(&mut hasher);
            // Never 0. Two rows may get the same number; then a look-up also reads the other one.
            *self = Spot { number: (hasher.finish() | 1).cast_signed(), writes: 0 };
        }
        self.number
    }

    /// Returns the number to look up, if the row has one.
    pub(super) fn known(self) -> Option<i64> {
        (self.number != 0).then_some(self.number)
    }
}

/// Scopes to look up: those without a known spot, and then those with one.
pub(super) struct ScopeLookup<'k> {
    keys: Vec<&'k ScopeKey>,
    /// The spots of the last keys.
    spots: Vec<i64>,
}

impl<'k> ScopeLookup<'k> {
    pub(super) fn new(keys: &'k [ScopeKey], spot: impl Fn(&ScopeKey) -> Option<i64>) -> ScopeLookup<'k> {
        let (mut named, mut spotted, mut spots) = (Vec::with_capacity(keys.len()), Vec::new(), Vec::new());
        for key in keys {
            match spot(key) {
                Some(number) => {
                    spotted.push(key);
                    spots.push(number);
                }
                None => named.push(key),
            }
        }
        named.extend(spotted);
        ScopeLookup { keys: named, spots }
    }

    /// Returns the key of a row by its index.
    pub(super) fn key(&self, index: usize) -> &'k ScopeKey {
        self.keys[index]
    }

    /// Returns the keys that are looked up by name.
    pub(super) fn named(&self) -> &[&'k ScopeKey] {
        &self.keys[..self.keys.len() - self.spots.len()]
    }

    /// Returns the keys that are looked up by their spots.
    pub(super) fn spotted(&self) -> &[&'k ScopeKey] {
        &self.keys[self.keys.len() - self.spots.len()..]
    }

    pub(super) fn spots(&self) -> &[i64] {
        &self.spots
    }

    /// Returns the ordinals of the rows that are found by their spots, which follow those of the others.
    pub(super) fn ordinals(&self) -> Vec<i64> {
        let first = self.named().len() as i64 + 1;
        (first..).take(self.spots.len()).collect()
    }
}

#[cfg(test)]
mod tests {
    use bursar_core::name::{Scope, Tenant};

    use super::*;

    fn key(name: &str) -> ScopeKey {
        (Tenant::built_in(), Scope::new(name).expect("a name"))
    }

    #[test]
    fn a_busy_row_gets_another_spot_after_some_writes() {
        let (key, mut spot) = (key("a"), Spot::default());
        assert_eq!(spot.known(), None);
        let spots: Vec<i64> = (0..u64::from(WRITES_PER_SPOT) * 2).map(|version| spot.write(&key, version)).collect();
        let (quiet, busy) = spots.split_at(WRITES_PER_SPOT as usize - 1);
        assert!(quiet.iter().all(|spot| *spot == 0));
        assert!(busy[0] != 0 && busy[..WRITES_PER_SPOT as usize].iter().all(|spot| *spot == busy[0]));
        assert_ne!(busy[WRITES_PER_SPOT as usize], busy[0]);
        // Another node has given the row another spot.
        spot.saw(7);
        assert_eq!(spot.write(&key, 1), 7);
        assert_eq!(spot.known(), Some(7));
    }

    #[test]
    fn rows_are_numbered_names_first() {
        let keys = [key("a"), key("b"), key("c")];
        let lookup = ScopeLookup::new(&keys, |key| (key.1.as_str() != "b").then_some(5));
        assert_eq!((lookup.named(), lookup.spotted()), (&[&keys[1]][..], &[&keys[0], &keys[2]][..]));
        assert_eq!((lookup.ordinals(), lookup.spots()), (vec![2, 3], &[5, 5][..]));
        assert_eq!(lookup.key(2), &keys[2]);
    }
}
