//! The rows a batch of requests works on: loaded before, written after.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use indexmap::{Equivalent, IndexMap};

use crate::bounds::DEPTH_MAX;
use crate::event::{Batch, Charged, Entry, Event, Links, Stream};
use crate::grant::Grant;
use crate::hold::Hold;
use crate::id::{BatchId, CommandId, GrantId, HoldId, JobId};
use crate::job::{Job, JobState, Place, QueueState, Schedule};
use crate::live::LiveCharge;
use crate::name::{FlowKey, IdempotencyKey, JobKind, Queue, ScheduleName, Scope, Tenant};
use crate::request::Fingerprint;
use crate::scope::{Posting, ScopeState};
use crate::time::Time;
use crate::window::Zone;

/// A scope and whose it is.
pub type ScopeKey = (Tenant, Scope);
/// An idempotency key and whose it is.
pub type KeyKey = (Tenant, IdempotencyKey);
/// A queue and whose it is.
pub type QueueKey = (Tenant, Queue);
/// A schedule and whose it is.
pub type ScheduleKey = (Tenant, ScheduleName);
/// The line of a flow key: whose, in which queue, of which key and kind.
pub type LineKey = (Tenant, Queue, FlowKey, JobKind);
/// A job's key in its queue.
pub type JobKey = (Tenant, Queue, IdempotencyKey);

/// A scope and whose it is, to look it up without making a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At<'a>(pub &'a Tenant, pub &'a Scope);

impl Equivalent<ScopeKey> for At<'_> {
    fn equivalent(&self, key: &ScopeKey) -> bool {
        *self.1 == key.1 && *self.0 == key.0
    }
}

/// What is remembered of an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// What was asked.
    pub fingerprint: Fingerprint,
    /// Where the journal holds what was done.
    pub batch: BatchId,
    /// The command that did it.
    pub command: CommandId,
    /// Remembered until then.
    pub until: Time,
}

/// Rows of one kind. A row that was not loaded must not be read: that is a bug, and asserts.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    slots: IndexMap<K, Slot<V>, foldhash::fast::RandomState>,
}

#[derive(Clone, Debug)]
struct Slot<V> {
    value: Option<V>,
    stored: bool,
    /// Was changed since it was loaded …
    changed: bool,
    /// … and what became of it must still be written.
    dirty: bool,
}

impl<V> Slot<V> {
    fn loaded(value: Option<V>) -> Slot<V> {
        Slot { stored: value.is_some(), value, changed: false, dirty: false }
    }

    fn soil(&mut self) {
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

/// What became of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a, V> {
    /// It is new.
    Insert(&'a V),
    /// It is another.
    Update(&'a V),
    /// It is gone.
    Delete,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Table { slots: IndexMap::default() }
    }
}

impl<K: Hash + Eq + Debug, V> Table<K, V> {
    /// Takes a row as it is stored, or the fact that there is none.
    pub fn load(&mut self, key: K, value: Option<V>) {
        self.slots.entry(key).or_insert(Slot::loaded(value));
    }

    /// Takes a row as it is stored, in the place of one that was read before it could be changed.
    pub fn reload(&mut self, key: K, value: V) {
        self.slots.insert(key, Slot::loaded(Some(value)));
    }

    /// Makes room for rows that are to come.
    pub fn reserve(&mut self, rows: usize) {
        self.slots.reserve(rows);
    }

    /// How many rows were loaded, there or not.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Whether the row was loaded, there or not.
    pub fn is_loaded<Q: Hash + Equivalent<K>>(&self, key: &Q) -> bool {
        self.slots.contains_key(key)
    }

    /// The row, if there is one.
    pub fn get<Q: Hash + Equivalent<K> + Debug>(&self, key: &Q) -> Option<&V> {
        self.slots.get(key).unwrap_or_else(|| panic!("{key:?} was read but not loaded")).value.as_ref()
    }

    /// The row, to be changed.
    pub fn get_mut<Q: Hash + Equivalent<K> + Debug>(&mut self, key: &Q) -> Option<&mut V> {
        let slot = self.slots.get_mut(key).unwrap_or_else(|| panic!("{key:?} was written but not loaded"));
        slot.soil();
        slot.value.as_mut()
    }

    /// The row, to be changed in a way that need not be written: it follows from time.
    pub fn peek_mut(&mut self, key: &K) -> Option<&mut V> {
        self.slots.get_mut(key).unwrap_or_else(|| panic!("{key:?} was changed but not loaded")).value.as_mut()
    }

    /// The row, to be changed; made where there is none.
    pub(crate) fn get_or_put(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        let slot = self.slots.get_mut(key).unwrap_or_else(|| panic!("{key:?} was written but not loaded"));
        slot.soil();
        slot.value.get_or_insert_with(make)
    }

    /// All rows, to be changed in a way that need not be written.
    pub fn peek_all(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.slots.iter_mut().filter_map(|(key, slot)| Some((key, slot.value.as_mut()?)))
    }

    /// Puts a new row.
    pub fn put(&mut self, key: K, value: V) {
        let stored = self.slots.get(&key).is_some_and(|slot| slot.stored);
        self.slots.insert(key, Slot { value: Some(value), stored, changed: true, dirty: true });
    }

    /// Takes a row away.
    pub fn remove(&mut self, key: &K) {
        let slot = self.slots.get_mut(key).unwrap_or_else(|| panic!("{key:?} was removed but not loaded"));
        slot.value = None;
        slot.soil();
    }

    /// Whether the row was changed since it was loaded.
    pub fn is_changed<Q: Hash + Equivalent<K>>(&self, key: &Q) -> bool {
        self.slots.get(key).is_some_and(|slot| slot.changed)
    }

    /// The rows that are there.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.slots.iter().filter_map(|(key, slot)| Some((key, slot.value.as_ref()?)))
    }

    /// The keys that were loaded.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.slots.keys()
    }

