//! The rows that a batch of requests works on.
//!
//! A store loads every row that the requests need into a [`Workspace`], `decide` and `apply` read and change them in
//! memory, and the store writes the changes. A [`Table`] panics if code reads a row that was not loaded, and tracks
//! which rows must be inserted, updated or deleted.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use indexmap::{Equivalent, IndexMap};

use crate::blob::{Blob, NamespaceState, Sha256Digest};
use crate::bounds::DEPTH_MAX;
use crate::event::{Batch, Entry, Links, Stream};
use crate::grant::Grant;
use crate::hold::Hold;
use crate::id::{BatchId, BlobId, CommandId, GrantId, HoldId, JobId};
use crate::job::{Job, JobState, QueueState, Schedule};
use crate::live::LiveCharge;
use crate::name::{FlowKey, IdempotencyKey, JobKind, Namespace, Queue, ScheduleName, Scope, Tenant};
use crate::request::Fingerprint;
use crate::scope::{Posting, ScopeState};
use crate::time::Time;
use crate::window::Zone;

/// The key of a scope.
pub type ScopeKey = (Tenant, Scope);
/// The key of an idempotency key's row.
pub type IdempotencyRowKey = (Tenant, IdempotencyKey);
/// The key of a queue.
pub type QueueKey = (Tenant, Queue);
/// The key of a schedule.
pub type ScheduleKey = (Tenant, ScheduleName);
/// The key of a line: the waiting jobs of one queue, flow key and kind.
pub type LineKey = (Tenant, Queue, FlowKey, JobKind);
/// The key of a namespace.
pub type NamespaceKey = (Tenant, Namespace);
/// The key under which uploads of the same bytes find a live blob.
pub type BlobDigestKey = (Tenant, Namespace, Sha256Digest);
/// The key of a job's idempotency key, which is unique in its queue.
pub type JobKey = (Tenant, Queue, IdempotencyKey);

/// A borrowed [`ScopeKey`], to look up a scope without allocating.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScopeKeyRef<'a>(pub &'a Tenant, pub &'a Scope);

impl Equivalent<ScopeKey> for ScopeKeyRef<'_> {
    fn equivalent(&self, key: &ScopeKey) -> bool {
        *self.1 == key.1 && *self.0 == key.0
    }
}

/// The row of an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The digest of the request.
    pub fingerprint: Fingerprint,
    /// The transaction whose journal row has the effect of the request.
    pub batch: BatchId,
    /// The command of the request.
    pub command: CommandId,
    /// When the key is forgotten.
    pub until: Time,
}

/// The loaded rows of one kind. Reading a row that was not loaded is a bug and panics.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    slots: IndexMap<K, Slot<V>, foldhash::fast::RandomState>,
}

#[derive(Clone, Debug)]
struct Slot<V> {
    value: Option<V>,
    stored: bool,
    /// Whether it was changed since it was loaded.
    changed: bool,
    /// Whether the change must still be written.
    dirty: bool,
}

impl<V> Slot<V> {
    fn loaded(value: Option<V>) -> Slot<V> {
        Slot { stored: value.is_some(), value, changed: false, dirty: false }
    }

    fn mark_changed(&mut self) {
        (self.changed, self.dirty) = (true, true);
    }

    fn change(&self) -> Option<Change<'_, V>> {
        match (&self.value, self.stored) {
            _ if !self.dirty => None,
            (Some(value), true) => Some(Change::Update(value)),
            (Some(value), false) => Some(Change::Insert(value)),
            (None, true) => Some(Change::Delete),
            (None, false) => None,
        }
    }
}

/// A change of a row that must be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a, V> {
    /// The row is new.
    Insert(&'a V),
    /// The row was changed.
    Update(&'a V),
    /// The row was removed.
    Delete,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Table { slots: IndexMap::default() }
    }
}

impl<K: Hash + Eq + Debug, V> Table<K, V> {
    /// Adds a stored row, or `None` if there is no row with this key. Does nothing if the key was loaded before.
    pub fn load(&mut self, key: K, value: Option<V>) {
        self.slots.entry(key).or_insert(Slot::loaded(value));
    }

    /// Replaces a loaded row by a newer read of it.
    pub fn reload(&mut self, key: K, value: V) {
        self.slots.insert(key, Slot::loaded(Some(value)));
    }

    /// Reserves capacity for more rows.
    pub fn reserve(&mut self, rows: usize) {
        self.slots.reserve(rows);
    }

