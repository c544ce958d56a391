//! The tables of the simulated database, and the uncommitted writes of a transaction.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bursar_core::bounds::FOLD_STEP;
use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, JobState, QueueState, Schedule};
use bursar_core::live::LiveCharge;
use bursar_core::scope::{Balance, Due, DueQuery, DueStep, Posting, ScopeState, WindowHistory};
use bursar_core::state::{
    Change, IdempotencyRowKey, JobKey, KeyRow, QueueKey, ScheduleKey, ScopeKey, Table, Workspace,
};
use bursar_core::time::Time;
use bursar_store::Lock;
use bursar_store::transaction::rows::HistoryQuery;

type Charges<V> = BTreeMap<ScopeKey, BTreeMap<(Time, HoldId), V>>;
type Postings<V> = BTreeMap<ScopeKey, BTreeMap<(Time, u64), V>>;

/// The committed rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    pub(crate) scopes: BTreeMap<ScopeKey, ScopeState>,
    pub(crate) holds: BTreeMap<HoldId, Hold>,
    pub(crate) grants: BTreeMap<GrantId, Grant>,
    pub(crate) keys: BTreeMap<IdempotencyRowKey, KeyRow>,
    pub(crate) job_keys: BTreeMap<JobKey, JobId>,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) queues: BTreeMap<QueueKey, QueueState>,
    pub(crate) schedules: BTreeMap<ScheduleKey, Schedule>,
    live: Charges<LiveCharge>,
    postings: Postings<Posting>,
    /// In the order of commits.
    pub(crate) journal: Vec<Batch>,
    places: HashMap<BatchId, usize>,
}

/// The writes of one transaction. `None` is a deleted row.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    pub(crate) scopes: BTreeMap<ScopeKey, ScopeState>,
    holds: BTreeMap<HoldId, Hold>,
    grants: BTreeMap<GrantId, Option<Grant>>,
    keys: BTreeMap<IdempotencyRowKey, KeyRow>,
    job_keys: BTreeMap<JobKey, Option<JobId>>,
    pub(crate) jobs: BTreeMap<JobId, Option<Job>>,
    queues: BTreeMap<QueueKey, QueueState>,
    schedules: BTreeMap<ScheduleKey, Option<Schedule>>,
    live: Charges<Option<LiveCharge>>,
    postings: Postings<Option<Posting>>,
    pub(crate) journal: Vec<Batch>,
}

/// The rows that a transaction sees: the committed ones, overlaid with its own writes.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) writes: &'a Writes,
}

