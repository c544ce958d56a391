//! The ids of journal rows that rows of other tables hold.
//!
//! SQLite identifies a journal row by its position, PostgreSQL by a random id. A move to PostgreSQL keeps the positions as ids. A move to
//! SQLite replaces each id by the position of its row, wherever a row names one: the history of a scope or a job and the answers of
//! idempotency keys are found by it.

use std::collections::HashMap;
use std::fmt;

use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::BatchId;
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::scope::ScopeState;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::tables::{Holds, Row, Table, Value};
use crate::codec::{Packed, from_json, to_json};
use crate::error::StoreError;
use crate::job_row::MutableFields;

/// A decoded value that may name journal rows.
enum Linked {
    BatchId(BatchId),
    Links(OrderedLinks),
    Scope(Box<ScopeState>),
    Hold(Box<Hold>),
    Grant(Box<Grant>),
    LiveJob(Box<MutableFields<'static>>),
    EndedJob(Box<Job>),
    Blob(Box<Blob>),
    Queue(Box<QueueState>),
    Schedule(Box<Schedule>),
    Namespace(Box<NamespaceState>),
}

impl Linked {
    /// Decodes a value. Returns `None` if values of its column name no journal row.
    fn decode(holds: Holds, value: &Value) -> Result<Option<Linked>, StoreError> {
        let packed =
            || value.bytes().ok_or_else(|| StoreError::corrupt("row", "it has no bytes where a row needs them"));
        let json = || value.text().ok_or_else(|| StoreError::corrupt("row", "it has no text where a row needs it"));
        Ok(Some(match holds {
            Holds::Plain => return Ok(None),
            Holds::BatchId => Linked::BatchId(BatchId(
                value.id().ok_or_else(|| StoreError::corrupt("row", "it has no id where a row needs one"))?,
            )),
            Holds::Links => Linked::Links(from_json("journal row", json()?)?),
            Holds::Scope => Linked::Scope(Box::new(ScopeState::unpack(packed()?)?)),
            Holds::Hold => Linked::Hold(Box::new(Hold::unpack(packed()?)?)),
            Holds::Grant => Linked::Grant(Box::new(Grant::unpack(packed()?)?)),
            Holds::LiveJob => Linked::LiveJob(Box::new(MutableFields::unpack(packed()?)?)),
            Holds::EndedJob => Linked::EndedJob(Box::new(Job::unpack(packed()?)?)),
            Holds::Blob => Linked::Blob(Box::new(Blob::unpack(packed()?)?)),
            Holds::Queue => Linked::Queue(Box::new(from_json("queue", json()?)?)),
            Holds::Schedule => Linked::Schedule(Box::new(from_json("schedule", json()?)?)),
            Holds::Namespace => Linked::Namespace(Box::new(from_json("namespace", json()?)?)),
        }))
    }

    /// Calls a function on each id.
    fn each(&mut self, mut call: impl FnMut(&mut BatchId)) {
        let last = match self {
            Linked::BatchId(id) => return call(id),
            Linked::Links(links) => return links.0.iter_mut().for_each(|(_, id)| call(id)),
            Linked::Scope(row) => &mut row.last,
            Linked::Hold(row) => &mut row.last,
            Linked::Grant(row) => &mut row.last,
            Linked::LiveJob(row) => row.last_mut(),
            Linked::EndedJob(row) => &mut row.last,
            Linked::Blob(row) => &mut row.last,
            Linked::Queue(row) => &mut row.last,
            Linked::Schedule(row) => &mut row.last,
            Linked::Namespace(row) => &mut row.last,
        };
        last.iter_mut().for_each(call);
    }

    fn encode(&self) -> Value {
        match self {
            Linked::BatchId(id) => Value::Id(id.0),
            Linked::Links(links) => Value::Text(to_json(links)),
            Linked::Scope(row) => Value::Bytes(row.pack()),
            Linked::Hold(row) => Value::Bytes(row.pack()),
            Linked::Grant(row) => Value::Bytes(row.pack()),
            Linked::LiveJob(row) => Value::Bytes(row.pack()),
            Linked::EndedJob(row) => Value::Bytes(row.pack()),
            Linked::Blob(row) => Value::Bytes(row.pack()),
            Linked::Queue(row) => Value::Text(to_json(row)),
            Linked::Schedule(row) => Value::Text(to_json(row)),
            Linked::Namespace(row) => Value::Text(to_json(row)),
        }
    }
}

/// The links of a journal row in their order, so that they are written as they were.
struct OrderedLinks(Vec<(String, BatchId)>);

impl Serialize for OrderedLinks {
    fn serialize<S: Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
        ser.collect_map(self.0.iter().map(|(stream, id)| (stream, id)))
    }
}

impl<'de> Deserialize<'de> for OrderedLinks {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<OrderedLinks, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = OrderedLinks;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of transactions by stream")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedLinks, A::Error> {
                let mut links = Vec::new();
                while let Some(link) = map.next_entry()? {
                    links.push(link);
                }
                Ok(OrderedLinks(links))
            }
        }

        de.deserialize_map(Entries)
    }
}

/// The decoded values of some rows that name journal rows, each with its row and column.
pub(crate) struct LinkedValues(Vec<(usize, usize, Linked)>);

impl LinkedValues {
    /// Decodes the values that name journal rows.
    pub(crate) fn of(table: &Table, rows: &[Row]) -> Result<LinkedValues, StoreError> {
        let mut found = Vec::new();
        for (column, spec) in table.columns.iter().enumerate().filter(|(_, column)| column.holds != Holds::Plain) {
            for (index, row) in rows.iter().enumerate() {
                if let Some(linked) = Linked::decode(spec.holds, &row[column])? {
                    found.push((index, column, linked));
                }
            }
        }
        Ok(LinkedValues(found))
    }

    /// Returns the ids of the named journal rows, each once.
    pub(crate) fn ids(&mut self) -> Vec<BatchId> {
        let mut ids = Vec::new();
        self.0.iter_mut().for_each(|(.., linked)| linked.each(|id| ids.push(*id)));
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Writes the values back into their rows with positions in place of ids.
    pub(crate) fn replace(self, rows: &mut [Row], positions: &HashMap<BatchId, i64>) -> Result<(), StoreError> {
        for (row, column, mut linked) in self.0 {
            let mut unknown = None;
            linked.each(|id| match positions.get(id) {
                Some(position) => *id = BatchId(u128::from(position.unsigned_abs())),
                None => unknown = Some(*id),
            });
            if let Some(id) = unknown {
                return Err(StoreError::corrupt("row", format!("it names {id}, which is not in the journal")));
            }
            rows[row][column] = linked.encode();
        }
        Ok(())
    }
}
