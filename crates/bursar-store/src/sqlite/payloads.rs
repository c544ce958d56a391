//! Payloads apart from the journal: keeping those of rows that are archived, and erasing all of a job or a grant.

use bursar_core::event::{Entry, Stream};
use bursar_core::id::{BatchId, JobId};
use bursar_core::payload::Payload;
use rusqlite::{Connection, OptionalExtension, params};

use super::error::store_error;
use super::rows::id;
use crate::codec::{from_json, to_json};
use crate::error::StoreError;
use crate::moving::marks::ERASURES;
use crate::segment::ArchivedRow;

const OWNERS: [&str; 3] = ["bursar_jobs", "bursar_ended_jobs", "bursar_grants"];

/// Stores payloads whose job or grant exists, if the rows they were taken from are unchanged.
pub(super) fn keep(conn: &Connection, rows: &[ArchivedRow], payloads: &[(u128, Payload)]) -> Result<bool, StoreError> {
    for row in rows {
        if entries(conn, row.id)?.as_ref() != Some(&row.entries) {
            return Ok(false);
        }
    }
    // A payload has the key of its job or grant, a result has another one.
    let owned = OWNERS.map(|table| format!("EXISTS (SELECT 1 FROM {table} WHERE id = ?3)")).join(" OR ");
    let insert = format!("INSERT INTO bursar_payloads (id, data) SELECT ?1, ?2 WHERE {owned} ON CONFLICT DO NOTHING");
    let mut insert = conn.prepare_cached(&insert).map_err(store_error)?;
    for (key, payload) in payloads {
        let owner = JobId::of_payload_key(*key).0;
        insert.execute(params![id(*key), payload.as_str(), id(owner)]).map_err(store_error)?;
    }
    Ok(true)
}

/// Deletes the payloads of jobs and grants, and overwrites those in rows of the journal. Returns whether there was anything.
pub(super) fn erase(conn: &Connection, of: &[Stream], rows: &[BatchId]) -> Result<bool, StoreError> {
    let (mut deleted, mut overwritten) = (false, false);
    for key in of.iter().flat_map(Stream::payload_keys) {
        let delete = "DELETE FROM bursar_payloads WHERE id = ?1";
        deleted |= conn.execute(delete, [id(key)]).map_err(store_error)? > 0;
    }
    for row in rows {
        let Some(stored) = entries(conn, *row)? else { continue };
        let mut recorded: Vec<Entry> = from_json("journal row", &stored)?;
        if Entry::erase(&mut recorded, of) {
            let update = "UPDATE bursar_journal SET entries = ?2 WHERE position = ?1";
            conn.execute(update, params![position(*row), to_json(&recorded)]).map_err(store_error)?;
            overwritten = true;
        }
    }
    if overwritten {
        let count = "INSERT INTO bursar_meta (key, value) VALUES (?1, '1')
            ON CONFLICT DO UPDATE SET value = CAST(value + 1 AS TEXT)";
        conn.execute(count, [ERASURES]).map_err(store_error)?;
    }
    Ok(deleted || overwritten)
}

/// Returns the entries of a row as they are stored, unless the row is archived.
fn entries(conn: &Connection, row: BatchId) -> Result<Option<String>, StoreError> {
    let select = "SELECT entries FROM bursar_journal WHERE position = ?1";
    let mut select = conn.prepare_cached(select).map_err(store_error)?;
    select.query_row([position(row)], |row| row.get(0)).optional().map_err(store_error)
}

/// Returns the position of a row: on SQLite it is the id of the transaction.
fn position(row: BatchId) -> i64 {
    i64::try_from(row.0).unwrap_or(i64::MAX)
}