    /// What must be written.
    pub fn changes(&self) -> impl Iterator<Item = (&K, Change<'_, V>)> {
        self.slots.iter().filter_map(|(key, slot)| Some((key, slot.change()?)))
    }

    /// Whether no row changes that was there.
    fn adds_only(&self) -> bool {
        self.changes().all(|(_, change)| matches!(change, Change::Insert(_)))
    }

    /// Gives out what must be written while more is to come; what is taken counts as stored from here on.
    pub fn hand_out(&mut self, mut take: impl FnMut(&K, Change<'_, V>) -> bool) {
        for (key, slot) in &mut self.slots {
            if slot.change().is_some_and(|change| take(key, change)) {
                (slot.stored, slot.dirty) = (slot.value.is_some(), false);
            }
        }
    }
}

impl<K, V> Table<K, V> {
    /// The rows that were written, as they are now.
    pub fn into_written(self) -> impl Iterator<Item = (K, V)> {
        self.slots.into_iter().filter(|(_, slot)| slot.changed).filter_map(|(key, slot)| Some((key, slot.value?)))
    }
}

/// What can be leased from a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The jobs, the best first.
    pub jobs: VecDeque<JobId>,
    /// When the next scheduled one is due.
    pub next_at: Option<Time>,
    /// There may be more that were not read …
    pub more: bool,
    /// … and some that were read had to be passed over: whoever gets nothing for that is to look again.
    pub passed_over: bool,
}

/// A figure of a queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tally {
    /// Whose.
    pub tenant: Tenant,
    /// Of which queue.
    pub queue: Queue,
    /// What is counted.
    pub what: Counted,
}

/// What is counted of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counted {
    /// Jobs that are in a state now.
    In(JobState),
    /// Jobs that were enqueued in a minute since 1970.
    Enqueued(i64),
    /// Jobs that ended so in a minute.
    Ended(JobState, i64),
    /// Attempts that failed in a minute.
    Failed(i64),
}

impl Counted {
    /// The minute it is counted for, if it is not what is now.
    pub fn minute(self) -> Option<i64> {
        match self {
            Counted::In(_) => None,
            Counted::Enqueued(minute) | Counted::Ended(_, minute) | Counted::Failed(minute) => Some(minute),
        }
    }
}

/// Where the cost of jobs is counted: whose, on which day since 1970 (UTC), of which queue and kind, on which scope.
pub type CostKey = (Tenant, i64, Queue, JobKind, Scope);

/// Where it is counted what holds of jobs set aside: whose, of which queue and kind, in which unit.
pub type HeldKey = (Tenant, Queue, JobKind, String);

