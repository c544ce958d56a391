//! A statement of several parts. Each part is a `WITH` query that writes rows of one kind, from one array for each column.

use std::fmt::Write;

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgHasArrayType};
use sqlx::{Arguments, Encode, Postgres, Type};

/// A statement under construction. The same parts make the same text, so that the server can reuse its prepared plan.
#[derive(Default)]
pub(super) struct Statement {
    sql: String,
    arguments: PgArguments,
    encode_error: Option<BoxDynError>,
    /// The placeholders of the arrays of the current part.
    arrays: String,
    /// The placeholder of the single value of the current part.
    single: String,
    parts: usize,
    /// The parts whose rows are counted.
    counted: Vec<usize>,
    /// How many rows the counted parts must write together.
    expected: i64,
}

impl Statement {
    /// Adds a part if there are rows for it. `@` in its text stands for the columns, `#` for a single value.
    ///
    /// The arrays are unnested in the select list. In `FROM` the server would materialize each of them and join the results, which
    /// takes twice as long.
    pub(super) fn part<R>(&mut self, sql: &str, rows: &[R], columns: impl FnOnce(&mut Statement, &[R])) {
        if rows.is_empty() {
            return;
        }
        self.arrays.clear();
        columns(self, rows);
        let (before, after) = sql.split_once('@').expect("a part has arrays");
        let begin = if self.parts == 0 { "WITH" } else { "," };
        let written = write!(self.sql, "{begin} p{} AS ({before}{}", self.parts, self.arrays);
        written.expect("writing to a string succeeds");
        match after.split_once('#') {
            Some((between, after)) => self.sql.extend([between, &self.single, after]),
            None => self.sql.push_str(after),
        }
        self.sql.push(')');
        self.parts += 1;
    }

    /// Adds a part that must write all of its rows; the rows it writes are counted.
    pub(super) fn counted_part<R>(&mut self, sql: &str, rows: &[R], columns: impl FnOnce(&mut Statement, &[R])) {
        if rows.is_empty() {
            return;
        }
        self.part(sql, rows, columns);
        self.sql.truncate(self.sql.len() - 1);
        self.sql.push_str(" RETURNING 1)");
        self.counted.push(self.parts - 1);
        self.expected += i64::try_from(rows.len()).unwrap_or(i64::MAX);
    }

    /// Adds a column to the current part.
    pub(super) fn array<'q, C>(&mut self, column: impl Iterator<Item = C>)
    where
        C: Encode<'q, Postgres> + Type<Postgres> + PgHasArrayType,
    {
        let number = self.bind(column.collect::<Vec<C>>());
        let between = if self.arrays.is_empty() { "" } else { ", " };
        write!(self.arrays, "{between}unnest(${number})").expect("writing to a string succeeds");
    }

    /// Sets the single value of the current part.
    pub(super) fn one<'q, T: Encode<'q, Postgres> + Type<Postgres>>(&mut self, value: T) {
        self.single = format!("${}", self.bind(value));
    }

    fn bind<'q, T: Encode<'q, Postgres> + Type<Postgres>>(&mut self, value: T) -> usize {
        if let Err(error) = self.arguments.add(value) {
            self.encode_error.get_or_insert(error);
        }
        self.arguments.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts == 0
    }

    /// Returns the text, its arguments, and the number that the statement must return if all counted rows were written.
    pub(super) fn finish(self) -> (String, Result<PgArguments, BoxDynError>, i64) {
        let count = self.written_count();
        let Statement { mut sql, arguments, encode_error, expected, .. } = self;
        write!(sql, " SELECT {count}").expect("writing to a string succeeds");
        (sql, encode_error.map_or(Ok(arguments), Err), expected)
    }

    /// The expression that counts the rows written by the counted parts.
    fn written_count(&self) -> String {
        let counts = self.counted.iter().map(|part| format!(" + (SELECT count(*) FROM p{part})"));
        std::iter::once("0::bigint".to_owned()).chain(counts).collect()
    }
}
