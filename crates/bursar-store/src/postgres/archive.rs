//! The archive of the journal: rows to archive, segments, and the rows that segments have. Archiving needs the owner of the tables, because
//! no other role may delete rows of the journal.

use async_trait::async_trait;
use bursar_core::blob::Sha256Digest;
use bursar_core::bounds::PAGE_BYTES_MAX;
use bursar_core::id::{BatchId, IdSource};
use bursar_core::payload::Payload;
use bursar_core::time::Time;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::commit::configure_writer;
use super::conn::Conn;
use super::error::{commit_error, store_error};
use super::journal::{self, archived_row};
use super::read::sql_limit;
use super::wall::Reach;
use super::{PostgresStore, READ_COMMITTED};
use crate::error::StoreError;
use crate::segment::{ArchivedRow, Segment};
use crate::store::{Archive, ArchivedRows, CANDIDATES_MAX, Journaled, follows, keys_of, prunable};

/// The most rows that one statement reads.
const ROWS_PER_STEP: i64 = 1_000;

/// The columns of a segment, in the order of the table.
type Row = (i64, i64, i64, Uuid, Uuid, i64, i64, i64, i64, i64, Vec<u8>, Vec<u8>);

impl PostgresStore {
    /// Keeps other transactions from changing which rows are archived. Each of these reads the last segment and then acts on it: without the
    /// lock, one could delete rows that another has just put back. Readers are not blocked.
    async fn lock_segments(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        configure_writer(conn.reborrow(), self.options.key_patience).await.map_err(store_error)?;
        let lock = "LOCK TABLE bursar.journal_segments IN SHARE ROW EXCLUSIVE MODE";
        sqlx::query(lock).execute(conn).await.map(drop).map_err(store_error)
    }
}

#[async_trait]
impl Archive for PostgresStore {
    async fn database_id(&self) -> Result<u128, StoreError> {
        let mut conn = self.acquire().await?;
        if let Some(known) = database_id(&mut conn.conn()).await? {
            return Ok(known);
        }
        let new = self.ids().next_id(self.time(&mut conn.conn()).await?);
        drop(conn);
        let mut tx = self.begin(READ_COMMITTED, Reach::All).await?;
        configure_writer(tx.conn(), self.options.key_patience).await.map_err(store_error)?;
        let insert = "INSERT INTO bursar.meta (key, value) VALUES ('database', $1) ON CONFLICT DO NOTHING";
        sqlx::query(insert).bind(format!("{new:032x}")).execute(tx.conn()).await.map_err(store_error)?;
        let created = database_id(&mut tx.conn()).await?;
        tx.commit().await.map_err(commit_error)?;
        created.ok_or_else(|| StoreError::corrupt("database id", "it is missing"))
    }

    async fn archivable(&self, after: u64, before: Time, bytes: usize) -> Result<Vec<ArchivedRow>, StoreError> {
        self.assign_positions(&mut self.acquire().await?.conn()).await?;
        // The keys of all tenants say which rows are needed.
        let mut conn = self.read(Reach::All).await?;
        let (mut found, mut size, mut after) = (Vec::new(), 0, i64::try_from(after).unwrap_or(i64::MAX));
        while size < bytes {
            let page = read_rows(&mut conn.conn(), after, before).await?;
            let Some(last) = page.last() else { break };
            after = last.last() as i64;
            let needed = first_needed(&mut conn.conn(), &page).await?;
            for row in page {
                // Rows of nodes whose clocks differ may be out of the order of time.
                if row.at >= before || needed.is_some_and(|first| row.position >= first) {
                    return Ok(found);
                }
                size += row.bytes();
                found.push(row);
                if size >= bytes {
                    break;
                }
            }
        }
        Ok(found)
    }

    async fn keep_payloads(&self, rows: &[ArchivedRow], payloads: &[(u128, Payload)]) -> Result<bool, StoreError> {
        self.keep_detached(rows, payloads).await
    }

    async fn record_segment(&self, segment: &Segment) -> Result<bool, StoreError> {
        let mut tx = self.begin(READ_COMMITTED, Reach::All).await?;
        self.lock_segments(&mut tx.conn()).await?;
        let last = last_segment(&mut tx.conn()).await?;
        if !follows(segment, last.as_ref()) {
            return Ok(false);
        }
        // Another node may record a segment at the same time. It has the same first position.
        let Segment { first, last, rows, ids, times, bytes, head_bytes, plain_bytes, digest, previous } = segment;
        let insert = "INSERT INTO bursar.journal_segments VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
            ON CONFLICT (first_position) DO NOTHING";
        let inserted = sqlx::query(insert)
            .bind(*first as i64)
            .bind(*last as i64)
            .bind(*rows as i64)
            .bind(Uuid::from_u128(ids.0.0))
            .bind(Uuid::from_u128(ids.1.0))
            .bind(times.0.micros())
            .bind(times.1.micros())
            .bind(*bytes as i64)
            .bind(*head_bytes as i64)
            .bind(*plain_bytes as i64)
            .bind(&digest.0[..])
            .bind(&previous.0[..])
            .execute(tx.conn())
            .await
            .map_err(store_error)?;
        tx.commit().await.map_err(commit_error)?;
        Ok(inserted.rows_affected() == 1)
    }

