//! The textbook design: lock, add up what was spent in the last thirty days, insert, commit. One transaction a caller.
//!
//! It gets what a careful author would give it: an index that covers the sum, prepared statements, numbers for keys, a
//! connection a caller (50 at most), and the engine's default durability. It keeps no journal.

mod postgres;
mod sqlite;

use std::time::Duration;

use bursar::{Clock, SystemClock};

use crate::engine::{Database, Home};
use crate::error::BenchError;
use crate::load::Round;
use crate::plan::{Bench, Measurement};

/// Connections at most, whatever the number of callers.
pub(crate) const CONNECTIONS_MAX: usize = 50;
/// How far back spend counts.
const WINDOW_MICROS: i64 = 30 * 86_400_000_000;
/// Grants that are there for each second of a round; no textbook design used as many.
const GRANTS_A_SECOND: f64 = 20_000.0;

/// The textbook design on a database of its own.
pub(crate) enum Textbook {
    Sqlite(sqlite::Textbook),
    Postgres(postgres::Textbook),
}

/// What is done, and on what.
#[derive(Clone, Debug)]
struct Work {
    bench: Bench,
    callers: usize,
    scopes: usize,
}

impl Work {
    fn connections(&self) -> usize {
        self.callers.min(CONNECTIONS_MAX)
    }

    /// The scope of an operation by its number.
    fn scope(&self, number: usize) -> String {
        format!("agent:{:06}", number % self.scopes)
    }
}

impl Textbook {
    /// Makes its tables and fills them with spend of the last thirty days, evenly over the scopes.
    pub(crate) async fn open(home: &mut Home, line: &Measurement) -> Result<Textbook, BenchError> {
        let work = Work { bench: line.bench, callers: line.callers, scopes: line.scopes };
        Ok(match home.database().await? {
            Database::Sqlite(file) => Textbook::Sqlite(sqlite::Textbook::new(file, work, line.history)?),
            Database::Postgres(named) => Textbook::Postgres(postgres::Textbook::new(named, work, line.history).await?),
        })
    }

    /// One round, and how many operations failed because the database was busy.
    pub(crate) async fn round(&mut self, time: Duration) -> Result<(Round, usize), BenchError> {
        let grants = (time.as_secs_f64() * GRANTS_A_SECOND) as usize + 1_000;
        match self {
            Textbook::Sqlite(textbook) => tokio::task::block_in_place(|| textbook.round(time, grants)),
            Textbook::Postgres(textbook) => Ok((textbook.round(time, grants).await?, 0)),
        }
    }

    pub(crate) async fn close(self) -> Database {
        match self {
            Textbook::Sqlite(textbook) => Database::Sqlite(textbook.close()),
            Textbook::Postgres(textbook) => Database::Postgres(textbook.close().await),
        }
    }
}

fn now() -> i64 {
    SystemClock.now().micros()
}

/// The instant from which spend counts.
fn window_start() -> i64 {
    now() - WINDOW_MICROS
}

/// When the oldest row of history was spent, and how far the rows are apart: all within the window, to the end of the run.
fn history_times(rows: u64) -> (i64, i64) {
    let day = 86_400_000_000;
    let step = (WINDOW_MICROS - 2 * day) / i64::try_from(rows.max(1)).unwrap_or(i64::MAX);
    (window_start() + day, step)
}
