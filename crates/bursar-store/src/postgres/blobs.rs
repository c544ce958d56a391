//! Blobs and namespaces.

use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::id::BlobId;
use bursar_core::name::{Namespace, Tenant};
use bursar_core::page::{PageFill, PageItem};
use bursar_core::state::{BlobDigestKey, Change, NamespaceKey, Workspace};
use bursar_core::time::Time;
use uuid::Uuid;

use super::PostgresStore;
use super::conn::Conn;
use super::error::store_error;
use super::read::sql_limit;
use super::rows::{LockMode, PgRows, in_mode, index, missing, uuids};
use super::settings::settings_sql;
use super::statement::Statement;
use super::wall::{Reach, Step};
use crate::codec::{Packed, blob_state, from_json, stored_name, to_json};
use crate::error::StoreError;
use crate::figures::BlobFilter;
use crate::transaction::lock_order::Lock;
use crate::transaction::rows::Found;
use crate::verify::{JobCounts, PAGE, Report};

macro_rules! blobs {
    ($lock:literal) => {
        concat!(
            "SELECT w.n, b.ctid, clock_timestamp(), b.data FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, n)
             CROSS JOIN LATERAL (SELECT b.ctid, b.data FROM bursar.blobs b WHERE b.id = w.id",
            $lock,
            ") b"
        )
    };
}

const INSERT_BLOBS: &str = "INSERT INTO bursar.blobs (id, tenant, namespace, state, at, data) SELECT @";
const PUT_BLOBS: &str = "INSERT INTO bursar.blobs (id, tenant, namespace, state, at, data) SELECT @
    ON CONFLICT (id) DO UPDATE SET state = EXCLUDED.state, at = EXCLUDED.at, data = EXCLUDED.data";
const DELETE_BLOBS: &str = "DELETE FROM bursar.blobs WHERE ctid = ANY (ARRAY(
        SELECT b.ctid FROM (SELECT @) AS w(id)
        CROSS JOIN LATERAL (SELECT b.ctid FROM bursar.blobs b WHERE b.id = w.id OFFSET 0) b))";
const INSERT_DIGESTS: &str = "INSERT INTO bursar.blob_digests (tenant, namespace, digest, blob) SELECT @
    ON CONFLICT DO NOTHING";
const PUT_DIGESTS: &str = "INSERT INTO bursar.blob_digests (tenant, namespace, digest, blob) SELECT @
    ON CONFLICT (tenant, namespace, digest) DO UPDATE SET blob = EXCLUDED.blob";
const DELETE_DIGESTS: &str = "DELETE FROM bursar.blob_digests WHERE ctid = ANY (ARRAY(
        SELECT d.ctid FROM (SELECT @) AS w(tenant, namespace, digest)
        CROSS JOIN LATERAL (
            SELECT d.ctid FROM bursar.blob_digests d
            WHERE d.tenant = w.tenant AND d.namespace = w.namespace AND d.digest = w.digest OFFSET 0) d))";
const PUT_NAMESPACES: &str = "INSERT INTO bursar.namespaces (tenant, namespace, data) SELECT @
    ON CONFLICT (tenant, namespace) DO UPDATE SET data = EXCLUDED.data";

