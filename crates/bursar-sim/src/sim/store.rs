//! A node's store over the simulated database, used by the real engine.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::id::{BatchId, IdSource};
use bursar_core::name::{Scope, Tenant};
use bursar_core::request::{CheckedRequest, Op};
use bursar_core::time::Time;
use bursar_store::memory::{Tables, Writes};
use bursar_store::transaction::lock_order::LockOrder;
use bursar_store::transaction::retry::{self, AttemptError, Engine, Prepared};
use bursar_store::transaction::rows::Rows;
use bursar_store::transaction::{self, BatchStart};
use bursar_store::{Commit, Lock, LockPolicy, Notify, RequestOutcome, StoreError};
use bursar_testkit::SeqIds;

use super::judge::Decision;
use super::lines;
use super::transaction::{Conflict, LockMode, SimTx};
use super::world::{Node, World};

/// How long a batch waits for a key that another transaction is inserting.
pub(super) const KEY_PATIENCE: Duration = Duration::from_millis(200);
/// How long a transaction waits for the writer lock on an engine with one writer.
const WRITER_PATIENCE: Duration = Duration::from_secs(30);

/// All lines are checked after this many transactions.
const LINES_CHECK_INTERVAL: u64 = 8;

/// The id source of one node, shared by its lanes.
#[derive(Clone)]
pub(crate) struct Ids(Arc<Mutex<SeqIds>>);

impl Ids {
    pub(crate) fn new(seed: u64) -> Ids {
        Ids(Arc::new(Mutex::new(SeqIds::new(seed))))
    }
}

impl IdSource for Ids {
    fn next_id(&mut self, now: Time) -> u128 {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next_id(now)
    }
}

pub(crate) struct SimStore {
    pub(super) world: Arc<World>,
    pub(super) node: Node,
    ids: Ids,
    high: AtomicI64,
}

/// A transaction with its decisions, which are judged when it commits.
pub(crate) struct OpenTransaction {
    tx: SimTx,
    decisions: Vec<Arc<Decision>>,
}

impl SimStore {
    /// Creates the store of a node that has just started.
    pub(crate) fn new(world: &Arc<World>, node: Node) -> SimStore {
        let newest = world.state().tables.journal.newest().unwrap_or(Time::MIN);
        let high = AtomicI64::new(newest.micros());
        let ids = world.state().next_ids();
        SimStore { world: world.clone(), node, ids, high }
    }

    fn batch_start(&self) -> BatchStart {
        let floor = Time::from_micros(self.high.load(Ordering::SeqCst));
        let now = {
            let state = self.world.state();
            self.world.now(&state)
        };
        BatchStart { floor, batch: BatchId(self.ids.clone().next_id(now.max(floor))) }
    }

    /// Takes the writer lock on an engine with one writer.
    async fn take_writer_lock(&self, tx: &mut SimTx) -> Result<(), StoreError> {
        if self.world.plan.one_writer { tx.wait_for(&writer_lock(), WRITER_PATIENCE).await } else { Ok(()) }
    }

    async fn fill(
        &self,
        tx: &mut SimTx,
        requests: &[&CheckedRequest],
    ) -> Result<(Vec<RequestOutcome>, Time), AttemptError> {
        let lock_mode = tx.lock_mode;
        tx.disturbed |= requests.iter().any(|request| matches!(request.op, Op::Act { .. }));
        let run = transaction::run(tx, requests, &self.world.rules, self.batch_start(), &mut self.ids.clone()).await;
        tx.decided = self.world.state().judge.commits;
        let (mut ws, outcomes) = run.map_err(|error| match tx.conflict {
            Some(Conflict::LockTimeout) if lock_mode != LockMode::Skip => AttemptError::Contended,
            // In this mode only the lock of a queue row is waited for, and only requests that change a queue need it.
            Some(Conflict::LockTimeout) => AttemptError::NameLocked,
            conflict => before_commit(conflict, error),
        })?;
        let (batch, now) = (ws.take_batch(), ws.now);
        match tx.store(&ws, batch).await {
            Ok(true) => Ok((outcomes, now)),
            Ok(false) => Err(AttemptError::Outdated),
            Err(_) if tx.conflict == Some(Conflict::LockTimeout) => Err(AttemptError::NameLocked),
            Err(error) => Err(before_commit(tx.conflict, error)),
        }
    }
}

impl SimStore {
    /// Runs a request in a caller's transaction, waiting for locks. `None` when the transaction must be rolled back.
    pub(crate) async fn part(&self, tx: &mut SimTx, request: &CheckedRequest) -> Option<Arc<Decision>> {
        tx.begin_part();
        let (mut outcomes, now) = self.fill(tx, &[request]).await.ok()?;
        self.note_decided_at(now);
        match outcomes.pop() {
            Some(RequestOutcome::Answered(answer)) => Some(Decision::new(request, answer, now, tx)),
            _ => None,
        }
    }

    pub(crate) async fn begin(&self, wait: Duration) -> Option<SimTx> {
        let mut tx = SimTx::begin(&self.world, self.node, LockMode::Wait(wait), KEY_PATIENCE);
        self.take_writer_lock(&mut tx).await.ok()?;
        Some(tx)
    }
}

