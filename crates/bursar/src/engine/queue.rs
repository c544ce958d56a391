//! The queue of the engine: requests that wait for a committer, or for a row that another transaction has locked.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bursar_core::answer::Outcome;
use bursar_core::bounds::TICKS_MAX;
use bursar_core::event::{Charged, Entry, Event};
use bursar_core::id::HoldId;
use bursar_core::job::End;
use bursar_core::name::Scope;
use bursar_core::request::{CheckedRequest, Op, Request};
use bursar_store::{Lock, StoreError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::Error;

/// The weight at which a batch is full, in rows plus kilobytes of payload.
const WEIGHT_MAX: usize = 16_000;
/// The most requests that a committer skips in search of requests it can take.
const SKIPPED_MAX: usize = 2_000;

/// A request that waits for its answer.
pub(super) struct Pending {
    pub(super) request: Arc<CheckedRequest>,
    /// Hashes of the rows it is known to touch. Empty with a single committer.
    pub(super) keys: Vec<u64>,
    weight: usize,
    /// If a needed row is still locked at this time, the request fails with `busy`. After an unknown outcome it is retried until then.
    pub(super) deadline: Instant,
    /// The error of an earlier attempt whose outcome is unknown.
    pub(super) unknown: Option<Error>,
    pub(super) answer: oneshot::Sender<Result<Outcome, Error>>,
}

impl Pending {
    pub(super) fn new(
        request: CheckedRequest,
        with_keys: bool,
        deadline: Instant,
        answer: oneshot::Sender<Result<Outcome, Error>>,
    ) -> Pending {
        let keys = if with_keys { keys(&request) } else { Vec::new() };
        Pending { keys, weight: weight(&request), request: Arc::new(request), deadline, unknown: None, answer }
    }
}

/// The requests that wait, and the keys that keep concurrent batches apart. A key is the hash of a row's key.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Pending>,
    /// Keys of batches that are being committed, with the number of requests that use each.
    in_flight: HashMap<u64, usize>,
    /// Requests that wait for a locked row, by its key, in order of arrival.
    lock_waiters: HashMap<u64, VecDeque<Pending>>,
    known_keys: KnownKeys,
    closed: bool,
}

/// A cache of keys that a request will need but does not name, learned from earlier entries. It only reduces lock conflicts between
/// committers: correctness does not depend on it.
#[derive(Default)]
struct KnownKeys {
    /// Keys of the scopes of live holds.
    holds: HashMap<HoldId, Box<[u64]>>,
    /// Keys of the ancestors of a scope.
    ancestors: HashMap<u64, Box<[u64]>>,
}

impl KnownKeys {
    const ENTRIES_MAX: usize = 100_000;

    fn learn(&mut self, entry: &Entry) {
        if self.holds.len() + self.ancestors.len() > KnownKeys::ENTRIES_MAX {
            *self = KnownKeys::default();
        }
        let key = |scope: &Scope| hash(0, &(&entry.context.tenant, scope));
        for recorded in &entry.events {
            let (Event::HoldPlaced { charges, .. } | Event::Posted { charges }) = &recorded.e else {
                if let Event::HoldCommitted { hold, .. } | Event::HoldReleased { hold, .. } = &recorded.e {
                    self.holds.remove(hold);
                }
                continue;
            };
            for charge in charges.iter().filter(|charge| !charge.ancestors.is_empty()) {
                self.ancestors.insert(key(&charge.scope), charge.ancestors.iter().map(key).collect());
            }
            // A request that settles the hold of a job names the job, not the hold.
            if let Event::HoldPlaced { hold, job: None, .. } = &recorded.e {
                self.holds.insert(*hold, charges.iter().flat_map(Charged::scopes).map(key).collect());
            }
        }
    }

    /// Adds the keys that a request will need but does not name.
    fn extend(&self, pending: &mut Pending) {
        if let Op::Commit { hold, .. } | Op::Release { hold } | Op::Extend { hold, .. } = &pending.request.op {
            pending.keys.extend(self.holds.get(hold).into_iter().flatten());
        }
        if !self.ancestors.is_empty() {
            let ancestors = pending.keys.iter().filter_map(|key| self.ancestors.get(key)).flatten();
            let ancestors: Vec<u64> = ancestors.copied().collect();
            pending.keys.extend(ancestors);
        }
    }
}

impl Queue {
    /// Caches the scopes and ancestors of an entry's holds and charges.
    pub(super) fn learn(&mut self, entry: &Entry) {
        self.known_keys.learn(entry);
    }