impl PgRows<'_> {
    /// Locks blobs, in order of ids.
    pub(super) async fn fetch_blobs(&mut self, ids: &[BlobId]) -> Result<Found<BlobId, Blob>, StoreError> {
        let exists = "SELECT b.id FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT b.id FROM bursar.blobs b WHERE b.id = w.id OFFSET 0) b";
        let ids = uuids(ids, |id| id.0);
        let mut found = Vec::with_capacity(ids.len());
        for (mode, ids) in self.in_lock_order(&ids, |id| Lock::Blob(BlobId(id.as_u128()))) {
            let rows = self.fetch_by_id::<Blob>(in_mode!(mode, blobs), ids).await?;
            found.extend(rows.into_iter().map(|(id, _, blob)| (id, blob)));
        }
        let blocked = self.find_locked(exists, missing(&ids, found.iter().map(|(id, _)| *id))).await?;
        Ok(Found {
            rows: found.into_iter().map(|(id, blob)| (BlobId(id), blob)).collect(),
            blocked: blocked.into_iter().map(BlobId).collect(),
        })
    }

    /// Returns the blobs that are found by digests, without locking them.
    pub(super) async fn fetch_blob_digests(
        &mut self,
        keys: &[BlobDigestKey],
    ) -> Result<Vec<(BlobDigestKey, BlobId)>, StoreError> {
        let rows: Vec<(i64, Uuid)> = sqlx::query_as(
            "SELECT w.n, d.blob
             FROM unnest($1::text[], $2::text[], $3::bytea[]) WITH ORDINALITY AS w(tenant, namespace, digest, n)
             CROSS JOIN LATERAL (
                 SELECT d.blob FROM bursar.blob_digests d
                 WHERE d.tenant = w.tenant AND d.namespace = w.namespace AND d.digest = w.digest OFFSET 0) d",
        )
        .bind(keys.iter().map(|(tenant, ..)| tenant.as_str()).collect::<Vec<_>>())
        .bind(keys.iter().map(|(_, namespace, _)| namespace.as_str()).collect::<Vec<_>>())
        .bind(keys.iter().map(|(.., digest)| digest.0.to_vec()).collect::<Vec<_>>())
        .fetch_all(&mut self.conn)
        .await
        .map_err(|e| self.statement_error(e))?;
        Ok(rows.into_iter().map(|(n, blob)| (keys[index(n)].clone(), BlobId(blob.as_u128()))).collect())
    }

    /// Returns namespaces that have rules; locks them if `locked`.
    pub(super) async fn fetch_namespaces(
        &mut self,
        keys: &[NamespaceKey],
        locked: bool,
    ) -> Result<Vec<(NamespaceKey, NamespaceState)>, StoreError> {
        let names = keys.iter().map(|(tenant, namespace)| (tenant.as_str(), namespace.as_str())).unzip();
        let found = self.fetch_settings(&settings_sql!("namespaces", "namespace"), "namespace", names, locked).await?;
        Ok(found.into_iter().map(|(n, namespace)| (keys[n].clone(), namespace)).collect())
    }
}