    async fn prune_journal(&self, limit: usize) -> Result<usize, StoreError> {
        let mut tx = self.begin(READ_COMMITTED, Reach::All).await?;
        self.lock_segments(&mut tx.conn()).await?;
        let until = prunable(last_segment(&mut tx.conn()).await?.map(|segment| segment.last));
        // The rows are locked without skipping any: if two nodes deleted different rows at the same time, a reader could miss the
        // rows of the slower one between those that are gone and those that stay.
        let delete = "WITH old AS (
                 SELECT o.position, o.id FROM bursar.journal_order o
                 WHERE o.position <= $2
                   AND o.position < (SELECT max(p.position) FROM bursar.journal_order p)
                 ORDER BY o.position LIMIT $1 FOR UPDATE OF o),
             gone AS (DELETE FROM bursar.journal j USING old WHERE j.id = old.id)
             DELETE FROM bursar.journal_order o USING old WHERE o.position = old.position";
        let delete = sqlx::query(delete).bind(sql_limit(limit)).bind(until as i64);
        let deleted = delete.execute(tx.conn()).await.map_err(store_error)?;
        tx.commit().await.map_err(commit_error)?;
        Ok(usize::try_from(deleted.rows_affected()).unwrap_or(usize::MAX))
    }

    async fn restore_segment(&self, segment: &Segment, rows: Vec<ArchivedRow>) -> Result<bool, StoreError> {
        let mut tx = self.begin(READ_COMMITTED, Reach::All).await?;
        self.lock_segments(&mut tx.conn()).await?;
        let delete = "DELETE FROM bursar.journal_segments WHERE first_position = $1 AND digest = $2
            AND first_position = (SELECT max(first_position) FROM bursar.journal_segments)";
        let delete = sqlx::query(delete).bind(segment.first as i64).bind(&segment.digest.0[..]);
        if delete.execute(tx.conn()).await.map_err(store_error)?.rows_affected() == 0 {
            return Ok(false);
        }
        for part in rows.chunks(ROWS_PER_STEP as usize) {
            insert_rows(&mut tx.conn(), part).await?;
        }
        tx.commit().await.map_err(commit_error)?;
        Ok(true)
    }

    async fn list_segments(&self, after: u64, limit: usize) -> Result<Vec<Segment>, StoreError> {
        let sql = "SELECT * FROM bursar.journal_segments WHERE last_position > $1 ORDER BY last_position LIMIT $2";
        let rows: Vec<Row> = sqlx::query_as(sql)
            .bind(i64::try_from(after).unwrap_or(i64::MAX))
            .bind(sql_limit(limit))
            .fetch_all(self.acquire().await?.conn())
            .await
            .map_err(store_error)?;
        rows.into_iter().map(segment).collect()
    }

    async fn last_segment(&self) -> Result<Option<Segment>, StoreError> {
        last_segment(&mut self.acquire().await?.conn()).await
    }

    async fn segments_with(&self, id: BatchId) -> Result<Vec<Segment>, StoreError> {
        // Ids are roughly in order, so the first segments that end at or after the id are the ones that may have it.
        let sql = "SELECT * FROM bursar.journal_segments WHERE greatest_id >= $1 ORDER BY greatest_id LIMIT $2";
        let rows: Vec<Row> = sqlx::query_as(sql)
            .bind(Uuid::from_u128(id.0))
            .bind(sql_limit(CANDIDATES_MAX))
            .fetch_all(self.acquire().await?.conn())
            .await
            .map_err(store_error)?;
        let found = rows.into_iter().map(segment).collect::<Result<Vec<_>, _>>()?;
        Ok(found.into_iter().filter(|segment| segment.ids.0 <= id).collect())
    }

    async fn read_archived(&self, rows: Vec<ArchivedRow>, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        let mut conn = self.read(Reach::Journal).await?;
        journal::unarchived(&mut conn.conn(), rows, limit, self.wall.stands()).await
    }

    async fn rebuild_from(&self, archived: ArchivedRows) -> Result<u64, StoreError> {
        self.rebuild_tables(archived).await
    }
}

/// Reads the next rows up to the instant, as many as fit in a page of bytes, but never the last row of the journal.
async fn read_rows(conn: &mut Conn<'_>, after: i64, before: Time) -> Result<Vec<ArchivedRow>, StoreError> {
    let sql = AssertSqlSafe(format!(
        "SELECT r.position, r.id, r.at, r.prev, r.entries, r.count
         FROM (SELECT o.position, o.count, j.id, j.at, j.prev, j.entries,
                      sum(octet_length(j.entries)) OVER (ORDER BY o.position) - octet_length(j.entries) AS before
               FROM (SELECT o.position, o.id, o.count FROM bursar.journal_order o
                     WHERE o.position > $1 AND o.position < (SELECT max(p.position) FROM bursar.journal_order p)
                     ORDER BY o.position LIMIT {ROWS_PER_STEP}) o
               CROSS JOIN LATERAL (
                   SELECT j.id, j.at, j.prev, j.entries FROM bursar.journal j WHERE j.id = o.id OFFSET 0) j) r
         WHERE r.before < {PAGE_BYTES_MAX} ORDER BY r.position"
    ));
    let rows: Vec<(i64, Uuid, i64, String, String, i32)> =
        sqlx::query_as(sql).bind(after).fetch_all(conn).await.map_err(store_error)?;
    let rows = rows.into_iter().map(|(position, id, at, prev, entries, count)| {
        archived_row((position, id, at, prev, entries), count.unsigned_abs())
    });
    // The first row that is too young is kept, so that the caller sees the end.
    let mut young = false;
    Ok(rows.take_while(|row| !std::mem::replace(&mut young, row.at >= before)).collect())
}

