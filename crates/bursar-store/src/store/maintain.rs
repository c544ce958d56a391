//! Maintenance of the tables: finding what is due, deleting what is no longer needed, checking, rebuilding and closing.

use async_trait::async_trait;
use bursar_core::blob::Blob;
use bursar_core::event::Stream;
use bursar_core::id::{BatchId, BlobId, GrantId, HoldId, JobId};
use bursar_core::name::{FlowKey, Tenant};
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::{Span, Time};

use crate::error::StoreError;
use crate::figures::DueJobs;
use crate::verify::Report;

/// The part of a store that maintains its tables. The methods that list what is due only read; the changes themselves are requests and
/// go through [`Commit`](super::Commit).
#[async_trait]
pub trait Maintain: Send + Sync + 'static {
    /// Lists expired holds of all tenants that are not recorded as expired yet.
    async fn due_holds(&self, limit: usize) -> Result<Vec<(Tenant, HoldId)>, StoreError>;
    /// Lists jobs of all tenants that need maintenance, at most `limit` of each kind.
    async fn due_jobs(&self, limit: usize) -> Result<DueJobs, StoreError>;
    /// Lists blobs of all tenants that are due: to be doomed, or to have their bytes deleted.
    async fn due_blobs(&self, limit: usize) -> Result<Vec<Blob>, StoreError>;
    /// Lists the blobs of all tenants in any state after an id, in order of ids.
    async fn list_all_blobs(&self, after: Option<BlobId>, limit: usize) -> Result<Vec<Blob>, StoreError>;
    /// Lists schedules with a due tick, the longest overdue first. Also returns the time of the next tick of any schedule.
    async fn due_schedules(&self, limit: usize) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError>;
    /// Lists jobs that wait for units of a scope, the longest waiting first.
    async fn jobs_awaiting(&self, scope: &ScopeKey, limit: usize) -> Result<Vec<JobId>, StoreError>;
    /// Lists the barred jobs of a queue, which wait for a slot of their flow key, for at most `limit` keys after `after`. Also returns the
    /// last of these keys, `None` at the end.
    async fn jobs_barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError>;
    /// Lists scopes that jobs wait for, each with its version, which changes whenever units may have been freed.
    async fn scopes_awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError>;
    /// Lists the keys of scopes of all tenants after `after`.
    async fn list_scope_keys(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError>;

    /// Deletes at most `limit` expired idempotency keys, and returns how many it deleted.
    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError>;
    /// Deletes the per-minute figures that are too old, of at most `limit` queues after `after`. Returns the last of these queues, `None` at
    /// the end.
    async fn forget_figures(&self, after: Option<&QueueKey>, limit: usize) -> Result<Option<QueueKey>, StoreError>;
    /// Deletes unused scopes, among at most `limit` scopes after `after`.
    async fn forget_scopes(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Forgotten<ScopeKey>, StoreError>;
    /// Deletes ended holds that are no longer needed, among at most `limit` holds after `after`.
    async fn forget_holds(&self, after: Option<HoldId>, limit: usize) -> Result<Forgotten<HoldId>, StoreError>;
    /// Deletes grants and credentials that expired long ago, among at most `limit` after `after`.
    async fn forget_grants(&self, after: Option<GrantId>, limit: usize) -> Result<Forgotten<GrantId>, StoreError>;
    /// Deletes at most `limit` costs that are too old, of the first tenant after `after` that has any costs.
    async fn forget_costs(&self, after: Option<&Tenant>, limit: usize) -> Result<Forgotten<Tenant>, StoreError>;
    /// Counts rows that should have been deleted at least `by` ago: at most `limit` idempotency keys and ended jobs, and those among the
    /// `limit` oldest holds and grants. Holds that belonged to a job or a blob are not counted.
    async fn overdue(&self, by: Span, limit: usize) -> Result<Overdue, StoreError>;
    /// Fails if this connection may not change rows of the journal, which [`Maintain::erase_payloads`] does.
    async fn check_can_erase(&self) -> Result<(), StoreError> {
        Ok(())
    }
    /// Deletes the payloads of jobs and grants that are stored apart from the journal, and overwrites those in rows of the journal. Rows
    /// that are not in the table are left out. Returns whether there was anything. The caller has checked whose jobs and grants they are.
    async fn erase_payloads(&self, of: &[Stream], rows: &[BatchId]) -> Result<bool, StoreError>;

    /// Checks that the balances equal the sums of holds and postings.
    async fn verify(&self) -> Result<Report, StoreError>;
    /// Rebuilds every table but the journal and the payloads from the journal. Returns the number of events it applied.
    async fn rebuild(&self) -> Result<u64, StoreError>;
    /// Fails if no request can be committed now, as when the database file is missing, the disk is full or the server is read-only.
    async fn ready(&self) -> Result<(), StoreError> {
        self.health().await.map(drop)
    }
    /// Reports the state of the database.
    async fn health(&self) -> Result<Health, StoreError>;
    /// Stops all background work. Every later call fails with `Closed`.
    async fn close(&self);
}

/// The result of a step that deletes rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten<K> {
    /// The number of deleted rows.
    pub count: usize,
    /// The last key of the step, from which the next one continues; `None` at the end.
    pub last: Option<K>,
}

/// Numbers of rows that should have been deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overdue {
    /// Expired idempotency keys.
    pub keys: usize,
    /// Ended holds.
    pub holds: usize,
    /// Expired grants and credentials.
    pub grants: usize,
    /// Ended jobs.
    pub jobs: usize,
}

/// Row-level security of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSecurity {
    /// Whether it applies to the transactions of this process, and why.
    pub state: String,
    /// Whether this process may read the rows of all tenants, as a backup and `verify` do.
    pub reads_all: bool,
}

/// The state of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The engine and its version.
    pub engine: String,
    /// The schema version of the tables.
    pub schema: i64,
    /// Where the data is, without secrets.
    pub place: String,
    /// Row-level security, on PostgreSQL.
    pub row_security: Option<RowSecurity>,
    /// The problems it found, each with its remedy.
    pub problems: Vec<String>,
    /// The last position of the journal.
    pub position: u64,
    /// The time of the last event.
    pub last_event_at: Option<Time>,
    /// The time that the store's decisions use.
    pub now: Time,
}
