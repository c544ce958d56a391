//! Reads: each in one snapshot, on a connection for reading. They do not wait for the writer.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, BlobId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, JobState, LastReport, QueueState, Schedule};
use bursar_core::live::ChargeMark;
use bursar_core::name::{Namespace, Queue, ScheduleName, Scope, Tenant};
use bursar_core::page::{PageFill, PageItem};
use bursar_core::scope::ScopeState;
use bursar_core::state::{NamespaceKey, QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::Time;
use futures_util::FutureExt;
use rusqlite::{Connection, Row, params};

use super::error::store_error;
use super::rows::{get_id, get_time, id, unpack};
use super::writer::Shared;
use super::{SqliteStore, blobs, jobs, schedules};
use crate::codec::stored_name;
use crate::error::StoreError;
use crate::figures::{BlobFilter, Cost, CostMark, DeadGroup, DeadGroupMark, Figures, HeldMark, HeldSum, JobFilter};
use crate::store::{Journaled, Read};
use crate::transaction;

#[async_trait]
impl Read for SqliteStore {
    async fn now(&self) -> Result<Time, StoreError> {
        Ok(self.shared.clock.now())
    }

    async fn scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
        let key = key.clone();
        self.in_snapshot(move |shared, conn| scope(shared, conn, &key)).await
    }

    async fn list_scopes(
        &self,
        tenant: &Tenant,
        prefix: &str,
        after: Option<&Scope>,
        limit: usize,
    ) -> Result<Vec<(Scope, ScopeState)>, StoreError> {
        let (tenant, prefix, after) = (tenant.clone(), prefix.to_owned(), after.cloned());
        self.in_snapshot(move |shared, conn| scopes(shared, conn, &tenant, &prefix, after.as_ref(), limit)).await
    }

    async fn spent(&self, key: &ScopeKey, from: Time, to: Time) -> Result<i64, StoreError> {
        let key = key.clone();
        self.in_snapshot(move |shared, conn| spent(shared, conn, &key, from, to)).await
    }

    async fn hold(&self, tenant: &Tenant, id: HoldId) -> Result<Option<Hold>, StoreError> {
        let found = self.in_snapshot(move |shared, conn| shared.rows(conn).read_hold(id)).await?;
        Ok(found.filter(|hold| hold.tenant == *tenant))
    }

    async fn holds(&self, tenant: &Tenant, ids: &[HoldId]) -> Result<Vec<Hold>, StoreError> {
        let (tenant, ids, limit) = (tenant.clone(), ids.to_vec(), ids.len());
        let read = move |shared: &Shared, conn: &Connection| {
            fill_page(ids, limit, |id| Ok(shared.rows(conn).read_hold(id)?.filter(|hold| hold.tenant == tenant)))
        };
        self.in_snapshot(read).await
    }

    async fn list_live_holds(
        &self,
        key: &ScopeKey,
        after: Option<ChargeMark>,
        limit: usize,
    ) -> Result<Vec<Hold>, StoreError> {
        let key = key.clone();
        self.in_snapshot(move |shared, conn| live_holds(shared, conn, &key, after, limit)).await
    }

    async fn grant(&self, tenant: &Tenant, id: GrantId) -> Result<Option<Grant>, StoreError> {
        Ok(self.grant_of_any_tenant(id).await?.filter(|grant| grant.tenant == *tenant))
    }

    async fn grant_of_any_tenant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.in_snapshot(move |shared, conn| shared.rows(conn).read_grant(id)).await
    }

    async fn list_grants(
        &self,
        tenant: &Tenant,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        let tenant = tenant.clone();
        let sql = "SELECT data FROM bursar_grants WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
        let after = after.unwrap_or(GrantId(0));
        self.in_snapshot(move |shared, conn| grants(shared, conn, sql, &tenant, after, limit)).await
    }

    async fn list_newest_grants(
        &self,
        tenant: &Tenant,
        before: GrantId,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        let tenant = tenant.clone();
        let sql = "SELECT data FROM bursar_grants WHERE tenant = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3";
        self.in_snapshot(move |shared, conn| grants(shared, conn, sql, &tenant, before, limit)).await
    }

    async fn job(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
        let found = self.in_snapshot(move |shared, conn| shared.rows(conn).read_job(id)).await?;
        Ok(found.filter(|job| job.tenant == *tenant))
    }

    async fn last_reports(&self, tenant: &Tenant, ids: &[JobId]) -> Result<Vec<(JobId, LastReport)>, StoreError> {
        let (tenant, ids) = (tenant.clone(), ids.to_vec());
        let read = move |shared: &Shared, conn: &Connection| {
            let rows = shared.rows(conn);
            let jobs = ids.into_iter().map(|id| rows.find_job(id)).collect::<Result<Vec<_>, _>>()?;
            Ok(jobs.iter().flatten().filter(|job| job.tenant == tenant).filter_map(Job::last_report).collect())
        };
        self.in_snapshot(read).await
    }

    async fn list_jobs(
        &self,
        tenant: &Tenant,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.in_snapshot(move |shared, conn| jobs::list_jobs(shared, conn, &tenant, &filter, after, limit)).await
    }

    async fn queue_counts(&self) -> Result<Vec<(QueueKey, JobState, i64)>, StoreError> {
        self.in_snapshot(jobs::queue_counts).await
    }

    async fn blob(&self, tenant: &Tenant, id: BlobId) -> Result<Option<Blob>, StoreError> {
        Ok(self.blob_of_any_tenant(id).await?.filter(|blob| blob.tenant == *tenant))
    }

    async fn blob_of_any_tenant(&self, id: BlobId) -> Result<Option<Blob>, StoreError> {
        self.in_snapshot(move |shared, conn| shared.rows(conn).read_blob(id)).await
    }

    async fn list_blobs(
        &self,
        tenant: &Tenant,
        filter: &BlobFilter,
        after: Option<BlobId>,
        limit: usize,
    ) -> Result<Vec<Blob>, StoreError> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.in_snapshot(move |shared, conn| blobs::list(shared, conn, &tenant, &filter, after, limit)).await
    }

    async fn namespace(&self, key: &NamespaceKey) -> Result<Option<NamespaceState>, StoreError> {
        let key = key.clone();
        self.in_snapshot(move |shared, conn| shared.rows(conn).read_namespace(&key)).await
    }

    async fn list_namespaces(
        &self,
        tenant: &Tenant,
        after: Option<&Namespace>,
        limit: usize,
    ) -> Result<Vec<(Namespace, NamespaceState)>, StoreError> {
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.in_snapshot(move |shared, conn| blobs::list_namespaces(shared, conn, &tenant, after.as_ref(), limit)).await
    }

    async fn queue(&self, key: &QueueKey) -> Result<Option<QueueState>, StoreError> {
        let key = key.clone();
        self.in_snapshot(move |shared, conn| jobs::queue(shared, conn, &key)).await
    }

    async fn list_queues(
        &self,
        tenant: &Tenant,
        after: Option<&Queue>,
        limit: usize,
    ) -> Result<Vec<(Queue, QueueState)>, StoreError> {
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.in_snapshot(move |shared, conn| jobs::list_queues(shared, conn, &tenant, after.as_ref(), limit)).await
    }

    async fn figures(&self, queues: &[QueueKey], since_minute: i64) -> Result<Vec<Figures>, StoreError> {
        let queues = queues.to_vec();
        self.in_snapshot(move |shared, conn| jobs::figures(shared, conn, &queues, since_minute)).await
    }

    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        let key = key.clone();
        self.in_snapshot(move |shared, conn| shared.rows(conn).read_schedule(&key)).await
    }

    async fn list_schedules(
        &self,
        tenant: &Tenant,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, StoreError> {
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.in_snapshot(move |_, conn| schedules::list(conn, &tenant, after.as_ref(), limit)).await
    }

    async fn list_costs(
        &self,
        tenant: &Tenant,
        days: RangeInclusive<i64>,
        after: Option<&CostMark>,
        limit: usize,
    ) -> Result<Vec<Cost>, StoreError> {
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.in_snapshot(move |shared, conn| jobs::costs(shared, conn, &tenant, days, after.as_ref(), limit)).await
    }

    async fn list_held(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&HeldMark>,
        limit: usize,
    ) -> Result<Vec<HeldSum>, StoreError> {
        let (tenant, queue, after) = (tenant.clone(), queue.cloned(), after.cloned());
        self.in_snapshot(move |shared, conn| jobs::held(shared, conn, &tenant, queue.as_ref(), after.as_ref(), limit))
            .await
    }

    async fn list_dead_groups(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&DeadGroupMark>,
        limit: usize,
    ) -> Result<Vec<DeadGroup>, StoreError> {
        let (tenant, queue, after) = (tenant.clone(), queue.cloned(), after.cloned());
        let read = move |shared: &Shared, conn: &Connection| {
            jobs::dead_groups(shared, conn, &tenant, queue.as_ref(), after.as_ref(), limit)
        };
        self.in_snapshot(read).await
    }

    async fn list_journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        self.in_snapshot(move |shared, conn| journal(shared, conn, after, limit)).await
    }

    async fn batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError> {
        self.in_snapshot(move |shared, conn| {
            let position = id.0 as u64;
            Ok(shared.rows(conn).read_batch(position as i64)?.map(|batch| Journaled { position, batch }))
        })
        .await
    }
}

