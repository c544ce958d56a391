//! One transaction of the simulated database: read committed, locked rows, a step of chance before everything it does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bursar_core::bounds::DEPTH_MAX;
use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::mutant::Mutant;
use bursar_core::name::{FlowKey, Scope};
use bursar_core::scope::{Due, DueAsk, Past, ScopeState};
use bursar_core::state::{Change, JobKey, KeyKey, KeyRow, LineKey, QueueKey, ScheduleKey, ScopeKey, Workspace};
use bursar_core::time::Time;
use bursar_store::rows::{ClaimAsk, Claimed, Found, PastAsk, Rows};
use bursar_store::swift::seen_in_parts;
use bursar_store::turn::Turn;
use bursar_store::{Lock, StoreError, claims};
use tokio::time::{Instant, timeout_at};

use super::jobs::ClaimSeen;
use super::locks::{Asked, TxId};
use super::tables::{View, Writes};
use super::world::{Node, World};

/// After so long a wait, the database looks whether somebody waits for himself.
const DEADLOCK_AFTER: Duration = Duration::from_secs(1);

/// What to do about a row that somebody else has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    /// Leave it.
    Skip,
    /// Wait for it.
    Wait(Duration),
    /// Wait for it if it is its turn, and leave it otherwise.
    InTurn(Duration),
    /// Only look at it, and write it if it still is as it was then.
    See,
}

/// What stood in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Deadlock,
    LockTimeout,
    Lost,
}

pub(crate) struct SimTx {
    pub(crate) world: Arc<World>,
    pub(crate) node: Node,
    pub(crate) id: TxId,
    /// How many transactions had committed when it began.
    pub(crate) began: u64,
    /// How many had when its requests were decided.
    pub(crate) decided: u64,
    pub(crate) taking: Taking,
    /// How long it waits for a name that somebody else is about to take.
    pub(crate) name_wait: Duration,
    pub(crate) writes: Writes,
    pub(crate) trouble: Option<Trouble>,
    /// Some of its requests do something to jobs that wait.
    pub(crate) disturbed: bool,
    /// What it found when it looked for jobs to lease.
    pub(crate) claim: Option<Arc<ClaimSeen>>,
    /// How far it has come in the one order of locks, where it must not wait for what comes before that.
    pub(crate) turn: Option<Turn>,
    /// The last lock that was asked for within a part, by which the order of locks is checked.
    last: Option<Lock>,
    /// What was looked at without being locked, and whose it was then.
    seen: BTreeMap<Lock, Option<TxId>>,
    /// Scopes were looked at: more of them would not be seen with them.
    sees_scopes: bool,
}

impl Drop for SimTx {
    fn drop(&mut self) {
        self.world.state().close(self.id);
    }
}

impl SimTx {
    pub(crate) fn begin(world: &Arc<World>, node: Node, taking: Taking, name_wait: Duration) -> SimTx {
        let (id, began) = {
            let mut state = world.state();
            let id = state.open(node);
            if matches!(taking, Taking::Wait(_)) {
                state.locks.note_stranger(id);
            }
            (id, state.judge.commits)
        };
        let writes = Writes::default();
        SimTx {
            world: world.clone(),
            node,
            id,
            began,
            decided: began,
            taking,
            name_wait,
            writes,
            trouble: None,
            disturbed: false,
            claim: None,
            turn: None,
            last: None,
            seen: BTreeMap::new(),
            sees_scopes: false,
        }
    }

    /// Begins a part, whose locks have an order of their own.
    pub(crate) fn begin_part(&mut self) {
        self.last = None;
    }

    pub(crate) async fn step(&mut self) -> Result<(), StoreError> {
        if self.world.step(self.node).await {
            return Err(self.failed(Trouble::Lost));
        }
        Ok(())
    }

    fn failed(&mut self, trouble: Trouble) -> StoreError {
        self.trouble = Some(trouble);
        let what = match trouble {
            Trouble::Deadlock => "two transactions waited for each other",
            Trouble::LockTimeout => "a lock took too long",
            Trouble::Lost => {
                let (what, hint) = ("the connection was lost".to_owned(), "it is made anew");
                return StoreError::Unavailable { what, hint, source: None };
            }
        };
        StoreError::Busy(what.into())
    }

