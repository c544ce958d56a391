//! Rows: what loading and storing needs of an engine. Set-shaped, so that a batch costs as few statements as one request.

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

/// Rows that were found, and rows that somebody else has locked.
#[derive(Debug)]
pub struct Found<K, V> {
    /// The rows that are there and were taken.
    pub rows: Vec<(K, V)>,
    /// The keys of rows that are there and could not be taken.
    pub blocked: Vec<K>,
}

impl<K, V> Found<K, V> {
    /// Rows none of which is locked by anybody.
    pub fn all(rows: Vec<(K, V)>) -> Found<K, V> {
        Found { rows, blocked: Vec::new() }
    }
}

/// What to sum in order to open a window on a scope with a past.
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
    /// What belongs to a balance of a scope, as it stands.
    pub(crate) fn of(scope: &ScopeKey, row: &ScopeState, balance: &Balance) -> PastAsk {
        let Bounds { after, until, placed_from } = balance.bounds();
        PastAsk { scope: scope.clone(), after, until, unfolded: row.folded, placed_from }
    }
}

/// Jobs that are wanted from a queue.
#[derive(Clone, Debug)]
pub struct ClaimAsk {
    /// Which queue.
    pub queue: QueueKey,
    /// Of these kinds, or of those that begin with what stands before a `*`; of any if there are none.
    pub kinds: Vec<JobKind>,
    /// So many at most.
    pub count: usize,
}

/// Jobs that can be leased from a queue.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// Those that wait for a worker, are in no line or the first of theirs, and not barred; the best first.
    pub ready: Vec<Job>,
    /// Those that were scheduled and are due, the first due first.
    pub due: Vec<Job>,
    /// When the next one that is scheduled is due.
    pub next_at: Option<Time>,
}

/// One transaction on one engine. Whatever is read for writing is locked until its end.
#[expect(
    async_fn_in_trait,
    reason = "an engine is named where it is used, so that the compiler sees what its futures are"
)]
pub trait Rows {
    /// What will be asked for by `holds`, `grants` and `scopes`, in this order and once each: an engine may take some of it
    /// together.
    async fn foresee(&mut self, _needs: &Needs) -> Result<(), StoreError> {
        Ok(())
    }
    /// Idempotency keys that are taken. They are not locked.
    async fn keys(&mut self, keys: &[KeyKey]) -> Result<Vec<(KeyKey, KeyRow)>, StoreError>;
    /// What was done under keys, from the journal.
    async fn entries(&mut self, wanted: &[(BatchId, CommandId)]) -> Result<Vec<Arc<Entry>>, StoreError>;
    /// Jobs by their keys. They are not locked.
    async fn job_keys(&mut self, keys: &[JobKey]) -> Result<Vec<(JobKey, JobId)>, StoreError>;
    /// Jobs, live or finished, in the order of their ids; only `locked` ones may be changed.
    async fn jobs(&mut self, ids: &[JobId], locked: bool) -> Result<Found<JobId, Job>, StoreError>;
    /// Queues that something was set for; only `locked` ones may be changed.
    async fn queues(&mut self, keys: &[QueueKey], locked: bool) -> Result<Vec<(QueueKey, QueueState)>, StoreError>;
    /// Schedules, in the order of their names.
    async fn schedules(&mut self, keys: &[ScheduleKey]) -> Result<Found<ScheduleKey, Schedule>, StoreError>;
    /// Jobs that can be leased, for each of the asks, without those that somebody else has locked.
    async fn claim(&mut self, asks: &[ClaimAsk], now: Time) -> Result<Vec<Claimed>, StoreError>;
    /// The jobs behind the first of lines, so many for each, the best first, without those that somebody else has locked.
    async fn behind(&mut self, lines: &[(LineKey, usize)]) -> Result<Vec<Job>, StoreError>;
    /// The barred firsts of the lines of flow keys.
    async fn barred(&mut self, keys: &[(QueueKey, FlowKey)]) -> Result<Vec<Job>, StoreError>;
    /// Holds, in the order of their ids.
    async fn holds(&mut self, ids: &[HoldId]) -> Result<Found<HoldId, Hold>, StoreError>;
    /// Grants, in the order of their ids.
    async fn grants(&mut self, ids: &[GrantId]) -> Result<Found<GrantId, Grant>, StoreError>;
    /// Scopes, in the order of their names; those with `true` are brought into being if they are not there.
    async fn scopes(&mut self, keys: &[(ScopeKey, bool)]) -> Result<Found<ScopeKey, ScopeState>, StoreError>;
    /// The clock, read after all locks are taken.
    async fn now(&mut self) -> Result<Time, StoreError>;
    /// What is due on scopes, a bounded step of it each.
    async fn due(&mut self, asks: &[(ScopeKey, DueAsk)], now: Time) -> Result<Vec<Due>, StoreError>;
    /// What history says of windows that are to be opened.
    async fn past(&mut self, asks: &[PastAsk]) -> Result<Vec<Past>, StoreError>;
    /// Rolls postings before an instant up into one sum for each scope.
    async fn roll_up(&mut self, scopes: &[(ScopeKey, Time)]) -> Result<(), StoreError>;
    /// Writes what changed. False when a key that was free has been taken meanwhile: load again.
    async fn store(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError>;
}
