//! The write path of every engine: load, decide, store.
//!
//! An engine implements [`Rows`]: what one of its transactions can load, lock and write. [`run`] loads and locks the rows that a batch of
//! requests needs, lets `bursar-core` decide each request in order, and leaves the changed rows in a [`Workspace`], which the engine
//! writes and commits. [`retry`] retries transactions that conflict with others, on engines with several writers.
//!
//! # Names
//!
//! A *name* is the idempotency key of a request or of a job. Names are looked up before any row is locked, so another transaction can
//! insert the same name in between. A request with an effect inserts its name and gets a conflict; its batch is then loaded and decided
//! again. A request without an effect (a refusal, a dry run) inserts nothing. For it, `repeat_lost_races` looks up the name a second
//! time, with the rows locked. If the name has been inserted since, the request is decided again and gets the answer of the other one.

mod blocked;
mod load;
mod load_blobs;
mod load_jobs;
pub mod lock_order;
pub mod retry;
pub mod rows;

use std::collections::HashSet;

use bursar_core::decide::Rules;
use bursar_core::id::{BatchId, IdSource};
use bursar_core::mutant::Mutant;
use bursar_core::name::Scope;
use bursar_core::needs::Needs;
use bursar_core::refusal::Refusal;
use bursar_core::request::{CheckedRequest, Op};
use bursar_core::state::{ScopeKey, Workspace};
use bursar_core::time::Time;

use self::blocked::Blocked;
pub use self::load::{replay, replay_for, view};
pub use self::rows::Rows;
use crate::error::StoreError;
use crate::store::{Lock, RequestOutcome};

/// The id of a batch, and the earliest instant at which it is decided.
#[derive(Clone, Copy, Debug)]
pub struct BatchStart {
    /// The latest instant at which this node has decided a batch. This batch is decided at that instant or later.
    pub floor: Time,
    /// The id of the batch.
    pub batch: BatchId,
}

/// Loads what the requests need and decides them. Returns the changed workspace and the outcome of each request.
pub async fn run<R: Rows>(
    rows: &mut R,
    requests: &[&CheckedRequest],
    rules: &Rules,
    start: BatchStart,
    ids: &mut (dyn IdSource + Send),
) -> Result<(Workspace, Vec<RequestOutcome>), StoreError> {
    let mut loaded = LoadedBatch::load(rows, requests, start).await?;
    loaded.decide(requests, requests.len(), rules, ids);
    let LoadedBatch { ws, mut outcomes, .. } = loaded;
    conclude(rows, requests, rules, &ws, &mut outcomes).await?;
    Ok((ws, outcomes))
}

/// A batch with every row it needs, which can be decided without the database.
pub(crate) struct LoadedBatch {
    pub(crate) ws: Workspace,
    /// The outcomes of the requests decided so far, in order.
    pub(crate) outcomes: Vec<RequestOutcome>,
    blocked: Blocked,
}

impl LoadedBatch {
    pub(crate) async fn load<R: Rows>(
        rows: &mut R,
        requests: &[&CheckedRequest],
        start: BatchStart,
    ) -> Result<LoadedBatch, StoreError> {
        let mut needs = Needs::default();
        requests.iter().for_each(|request| needs.merge(request.needs()));
        let (mut ws, blocked) = load::load(rows, needs, start, None).await?;
        ws.take_expiry_postings();
        let commands =
            || requests.iter().filter_map(|request| if let Op::Submit(it) = &request.op { Some(it) } else { None });
        ws.holds.reserve(commands().filter(|command| !command.charges.is_empty()).count());
        ws.jobs.reserve(commands().map(|command| command.jobs.len()).sum());
        Ok(LoadedBatch { ws, outcomes: Vec::with_capacity(requests.len()), blocked })
    }

    /// Decides the next `count` requests in order.
    pub(crate) fn decide<Q: std::borrow::Borrow<CheckedRequest>>(
        &mut self,
        requests: &[Q],
        count: usize,
        rules: &Rules,
        ids: &mut (dyn IdSource + Send),
    ) {
        let LoadedBatch { ws, outcomes, blocked } = self;
        for request in requests.iter().skip(outcomes.len()).take(count) {
            outcomes.push(blocked.decide(ws, request.borrow(), rules, ids));
        }
    }
}

