//! A transaction of the simulated database: read committed, row locks, a random delay before each statement.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, BlobId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::mutant::Mutant;
use bursar_core::name::{FlowKey, Scope};
use bursar_core::scope::{Due, DueQuery, ScopeState, WindowHistory};
use bursar_core::state::{
    BlobDigestKey, Change, IdempotencyRowKey, JobKey, KeyRow, LineKey, NamespaceKey, QueueKey, ScheduleKey, ScopeKey,
    Workspace,
};
use bursar_core::time::Time;
use bursar_store::memory::{View, Writes};
use bursar_store::transaction::lock_order::LockOrder;
use bursar_store::transaction::rows::{ClaimQuery, Claimed, Found, HistoryQuery, Rows};
use bursar_store::{Lock, StoreError, claims};
use tokio::time::{Instant, timeout_at};

use super::jobs::ClaimSeen;
use super::locks::{LockRequest, TxId};
use super::world::{Node, World};

/// How long a transaction waits for a lock before the database checks for a deadlock.
const DEADLOCK_AFTER: Duration = Duration::from_secs(1);

/// What to do about a row that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Skip the row.
    Skip,
    /// Wait for the lock.
    Wait(Duration),
    /// Wait for the lock if the lock order allows it, and skip the row otherwise.
    InTurn(Duration),
}

/// Why a statement failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    Deadlock,
    LockTimeout,
    Lost,
}

pub(crate) struct SimTx {
    pub(crate) world: Arc<World>,
    pub(crate) node: Node,
    pub(crate) id: TxId,
    /// The number of commits when it began.
    pub(crate) began: u64,
    /// The number of commits when its requests were decided.
    pub(crate) decided: u64,
    pub(crate) lock_mode: LockMode,
    /// How long it waits for a key that another transaction is inserting.
    pub(crate) key_wait: Duration,
    pub(crate) writes: Writes,
    pub(crate) conflict: Option<Conflict>,
    /// Whether some of its requests act on waiting jobs.
    pub(crate) disturbed: bool,
    /// What it saw when it searched for jobs to lease.
    pub(crate) claim: Option<Arc<ClaimSeen>>,
    /// Its position in the lock order; it must not wait for earlier locks.
    pub(crate) order: Option<LockOrder>,
    /// The last lock requested within a part, to check the lock order.
    last: Option<Lock>,
}

impl Drop for SimTx {
    fn drop(&mut self) {
        self.world.state().close(self.id);
    }
}

