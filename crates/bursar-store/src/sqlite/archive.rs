//! The archive of the journal: rows to archive, segments, and the rows that segments have.

use async_trait::async_trait;
use bursar_core::blob::Sha256Digest;
use bursar_core::id::BatchId;
use bursar_core::page::PageFill;
use bursar_core::payload::Payload;
use bursar_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::store_error;
use super::rows::{get_id, get_time, id};
use super::writer::Shared;
use super::{SqliteStore, payloads, rebuild};
use crate::error::StoreError;
use crate::segment::{ArchivedRow, Segment};
use crate::store::{Archive, ArchivedRows, CANDIDATES_MAX, Journaled, follows, keys_of, prunable};

#[async_trait]
impl Archive for SqliteStore {
    async fn database_id(&self) -> Result<u128, StoreError> {
        if let Some(known) = self.in_snapshot(|_, conn| database_id(conn)).await? {
            return Ok(known);
        }
        let create = |shared: &Shared, conn: &Connection| {
            let new =
                shared.setup.ids.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next_id(shared.clock.now());
            let insert = "INSERT INTO bursar_meta VALUES ('database', ?1) ON CONFLICT DO NOTHING";
            conn.execute(insert, [format!("{new:032x}")]).map_err(store_error)?;
            database_id(conn)
        };
        let created = self.writer()?.call(move |writer| writer.transaction(create)).await?;
        created.ok_or_else(|| StoreError::corrupt("database id", "it is missing"))
    }

    async fn archivable(&self, after: u64, before: Time, bytes: usize) -> Result<Vec<ArchivedRow>, StoreError> {
        self.in_snapshot(move |shared, conn| archivable(shared, conn, after, before, bytes)).await
    }

    async fn keep_payloads(&self, rows: &[ArchivedRow], payloads: &[(u128, Payload)]) -> Result<bool, StoreError> {
        let (rows, payloads) = (rows.to_vec(), payloads.to_vec());
        let work = move |_: &Shared, conn: &Connection| payloads::keep(conn, &rows, &payloads);
        self.writer()?.call(move |writer| writer.transaction(work)).await
    }

    async fn record_segment(&self, segment: &Segment) -> Result<bool, StoreError> {
        let segment = segment.clone();
        let record = move |_: &Shared, conn: &Connection| {
            if !follows(&segment, last_segment(conn)?.as_ref()) {
                return Ok(false);
            }
            insert(conn, &segment).map(|()| true)
        };
        self.writer()?.call(move |writer| writer.transaction(record)).await
    }

    async fn prune_journal(&self, limit: usize) -> Result<usize, StoreError> {
        let work = move |_: &Shared, conn: &Connection| prune(conn, limit);
        self.writer()?.call(move |writer| writer.transaction(work)).await
    }

    async fn restore_segment(&self, segment: &Segment, rows: Vec<ArchivedRow>) -> Result<bool, StoreError> {
        let segment = segment.clone();
        let work = move |_: &Shared, conn: &Connection| restore(conn, &segment, &rows);
        self.writer()?.call(move |writer| writer.transaction(work)).await
    }

    async fn list_segments(&self, after: u64, limit: usize) -> Result<Vec<Segment>, StoreError> {
        let sql = select("WHERE last_position > ?1 ORDER BY last_position LIMIT ?2");
        self.in_snapshot(move |shared, conn| {
            let after = i64::try_from(after).unwrap_or(i64::MAX);
            shared.rows(conn).all(&sql, params![after, limit as i64], segment)
        })
        .await
    }

    async fn last_segment(&self) -> Result<Option<Segment>, StoreError> {
        self.in_snapshot(|_, conn| last_segment(conn)).await
    }

    async fn segments_with(&self, wanted: BatchId) -> Result<Vec<Segment>, StoreError> {
        // Ids are roughly in order, so the first segments that end at or after the id are the ones that may have it.
        let sql = select("WHERE greatest_id >= ?1 ORDER BY greatest_id LIMIT ?2");
        let found = self
            .in_snapshot(move |shared, conn| {
                shared.rows(conn).all(&sql, params![id(wanted.0), CANDIDATES_MAX as i64], segment)
            })
            .await?;
        Ok(found.into_iter().filter(|segment| segment.ids.0 <= wanted).collect())
    }

    async fn read_archived(&self, archived: Vec<ArchivedRow>, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        self.in_snapshot(move |shared, conn| {
            let (rows, mut page, mut found) = (shared.rows(conn), PageFill::new(limit), Vec::new());
            for row in archived {
                if page.is_full() {
                    break;
                }
                let journaled = Journaled { position: row.position, batch: rows.batch_of(&row)? };
                page.add(bursar_core::page::PageItem::bytes(&journaled));
                found.push(journaled);
            }
            Ok(found)
        })
        .await
    }

    async fn rebuild_from(&self, archived: ArchivedRows) -> Result<u64, StoreError> {
        let work = move |shared: &Shared, conn: &Connection| rebuild::rebuild(shared, conn, archived);
        self.writer()?.call(move |writer| writer.transaction(work)).await
    }
}

