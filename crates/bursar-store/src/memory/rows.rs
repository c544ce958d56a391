//! [`Rows`] on the maps, for a transaction without concurrent ones.

use std::sync::Arc;

use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, BlobId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::name::FlowKey;
use bursar_core::scope::{Due, DueQuery, ScopeState, WindowHistory};
use bursar_core::state::{
    BlobDigestKey, IdempotencyRowKey, JobKey, KeyRow, LineKey, NamespaceKey, QueueKey, ScheduleKey, ScopeKey, Workspace,
};
use bursar_core::time::Time;

use super::{Tables, View, Writes};
use crate::claims;
use crate::error::StoreError;
use crate::transaction::rows::{ClaimQuery, Claimed, Found, HistoryQuery, Rows};

/// A transaction: it reads through a [`View`], and its caller applies its writes at the end.
pub(super) struct MemoryRows<'a> {
    tables: &'a Tables,
    writes: Writes,
    now: Time,
}

impl<'a> MemoryRows<'a> {
    /// Begins a transaction. `now` is the time of the store's clock.
    pub(super) fn new(tables: &'a Tables, now: Time) -> MemoryRows<'a> {
        MemoryRows { tables, writes: Writes::default(), now }
    }

    pub(super) fn into_writes(self) -> Writes {
        self.writes
    }

    fn view(&self) -> View<'_> {
        View { tables: self.tables, writes: &self.writes }
    }
}

/// Returns the rows that exist, with their keys.
fn pick<'a, K: Clone, V: Clone + 'a>(keys: &[K], find: impl Fn(&K) -> Option<&'a V>) -> Vec<(K, V)> {
    keys.iter().filter_map(|key| Some((key.clone(), find(key)?.clone()))).collect()
}

impl Rows for MemoryRows<'_> {
    async fn keys(&mut self, keys: &[IdempotencyRowKey]) -> Result<Vec<(IdempotencyRowKey, KeyRow)>, StoreError> {
        Ok(pick(keys, |key| self.view().key(key)))
    }

    async fn entries(&mut self, wanted: &[(BatchId, CommandId)]) -> Result<Vec<Arc<Entry>>, StoreError> {
        Ok(wanted.iter().filter_map(|(batch, command)| self.view().entry(*batch, *command)).collect())
    }

    async fn job_keys(&mut self, keys: &[JobKey]) -> Result<Vec<(JobKey, JobId)>, StoreError> {
        Ok(pick(keys, |key| self.view().job_key(key)))
    }

    async fn jobs(&mut self, ids: &[JobId], _: bool) -> Result<Found<JobId, Job>, StoreError> {
        Ok(Found::all(pick(ids, |id| self.view().job(id))))
    }

    async fn queues(&mut self, keys: &[QueueKey], _: bool) -> Result<Vec<(QueueKey, QueueState)>, StoreError> {
        Ok(pick(keys, |key| self.view().queue(key)))
    }

    async fn schedules(&mut self, keys: &[ScheduleKey]) -> Result<Found<ScheduleKey, Schedule>, StoreError> {
        Ok(Found::all(pick(keys, |key| self.view().schedule(key))))
    }

    async fn claim(&mut self, queries: &[ClaimQuery], now: Time) -> Result<Vec<Claimed>, StoreError> {
        Ok(queries.iter().map(|query| claims::claim(self.view().waiting_jobs(), query, now)).collect())
    }

    async fn behind(&mut self, lines: &[(LineKey, usize)]) -> Result<Vec<Job>, StoreError> {
        let behind = |(line, count): &(LineKey, usize)| claims::behind(self.view().waiting_jobs(), line, *count);
        Ok(lines.iter().flat_map(behind).collect())
    }

    async fn barred(&mut self, keys: &[(QueueKey, FlowKey)]) -> Result<Vec<Job>, StoreError> {
        Ok(claims::barred_heads(self.view().waiting_jobs(), keys))
    }

    async fn blobs(&mut self, ids: &[BlobId]) -> Result<Found<BlobId, Blob>, StoreError> {
        Ok(Found::all(pick(ids, |id| self.view().blob(id))))
    }

    async fn blob_digests(&mut self, keys: &[BlobDigestKey]) -> Result<Vec<(BlobDigestKey, BlobId)>, StoreError> {
        Ok(pick(keys, |key| self.view().blob_digest(key)))
    }

    async fn namespaces(
        &mut self,
        keys: &[NamespaceKey],
        _: bool,
    ) -> Result<Vec<(NamespaceKey, NamespaceState)>, StoreError> {
        Ok(pick(keys, |key| self.view().namespace(key)))
    }

    async fn holds(&mut self, ids: &[HoldId]) -> Result<Found<HoldId, Hold>, StoreError> {
        Ok(Found::all(pick(ids, |id| self.view().hold(id))))
    }

    async fn grants(&mut self, ids: &[GrantId]) -> Result<Found<GrantId, Grant>, StoreError> {
        Ok(Found::all(pick(ids, |id| self.view().grant(id))))
    }

    async fn scopes(&mut self, keys: &[(ScopeKey, bool)]) -> Result<Found<ScopeKey, ScopeState>, StoreError> {
        let rows = keys.iter().filter_map(|(key, create)| {
            let row = self.view().scope(key).cloned();
            Some((key.clone(), row.or_else(|| create.then(ScopeState::default))?))
        });
        Ok(Found::all(rows.collect()))
    }

    async fn now(&mut self) -> Result<Time, StoreError> {
        Ok(self.now)
    }

    async fn due(&mut self, queries: &[(ScopeKey, DueQuery)], now: Time) -> Result<Vec<Due>, StoreError> {
        Ok(queries.iter().map(|(key, query)| self.view().due(key, query, now)).collect())
    }

    async fn window_histories(&mut self, queries: &[HistoryQuery]) -> Result<Vec<WindowHistory>, StoreError> {
        Ok(queries.iter().map(|query| self.view().window_history(query)).collect())
    }

    async fn roll_up(&mut self, scopes: &[(ScopeKey, Time)]) -> Result<(), StoreError> {
        self.writes.roll_up(self.tables, scopes);
        Ok(())
    }

    async fn store(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError> {
        self.writes.take(ws, batch);
        Ok(true)
    }
}
