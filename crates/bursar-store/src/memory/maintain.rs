//! [`Maintain`] on the maps.

use async_trait::async_trait;
use bursar_core::blob::Blob;
use bursar_core::event::Stream;
use bursar_core::hold::{Hold, HoldState};
use bursar_core::id::{BatchId, BlobId, GrantId, HoldId, JobId};
use bursar_core::name::{FlowKey, Tenant};
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::{Span, Time};

use super::MemoryStore;
use crate::error::StoreError;
use crate::figures::DueJobs;
use crate::store::{Archive, ArchivedRows, Forgotten, Health, Maintain, Overdue};
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

    async fn due_blobs(&self, limit: usize) -> Result<Vec<Blob>, StoreError> {
        Ok(self.tables().due_blobs(limit, self.clock.now()))
    }

    async fn list_all_blobs(&self, after: Option<BlobId>, limit: usize) -> Result<Vec<Blob>, StoreError> {
        Ok(self.tables().list_all_blobs(after, limit))
    }

    async fn due_schedules(&self, limit: usize) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError> {
        Ok(self.tables().due_schedules(limit, self.clock.now()))
    }

    async fn jobs_awaiting(&self, scope: &ScopeKey, limit: usize) -> Result<Vec<JobId>, StoreError> {
        Ok(self.tables().jobs_awaiting(scope, limit))
    }

    async fn jobs_barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError> {
        Ok(self.tables().jobs_barred(queue, after, limit))
    }

    async fn scopes_awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError> {
        Ok(self.tables().scopes_awaited(limit))
    }

    async fn list_scope_keys(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError> {
        Ok(self.tables().list_scope_keys(after, limit))
    }

    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError> {
        Ok(self.tables().forget_keys(limit, self.clock.now()).len())
    }

    async fn forget_figures(&self, after: Option<&QueueKey>, limit: usize) -> Result<Option<QueueKey>, StoreError> {
        Ok(self.tables().forget_figures(after, limit, self.clock.now()))
    }

    async fn forget_scopes(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Forgotten<ScopeKey>, StoreError> {
        Ok(self.tables().forget_scopes(after, limit, self.clock.now()))
    }

    async fn forget_holds(&self, after: Option<HoldId>, limit: usize) -> Result<Forgotten<HoldId>, StoreError> {
        let mut tables = self.tables();
        let page = tables.forgettable_holds(after, limit, &self.setup.rules, self.clock.now());
        page.forgettable.iter().for_each(|hold| tables.forget_hold(*hold));
        Ok(Forgotten { count: page.forgettable.len(), last: page.last })
    }

    async fn forget_grants(&self, after: Option<GrantId>, limit: usize) -> Result<Forgotten<GrantId>, StoreError> {
        Ok(self.tables().forget_grants(after, limit, &self.setup.rules, self.clock.now()))
    }

    async fn forget_costs(&self, after: Option<&Tenant>, limit: usize) -> Result<Forgotten<Tenant>, StoreError> {
        Ok(self.tables().forget_costs(after, limit, &self.setup.rules, self.clock.now()))
    }

    async fn overdue(&self, by: Span, limit: usize) -> Result<Overdue, StoreError> {
        let (tables, before) = (self.tables(), self.clock.now().before(by));
        Ok(tables.overdue(before, limit, &self.setup.rules))
    }

    async fn erase_payloads(&self, of: &[Stream], rows: &[BatchId]) -> Result<bool, StoreError> {
        Ok(self.tables().erase_payloads(of, rows))
    }

    async fn verify(&self) -> Result<Report, StoreError> {
        Ok(self.check())
    }

    async fn rebuild(&self) -> Result<u64, StoreError> {
        self.rebuild_from(ArchivedRows::none()).await
    }

    async fn health(&self) -> Result<Health, StoreError> {
        let tables = self.tables();
        Ok(Health {
            engine: "memory".into(),
            schema: 0,
            place: "this process".into(),
            row_security: None,
            problems: Vec::new(),
            position: tables.journal.next_position() - 1,
            last_event_at: tables.journal.newest(),
            now: self.clock.now(),
        })
    }

    async fn close(&self) {}
}