fn scope(shared: &Shared, conn: &Connection, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
    let mut rows = shared.rows(conn);
    let Some(row) = rows.read_scope(key)? else { return Ok(None) };
    let view = transaction::view(&mut rows, key, row, shared.clock.now()).now_or_never();
    view.expect("SQLite never waits within a transaction").map(Some)
}

fn scopes(
    shared: &Shared,
    conn: &Connection,
    tenant: &Tenant,
    prefix: &str,
    after: Option<&Scope>,
    limit: usize,
) -> Result<Vec<(Scope, ScopeState)>, StoreError> {
    let sql = "SELECT scope FROM bursar_scopes
        WHERE tenant = ?1 AND scope > ?2 AND scope >= ?3 AND substr(scope, 1, length(?3)) = ?3 AND version > 0
        ORDER BY scope LIMIT ?4";
    let after = after.map_or("", Scope::as_str);
    let names = shared.rows(conn).all(sql, params![tenant.as_str(), after, prefix, limit as i64], |row| {
        stored_name::<Scope>("scope", row.get(0).map_err(store_error)?)
    })?;
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let row = scope(shared, conn, &(tenant.clone(), name.clone()))?;
        found.extend(row.map(|row| (name, row)));
    }
    Ok(found)
}

fn spent(shared: &Shared, conn: &Connection, key: &ScopeKey, from: Time, to: Time) -> Result<i64, StoreError> {
    let sql = "SELECT coalesce(sum(amount), 0) FROM bursar_postings WHERE tenant = ?1 AND scope = ?2 AND at >= ?3 AND at < ?4";
    let params = params![key.0.as_str(), key.1.as_str(), from.micros(), to.micros()];
    let posted: i64 = conn.query_row(sql, params, |row| row.get(0)).map_err(store_error)?;
    Ok(posted + scope(shared, conn, key)?.map_or(0, |row| row.posted_by_expiry(from, to)))
}