    /// Returns the number of keys loaded, whether a row exists or not.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether the key was loaded, whether a row exists or not.
    pub fn is_loaded<Q: Hash + Equivalent<K>>(&self, key: &Q) -> bool {
        self.slots.contains_key(key)
    }

    /// Returns the row, if it exists.
    pub fn get<Q: Hash + Equivalent<K> + Debug>(&self, key: &Q) -> Option<&V> {
        self.slots.get(key).unwrap_or_else(|| panic!("{key:?} was read but not loaded")).value.as_ref()
    }

    /// Returns the row, if it exists, and marks it as changed.
    pub fn get_mut<Q: Hash + Equivalent<K> + Debug>(&mut self, key: &Q) -> Option<&mut V> {
        let slot = self.slots.get_mut(key).unwrap_or_else(|| panic!("{key:?} was written but not loaded"));
        slot.mark_changed();
        slot.value.as_mut()
    }

    /// Returns the row, if it exists, for a change that need not be written because it follows from time.
    pub fn peek_mut(&mut self, key: &K) -> Option<&mut V> {
        self.slots.get_mut(key).unwrap_or_else(|| panic!("{key:?} was changed but not loaded")).value.as_mut()
    }

    /// Returns the row, creating it if it does not exist, and marks it as changed.
    pub(crate) fn get_or_put(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        let slot = self.slots.get_mut(key).unwrap_or_else(|| panic!("{key:?} was written but not loaded"));
        slot.mark_changed();
        slot.value.get_or_insert_with(make)
    }

    /// Returns all rows, for changes that need not be written.
    pub fn peek_all(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.slots.iter_mut().filter_map(|(key, slot)| Some((key, slot.value.as_mut()?)))
    }

    /// Puts a row.
    pub fn put(&mut self, key: K, value: V) {
        let stored = self.slots.get(&key).is_some_and(|slot| slot.stored);
        self.slots.insert(key, Slot { value: Some(value), stored, changed: true, dirty: true });
    }

    /// Removes a row.
    pub fn remove(&mut self, key: &K) {
        let slot = self.slots.get_mut(key).unwrap_or_else(|| panic!("{key:?} was removed but not loaded"));
        slot.value = None;
        slot.mark_changed();
    }

    /// Returns whether the row was changed since it was loaded.
    pub fn is_changed<Q: Hash + Equivalent<K>>(&self, key: &Q) -> bool {
        self.slots.get(key).is_some_and(|slot| slot.changed)
    }

    /// Returns the rows that exist.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.slots.iter().filter_map(|(key, slot)| Some((key, slot.value.as_ref()?)))
    }

    /// Returns the keys that were loaded.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.slots.keys()
    }

    /// Returns the changes that must be written.
    pub fn changes(&self) -> impl Iterator<Item = (&K, Change<'_, V>)> {
        self.slots.iter().filter_map(|(key, slot)| Some((key, slot.change()?)))
    }

    /// Passes each change so far to `take`, while later requests of the batch are still undecided. If `take` returns true,
    /// the change counts as stored. A row that changes again is written again.
    pub fn take_changes(&mut self, mut take: impl FnMut(&K, Change<'_, V>) -> bool) {
        for (key, slot) in &mut self.slots {
            if slot.change().is_some_and(|change| take(key, change)) {
                (slot.stored, slot.dirty) = (slot.value.is_some(), false);
            }
        }
    }
}

impl<K, V> Table<K, V> {
    /// Returns the changed rows that exist.
    pub fn into_changed_rows(self) -> impl Iterator<Item = (K, V)> {
        self.slots.into_iter().filter(|(_, slot)| slot.changed).filter_map(|(key, slot)| Some((key, slot.value?)))
    }
}

/// The jobs that may be leased from a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The jobs, best rank first.
    pub jobs: VecDeque<JobId>,
    /// When the next scheduled job of the queue is due.
    pub next_at: Option<Time>,
    /// Whether more jobs may be ready than were loaded.
    pub more: bool,
    /// Whether loaded jobs could not be leased. If `more` is set too, a request that gets nothing is loaded again.
    pub skipped_some: bool,
}

/// A figure of a queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tally {
    /// The tenant.
    pub tenant: Tenant,
    /// The queue.
    pub queue: Queue,
    /// What is counted.
    pub what: Counted,
}

