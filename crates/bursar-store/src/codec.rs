//! The encoding of rows as bytes: a version byte, then the fields in postcard's format.
//!
//! The layout of version 1 is frozen: its fields keep their order and types. Fields that a later build adds follow after it
//! ([`Packed::append_added`]); an earlier build ignores them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bursar_core::blob::{Blob, BlobState};
use bursar_core::budget::Budget;
use bursar_core::grant::{Grant, GrantState};
use bursar_core::hold::{Hold, HoldState, OnExpiry};
use bursar_core::job::Job;
use bursar_core::name::Name;
use bursar_core::payload::Payload;
use bursar_core::scope::{Balance, ScopeState};
use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StoreError;
use crate::job_row::AddedFields;

/// The version of the layout that rows are written in.
const VERSION: u8 = 1;

/// The initial capacity of a buffer, in bytes. Most rows are shorter.
const USUAL_BYTES: usize = 512;

/// A writer that appends whole slices to a buffer. Postcard's own appends byte by byte.
struct BufferWriter<'a>(&'a mut Vec<u8>);

impl Flavor for BufferWriter<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

fn encode(row: &impl Serialize, buffer: &mut Vec<u8>) {
    buffer.push(VERSION);
    append(row, buffer);
}

/// Appends plain data to a buffer, without a version.
pub(crate) fn append(data: &impl Serialize, buffer: &mut Vec<u8>) {
    postcard::serialize_with_flavor(data, BufferWriter(buffer)).expect("rows are plain data");
}

/// A row that is stored as bytes.
pub(crate) trait Packed: Serialize + Sized {
    /// The kind of row, for error messages.
    const WHAT: &'static str;

    /// Appends the row to a buffer.
    fn append_to(&self, buffer: &mut Vec<u8>) {
        encode(self, buffer);
        self.append_added(buffer);
    }

    /// Appends the fields that were added after version 1, if any of them is set.
    fn append_added(&self, _: &mut Vec<u8>) {}

    /// Reads the fields that [`Packed::append_added`] wrote. Not called for rows that have none.
    fn read_added(&mut self, _: &[u8]) -> postcard::Result<()> {
        Ok(())
    }

    /// Writes the row to a buffer that is reused for each row.
    fn pack_to<'a>(&self, buffer: &'a mut Vec<u8>) -> &'a [u8] {
        buffer.clear();
        self.append_to(buffer);
        buffer
    }

    fn pack(&self) -> Vec<u8> {
        let mut buffer = Vec::with_capacity(USUAL_BYTES);
        self.pack_to(&mut buffer);
        buffer
    }

    fn unpack(bytes: &[u8]) -> Result<Self, StoreError>
    where
        Self: DeserializeOwned,
    {
        match bytes.split_first() {
            Some((&VERSION, rest)) => {
                let (mut row, added): (Self, &[u8]) =
                    postcard::take_from_bytes(rest).map_err(|e| StoreError::corrupt(Self::WHAT, e))?;
                if !added.is_empty() {
                    row.read_added(added).map_err(|e| StoreError::corrupt(Self::WHAT, e))?;
                }
                Ok(row)
            }
            Some((version, _)) => Err(StoreError::corrupt(Self::WHAT, format!("unknown row version {version}"))),
            None => Err(StoreError::corrupt(Self::WHAT, "the row is empty")),
        }
    }
}

impl Packed for Hold {
    const WHAT: &'static str = "hold";

    fn append_added(&self, buffer: &mut Vec<u8>) {
        let more = self.ended_at.is_some() || self.blob.is_some();
        if more || self.on_expiry != OnExpiry::Release {
            append(&self.on_expiry, buffer);
        }
        if more {
            append(&(self.ended_at, self.blob), buffer);
        }
    }

    fn read_added(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        let (on_expiry, rest) = postcard::take_from_bytes(bytes)?;
        self.on_expiry = on_expiry;
        if !rest.is_empty() {
            (self.ended_at, self.blob) = postcard::from_bytes(rest)?;
        }
        Ok(())
    }
}

impl Packed for Blob {
    const WHAT: &'static str = "blob";
}

impl Packed for ScopeState {
    const WHAT: &'static str = "scope";

    fn append_to(&self, buffer: &mut Vec<u8>) {
        if self.balances.iter().all(Balance::is_stored) {
            encode(self, buffer);
        } else {
            let mut stored = self.clone();
            stored.balances.retain(Balance::is_stored);
            encode(&stored, buffer);
        }
        self.append_added(buffer);
    }

    /// Appends what the expiries of the charges in the row post, in their order.
    fn append_added(&self, buffer: &mut Vec<u8>) {
        if self.recent.iter().any(|charge| charge.on_expiry != 0) {
            append(&self.recent.iter().map(|charge| charge.on_expiry).collect::<Vec<_>>(), buffer);
        }
    }

    fn read_added(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        let added: Vec<i64> = postcard::from_bytes(bytes)?;
        for (charge, on_expiry) in self.recent.iter_mut().zip(added) {
            charge.on_expiry = on_expiry;
        }
        Ok(())
    }
}

