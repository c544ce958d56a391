//! What maintains: finding what is due, removing what is no longer needed, checking, and closing.

use async_trait::async_trait;
use bursar_core::id::{HoldId, JobId};
use bursar_core::name::{FlowKey, Tenant};
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::Time;

use crate::error::StoreError;
use crate::figures::DueJobs;
use crate::verify::Report;

/// The part of an engine that maintains. The lists of what is due only read: the changes themselves are requests, and
/// go through [`Commit`](super::Commit).
#[async_trait]
pub trait Maintain: Send + Sync + 'static {
    /// Expired holds that are not yet recorded as expired, over all tenants.
    async fn due_holds(&self, limit: usize) -> Result<Vec<(Tenant, HoldId)>, StoreError>;
    /// Jobs that maintenance has to look at, at most `limit` of each kind.
    async fn due_jobs(&self, limit: usize) -> Result<DueJobs, StoreError>;
    /// Schedules with a due tick, the longest overdue first; and the time of the next tick.
    async fn due_schedules(&self, limit: usize) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError>;
    /// Jobs that await units of a scope, the longest waiting first.
    async fn jobs_awaiting(&self, scope: &ScopeKey, limit: usize) -> Result<Vec<JobId>, StoreError>;
    /// Jobs of a queue that wait for a slot of their flow key, for at most `limit` keys after one; and the last of these
    /// keys, `None` at the end.
    async fn jobs_barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError>;
    /// Scopes that jobs await units of, each with its version, which changes whenever units may have been freed.
    async fn scopes_awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError>;
    /// The keys of scopes after one, over all tenants.
    async fn list_scope_keys(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError>;

    /// Deletes idempotency keys that have expired; returns how many.
    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError>;
    /// Deletes the figures of old minutes, of at most `limit` queues after one; returns the last queue looked at, `None` at the end.
    async fn forget_figures(&self, after: Option<&QueueKey>, limit: usize) -> Result<Option<QueueKey>, StoreError>;
    /// Deletes unused scopes of flow keys, among at most `limit` scopes after one; returns the last scope looked at, `None` at the end.
    async fn forget_flows(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Option<ScopeKey>, StoreError>;
    /// Deletes a payload that is kept beside the journal. False when there is none.
    async fn erase_payload(&self, id: u128) -> Result<bool, StoreError>;

    /// Checks that balances equal what holds and postings add up to.
    async fn verify(&self) -> Result<Report, StoreError>;
    /// Rebuilds every table but the journal and the payloads from the journal; returns how many events it applied.
    async fn rebuild(&self) -> Result<u64, StoreError>;
    /// Fails where requests could not be committed now: the database file is gone, a disk is full, a server is read-only.
    async fn ready(&self) -> Result<(), StoreError> {
        self.health().await.map(drop)
    }
    /// Reports the state of the database.
    async fn health(&self) -> Result<Health, StoreError>;
    /// Stops all background work. Every later call fails with `Closed`.
    async fn close(&self);
}

/// What an engine reports about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The engine and its version.
    pub engine: String,
    /// The schema version of the tables.
    pub schema: i64,
    /// Where the data is, without secrets.
    pub place: String,
    /// The problems it found, each with its remedy.
    pub problems: Vec<String>,
    /// The last position of the journal.
    pub position: u64,
    /// The time of the last event.
    pub last_event_at: Option<Time>,
    /// The time that the store's decisions use.
    pub now: Time,
}