    /// Adds a request; returns whether a committer should be woken for it.
    pub(super) fn accept(&mut self, mut pending: Pending, limit: usize) -> Result<bool, Error> {
        if self.closed {
            return Err(StoreError::Closed.into());
        }
        let waiting = self.waiting();
        if waiting >= limit {
            return Err(Error::Overloaded { waiting });
        }
        self.known_keys.extend(&mut pending);
        // If requests wait for one of its rows already, it waits behind them. Maintenance skips locked rows instead.
        let skips_locked = matches!(pending.request.op, Op::Tidy { .. } | Op::Expire { .. });
        let has_waiters = |key: &&u64| !skips_locked && self.lock_waiters.contains_key(key);
        if let Some(row) = pending.keys.iter().find(has_waiters).copied() {
            self.lock_waiters.entry(row).or_default().push_back(pending);
            return Ok(false);
        }
        // If a batch in flight has one of its keys, the committer of that batch reads the queue again, so none need be woken.
        let free = !pending.keys.iter().any(|key| self.in_flight.contains_key(key));
        self.waiting.push_back(pending);
        Ok(free)
    }

    /// Takes the next batch, in order of arrival. With several committers, skips requests with keys that another one is working on.
    pub(super) fn take(&mut self, limit: usize, several_committers: bool) -> Vec<Pending> {
        let (mut batch, mut weight) = (Vec::new(), 0);
        let mut skipped: Vec<Pending> = Vec::new();
        // A request must not overtake a skipped one that shares a key with it.
        let mut skipped_keys: HashSet<u64> = HashSet::new();
        while batch.len() < limit && weight < WEIGHT_MAX && skipped.len() < SKIPPED_MAX {
            let Some(pending) = self.waiting.pop_front() else { break };
            let mut keys = pending.keys.iter();
            if several_committers && keys.any(|key| self.in_flight.contains_key(key) || skipped_keys.contains(key)) {
                skipped_keys.extend(pending.keys.iter().copied());
                skipped.push(pending);
                continue;
            }
            weight += pending.weight;
            batch.push(pending);
        }
        self.put_back(skipped);
        for key in batch.iter().flat_map(|pending| &pending.keys) {
            *self.in_flight.entry(*key).or_default() += 1;
        }
        batch
    }

    /// Releases the keys of a batch.
    pub(super) fn release_keys(&mut self, keys: &[u64]) {
        for key in keys {
            if let Some(count) = self.in_flight.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    self.in_flight.remove(key);
                }
            }
        }
    }

    /// Puts requests back at the front of the queue.
    pub(super) fn put_back(&mut self, again: Vec<Pending>) {
        for pending in again.into_iter().rev() {
            self.waiting.push_front(pending);
        }
    }

    /// Returns the number of requests that wait for a committer or for a locked row.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + self.lock_waiters.values().map(VecDeque::len).sum::<usize>()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Returns whether the queue is closed and empty.
    pub(super) fn is_finished(&self) -> bool {
        self.closed && self.waiting.is_empty() && self.lock_waiters.is_empty()
    }

    /// Lets a request wait for the first of its locked rows in the lock order, and adds all of them to its keys. Returns whether a task must
    /// be started for this row.
    pub(super) fn add_lock_waiter(&mut self, mut pending: Pending, locks: &[Lock]) -> bool {
        pending.keys.extend(locks.iter().map(key_of));
        pending.keys.sort_unstable();
        pending.keys.dedup();
        let row = key_of(locks.iter().min().expect("a blocked request has a lock"));
        let first = !self.lock_waiters.contains_key(&row);
        self.lock_waiters.entry(row).or_default().push_back(pending);
        first
    }

    /// Returns the earliest deadline of the requests that wait for a row. If there are none, forgets the row and returns `None`.
    pub(super) fn lock_deadline(&mut self, lock: &Lock) -> Option<Instant> {
        let row = key_of(lock);
        let deadline = self.lock_waiters.get(&row)?.iter().map(|pending| pending.deadline).min();
        if deadline.is_none() {
            self.lock_waiters.remove(&row);
        }
        deadline
    }

    /// Takes the first requests that wait for a row.
    pub(super) fn take_lock_waiters(&mut self, lock: &Lock, limit: usize) -> Vec<Pending> {
        let Some(waiters) = self.lock_waiters.get_mut(&key_of(lock)) else { return Vec::new() };
        let count = waiters.len().min(limit);
        waiters.drain(..count).collect()
    }

    /// Puts requests back in front of those that wait for the row.
    pub(super) fn put_back_lock_waiters(&mut self, lock: &Lock, again: Vec<Pending>) {
        let waiters = self.lock_waiters.entry(key_of(lock)).or_default();
        for pending in again.into_iter().rev() {
            waiters.push_front(pending);
        }
    }

    /// Removes and returns the requests that wait for a row and whose deadline has passed.
    pub(super) fn overdue_lock_waiters(&mut self, lock: &Lock, now: Instant) -> Vec<Pending> {
        let Some(waiters) = self.lock_waiters.get_mut(&key_of(lock)) else { return Vec::new() };
        let (overdue, rest): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(waiters).into_iter().partition(|pending| pending.deadline <= now);
        *waiters = rest;
        overdue.into()
    }
}

