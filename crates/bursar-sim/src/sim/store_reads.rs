//! The reads and the maintenance of a node's store.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::event::Stream;
use bursar_core::grant::Grant;
use bursar_core::hold::{Hold, HoldState};
use bursar_core::id::{BatchId, BlobId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, JobState, LastReport, QueueState, Schedule};
use bursar_core::live::ChargeMark;
use bursar_core::name::{FlowKey, Namespace, Queue, ScheduleName, Scope, Tenant};
use bursar_core::scope::ScopeState;
use bursar_core::state::{NamespaceKey, QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::{Span, Time};
use bursar_store::{
    BlobFilter, Cost, CostMark, DeadGroup, DeadGroupMark, DueJobs, Figures, Forgotten, Health, HeldMark, HeldSum,
    JobFilter, Journaled, Lock, Maintain, Overdue, Read, Report, StoreError, transaction,
};

use super::store::{KEY_PATIENCE, SimStore};
use super::transaction::{LockMode, SimTx};

pub(super) fn not_simulated<T>() -> Result<T, StoreError> {
    let what = "the simulated database does not support this".to_owned();
    Err(StoreError::Unavailable { what, hint: "use a real database", permanent: false, source: None })
}

#[async_trait]
impl Read for SimStore {
    async fn now(&self) -> Result<Time, StoreError> {
        let state = self.world.state();
        Ok(self.world.now(&state))
    }

    async fn scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
        let mut tx = SimTx::begin(&self.world, self.node, LockMode::Skip, KEY_PATIENCE);
        let (row, clock) = {
            let state = self.world.state();
            (state.tables.scopes.get(key).cloned(), self.world.now(&state))
        };
        let Some(row) = row else { return Ok(None) };
        transaction::view(&mut tx, key, row, clock).await.map(Some)
    }

    async fn list_scopes(
        &self,
        _: &Tenant,
        _: &str,
        _: Option<&Scope>,
        _: usize,
    ) -> Result<Vec<(Scope, ScopeState)>, StoreError> {
        not_simulated()
    }

    async fn spent(&self, _: &ScopeKey, _: Time, _: Time) -> Result<i64, StoreError> {
        not_simulated()
    }

    async fn hold(&self, tenant: &Tenant, id: HoldId) -> Result<Option<Hold>, StoreError> {
        Ok(self.world.state().tables.holds.get(&id).filter(|hold| hold.tenant == *tenant).cloned())
    }

    async fn holds(&self, tenant: &Tenant, ids: &[HoldId]) -> Result<Vec<Hold>, StoreError> {
        let state = self.world.state();
        let own = ids.iter().filter_map(|id| state.tables.holds.get(id).filter(|hold| hold.tenant == *tenant));
        Ok(own.cloned().collect())
    }

    async fn list_live_holds(&self, _: &ScopeKey, _: Option<ChargeMark>, _: usize) -> Result<Vec<Hold>, StoreError> {
        not_simulated()
    }

    async fn grant(&self, tenant: &Tenant, id: GrantId) -> Result<Option<Grant>, StoreError> {
        Ok(self.world.state().tables.grants.get(&id).filter(|grant| grant.tenant == *tenant).cloned())
    }

    async fn grant_of_any_tenant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        Ok(self.world.state().tables.grants.get(&id).cloned())
    }

    async fn list_grants(&self, _: &Tenant, _: Option<GrantId>, _: usize) -> Result<Vec<Grant>, StoreError> {
        not_simulated()
    }

    async fn blob(&self, tenant: &Tenant, id: BlobId) -> Result<Option<Blob>, StoreError> {
        Ok(self.world.state().tables.blobs.get(&id).filter(|blob| blob.tenant == *tenant).cloned())
    }

    async fn blob_of_any_tenant(&self, id: BlobId) -> Result<Option<Blob>, StoreError> {
        Ok(self.world.state().tables.blobs.get(&id).cloned())
    }

    async fn list_blobs(
        &self,
        tenant: &Tenant,
        filter: &BlobFilter,
        after: Option<BlobId>,
        limit: usize,
    ) -> Result<Vec<Blob>, StoreError> {
        Ok(self.world.state().tables.list_blobs(tenant, filter, after, limit))
    }

    async fn namespace(&self, key: &NamespaceKey) -> Result<Option<NamespaceState>, StoreError> {
        Ok(self.world.state().tables.namespaces.get(key).cloned())
    }

    async fn list_namespaces(
        &self,
        tenant: &Tenant,
        after: Option<&Namespace>,
        limit: usize,
    ) -> Result<Vec<(Namespace, NamespaceState)>, StoreError> {
        Ok(self.world.state().tables.list_namespaces(tenant, after, limit))
    }

    async fn list_newest_grants(&self, _: &Tenant, _: GrantId, _: usize) -> Result<Vec<Grant>, StoreError> {
        not_simulated()
    }

    async fn job(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.world.state().tables.jobs.get(&id).filter(|job| job.tenant == *tenant).cloned())
    }

    async fn last_reports(&self, _: &Tenant, _: &[JobId]) -> Result<Vec<(JobId, LastReport)>, StoreError> {
        not_simulated()
    }

    async fn list_jobs(&self, _: &Tenant, _: &JobFilter, _: Option<JobId>, _: usize) -> Result<Vec<Job>, StoreError> {
        not_simulated()
    }

    async fn queue_counts(&self) -> Result<Vec<(QueueKey, JobState, i64)>, StoreError> {
        not_simulated()
    }

    async fn queue(&self, key: &QueueKey) -> Result<Option<QueueState>, StoreError> {
        Ok(self.world.state().tables.queues.get(key).cloned())
    }

    async fn list_queues(
        &self,
        _: &Tenant,
        _: Option<&Queue>,
        _: usize,
    ) -> Result<Vec<(Queue, QueueState)>, StoreError> {
        not_simulated()
    }

    async fn figures(&self, _: &[QueueKey], _: i64) -> Result<Vec<Figures>, StoreError> {
        not_simulated()
    }

    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        Ok(self.world.state().tables.schedules.get(key).cloned())
    }

    async fn list_schedules(
        &self,
        _: &Tenant,
        _: Option<&ScheduleName>,
        _: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, StoreError> {
        not_simulated()
    }

    async fn list_costs(
        &self,
        _: &Tenant,
        _: RangeInclusive<i64>,
        _: Option<&CostMark>,
        _: usize,
    ) -> Result<Vec<Cost>, StoreError> {
        not_simulated()
    }

    async fn list_held(
        &self,
        _: &Tenant,
        _: Option<&Queue>,
        _: Option<&HeldMark>,
        _: usize,
    ) -> Result<Vec<HeldSum>, StoreError> {
        not_simulated()
    }

    async fn list_dead_groups(
        &self,
        _: &Tenant,
        _: Option<&Queue>,
        _: Option<&DeadGroupMark>,
        _: usize,
    ) -> Result<Vec<DeadGroup>, StoreError> {
        not_simulated()
    }

    async fn list_journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        let state = self.world.state();
        Ok(state.tables.list_journal(after, limit).collect())
    }

    async fn batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError> {
        Ok(self.world.state().tables.journal.get(id).cloned())
    }
}

