//! The textbook design: lock, sum the spend of the last thirty days, insert, commit. Each operation is one transaction.
//!
//! It has what a careful author would use: an index that covers the sum, prepared statements, integer keys, one connection per
//! caller (at most 50), and the engine's default durability. It has no journal.

mod postgres;
mod sqlite;

use std::time::Duration;

use bursar::{Clock, SystemClock};

use crate::engine::{Database, DatabaseHost};
use crate::error::BenchError;
use crate::load::Round;
use crate::plan::{Bench, Measurement};

/// The most connections, whatever the number of callers.
pub(crate) const CONNECTIONS_MAX: usize = 50;
/// The length of the window, in microseconds.
const WINDOW_MICROS: i64 = 30 * 86_400_000_000;
/// Grants prepared per second of a round, more than any round used.
const GRANTS_PER_SECOND: f64 = 20_000.0;

/// The textbook design on a temporary database.
pub(crate) enum Textbook {
    Sqlite(sqlite::Textbook),
    Postgres(postgres::Textbook),
}

/// The operations of a round.
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

    /// Returns the scope of an operation.
    fn scope(&self, number: usize) -> String {
        format!("agent:{:06}", number % self.scopes)
    }
}

impl Textbook {
    /// Creates the tables and fills them with spend of the last thirty days, evenly over the scopes.
    pub(crate) async fn open(home: &mut DatabaseHost, line: &Measurement) -> Result<Textbook, BenchError> {
        let work = Work { bench: line.bench, callers: line.callers, scopes: line.scopes };
        Ok(match home.database().await? {
            Database::Sqlite(file) => Textbook::Sqlite(sqlite::Textbook::new(file, work, line.history)?),
            Database::Postgres(named) => Textbook::Postgres(postgres::Textbook::new(named, work, line.history).await?),
        })
    }

    /// Runs one round; also returns how many operations failed because the database was busy.
    pub(crate) async fn round(&mut self, time: Duration) -> Result<(Round, usize), BenchError> {
        let grants = (time.as_secs_f64() * GRANTS_PER_SECOND) as usize + 1_000;
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

/// Returns the start of the window.
fn window_start() -> i64 {
    now() - WINDOW_MICROS
}

/// Returns the time of the oldest row of history and the distance of the rows: all stay within the window during a run.
fn history_times(rows: u64) -> (i64, i64) {
    let day = 86_400_000_000;
    let step = (WINDOW_MICROS - 2 * day) / i64::try_from(rows.max(1)).unwrap_or(i64::MAX);
    (window_start() + day, step)
}
