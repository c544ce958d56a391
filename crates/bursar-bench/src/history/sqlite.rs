//! Writing the history to SQLite with prepared statements in key order, in large transactions.

use bursar::HoldId;
use rusqlite::{Connection, params};

use super::History;
use crate::error::BenchError;

/// Rows per transaction: enough that fsyncs do not matter, and few enough for the write-ahead log.
const ROWS: usize = 100_000;

pub(super) fn stored_hold(conn: &Connection, id: HoldId) -> Result<Vec<u8>, BenchError> {
    let sql = "SELECT data FROM bursar_holds WHERE id = ?1";
    Ok(conn.query_row(sql, [id.0.to_be_bytes()], |row| row.get(0))?)
}

/// Writes the history. `position` is that of the last event in the journal.
pub(super) fn fill(conn: &Connection, history: &History<'_>, position: u64) -> Result<(), BenchError> {
    let mut numbers = 0..history.ids.len();
    let tenant = history.template.tenant.as_str();
    in_transactions(conn, || {
        let mut insert = conn.prepare_cached("INSERT INTO bursar_holds VALUES (?1, ?2, 1, ?3, ?4)")?;
        for number in numbers.by_ref().take(ROWS) {
            let hold = history.settled(number)?;
            insert.execute(params![hold.id.to_be_bytes(), tenant, hold.expires_at, hold.data])?;
        }
        Ok(numbers.is_empty())
    })?;
    let mut postings = history.postings().peekable();
    in_transactions(conn, || {
        let mut insert = conn.prepare_cached("INSERT INTO bursar_postings VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
        for posting in postings.by_ref().take(ROWS) {
            let hold = posting.hold.to_be_bytes();
            insert.execute(params![tenant, posting.scope.as_str(), posting.at, posting.seq, posting.amount, hold])?;
        }
        Ok(postings.peek().is_none())
    })?;
    let last: i64 = conn.query_row("SELECT max(position) FROM bursar_journal", [], |row| row.get(0))?;
    let count: i64 =
        conn.query_row("SELECT count FROM bursar_journal WHERE position = ?1", [last], |row| row.get(0))?;
    let first = i64::try_from(position).unwrap_or(i64::MAX) + 1;
    let mut rows = 0..history.journal_rows();
    in_transactions(conn, || {
        let copy =
            "INSERT INTO bursar_journal SELECT ?1, at, count, prev, entries FROM bursar_journal WHERE position = ?2";
        let mut copy = conn.prepare_cached(copy)?;
        for number in rows.by_ref().take(ROWS) {
            copy.execute([first + number as i64 * count, last])?;
        }
        Ok(rows.is_empty())
    })?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// Runs `step` in one transaction after the other until it returns true.
fn in_transactions(conn: &Connection, mut step: impl FnMut() -> Result<bool, BenchError>) -> Result<(), BenchError> {
    loop {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        let done = step()?;
        conn.execute_batch("COMMIT")?;
        if done {
            return Ok(());
        }
    }
}
