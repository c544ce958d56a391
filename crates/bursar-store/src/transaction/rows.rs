//! What a transaction needs of an engine. Every call takes a set of rows, so that a batch costs as few statements as one request.

use std::sync::Arc;

use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::live::ChargeMark;
use bursar_core::name::{FlowKey, JobKind};
use bursar_core::needs::Needs;
use bursar_core::scope::{Balance, Bounds, Due, DueAsk, Past, PostingMark, ScopeState};
use bursar_core::state::{JobKey, KeyKey, KeyRow, LineKey, QueueKey, ScheduleKey, ScopeKey, Workspace};
use bursar_core::time::Time;

use crate::error::StoreError;

/// Rows that were found, and rows that another transaction has locked.
#[derive(Debug)]
pub struct Found<K, V> {
    /// The rows that exist and were locked.
    pub rows: Vec<(K, V)>,
    /// The keys of rows that exist and could not be locked.
    pub blocked: Vec<K>,
}

impl<K, V> Found<K, V> {
    /// Rows none of which is locked by another transaction.
    pub fn all(rows: Vec<(K, V)>) -> Found<K, V> {
        Found { rows, blocked: Vec::new() }
    }
}

/// What to sum in order to open a window on a scope that has postings or holds.
#[derive(Clone, Debug)]
pub struct PastAsk {
    /// On which scope.
    pub scope: ScopeKey,
    /// Postings after this mark …
    pub after: PostingMark,
    /// … and before this instant.
    pub until: Time,
    /// Charges not folded yet …
    pub unfolded: ChargeMark,
    /// … of holds placed from here on.
    pub placed_from: Time,
}

impl PastAsk {
    /// What belongs to a balance of a scope.
    pub(crate) fn of(scope: &ScopeKey, row: &ScopeState, balance: &Balance) -> PastAsk {
        let Bounds { after, until, placed_from } = balance.bounds();
        PastAsk { scope: scope.clone(), after, until, unfolded: row.folded, placed_from }
    }
}

/// A request for jobs of a queue.
#[derive(Clone, Debug)]
pub struct ClaimAsk {
    /// Which queue.
    pub queue: QueueKey,
    /// The kinds; `prefix*` matches a prefix, an empty list matches all.
    pub kinds: Vec<JobKind>,
    /// At most this many.
    pub count: usize,
}

/// Jobs that can be leased from a queue.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// Jobs that wait for a worker, have no flow key or are the first of its line, and are not barred; the best rank first.
    pub ready: Vec<Job>,
    /// Scheduled jobs that are due, the longest overdue first.
    pub due: Vec<Job>,
    /// When the next scheduled job is due.
    pub next_at: Option<Time>,
}

/// One transaction on one engine. Rows that are read for writing stay locked until its end.
#[expect(
    async_fn_in_trait,
    reason = "an engine is named where it is used, so that the compiler sees what its futures are"
)]
pub trait Rows {
    /// Announces what `holds`, `grants` and `scopes` will be called with, in this order and once each. An engine may load some of it
    /// together in one round trip.
    async fn prefetch(&mut self, _needs: &Needs) -> Result<(), StoreError> {
        Ok(())
    }
    /// Idempotency keys that are in use. They are not locked.
    async fn keys(&mut self, keys: &[KeyKey]) -> Result<Vec<(KeyKey, KeyRow)>, StoreError>;
    /// Entries of the journal.
    async fn entries(&mut self, wanted: &[(BatchId, CommandId)]) -> Result<Vec<Arc<Entry>>, StoreError>;
    /// Jobs by their keys. They are not locked.
    async fn job_keys(&mut self, keys: &[JobKey]) -> Result<Vec<(JobKey, JobId)>, StoreError>;
    /// Jobs, live or finished, in order of ids; `locked` if they may be changed.
    async fn jobs(&mut self, ids: &[JobId], locked: bool) -> Result<Found<JobId, Job>, StoreError>;
    /// Queues with settings; `locked` if they may be changed.
    async fn queues(&mut self, keys: &[QueueKey], locked: bool) -> Result<Vec<(QueueKey, QueueState)>, StoreError>;
    /// Schedules, in order of names.
    async fn schedules(&mut self, keys: &[ScheduleKey]) -> Result<Found<ScheduleKey, Schedule>, StoreError>;
    /// Jobs that can be leased, for each of the requests, without those that another transaction has locked.
    async fn claim(&mut self, asks: &[ClaimAsk], now: Time) -> Result<Vec<Claimed>, StoreError>;
    /// The jobs behind the first of each line, up to a count, the best rank first, without those that another transaction has locked.
    async fn behind(&mut self, lines: &[(LineKey, usize)]) -> Result<Vec<Job>, StoreError>;
    /// The barred first jobs of the lines of flow keys.
    async fn barred(&mut self, keys: &[(QueueKey, FlowKey)]) -> Result<Vec<Job>, StoreError>;
    /// Holds, in order of ids.
    async fn holds(&mut self, ids: &[HoldId]) -> Result<Found<HoldId, Hold>, StoreError>;
    /// Grants, in order of ids.
    async fn grants(&mut self, ids: &[GrantId]) -> Result<Found<GrantId, Grant>, StoreError>;
    /// Scopes, in order of names; those with `true` are created if they do not exist.
    async fn scopes(&mut self, keys: &[(ScopeKey, bool)]) -> Result<Found<ScopeKey, ScopeState>, StoreError>;
    /// The clock, read after all locks are taken.
    async fn now(&mut self) -> Result<Time, StoreError>;
    /// What is due on scopes, a bounded number of charges and postings each.
    async fn due(&mut self, asks: &[(ScopeKey, DueAsk)], now: Time) -> Result<Vec<Due>, StoreError>;
    /// The sums of windows that are to be opened.
    async fn past(&mut self, asks: &[PastAsk]) -> Result<Vec<Past>, StoreError>;
    /// Replaces the postings of each scope before an instant by one sum.
    async fn roll_up(&mut self, scopes: &[(ScopeKey, Time)]) -> Result<(), StoreError>;
    /// Writes what changed. False when the decisions are out of date because a name was taken since: load again.
    async fn store(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError>;
}
