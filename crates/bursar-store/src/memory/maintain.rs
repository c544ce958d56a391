//! [`Maintain`] on the maps.

use async_trait::async_trait;
use bursar_core::hold::{Hold, HoldState};
use bursar_core::id::{HoldId, JobId};
use bursar_core::name::{FlowKey, Tenant};
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::Time;
use futures_util::FutureExt;

use super::rows::MemoryRows;
use super::{MemoryStore, Tables};
use crate::claims;
use crate::error::StoreError;
use crate::figures::DueJobs;
use crate::store::{Health, Maintain};
use crate::transaction;
use crate::transaction::rows::Rows;
use crate::verify::Report;

#[async_trait]
impl Maintain for MemoryStore {
    async fn due_holds(&self, limit: usize) -> Result<Vec<(Tenant, HoldId)>, StoreError> {
        let now = self.clock.now();
        let tables = self.tables();
        let mut due: Vec<&Hold> =
            tables.holds.values().filter(|h| h.state == HoldState::Held && h.expires_at <= now).collect();
        due.sort_by_key(|hold| (hold.expires_at, hold.id));
        Ok(due.into_iter().take(limit).map(|hold| (hold.tenant.clone(), hold.id)).collect())
    }

    async fn due_jobs(&self, limit: usize) -> Result<DueJobs, StoreError> {
        Ok(self.tables().due_jobs(limit, self.clock.now()))
    }

    async fn due_schedules(&self, limit: usize) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError> {
        let (tables, now) = (self.tables(), self.clock.now());
        let mut all: Vec<_> = tables.schedules.iter().map(|(key, row)| (row.next_at, key)).collect();
        all.retain(|(at, _)| *at < Time::NEVER);
        all.sort();
        let next = all.iter().map(|(at, _)| *at).find(|at| *at > now);
        Ok((all.into_iter().filter(|(at, _)| *at <= now).take(limit).map(|(_, key)| key.clone()).collect(), next))
    }

    async fn jobs_awaiting(&self, scope: &ScopeKey, limit: usize) -> Result<Vec<JobId>, StoreError> {
        Ok(self.tables().awaiting(scope, limit))
    }

    async fn jobs_barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError> {
        let tables = self.tables();
        Ok(claims::barred(|| tables.jobs.values(), queue, after, limit))
    }

    async fn scopes_awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError> {
        Ok(self.tables().awaited(limit))
    }

    async fn list_scope_keys(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError> {
        let tables = self.tables();
        Ok(tables.scopes.keys().filter(|key| after.is_none_or(|after| *key > after)).take(limit).cloned().collect())
    }

    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError> {
        Ok(self.tables().forget_keys(limit, self.clock.now()))
    }

    async fn forget_figures(&self, after: Option<&QueueKey>, limit: usize) -> Result<Option<QueueKey>, StoreError> {
        Ok(self.tables().forget_figures(after, limit, self.clock.now()))
    }

    async fn forget_flows(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Option<ScopeKey>, StoreError> {
        Ok(self.tables().forget_flows(after, limit, self.clock.now()))
    }

    async fn erase_payload(&self, id: u128) -> Result<bool, StoreError> {
        Ok(self.tables().erase_payload(id))
    }

    async fn verify(&self) -> Result<Report, StoreError> {
        self.check()
    }

    async fn rebuild(&self) -> Result<u64, StoreError> {
        let mut tables = self.tables();
        let mut rebuilt = Tables {
            journal: tables.journal.clone(),
            payloads: tables.payloads.clone(),
            latest: tables.latest,
            ..Tables::default()
        };
        let mut events = 0;
        for batch in tables.journal.values() {
            events += batch.count() as u64;
            let batch = rebuilt.with_payloads(batch);
            let mut rows = MemoryRows { tables: &mut rebuilt, clock: &*self.clock };
            let work = async {
                let ws = transaction::replay(&mut rows, &batch).await?;
                rows.store(&ws, None).await
            };
            work.now_or_never().expect("memory never waits")?;
        }
        rebuilt.rebuild_lines();
        *tables = rebuilt;
        Ok(events)
    }

    async fn health(&self) -> Result<Health, StoreError> {
        let tables = self.tables();
        Ok(Health {
            engine: "memory".into(),
            schema: 0,
            place: "this process".into(),
            problems: Vec::new(),
            position: tables.next_position() - 1,
            last_event_at: tables.last_event_at(),
            now: self.clock.now(),
        })
    }

    async fn close(&self) {}
}
