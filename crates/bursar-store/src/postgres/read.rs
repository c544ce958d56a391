//! Reads. They take no locks. Reads of a scope use one snapshot for the scope and its charges.

use std::collections::HashMap;
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
use uuid::Uuid;

use super::blobs::read_blob;
use super::conn::Conn;
use super::error::store_error;
use super::payloads::{attach_payloads, cut_page};
use super::rows::{LockMode, PgRows};
use super::scopes::clock;
use super::wall::Reach;
use super::{ONE_SNAPSHOT, PostgresStore};
use crate::codec::{Packed, stored_name};
use crate::error::StoreError;
use crate::figures::{BlobFilter, Cost, CostMark, DeadGroup, DeadGroupMark, Figures, HeldMark, HeldSum, JobFilter};
use crate::store::{Journaled, Read};
use crate::transaction;
use crate::transaction::rows::Rows;

/// The holds that are read by one statement; each may have a thousand charges.
const HOLDS_AT_ONCE: usize = 50;

#[async_trait]
impl Read for PostgresStore {
    async fn now(&self) -> Result<Time, StoreError> {
        self.time(&mut self.acquire().await?.conn()).await
    }

    async fn scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
        // One snapshot for the scope and for the charges that are due on it.
        let mut tx = self.begin(ONE_SNAPSHOT, Reach::Tenant(&key.0)).await?;
        let view = self.scope_in(&mut tx.conn(), key).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(view)
    }

    async fn list_scopes(
        &self,
        tenant: &Tenant,
        prefix: &str,
        after: Option<&Scope>,
        limit: usize,
    ) -> Result<Vec<(Scope, ScopeState)>, StoreError> {
        let mut tx = self.begin(ONE_SNAPSHOT, Reach::Tenant(tenant)).await?;
        let rows: Vec<(String, Vec<u8>, Option<String>)> = sqlx::query_as(
            "SELECT scope, state, budget FROM bursar.scopes
             WHERE tenant = $1 AND scope >= $2 AND ($3::text IS NULL OR scope < $3)
               AND scope > $4 AND version > 0
             ORDER BY scope LIMIT $5",
        )
        .bind(tenant.as_str())
        .bind(prefix)
        .bind(prefix_end(prefix))
        .bind(after.map_or("", Scope::as_str))
        .bind(sql_limit(limit))
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        let now = self.time(&mut tx.conn()).await?;
        let mut found = Vec::with_capacity(rows.len());
        for (name, state, budget) in rows {
            let name: Scope = stored_name("scope", name)?;
            let row = self.scope_row(&state, budget.as_deref())?;
            let view = self.view(&mut tx.conn(), &(tenant.clone(), name.clone()), row, now).await?;
            found.push((name, view));
        }
        tx.commit().await.map_err(store_error)?;
        Ok(found)
    }

    async fn spent(&self, key: &ScopeKey, from: Time, to: Time) -> Result<i64, StoreError> {
        let mut tx = self.begin(ONE_SNAPSHOT, Reach::Tenant(&key.0)).await?;
        let posted: i64 = sqlx::query_scalar(
            "SELECT coalesce(sum(amount), 0)::bigint FROM bursar.postings
             WHERE tenant = $1 AND scope = $2 AND at >= $3 AND at < $4",
        )
        .bind(key.0.as_str())
        .bind(key.1.as_str())
        .bind(from.micros())
        .bind(to.micros())
        .fetch_one(tx.conn())
        .await
        .map_err(store_error)?;
        let view = self.scope_in(&mut tx.conn(), key).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(posted + view.map_or(0, |row| row.posted_by_expiry(from, to)))
    }

    async fn hold(&self, tenant: &Tenant, id: HoldId) -> Result<Option<Hold>, StoreError> {
        let data: Option<Vec<u8>> = sqlx::query_scalar("SELECT data FROM bursar.holds WHERE id = $1 AND tenant = $2")
            .bind(Uuid::from_u128(id.0))
            .bind(tenant.as_str())
            .fetch_optional(self.read(Reach::Tenant(tenant)).await?.conn())
            .await
            .map_err(store_error)?;
        data.map(|data| Hold::unpack(&data)).transpose()
    }

    async fn holds(&self, tenant: &Tenant, ids: &[HoldId]) -> Result<Vec<Hold>, StoreError> {
        self.page_of_holds(self.read(Reach::Tenant(tenant)).await?.conn(), tenant, ids, ids.len()).await
    }

    async fn list_live_holds(
        &self,
        key: &ScopeKey,
        after: Option<ChargeMark>,
        limit: usize,
    ) -> Result<Vec<Hold>, StoreError> {
        let (at, hold) = after.unwrap_or((Time::MIN, HoldId(0)));
        let mut tx = self.begin(ONE_SNAPSHOT, Reach::Tenant(&key.0)).await?;
        let mut rows = PgRows::new(tx.conn(), self, LockMode::Read);
        let Some((_, row)) = rows.scopes(&[(key.clone(), false)]).await?.rows.pop() else { return Ok(Vec::new()) };
        let table: Vec<(i64, Uuid)> = sqlx::query_as(
            "SELECT c.expires_at, c.hold FROM bursar.live_charges c WHERE c.tenant = $1 AND c.scope = $2
                 AND (c.expires_at, c.hold) > ($4, $5)
             ORDER BY c.expires_at, c.hold LIMIT $3",
        )
        .bind(key.0.as_str())
        .bind(key.1.as_str())
        .bind(sql_limit(limit))
        .bind(at.micros())
        .bind(Uuid::from_u128(hold.0))
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        let table = table.into_iter().map(|(at, hold)| (Time::from_micros(at), HoldId(hold.as_u128())));
        let ids = row.live_after(after, table.collect(), limit);
        let found = self.page_of_holds(tx.conn(), &key.0, &ids, limit).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(found)
    }

    async fn grant(&self, tenant: &Tenant, id: GrantId) -> Result<Option<Grant>, StoreError> {
        let found = read_grant(&mut self.read(Reach::Tenant(tenant)).await?.conn(), id).await?;
        Ok(found.filter(|grant| grant.tenant == *tenant))
    }

    async fn grant_of_any_tenant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        let mut conn = self.read(Reach::Nothing).await?;
        self.enter_tenant_of(&mut conn.conn(), Uuid::from_u128(id.0)).await?;
        read_grant(&mut conn.conn(), id).await
    }

    async fn list_grants(
        &self,
        tenant: &Tenant,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        let sql =
            "SELECT data FROM bursar.grants WHERE tenant = $1 AND ($2::uuid IS NULL OR id > $2) ORDER BY id LIMIT $3";
        self.read_grants(sql, tenant, after, limit).await
    }

    async fn list_newest_grants(
        &self,
        tenant: &Tenant,
        before: GrantId,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        let sql = "SELECT data FROM bursar.grants WHERE tenant = $1 AND id < $2 ORDER BY id DESC LIMIT $3";
        self.read_grants(sql, tenant, Some(before), limit).await
    }

    async fn job(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
        self.read_job(tenant, id).await
    }

    async fn last_reports(&self, tenant: &Tenant, ids: &[JobId]) -> Result<Vec<(JobId, LastReport)>, StoreError> {
        self.read_last_reports(tenant, ids).await
    }

    async fn list_jobs(
        &self,
        tenant: &Tenant,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError> {
        self.read_jobs(tenant, filter, after, limit).await
    }

    async fn queue_counts(&self) -> Result<Vec<(QueueKey, JobState, i64)>, StoreError> {
        self.read_queue_counts().await
    }

    async fn blob(&self, tenant: &Tenant, id: BlobId) -> Result<Option<Blob>, StoreError> {
        let found = read_blob(&mut self.read(Reach::Tenant(tenant)).await?.conn(), id).await?;
        Ok(found.filter(|blob| blob.tenant == *tenant))
    }

    async fn blob_of_any_tenant(&self, id: BlobId) -> Result<Option<Blob>, StoreError> {
        let mut conn = self.read(Reach::Nothing).await?;
        self.enter_tenant_of(&mut conn.conn(), Uuid::from_u128(id.0)).await?;
        read_blob(&mut conn.conn(), id).await
    }

    async fn list_blobs(
        &self,
        tenant: &Tenant,
        filter: &BlobFilter,
        after: Option<BlobId>,
        limit: usize,
    ) -> Result<Vec<Blob>, StoreError> {
        self.read_blobs(tenant, filter, after, limit).await
    }

    async fn namespace(&self, key: &NamespaceKey) -> Result<Option<NamespaceState>, StoreError> {
        self.read_namespace(key).await
    }

    async fn list_namespaces(
        &self,
        tenant: &Tenant,
        after: Option<&Namespace>,
        limit: usize,
    ) -> Result<Vec<(Namespace, NamespaceState)>, StoreError> {
        self.read_namespaces(tenant, after, limit).await
    }

    async fn queue(&self, key: &QueueKey) -> Result<Option<QueueState>, StoreError> {
        self.read_queue(key).await
    }

    async fn list_queues(
        &self,
        tenant: &Tenant,
        after: Option<&Queue>,
        limit: usize,
    ) -> Result<Vec<(Queue, QueueState)>, StoreError> {
        self.read_queues(tenant, after, limit).await
    }

    async fn figures(&self, queues: &[QueueKey], since_minute: i64) -> Result<Vec<Figures>, StoreError> {
        self.read_figures(queues, since_minute).await
    }

    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        self.read_schedule(key).await
    }

    async fn list_schedules(
        &self,
        tenant: &Tenant,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, StoreError> {
        self.read_schedules(tenant, after, limit).await
    }

    async fn list_costs(
        &self,
        tenant: &Tenant,
        days: RangeInclusive<i64>,
        after: Option<&CostMark>,
        limit: usize,
    ) -> Result<Vec<Cost>, StoreError> {
        self.read_costs(tenant, days, after, limit).await
    }

    async fn list_held(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&HeldMark>,
        limit: usize,
    ) -> Result<Vec<HeldSum>, StoreError> {
        self.read_held(tenant, queue, after, limit).await
    }

    async fn list_dead_groups(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&DeadGroupMark>,
        limit: usize,
    ) -> Result<Vec<DeadGroup>, StoreError> {
        self.read_dead_groups(tenant, queue, after, limit).await
    }

    async fn list_journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        self.read_journal(after, limit).await
    }

    async fn batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError> {
        self.read_batch(id).await
    }
}

