//! Rows: what loading and storing needs of an engine. Set-shaped, so that a batch costs as few statements as one request.

use std::sync::Arc;

use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::Job;
use bursar_core::live::ChargeMark;
use bursar_core::needs::Needs;
use bursar_core::scope::{Balance, Bounds, Due, DueAsk, Past, PostingMark, ScopeState};
use bursar_core::state::{JobKey, KeyKey, KeyRow, ScopeKey, Workspace};
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
    /// Jobs.
    async fn jobs(&mut self, ids: &[JobId]) -> Result<Vec<(JobId, Job)>, StoreError>;
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
