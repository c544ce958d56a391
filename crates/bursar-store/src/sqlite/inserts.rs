//! Many new rows with few statements: to begin and to end one costs SQLite half of what a row costs.

use rusqlite::types::{Null, ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, ToSql};

use crate::codec::{Carries, Packed};
use crate::error::StoreError;
use crate::sqlite::error::failed;
use crate::sqlite::rows::{SqliteRows, id};

/// Rows of one statement: as many as there are left, the widest first.
const WIDTHS: [usize; 3] = [16, 4, 1];

/// Where rows go, with a place for each of their values.
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

/// Values of rows, one row after the other, to be bound later or by another thread.
#[derive(Default)]
pub(super) struct Sheet {
    cells: Vec<Cell>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Cell {
    Null,
    Int(i64),
    Text(Stretch),
    Blob(Stretch),
}

/// A part of the bytes of a sheet.
#[derive(Clone, Copy)]
struct Stretch {
    from: usize,
    to: usize,
}

impl Sheet {
    pub(super) fn int(&mut self, value: i64) {
        self.cells.push(Cell::Int(value));
    }

    pub(super) fn text(&mut self, value: &str) {
        let stretch = self.stretch(|bytes| bytes.extend_from_slice(value.as_bytes()));
        self.cells.push(Cell::Text(stretch));
    }

    pub(super) fn id(&mut self, value: u128) {
        let stretch = self.stretch(|bytes| bytes.extend_from_slice(&id(value)));
        self.cells.push(Cell::Blob(stretch));
    }

    pub(super) fn packed(&mut self, row: &impl Packed) {
        let stretch = self.stretch(|bytes| row.append_to(bytes));
        self.cells.push(Cell::Blob(stretch));
    }

    /// A row whose large payload is kept beside it.
    pub(super) fn light(&mut self, row: &impl Carries) {
        let stretch = self.stretch(|bytes| row.append_light_to(bytes));
        self.cells.push(Cell::Blob(stretch));
    }

    /// A value, or none.
    pub(super) fn maybe<T>(&mut self, value: Option<T>, add: impl FnOnce(&mut Sheet, T)) {
        match value {
            Some(value) => add(self, value),
            None => self.cells.push(Cell::Null),
        }
    }

    fn stretch(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Stretch {
        let from = self.bytes.len();
        write(&mut self.bytes);
        Stretch { from, to: self.bytes.len() }
    }

    /// Its rows, which have so many values each.
    pub(super) fn rows(&self, values: usize) -> impl Iterator<Item = Cells<'_>> {
        debug_assert_eq!(self.cells.len() % values, 0, "every row has so many");
        self.cells.chunks_exact(values).map(|cells| Cells { cells, bytes: &self.bytes })
    }
}

/// Values of a sheet that go to one statement.
#[derive(Clone, Copy)]
pub(super) struct Cells<'a> {
    cells: &'a [Cell],
    bytes: &'a [u8],
}

impl Cells<'_> {
    /// Runs a statement with these values; says how many rows it changed.
    pub(super) fn run(self, statement: &mut CachedStatement<'_>) -> Result<usize, StoreError> {
        for (place, cell) in self.cells.iter().enumerate() {
            let bytes = |Stretch { from, to }| &self.bytes[from..to];
            let bound = match *cell {
                Cell::Null => statement.raw_bind_parameter(place + 1, Null),
                Cell::Int(value) => statement.raw_bind_parameter(place + 1, value),
                Cell::Text(at) => statement.raw_bind_parameter(place + 1, Text(bytes(at))),
                Cell::Blob(at) => statement.raw_bind_parameter(place + 1, bytes(at)),
            };
            bound.map_err(failed)?;
        }
        statement.raw_execute().map_err(failed)
    }
}

/// Bytes that were a text before they came to a sheet.
struct Text<'a>(&'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

impl SqliteRows<'_> {
    /// Inserts the rows of a sheet, whose values are in the order of the columns.
    pub(super) fn insert_all(&self, into: &InsertSpec, sheet: &Sheet) -> Result<(), StoreError> {
        let mut left = sheet.cells.as_slice();
        debug_assert_eq!(left.len() % into.columns.len(), 0, "every row has a value for each column");
        for width in WIDTHS {
            let values = width * into.columns.len();
            if left.len() < values {
                continue;
            }
            let mut statement = self.prepare(&into.sql(width))?;
            while let Some((cells, later)) = left.split_at_checked(values) {
                Cells { cells, bytes: &sheet.bytes }.run(statement.raw())?;
                left = later;
            }
        }
        Ok(())
    }
}