impl PostgresStore {
    /// Reads holds of a tenant in the order of their ids until the page is full.
    async fn page_of_holds(
        &self,
        mut conn: Conn<'_>,
        tenant: &Tenant,
        ids: &[HoldId],
        limit: usize,
    ) -> Result<Vec<Hold>, StoreError> {
        let (mut page, mut found) = (PageFill::new(limit), Vec::new());
        for ids in ids.chunks(HOLDS_AT_ONCE) {
            let mut some: HashMap<HoldId, Hold> =
                PgRows::new(conn.reborrow(), self, LockMode::Read).holds(ids).await?.rows.into_iter().collect();
            for hold in ids.iter().filter_map(|id| some.remove(id)).filter(|hold| hold.tenant == *tenant) {
                if !page.is_full() {
                    page.add(hold.bytes());
                    found.push(hold);
                }
            }
            if page.is_full() {
                break;
            }
        }
        Ok(found)
    }

    /// Reads a scope in an open snapshot and brings it to the present.
    async fn scope_in(&self, tx: &mut Conn<'_>, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
        let row: Option<(Vec<u8>, Option<String>, i64)> = sqlx::query_as(
            "SELECT state, budget, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
             FROM bursar.scopes WHERE tenant = $1 AND scope = $2 AND version > 0",
        )
        .bind(key.0.as_str())
        .bind(key.1.as_str())
        .fetch_optional(&mut *tx)
        .await
        .map_err(store_error)?;
        let Some((state, budget, clock)) = row else { return Ok(None) };
        let row = self.scope_row(&state, budget.as_deref())?;
        self.view(tx, key, row, self.injected_now().unwrap_or(Time::from_micros(clock))).await.map(Some)
    }

