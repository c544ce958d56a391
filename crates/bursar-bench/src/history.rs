//! Generated history: settled holds with postings and journal rows of the last weeks, written in bulk.
//!
//! One hold is placed and settled through Bursar and serves as the template. `rows` settled holds get their own ids and
//! times and are spread evenly over the scopes, with one posting each; ten of them share a journal row, a copy of the
//! template's. Postings come in pairs at the same time that cancel each other, so that balances do not change and `verify`
//! finds no violation. Only a replay of the journal is not possible.

mod postgres;
mod sqlite;

use std::time::Duration;

use bursar::{Bursar, Hold, HoldId, IdSource, Scope, Time};
use bursar_core::id::uuid_v7;

use crate::engine::Database;
use crate::error::BenchError;
use crate::plan::Keys;
use crate::subject::ScatteredIds;

/// Settled holds per journal row.
const SHARED: u64 = 10;
/// The age of the oldest row, in microseconds.
const REACH_MICROS: i64 = 28 * 86_400_000_000;
/// The units of each posting, positive or negative.
const AMOUNT: i64 = 1_000;
/// The first sequence number of postings, above all that Bursar assigns.
const POSTINGS_FROM: i64 = 1 << 40;

/// Fills a database while Bursar has it open but receives no requests.
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
    held.commit(AMOUNT).await.map_err(bursar::Error::from)?;
    bursar.ledger().credit(&scopes[0], AMOUNT, None).await?;
    let position = bursar.health().await?.position;
    match database {
        Database::Sqlite(file) => {
            let conn = file.connect()?;
            let stored = sqlite::stored_hold(&conn, id)?;
            let history = History::new(&stored, scopes, rows, keys)?;
            tokio::task::block_in_place(|| sqlite::fill(&conn, &history, position))
        }
        Database::Postgres(named) => {
            let mut conn = named.connect().await?;
            let stored = postgres::stored_hold(&mut conn, id).await?;
            let history = History::new(&stored, scopes, rows, keys)?;
            postgres::fill(&mut conn, &history, position).await
        }
    }
}

/// The rows to generate.
struct History<'a> {
    /// The template hold, and the first byte of its stored form, which is the format version.
    template: Hold,
    version: u8,
    scopes: &'a [Scope],
    /// The ids of the holds, in order.
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

impl History<'_> {
    fn new<'a>(stored: &[u8], scopes: &'a [Scope], rows: u64, keys: Keys) -> Result<History<'a>, BenchError> {
        let wrong = || BenchError::Failed("the stored format of holds is unknown to the history generator".into());
        let (&version, rest) = stored.split_first().ok_or_else(wrong)?;
        let (mut template, added): (Hold, _) = postcard::take_from_bytes(rest).map_err(|_| wrong())?;
        (template.on_expiry, template.ended_at, template.blob) = postcard::from_bytes(added).map_err(|_| wrong())?;
        let rows = i64::try_from(rows).map_err(|_| wrong())?;
        let (start, step) = (template.placed_at.micros() - REACH_MICROS, REACH_MICROS / (rows + 1));
        let mut random_ids = ScatteredIds::new(2);
        let mut ids: Vec<u128> = (0..rows)
            .map(|number| match keys {
                Keys::Time => uuid_v7(Time::from_micros(start + number * step), number as u128),
                Keys::Random => random_ids.next_id(Time::MIN),
            })
            .collect();
        // Both engines insert fastest in key order; later requests see no difference.
        ids.sort_unstable();
        let history = History { template, version, scopes, ids, start, step };
        // A changed format must not go unnoticed.
        if history.encode(&history.template)? != stored { Err(wrong()) } else { Ok(history) }
    }

    fn encode(&self, hold: &Hold) -> Result<Vec<u8>, BenchError> {
        let failed = |error: postcard::Error| BenchError::Failed(error.to_string());
        let row = postcard::to_extend(hold, vec![self.version]).map_err(failed)?;
        postcard::to_extend(&(hold.on_expiry, hold.ended_at, hold.blob), row).map_err(failed)
    }

    fn settled(&self, number: usize) -> Result<Settled, BenchError> {
        let (id, scope) = (self.ids[number], &self.scopes[number % self.scopes.len()]);
        let placed_at = self.start + number as i64 * self.step;
        let mut hold = self.template.clone();
        (hold.id, hold.placed_at) = (HoldId(id), Time::from_micros(placed_at));
        hold.expires_at = Time::from_micros(placed_at + 60_000_000);
        hold.life_until = hold.expires_at.max(hold.life_until);
        hold.ended_at = Some(hold.placed_at);
        hold.charges.iter_mut().for_each(|charge| charge.scope = scope.clone());
        Ok(Settled { id, expires_at: hold.expires_at.micros(), data: self.encode(&hold)? })
    }

    /// Postings in the order of their keys: scope by scope, pair by pair. The last of an odd number has no units.
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

    /// Returns the number of journal rows.
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
