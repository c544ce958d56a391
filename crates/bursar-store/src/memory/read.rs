//! [`Read`] on the maps.

use std::ops::Bound::{Excluded, Unbounded};
use std::ops::RangeInclusive;

use async_trait::async_trait;
use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, BlobId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, JobState, LastReport, QueueState, Schedule};
use bursar_core::live::ChargeMark;
use bursar_core::name::{Namespace, Queue, ScheduleName, Scope, Tenant};
use bursar_core::page;
use bursar_core::scope::ScopeState;
use bursar_core::state::{NamespaceKey, QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::Time;

use super::MemoryStore;
use crate::error::StoreError;
use crate::figures::{BlobFilter, Cost, CostMark, DeadGroup, DeadGroupMark, Figures, HeldMark, HeldSum, JobFilter};
use crate::store::{Journaled, Read};

#[async_trait]
impl Read for MemoryStore {
    async fn now(&self) -> Result<Time, StoreError> {
        Ok(self.clock.now())
    }

    async fn scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
        self.tables().scope_at(key, self.clock.now())
    }

    async fn list_scopes(
        &self,
        tenant: &Tenant,
        prefix: &str,
        after: Option<&Scope>,
        limit: usize,
    ) -> Result<Vec<(Scope, ScopeState)>, StoreError> {
        let names: Vec<Scope> = {
            let tables = self.tables();
            let of_tenant = tables
                .scopes
                .iter()
                .filter(|((t, s), row)| t == tenant && row.version > 0 && s.as_str().starts_with(prefix));
            of_tenant.map(|((_, s), _)| s.clone()).filter(|s| after.is_none_or(|after| s > after)).take(limit).collect()
        };
        let mut found = Vec::new();
        for name in names {
            if let Some(row) = self.scope(&(tenant.clone(), name.clone())).await? {
                found.push((name, row));
            }
        }
        Ok(found)
    }

    async fn spent(&self, key: &ScopeKey, from: Time, to: Time) -> Result<i64, StoreError> {
        let tables = self.tables();
        let postings = tables.postings.get(key).into_iter().flat_map(|rows| rows.range((from, 0)..(to.max(from), 0)));
        let posted: i64 = postings.map(|(_, posting)| posting.amount).sum();
        Ok(posted + tables.scope_at(key, self.clock.now())?.map_or(0, |row| row.posted_by_expiry(from, to)))
    }

    async fn hold(&self, tenant: &Tenant, id: HoldId) -> Result<Option<Hold>, StoreError> {
        Ok(self.tables().holds.get(&id).filter(|hold| hold.tenant == *tenant).cloned())
    }

    async fn holds(&self, tenant: &Tenant, ids: &[HoldId]) -> Result<Vec<Hold>, StoreError> {
        let tables = self.tables();
        let own = ids.iter().filter_map(|id| tables.holds.get(id).filter(|hold| hold.tenant == *tenant));
        Ok(page::cut(own.cloned().collect(), ids.len()))
    }

    async fn list_live_holds(
        &self,
        key: &ScopeKey,
        after: Option<ChargeMark>,
        limit: usize,
    ) -> Result<Vec<Hold>, StoreError> {
        let tables = self.tables();
        let range = (after.map_or(Unbounded, Excluded), Unbounded);
        let charges = tables.live.get(key).into_iter().flat_map(|rows| rows.range(range));
        let table = charges.map(|(mark, _)| *mark).take(limit).collect();
        let row = tables.scopes.get(key).cloned().unwrap_or_default();
        let ids = row.live_after(after, table, limit);
        Ok(page::cut(ids.iter().filter_map(|id| tables.holds.get(id).cloned()).collect(), limit))
    }

    async fn grant(&self, tenant: &Tenant, id: GrantId) -> Result<Option<Grant>, StoreError> {
        Ok(self.tables().grants.get(&id).filter(|grant| grant.tenant == *tenant).cloned())
    }

    async fn grant_of_any_tenant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        Ok(self.tables().grants.get(&id).cloned())
    }

    async fn list_grants(
        &self,
        tenant: &Tenant,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        let tables = self.tables();
        let all = tables
            .grants
            .values()
            .filter(|grant| grant.tenant == *tenant && after.is_none_or(|after| grant.id > after));
        Ok(page::cut(all.take(limit).cloned().collect(), limit))
    }

    async fn list_newest_grants(
        &self,
        tenant: &Tenant,
        before: GrantId,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        let tables = self.tables();
        let older = tables.grants.range(..before).rev().map(|(_, grant)| grant);
        let all = older.filter(|grant| grant.tenant == *tenant);
        Ok(page::cut(all.take(limit).cloned().collect(), limit))
    }

    async fn job(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.tables().jobs.get(&id).filter(|job| job.tenant == *tenant).cloned())
    }

    async fn last_reports(&self, tenant: &Tenant, ids: &[JobId]) -> Result<Vec<(JobId, LastReport)>, StoreError> {
        let tables = self.tables();
        let own = ids.iter().filter_map(|id| tables.jobs.get(id).filter(|job| job.tenant == *tenant));
        Ok(own.filter_map(Job::last_report).collect())
    }

    async fn list_jobs(
        &self,
        tenant: &Tenant,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError> {
        Ok(page::cut(self.tables().list_jobs(tenant, filter, after, limit, self.clock.now()), limit))
    }

    async fn queue_counts(&self) -> Result<Vec<(QueueKey, JobState, i64)>, StoreError> {
        Ok(self.tables().queue_counts())
    }

    async fn blob(&self, tenant: &Tenant, id: BlobId) -> Result<Option<Blob>, StoreError> {
        Ok(self.tables().blobs.get(&id).filter(|blob| blob.tenant == *tenant).cloned())
    }

    async fn blob_of_any_tenant(&self, id: BlobId) -> Result<Option<Blob>, StoreError> {
        Ok(self.tables().blobs.get(&id).cloned())
    }

    async fn list_blobs(
        &self,
        tenant: &Tenant,
        filter: &BlobFilter,
        after: Option<BlobId>,
        limit: usize,
    ) -> Result<Vec<Blob>, StoreError> {
        Ok(self.tables().list_blobs(tenant, filter, after, limit))
    }

    async fn namespace(&self, key: &NamespaceKey) -> Result<Option<NamespaceState>, StoreError> {
        Ok(self.tables().namespaces.get(key).cloned())
    }

    async fn list_namespaces(
        &self,
        tenant: &Tenant,
        after: Option<&Namespace>,
        limit: usize,
    ) -> Result<Vec<(Namespace, NamespaceState)>, StoreError> {
        Ok(self.tables().list_namespaces(tenant, after, limit))
    }

    async fn queue(&self, key: &QueueKey) -> Result<Option<QueueState>, StoreError> {
        Ok(self.tables().queues.get(key).cloned())
    }

    async fn list_queues(
        &self,
        tenant: &Tenant,
        after: Option<&Queue>,
        limit: usize,
    ) -> Result<Vec<(Queue, QueueState)>, StoreError> {
        Ok(self.tables().list_queues(tenant, after, limit))
    }

    async fn figures(&self, queues: &[QueueKey], since_minute: i64) -> Result<Vec<Figures>, StoreError> {
        let (tables, now) = (self.tables(), self.clock.now());
        Ok(queues.iter().map(|queue| tables.figures(queue, since_minute, now)).collect())
    }

    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        Ok(self.tables().schedules.get(key).cloned())
    }

    async fn list_schedules(
        &self,
        tenant: &Tenant,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, StoreError> {
        let tables = self.tables();
        let all =
            tables.schedules.iter().filter(|((of, name), _)| of == tenant && after.is_none_or(|after| name > after));
        Ok(page::cut(all.take(limit).map(|((_, name), row)| (name.clone(), row.clone())).collect(), limit))
    }

    async fn list_costs(
        &self,
        tenant: &Tenant,
        days: RangeInclusive<i64>,
        after: Option<&CostMark>,
        limit: usize,
    ) -> Result<Vec<Cost>, StoreError> {
        Ok(self.tables().costs(tenant, &days, after, limit))
    }

    async fn list_held(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&HeldMark>,
        limit: usize,
    ) -> Result<Vec<HeldSum>, StoreError> {
        Ok(self.tables().held(tenant, queue, after, limit))
    }

    async fn list_dead_groups(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&DeadGroupMark>,
        limit: usize,
    ) -> Result<Vec<DeadGroup>, StoreError> {
        self.tables().list_dead_groups(tenant, queue, after, limit)
    }

    async fn list_journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        let tables = self.tables();
        Ok(page::cut(tables.list_journal(after, limit).collect(), limit))
    }

    async fn batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError> {
        let tables = self.tables();
        Ok(tables.journal.get(id).map(|row| tables.journaled(row)))
    }
}
