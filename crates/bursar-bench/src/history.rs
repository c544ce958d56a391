//! A past: settled holds with their postings and journal rows of the last weeks, written in bulk.
//!
//! One hold is placed and settled through Bursar itself, and everything else is made like it. `rows` settled holds get
//! ids and instants of their own and are spread evenly over the scopes, with a posting each; ten of them share a row of
//! the journal, a copy of the model's. Postings come in pairs of the same instant that cancel each other out, so that
//! every balance is what it was, and `verify` still finds the books in order. Only the journal cannot be replayed.

mod postgres;
mod sqlite;

use std::time::Duration;

use bursar::{Bursar, Hold, HoldId, IdSource, Scope, Time};
use bursar_core::id::uuid_v7;

use crate::engine::Database;
use crate::error::BenchError;
use crate::plan::Keys;
use crate::subject::Scattered;

/// Settled holds that share a row of the journal.
const SHARED: u64 = 10;
/// How far back it goes.
const REACH_MICROS: i64 = 28 * 86_400_000_000;
/// What each posting comes to, in one direction or the other.
const AMOUNT: i64 = 1_000;
/// Numbers of postings above all that Bursar gives out.
const POSTINGS_FROM: i64 = 1 << 40;

/// Fills a database on which Bursar runs, and nobody asks meanwhile.
pub(crate) async fn fill(
    bursar: &Bursar,
    database: &Database,
    scopes: &[Scope],
    rows: u64,
    keys: Keys,
) -> Result<(), BenchError> {
    if rows == 0 {
        return Ok(());
    }
    let held = bursar.ledger().hold(&scopes[0], AMOUNT, Duration::from_secs(60)).await?;
    let id = held.id();
    held.commit(AMOUNT).await?;
    bursar.ledger().credit(&scopes[0], AMOUNT, None).await?;
    let position = bursar.health().await?.position;
    match database {
        Database::Sqlite(file) => {
            let conn = file.connect()?;
            let stored = sqlite::stored_hold(&conn, id)?;
            let past = Past::new(&stored, scopes, rows, keys)?;
            tokio::task::block_in_place(|| sqlite::fill(&conn, &past, position))
        }
        Database::Postgres(named) => {
            let mut conn = named.connect().await?;
            let stored = postgres::stored_hold(&mut conn, id).await?;
            let past = Past::new(&stored, scopes, rows, keys)?;
            postgres::fill(&mut conn, &past, position).await
        }
    }
}

/// What is made.
struct Past<'a> {
    /// A settled hold, and the first byte of its stored form, which says how the rest is to be read.
    model: Hold,
    version: u8,
    scopes: &'a [Scope],
    /// Their ids, in order.
    ids: Vec<u128>,
    start: i64,
    step: i64,
}

/// A settled hold as it is stored.
struct Settled {
    id: u128,
    expires_at: i64,
    data: Vec<u8>,
}

impl Past<'_> {
    fn new<'a>(stored: &[u8], scopes: &'a [Scope], rows: u64, keys: Keys) -> Result<Past<'a>, BenchError> {
        let wrong = || BenchError::Failed("holds are stored in a form that the filler does not know".into());
        let (&version, rest) = stored.split_first().ok_or_else(wrong)?;
        let model: Hold = postcard::from_bytes(rest).map_err(|_| wrong())?;
        let rows = i64::try_from(rows).map_err(|_| wrong())?;
        let (start, step) = (model.placed_at.micros() - REACH_MICROS, REACH_MICROS / (rows + 1));
        let mut scattered = Scattered::new(2);
        let mut ids: Vec<u128> = (0..rows)
            .map(|number| match keys {
                Keys::Time => uuid_v7(Time::from_micros(start + number * step), number as u128),
                Keys::Random => scattered.next_id(Time::MIN),
            })
            .collect();
        // In the order of their keys both engines take them fastest; what is asked for later is the same.
        ids.sort_unstable();
        let past = Past { model, version, scopes, ids, start, step };
        // A form that changed must not go unnoticed.
        if past.packed(&past.model)? != stored { Err(wrong()) } else { Ok(past) }
    }

    fn packed(&self, hold: &Hold) -> Result<Vec<u8>, BenchError> {
        postcard::to_extend(hold, vec![self.version]).map_err(|error| BenchError::Failed(error.to_string()))
    }

    fn settled(&self, number: usize) -> Result<Settled, BenchError> {
        let (id, scope) = (self.ids[number], &self.scopes[number % self.scopes.len()]);
        let placed_at = self.start + number as i64 * self.step;
        let mut hold = self.model.clone();
        (hold.id, hold.placed_at) = (HoldId(id), Time::from_micros(placed_at));
        hold.expires_at = Time::from_micros(placed_at + 60_000_000);
        hold.life_until = hold.expires_at.max(hold.life_until);
        hold.charges.iter_mut().for_each(|charge| charge.scope = scope.clone());
        Ok(Settled { id, expires_at: hold.expires_at.micros(), data: self.packed(&hold)? })
    }

    /// Postings in the order of their keys: scope by scope, pair by pair. The last of an odd number stands for nothing.
    fn postings(&self) -> impl Iterator<Item = Posted<'_>> {
        let (rows, scopes) = (self.ids.len(), self.scopes.len());
        self.scopes.iter().enumerate().flat_map(move |(place, scope)| {
            let numbers = (place..rows).step_by(scopes);
            let count = numbers.len();
            numbers.enumerate().map(move |(nth, number)| Posted {
                scope,
                at: self.start + (number - (nth % 2) * scopes) as i64 * self.step,
                seq: POSTINGS_FROM + number as i64,
                amount: match nth % 2 {
                    0 if nth + 1 == count => 0,
                    0 => AMOUNT,
                    _ => -AMOUNT,
                },
                hold: self.ids[number],
            })
        })
    }

    /// Rows of the journal.
    fn journal_rows(&self) -> usize {
        self.ids.len().div_ceil(SHARED as usize)
    }
}

/// A posting.
struct Posted<'a> {
    scope: &'a Scope,
    at: i64,
    seq: i64,
    amount: i64,
    hold: u128,
}