/// What a figure of a queue counts. Minutes are counted since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counted {
    /// Jobs in a state now.
    In(JobState),
    /// Jobs enqueued in a minute.
    Enqueued(i64),
    /// Jobs that ended in a state in a minute.
    Ended(JobState, i64),
    /// Attempts that failed in a minute.
    Failed(i64),
}

impl Counted {
    /// Returns the minute that it counts; `None` for a current count.
    pub fn minute(self) -> Option<i64> {
        match self {
            Counted::In(_) => None,
            Counted::Enqueued(minute) | Counted::Ended(_, minute) | Counted::Failed(minute) => Some(minute),
        }
    }
}

/// The key of a cost figure: tenant, day since 1970 (UTC), queue, kind and scope.
pub type CostKey = (Tenant, i64, Queue, JobKind, Scope);

/// The key of the sum of units that holds of jobs set aside: tenant, queue, kind and unit.
pub type HeldKey = (Tenant, Queue, JobKind, String);

/// The key of a group of dead jobs: tenant, queue, kind and the fingerprint of their last error.
pub type DeadGroupKey = (Tenant, Queue, JobKind, String);

/// The rows and pending writes of a batch.
#[derive(Debug)]
pub struct Workspace {
    /// The instant of the batch, later than anything its scopes have seen.
    pub now: Time,
    /// The id of its transaction.
    pub batch: BatchId,
    /// Scopes, brought to `now`.
    pub scopes: Table<ScopeKey, ScopeState>,
    /// Holds.
    pub holds: Table<HoldId, Hold>,
    /// Grants.
    pub grants: Table<GrantId, Grant>,
    /// Idempotency keys.
    pub keys: Table<IdempotencyRowKey, KeyRow>,
    /// Jobs by their keys.
    pub job_keys: Table<JobKey, JobId>,
    /// Jobs.
    pub jobs: Table<JobId, Job>,
    /// Queues.
    pub queues: Table<QueueKey, QueueState>,
    /// Schedules.
    pub schedules: Table<ScheduleKey, Schedule>,
    /// Blobs.
    pub blobs: Table<BlobId, Blob>,
    /// Live blobs by their digests.
    pub blob_digests: Table<BlobDigestKey, BlobId>,
    /// Namespaces.
    pub namespaces: Table<NamespaceKey, NamespaceState>,
    /// The jobs that may be leased from each requested queue.
    pub claims: HashMap<QueueKey, Claims>,
    /// The next jobs of each line whose head may leave it, best rank first.
    pub lines: HashMap<LineKey, VecDeque<JobId>>,
    /// The barred heads of lines, by the slot scope of their flow key.
    pub barred: HashMap<ScopeKey, Vec<JobId>>,
    /// Changes to the figures of queues.
    pub tallies: BTreeMap<Tally, i64>,
    /// Units to add to the daily costs of jobs.
    pub costs: BTreeMap<CostKey, i64>,
    /// Changes to the sums of units that holds of jobs set aside.
    pub held: BTreeMap<HeldKey, i128>,
    /// Changes to the numbers of dead jobs by group.
    pub dead: BTreeMap<DeadGroupKey, i64>,
    /// The entries of commands whose idempotency keys are used again.
    pub replays: HashMap<CommandId, Arc<Entry>>,
    /// Scopes on which more is due than one step folds; requests that need them are decided again.
    pub unfolded_scopes: HashSet<ScopeKey>,
    /// Scopes with an ended calendar window in a zone that this build does not know. Requests that need them are
    /// refused.
    pub unknown_zones: HashMap<ScopeKey, Zone>,
    /// Rows of the table `live_charges` to add (`Some`) or remove (`None`).
    pub live: BTreeMap<(ScopeKey, Time, HoldId), Option<LiveCharge>>,
    /// Postings to add.
    pub postings: Vec<(ScopeKey, Posting)>,
    /// The number of jobs promoted to the head of their line in this batch.
    pub(crate) promotions: i64,
    /// For each stream that the batch touches, the transaction that touched it before.
    pub(crate) prev: Links,
    /// The entries of the requests that had an effect.
    pub(crate) entries: Vec<Arc<Entry>>,
}