/// Adds the parts that write blobs, their digests and namespaces.
pub(super) fn write(statement: &mut Statement, ws: &Workspace) {
    let (mut new, mut other, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
    for (id, change) in ws.blobs.changes() {
        match change {
            Change::Insert(blob) => new.push(blob),
            Change::Update(blob) => other.push(blob),
            Change::Delete => deleted.push(Uuid::from_u128(id.0)),
        }
    }
    new.sort_unstable_by_key(|blob| blob.id);
    statement.part(INSERT_BLOBS, &new, columns);
    statement.part(PUT_BLOBS, &other, columns);
    statement.part(DELETE_BLOBS, &deleted, |part, rows| part.array(rows.iter().copied()));
    write_digests(statement, ws);
    let namespaces = ws.namespaces.changes().filter_map(|(key, change)| match change {
        Change::Insert(row) | Change::Update(row) => Some((key, row)),
        Change::Delete => None,
    });
    let mut namespaces: Vec<_> = namespaces.collect();
    namespaces.sort_unstable_by_key(|(key, _)| *key);
    statement.part(PUT_NAMESPACES, &namespaces, |part, rows| {
        part.array(rows.iter().map(|(key, _)| key.0.as_str()));
        part.array(rows.iter().map(|(key, _)| key.1.as_str()));
        part.array(rows.iter().map(|(_, row)| to_json(*row)));
    });
}

/// Writes the digests by which blobs are found. If another transaction has inserted the same one, the batch is decided again.
fn write_digests(statement: &mut Statement, ws: &Workspace) {
    let (mut listed, mut relisted, mut unlisted) = (Vec::new(), Vec::new(), Vec::new());
    for (key, change) in ws.blob_digests.changes() {
        match change {
            Change::Insert(blob) => listed.push((key, *blob)),
            // The batch has locked the blob that was listed before.
            Change::Update(blob) => relisted.push((key, *blob)),
            Change::Delete => unlisted.push(key),
        }
    }
    listed.sort_unstable();
    statement.counted_part(INSERT_DIGESTS, &listed, digest_columns);
    statement.part(PUT_DIGESTS, &relisted, digest_columns);
    statement.part(DELETE_DIGESTS, &unlisted, |part, rows| {
        part.array(rows.iter().map(|key| key.0.as_str()));
        part.array(rows.iter().map(|key| key.1.as_str()));
        part.array(rows.iter().map(|key| key.2.0.to_vec()));
    });
}

fn digest_columns(part: &mut Statement, rows: &[(&BlobDigestKey, BlobId)]) {
    part.array(rows.iter().map(|(key, _)| key.0.as_str()));
    part.array(rows.iter().map(|(key, _)| key.1.as_str()));
    part.array(rows.iter().map(|(key, _)| key.2.0.to_vec()));
    part.array(rows.iter().map(|(_, blob)| Uuid::from_u128(blob.0)));
}

fn columns(part: &mut Statement, rows: &[&Blob]) {
    part.array(rows.iter().map(|blob| Uuid::from_u128(blob.id.0)));
    part.array(rows.iter().map(|blob| blob.tenant.as_str()));
    part.array(rows.iter().map(|blob| blob.namespace.as_str()));
    part.array(rows.iter().map(|blob| blob_state(blob.state)));
    part.array(rows.iter().map(|blob| blob.maintained_at().micros()));
    part.array(rows.iter().map(|blob| blob.pack()));
}

impl PostgresStore {
    /// Lists the blobs of a tenant that match a filter, after an id, or before it if the newest come first.
    pub(super) async fn read_blobs(
        &self,
        tenant: &Tenant,
        filter: &BlobFilter,
        after: Option<BlobId>,
        limit: usize,
    ) -> Result<Vec<Blob>, StoreError> {
        let sql = match (&filter.namespace, filter.newest_first) {
            (Some(_), false) => {
                "SELECT data FROM bursar.blobs WHERE tenant = $1 AND namespace = $2 AND id > $3 ORDER BY id LIMIT $4"
            }
            (Some(_), true) => {
                "SELECT data FROM bursar.blobs WHERE tenant = $1 AND namespace = $2 AND id < $3
                 ORDER BY id DESC LIMIT $4"
            }
            (None, false) => {
                "SELECT data FROM bursar.blobs WHERE tenant = $1 AND $2::text IS NULL AND id > $3 ORDER BY id LIMIT $4"
            }
            (None, true) => {
                "SELECT data FROM bursar.blobs WHERE tenant = $1 AND $2::text IS NULL AND id < $3
                 ORDER BY id DESC LIMIT $4"
            }
        };
        let first = if filter.newest_first { u128::MAX } else { 0 };
        let rows: Vec<Vec<u8>> = sqlx::query_scalar(sql)
            .bind(tenant.as_str())
            .bind(filter.namespace.as_ref().map(Namespace::as_str))
            .bind(Uuid::from_u128(after.map_or(first, |after| after.0)))
            .bind(sql_limit(limit))
            .fetch_all(self.read(Reach::Tenant(tenant)).await?.conn())
            .await
            .map_err(store_error)?;
        cut(&rows, limit)
    }

    /// Lists the blobs of all tenants after an id.
    pub(super) async fn read_all_blobs(&self, after: Option<BlobId>, limit: usize) -> Result<Vec<Blob>, StoreError> {
        let after = Uuid::from_u128(after.map_or(0, |after| after.0));
        let mut conn = self.read(Reach::Nothing).await?;
        self.enter_step(&mut conn.conn(), Step::after_id("blobs", after, limit)).await?;
        let rows: Vec<Vec<u8>> = sqlx::query_scalar("SELECT data FROM bursar.blobs WHERE id > $1 ORDER BY id LIMIT $2")
            .bind(after)
            .bind(sql_limit(limit))
            .fetch_all(conn.conn())
            .await
            .map_err(store_error)?;
        cut(&rows, limit)
    }

    pub(super) async fn read_namespace(&self, key: &NamespaceKey) -> Result<Option<NamespaceState>, StoreError> {
        let data: Option<String> =
            sqlx::query_scalar("SELECT data FROM bursar.namespaces WHERE tenant = $1 AND namespace = $2")
                .bind(key.0.as_str())
                .bind(key.1.as_str())
                .fetch_optional(self.read(Reach::Tenant(&key.0)).await?.conn())
                .await
                .map_err(store_error)?;
        data.map(|data| from_json("namespace", &data)).transpose()
    }

    /// Lists the namespaces of a tenant that have rules, after a name.
    pub(super) async fn read_namespaces(
        &self,
        tenant: &Tenant,
        after: Option<&Namespace>,
        limit: usize,
    ) -> Result<Vec<(Namespace, NamespaceState)>, StoreError> {
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT namespace, data FROM bursar.namespaces WHERE tenant = $1 AND namespace > $2
             ORDER BY namespace LIMIT $3",
        )
        .bind(tenant.as_str())
        .bind(after.map_or("", Namespace::as_str))
        .bind(sql_limit(limit))
        .fetch_all(self.read(Reach::Tenant(tenant)).await?.conn())
        .await
        .map_err(store_error)?;
        rows.into_iter()
            .map(|(name, data)| Ok((stored_name("namespace", name)?, from_json("namespace", &data)?)))
            .collect()
    }

    /// Lists blobs that are due: to be doomed, or to have their bytes deleted.
    pub(super) async fn read_due_blobs(&self, limit: usize) -> Result<Vec<Blob>, StoreError> {
        let mut conn = self.read(Reach::Nothing).await?;
        let now = self.time(&mut conn.conn()).await?;
        self.enter_step(&mut conn.conn(), Step::due("due_blobs", now, limit)).await?;
        let rows: Vec<Vec<u8>> = sqlx::query_scalar(
            "SELECT data FROM bursar.blobs WHERE at < 9223372036854775807 AND at <= $1 ORDER BY at, id LIMIT $2",
        )
        .bind(now.micros())
        .bind(sql_limit(limit))
        .fetch_all(conn.conn())
        .await
        .map_err(store_error)?;
        cut(&rows, limit)
    }
}