/// Hashes the key of a row. `kind` is a number for each table, so that equal keys of different tables differ.
fn hash(kind: u8, value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (kind, value).hash(&mut hasher);
    hasher.finish()
}

fn key_of(lock: &Lock) -> u64 {
    match lock {
        Lock::Scope(key) => hash(0, key),
        Lock::Hold(id) => hash(1, id),
        Lock::Grant(id) => hash(2, id),
        Lock::Key(key) => hash(3, key),
        Lock::JobKey(key) => hash(4, key),
        Lock::Job(id) => hash(5, id),
        Lock::Schedule(key) => hash(6, key),
        Lock::Blob(id) => hash(7, id),
    }
}

/// Returns the hashes of the rows that a request names. Two committers never work on requests that share one at the same time.
fn keys(request: &CheckedRequest) -> Vec<u64> {
    let needs = request.needs();
    let mut keys: Vec<u64> = needs.scopes.keys().map(|key| hash(0, key)).collect();
    keys.extend(needs.holds.iter().map(|id| hash(1, id)));
    keys.extend(needs.grants.iter().map(|id| hash(2, id)));
    keys.extend(needs.keys.iter().map(|key| hash(3, key)));
    keys.extend(needs.job_keys.iter().map(|key| hash(4, key)));
    keys.extend(needs.jobs.iter().chain(&needs.beats).map(|id| hash(5, id)));
    keys.extend(needs.schedules.iter().map(|key| hash(6, key)));
    keys.extend(needs.blobs.iter().map(|id| hash(7, id)));
    keys.extend(needs.stored_digests.iter().map(|(_, digest)| hash(8, digest)));
    keys
}

/// Estimates the number of rows that a request writes, plus the kilobytes of its payloads.
fn weight(request: &Request) -> usize {
    match &request.op {
        Op::Submit(command) => {
            let payloads: usize = command.jobs.iter().map(|job| job.payload.as_str().len()).sum();
            1 + command.charges.len() * 2 + command.redeem.len() + command.jobs.len() + payloads / 1_024
        }
        Op::Mint(mint) | Op::Rotate { mint, .. } => 2 + mint.payload.as_str().len() / 1_024,
        Op::Commit { .. } | Op::Release { .. } | Op::Extend { .. } => 3,
        Op::Expire { holds } => 1 + holds.len() * 2,
        Op::Tidy { scopes } => 1 + scopes.len(),
        Op::PurgeGrants { grants } => 1 + grants.len(),
        Op::Lease(lease) => 1 + 2 * lease.capacity as usize,
        Op::Heartbeat { beats } => 1 + beats.len(),
        Op::Emit(emit) => 2 + emit.data.as_str().len() / 1_024,
        Op::Finish { items } => {
            let results = items.iter().map(|item| match &item.end {
                End::Complete { result, .. } => result.as_str().len() / 1_024,
                _ => 0,
            });
            1 + 4 * items.len() + results.sum::<usize>()
        }
        Op::Act { jobs, .. } => 1 + 4 * jobs.len(),
        Op::Credit { .. }
        | Op::Define { .. }
        | Op::RemoveBudget { .. }
        | Op::Freeze { .. }
        | Op::Unfreeze { .. }
        | Op::Revoke { .. }
        | Op::EraseGrant { .. }
        | Op::Use { .. }
        | Op::DefineQueue { .. }
        | Op::PauseQueue { .. }
        | Op::DefineSchedule { .. }
        | Op::PauseSchedule { .. }
        | Op::RemoveSchedule { .. } => 1,
        Op::RunSchedule { .. } => 3,
        Op::Blob(op) => 3 + 2 * op.blobs().len(),
        // One job for each due tick, up to `TICKS_MAX` in one transaction.
        Op::Tick { .. } => 2 * TICKS_MAX,
    }
}