/// Returns the decisions of answered requests.
fn decisions(requests: &[&CheckedRequest], outcomes: &[RequestOutcome], now: Time, tx: &SimTx) -> Vec<Arc<Decision>> {
    let answered = requests.iter().zip(outcomes).filter_map(|(request, outcome)| match outcome {
        RequestOutcome::Answered(answer) => Some(Decision::new(request, answer.clone(), now, tx)),
        _ => None,
    });
    answered.collect()
}

/// Returns an error with an unknown outcome.
fn unknown(error: StoreError) -> AttemptError {
    AttemptError::Final(StoreError::UnknownOutcome(Box::new(error)))
}

/// Returns the error of a transaction that has not committed: a transient one can be retried.
fn before_commit(conflict: Option<Conflict>, error: StoreError) -> AttemptError {
    match conflict {
        Some(Conflict::Deadlock | Conflict::Lost) => AttemptError::Transient(error),
        Some(Conflict::LockTimeout) | None => AttemptError::Final(error),
    }
}

/// Returns the lock that stands for the single writer.
pub(crate) fn writer_lock() -> Lock {
    Lock::Scope((Tenant::built_in(), Scope::new("the writer").expect("a valid name")))
}

impl Engine for SimStore {
    type Tx = OpenTransaction;

    fn name_timeout(&self) -> Duration {
        KEY_PATIENCE
    }

    async fn prepare(
        &self,
        requests: &[&CheckedRequest],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<Prepared<OpenTransaction>, AttemptError> {
        let lock_mode = if first.is_some() { LockMode::InTurn(wait) } else { LockMode::Skip };
        let mut tx = SimTx::begin(&self.world, self.node, lock_mode, wait);
        let entered = async {
            tx.step().await?;
            self.take_writer_lock(&mut tx).await?;
            if let Some((lock, patience)) = first {
                tx.wait_for(lock, patience).await?;
                tx.order = Some(LockOrder::from(lock));
            }
            Ok(())
        };
        let entered: Result<(), StoreError> = entered.await;
        entered.map_err(|error| before_commit(tx.conflict, error))?;
        let (outcomes, now) = self.fill(&mut tx, requests).await.inspect_err(|error| {
            if tx.conflict == Some(Conflict::Deadlock) {
                self.world.fail("no deadlock", format!("a batch of node {} is the victim: {error:?}", self.node.place));
            }
        })?;
        let decisions = decisions(requests, &outcomes, now, &tx);
        Ok(Prepared { tx: OpenTransaction { tx, decisions }, outcomes, now })
    }

    async fn finish(&self, open: OpenTransaction) -> Result<(), AttemptError> {
        let OpenTransaction { mut tx, decisions } = open;
        tx.step().await.map_err(unknown)?;
        commit(&mut tx, &decisions);
        // The commit is done; the connection may still be lost before the answer arrives.
        tx.step().await.map_err(unknown)
    }

    async fn wait_for_row(&self, _: &[&CheckedRequest], lock: &Lock, patience: Duration) -> Result<(), StoreError> {
        let mut tx = SimTx::begin(&self.world, self.node, LockMode::Skip, patience);
        tx.step().await?;
        tx.wait_for(lock, patience).await
    }

    fn note_decided_at(&self, now: Time) {
        self.high.fetch_max(now.micros(), Ordering::SeqCst);
    }
}

/// Commits a transaction atomically and has it judged.
pub(crate) fn commit(tx: &mut SimTx, decisions: &[Arc<Decision>]) {
    let writes = std::mem::take(&mut tx.writes);
    let mut state = tx.world.state();
    let state = &mut *state;
    state.judge.committed(tx.node, decisions, &writes);
    let lines_moved = !writes.jobs.is_empty();
    new_rows(&writes, &state.tables).into_iter().for_each(|row| state.judge.row_created(row));
    state.tables.apply(writes);
    if lines_moved && state.judge.commits.is_multiple_of(LINES_CHECK_INTERVAL) {
        lines::check(&mut state.judge, &state.tables);
    }
    state.close(tx.id);
}

/// Returns the rows that a transaction creates.
fn new_rows(writes: &Writes, tables: &Tables) -> Vec<Lock> {
    let scopes = writes.scopes.keys().filter(|key| !tables.scopes.contains_key(*key)).cloned().map(Lock::Scope);
    let holds = writes.holds.keys().filter(|id| !tables.holds.contains_key(id)).copied().map(Lock::Hold);
    let grants = writes.grants.keys().filter(|id| !tables.grants.contains_key(id)).copied().map(Lock::Grant);
    // Deleted job keys count as well: later decisions depend on when a key disappeared.
    let jobs = writes.job_keys.iter().filter(|(key, job)| job.is_some() != tables.job_keys.contains_key(*key));
    let jobs = jobs.map(|(key, _)| Lock::JobKey(key.clone()));
    scopes.chain(holds).chain(grants).chain(jobs).collect()
}

#[async_trait]
impl Commit for SimStore {
    async fn commit(
        &self,
        requests: &[Arc<CheckedRequest>],
        policy: LockPolicy,
    ) -> Result<Vec<RequestOutcome>, StoreError> {
        let requests: Vec<&CheckedRequest> = requests.iter().map(|request| &**request).collect();
        retry::commit_all(self, &requests, policy).await
    }
}

#[async_trait]
impl Notify for SimStore {
    async fn change_counter(&self) -> Result<u64, StoreError> {
        Ok(self.world.state().tables.journal.rows().len() as u64)
    }
}