#[async_trait]
impl Maintain for SimStore {
    async fn due_holds(&self, limit: usize) -> Result<Vec<(Tenant, HoldId)>, StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        let now = self.world.now(&state);
        let due = state.tables.holds.values().filter(|hold| hold.state == HoldState::Held && hold.expires_at <= now);
        Ok(due.take(limit).map(|hold| (hold.tenant.clone(), hold.id)).collect())
    }

    async fn due_jobs(&self, limit: usize) -> Result<DueJobs, StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        Ok(state.tables.due_jobs(limit, self.world.now(&state)))
    }

    async fn due_blobs(&self, limit: usize) -> Result<Vec<Blob>, StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        Ok(state.tables.due_blobs(limit, self.world.now(&state)))
    }

    async fn list_all_blobs(&self, after: Option<BlobId>, limit: usize) -> Result<Vec<Blob>, StoreError> {
        Ok(self.world.state().tables.list_all_blobs(after, limit))
    }

    async fn due_schedules(&self, limit: usize) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        Ok(state.tables.due_schedules(limit, self.world.now(&state)))
    }

    async fn jobs_awaiting(&self, scope: &ScopeKey, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.world.step(self.node).await;
        Ok(self.world.state().tables.jobs_awaiting(scope, limit))
    }

    async fn jobs_barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError> {
        self.world.step(self.node).await;
        Ok(self.world.state().tables.jobs_barred(queue, after, limit))
    }

    async fn scopes_awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError> {
        self.world.step(self.node).await;
        Ok(self.world.state().tables.scopes_awaited(limit))
    }

    async fn list_scope_keys(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError> {
        self.world.step(self.node).await;
        Ok(self.world.state().tables.list_scope_keys(after, limit))
    }

    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError> {
        self.world.step(self.node).await;
        let mut state = self.world.state();
        let now = self.world.now(&state);
        let expired = state.tables.forget_keys(limit, now);
        expired.iter().for_each(|key| state.judge.forget_key(key));
        Ok(expired.len())
    }

    /// No run is long enough for figures to expire.
    async fn forget_figures(&self, _: Option<&QueueKey>, _: usize) -> Result<Option<QueueKey>, StoreError> {
        Ok(None)
    }

    /// No run is long enough for scopes to be unused.
    async fn forget_scopes(&self, _: Option<&ScopeKey>, _: usize) -> Result<Forgotten<ScopeKey>, StoreError> {
        Ok(Forgotten { count: 0, last: None })
    }

    async fn forget_holds(&self, after: Option<HoldId>, limit: usize) -> Result<Forgotten<HoldId>, StoreError> {
        if self.world.plan.holds_kept_ms.is_none() {
            return Ok(Forgotten { count: 0, last: None });
        }
        self.world.step(self.node).await;
        let mut state = self.world.state();
        let now = self.world.now(&state);
        let mut page = state.tables.forgettable_holds(after, limit, &self.world.rules, now);
        // Rows that a transaction has locked are skipped.
        page.forgettable.retain(|hold| state.locks.is_unlocked(&Lock::Hold(*hold)));
        for hold in &page.forgettable {
            state.tables.forget_hold(*hold);
            state.judge.forget_hold(*hold, now);
        }
        Ok(Forgotten { count: page.forgettable.len(), last: page.last })
    }

    /// No run is long enough for grants to be deleted.
    async fn forget_grants(&self, _: Option<GrantId>, _: usize) -> Result<Forgotten<GrantId>, StoreError> {
        Ok(Forgotten { count: 0, last: None })
    }

    /// No run is long enough for costs to be deleted.
    async fn forget_costs(&self, _: Option<&Tenant>, _: usize) -> Result<Forgotten<Tenant>, StoreError> {
        Ok(Forgotten { count: 0, last: None })
    }

    async fn overdue(&self, _: Span, _: usize) -> Result<Overdue, StoreError> {
        not_simulated()
    }

    async fn erase_payloads(&self, of: &[Stream], rows: &[BatchId]) -> Result<bool, StoreError> {
        Ok(self.world.state().tables.erase_payloads(of, rows))
    }

    async fn verify(&self) -> Result<Report, StoreError> {
        not_simulated()
    }

    async fn rebuild(&self) -> Result<u64, StoreError> {
        not_simulated()
    }

    async fn health(&self) -> Result<Health, StoreError> {
        not_simulated()
    }

    async fn close(&self) {}
}
