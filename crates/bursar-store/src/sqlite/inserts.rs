//! Inserts of many rows with few statements. Starting and ending a statement costs SQLite half as much as writing a row.

use rusqlite::types::{Null, ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, ToSql};

use crate::codec::{Packed, PayloadRow};
use crate::error::StoreError;
use crate::sqlite::error::store_error;
use crate::sqlite::rows::{SqliteRows, id};

/// The numbers of rows that one statement inserts. The largest that fits is used first.
const ROWS_PER_STATEMENT: [usize; 3] = [16, 4, 1];

/// A table, and the columns for which each row has a value.
pub(super) struct InsertSpec {
    pub(super) table: &'static str,
    pub(super) columns: &'static [&'static str],
}

impl InsertSpec {
    fn sql(&self, rows: usize) -> String {
        let row = format!("({})", vec!["?"; self.columns.len()].join(", "));
        let (columns, rows) = (self.columns.join(", "), vec![row; rows].join(", "));
        format!("INSERT INTO {} ({columns}) VALUES {rows}", self.table)
    }
}

/// The values of rows, one row after the other. They are bound to a statement later, possibly by another thread.
#[derive(Default)]
pub(super) struct RowBuffer {
    values: Vec<Value>,
    /// The bytes of all texts and blobs.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Value {
    Null,
    Int(i64),
    Text(ByteRange),
    Blob(ByteRange),
}

/// A range of the bytes of a buffer.
#[derive(Clone, Copy)]
struct ByteRange {
    from: usize,
    to: usize,
}

impl RowBuffer {
    pub(super) fn int(&mut self, value: i64) {
        self.values.push(Value::Int(value));
    }

    pub(super) fn text(&mut self, value: &str) {
        let range = self.append(|bytes| bytes.extend_from_slice(value.as_bytes()));
        self.values.push(Value::Text(range));
    }

    pub(super) fn id(&mut self, value: u128) {
        let range = self.append(|bytes| bytes.extend_from_slice(&id(value)));
        self.values.push(Value::Blob(range));
    }

    pub(super) fn packed(&mut self, row: &impl Packed) {
        let range = self.append(|bytes| row.append_to(bytes));
        self.values.push(Value::Blob(range));
    }

    /// Adds a packed row without its payload if the payload is large and stored in a table of its own.
    pub(super) fn packed_detached(&mut self, row: &impl PayloadRow) {
        let range = self.append(|bytes| row.append_detached_to(bytes));
        self.values.push(Value::Blob(range));
    }

    /// Adds a value with `add`, or null.
    pub(super) fn optional<T>(&mut self, value: Option<T>, add: impl FnOnce(&mut RowBuffer, T)) {
        match value {
            Some(value) => add(self, value),
            None => self.values.push(Value::Null),
        }
    }

    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> ByteRange {
        let from = self.bytes.len();
        write(&mut self.bytes);
        ByteRange { from, to: self.bytes.len() }
    }

    /// Returns the rows, which have `width` values each.
    pub(super) fn rows(&self, width: usize) -> impl Iterator<Item = BoundValues<'_>> {
        debug_assert_eq!(self.values.len() % width, 0, "every row has {width} values");
        self.values.chunks_exact(width).map(|values| BoundValues { values, bytes: &self.bytes })
    }
}

/// The values for the parameters of one statement.
#[derive(Clone, Copy)]
pub(super) struct BoundValues<'a> {
    values: &'a [Value],
    bytes: &'a [u8],
}

impl BoundValues<'_> {
    /// Runs a statement with these values. Returns how many rows it changed.
    pub(super) fn run(self, statement: &mut CachedStatement<'_>) -> Result<usize, StoreError> {
        for (index, value) in self.values.iter().enumerate() {
            let bytes = |ByteRange { from, to }| &self.bytes[from..to];
            let bound = match *value {
                Value::Null => statement.raw_bind_parameter(index + 1, Null),
                Value::Int(value) => statement.raw_bind_parameter(index + 1, value),
                Value::Text(range) => statement.raw_bind_parameter(index + 1, Text(bytes(range))),
                Value::Blob(range) => statement.raw_bind_parameter(index + 1, bytes(range)),
            };
            bound.map_err(store_error)?;
        }
        statement.raw_execute().map_err(store_error)
    }
}

/// UTF-8 bytes that are bound as text without being checked again.
struct Text<'a>(&'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

impl SqliteRows<'_> {
    /// Inserts the rows of a buffer, whose values are in the order of the columns.
    pub(super) fn insert_all(&self, into: &InsertSpec, buffer: &RowBuffer) -> Result<(), StoreError> {
        let mut left = buffer.values.as_slice();
        debug_assert_eq!(left.len() % into.columns.len(), 0, "every row has a value for each column");
        for rows in ROWS_PER_STATEMENT {
            let count = rows * into.columns.len();
            if left.len() < count {
                continue;
            }
            let mut statement = self.prepare(&into.sql(rows))?;
            while let Some((values, rest)) = left.split_at_checked(count) {
                BoundValues { values, bytes: &buffer.bytes }.run(statement.raw())?;
                left = rest;
            }
        }
        Ok(())
    }
}
