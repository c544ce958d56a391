//! What reads. Nothing here changes a table.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, JobState, QueueState, Schedule};
use bursar_core::live::ChargeMark;
use bursar_core::name::{Queue, ScheduleName, Scope, Tenant};
use bursar_core::scope::ScopeState;
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::Time;

use super::Journaled;
use crate::error::StoreError;
use crate::figures::{Cost, CostMark, Figures, HeldMark, HeldSum, JobFilter};

/// The most queues that [`Read::job_counts`] adds up.
pub const QUEUES_COUNTED: usize = 10_000;

/// The part of an engine that reads.
///
/// Lists of large items (holds, grants, jobs, schedules, the journal) end at
/// [`PAGE_BYTES_MAX`](bursar_core::bounds::PAGE_BYTES_MAX) as well as at `limit`, but have one item at least.
/// [`page::is_full`](bursar_core::page::is_full) tells whether there may be more.
#[async_trait]
pub trait Read: Send + Sync + 'static {
    /// The time that the store's decisions use.
    async fn now(&self) -> Result<Time, StoreError>;

    /// A scope, brought to the present.
    async fn scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError>;
    /// Scopes of a tenant whose names begin with `prefix`, after a name, brought to the present.
    async fn list_scopes(
        &self,
        tenant: &Tenant,
        prefix: &str,
        after: Option<&Scope>,
        limit: usize,
    ) -> Result<Vec<(Scope, ScopeState)>, StoreError>;
    /// The units posted on a scope in `[from, to)`.
    async fn spent(&self, key: &ScopeKey, from: Time, to: Time) -> Result<i64, StoreError>;

    /// A hold.
    async fn hold(&self, id: HoldId) -> Result<Option<Hold>, StoreError>;
    /// Live holds on a scope after a mark, in order of expiry.
    async fn list_live_holds(
        &self,
        key: &ScopeKey,
        after: Option<ChargeMark>,
        limit: usize,
    ) -> Result<Vec<Hold>, StoreError>;

    /// A grant.
    async fn grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError>;
    /// Grants of a tenant after an id, in order of ids.
    async fn list_grants(
        &self,
        tenant: &Tenant,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError>;

    /// A job, live or finished.
    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError>;
    /// Jobs of a tenant after an id, in order of ids.
    async fn list_jobs(
        &self,
        tenant: &Tenant,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError>;
    /// How many jobs are in each state, over all tenants, from the figures of the first [`QUEUES_COUNTED`] queues.
    async fn job_counts(&self) -> Result<Vec<(JobState, i64)>, StoreError>;

    /// The settings of a queue.
    async fn queue(&self, key: &QueueKey) -> Result<Option<QueueState>, StoreError>;
    /// Queues of a tenant after a name: those with settings and those with jobs.
    async fn list_queues(
        &self,
        tenant: &Tenant,
        after: Option<&Queue>,
        limit: usize,
    ) -> Result<Vec<(Queue, QueueState)>, StoreError>;
    /// The figures of a queue: the counts of the present, and those of the minutes from `since_minute` on.
    async fn figures(&self, key: &QueueKey, since_minute: i64) -> Result<Figures, StoreError>;

    /// A schedule.
    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError>;
    /// Schedules of a tenant after a name, in order of names.
    async fn list_schedules(
        &self,
        tenant: &Tenant,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, StoreError>;

    /// What the jobs of a tenant cost on a range of days, after a mark.
    async fn list_costs(
        &self,
        tenant: &Tenant,
        days: RangeInclusive<i64>,
        after: Option<&CostMark>,
        limit: usize,
    ) -> Result<Vec<Cost>, StoreError>;
    /// What the holds of a tenant's jobs set aside at present, of one queue or of all, after a mark.
    async fn list_held(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&HeldMark>,
        limit: usize,
    ) -> Result<Vec<HeldSum>, StoreError>;

    /// The journal after a position, in order and without gaps, at most `limit` rows.
    async fn list_journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError>;
    /// One row of the journal.
    async fn batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError>;
}