impl SimTx {
    pub(crate) fn begin(world: &Arc<World>, node: Node, lock_mode: LockMode, key_wait: Duration) -> SimTx {
        let (id, began) = {
            let mut state = world.state();
            let id = state.open(node);
            if matches!(lock_mode, LockMode::Wait(_)) {
                state.locks.mark_caller_transaction(id);
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
            lock_mode,
            key_wait,
            writes,
            conflict: None,
            disturbed: false,
            claim: None,
            order: None,
            last: None,
        }
    }

    /// Begins a part, which follows the lock order independently.
    pub(crate) fn begin_part(&mut self) {
        self.last = None;
    }

    pub(crate) async fn step(&mut self) -> Result<(), StoreError> {
        if self.world.step(self.node).await {
            return Err(self.failed(Conflict::Lost));
        }
        Ok(())
    }

    fn failed(&mut self, conflict: Conflict) -> StoreError {
        self.conflict = Some(conflict);
        let what = match conflict {
            Conflict::Deadlock => "two transactions waited for each other",
            Conflict::LockTimeout => "a lock took too long",
            Conflict::Lost => {
                let (what, hint) = ("the connection was lost".to_owned(), "the connection is made again");
                return StoreError::Unavailable { what, hint, permanent: false, source: None };
            }
        };
        StoreError::Busy(what.into())
    }

    /// Waits for a lock.
    pub(crate) async fn wait_for(&mut self, lock: &Lock, wait: Duration) -> Result<(), StoreError> {
        self.world.block_if_crashed(self.node).await;
        let requested = self.world.state().locks.request(self.id, lock);
        let LockRequest::Queued(released) = requested else { return Ok(()) };
        if self.world.state().locks.is_cycle_of_batches(self.id) {
            self.world.fail("no deadlock", format!("a batch of node {} waits for itself: {lock:?}", self.node.place));
        }
        let until = Instant::now() + wait;
        let check_at = Instant::now() + DEADLOCK_AFTER;
        if timeout_at(until.min(check_at), released.notified()).await.is_ok() {
            return Ok(());
        }
        if check_at < until {
            let in_cycle = self.world.state().locks.is_in_cycle(self.id);
            if in_cycle {
                self.world.state().locks.leave(self.id, lock);
                return Err(self.failed(Conflict::Deadlock));
            }
            if timeout_at(until, released.notified()).await.is_ok() {
                return Ok(());
            }
        }
        if self.world.state().locks.leave(self.id, lock) {
            return Ok(());
        }
        Err(self.failed(Conflict::LockTimeout))
    }

    /// Locks a row in the mode of this transaction; returns false when another transaction has it.
    async fn lock(&mut self, lock: Lock) -> Result<bool, StoreError> {
        let ordered = self.last.as_ref().is_none_or(|last| *last < lock || kind(last) == 7 && kind(&lock) == 7);
        if !ordered {
            let last = self.last.take();
            self.world.fail("one order of locks", format!("{lock:?} is requested after {last:?}"));
        }
        self.last = Some(lock.clone());
        let may_wait = self.order.as_ref().is_none_or(|order| order.may_wait(&lock));
        if let Some(order) = &mut self.order {
            order.reach(lock.clone());
        }
        match self.lock_mode {
            LockMode::Wait(wait) | LockMode::InTurn(wait) if may_wait => {
                self.wait_for(&lock, wait).await.map(|()| true)
            }
            _ => {
                self.world.block_if_crashed(self.node).await;
                Ok(self.world.state().locks.try_take(self.id, &lock))
            }
        }
    }

    /// Checks that one statement requests its rows in the lock order.
    fn check_order<K: Ord + std::fmt::Debug>(&self, keys: &[K]) {
        if !keys.is_sorted() {
            self.world.fail("one order of locks", format!("one statement requests {keys:?}"));
        }
    }

    fn read<T>(&self, read: impl FnOnce(View<'_>) -> T) -> T {
        let state = self.world.state();
        read(View { tables: &state.tables, writes: &self.writes })
    }

    /// Finds waiting jobs that no other transaction has locked, and locks them. It never waits.
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

    fn claim_seen(&self, now: Time) -> ClaimSeen {
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

    /// Inserts keys; returns false when one is taken.
    async fn take_keys(&mut self, ws: &Workspace) -> Result<bool, StoreError> {
        let mut keys: Vec<_> = ws.keys.changes().collect();
        keys.sort_by_key(|(key, _)| *key);
        for (key, change) in keys {
            self.wait_for(&Lock::Key(key.clone()), self.key_wait).await?;
            let taken = match change {
                Change::Insert(_) => self.read(|view| view.key(key).is_some()),
                // An expired key is reused unless another transaction has reused it first.
                Change::Update(_) | Change::Delete => {
                    self.read(|view| view.key(key).is_some_and(|row| row.until > ws.now))
                }
            };
            if taken {
                return Ok(false);
            }
        }
        let mut job_keys: Vec<_> = ws.job_keys.changes().collect();
        job_keys.sort_by_key(|(key, _)| *key);
        for (key, change) in job_keys {
            self.wait_for(&Lock::JobKey(key.clone()), self.key_wait).await?;
            // A deleted job key belongs to a job that this transaction has locked.
            let taken = matches!(change, Change::Insert(_)) && self.read(|view| view.job_key(key).is_some());
            if taken {
                return Ok(false);
            }
        }
        let mut digests: Vec<_> = ws.blob_digests.changes().collect();
        digests.sort_by_key(|(key, _)| *key);
        for (key, change) in digests {
            self.wait_for(&digest_lock(key), self.key_wait).await?;
            // A deleted digest belongs to a blob that this transaction has locked.
            let taken = matches!(change, Change::Insert(_)) && self.read(|view| view.blob_digest(key).is_some());
            if taken {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[expect(clippy::ptr_arg, reason = "the argument is the found vector")]
fn ids_of(jobs: &Vec<Job>) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// Returns the lock that stands for a queue row, which is locked even if it does not exist.
fn queue_lock(key: &QueueKey) -> Lock {
    Lock::Scope((key.0.clone(), Scope::new(format!("the queue {}", key.1)).expect("a valid name")))
}

/// Returns the lock that stands for the row of a digest.
fn digest_lock((tenant, namespace, digest): &BlobDigestKey) -> Lock {
    Lock::Scope((tenant.clone(), Scope::new(format!("the digest {digest} in {namespace}")).expect("a valid name")))
}

/// Returns the lock that stands for a namespace row, which is locked even if it does not exist.
fn namespace_lock(key: &NamespaceKey) -> Lock {
    Lock::Scope((key.0.clone(), Scope::new(format!("the namespace {}", key.1)).expect("a valid name")))
}

/// Returns the position of a lock's kind in the lock order.
fn kind(lock: &Lock) -> u8 {
    match lock {
        Lock::Key(_) => 0,
        Lock::JobKey(_) => 1,
        Lock::Schedule(_) => 2,
        Lock::Job(_) => 3,
        Lock::Blob(_) => 4,
        Lock::Hold(_) => 5,
        Lock::Grant(_) => 6,
        Lock::Scope(_) => 7,
    }
}

impl Rows for SimTx {
    async fn keys(&mut self, keys: &[IdempotencyRowKey]) -> Result<Vec<(IdempotencyRowKey, KeyRow)>, StoreError> {
        self.step().await?;
        Ok(self.read(|view| keys.iter().filter_map(|key| Some((key.clone(), view.key(key)?.clone()))).collect()))
    }

    async fn entries(&mut self, wanted: &[(BatchId, CommandId)]) -> Result<Vec<Arc<Entry>>, StoreError> {
        self.step().await?;
        Ok(self.read(|view| wanted.iter().filter_map(|(batch, command)| view.entry(*batch, *command)).collect()))
    }

    async fn job_keys(&mut self, keys: &[JobKey]) -> Result<Vec<(JobKey, JobId)>, StoreError> {
        self.step().await?;
        Ok(self.read(|view| keys.iter().filter_map(|key| Some((key.clone(), *view.job_key(key)?))).collect()))
    }

    async fn jobs(&mut self, ids: &[JobId], locked: bool) -> Result<Found<JobId, Job>, StoreError> {
        self.step().await?;
        if !locked {
            let rows = self.read(|view| ids.iter().filter_map(|id| Some((*id, view.job(id)?.clone()))).collect());
            return Ok(Found::all(rows));
        }
        self.check_order(ids);
        let mut found = Found::all(Vec::new());
        for id in ids {
            if self.read(|view| view.job(id).is_none()) {
                continue;
            }
            if self.lock(Lock::Job(*id)).await? {
                found.rows.extend(self.read(|view| Some((*id, view.job(id)?.clone()))));
            } else {
                found.blocked.push(*id);
            }
        }
        Ok(found)
    }

    async fn queues(&mut self, keys: &[QueueKey], locked: bool) -> Result<Vec<(QueueKey, QueueState)>, StoreError> {
        self.step().await?;
        for key in keys.iter().filter(|_| locked) {
            self.wait_for(&queue_lock(key), self.key_wait).await?;
        }
        Ok(self.read(|view| keys.iter().filter_map(|key| Some((key.clone(), view.queue(key)?.clone()))).collect()))
    }

    async fn schedules(&mut self, keys: &[ScheduleKey]) -> Result<Found<ScheduleKey, Schedule>, StoreError> {
        self.step().await?;
        self.check_order(keys);
        let mut found = Found::all(Vec::new());
        for key in keys {
            if self.read(|view| view.schedule(key).is_none()) {
                continue;
            }
            if self.lock(Lock::Schedule(key.clone())).await? {
                found.rows.extend(self.read(|view| Some((key.clone(), view.schedule(key)?.clone()))));
            } else {
                found.blocked.push(key.clone());
            }
        }
        Ok(found)
    }

    async fn claim(&mut self, queries: &[ClaimQuery], now: Time) -> Result<Vec<Claimed>, StoreError> {
        self.step().await?;
        self.claim = Some(Arc::new(self.claim_seen(now)));
        let find =
            |jobs: &[&Job]| queries.iter().map(|query| claims::claim(jobs.iter().copied(), query, now)).collect();
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
        Ok(self.find_waiting(|jobs| claims::barred_heads(jobs.iter().copied(), keys), ids_of))
    }

    async fn blobs(&mut self, ids: &[BlobId]) -> Result<Found<BlobId, Blob>, StoreError> {
        self.step().await?;
        self.check_order(ids);
        let mut found = Found::all(Vec::new());
        for id in ids {
            if self.read(|view| view.blob(id).is_none()) {
                continue;
            }
            if self.lock(Lock::Blob(*id)).await? {
                found.rows.extend(self.read(|view| Some((*id, view.blob(id)?.clone()))));
            } else {
                found.blocked.push(*id);
            }
        }
        Ok(found)
    }

    async fn blob_digests(&mut self, keys: &[BlobDigestKey]) -> Result<Vec<(BlobDigestKey, BlobId)>, StoreError> {
        self.step().await?;
        Ok(self.read(|view| keys.iter().filter_map(|key| Some((key.clone(), *view.blob_digest(key)?))).collect()))
    }

    async fn namespaces(
        &mut self,
        keys: &[NamespaceKey],
        locked: bool,
    ) -> Result<Vec<(NamespaceKey, NamespaceState)>, StoreError> {
        self.step().await?;
        for key in keys.iter().filter(|_| locked) {
            self.wait_for(&namespace_lock(key), self.key_wait).await?;
        }
        Ok(self.read(|view| keys.iter().filter_map(|key| Some((key.clone(), view.namespace(key)?.clone()))).collect()))
    }

    async fn holds(&mut self, ids: &[HoldId]) -> Result<Found<HoldId, Hold>, StoreError> {
        self.step().await?;
        self.check_order(ids);
        let mut found = Found::all(Vec::new());
        for id in ids {
            if self.read(|view| view.hold(id).is_none()) {
                continue;
            }
            if self.lock(Lock::Hold(*id)).await? {
                found.rows.extend(self.read(|view| Some((*id, view.hold(id)?.clone()))));
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
            if self.read(|view| view.grant(id).is_none()) {
                continue;
            }
            if self.lock(Lock::Grant(*id)).await? {
                found.rows.extend(self.read(|view| Some((*id, view.grant(id)?.clone()))));
            } else {
                found.blocked.push(*id);
            }
        }
        Ok(found)
    }

    async fn scopes(&mut self, keys: &[(ScopeKey, bool)]) -> Result<Found<ScopeKey, ScopeState>, StoreError> {
        self.step().await?;
        let names: Vec<&ScopeKey> = keys.iter().map(|(key, _)| key).collect();
        self.check_order(&names);
        for (key, _) in keys.iter().filter(|(_, create)| *create) {
            // In a transaction of its own, so that no other transaction waits for a row that exists only to be locked.
            self.world.state().create_scope(key);
        }
        let before: Vec<Option<ScopeState>> = if Mutant::ReadBeforeLock.on() {
            self.read(|view| names.iter().map(|key| view.scope(key).cloned()).collect())
        } else {
            Vec::new()
        };
        let mut locked = Vec::with_capacity(keys.len());
        let mut found = Found::all(Vec::new());
        for key in &names {
            if self.read(|view| view.scope(key).is_none()) {
                continue;
            }
            if self.lock(Lock::Scope((*key).clone())).await? {
                locked.push(*key);
            } else {
                found.blocked.push((*key).clone());
            }
        }
        // Balances are read by a later statement than the one that locks.
        self.step().await?;
        found.rows = self
            .read(|view| locked.into_iter().filter_map(|key| Some((key.clone(), view.scope(key)?.clone()))).collect());
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

    async fn due(&mut self, queries: &[(ScopeKey, DueQuery)], now: Time) -> Result<Vec<Due>, StoreError> {
        self.step().await?;
        Ok(self.read(|view| queries.iter().map(|(key, query)| view.due(key, query, now)).collect()))
    }

    async fn window_histories(&mut self, queries: &[HistoryQuery]) -> Result<Vec<WindowHistory>, StoreError> {
        self.step().await?;
        Ok(self.read(|view| queries.iter().map(|query| view.window_history(query)).collect()))
    }

    async fn roll_up(&mut self, scopes: &[(ScopeKey, Time)]) -> Result<(), StoreError> {
        self.step().await?;
        self.writes.roll_up(&self.world.state().tables, scopes);
        Ok(())
    }

    async fn store(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError> {
        self.step().await?;
        if !self.take_keys(ws).await? {
            return Ok(false);
        }
        self.step().await?;
        self.writes.take(ws, batch);
        Ok(true)
    }
}