/// Reads a blob.
pub(super) async fn read_blob(conn: &mut Conn<'_>, id: BlobId) -> Result<Option<Blob>, StoreError> {
    let data: Option<Vec<u8>> = sqlx::query_scalar("SELECT data FROM bursar.blobs WHERE id = $1")
        .bind(Uuid::from_u128(id.0))
        .fetch_optional(conn)
        .await
        .map_err(store_error)?;
    data.map(|data| Blob::unpack(&data)).transpose()
}

/// Unpacks blobs until a page is full.
fn cut(rows: &[Vec<u8>], limit: usize) -> Result<Vec<Blob>, StoreError> {
    let (mut page, mut found) = (PageFill::new(limit), Vec::with_capacity(rows.len()));
    for data in rows {
        if page.is_full() {
            break;
        }
        let blob = Blob::unpack(data)?;
        page.add(blob.bytes());
        found.push(blob);
    }
    Ok(found)
}

/// Checks that blobs are found by their columns and digests, and that their references are counted right, in the snapshot that the jobs
/// were counted in.
pub(super) async fn check(
    store: &PostgresStore,
    conn: &mut Conn<'_>,
    jobs: &JobCounts,
    report: &mut Report,
) -> Result<(), StoreError> {
    let mut after = Uuid::nil();
    loop {
        let rows: Vec<(Uuid, i16, i64, Vec<u8>)> =
            sqlx::query_as("SELECT id, state, at, data FROM bursar.blobs WHERE id > $1 ORDER BY id LIMIT $2")
                .bind(after)
                .bind(PAGE as i64)
                .fetch_all(&mut *conn)
                .await
                .map_err(store_error)?;
        let Some((last, ..)) = rows.last() else { break };
        after = *last;
        let mut page = Vec::with_capacity(rows.len());
        for (_, state, at, data) in rows {
            page.push(((state, Time::from_micros(at)), Blob::unpack(&data)?));
        }
        let keys: Vec<BlobDigestKey> = page.iter().filter_map(|(_, blob)| blob.digest_key()).collect();
        let found = PgRows::new(conn.reborrow(), store, LockMode::Read).fetch_blob_digests(&keys).await?;
        for (columns, blob) in &page {
            let key = blob.digest_key();
            let found = found.iter().find(|(found, _)| Some(found) == key.as_ref()).map(|(_, blob)| *blob);
            report.check_blob(blob, *columns, found, jobs);
        }
    }
    let missing: Vec<Uuid> = sqlx::query_scalar(
        "SELECT d.blob FROM bursar.blob_digests d
         WHERE NOT EXISTS (SELECT FROM bursar.blobs b WHERE b.id = d.blob) LIMIT 100",
    )
    .fetch_all(&mut *conn)
    .await
    .map_err(store_error)?;
    missing.into_iter().for_each(|blob| report.check_missing_blob(BlobId(blob.as_u128())));
    Ok(())
}