    /// Reads the grants that a statement selects by tenant, id and limit.
    async fn read_grants(
        &self,
        sql: &'static str,
        tenant: &Tenant,
        mark: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        let mut conn = self.read(Reach::Tenant(tenant)).await?;
        let rows: Vec<(Vec<u8>,)> = sqlx::query_as(sql)
            .bind(tenant.as_str())
            .bind(mark.map(|id| Uuid::from_u128(id.0)))
            .bind(sql_limit(limit))
            .fetch_all(conn.conn())
            .await
            .map_err(store_error)?;
        let mut grants = rows.iter().map(|(data,)| Grant::unpack(data)).collect::<Result<Vec<_>, _>>()?;
        let detached = |grant: &mut Grant| Vec::from_iter(grant.payload.is_elsewhere().then_some(grant.id.0));
        cut_page(&mut conn.conn(), &mut grants, limit, detached).await.map_err(store_error)?;
        attach_payloads(&mut conn.conn(), &mut grants, |grant| grant.id.0).await.map_err(store_error)?;
        Ok(grants)
    }

    async fn view(
        &self,
        conn: &mut Conn<'_>,
        key: &ScopeKey,
        row: ScopeState,
        now: Time,
    ) -> Result<ScopeState, StoreError> {
        transaction::view(&mut PgRows::new(conn.reborrow(), self, LockMode::Read), key, row, now).await
    }

    fn injected_now(&self) -> Option<Time> {
        self.setup.clock.as_ref().map(|clock| clock.now())
    }

    /// Returns the time that decisions use: the injected clock, or that of the database.
    pub(super) async fn time(&self, conn: &mut Conn<'_>) -> Result<Time, StoreError> {
        match self.injected_now() {
            Some(now) => Ok(now),
            None => clock(conn).await.map_err(store_error),
        }
    }
}

/// Reads a grant with its payload.
async fn read_grant(conn: &mut Conn<'_>, id: GrantId) -> Result<Option<Grant>, StoreError> {
    let found: Option<(Vec<u8>,)> = sqlx::query_as("SELECT data FROM bursar.grants WHERE id = $1")
        .bind(Uuid::from_u128(id.0))
        .fetch_optional(&mut *conn)
        .await
        .map_err(store_error)?;
    let mut grants = found.iter().map(|(data,)| Grant::unpack(data)).collect::<Result<Vec<_>, _>>()?;
    attach_payloads(conn, &mut grants, |grant| grant.id.0).await.map_err(store_error)?;
    Ok(grants.pop())
}

/// Converts a limit for use in SQL.
pub(super) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Returns the first text, in byte order, after all texts that begin with `prefix`; `None` if there is none.
fn prefix_end(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_text_in_byte_order() {
        let cases = [("", None), ("a", Some("b")), ("a\u{10ffff}", Some("b")), ("\u{d7ff}", Some("\u{e000}"))];
        for (prefix, next) in cases {
            assert_eq!(prefix_end(prefix).as_deref(), next, "{prefix:?}");
        }
    }
}
