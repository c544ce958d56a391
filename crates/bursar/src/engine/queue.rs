//! What waits: for a lane, or for a row that somebody else has locked.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bursar_core::answer::Outcome;
use bursar_core::bounds::TICKS_MAX;
use bursar_core::event::{Charged, Entry, Event};
use bursar_core::id::HoldId;
use bursar_core::job::End;
use bursar_core::name::Scope;
use bursar_core::needs::Needs;
use bursar_core::request::{Op, Request};
use bursar_store::{Lock, StoreError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::Error;

/// What a batch may weigh: rows, and kilobytes of payload.
const WEIGHT_MAX: usize = 16_000;
/// Requests a lane may pass over in search of some that it can take.
const PASSED_MAX: usize = 2_000;

/// A request that waits.
pub(super) struct Pending {
    pub(super) request: Arc<Request>,
    /// What it is known to touch.
    pub(super) keys: Vec<u64>,
    pub(super) weight: usize,
    pub(super) until: Instant,
    /// An attempt of which it is not known whether it was done.
    pub(super) unknown: Option<Error>,
    pub(super) answer: oneshot::Sender<Result<Outcome, Error>>,
}

#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Pending>,
    /// Keys of batches that are being committed, with how many of them want each.
    in_flight: HashMap<u64, usize>,
    /// Requests that wait for a row, first in, first out for each.
    detoured: HashMap<u64, VecDeque<Pending>>,
    hints: Hints,
    closed: bool,
}

/// What was seen of how things hang together, so that lanes keep out of each other's way. Not relied upon.
#[derive(Default)]
struct Hints {
    /// Keys of the scopes that live holds count on.
    holds: HashMap<HoldId, Box<[u64]>>,
    /// Keys of the ancestors of a scope.
    above: HashMap<u64, Box<[u64]>>,
}

impl Hints {
    const KEPT: usize = 100_000;

    fn learn(&mut self, entry: &Entry) {
        if self.holds.len() + self.above.len() > Hints::KEPT {
            *self = Hints::default();
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
                self.above.insert(key(&charge.scope), charge.ancestors.iter().map(key).collect());
            }
            // One that a job owns is settled by the job's name.
            if let Event::HoldPlaced { hold, job: None, .. } = &recorded.e {
                self.holds.insert(*hold, charges.iter().flat_map(Charged::scopes).map(key).collect());
            }
        }
    }

    /// Adds the keys a request will turn out to need.
    fn widen(&self, pending: &mut Pending) {
        if let Op::Commit { hold, .. } | Op::Release { hold } | Op::Extend { hold, .. } = &pending.request.op {
            pending.keys.extend(self.holds.get(hold).into_iter().flatten());
        }
        if !self.above.is_empty() {
            let above: Vec<u64> =
                pending.keys.iter().filter_map(|key| self.above.get(key)).flatten().copied().collect();
            pending.keys.extend(above);
        }
    }
}

impl Queue {
    /// Remembers what hangs together.
    pub(super) fn learn(&mut self, entry: &Entry) {
        self.hints.learn(entry);
    }

    /// Takes a request in; says whether a lane should look for it.
    pub(super) fn accept(&mut self, mut pending: Pending, most: usize) -> Result<bool, Error> {
        if self.closed {
            return Err(StoreError::Closed.into());
        }
        let waiting = self.waiting();
        if waiting >= most {
            return Err(Error::Overloaded { waiting });
        }
        self.hints.widen(&mut pending);
        // Behind those who wait for the same row already, so that nobody overtakes them. Upkeep passes the row over.
        let upkeep = matches!(pending.request.op, Op::Tidy { .. } | Op::Expire { .. });
        let waits = |key: &&u64| !upkeep && self.detoured.contains_key(key);
        if let Some(group) = pending.keys.iter().find(waits).copied() {
            self.detoured.entry(group).or_default().push_back(pending);
            return Ok(false);
        }
        // Whoever works on its keys will look again when he is done.
        let free = !pending.keys.iter().any(|key| self.in_flight.contains_key(key));
        self.waiting.push_back(pending);
        Ok(free)
    }

    /// The next batch: in order, but for requests whose keys another lane is working on.
    pub(super) fn take(&mut self, most: usize, several_lanes: bool) -> Vec<Pending> {
        let (mut batch, mut weight) = (Vec::new(), 0);
        let mut passed: Vec<Pending> = Vec::new();
        // Keys of what is passed over are not overtaken either.
        let mut passed_keys: HashSet<u64> = HashSet::new();
        while batch.len() < most && weight < WEIGHT_MAX && passed.len() < PASSED_MAX {
            let Some(pending) = self.waiting.pop_front() else { break };
            let mut keys = pending.keys.iter();
            if several_lanes && keys.any(|key| self.in_flight.contains_key(key) || passed_keys.contains(key)) {
                passed_keys.extend(pending.keys.iter().copied());
                passed.push(pending);
                continue;
            }
            weight += pending.weight;
            batch.push(pending);
        }
        self.back(passed);
        for key in batch.iter().flat_map(|pending| &pending.keys) {
            *self.in_flight.entry(*key).or_default() += 1;
        }
        batch
    }

