//! The journal and its positions, which are dense and follow the order of commits.
//!
//! A batch inserts its row into `journal`, and its id and number of events into `journal_new`. It has no position yet: a position assigned
//! before the commit could become visible after a greater one. So positions are assigned after the commit, by the next reader or by
//! maintenance: one transaction at a time, under an advisory lock, moves the committed rows from `journal_new` to `journal_order`. A
//! transaction that is still open is not visible to it, gets a later position, and delays no reader.
//!
//! Within one such step rows are sorted by `seq`, an identity column. A batch takes its number after its locks. So a batch that depends on
//! an earlier one has a greater number, even if both get their positions in one step.

use bursar_core::bounds::PAGE_BYTES_MAX;
use bursar_core::event::Batch;
use bursar_core::id::BatchId;
use bursar_core::time::Time;
use uuid::Uuid;

use super::conn::Conn;
use super::error::store_error;
use super::payloads::{cut_page, load_payloads};
use super::read::sql_limit;
use super::wall::{Reach, TenantList, enter_tenants};
use super::{PostgresStore, READ_COMMITTED};
use crate::codec::from_json;
use crate::error::StoreError;
use crate::segment::ArchivedRow;
use crate::store::Journaled;

/// The advisory lock under which positions are assigned.
const POSITIONS_LOCK: i64 = 0x6275_7273_6172_0003;
/// The most rows that get their positions in one transaction.
const ROWS_PER_STEP: i64 = 10_000;

/// Position, id, instant, `prev` and `entries`.
pub(super) type Row = (i64, Uuid, i64, String, String);

impl PostgresStore {
    /// Assigns a position to every committed row that has none.
    pub(super) async fn assign_positions(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        loop {
            let any = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM bursar.journal_new)");
            let any: bool = any.fetch_one(&mut *conn).await.map_err(store_error)?;
            if !any || self.assign_positions_step(conn).await? < ROWS_PER_STEP.unsigned_abs() {
                return Ok(());
            }
        }
    }

    async fn assign_positions_step(&self, conn: &mut Conn<'_>) -> Result<u64, StoreError> {
        let mut tx = conn.begin(READ_COMMITTED).await.map_err(store_error)?;
        // A separate statement: the next one must see the positions that the previous holder of the lock assigned.
        let lock = sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(POSITIONS_LOCK);
        lock.execute(tx.conn()).await.map_err(store_error)?;
        let moved = sqlx::query(
            "WITH moved AS (
                 DELETE FROM bursar.journal_new WHERE seq <= (
                     SELECT max(n.seq) FROM (SELECT seq FROM bursar.journal_new ORDER BY seq LIMIT $1) n)
                 RETURNING seq, id, count),
             last AS (
                 SELECT coalesce((SELECT o.position + o.count FROM bursar.journal_order o
                                  ORDER BY o.position DESC LIMIT 1), 1) AS next)
             INSERT INTO bursar.journal_order (position, id, count)
             SELECT last.next + sum(moved.count) OVER (ORDER BY moved.seq) - moved.count, moved.id, moved.count
             FROM moved, last",
        )
        .bind(ROWS_PER_STEP)
        .execute(tx.conn())
        .await
        .map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        Ok(moved.rows_affected())
    }

    pub(super) async fn read_journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        let mut conn = self.acquire().await?;
        self.assign_positions(&mut conn.conn()).await?;
        let mut idle = conn.conn();
        let mut reading = self.read_on(&mut idle, Reach::Journal).await?;
        page(&mut reading.conn(), after, limit, self.wall.stands()).await
    }

    pub(super) async fn read_batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError> {
        let mut conn = self.acquire().await?;
        self.assign_positions(&mut conn.conn()).await?;
        let mut idle = conn.conn();
        let mut reading = self.read_on(&mut idle, Reach::Journal).await?;
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT o.position, j.id, j.at, j.prev, j.entries
             FROM bursar.journal j JOIN bursar.journal_order o ON o.id = j.id WHERE j.id = $1",
        )
        .bind(Uuid::from_u128(id.0))
        .fetch_all(reading.conn())
        .await
        .map_err(store_error)?;
        Ok(journaled(&mut reading.conn(), rows, 1, self.wall.stands()).await?.pop())
    }

    /// Returns the last position and the instant of its event.
    pub(super) async fn last_position(&self) -> Result<(u64, Option<Time>), StoreError> {
        let mut conn = self.acquire().await?;
        self.assign_positions(&mut conn.conn()).await?;
        let mut idle = conn.conn();
        let mut reading = self.read_on(&mut idle, Reach::Journal).await?;
        let last: Option<(i64, i64)> = sqlx::query_as(
            "SELECT o.position + o.count - 1, j.at
             FROM (SELECT * FROM bursar.journal_order ORDER BY position DESC LIMIT 1) o
             JOIN bursar.journal j ON j.id = o.id",
        )
        .fetch_optional(reading.conn())
        .await
        .map_err(store_error)?;
        Ok(last.map_or((0, None), |(position, at)| (position.unsigned_abs(), Some(Time::from_micros(at)))))
    }
}