impl View<'_> {
    pub(crate) fn scope(&self, key: &ScopeKey) -> Option<&ScopeState> {
        self.writes.scopes.get(key).or_else(|| self.tables.scopes.get(key))
    }

    pub(crate) fn hold(&self, id: &HoldId) -> Option<&Hold> {
        self.writes.holds.get(id).or_else(|| self.tables.holds.get(id))
    }

    pub(crate) fn grant(&self, id: &GrantId) -> Option<&Grant> {
        seen(&self.writes.grants, &self.tables.grants, id)
    }

    pub(crate) fn key(&self, key: &IdempotencyRowKey) -> Option<&KeyRow> {
        self.writes.keys.get(key).or_else(|| self.tables.keys.get(key))
    }

    pub(crate) fn job_key(&self, key: &JobKey) -> Option<&JobId> {
        seen(&self.writes.job_keys, &self.tables.job_keys, key)
    }

    pub(crate) fn job(&self, id: &JobId) -> Option<&Job> {
        seen(&self.writes.jobs, &self.tables.jobs, id)
    }

    pub(crate) fn queue(&self, key: &QueueKey) -> Option<&QueueState> {
        self.writes.queues.get(key).or_else(|| self.tables.queues.get(key))
    }

    pub(crate) fn schedule(&self, key: &ScheduleKey) -> Option<&Schedule> {
        seen(&self.writes.schedules, &self.tables.schedules, key)
    }

    /// Returns the jobs that wait for a worker or for their time.
    pub(crate) fn waiting_jobs(&self) -> impl Iterator<Item = &Job> {
        let stored = self.tables.jobs.values().filter(|job| !self.writes.jobs.contains_key(&job.id));
        let all = stored.chain(self.writes.jobs.values().flatten());
        all.filter(|job| matches!(job.life.state, JobState::Queued | JobState::Scheduled))
    }

    pub(crate) fn entry(&self, batch: BatchId, command: CommandId) -> Option<Arc<Entry>> {
        let own = self.writes.journal.iter().find(|own| own.id == batch);
        let batch = own.or_else(|| self.tables.journal.get(*self.tables.places.get(&batch)?))?;
        batch.entries.iter().find(|entry| entry.id == command).cloned()
    }

    /// Returns the charges of live holds on a scope after a mark, in order.
    fn live_after(&self, key: &ScopeKey, mark: (Time, HoldId)) -> Vec<LiveCharge> {
        after(self.tables.live.get(key), self.writes.live.get(key), mark)
    }

    /// Returns the postings on a scope after a mark, in order.
    fn postings_after(&self, key: &ScopeKey, mark: (Time, u64)) -> Vec<Posting> {
        after(self.tables.postings.get(key), self.writes.postings.get(key), mark)
    }

    pub(crate) fn due(&self, key: &ScopeKey, ask: &DueQuery, now: Time) -> Due {
        let mut due = Due::default();
        if let Some(mark) = ask.charges_after {
            due.charges = step(self.live_after(key, mark), |charge| charge.expires_at, now);
        }
        for (place, mark, until) in &ask.postings {
            let postings = step(self.postings_after(key, *mark), |posting| posting.at, *until);
            due.postings.push((*place, postings));
        }
        due
    }

    pub(crate) fn past(&self, ask: &HistoryQuery) -> WindowHistory {
        let mut postings = self.postings_after(&ask.scope, ask.after);
        postings.retain(|posting| posting.at < ask.until);
        let live = self.live_after(&ask.scope, ask.unfolded);
        WindowHistory {
            posted: postings.iter().map(|posting| posting.amount).sum(),
            held: live.iter().filter(|charge| charge.placed_at >= ask.placed_from).map(|charge| charge.amount).sum(),
            oldest: postings.iter().map(|posting| posting.at).min(),
        }
    }

    /// Returns the marks of the postings on a scope before a time.
    pub(crate) fn postings_before(&self, key: &ScopeKey, before: Time) -> Vec<(Time, u64)> {
        let all = self.postings_after(key, (Time::MIN, 0));
        all.into_iter().filter(|posting| posting.at < before).map(|posting| (posting.at, posting.seq)).collect()
    }
}

fn seen<'a, K: Ord, V>(own: &'a BTreeMap<K, Option<V>>, stored: &'a BTreeMap<K, V>, key: &K) -> Option<&'a V> {
    match own.get(key) {
        Some(own) => own.as_ref(),
        None => stored.get(key),
    }
}

fn after<M: Ord + Copy, V: Clone>(
    stored: Option<&BTreeMap<M, V>>,
    own: Option<&BTreeMap<M, Option<V>>>,
    mark: M,
) -> Vec<V> {
    use std::ops::Bound::{Excluded, Unbounded};
    let beyond = (Excluded(mark), Unbounded);
    let stored = stored.into_iter().flat_map(|rows| rows.range(beyond));
    let Some(own) = own else { return stored.map(|(_, row)| row.clone()).collect() };
    let mut rows: BTreeMap<M, Option<V>> = stored.map(|(at, row)| (*at, Some(row.clone()))).collect();
    rows.extend(own.range(beyond).map(|(at, row)| (*at, row.clone())));
    rows.into_values().flatten().collect()
}

/// Takes a bounded number of rows ordered by `at`, up to `until`.
fn step<T>(all: Vec<T>, at: impl Fn(&T) -> Time, until: Time) -> DueStep<T> {
    let mut step = DueStep::default();
    for item in all {
        if at(&item) > until {
            step.next = at(&item);
            break;
        }
        if step.items.len() == FOLD_STEP {
            step.more = true;
            break;
        }
        step.items.push(item);
    }
    step
}

impl Writes {
    /// Adds the changes of a workspace.
    pub(crate) fn take(&mut self, ws: &Workspace, batch: Option<Batch>) {
        for (key, change) in ws.scopes.changes() {
            if let Change::Insert(row) | Change::Update(row) = change {
                let mut row = row.clone();
                row.balances.retain(Balance::is_stored);
                row.redefined = false;
                self.scopes.insert(key.clone(), row);
            }
        }
        copy(&ws.holds, &mut self.holds);
        copy(&ws.keys, &mut self.keys);
        copy(&ws.queues, &mut self.queues);
        copy_or_remove(&ws.job_keys, &mut self.job_keys);
        copy_or_remove(&ws.jobs, &mut self.jobs);
        copy_or_remove(&ws.grants, &mut self.grants);
        copy_or_remove(&ws.schedules, &mut self.schedules);
        for ((scope, at, hold), charge) in &ws.live {
            self.live.entry(scope.clone()).or_default().insert((*at, *hold), charge.clone());
        }
        for (scope, posting) in &ws.postings {
            let place = (posting.at, posting.seq);
            self.postings.entry(scope.clone()).or_default().insert(place, Some(posting.clone()));
        }
        self.journal.extend(batch);
    }