/// Lists rows that may be archived.
fn archivable(
    shared: &Shared,
    conn: &Connection,
    after: u64,
    before: Time,
    bytes: usize,
) -> Result<Vec<ArchivedRow>, StoreError> {
    let sql = "SELECT position, at, count, prev, entries FROM bursar_journal
        WHERE position > ?1 AND position < (SELECT max(position) FROM bursar_journal) ORDER BY position";
    let rows = shared.rows(conn);
    let (mut found, mut size) = (Vec::new(), 0);
    let mut statement = conn.prepare_cached(sql).map_err(store_error)?;
    let mut selected = statement.query([i64::try_from(after).unwrap_or(i64::MAX)]).map_err(store_error)?;
    while size < bytes
        && let Some(row) = selected.next().map_err(store_error)?
    {
        let text = |column| row.get::<_, String>(column).map_err(store_error);
        let position: i64 = row.get(0).map_err(store_error)?;
        let row = ArchivedRow {
            position: position as u64,
            id: BatchId(position as u128),
            at: get_time(row, 1).map_err(store_error)?,
            count: row.get(2).map_err(store_error)?,
            prev: text(3)?,
            entries: text(4)?,
        };
        if row.at >= before || answers_key(&rows, &row)? {
            break;
        }
        size += row.bytes();
        found.push(row);
    }
    Ok(found)
}

/// Returns whether an idempotency key is answered from a row.
fn answers_key(rows: &super::rows::SqliteRows<'_>, row: &ArchivedRow) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM bursar_keys WHERE tenant = ?1 AND key = ?2 AND batch = ?3";
    for (tenant, key) in keys_of(row)? {
        if rows.one(sql, params![tenant.as_str(), key.as_str(), id(row.id.0)], |_| Ok(()))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes the oldest rows that recorded segments have, but never the last row.
fn prune(conn: &Connection, limit: usize) -> Result<usize, StoreError> {
    let until = prunable(last_segment(conn)?.map(|segment| segment.last)) as i64;
    let delete = "DELETE FROM bursar_journal WHERE position IN (
        SELECT position FROM bursar_journal
        WHERE position <= ?1 AND position < (SELECT max(position) FROM bursar_journal) ORDER BY position LIMIT ?2)";
    conn.prepare_cached(delete).and_then(|mut delete| delete.execute(params![until, limit as i64])).map_err(store_error)
}

/// Puts the rows of the last segment back, and forgets the segment.
fn restore(conn: &Connection, segment: &Segment, rows: &[ArchivedRow]) -> Result<bool, StoreError> {
    let delete = "DELETE FROM bursar_journal_segments WHERE first_position = ?1 AND digest = ?2
        AND first_position = (SELECT max(first_position) FROM bursar_journal_segments)";
    if conn.execute(delete, params![segment.first as i64, segment.digest.0]).map_err(store_error)? == 0 {
        return Ok(false);
    }
    let insert = "INSERT INTO bursar_journal (position, at, count, prev, entries) VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT (position) DO NOTHING";
    let mut insert = conn.prepare_cached(insert).map_err(store_error)?;
    for ArchivedRow { position, at, count, prev, entries, .. } in rows {
        insert.execute(params![*position as i64, at.micros(), count, prev, entries]).map_err(store_error)?;
    }
    Ok(true)
}

/// The columns of a segment, in the order of the table.
pub(super) const COLUMNS: &str = "first_position, last_position, row_count, least_id, greatest_id, least_at, greatest_at, bytes, \
                                  head_bytes, plain_bytes, digest, previous";

fn select(which: &str) -> String {
    format!("SELECT {COLUMNS} FROM bursar_journal_segments {which}")
}

pub(super) fn segment(row: &Row<'_>) -> Result<Segment, StoreError> {
    let number = |column| row.get::<_, i64>(column).map(|number| number as u64).map_err(store_error);
    let digest = |column| row.get(column).map(Sha256Digest).map_err(store_error);
    let batch = |column| get_id(row, column).map(BatchId).map_err(store_error);
    let time = |column| get_time(row, column).map_err(store_error);
    Ok(Segment {
        first: number(0)?,
        last: number(1)?,
        rows: number(2)?,
        ids: (batch(3)?, batch(4)?),
        times: (time(5)?, time(6)?),
        bytes: number(7)?,
        head_bytes: number(8)?,
        plain_bytes: number(9)?,
        digest: digest(10)?,
        previous: digest(11)?,
    })
}

fn insert(conn: &Connection, segment: &Segment) -> Result<(), StoreError> {
    let Segment { first, last, rows, ids, times, bytes, head_bytes, plain_bytes, digest, previous } = segment;
    let insert = "INSERT INTO bursar_journal_segments VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let [first, last, rows, bytes, head_bytes, plain_bytes] =
        [first, last, rows, bytes, head_bytes, plain_bytes].map(|number| *number as i64);
    let (ids, times) = ([id(ids.0.0), id(ids.1.0)], [times.0.micros(), times.1.micros()]);
    let values = params![
        first,
        last,
        rows,
        ids[0],
        ids[1],
        times[0],
        times[1],
        bytes,
        head_bytes,
        plain_bytes,
        digest.0,
        previous.0
    ];
    conn.execute(insert, values).map(drop).map_err(store_error)
}

fn last_segment(conn: &Connection) -> Result<Option<Segment>, StoreError> {
    let sql = select("ORDER BY first_position DESC LIMIT 1");
    let mut statement = conn.prepare_cached(&sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    rows.next().map_err(store_error)?.map(segment).transpose()
}

pub(super) fn database_id(conn: &Connection) -> Result<Option<u128>, StoreError> {
    let sql = "SELECT value FROM bursar_meta WHERE key = 'database'";
    let text: Option<String> = conn.query_row(sql, [], |row| row.get(0)).optional().map_err(store_error)?;
    let parse = |text: String| u128::from_str_radix(&text, 16).map_err(|e| StoreError::corrupt("database id", e));
    text.map(parse).transpose()
}