    /// Waits for a lock.
    pub(crate) async fn wait_for(&mut self, lock: &Lock, wait: Duration) -> Result<(), StoreError> {
        self.world.outlive(self.node).await;
        let asked = self.world.state().locks.ask(self.id, lock);
        let Asked::Queued(told) = asked else { return Ok(()) };
        if self.world.state().locks.is_cycle_of_batches(self.id) {
            self.world.fail("no deadlock", format!("a batch of node {} waits for itself: {lock:?}", self.node.place));
        }
        let until = Instant::now() + wait;
        let look_at = Instant::now() + DEADLOCK_AFTER;
        if timeout_at(until.min(look_at), told.notified()).await.is_ok() {
            return Ok(());
        }
        if look_at < until {
            let in_cycle = self.world.state().locks.is_in_cycle(self.id);
            if in_cycle {
                self.world.state().locks.leave(self.id, lock);
                return Err(self.failed(Trouble::Deadlock));
            }
            if timeout_at(until, told.notified()).await.is_ok() {
                return Ok(());
            }
        }
        if self.world.state().locks.leave(self.id, lock) {
            return Ok(());
        }
        Err(self.failed(Trouble::LockTimeout))
    }

    /// Those above scopes, as far as a node may have seen them: mostly it has.
    fn widened(&self, keys: &[(ScopeKey, bool)]) -> Vec<ScopeKey> {
        let mut state = self.world.state();
        if state.chance.one_in(4) {
            return Vec::new();
        }
        let parent = |key: &ScopeKey| {
            let budget = state.tables.scopes.get(key)?.budget.as_ref()?;
            Some((key.0.clone(), budget.parent.clone()?))
        };
        let above = |key: &ScopeKey| std::iter::successors(parent(key), parent).take(DEPTH_MAX).collect::<Vec<_>>();
        keys.iter().flat_map(|(key, _)| above(key)).collect()
    }

    /// Notes whose a row is that is looked at. It may be read twice, and what is worked on is as it was the first time.
    fn note_seen(&mut self, row: Lock) {
        let writer = self.world.state().tables.writer(&row);
        self.seen.entry(row).or_insert(writer);
    }

    /// Whether something that was only looked at is not as it was any more.
    pub(crate) fn is_outdated(&self) -> bool {
        let state = self.world.state();
        self.seen.iter().any(|(row, writer)| state.tables.writer(row) != *writer)
    }

