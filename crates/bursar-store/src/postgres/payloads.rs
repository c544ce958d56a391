//! Large payloads, which are stored once, in `bursar.payloads`, and not in the row of their job or grant nor in the journal.
//!
//! A payload above [`PAYLOAD_INLINE_BYTES`](bursar_core::bounds::PAYLOAD_INLINE_BYTES) is *detached*: its row and the journal contain a
//! marker ([`Payload::elsewhere`]). The key is the id of the job or grant, or [`JobId::result_key`](bursar_core::id::JobId::result_key)
//! for the result of a job. The payloads of rows that are archived are detached too, whatever their size. A detached payload is deleted with
//! its job or grant; it then reads as `null`.

use std::collections::{BTreeSet, HashMap};

use bursar_core::event::{Entry, Stream};
use bursar_core::id::{BatchId, JobId};
use bursar_core::page::{PageFill, PageItem};
use bursar_core::payload::Payload;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::commit::configure_writer;
use super::conn::Conn;
use super::error::{commit_error, store_error};
use super::wall::Reach;
use super::{PostgresStore, READ_COMMITTED};
use crate::codec::{PayloadRow, from_json, to_json};
use crate::error::StoreError;
use crate::moving::marks::ERASURES;
use crate::segment::ArchivedRow;

/// Loads detached payloads by their ids. Deleted ones are missing.
pub(super) async fn load_payloads(conn: &mut Conn<'_>, ids: &[Uuid]) -> Result<HashMap<u128, Payload>, sqlx::Error> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<(Uuid, String)> = sqlx::query_as(
        "SELECT p.id, p.data FROM unnest($1::uuid[]) AS w(id)
         CROSS JOIN LATERAL (SELECT p.id, p.data FROM bursar.payloads p WHERE p.id = w.id OFFSET 0) p",
    )
    .bind(ids)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|(id, data)| (id.as_u128(), Payload::trusted(&data))).collect())
}

/// Loads the sizes of detached payloads, in bytes.
pub(super) async fn load_payload_sizes(conn: &mut Conn<'_>, ids: &[Uuid]) -> Result<HashMap<u128, usize>, sqlx::Error> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<(Uuid, i32)> = sqlx::query_as(
        "SELECT p.id, octet_length(p.data) FROM unnest($1::uuid[]) AS w(id)
         CROSS JOIN LATERAL (SELECT p.id, p.data FROM bursar.payloads p WHERE p.id = w.id OFFSET 0) p",
    )
    .bind(ids)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|(id, bytes)| (id.as_u128(), bytes.unsigned_abs() as usize)).collect())
}

/// Truncates rows to one page. Counts the sizes of their detached payloads, before these are loaded.
pub(super) async fn cut_page<R: PageItem>(
    conn: &mut Conn<'_>,
    rows: &mut Vec<R>,
    limit: usize,
    detached: impl Fn(&mut R) -> Vec<u128>,
) -> Result<(), sqlx::Error> {
    let detached: Vec<Vec<u128>> = rows.iter_mut().map(detached).collect();
    let ids: Vec<Uuid> = detached.iter().flatten().copied().map(Uuid::from_u128).collect();
    let sizes = load_payload_sizes(conn, &ids).await?;
    let mut page = PageFill::new(limit);
    let end = rows.iter().zip(&detached).position(|(row, detached)| {
        let full = page.is_full();
        page.add(row.bytes() + detached.iter().filter_map(|id| sizes.get(id)).sum::<usize>());
        full
    });
    rows.truncate(end.unwrap_or(rows.len()));
    Ok(())
}

