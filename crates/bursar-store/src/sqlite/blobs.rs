//! Blobs and namespaces.

use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::id::BlobId;
use bursar_core::name::{Namespace, Tenant};
use bursar_core::state::{BlobDigestKey, Change, NamespaceKey, Workspace};
use bursar_core::time::Time;
use rusqlite::{Connection, Row, params};

use crate::codec::{Packed, blob_state, from_json, stored_name, to_json};
use crate::error::StoreError;
use crate::figures::BlobFilter;
use crate::sqlite::error::store_error;
use crate::sqlite::rows::{SqliteRows, get_id, get_time, id, unpack};
use crate::sqlite::writer::Shared;
use crate::verify::{JobCounts, PAGE, Report};

impl SqliteRows<'_> {
    pub(super) fn read_blob(&self, blob: BlobId) -> Result<Option<Blob>, StoreError> {
        self.one("SELECT data FROM bursar_blobs WHERE id = ?1", [id(blob.0)], |row| unpack(row, 0))
    }

    pub(super) fn read_blob_digest(&self, key: &BlobDigestKey) -> Result<Option<BlobId>, StoreError> {
        let sql = "SELECT blob FROM bursar_blob_digests WHERE tenant = ?1 AND namespace = ?2 AND digest = ?3";
        let (tenant, namespace, digest) = key;
        self.one(sql, params![tenant.as_str(), namespace.as_str(), digest.0], |row| {
            get_id(row, 0).map(BlobId).map_err(store_error)
        })
    }

    pub(super) fn read_namespace(&self, key: &NamespaceKey) -> Result<Option<NamespaceState>, StoreError> {
        let sql = "SELECT data FROM bursar_namespaces WHERE tenant = ?1 AND namespace = ?2";
        self.one(sql, params![key.0.as_str(), key.1.as_str()], |row| {
            from_json("namespace", &row.get::<_, String>(0).map_err(store_error)?)
        })
    }

    /// Writes blobs, their digests and namespaces.
    pub(super) fn write_blobs(&self, ws: &Workspace) -> Result<(), StoreError> {
        let put = "INSERT INTO bursar_blobs (id, tenant, namespace, state, at, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            ON CONFLICT DO UPDATE SET state = excluded.state, at = excluded.at, data = excluded.data";
        for (blob, change) in ws.blobs.changes() {
            match change {
                Change::Insert(row) | Change::Update(row) => {
                    let (tenant, namespace) = (row.tenant.as_str(), row.namespace.as_str());
                    let (state, at) = (blob_state(row.state), row.maintained_at().micros());
                    self.run(put, params![id(blob.0), tenant, namespace, state, at, row.pack()])?;
                }
                Change::Delete => drop(self.run("DELETE FROM bursar_blobs WHERE id = ?1", [id(blob.0)])?),
            }
        }
        let put = "INSERT INTO bursar_blob_digests (tenant, namespace, digest, blob) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT DO UPDATE SET blob = excluded.blob";
        let delete = "DELETE FROM bursar_blob_digests WHERE tenant = ?1 AND namespace = ?2 AND digest = ?3";
        for ((tenant, namespace, digest), change) in ws.blob_digests.changes() {
            let (tenant, namespace) = (tenant.as_str(), namespace.as_str());
            match change {
                Change::Insert(blob) | Change::Update(blob) => {
                    self.run(put, params![tenant, namespace, digest.0, id(blob.0)])?;
                }
                Change::Delete => drop(self.run(delete, params![tenant, namespace, digest.0])?),
            }
        }
        let put = "INSERT INTO bursar_namespaces (tenant, namespace, data) VALUES (?1, ?2, ?3)
            ON CONFLICT DO UPDATE SET data = excluded.data";
        for ((tenant, namespace), change) in ws.namespaces.changes() {
            let (Change::Insert(row) | Change::Update(row)) = change else { continue };
            self.run(put, params![tenant.as_str(), namespace.as_str(), to_json(row)])?;
        }
        Ok(())
    }
}