fn live_holds(
    shared: &Shared,
    conn: &Connection,
    key: &ScopeKey,
    after: Option<ChargeMark>,
    limit: usize,
) -> Result<Vec<Hold>, StoreError> {
    let sql = "SELECT expires_at, hold FROM bursar_live_charges
        WHERE tenant = ?1 AND scope = ?2 AND (expires_at, hold) > (?3, ?4) ORDER BY expires_at, hold LIMIT ?5";
    let rows = shared.rows(conn);
    let Some(row) = rows.read_scope(key)? else { return Ok(Vec::new()) };
    let (at, hold) = after.unwrap_or((Time::MIN, HoldId(0)));
    let params = params![key.0.as_str(), key.1.as_str(), at.micros(), id(hold.0), limit as i64];
    let mark =
        |row: &Row<'_>| Ok((get_time(row, 0).map_err(store_error)?, HoldId(get_id(row, 1).map_err(store_error)?)));
    let ids = row.live_after(after, rows.all(sql, params, mark)?, limit);
    fill_page(ids, limit, |id| rows.read_hold(id))
}

fn grants(
    shared: &Shared,
    conn: &Connection,
    sql: &str,
    tenant: &Tenant,
    mark: GrantId,
    limit: usize,
) -> Result<Vec<Grant>, StoreError> {
    let rows = shared.rows(conn);
    let found: Vec<Grant> = rows.all(sql, params![tenant.as_str(), id(mark.0), limit as i64], |row| unpack(row, 0))?;
    fill_page(found, limit, |grant| {
        let owner = grant.id.0;
        rows.attach(grant, owner).map(Some)
    })
}

/// Reads items one by one until a page is full, by number or by bytes.
pub(super) fn fill_page<K, T: PageItem>(
    keys: Vec<K>,
    limit: usize,
    mut read: impl FnMut(K) -> Result<Option<T>, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let (mut page, mut found) = (PageFill::new(limit), Vec::new());
    for key in keys {
        if page.is_full() {
            break;
        }
        if let Some(item) = read(key)? {
            page.add(item.bytes());
            found.push(item);
        }
    }
    Ok(found)
}

pub(super) fn journal(
    shared: &Shared,
    conn: &Connection,
    after: u64,
    limit: usize,
) -> Result<Vec<Journaled>, StoreError> {
    // `after` may be in the middle of a row.
    let sql = "SELECT position, at, prev, entries FROM bursar_journal
        WHERE position >= coalesce((SELECT position FROM bursar_journal WHERE position <= ?1 + 1 ORDER BY position DESC LIMIT 1), 0)
          AND position + count > ?1 + 1
        ORDER BY position LIMIT ?2";
    let rows = shared.rows(conn);
    rows.page(sql, params![i64::try_from(after).unwrap_or(i64::MAX - 1), limit as i64], limit, |row| {
        let batch = rows.unpack_batch(row)?;
        Ok(Journaled { position: batch.id.0 as u64, batch })
    })
}

pub(super) fn scope_key(row: &Row<'_>) -> Result<ScopeKey, StoreError> {
    let tenant = stored_name::<Tenant>("tenant", row.get(0).map_err(store_error)?)?;
    Ok((tenant, stored_name::<Scope>("scope", row.get(1).map_err(store_error)?)?))
}
