//! One statement of several parts, each of which writes rows of one kind from arrays, a column each.

use std::fmt::Write;

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgHasArrayType};
use sqlx::{Arguments, Encode, Postgres, Type};

/// What a statement fails with that was finished to stand alone, and did not find things as it must.
pub(super) const SPOILED: &str = "22P02";
/// What the server's log says of it: it is said by a text that is no number.
const ANEW: &str = "no error: Bursar does a batch anew, as somebody else changed rows it had seen,";

/// A statement in the making. The same parts give the same text, so that the server's plan is found again.
#[derive(Default)]
pub(super) struct Statement {
    sql: String,
    arguments: PgArguments,
    failed: Option<BoxDynError>,
    /// The columns of the part that is being added, and of its single value.
    arrays: String,
    single: String,
    parts: usize,
    /// Names of the parts whose rows are counted, and how many rows these must write.
    counted: Vec<usize>,
    expected: i64,
}

impl Statement {
    /// Adds a part if there are rows for it: `@` in its text stands for its columns, `#` for a single value.
    ///
    /// The columns are taken out of their arrays in the list of what is selected, a row at a time. In `FROM` the server would
    /// write each of them to a store of its own first, and join these: twice the time.
    pub(super) fn part<R>(&mut self, sql: &str, rows: &[R], columns: impl FnOnce(&mut Statement, &[R])) {
        if rows.is_empty() {
            return;
        }
        self.arrays.clear();
        columns(self, rows);
        let (before, after) = sql.split_once('@').expect("a part has arrays");
        let begin = if self.parts == 0 { "WITH" } else { "," };
        let written = write!(self.sql, "{begin} p{} AS ({before}{}", self.parts, self.arrays);
        written.expect("text takes text");
        match after.split_once('#') {
            Some((between, after)) => self.sql.extend([between, &self.single, after]),
            None => self.sql.push_str(after),
        }
        self.sql.push(')');
        self.parts += 1;
    }

    /// Adds a part each of whose rows must be there to be written.
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

    /// A column of the part.
    pub(super) fn array<'q, C>(&mut self, column: impl Iterator<Item = C>)
    where
        C: Encode<'q, Postgres> + Type<Postgres> + PgHasArrayType,
    {
        let place = self.bind(column.collect::<Vec<C>>());
        let between = if self.arrays.is_empty() { "" } else { ", " };
        write!(self.arrays, "{between}unnest(${place})").expect("text takes text");
    }

    /// The single value of the part.
    pub(super) fn one<'q, T: Encode<'q, Postgres> + Type<Postgres>>(&mut self, value: T) {
        self.single = format!("${}", self.bind(value));
    }

    fn bind<'q, T: Encode<'q, Postgres> + Type<Postgres>>(&mut self, value: T) -> usize {
        if let Err(error) = self.arguments.add(value) {
            self.failed.get_or_insert(error);
        }
        self.arguments.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts == 0
    }

    /// The text, its arguments, and the number of rows it must come to if all that are counted are there.
    pub(super) fn finish(self) -> (String, Result<PgArguments, BoxDynError>, i64) {
        let sum = self.sum();
        let Statement { mut sql, arguments, failed, expected, .. } = self;
        write!(sql, " SELECT {sum}").expect("text takes text");
        (sql, failed.map_or(Ok(arguments), Err), expected)
    }

    /// The text and its arguments of a statement that fails, and has done nothing, where a condition is not met that is looked at
    /// first, or where rows that are counted are not there: by `SPOILED`.
    pub(super) fn finish_alone(mut self, condition: &str) -> (String, Result<PgArguments, BoxDynError>) {
        let expected = self.bind(self.expected);
        let sum = self.sum();
        let Statement { mut sql, arguments, failed, .. } = self;
        // The clock keeps the planner from making a number of the words beforehand.
        let written = write!(
            sql,
            " SELECT CASE WHEN CASE WHEN {condition} THEN {sum} = ${expected} ELSE false END THEN 1::bigint
              ELSE ('{ANEW} ' || clock_timestamp())::bigint END"
        );
        written.expect("text takes text");
        (sql, failed.map_or(Ok(arguments), Err))
    }

    /// How many rows were written of those that are counted.
    fn sum(&self) -> String {
        let counts = self.counted.iter().map(|part| format!(" + (SELECT count(*) FROM p{part})"));
        std::iter::once("0::bigint".to_owned()).chain(counts).collect()
    }
}
