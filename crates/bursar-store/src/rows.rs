//! Rows: what loading and storing needs of an engine. Set-shaped, so that a batch costs as few statements as one request.

use std::sync::Arc;

use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::Job;
use bursar_core::live::ChargeMark;
use bursar_core::scope::{Balance, Bounds, Due, DueAsk, Past, PostingMark, ScopeState};
use bursar_core::state::{JobKey, KeyKey, KeyRow, ScopeKey, Workspace};
use bursar_core::time::Time;

use crate::error::StoreError;

/// Rows that were found, and rows that somebody else has locked.
#[derive(Debug)]
pub(crate) struct Found<K, V> {
    pub(crate) rows: Vec<(K, V)>,
    pub(crate) blocked: Vec<K>,
}

impl<K, V> Found<K, V> {
    pub(crate) fn all(rows: Vec<(K, V)>) -> Found<K, V> {
        Found { rows, blocked: Vec::new() }
    }
}

/// What to sum in order to open a window on a scope with a past.
#[derive(Clone, Debug)]
pub(crate) struct PastAsk {
    pub(crate) scope: ScopeKey,
    /// Postings after this mark …
    pub(crate) after: PostingMark,
    /// … and before this instant.
    pub(crate) until: Time,
    /// Charges not folded yet …
    pub(crate) unfolded: ChargeMark,
    /// … of holds placed from here on.
    pub(crate) placed_from: Time,
}

impl PastAsk {
    /// What belongs to a balance of a scope, as it stands.
    pub(crate) fn of(scope: &ScopeKey, row: &ScopeState, balance: &Balance) -> PastAsk {
        let Bounds { after, until, placed_from } = balance.bounds();
        PastAsk { scope: scope.clone(), after, until, unfolded: row.folded, placed_from }
    }
}

/// One transaction on one engine. Whatever is read for writing is locked until its end.
pub(crate) trait Rows {
    async fn keys(&mut self, keys: &[KeyKey]) -> Result<Vec<(KeyKey, KeyRow)>, StoreError>;
    async fn entries(&mut self, wanted: &[(BatchId, CommandId)]) -> Result<Vec<Arc<Entry>>, StoreError>;
    async fn job_keys(&mut self, keys: &[JobKey]) -> Result<Vec<(JobKey, JobId)>, StoreError>;
    async fn jobs(&mut self, ids: &[JobId]) -> Result<Vec<(JobId, Job)>, StoreError>;
    async fn holds(&mut self, ids: &[HoldId]) -> Result<Found<HoldId, Hold>, StoreError>;
    async fn grants(&mut self, ids: &[GrantId]) -> Result<Found<GrantId, Grant>, StoreError>;
    /// Scopes; those with `true` are brought into being if they are not there.
    async fn scopes(&mut self, keys: &[(ScopeKey, bool)]) -> Result<Found<ScopeKey, ScopeState>, StoreError>;
    /// The clock, read after all locks are taken.
    async fn now(&mut self) -> Result<Time, StoreError>;
    async fn due(&mut self, asks: &[(ScopeKey, DueAsk)], now: Time) -> Result<Vec<Due>, StoreError>;
    async fn past(&mut self, asks: &[PastAsk]) -> Result<Vec<Past>, StoreError>;
    /// Rolls postings before an instant up into one sum for each scope.
    async fn roll_up(&mut self, scopes: &[(ScopeKey, Time)]) -> Result<(), StoreError>;
    /// Writes what changed. False when a key that was free has been taken meanwhile: load again.
    async fn store(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError>;
}
