//! The reads and the maintenance of a node's store.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use bursar_core::grant::Grant;
use bursar_core::hold::{Hold, HoldState};
use bursar_core::id::{BatchId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, JobState, QueueState, Schedule};
use bursar_core::live::ChargeMark;
use bursar_core::name::{FlowKey, Queue, ScheduleName, Scope, Tenant};
use bursar_core::scope::ScopeState;
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::Time;
use bursar_store::{
    Cost, CostMark, DueJobs, Figures, Health, HeldMark, HeldSum, JobFilter, Journaled, Maintain, Read, Report,
    StoreError, claims, transaction,
};

use super::store::{KEY_PATIENCE, SimStore};
use super::transaction::{LockMode, SimTx};

fn not_simulated<T>() -> Result<T, StoreError> {
    let what = "the simulated database does not support this".to_owned();
    Err(StoreError::Unavailable { what, hint: "use a real database", source: None })
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

    async fn hold(&self, id: HoldId) -> Result<Option<Hold>, StoreError> {
        Ok(self.world.state().tables.holds.get(&id).cloned())
    }

    async fn list_live_holds(&self, _: &ScopeKey, _: Option<ChargeMark>, _: usize) -> Result<Vec<Hold>, StoreError> {
        not_simulated()
    }

    async fn grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        Ok(self.world.state().tables.grants.get(&id).cloned())
    }

    async fn list_grants(&self, _: &Tenant, _: Option<GrantId>, _: usize) -> Result<Vec<Grant>, StoreError> {
        not_simulated()
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.world.state().tables.jobs.get(&id).cloned())
    }

    async fn list_jobs(&self, _: &Tenant, _: &JobFilter, _: Option<JobId>, _: usize) -> Result<Vec<Job>, StoreError> {
        not_simulated()
    }

    async fn job_counts(&self) -> Result<Vec<(JobState, i64)>, StoreError> {
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

    async fn figures(&self, _: &QueueKey, _: i64) -> Result<Figures, StoreError> {
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

    async fn list_journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        let state = self.world.state();
        let rows = state.tables.journal.iter().zip(1..).skip_while(|(_, position)| *position <= after).take(limit);
        Ok(rows.map(|(batch, position)| Journaled { position, batch: batch.clone() }).collect())
    }

    async fn batch(&self, _: BatchId) -> Result<Option<Journaled>, StoreError> {
        not_simulated()
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
        let (now, queues) = (self.world.now(&state), &state.tables.queues);
        let kept = |job: &Job| match queues.get(&(job.tenant.clone(), job.queue.clone())) {
            Some(queue) => queue.config.kept(job.life.state),
            None => QueueState::default().config.kept(job.life.state),
        };
        Ok(claims::due(|| state.tables.jobs.values(), kept, now, limit))
    }

    async fn due_schedules(&self, limit: usize) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        let now = self.world.now(&state);
        let mut all: Vec<(Time, &ScheduleKey)> =
            state.tables.schedules.iter().map(|(key, s)| (s.next_at, key)).collect();
        all.sort();
        let due = all.iter().take_while(|(at, _)| *at <= now).take(limit);
        let due: Vec<ScheduleKey> = due.map(|(_, key)| (*key).clone()).collect();
        let next_at = all.get(due.len()).map(|(at, _)| *at);
        Ok((due, next_at))
    }

    async fn jobs_awaiting(&self, scope: &ScopeKey, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        let awaiting = state.tables.jobs.values().filter(|job| {
            job.life.state == JobState::AwaitingBudget
                && job.tenant == scope.0
                && job.life.awaits.as_ref() == Some(&scope.1)
        });
        Ok(awaiting.map(|job| job.id).take(limit).collect())
    }

    async fn jobs_barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        Ok(claims::barred(|| state.tables.jobs.values(), queue, after, limit))
    }

    async fn scopes_awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        let scopes = claims::awaited(state.tables.jobs.values()).into_iter().take(limit);
        Ok(scopes.map(|key| (key.clone(), state.tables.scopes.get(&key).map_or(0, |row| row.version))).collect())
    }

    async fn list_scope_keys(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        let scopes = state.tables.scopes.keys().filter(|key| after.is_none_or(|after| *key > after));
        Ok(scopes.take(limit).cloned().collect())
    }

    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError> {
        self.world.step(self.node).await;
        let mut state = self.world.state();
        let now = self.world.now(&state);
        let over = state.tables.keys.iter().filter(|(_, row)| row.until <= now).map(|(key, _)| key.clone());
        let over: Vec<_> = over.take(limit).collect();
        for key in &over {
            state.tables.keys.remove(key);
            state.judge.forget_key(key);
        }
        Ok(over.len())
    }

    /// No run is long enough for figures to expire.
    async fn forget_figures(&self, _: Option<&QueueKey>, _: usize) -> Result<Option<QueueKey>, StoreError> {
        Ok(None)
    }

    /// No run is long enough for flow keys to expire.
    async fn forget_flows(&self, _: Option<&ScopeKey>, _: usize) -> Result<Option<ScopeKey>, StoreError> {
        Ok(None)
    }

    async fn erase_payload(&self, _: u128) -> Result<bool, StoreError> {
        not_simulated()
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
