//! The operations of a transaction that each engine implements. Every call takes a set of rows, so that a batch takes about as many
//! statements as a single request.

use std::sync::Arc;

use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, BlobId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::live::ChargeMark;
use bursar_core::name::{FlowKey, JobKind};
use bursar_core::needs::Needs;
use bursar_core::scope::{Balance, Bounds, Due, DueQuery, PostingMark, ScopeState, WindowHistory};
use bursar_core::state::{
    BlobDigestKey, IdempotencyRowKey, JobKey, KeyRow, LineKey, NamespaceKey, QueueKey, ScheduleKey, ScopeKey, Workspace,
};
use bursar_core::time::Time;

use crate::error::StoreError;

/// The result of locking rows: those that were locked, and those that another transaction has locked.
#[derive(Debug)]
pub struct Found<K, V> {
    /// The rows that exist and were locked.
    pub rows: Vec<(K, V)>,
    /// The keys of rows that exist and could not be locked.
    pub blocked: Vec<K>,
}

impl<K, V> Found<K, V> {
    /// Creates a result in which no row is locked by another transaction.
    pub fn all(rows: Vec<(K, V)>) -> Found<K, V> {
        Found { rows, blocked: Vec::new() }
    }
}

/// The postings and charges to sum in order to open a window on a scope.
#[derive(Clone, Debug)]
pub struct HistoryQuery {
    /// The scope.
    pub scope: ScopeKey,
    /// Only postings after this mark are summed.
    pub after: PostingMark,
    /// Only postings before this instant are summed.
    pub until: Time,
    /// Only charges after this mark are summed. Those up to it are folded.
    pub unfolded: ChargeMark,
    /// Only charges of holds placed at this instant or later are summed.
    pub placed_from: Time,
}

impl HistoryQuery {
    /// Returns what to sum for a balance of a scope.
    pub(crate) fn of(scope: &ScopeKey, row: &ScopeState, balance: &Balance) -> HistoryQuery {
        let Bounds { after, until, placed_from } = balance.bounds();
        HistoryQuery { scope: scope.clone(), after, until, unfolded: row.folded, placed_from }
    }
}

/// A query for jobs of a queue that can be leased.
#[derive(Clone, Debug)]
pub struct ClaimQuery {
    /// The queue.
    pub queue: QueueKey,
    /// The kinds; `prefix*` matches a prefix, an empty list matches all.
    pub kinds: Vec<JobKind>,
    /// The most jobs to return.
    pub count: usize,
}

/// Jobs that can be leased from a queue.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// Jobs that wait for a worker and either have no flow key or are the head of a line that is not barred; the best rank first.
    pub ready: Vec<Job>,
    /// Scheduled jobs that are due, the longest overdue first.
    pub due: Vec<Job>,
    /// When the next scheduled job is due, if there is one.
    pub next_at: Option<Time>,
}

/// One transaction of an engine. Rows that are locked stay locked until its end.
#[expect(
    async_fn_in_trait,
    reason = "callers use concrete types, so the compiler can infer whether their futures are Send"
)]
pub trait Rows {
    /// Called before `holds`, `grants` and `scopes` are called for the rows of `needs`, in this order. An engine can load some of these rows
    /// in one round trip.
    async fn prefetch(&mut self, _needs: &Needs) -> Result<(), StoreError> {
        Ok(())
    }
    /// Returns the idempotency keys that exist, without locking them.
    async fn keys(&mut self, keys: &[IdempotencyRowKey]) -> Result<Vec<(IdempotencyRowKey, KeyRow)>, StoreError>;
    /// Returns entries of the journal.
    async fn entries(&mut self, wanted: &[(BatchId, CommandId)]) -> Result<Vec<Arc<Entry>>, StoreError>;
    /// Returns the ids of jobs by their idempotency keys, without locking them.
    async fn job_keys(&mut self, keys: &[JobKey]) -> Result<Vec<(JobKey, JobId)>, StoreError>;
    /// Returns jobs, live or finished, in order of ids; locks them if `locked`.
    async fn jobs(&mut self, ids: &[JobId], locked: bool) -> Result<Found<JobId, Job>, StoreError>;
    /// Returns queues that have settings; locks them if `locked`.
    async fn queues(&mut self, keys: &[QueueKey], locked: bool) -> Result<Vec<(QueueKey, QueueState)>, StoreError>;
    /// Locks schedules, in order of names.
    async fn schedules(&mut self, keys: &[ScheduleKey]) -> Result<Found<ScheduleKey, Schedule>, StoreError>;
    /// Locks jobs that can be leased, for each of `queries`. Skips jobs that another transaction has locked.
    async fn claim(&mut self, queries: &[ClaimQuery], now: Time) -> Result<Vec<Claimed>, StoreError>;
    /// Locks jobs behind the head of each line, up to a number for each, the best rank first. Skips jobs that another transaction has
    /// locked.
    async fn behind(&mut self, lines: &[(LineKey, usize)]) -> Result<Vec<Job>, StoreError>;
    /// Locks the barred heads of the lines of flow keys.
    async fn barred(&mut self, keys: &[(QueueKey, FlowKey)]) -> Result<Vec<Job>, StoreError>;
    /// Locks blobs, in order of ids.
    async fn blobs(&mut self, ids: &[BlobId]) -> Result<Found<BlobId, Blob>, StoreError>;
    /// Returns the live blobs that are found by digests, without locking them.
    async fn blob_digests(&mut self, keys: &[BlobDigestKey]) -> Result<Vec<(BlobDigestKey, BlobId)>, StoreError>;
    /// Returns namespaces that have rules; locks them if `locked`.
    async fn namespaces(
        &mut self,
        keys: &[NamespaceKey],
        locked: bool,
    ) -> Result<Vec<(NamespaceKey, NamespaceState)>, StoreError>;
    /// Locks holds, in order of ids.
    async fn holds(&mut self, ids: &[HoldId]) -> Result<Found<HoldId, Hold>, StoreError>;
    /// Locks grants, in order of ids.
    async fn grants(&mut self, ids: &[GrantId]) -> Result<Found<GrantId, Grant>, StoreError>;
    /// Locks scopes, in order of names. A scope with `true` is created if it does not exist.
    async fn scopes(&mut self, keys: &[(ScopeKey, bool)]) -> Result<Found<ScopeKey, ScopeState>, StoreError>;
    /// Returns the time of the store's clock. The batch is decided at this time or later.
    async fn now(&mut self) -> Result<Time, StoreError>;
    /// Returns what is due on scopes, a bounded number of charges and postings for each.
    async fn due(&mut self, queries: &[(ScopeKey, DueQuery)], now: Time) -> Result<Vec<Due>, StoreError>;
    /// Returns the history of windows to open, one for each query.
    async fn window_histories(&mut self, queries: &[HistoryQuery]) -> Result<Vec<WindowHistory>, StoreError>;
    /// Replaces the single postings of each scope before an instant by sums.
    async fn roll_up(&mut self, scopes: &[(ScopeKey, Time)]) -> Result<(), StoreError>;
    /// Writes the changes of a workspace and the row of the journal. Returns false if another transaction has inserted a name since it was
    /// looked up: the batch must be loaded and decided again.
    async fn store(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError>;
}