    /// Gives the keys of a batch back.
    pub(super) fn give_back(&mut self, keys: &[u64]) {
        for key in keys {
            if let Some(count) = self.in_flight.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    self.in_flight.remove(key);
                }
            }
        }
    }

    /// Takes requests in again, before all others.
    pub(super) fn back(&mut self, again: Vec<Pending>) {
        for pending in again.into_iter().rev() {
            self.waiting.push_front(pending);
        }
    }

    /// Requests that wait for a commit, in line or for a lock.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + self.detoured.values().map(VecDeque::len).sum::<usize>()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Nothing is left to be done, and nothing will come.
    pub(super) fn is_over(&self) -> bool {
        self.closed && self.waiting.is_empty() && self.detoured.is_empty()
    }

    /// Lets a request wait for the first of the rows; says whether it is the first that does.
    /// All of the rows are known to be its keys from now on.
    pub(super) fn detour(&mut self, mut pending: Pending, locks: &[Lock]) -> bool {
        pending.keys.extend(locks.iter().map(key_of));
        pending.keys.sort_unstable();
        pending.keys.dedup();
        // The least in the one order of locks, so that those who want the same rows wait for the same one first.
        let group = key_of(locks.iter().min().expect("something blocks it"));
        let first = !self.detoured.contains_key(&group);
        self.detoured.entry(group).or_default().push_back(pending);
        first
    }

    /// When the time of the first who waits for a row is over; `None` when nobody waits any more, which ends the detour.
    pub(super) fn deadline(&mut self, lock: &Lock) -> Option<Instant> {
        let group = key_of(lock);
        let until = self.detoured.get(&group)?.iter().map(|pending| pending.until).min();
        if until.is_none() {
            self.detoured.remove(&group);
        }
        until
    }

    /// The first of those who wait for a row.
    pub(super) fn take_detoured(&mut self, lock: &Lock, most: usize) -> Vec<Pending> {
        let Some(group) = self.detoured.get_mut(&key_of(lock)) else { return Vec::new() };
        let count = group.len().min(most);
        group.drain(..count).collect()
    }

    /// They wait on, before those who came later.
    pub(super) fn detour_again(&mut self, lock: &Lock, again: Vec<Pending>) {
        let group = self.detoured.entry(key_of(lock)).or_default();
        for pending in again.into_iter().rev() {
            group.push_front(pending);
        }
    }

    /// Takes out those whose time is over.
    pub(super) fn overdue(&mut self, lock: &Lock, now: Instant) -> Vec<Pending> {
        let Some(group) = self.detoured.get_mut(&key_of(lock)) else { return Vec::new() };
        let (over, rest): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(group).into_iter().partition(|pending| pending.until <= now);
        *group = rest;
        over.into()
    }
}

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
    }
}

/// What a request is known to touch, before anything is loaded. Two that share a key do not run at once.
pub(super) fn keys(request: &Request) -> Vec<u64> {
    let needs = Needs::of(request);
    let mut keys: Vec<u64> = needs.scopes.keys().map(|key| hash(0, key)).collect();
    keys.extend(needs.holds.iter().map(|id| hash(1, id)));
    keys.extend(needs.grants.iter().map(|id| hash(2, id)));
    keys.extend(needs.keys.iter().map(|key| hash(3, key)));
    keys.extend(needs.job_keys.iter().map(|key| hash(4, key)));
    keys.extend(needs.jobs.iter().chain(&needs.beats).map(|id| hash(5, id)));
    keys.extend(needs.schedules.iter().map(|key| hash(6, key)));
    keys
}

/// Rows a request may write, and kilobytes of payload.
pub(super) fn weight(request: &Request) -> usize {
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
        Op::Lease(ask) => 1 + 2 * ask.capacity as usize,
        Op::Heartbeat { beats } => 1 + beats.len(),
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
        | Op::Freeze { .. }
        | Op::Unfreeze { .. }
        | Op::Revoke { .. }
        | Op::Use { .. }
        | Op::DefineQueue { .. }
        | Op::PauseQueue { .. }
        | Op::DefineSchedule { .. }
        | Op::PauseSchedule { .. }
        | Op::RemoveSchedule { .. } => 1,
        Op::RunSchedule { .. } => 3,
        // A job for each tick that was missed, as far as one step goes.
        Op::Tick { .. } => 2 * TICKS_MAX,
    }
}