/// Returns the rows that have events after a position, in order. The first row may also have events before it. With `walled`, row-level
/// security hides the payloads of tenants that the transaction has not named.
pub(super) async fn page(
    conn: &mut Conn<'_>,
    after: u64,
    limit: usize,
    walled: bool,
) -> Result<Vec<Journaled>, StoreError> {
    let rows: Vec<Row> = sqlx::query_as(
        "WITH first AS (
             SELECT coalesce((
                 SELECT CASE WHEN o.position + o.count > $1 + 1 THEN o.position END
                 FROM bursar.journal_order o WHERE o.position <= $1 ORDER BY o.position DESC LIMIT 1
             ), $1 + 1) AS position)
         SELECT r.position, r.id, r.at, r.prev, r.entries
         FROM (SELECT o.position, j.*,
                      sum(octet_length(j.entries)) OVER (ORDER BY o.position) - octet_length(j.entries) AS before
               FROM (SELECT o.position, o.id FROM bursar.journal_order o
                     WHERE o.position >= (SELECT position FROM first) ORDER BY o.position LIMIT $2) o
               CROSS JOIN LATERAL (SELECT j.* FROM bursar.journal j WHERE j.id = o.id OFFSET 0) j) r
         WHERE r.before < $3
         ORDER BY r.position",
    )
    .bind(i64::try_from(after).unwrap_or(i64::MAX - 1).min(i64::MAX - 1))
    .bind(sql_limit(limit))
    .bind(PAGE_BYTES_MAX as i64)
    .fetch_all(&mut *conn)
    .await
    .map_err(store_error)?;
    journaled(conn, rows, limit, walled).await
}

/// Decodes rows of a segment, truncates them to one page and loads their detached payloads.
pub(super) async fn unarchived(
    conn: &mut Conn<'_>,
    rows: Vec<ArchivedRow>,
    limit: usize,
    walled: bool,
) -> Result<Vec<Journaled>, StoreError> {
    let stored = rows
        .into_iter()
        .map(|row| (row.position as i64, Uuid::from_u128(row.id.0), row.at.micros(), row.prev, row.entries));
    journaled(conn, stored.collect(), limit, walled).await
}

/// Returns a row as a segment has it.
pub(super) fn archived_row((position, id, at, prev, entries): Row, count: u32) -> ArchivedRow {
    let (position, id, at) = (position.unsigned_abs(), BatchId(id.as_u128()), Time::from_micros(at));
    ArchivedRow { position, id, at, count, prev, entries }
}

/// Decodes rows, truncates them to one page and loads their detached payloads.
async fn journaled(
    conn: &mut Conn<'_>,
    rows: Vec<Row>,
    limit: usize,
    walled: bool,
) -> Result<Vec<Journaled>, StoreError> {
    let mut found = Vec::with_capacity(rows.len());
    for (position, id, at, prev, entries) in rows {
        let batch = Batch {
            id: BatchId(id.as_u128()),
            at: Time::from_micros(at),
            prev: from_json("journal row", &prev)?,
            entries: from_json("journal row", &entries)?,
        };
        found.push(Journaled { position: position.unsigned_abs(), batch });
    }
    if walled && found.iter_mut().any(|row| !row.batch.detached().is_empty()) {
        let entries = found.iter().flat_map(|row| &row.batch.entries);
        enter_tenants(conn, &TenantList::new(entries.map(|entry| &entry.context.tenant))).await?;
    }
    cut_page(conn, &mut found, limit, |row| row.batch.detached()).await.map_err(store_error)?;
    let detached: Vec<Uuid> = found.iter_mut().flat_map(|row| row.batch.detached()).map(Uuid::from_u128).collect();
    if !detached.is_empty() {
        let loaded = load_payloads(conn, &detached).await.map_err(store_error)?;
        found.iter_mut().for_each(|row| row.batch.attach_payloads(|id| loaded.get(&id).cloned()));
    }
    Ok(found)
}