    /// Writes what was only looked at; false when it is not as it was any more, or a name is taken.
    pub(crate) async fn write_seen(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError> {
        let grants = ws.grants.changes().filter(|(_, change)| !matches!(change, Change::Insert(_)));
        let grants = grants.map(|(id, _)| Lock::Grant(*id));
        let mut rows: Vec<Lock> = grants.chain(ws.scopes.changes().map(|(key, _)| Lock::Scope(key.clone()))).collect();
        rows.sort();
        for row in &rows {
            self.wait_for(row, self.name_wait).await?;
            let writer = self.world.state().tables.writer(row);
            if self.seen.get(row) != Some(&writer) && !Mutant::WriteUnseen.on() {
                return Ok(false);
            }
        }
        if !self.take_names(ws).await? {
            return Ok(false);
        }
        self.writes.take(ws, batch);
        Ok(true)
    }

    /// Locks a row, as this transaction takes them; false when somebody else has it.
    async fn lock(&mut self, lock: Lock) -> Result<bool, StoreError> {
        if self.taking == Taking::See {
            self.note_seen(lock);
            return Ok(true);
        }
        let ordered = self.last.as_ref().is_none_or(|last| *last < lock || kind(last) == 6 && kind(&lock) == 6);
        if !ordered {
            let last = self.last.take();
            self.world.fail("one order of locks", format!("{lock:?} is asked for after {last:?}"));
        }
        self.last = Some(lock.clone());
        let its_turn = self.turn.as_ref().is_none_or(|turn| turn.may_wait(&lock));
        if let Some(turn) = &mut self.turn {
            turn.reach(lock.clone());
        }
        match self.taking {
            Taking::Wait(wait) | Taking::InTurn(wait) if its_turn => self.wait_for(&lock, wait).await.map(|()| true),
            _ => {
                self.world.outlive(self.node).await;
                Ok(self.world.state().locks.try_take(self.id, &lock))
            }
        }
    }

    /// The rows of one statement are asked for in the order of their names.
    fn check_order<K: Ord + std::fmt::Debug>(&self, keys: &[K]) {
        if !keys.is_sorted() {
            self.world.fail("one order of locks", format!("one statement asks for {keys:?}"));
        }
    }

    fn see<T>(&self, look: impl FnOnce(View<'_>) -> T) -> T {
        let state = self.world.state();
        look(View { tables: &state.tables, writes: &self.writes })
    }

    /// Finds jobs among those that wait and that nobody else has locked, and locks what is found. It waits for nobody.
    fn find_waiting<T>(&self, find: impl FnOnce(&[&Job]) -> T, ids: impl FnOnce(&T) -> Vec<JobId>) -> T {
        let mut state = self.world.state();
        let view = View { tables: &state.tables, writes: &self.writes };
        let free = view.waiting_jobs().filter(|job| state.locks.is_free(self.id, &Lock::Job(job.id)));
        let found = find(&free.collect::<Vec<_>>());
        for id in ids(&found) {
            state.locks.try_take(self.id, &Lock::Job(id));
        }
        found
    }

    fn see_claim(&self, now: Time) -> ClaimSeen {
        let state = self.world.state();
        let view = View { tables: &state.tables, writes: &self.writes };
        let locked = view.waiting_jobs().map(|job| job.id).filter(|id| !state.locks.is_free(self.id, &Lock::Job(*id)));
        ClaimSeen {
            commits: state.judge.commits,
            at: now.micros(),
            locked: locked.collect(),
            disturbed: self.disturbed,
        }
    }

    /// Takes names that were free; false when one is taken by now.
    async fn take_names(&mut self, ws: &Workspace) -> Result<bool, StoreError> {
        let mut keys: Vec<_> = ws.keys.changes().collect();
        keys.sort_by_key(|(key, _)| *key);
        for (key, change) in keys {
            self.wait_for(&Lock::Key(key.clone()), self.name_wait).await?;
            let taken = match change {
                Change::Insert(_) => self.see(|view| view.key(key).is_some()),
                // A key whose time is over is taken over, unless somebody else did so before.
                Change::Update(_) | Change::Delete => {
                    self.see(|view| view.key(key).is_some_and(|row| row.until > ws.now))
                }
            };
            if taken {
                return Ok(false);
            }
        }
        let mut job_keys: Vec<_> = ws.job_keys.changes().collect();
        job_keys.sort_by_key(|(key, _)| *key);
        for (key, change) in job_keys {
            self.wait_for(&Lock::JobKey(key.clone()), self.name_wait).await?;
            // One that is given up belongs to a job that this transaction has locked.
            let taken = matches!(change, Change::Insert(_)) && self.see(|view| view.job_key(key).is_some());
            if taken {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[expect(clippy::ptr_arg, reason = "it is given what was found, which is a vector")]
fn ids_of(jobs: &Vec<Job>) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// Stands for the row of a queue, which is locked to be changed whether it is there or not.
fn the_queue(key: &QueueKey) -> Lock {
    Lock::Scope((key.0.clone(), Scope::new(format!("the queue {}", key.1)).expect("it is a name")))
}

/// The place of a lock's kind in the one order.
fn kind(lock: &Lock) -> u8 {
    match lock {
        Lock::Key(_) => 0,
        Lock::JobKey(_) => 1,
        Lock::Schedule(_) => 2,
        Lock::Job(_) => 3,
        Lock::Hold(_) => 4,
        Lock::Grant(_) => 5,
        Lock::Scope(_) => 6,
    }
}

impl Rows for SimTx {
    async fn keys(&mut self, keys: &[KeyKey]) -> Result<Vec<(KeyKey, KeyRow)>, StoreError> {
        self.step().await?;
        Ok(self.see(|view| keys.iter().filter_map(|key| Some((key.clone(), view.key(key)?.clone()))).collect()))
    }

    async fn entries(&mut self, wanted: &[(BatchId, CommandId)]) -> Result<Vec<Arc<Entry>>, StoreError> {
        self.step().await?;
        Ok(self.see(|view| wanted.iter().filter_map(|(batch, command)| view.entry(*batch, *command)).collect()))
    }

    async fn job_keys(&mut self, keys: &[JobKey]) -> Result<Vec<(JobKey, JobId)>, StoreError> {
        self.step().await?;
        Ok(self.see(|view| keys.iter().filter_map(|key| Some((key.clone(), *view.job_key(key)?))).collect()))
    }

    async fn jobs(&mut self, ids: &[JobId], locked: bool) -> Result<Found<JobId, Job>, StoreError> {
        self.step().await?;
        if !locked {
            let rows = self.see(|view| ids.iter().filter_map(|id| Some((*id, view.job(id)?.clone()))).collect());
            return Ok(Found::all(rows));
        }
        self.check_order(ids);
        let mut found = Found::all(Vec::new());
        for id in ids {
            if self.see(|view| view.job(id).is_none()) {
                continue;
            }
            if self.lock(Lock::Job(*id)).await? {
                found.rows.extend(self.see(|view| Some((*id, view.job(id)?.clone()))));
            } else {
                found.blocked.push(*id);
            }
        }
        Ok(found)
    }

    async fn queues(&mut self, keys: &[QueueKey], locked: bool) -> Result<Vec<(QueueKey, QueueState)>, StoreError> {
        self.step().await?;
        for key in keys.iter().filter(|_| locked) {
            self.wait_for(&the_queue(key), self.name_wait).await?;
        }
        Ok(self.see(|view| keys.iter().filter_map(|key| Some((key.clone(), view.queue(key)?.clone()))).collect()))
    }

    async fn schedules(&mut self, keys: &[ScheduleKey]) -> Result<Found<ScheduleKey, Schedule>, StoreError> {
        self.step().await?;
        self.check_order(keys);
        let mut found = Found::all(Vec::new());
        for key in keys {
            if self.see(|view| view.schedule(key).is_none()) {
                continue;
            }
            if self.lock(Lock::Schedule(key.clone())).await? {
                found.rows.extend(self.see(|view| Some((key.clone(), view.schedule(key)?.clone()))));
            } else {
                found.blocked.push(key.clone());
            }
        }
        Ok(found)
    }

    async fn claim(&mut self, asks: &[ClaimAsk], now: Time) -> Result<Vec<Claimed>, StoreError> {
        self.step().await?;
        self.claim = Some(Arc::new(self.see_claim(now)));
        let find = |jobs: &[&Job]| asks.iter().map(|ask| claims::claim(jobs.iter().copied(), ask, now)).collect();
        let ids = |claimed: &Vec<Claimed>| {
            claimed.iter().flat_map(|claimed| claimed.ready.iter().chain(&claimed.due)).map(|job| job.id).collect()
        };
        Ok(self.find_waiting(find, ids))
    }

    async fn behind(&mut self, lines: &[(LineKey, usize)]) -> Result<Vec<Job>, StoreError> {
        self.step().await?;
        let find = |jobs: &[&Job]| {
            lines.iter().flat_map(|(line, count)| claims::behind(jobs.iter().copied(), line, *count)).collect()
        };
        Ok(self.find_waiting(find, ids_of))
    }

    async fn barred(&mut self, keys: &[(QueueKey, FlowKey)]) -> Result<Vec<Job>, StoreError> {
        self.step().await?;
        let find =
            |jobs: &[&Job]| jobs.iter().filter(|job| claims::is_barred(job, keys)).map(|job| (*job).clone()).collect();
        Ok(self.find_waiting(find, ids_of))
    }

    async fn holds(&mut self, ids: &[HoldId]) -> Result<Found<HoldId, Hold>, StoreError> {
        self.step().await?;
        self.check_order(ids);
        let mut found = Found::all(Vec::new());
        for id in ids {
            if self.see(|view| view.hold(id).is_none()) {
                continue;
            }
            if self.lock(Lock::Hold(*id)).await? {
                found.rows.extend(self.see(|view| Some((*id, view.hold(id)?.clone()))));
            } else {
                found.blocked.push(*id);
            }
        }
        Ok(found)
    }

    async fn grants(&mut self, ids: &[GrantId]) -> Result<Found<GrantId, Grant>, StoreError> {
        self.step().await?;
        self.check_order(ids);
        let mut found = Found::all(Vec::new());
        for id in ids {
            if self.see(|view| view.grant(id).is_none()) {
                continue;
            }
            if self.lock(Lock::Grant(*id)).await? {
                found.rows.extend(self.see(|view| Some((*id, view.grant(id)?.clone()))));
            } else {
                found.blocked.push(*id);
            }
        }
        Ok(found)
    }

    async fn scopes(&mut self, keys: &[(ScopeKey, bool)]) -> Result<Found<ScopeKey, ScopeState>, StoreError> {
        self.step().await?;
        if self.taking == Taking::See && std::mem::replace(&mut self.sees_scopes, true) {
            return Err(seen_in_parts());
        }
        let mut names: Vec<&ScopeKey> = keys.iter().map(|(key, _)| key).collect();
        self.check_order(&names);
        let known = if self.taking == Taking::See { self.widened(keys) } else { Vec::new() };
        if !known.is_empty() {
            names.extend(&known);
            names.sort();
            names.dedup();
        }
        for (key, _) in keys.iter().filter(|(_, create)| *create) {
            // In a transaction of its own, so that nobody waits for a row that exists only to be locked.
            self.world.state().create_scope(key);
        }
        let before: Vec<Option<ScopeState>> = if Mutant::ReadBeforeLock.on() {
            self.see(|view| names.iter().map(|key| view.scope(key).cloned()).collect())
        } else {
            Vec::new()
        };
        let mut locked = Vec::with_capacity(keys.len());
        let mut found = Found::all(Vec::new());
        for key in &names {
            if self.see(|view| view.scope(key).is_none()) {
                continue;
            }
            if self.taking == Taking::See || self.lock(Lock::Scope((*key).clone())).await? {
                locked.push(*key);
            } else {
                found.blocked.push((*key).clone());
            }
        }
        // Balances are read in a later statement than the one that locks.
        self.step().await?;
        found.rows = self
            .see(|view| locked.into_iter().filter_map(|key| Some((key.clone(), view.scope(key)?.clone()))).collect());
        if self.taking == Taking::See {
            found.rows.iter().for_each(|(key, _)| self.note_seen(Lock::Scope(key.clone())));
        }
        for (key, row) in names.into_iter().zip(before) {
            let read = found.rows.iter_mut().find(|(locked, _)| locked == key).map(|(_, read)| read);
            read.into_iter().zip(row).for_each(|(read, row)| *read = row);
        }
        Ok(found)
    }

    async fn now(&mut self) -> Result<Time, StoreError> {
        let state = self.world.state();
        Ok(self.world.now(&state))
    }

    async fn due(&mut self, asks: &[(ScopeKey, DueAsk)], now: Time) -> Result<Vec<Due>, StoreError> {
        self.step().await?;
        Ok(self.see(|view| asks.iter().map(|(key, ask)| view.due(key, ask, now)).collect()))
    }

    async fn past(&mut self, asks: &[PastAsk]) -> Result<Vec<Past>, StoreError> {
        self.step().await?;
        Ok(self.see(|view| asks.iter().map(|ask| view.past(ask)).collect()))
    }

    async fn roll_up(&mut self, scopes: &[(ScopeKey, Time)]) -> Result<(), StoreError> {
        self.step().await?;
        for (key, before) in scopes {
            for mark in self.see(|view| view.postings_before(key, *before)) {
                self.writes.remove_posting(key, mark);
            }
        }
        Ok(())
    }

    async fn store(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError> {
        self.step().await?;
        if !self.take_names(ws).await? {
            return Ok(false);
        }
        self.step().await?;
        self.writes.take(ws, batch);
        Ok(true)
    }
}
