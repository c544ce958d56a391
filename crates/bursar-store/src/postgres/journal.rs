//! The journal and its positions: dense, in commit order, and never behind an open transaction.
//!
//! A writer leaves its row among the new ones. Whoever reads gives those that are committed their positions first, one
//! reader at a time. A transaction that is still open is not seen, and so gets a later position when it commits.

use bursar_core::bounds::PAGE_BYTES_MAX;
use bursar_core::event::Batch;
use bursar_core::id::BatchId;
use bursar_core::time::Time;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use super::error::store_error;
use super::payloads::{cut_page, payloads};
use super::{PostgresStore, READ_COMMITTED};
use crate::codec::from_json;
use crate::error::StoreError;
use crate::store::Journaled;

/// Whoever gives positions holds this advisory lock.
const SEQUENCER: i64 = 0x6275_7273_6172_0003;
/// Rows that get their positions in one transaction.
const STEP: i64 = 10_000;

/// A row of the journal with its position.
type Row = (i64, Uuid, i64, String, String);

impl PostgresStore {
    /// Gives a position to every transaction that is committed by now.
    pub(super) async fn sequence(&self, conn: &mut PgConnection) -> Result<(), StoreError> {
        loop {
            let waiting = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM bursar.journal_new)");
            let waiting: bool = waiting.fetch_one(&mut *conn).await.map_err(store_error)?;
            if !waiting || self.sequence_step(conn).await? < STEP.unsigned_abs() {
                return Ok(());
            }
        }
    }

    async fn sequence_step(&self, conn: &mut PgConnection) -> Result<u64, StoreError> {
        let mut tx = conn.begin_with(READ_COMMITTED).await.map_err(store_error)?;
        // In a statement of its own: the next one must see what the one before us did.
        let lock = sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(SEQUENCER);
        lock.execute(&mut *tx).await.map_err(store_error)?;
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
        .bind(STEP)
        .execute(&mut *tx)
        .await
        .map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        Ok(moved.rows_affected())
    }

    pub(super) async fn read_journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        let mut conn = self.acquire().await?;
        self.sequence(&mut conn).await?;
        page(&mut conn, after, limit).await
    }

    pub(super) async fn read_batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError> {
        let mut conn = self.acquire().await?;
        self.sequence(&mut conn).await?;
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT o.position, j.id, j.at, j.prev, j.entries
             FROM bursar.journal j JOIN bursar.journal_order o ON o.id = j.id WHERE j.id = $1",
        )
        .bind(Uuid::from_u128(id.0))
        .fetch_all(&mut *conn)
        .await
        .map_err(store_error)?;
        Ok(journaled(&mut conn, rows, 1).await?.pop())
    }

    /// The last position, and the instant of its event.
    pub(super) async fn last_position(&self) -> Result<(u64, Option<Time>), StoreError> {
        let mut conn = self.acquire().await?;
        self.sequence(&mut conn).await?;
        let last: Option<(i64, i64)> = sqlx::query_as(
            "SELECT o.position + o.count - 1, j.at
             FROM (SELECT * FROM bursar.journal_order ORDER BY position DESC LIMIT 1) o
             JOIN bursar.journal j ON j.id = o.id",
        )
        .fetch_optional(&mut *conn)
        .await
        .map_err(store_error)?;
        Ok(last.map_or((0, None), |(position, at)| (position.unsigned_abs(), Some(Time::from_micros(at)))))
    }
}

/// Rows that have events after a position, in order. A reader may ask from the middle of a row.
pub(super) async fn page(conn: &mut PgConnection, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
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
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .bind(PAGE_BYTES_MAX as i64)
    .fetch_all(&mut *conn)
    .await
    .map_err(store_error)?;
    journaled(conn, rows, limit).await
}

/// Reads rows, with the payloads that are kept beside the journal: as many as go onto one page.
async fn journaled(conn: &mut PgConnection, rows: Vec<Row>, limit: usize) -> Result<Vec<Journaled>, StoreError> {
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
    cut_page(conn, &mut found, limit, |row| row.batch.detached()).await.map_err(store_error)?;
    let detached: Vec<Uuid> = found.iter_mut().flat_map(|row| row.batch.detached()).map(Uuid::from_u128).collect();
    if !detached.is_empty() {
        let kept = payloads(conn, &detached).await.map_err(store_error)?;
        found.iter_mut().for_each(|row| row.batch.attach_payloads(|id| kept.get(&id).cloned()));
    }
    Ok(found)
}