/// All that a batch works on.
#[derive(Debug)]
pub struct Workspace {
    /// The instant of the batch.
    pub now: Time,
    /// The name of its transaction.
    pub batch: BatchId,
    /// Scopes, brought to `now`.
    pub scopes: Table<ScopeKey, ScopeState>,
    /// Holds.
    pub holds: Table<HoldId, Hold>,
    /// Grants.
    pub grants: Table<GrantId, Grant>,
    /// Idempotency keys.
    pub keys: Table<KeyKey, KeyRow>,
    /// Jobs by their keys.
    pub job_keys: Table<JobKey, JobId>,
    /// Jobs.
    pub jobs: Table<JobId, Job>,
    /// Queues.
    pub queues: Table<QueueKey, QueueState>,
    /// Schedules.
    pub schedules: Table<ScheduleKey, Schedule>,
    /// Jobs that can be leased from each queue that was asked for, the best first.
    pub claims: HashMap<QueueKey, Claims>,
    /// Those that stand next in lines whose first may go, the best first.
    pub lines: HashMap<LineKey, VecDeque<JobId>>,
    /// The firsts of lines that are barred, for whose key a slot may become free.
    pub barred: HashMap<ScopeKey, Vec<JobId>>,
    /// How the figures of queues change.
    pub tallies: BTreeMap<Tally, i64>,
    /// What jobs cost, to be added to the figures of a day.
    pub costs: BTreeMap<CostKey, i64>,
    /// How much more, or less, the holds of jobs set aside.
    pub held: BTreeMap<HeldKey, i128>,
    /// What was done under keys that are used again.
    pub replays: HashMap<CommandId, Arc<Entry>>,
    /// Scopes on which more is due than one step folds.
    pub unready: HashSet<ScopeKey>,
    /// Scopes with a calendar window that has ended, in a zone that this build does not know.
    pub unturned: HashMap<ScopeKey, Zone>,
    /// Charges of live holds to add (`Some`) or to take away.
    pub live: BTreeMap<(ScopeKey, Time, HoldId), Option<LiveCharge>>,
    /// Postings to add.
    pub postings: Vec<(ScopeKey, Posting)>,
    /// Jobs that became the first of their lines.
    pub(crate) turns: i64,
    pub(crate) prev: Links,
    pub(crate) entries: Vec<Arc<Entry>>,
}