impl Workspace {
    /// Creates a workspace without rows.
    pub fn new(now: Time, batch: BatchId) -> Workspace {
        Workspace {
            now,
            batch,
            scopes: Table::default(),
            holds: Table::default(),
            grants: Table::default(),
            keys: Table::default(),
            job_keys: Table::default(),
            jobs: Table::default(),
            queues: Table::default(),
            schedules: Table::default(),
            blobs: Table::default(),
            blob_digests: Table::default(),
            namespaces: Table::default(),
            claims: HashMap::new(),
            lines: HashMap::new(),
            barred: HashMap::new(),
            tallies: BTreeMap::new(),
            costs: BTreeMap::new(),
            held: BTreeMap::new(),
            dead: BTreeMap::new(),
            replays: HashMap::new(),
            unfolded_scopes: HashSet::new(),
            unknown_zones: HashMap::new(),
            live: BTreeMap::new(),
            postings: Vec::new(),
            promotions: 0,
            prev: Links::default(),
            entries: Vec::new(),
        }
    }

    /// Adds the postings of expired holds that were folded into changed scopes. Called before the rows are written.
    pub fn take_expiry_postings(&mut self) {
        for (key, slot) in self.scopes.slots.iter_mut().filter(|(_, slot)| slot.changed) {
            let Some(row) = &mut slot.value else { continue };
            self.postings.extend(row.expiry_postings.drain(..).map(|posting| (key.clone(), posting)));
        }
    }

    /// Returns the row for the journal, if any request had an effect.
    pub fn take_batch(&mut self) -> Option<Batch> {
        if self.entries.is_empty() {
            return None;
        }
        Some(Batch {
            id: self.batch,
            at: self.now,
            prev: std::mem::take(&mut self.prev),
            entries: std::mem::take(&mut self.entries),
        })
    }

    /// Returns the ancestors of a scope, nearest first. Stops after `DEPTH_MAX`, also if damaged rows form a cycle.
    pub(crate) fn ancestors(&self, tenant: &Tenant, scope: &Scope) -> Vec<Scope> {
        let mut chain: Vec<Scope> = Vec::new();
        while chain.len() < DEPTH_MAX {
            let at = chain.last().unwrap_or(scope).clone();
            let row = self.scopes.get(&(tenant.clone(), at));
            match row.and_then(|row| row.budget.as_ref()?.parent.clone()) {
                Some(parent) => chain.push(parent),
                None => break,
            }
        }
        chain
    }

    /// Links a stream that this batch touches to the transaction `last` that touched it before.
    pub(crate) fn link(&mut self, stream: impl FnOnce() -> Stream, last: Option<BatchId>) {
        self.prev.link(self.batch, stream, last);
    }

    /// Adds the charge of a live hold to a loaded scope.
    pub(crate) fn add_live(&mut self, key: &ScopeKey, charge: LiveCharge) {
        let row = self.scopes.get_mut(key).expect("a held scope has a row");
        let spilled = row.add_live(charge);
        self.spill(key, spilled);
    }

    /// Moves charges from a scope's row to the table.
    pub(crate) fn spill(&mut self, key: &ScopeKey, charges: Vec<LiveCharge>) {
        for charge in charges {
            self.live.insert((key.clone(), charge.expires_at, charge.hold), Some(charge));
        }
    }

    /// Removes the charge of a hold from a scope's row or from the table.
    pub(crate) fn remove_live(&mut self, key: ScopeKey, expires_at: Time, hold: HoldId) {
        if self.scopes.get_mut(&key).is_some_and(|row| row.remove_live(hold)) {
            return;
        }
        let key = (key, expires_at, hold);
        // A charge that this batch added is only in `live`, until it is taken out to be written.
        if self.live.get(&key).is_some_and(Option::is_some) {
            self.live.remove(&key);
        } else {
            self.live.insert(key, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, Limit};
    use crate::window::Window;

    fn scope() -> ScopeKey {
        (Tenant::built_in(), Scope::new("a").expect("a name"))
    }

    #[test]
    fn ancestors_end_even_if_two_budgets_are_parents_of_each_other() {
        let mut ws = Workspace::new(Time::from_micros(1), BatchId(1));
        for (name, above) in [("a", "b"), ("b", "a")] {
            let parent = Some(Scope::new(above).expect("a name"));
            let budget = Budget { parent, ..Budget::new([Limit::new(10, Window::Lifetime)]) };
            let row = ScopeState { budget: Some(budget.into()), ..ScopeState::default() };
            ws.scopes.load((Tenant::built_in(), Scope::new(name).expect("a name")), Some(row));
        }
        assert_eq!(ws.ancestors(&Tenant::built_in(), &scope().1).len(), DEPTH_MAX);
    }
}