/// Loads the detached payloads of rows into them. A deleted payload becomes `null`.
pub(super) async fn attach_payloads<R: PayloadRow>(
    conn: &mut Conn<'_>,
    rows: &mut [R],
    id: impl Fn(&R) -> u128,
) -> Result<(), sqlx::Error> {
    let mut wanted = Vec::new();
    for row in rows.iter_mut() {
        if row.payload().is_elsewhere() {
            wanted.push(Uuid::from_u128(id(row)));
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let mut loaded = load_payloads(conn, &wanted).await?;
    for row in rows.iter_mut().filter_map(|row| row.payload().is_elsewhere().then_some(row)) {
        *row.payload() = loaded.remove(&id(row)).unwrap_or_default();
    }
    Ok(())
}

impl PostgresStore {
    /// Stores payloads whose job or grant exists, if the rows they were taken from are unchanged.
    pub(super) async fn keep_detached(
        &self,
        rows: &[ArchivedRow],
        payloads: &[(u128, Payload)],
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin(READ_COMMITTED, Reach::All).await?;
        configure_writer(tx.conn(), self.options.key_patience).await.map_err(store_error)?;
        // The lock lasts until the payloads are visible to a transaction that erases them.
        let lock = "SELECT j.id FROM unnest($1::uuid[], $2::text[]) AS w(id, entries)
            JOIN bursar.journal j ON j.id = w.id AND j.entries = w.entries ORDER BY j.id FOR SHARE OF j";
        let unchanged = sqlx::query(lock)
            .bind(rows.iter().map(|row| Uuid::from_u128(row.id.0)).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.entries.as_str()).collect::<Vec<_>>())
            .fetch_all(tx.conn())
            .await
            .map_err(store_error)?;
        if unchanged.len() < rows.len() {
            return Ok(false);
        }
        let owned = lock_owners(&mut tx.conn(), payloads).await.map_err(store_error)?;
        let owned = payloads.iter().filter(|(key, _)| owned.contains(&owner(*key)));
        let (keys, data): (Vec<Uuid>, Vec<&str>) =
            owned.map(|(key, payload)| (Uuid::from_u128(*key), payload.as_str())).unzip();
        let insert = "INSERT INTO bursar.payloads (id, data) SELECT * FROM unnest($1::uuid[], $2::text[])
            ON CONFLICT (id) DO NOTHING";
        sqlx::query(insert).bind(keys).bind(data).execute(tx.conn()).await.map_err(store_error)?;
        tx.commit().await.map_err(commit_error)?;
        Ok(true)
    }

    /// Deletes the payloads of jobs and grants, and overwrites those in rows of the journal. Returns whether there was anything. It needs the
    /// owner of the tables, because no other role may change the journal.
    pub(super) async fn erase(&self, of: &[Stream], rows: &[BatchId]) -> Result<bool, StoreError> {
        let mut tx = self.begin(READ_COMMITTED, Reach::All).await?;
        configure_writer(tx.conn(), self.options.key_patience).await.map_err(store_error)?;
        // Rows first: a transaction that detaches their payloads for the archive locks them too.
        let select = "SELECT id, entries FROM bursar.journal WHERE id = ANY ($1) ORDER BY id FOR UPDATE";
        let ids: Vec<Uuid> = rows.iter().map(|row| Uuid::from_u128(row.0)).collect();
        let found: Vec<(Uuid, String)> =
            sqlx::query_as(select).bind(ids).fetch_all(tx.conn()).await.map_err(store_error)?;
        let mut overwritten = false;
        for (id, entries) in found {
            let mut entries: Vec<Entry> = from_json("journal row", &entries)?;
            if Entry::erase(&mut entries, of) {
                let update = "UPDATE bursar.journal SET entries = $2 WHERE id = $1";
                sqlx::query(update).bind(id).bind(to_json(&entries)).execute(tx.conn()).await.map_err(store_error)?;
                overwritten = true;
            }
        }
        if overwritten {
            let count = "INSERT INTO bursar.meta AS m (key, value) VALUES ($1, '1')
                ON CONFLICT (key) DO UPDATE SET value = (m.value::bigint + 1)::text";
            sqlx::query(count).bind(ERASURES).execute(tx.conn()).await.map_err(store_error)?;
        }
        let keys: Vec<Uuid> = of.iter().flat_map(Stream::payload_keys).map(Uuid::from_u128).collect();
        let delete = sqlx::query("DELETE FROM bursar.payloads WHERE id = ANY ($1)").bind(keys);
        let deleted = delete.execute(tx.conn()).await.map_err(store_error)?;
        tx.commit().await.map_err(commit_error)?;
        Ok(overwritten || deleted.rows_affected() > 0)
    }
}

/// Returns the id of the job or the grant of a payload.
fn owner(key: u128) -> Uuid {
    Uuid::from_u128(JobId::of_payload_key(key).0)
}

/// Locks the jobs and grants of payloads that exist, and returns their ids. They cannot be deleted before the end of the transaction, and a
/// transaction that deletes them later sees their payloads.
async fn lock_owners(conn: &mut Conn<'_>, payloads: &[(u128, Payload)]) -> Result<BTreeSet<Uuid>, sqlx::Error> {
    let wanted: Vec<Uuid> = payloads.iter().map(|(key, _)| owner(*key)).collect::<BTreeSet<_>>().into_iter().collect();
    let mut found = BTreeSet::new();
    // Each statement sees what was committed before it. So a job is found that ends, or is retried, meanwhile.
    for table in ["jobs", "ended_jobs", "jobs", "grants"] {
        let lock = format!("SELECT id FROM bursar.{table} WHERE id = ANY ($1) ORDER BY id FOR KEY SHARE");
        let ids: Vec<Uuid> = sqlx::query_scalar(AssertSqlSafe(lock)).bind(&wanted).fetch_all(&mut *conn).await?;
        found.extend(ids);
    }
    Ok(found)
}