impl Workspace {
    /// Nothing loaded yet.
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
            claims: HashMap::new(),
            lines: HashMap::new(),
            barred: HashMap::new(),
            tallies: BTreeMap::new(),
            costs: BTreeMap::new(),
            held: BTreeMap::new(),
            replays: HashMap::new(),
            unready: HashSet::new(),
            unturned: HashMap::new(),
            live: BTreeMap::new(),
            postings: Vec::new(),
            turns: 0,
            prev: Links::default(),
            entries: Vec::new(),
        }
    }

    /// Whether all that had an effect relies on rows alone that are written, or on names that are taken: who has locked nothing finds
    /// out when it writes them whether somebody else was there meanwhile. Who was refused had no effect. Of events that are
    /// not listed here it is not known.
    pub fn relies_on_what_it_writes(&self) -> bool {
        let scope = |entry: &Entry, scope: &Scope| self.scopes.is_changed(&At(&entry.context.tenant, scope));
        let relies = |entry: &Entry, event: &Event| match event {
            Event::HoldPlaced { charges, .. } | Event::Posted { charges } => {
                charges.iter().flat_map(Charged::scopes).all(|name| scope(entry, name))
            }
            Event::BudgetDefined { scope: name, .. }
            | Event::BudgetTripped { scope: name, .. }
            | Event::BudgetCrossed { scope: name, .. }
            | Event::BudgetCleared { scope: name, .. } => scope(entry, name),
            Event::GrantRedeemed { grant, .. } | Event::GrantMinted { grant, .. } => self.grants.is_changed(grant),
            Event::JobEnqueued { job, .. } => {
                let line = self.jobs.get(job).filter(|job| job.life.place != Place::Out).and_then(Job::line);
                self.jobs.is_changed(job) && line.is_none_or(|line| scope(entry, &line))
            }
            // A job is found by its key, and only told.
            Event::JobFound { .. } => true,
            _ => false,
        };
        let all = |entry: &Entry| entry.events.iter().all(|recorded| relies(entry, &recorded.e));
        self.entries.iter().all(|entry| all(entry))
            && self.holds.adds_only()
            && self.jobs.adds_only()
            && self.queues.adds_only()
            && self.schedules.adds_only()
    }

    /// The row for the journal, if anything happened.
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

    /// The chain above a scope, nearest first. It ends, also where rows are not what they should be.
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

    /// Notes that an event of this batch touches a stream that `last` touched before.
    pub(crate) fn link(&mut self, stream: impl FnOnce() -> Stream, last: Option<BatchId>) {
        self.prev.link(self.batch, stream, last);
    }

    /// A hold counts on a scope, which is loaded.
    pub(crate) fn add_live(&mut self, key: &ScopeKey, charge: LiveCharge) {
        let row = self.scopes.get_mut(key).expect("a hold counts on scopes that are there");
        let spilled = row.add_live(charge);
        self.spill(key, spilled);
    }

    /// Charges for which there was no place in a scope's row go to the table.
    pub(crate) fn spill(&mut self, key: &ScopeKey, charges: Vec<LiveCharge>) {
        for charge in charges {
            self.live.insert((key.clone(), charge.expires_at, charge.hold), Some(charge));
        }
    }

    /// A hold counts no more on a scope.
    pub(crate) fn remove_live(&mut self, key: ScopeKey, expires_at: Time, hold: HoldId) {
        if self.scopes.get_mut(&key).is_some_and(|row| row.remove_live(hold)) {
            return;
        }
        let key = (key, expires_at, hold);
        // What this batch put there itself was never stored, unless it was handed out: then it stands here no more.
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
    use crate::decide::{Decided, Rules, decide};
    use crate::id::IdSource;
    use crate::job::JobSpec;
    use crate::name::{JobKind, Queue};
    use crate::payload::Payload;
    use crate::request::{Charge, Command, Op, Request};
    use crate::window::Window;

    struct Counting(u128);

    impl IdSource for Counting {
        fn next_id(&mut self, _: Time) -> u128 {
            self.0 += 1;
            self.0
        }
    }

    fn scope() -> ScopeKey {
        (Tenant::built_in(), Scope::new("a").expect("a name"))
    }

    /// A workspace with a budget in it, after a request was done.
    fn after(op: Op) -> Workspace {
        let mut ws = Workspace::new(Time::from_micros(1), BatchId(1));
        let budget = Budget::new([Limit::new(10, Window::Lifetime)]);
        let there = ScopeState { version: 1, budget: Some(budget.into()), ..ScopeState::default() };
        ws.scopes.load(scope(), Some(there));
        let line = crate::job::FlowScopes::of_key(&Queue::new("q").expect("a name"), &flow()).slots;
        ws.scopes.load((Tenant::built_in(), line), Some(ScopeState::default()));
        let done = decide(&mut ws, &Request::from(op), &Rules::default(), &mut Counting(1));
        assert!(matches!(done, Decided::Answered(Ok(_))), "{done:?}");
        ws
    }

    fn flow() -> FlowKey {
        FlowKey::new("k").expect("a name")
    }

    fn job(key: Option<FlowKey>) -> Op {
        let spec =
            JobSpec::new(Queue::new("q").expect("a name"), JobKind::new("w").expect("a name"), Payload::default());
        Op::Submit(Command { jobs: vec![JobSpec { key, ..spec }], ..Command::default() })
    }

    #[test]
    fn a_chain_ends_also_where_each_is_above_the_other() {
        let mut ws = Workspace::new(Time::from_micros(1), BatchId(1));
        for (name, above) in [("a", "b"), ("b", "a")] {
            let parent = Some(Scope::new(above).expect("a name"));
            let budget = Budget { parent, ..Budget::new([Limit::new(10, Window::Lifetime)]) };
            let row = ScopeState { budget: Some(budget.into()), ..ScopeState::default() };
            ws.scopes.load((Tenant::built_in(), Scope::new(name).expect("a name")), Some(row));
        }
        assert_eq!(ws.ancestors(&Tenant::built_in(), &scope().1).len(), DEPTH_MAX);
    }

    #[test]
    fn what_a_command_relies_on_is_what_it_writes() {
        let post = Op::Submit(Command { charges: vec![Charge::new(scope().1, 1)], ..Command::default() });
        let posted = after(post);
        assert!(posted.relies_on_what_it_writes());
        assert!(after(job(None)).relies_on_what_it_writes());
        let mut lined = after(job(Some(flow())));
        assert!(lined.relies_on_what_it_writes(), "it is counted in its line");
        assert!(!after(Op::Freeze { scope: scope().1 }).relies_on_what_it_writes(), "not every event is known");
        // The same events, where the scope they were decided from is only read.
        let mut read = Workspace::new(posted.now, posted.batch);
        read.scopes.load(scope(), Some(ScopeState::default()));
        read.entries = posted.entries;
        assert!(!read.relies_on_what_it_writes());
        lined.scopes = Table::default();
        assert!(!lined.relies_on_what_it_writes(), "its line is not written");
    }
}