    /// Returns the rows that this transaction creates.
    pub(crate) fn new_rows(&self, tables: &Tables) -> Vec<Lock> {
        let scopes = self.scopes.keys().filter(|key| !tables.scopes.contains_key(*key)).cloned().map(Lock::Scope);
        let holds = self.holds.keys().filter(|id| !tables.holds.contains_key(id)).copied().map(Lock::Hold);
        let grants = self.grants.keys().filter(|id| !tables.grants.contains_key(id)).copied().map(Lock::Grant);
        // Deleted job keys count as well: later decisions depend on when a key disappeared.
        let jobs = self.job_keys.iter().filter(|(key, job)| job.is_some() != tables.job_keys.contains_key(*key));
        let jobs = jobs.map(|(key, _)| Lock::JobKey(key.clone()));
        scopes.chain(holds).chain(grants).chain(jobs).collect()
    }

    pub(crate) fn remove_posting(&mut self, scope: &ScopeKey, mark: (Time, u64)) {
        self.postings.entry(scope.clone()).or_default().insert(mark, None);
    }
}

fn copy<K: Ord + std::hash::Hash + Eq + Clone + std::fmt::Debug, V: Clone>(
    from: &Table<K, V>,
    to: &mut BTreeMap<K, V>,
) {
    for (key, change) in from.changes() {
        match change {
            Change::Insert(row) | Change::Update(row) => drop(to.insert(key.clone(), row.clone())),
            Change::Delete => unreachable!("only grants, schedules, jobs and their keys are deleted"),
        }
    }
}

fn copy_or_remove<K: Ord + std::hash::Hash + Eq + Clone + std::fmt::Debug, V: Clone>(
    from: &Table<K, V>,
    to: &mut BTreeMap<K, Option<V>>,
) {
    for (key, change) in from.changes() {
        let row = match change {
            Change::Insert(row) | Change::Update(row) => Some(row.clone()),
            Change::Delete => None,
        };
        to.insert(key.clone(), row);
    }
}

impl Tables {
    /// Commits the writes of a transaction.
    pub(crate) fn apply(&mut self, writes: Writes) {
        self.scopes.extend(writes.scopes);
        self.holds.extend(writes.holds);
        self.keys.extend(writes.keys);
        self.queues.extend(writes.queues);
        put(&mut self.job_keys, writes.job_keys);
        put(&mut self.jobs, writes.jobs);
        put(&mut self.grants, writes.grants);
        put(&mut self.schedules, writes.schedules);
        for (scope, rows) in writes.live {
            put(self.live.entry(scope).or_default(), rows);
        }
        for (scope, rows) in writes.postings {
            put(self.postings.entry(scope).or_default(), rows);
        }
        for batch in writes.journal {
            self.places.insert(batch.id, self.journal.len());
            self.journal.push(batch);
        }
    }

    /// Returns the time of the latest event.
    pub(crate) fn newest(&self) -> Time {
        self.journal.iter().map(|batch| batch.at).max().unwrap_or(Time::MIN)
    }

    /// Returns the charges of live holds, from scope rows and from the table: scope, expiry, hold, units.
    pub(crate) fn live_charges(&self) -> Vec<(ScopeKey, i64, HoldId, i64)> {
        let recent = self.scopes.iter().flat_map(|(key, row)| row.recent.iter().map(move |charge| (key, charge)));
        let spilled = self.live.iter().flat_map(|(key, rows)| rows.values().map(move |charge| (key, charge)));
        let all = recent.chain(spilled);
        let mut all: Vec<_> =
            all.map(|(key, charge)| (key.clone(), charge.expires_at.micros(), charge.hold, charge.amount)).collect();
        all.sort();
        all
    }
}

fn put<M: Ord, V>(table: &mut BTreeMap<M, V>, rows: BTreeMap<M, Option<V>>) {
    for (at, row) in rows {
        match row {
            Some(row) => drop(table.insert(at, row)),
            None => drop(table.remove(&at)),
        }
    }
}