/// Puts rows back into the journal. Rows that it still has stay as they are.
async fn insert_rows(conn: &mut Conn<'_>, rows: &[ArchivedRow]) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = rows.iter().map(|row| Uuid::from_u128(row.id.0)).collect();
    let counts: Vec<i32> = rows.iter().map(|row| row.count as i32).collect();
    let insert = "INSERT INTO bursar.journal (id, at, count, prev, entries)
        SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::text[], $5::text[]) ON CONFLICT (id) DO NOTHING";
    sqlx::query(insert)
        .bind(&ids)
        .bind(rows.iter().map(|row| row.at.micros()).collect::<Vec<_>>())
        .bind(&counts)
        .bind(rows.iter().map(|row| row.prev.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.entries.as_str()).collect::<Vec<_>>())
        .execute(&mut *conn)
        .await
        .map_err(store_error)?;
    let insert = "INSERT INTO bursar.journal_order (position, id, count)
        SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::integer[]) ON CONFLICT (position) DO NOTHING";
    sqlx::query(insert)
        .bind(rows.iter().map(|row| row.position as i64).collect::<Vec<_>>())
        .bind(&ids)
        .bind(&counts)
        .execute(conn)
        .await
        .map_err(store_error)?;
    Ok(())
}

/// Returns the position of the first row from which an idempotency key is answered.
async fn first_needed(conn: &mut Conn<'_>, rows: &[ArchivedRow]) -> Result<Option<u64>, StoreError> {
    let (mut tenants, mut keys, mut batches, mut positions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        for (tenant, key) in keys_of(row)? {
            tenants.push(tenant.to_string());
            keys.push(key.to_string());
            batches.push(Uuid::from_u128(row.id.0));
            positions.push(row.position as i64);
        }
    }
    if keys.is_empty() {
        return Ok(None);
    }
    let first: Option<i64> = sqlx::query_scalar(
        "SELECT min(w.position) FROM unnest($1::text[], $2::text[], $3::uuid[], $4::bigint[]) AS w(tenant, key, batch, position)
         CROSS JOIN LATERAL (SELECT k.batch FROM bursar.keys k WHERE k.tenant = w.tenant AND k.key = w.key OFFSET 0) k
         WHERE k.batch = w.batch",
    )
    .bind(tenants)
    .bind(keys)
    .bind(batches)
    .bind(positions)
    .fetch_one(conn)
    .await
    .map_err(store_error)?;
    Ok(first.map(i64::unsigned_abs))
}

async fn last_segment(conn: &mut Conn<'_>) -> Result<Option<Segment>, StoreError> {
    let sql = "SELECT * FROM bursar.journal_segments ORDER BY first_position DESC LIMIT 1";
    let row: Option<Row> = sqlx::query_as(sql).fetch_optional(conn).await.map_err(store_error)?;
    row.map(segment).transpose()
}

fn segment(row: Row) -> Result<Segment, StoreError> {
    let (first, last, rows, least, greatest, earliest, latest, bytes, head_bytes, plain_bytes, digest, previous) = row;
    let parse = |digest: Vec<u8>| {
        let parsed = <[u8; 32]>::try_from(digest).map(Sha256Digest);
        parsed.map_err(|_| StoreError::corrupt("segment of the journal", "a digest does not have 32 bytes"))
    };
    Ok(Segment {
        first: first.unsigned_abs(),
        last: last.unsigned_abs(),
        rows: rows.unsigned_abs(),
        ids: (BatchId(least.as_u128()), BatchId(greatest.as_u128())),
        times: (Time::from_micros(earliest), Time::from_micros(latest)),
        bytes: bytes.unsigned_abs(),
        head_bytes: head_bytes.unsigned_abs(),
        plain_bytes: plain_bytes.unsigned_abs(),
        digest: parse(digest)?,
        previous: parse(previous)?,
    })
}

async fn database_id(conn: &mut Conn<'_>) -> Result<Option<u128>, StoreError> {
    let sql = "SELECT value FROM bursar.meta WHERE key = 'database'";
    let text: Option<String> = sqlx::query_scalar(sql).fetch_optional(conn).await.map_err(store_error)?;
    let parse = |text: String| u128::from_str_radix(&text, 16).map_err(|e| StoreError::corrupt("database id", e));
    text.map(parse).transpose()
}