/// Finishes a decided batch before its workspace is written: checks names again, and rolls up the postings of tidied scopes.
pub(crate) async fn conclude<R: Rows>(
    rows: &mut R,
    requests: &[&CheckedRequest],
    rules: &Rules,
    ws: &Workspace,
    outcomes: &mut [RequestOutcome],
) -> Result<(), StoreError> {
    repeat_lost_races(rows, requests, ws, outcomes).await?;
    let tidied = scopes_to_roll_up(requests, ws, rules);
    if !tidied.is_empty() {
        rows.roll_up(&tidied).await?;
    }
    Ok(())
}

/// Marks requests without an effect as [`RequestOutcome::Again`] if another transaction has inserted their name since it was looked up.
async fn repeat_lost_races<R: Rows>(
    rows: &mut R,
    requests: &[&CheckedRequest],
    ws: &Workspace,
    outcomes: &mut [RequestOutcome],
) -> Result<(), StoreError> {
    if Mutant::TwinIsRefused.on() {
        return Ok(());
    }
    let mut without_effect = Vec::new();
    let mut names = Needs::default();
    for (index, (request, outcome)) in requests.iter().zip(outcomes.iter()).enumerate() {
        let has_no_effect = match outcome {
            RequestOutcome::Answered(Ok(outcome)) => outcome.entry.is_none() && !outcome.replayed,
            RequestOutcome::Answered(Err(refusal)) => !matches!(refusal, Refusal::Invalid(_)),
            _ => false,
        };
        if !has_no_effect {
            continue;
        }
        let keys = request.needs().keys.iter();
        let keys: Vec<_> =
            keys.filter(|key| ws.keys.get(*key).is_none_or(|row| row.until <= ws.now)).cloned().collect();
        let job_keys = request.needs().job_keys.iter();
        let job_keys: Vec<_> = job_keys.filter(|key| ws.job_keys.get(*key).is_none()).cloned().collect();
        names.keys.extend(keys.iter().cloned());
        names.job_keys.extend(job_keys.iter().cloned());
        without_effect.push((index, keys, job_keys));
    }
    let mut taken = HashSet::new();
    if !names.keys.is_empty() {
        let keys: Vec<_> = names.keys.into_iter().collect();
        let found = rows.keys(&keys).await?;
        taken.extend(found.into_iter().filter(|(_, row)| row.until > ws.now).map(|(key, _)| Lock::Key(key)));
    }
    if !names.job_keys.is_empty() {
        let keys: Vec<_> = names.job_keys.into_iter().collect();
        taken.extend(rows.job_keys(&keys).await?.into_iter().map(|(key, _)| Lock::JobKey(key)));
    }
    for (index, keys, job_keys) in without_effect.into_iter().filter(|_| !taken.is_empty()) {
        let mut own = keys.into_iter().map(Lock::Key).chain(job_keys.into_iter().map(Lock::JobKey));
        if own.any(|name| taken.contains(&name)) {
            outcomes[index] = RequestOutcome::Again;
        }
    }
    Ok(())
}

/// Returns the scopes that `Tidy` requests name, each with the instant before which its postings can be rolled up.
fn scopes_to_roll_up(requests: &[&CheckedRequest], ws: &Workspace, rules: &Rules) -> Vec<(ScopeKey, Time)> {
    let scopes = requests.iter().filter_map(|request| match &request.op {
        Op::Tidy { scopes } if !request.dry_run => Some((request, scopes)),
        _ => None,
    });
    let keys = scopes.flat_map(|(request, scopes)| {
        scopes.iter().map(|scope: &Scope| (request.context.tenant.clone(), scope.clone()))
    });
    // A scope with more due postings than one transaction folds still needs them one by one.
    let keys = keys.filter(|key| !ws.unfolded_scopes.contains(key));
    keys.filter_map(|key| Some((ws.scopes.get(&key)?.rolled_up_before(ws.now, rules.postings_kept), key)))
        .map(|(before, key)| (key, if Mutant::RollUpTooMuch.on() { ws.now } else { before }))
        .collect()
}
