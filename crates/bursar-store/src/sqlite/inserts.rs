//! Many new rows with few statements: to begin and to end one costs SQLite half of what a row costs.

use rusqlite::{CachedStatement, ToSql};

use crate::error::StoreError;
use crate::sqlite::error::failed;
use crate::sqlite::rows::SqliteRows;

/// Rows of one statement: as many as there are left, the widest first.
const WIDTHS: [usize; 3] = [16, 4, 1];

/// Where rows go, with a place for each of their values.
pub(super) struct Into {
    pub(super) table: &'static str,
    pub(super) columns: &'static [&'static str],
}

impl Into {
    fn sql(&self, rows: usize) -> String {
        let row = format!("({})", vec!["?"; self.columns.len()].join(", "));
        format!("INSERT INTO {} ({}) VALUES {}", self.table, self.columns.join(", "), vec![row; rows].join(", "))
    }
}

/// The values of a statement, one after the other.
pub(super) struct Values<'s, 'c> {
    statement: &'s mut CachedStatement<'c>,
    bound: usize,
}

impl Values<'_, '_> {
    pub(super) fn add(&mut self, value: impl ToSql) -> Result<(), StoreError> {
        self.bound += 1;
        self.statement.raw_bind_parameter(self.bound, value).map_err(failed)
    }
}

impl SqliteRows<'_> {
    /// Inserts the rows; `values` adds those of one, in the order of the columns.
    pub(super) fn insert_all<T>(
        &self,
        into: &Into,
        rows: &[T],
        mut values: impl FnMut(&T, &mut Values<'_, '_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut left = rows;
        for width in WIDTHS {
            if left.len() < width {
                continue;
            }
            let mut statement = self.prepare(&into.sql(width))?;
            while let Some((now, later)) = left.split_at_checked(width) {
                let mut bound = Values { statement: statement.raw(), bound: 0 };
                for row in now {
                    values(row, &mut bound)?;
                }
                bound.statement.raw_execute().map_err(failed)?;
                left = later;
            }
        }
        Ok(())
    }
}
