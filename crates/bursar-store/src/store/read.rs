//! Queries. They change nothing.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, BlobId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, JobState, LastReport, QueueState, Schedule};
use bursar_core::live::ChargeMark;
use bursar_core::name::{Namespace, Queue, ScheduleName, Scope, Tenant};
use bursar_core::scope::ScopeState;
use bursar_core::state::{NamespaceKey, QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::Time;

use super::Journaled;
use crate::error::StoreError;
use crate::figures::{BlobFilter, Cost, CostMark, DeadGroup, DeadGroupMark, Figures, HeldMark, HeldSum, JobFilter};

/// The most queues whose jobs [`Read::queue_counts`] counts.
pub const QUEUES_COUNTED: usize = 10_000;

/// The part of a store that answers queries.
///
/// Every query is of one tenant, except for those that say so. A row of another tenant reads as if it did not exist.
///
/// A list ends after `limit` items. Lists of large items (holds, grants, jobs, blobs, schedules, the journal) also end at
/// [`PAGE_BYTES_MAX`](bursar_core::bounds::PAGE_BYTES_MAX), but have at least one item if there is one.
/// [`page::is_full`](bursar_core::page::is_full) returns whether there may be more.
#[async_trait]
pub trait Read: Send + Sync + 'static {
    /// Returns the current time of the clock that decisions use.
    async fn now(&self) -> Result<Time, StoreError>;

    /// Returns a scope, with its balances as of now.
    async fn scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError>;
    /// Lists the scopes of a tenant whose names begin with `prefix`, after a name, with their balances as of now.
    async fn list_scopes(
        &self,
        tenant: &Tenant,
        prefix: &str,
        after: Option<&Scope>,
        limit: usize,
    ) -> Result<Vec<(Scope, ScopeState)>, StoreError>;
    /// Returns the units posted on a scope in `[from, to)`.
    async fn spent(&self, key: &ScopeKey, from: Time, to: Time) -> Result<i64, StoreError>;

    /// Returns a hold of a tenant.
    async fn hold(&self, tenant: &Tenant, id: HoldId) -> Result<Option<Hold>, StoreError>;
    /// Returns one page of the holds of a tenant with these ids, in this order, without those that do not exist.
    async fn holds(&self, tenant: &Tenant, ids: &[HoldId]) -> Result<Vec<Hold>, StoreError>;
    /// Lists the live holds on a scope after a mark, in order of expiry.
    async fn list_live_holds(
        &self,
        key: &ScopeKey,
        after: Option<ChargeMark>,
        limit: usize,
    ) -> Result<Vec<Hold>, StoreError>;

    /// Returns a grant of a tenant.
    async fn grant(&self, tenant: &Tenant, id: GrantId) -> Result<Option<Grant>, StoreError>;
    /// Returns a grant of any tenant: of a token, only the row says whose it is.
    async fn grant_of_any_tenant(&self, id: GrantId) -> Result<Option<Grant>, StoreError>;
    /// Lists the grants of a tenant after an id, in order of ids.
    async fn list_grants(
        &self,
        tenant: &Tenant,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError>;
    /// Lists the grants of a tenant before an id, the newest first.
    async fn list_newest_grants(
        &self,
        tenant: &Tenant,
        before: GrantId,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError>;

    /// Returns a job of a tenant, live or finished.
    async fn job(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError>;
    /// Returns the last progress reports of jobs of a tenant, in any order, without jobs that have none.
    async fn last_reports(&self, tenant: &Tenant, ids: &[JobId]) -> Result<Vec<(JobId, LastReport)>, StoreError>;
    /// Lists the jobs of a tenant that match a filter, after an id, in order of ids; or before it, the newest first, if the filter says so.
    async fn list_jobs(
        &self,
        tenant: &Tenant,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError>;
    /// Returns the number of jobs in each state of the first [`QUEUES_COUNTED`] queues of all tenants, in order of tenants, queues and
    /// states. A state without jobs is left out.
    async fn queue_counts(&self) -> Result<Vec<(QueueKey, JobState, i64)>, StoreError>;

    /// Returns a blob of a tenant, in any state.
    async fn blob(&self, tenant: &Tenant, id: BlobId) -> Result<Option<Blob>, StoreError>;
    /// Returns a blob of any tenant, in any state: of a signed link, only the row says whose it is.
    async fn blob_of_any_tenant(&self, id: BlobId) -> Result<Option<Blob>, StoreError>;
    /// Lists the blobs of a tenant in any state that match a filter, after an id, in order of ids; or before it, the newest first, if
    /// the filter says so.
    async fn list_blobs(
        &self,
        tenant: &Tenant,
        filter: &BlobFilter,
        after: Option<BlobId>,
        limit: usize,
    ) -> Result<Vec<Blob>, StoreError>;
    /// Returns the rules of a namespace.
    async fn namespace(&self, key: &NamespaceKey) -> Result<Option<NamespaceState>, StoreError>;
    /// Lists the namespaces of a tenant that have rules, after a name.
    async fn list_namespaces(
        &self,
        tenant: &Tenant,
        after: Option<&Namespace>,
        limit: usize,
    ) -> Result<Vec<(Namespace, NamespaceState)>, StoreError>;

    /// Returns the settings of a queue.
    async fn queue(&self, key: &QueueKey) -> Result<Option<QueueState>, StoreError>;
    /// Lists the queues of a tenant after a name: those with settings and those with jobs.
    async fn list_queues(
        &self,
        tenant: &Tenant,
        after: Option<&Queue>,
        limit: usize,
    ) -> Result<Vec<(Queue, QueueState)>, StoreError>;
    /// Returns the figures of some queues of any tenants, in the order given: their current counts, and those of each minute from
    /// `since_minute` on.
    async fn figures(&self, queues: &[QueueKey], since_minute: i64) -> Result<Vec<Figures>, StoreError>;

    /// Returns a schedule.
    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError>;
    /// Lists the schedules of a tenant after a name, in order of names.
    async fn list_schedules(
        &self,
        tenant: &Tenant,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, StoreError>;

    /// Lists what the jobs of a tenant cost on a range of days, after a mark.
    async fn list_costs(
        &self,
        tenant: &Tenant,
        days: RangeInclusive<i64>,
        after: Option<&CostMark>,
        limit: usize,
    ) -> Result<Vec<Cost>, StoreError>;
    /// Lists the units that the holds of a tenant's jobs set aside now, for one queue or for all, after a mark.
    async fn list_held(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&HeldMark>,
        limit: usize,
    ) -> Result<Vec<HeldSum>, StoreError>;
    /// Lists the groups of a tenant's dead jobs, for one queue or for all, after a mark.
    async fn list_dead_groups(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&DeadGroupMark>,
        limit: usize,
    ) -> Result<Vec<DeadGroup>, StoreError>;

    /// Lists at most `limit` rows of the journal after a position, in order and without gaps.
    async fn list_journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError>;
    /// Returns one row of the journal.
    async fn batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError>;
}