/// A row with a payload. A large payload is stored in a table of its own.
pub(crate) trait PayloadRow: Packed + DeserializeOwned + Clone {
    fn payload(&mut self) -> &mut Payload;

    fn has_large_payload(&self) -> bool;

    /// Appends the row without a large payload.
    fn append_detached_to(&self, buffer: &mut Vec<u8>) {
        if !self.has_large_payload() {
            return self.append_to(buffer);
        }
        let mut row = self.clone();
        *row.payload() = Payload::elsewhere();
        row.append_to(buffer);
    }

    /// Packs the row without a large payload.
    fn pack_detached(&self) -> Vec<u8> {
        let mut buffer = Vec::with_capacity(USUAL_BYTES);
        self.append_detached_to(&mut buffer);
        buffer
    }
}

impl Packed for Grant {
    const WHAT: &'static str = "grant";
}

impl PayloadRow for Grant {
    fn payload(&mut self) -> &mut Payload {
        &mut self.payload
    }

    fn has_large_payload(&self) -> bool {
        self.payload.is_large()
    }
}

impl Packed for Job {
    const WHAT: &'static str = "job";

    fn append_added(&self, buffer: &mut Vec<u8>) {
        AddedFields::append(&self.life, buffer);
    }

    fn read_added(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        AddedFields::read(&mut self.life, bytes)
    }
}

impl PayloadRow for Job {
    fn payload(&mut self) -> &mut Payload {
        &mut self.payload
    }

    fn has_large_payload(&self) -> bool {
        self.payload.is_large()
    }
}

/// Reads a name from a column. It was validated when it was stored.
#[expect(clippy::needless_pass_by_value, reason = "a row gives an owned text, whose type is inferred from here")]
pub(crate) fn stored_name<T: Name>(what: &'static str, text: String) -> Result<T, StoreError> {
    T::stored(&text).map_err(|problem| StoreError::corrupt(what, problem))
}

pub(crate) fn from_json<T: DeserializeOwned>(what: &'static str, json: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|problem| StoreError::corrupt(what, problem))
}

pub(crate) fn to_json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("rows are plain data")
}

/// A cache of parsed budgets by their stored text.
#[derive(Default)]
pub(crate) struct Budgets(Mutex<HashMap<Box<str>, Arc<Budget>>>);

impl Budgets {
    const ENTRIES_MAX: usize = 10_000;

    pub(crate) fn parse(&self, json: &str) -> Result<Arc<Budget>, StoreError> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(budget) = cache.get(json) {
            return Ok(budget.clone());
        }
        let budget = Arc::new(from_json::<Budget>("budget", json)?);
        if cache.len() >= Budgets::ENTRIES_MAX {
            cache.clear();
        }
        cache.insert(json.into(), budget.clone());
        Ok(budget)
    }
}

/// The stored number of a hold's state. The partial index of live holds depends on 0.
pub(crate) fn hold_state(state: HoldState) -> i16 {
    match state {
        HoldState::Held => 0,
        HoldState::Committed => 1,
        HoldState::Released => 2,
        HoldState::Expired => 3,
    }
}

/// The stored number of a blob's state.
pub(crate) fn blob_state(state: BlobState) -> i16 {
    match state {
        BlobState::Pending => 0,
        BlobState::Live => 1,
        BlobState::Doomed => 2,
    }
}

/// The stored number of a grant's state.
pub(crate) fn grant_state(state: GrantState) -> i16 {
    match state {
        GrantState::Open => 0,
        GrantState::Redeemed => 1,
        GrantState::Revoked => 2,
    }
}

#[cfg(test)]
mod tests {
    use bursar_core::id::HoldId;
    use bursar_core::time::Time;

    use super::*;

    #[test]
    fn a_row_of_an_unknown_version_is_an_error() {
        let mut row = ScopeState::default().pack();
        assert_eq!(ScopeState::unpack(&row).unwrap(), ScopeState::default());
        row[0] = 9;
        assert!(ScopeState::unpack(&row).is_err());
    }

    #[test]
    fn frequent_values_have_a_short_encoding() {
        for (time, length) in [(Time::NEVER, 1), (Time::MIN, 1), (Time::from_micros(0), 1), (Time::from_micros(-1), 1)]
        {
            let bytes = postcard::to_stdvec(&time).unwrap();
            assert_eq!((bytes.len(), postcard::from_bytes(&bytes)), (length, Ok(time)), "{time:?}");
        }
        for micros in [i64::MAX - 1, i64::MIN + 1, 1_763_000_000_000_000, -5] {
            let time = Time::from_micros(micros);
            assert_eq!(postcard::from_bytes(&postcard::to_stdvec(&time).unwrap()), Ok(time));
        }
        for (id, length) in [(0, 1), (7, 2), (65_536, 4), (u128::MAX, 17)] {
            let bytes = postcard::to_stdvec(&HoldId(id)).unwrap();
            assert_eq!((bytes.len(), postcard::from_bytes(&bytes)), (length, Ok(HoldId(id))));
        }
        assert!(postcard::from_bytes::<HoldId>(&[17; 18]).is_err(), "an id has at most sixteen bytes");
    }
}