/// Lists the blobs of a tenant that match a filter, after an id, or before it if the newest come first.
pub(super) fn list(
    shared: &Shared,
    conn: &Connection,
    tenant: &Tenant,
    filter: &BlobFilter,
    after: Option<BlobId>,
    limit: usize,
) -> Result<Vec<Blob>, StoreError> {
    let rows = shared.rows(conn);
    let first = if filter.newest_first { u128::MAX } else { 0 };
    let after = id(after.map_or(first, |after| after.0));
    let read = |row: &Row<'_>| unpack(row, 0);
    match &filter.namespace {
        Some(namespace) => {
            let sql = match filter.newest_first {
                true => {
                    "SELECT data FROM bursar_blobs WHERE tenant = ?1 AND namespace = ?2 AND id < ?3 ORDER BY id DESC"
                }
                false => "SELECT data FROM bursar_blobs WHERE tenant = ?1 AND namespace = ?2 AND id > ?3 ORDER BY id",
            };
            rows.page(sql, params![tenant.as_str(), namespace.as_str(), after], limit, read)
        }
        None => {
            let sql = match filter.newest_first {
                true => "SELECT data FROM bursar_blobs WHERE tenant = ?1 AND id < ?2 ORDER BY id DESC",
                false => "SELECT data FROM bursar_blobs WHERE tenant = ?1 AND id > ?2 ORDER BY id",
            };
            rows.page(sql, params![tenant.as_str(), after], limit, read)
        }
    }
}

/// Lists the blobs of all tenants after an id.
pub(super) fn list_all(
    shared: &Shared,
    conn: &Connection,
    after: Option<BlobId>,
    limit: usize,
) -> Result<Vec<Blob>, StoreError> {
    let sql = "SELECT data FROM bursar_blobs WHERE id > ?1 ORDER BY id";
    shared.rows(conn).page(sql, [id(after.map_or(0, |after| after.0))], limit, |row| unpack(row, 0))
}

/// Lists the namespaces of a tenant that have rules, after a name.
pub(super) fn list_namespaces(
    shared: &Shared,
    conn: &Connection,
    tenant: &Tenant,
    after: Option<&Namespace>,
    limit: usize,
) -> Result<Vec<(Namespace, NamespaceState)>, StoreError> {
    let sql = "SELECT namespace, data FROM bursar_namespaces WHERE tenant = ?1 AND namespace > ?2
        ORDER BY namespace LIMIT ?3";
    let after = after.map_or("", Namespace::as_str);
    shared.rows(conn).all(sql, params![tenant.as_str(), after, limit as i64], |row| {
        let text = |column| row.get::<_, String>(column).map_err(store_error);
        Ok((stored_name("namespace", text(0)?)?, from_json("namespace", &text(1)?)?))
    })
}

/// Lists blobs that are due: to be doomed, or to have their bytes deleted.
pub(super) fn due(shared: &Shared, conn: &Connection, limit: usize) -> Result<Vec<Blob>, StoreError> {
    let sql = "SELECT data FROM bursar_blobs WHERE at <= ?1 AND at < 9223372036854775807 ORDER BY at, id";
    shared.rows(conn).page(sql, [shared.clock.now().micros()], limit, |row| unpack(row, 0))
}

/// Checks that blobs are found by their columns and digests, and that their references are counted right.
pub(super) fn check(rows: &SqliteRows<'_>, jobs: &JobCounts, report: &mut Report) -> Result<(), StoreError> {
    let sql = "SELECT state, at, data FROM bursar_blobs WHERE id > ?1 ORDER BY id LIMIT ?2";
    let mut after = id(0);
    loop {
        let page: Vec<((i16, Time), Blob)> = rows.all(sql, params![after, PAGE as i64], |row| {
            let columns = (row.get(0).map_err(store_error)?, get_time(row, 1).map_err(store_error)?);
            Ok((columns, unpack(row, 2)?))
        })?;
        for (columns, blob) in &page {
            let found = blob.digest_key().map(|key| rows.read_blob_digest(&key)).transpose()?.flatten();
            report.check_blob(blob, *columns, found, jobs);
        }
        let Some((_, last)) = page.last() else { break };
        after = id(last.id.0);
    }
    let sql = "SELECT d.blob FROM bursar_blob_digests d LEFT JOIN bursar_blobs b ON b.id = d.blob WHERE b.id IS NULL";
    for blob in rows.all(sql, [], |row| get_id(row, 0).map(BlobId).map_err(store_error))? {
        report.check_missing_blob(blob);
    }
    Ok(())
}
