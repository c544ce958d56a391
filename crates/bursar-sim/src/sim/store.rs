//! A node's store over the simulated database, used by the real engine.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::grant::Grant;
use bursar_core::hold::{Hold, HoldState};
use bursar_core::id::{BatchId, GrantId, HoldId, IdSource, JobId};
use bursar_core::job::{Job, JobState, QueueState, Schedule};
use bursar_core::live::ChargeMark;
use bursar_core::name::{FlowKey, Queue, ScheduleName, Scope, Tenant};
use bursar_core::request::{Op, Request};
use bursar_core::scope::ScopeState;
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::Time;
use bursar_store::attempt::{self, Attempts, Prepared, Setback};
use bursar_store::rows::Rows;
use bursar_store::swift::{self, Attempted, Wary};
use bursar_store::turn::Turn;
use bursar_store::work::{self, When};
use bursar_store::{
    Cost, CostMark, DueJobs, Figures, Health, HeldMark, HeldSum, JobFilter, Journaled, Lock, Patience, Report, Store,
    StoreError, Verdict, claims,
};
use bursar_testkit::SeqIds;

use super::judge::Decision;
use super::lines;
use super::transaction::{LockMode, SimTx, Trouble};
use super::world::{Node, World};

/// How long a batch waits for a key that another transaction is inserting.
const KEY_PATIENCE: Duration = Duration::from_millis(200);
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
    world: Arc<World>,
    node: Node,
    ids: Ids,
    high: AtomicI64,
    wary: Wary,
}

/// A transaction with its decisions, which are judged when it commits.
pub(crate) struct OpenTransaction {
    tx: SimTx,
    decisions: Vec<Arc<Decision>>,
}

impl SimStore {
    /// Creates the store of a node that has just started.
    pub(crate) fn new(world: &Arc<World>, node: Node) -> SimStore {
        let high = AtomicI64::new(world.state().tables.newest().micros());
        let ids = world.state().next_ids();
        SimStore { world: world.clone(), node, ids, high, wary: Wary::default() }
    }

    fn when(&self) -> When {
        let floor = Time::from_micros(self.high.load(Ordering::SeqCst));
        let now = {
            let state = self.world.state();
            self.world.now(&state)
        };
        When { floor, batch: BatchId(self.ids.clone().next_id(now.max(floor))) }
    }

    /// Takes the writer lock on an engine with one writer.
    async fn take_writer_lock(&self, tx: &mut SimTx) -> Result<(), StoreError> {
        if self.world.plan.one_writer { tx.wait_for(&writer_lock(), WRITER_PATIENCE).await } else { Ok(()) }
    }

    async fn fill(&self, tx: &mut SimTx, requests: &[&Request]) -> Result<(Vec<Verdict>, Time), Setback> {
        let lock_mode = tx.lock_mode;
        tx.disturbed |= requests.iter().any(|request| matches!(request.op, Op::Act { .. }));
        let run = work::run(tx, requests, &self.world.rules, self.when(), &mut self.ids.clone()).await;
        tx.decided = self.world.state().judge.commits;
        let (mut ws, verdicts) = run.map_err(|error| match tx.trouble {
            Some(Trouble::LockTimeout) if lock_mode != LockMode::Skip => Setback::Contended,
            // In this mode only the lock of a queue row is waited for, and only requests that change a queue need it.
            Some(Trouble::LockTimeout) => Setback::KeyLocked,
            trouble => before_commit(trouble, error),
        })?;
        let (batch, now) = (ws.take_batch(), ws.now);
        match tx.store(&ws, batch).await {
            Ok(true) => Ok((verdicts, now)),
            Ok(false) => Err(Setback::Taken),
            Err(_) if tx.trouble == Some(Trouble::LockTimeout) => Err(Setback::KeyLocked),
            Err(error) => Err(before_commit(tx.trouble, error)),
        }
    }
}

impl SimStore {
    /// Runs a request in a caller's transaction, waiting for locks. `None` when the transaction must be rolled back.
    pub(crate) async fn part(&self, tx: &mut SimTx, request: &Request) -> Option<Arc<Decision>> {
        tx.begin_part();
        let (mut verdicts, now) = self.fill(tx, &[request]).await.ok()?;
        self.seen(now);
        match verdicts.pop() {
            Some(Verdict::Answered(answer)) => Some(Decision::new(request, answer, now, tx)),
            _ => None,
        }
    }

    pub(crate) async fn begin(&self, wait: Duration) -> Option<SimTx> {
        let mut tx = SimTx::begin(&self.world, self.node, LockMode::Wait(wait), KEY_PATIENCE);
        self.take_writer_lock(&mut tx).await.ok()?;
        Some(tx)
    }
}

impl SimStore {
    /// Reads rows without locks, and writes them in one step if they have not changed since.
    async fn run_optimistically(&self, requests: &[&Request]) -> Result<Attempted, Setback> {
        let mut tx = SimTx::begin(&self.world, self.node, LockMode::Optimistic, swift::WAIT);
        let run = work::run(&mut tx, requests, &self.world.rules, self.when(), &mut self.ids.clone()).await;
        tx.decided = self.world.state().judge.commits;
        let (mut ws, verdicts) = match run {
            Ok(decided) => decided,
            Err(_) if tx.trouble.is_none() => return Ok(Attempted::Unfit),
            Err(_) => return Ok(Attempted::Spoiled(swift::WARY)),
        };
        if !ws.relies_on_what_it_writes() {
            return Ok(Attempted::Unfit);
        }
        let (batch, now) = (ws.take_batch(), ws.now);
        tx.step().await.map_err(unknown)?;
        match tx.write_if_unchanged(&ws, batch).await {
            Ok(true) => {}
            Ok(false) => return Ok(Attempted::Spoiled(swift::WARY)),
            Err(_) if tx.trouble == Some(Trouble::LockTimeout) => return Ok(Attempted::Spoiled(swift::WARY)),
            Err(error) => return Err(unknown(error)),
        }
        let decisions = decisions(requests, &verdicts, now, &tx);
        commit(&mut tx, &decisions);
        tx.step().await.map_err(unknown)?;
        Ok(Attempted::Done(verdicts, now))
    }
}

/// Returns the decisions of answered requests.
fn decisions(requests: &[&Request], verdicts: &[Verdict], now: Time, tx: &SimTx) -> Vec<Arc<Decision>> {
    let answered = requests.iter().zip(verdicts).filter_map(|(request, verdict)| match verdict {
        Verdict::Answered(answer) => Some(Decision::new(request, answer.clone(), now, tx)),
        _ => None,
    });
    answered.collect()
}

/// Returns an error with an unknown outcome.
fn unknown(error: StoreError) -> Setback {
    Setback::Final(StoreError::UnknownOutcome(Box::new(error)))
}

/// Returns the error of a transaction that has not committed: a transient one can be retried.
fn before_commit(trouble: Option<Trouble>, error: StoreError) -> Setback {
    match trouble {
        Some(Trouble::Deadlock | Trouble::Lost) => Setback::Passing(error),
        Some(Trouble::LockTimeout) | None => Setback::Final(error),
    }
}

/// Returns the lock that stands for the single writer.
pub(crate) fn writer_lock() -> Lock {
    Lock::Scope((Tenant::built_in(), Scope::new("the writer").expect("a valid name")))
}

impl Attempts for SimStore {
    type Tx = OpenTransaction;

    fn key_patience(&self) -> Duration {
        KEY_PATIENCE
    }

    async fn at_once(&self, requests: &[&Request]) -> Result<Option<(Vec<Verdict>, Time)>, Setback> {
        if self.world.plan.one_writer {
            return Ok(None);
        }
        self.wary.attempt(requests, self.run_optimistically(requests)).await
    }

    async fn prepare(
        &self,
        requests: &[&Request],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<Prepared<OpenTransaction>, Setback> {
        let lock_mode = if first.is_some() { LockMode::InTurn(wait) } else { LockMode::Skip };
        let mut tx = SimTx::begin(&self.world, self.node, lock_mode, wait);
        let entered = async {
            tx.step().await?;
            self.take_writer_lock(&mut tx).await?;
            if let Some((lock, patience)) = first {
                tx.wait_for(lock, patience).await?;
                tx.turn = Some(Turn::from(lock));
            }
            Ok(())
        };
        let entered: Result<(), StoreError> = entered.await;
        entered.map_err(|error| before_commit(tx.trouble, error))?;
        let (verdicts, now) = self.fill(&mut tx, requests).await.inspect_err(|setback| {
            if tx.trouble == Some(Trouble::Deadlock) {
                self.world
                    .fail("no deadlock", format!("a batch of node {} is the victim: {setback:?}", self.node.place));
            }
        })?;
        let decisions = decisions(requests, &verdicts, now, &tx);
        Ok(Prepared { tx: OpenTransaction { tx, decisions }, verdicts, now })
    }

    async fn finish(&self, open: OpenTransaction) -> Result<(), Setback> {
        let OpenTransaction { mut tx, decisions } = open;
        tx.step().await.map_err(unknown)?;
        commit(&mut tx, &decisions);
        // The commit is done; the connection may still be lost before the answer arrives.
        tx.step().await.map_err(unknown)
    }

    async fn wait_for_name(&self, lock: &Lock, patience: Duration) -> Result<(), StoreError> {
        let mut tx = SimTx::begin(&self.world, self.node, LockMode::Skip, patience);
        tx.step().await?;
        tx.wait_for(lock, patience).await
    }

    fn seen(&self, now: Time) {
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
    writes.new_rows(&state.tables).into_iter().for_each(|row| state.judge.row_created(row));
    state.tables.apply(tx.id, writes);
    if lines_moved && state.judge.commits.is_multiple_of(LINES_CHECK_INTERVAL) {
        lines::check(&mut state.judge, &state.tables);
    }
    state.close(tx.id);
}

fn not_simulated<T>() -> Result<T, StoreError> {
    let what = "the simulated database does not support this".to_owned();
    Err(StoreError::Unavailable { what, hint: "use a real database", source: None })
}

#[async_trait]
impl Store for SimStore {
    async fn commit(&self, requests: &[Arc<Request>], patience: Patience) -> Result<Vec<Verdict>, StoreError> {
        let requests: Vec<&Request> = requests.iter().map(|request| &**request).collect();
        attempt::commit_all(self, &requests, patience).await
    }

    async fn scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
        let mut tx = SimTx::begin(&self.world, self.node, LockMode::Skip, KEY_PATIENCE);
        let (row, clock) = {
            let state = self.world.state();
            (state.tables.scopes.get(key).cloned(), self.world.now(&state))
        };
        let Some(row) = row else { return Ok(None) };
        work::view(&mut tx, key, row, clock).await.map(Some)
    }

    async fn scopes(
        &self,
        _: &Tenant,
        _: &str,
        _: Option<&Scope>,
        _: usize,
    ) -> Result<Vec<(Scope, ScopeState)>, StoreError> {
        not_simulated()
    }

    async fn spent(&self, _: &ScopeKey, _: Time, _: Time) -> Result<i64, StoreError> {
        not_simulated()
    }

    async fn hold(&self, id: HoldId) -> Result<Option<Hold>, StoreError> {
        Ok(self.world.state().tables.holds.get(&id).cloned())
    }

    async fn live_holds(&self, _: &ScopeKey, _: Option<ChargeMark>, _: usize) -> Result<Vec<Hold>, StoreError> {
        not_simulated()
    }

    async fn grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        Ok(self.world.state().tables.grants.get(&id).cloned())
    }

    async fn grants(&self, _: &Tenant, _: Option<GrantId>, _: usize) -> Result<Vec<Grant>, StoreError> {
        not_simulated()
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.world.state().tables.jobs.get(&id).cloned())
    }

    async fn list_jobs(&self, _: &Tenant, _: &JobFilter, _: Option<JobId>, _: usize) -> Result<Vec<Job>, StoreError> {
        not_simulated()
    }

    async fn queue(&self, key: &QueueKey) -> Result<Option<QueueState>, StoreError> {
        Ok(self.world.state().tables.queues.get(key).cloned())
    }

    async fn list_queues(
        &self,
        _: &Tenant,
        _: Option<&Queue>,
        _: usize,
    ) -> Result<Vec<(Queue, QueueState)>, StoreError> {
        not_simulated()
    }

    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        Ok(self.world.state().tables.schedules.get(key).cloned())
    }

    async fn list_schedules(
        &self,
        _: &Tenant,
        _: Option<&ScheduleName>,
        _: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, StoreError> {
        not_simulated()
    }

    async fn due_schedules(&self, limit: usize) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        let now = self.world.now(&state);
        let mut all: Vec<(Time, &ScheduleKey)> =
            state.tables.schedules.iter().map(|(key, s)| (s.next_at, key)).collect();
        all.sort();
        let due = all.iter().take_while(|(at, _)| *at <= now).take(limit);
        let due: Vec<ScheduleKey> = due.map(|(_, key)| (*key).clone()).collect();
        let next_at = all.get(due.len()).map(|(at, _)| *at);
        Ok((due, next_at))
    }

    async fn figures(&self, _: &QueueKey, _: i64) -> Result<Figures, StoreError> {
        not_simulated()
    }

    async fn costs(
        &self,
        _: &Tenant,
        _: RangeInclusive<i64>,
        _: Option<&CostMark>,
        _: usize,
    ) -> Result<Vec<Cost>, StoreError> {
        not_simulated()
    }

    async fn held(
        &self,
        _: &Tenant,
        _: Option<&Queue>,
        _: Option<&HeldMark>,
        _: usize,
    ) -> Result<Vec<HeldSum>, StoreError> {
        not_simulated()
    }

    async fn job_counts(&self) -> Result<Vec<(JobState, i64)>, StoreError> {
        not_simulated()
    }

    async fn due_jobs(&self, limit: usize) -> Result<DueJobs, StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        let (now, queues) = (self.world.now(&state), &state.tables.queues);
        let kept = |job: &Job| match queues.get(&(job.tenant.clone(), job.queue.clone())) {
            Some(queue) => queue.config.kept(job.life.state),
            None => QueueState::default().config.kept(job.life.state),
        };
        Ok(claims::due(|| state.tables.jobs.values(), kept, now, limit))
    }

    async fn awaiting(&self, scope: &ScopeKey, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        let awaiting = state.tables.jobs.values().filter(|job| {
            job.life.state == JobState::AwaitingBudget
                && job.tenant == scope.0
                && job.life.awaits.as_ref() == Some(&scope.1)
        });
        Ok(awaiting.map(|job| job.id).take(limit).collect())
    }

    async fn barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        Ok(claims::barred(|| state.tables.jobs.values(), queue, after, limit))
    }

    async fn awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        let scopes = claims::awaited(state.tables.jobs.values()).into_iter().take(limit);
        Ok(scopes.map(|key| (key.clone(), state.tables.scopes.get(&key).map_or(0, |row| row.version))).collect())
    }

    async fn bell(&self) -> Result<u64, StoreError> {
        Ok(self.world.state().tables.journal.len() as u64)
    }

    async fn journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        let state = self.world.state();
        let rows = state.tables.journal.iter().zip(1..).skip_while(|(_, position)| *position <= after).take(limit);
        Ok(rows.map(|(batch, position)| Journaled { position, batch: batch.clone() }).collect())
    }

    async fn batch(&self, _: BatchId) -> Result<Option<Journaled>, StoreError> {
        not_simulated()
    }

    async fn erase_payload(&self, _: u128) -> Result<bool, StoreError> {
        not_simulated()
    }

    async fn due_holds(&self, limit: usize) -> Result<(Vec<(Tenant, HoldId)>, Time), StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        let now = self.world.now(&state);
        let due = state.tables.holds.values().filter(|hold| hold.state == HoldState::Held && hold.expires_at <= now);
        Ok((due.take(limit).map(|hold| (hold.tenant.clone(), hold.id)).collect(), now))
    }

    async fn page_scopes(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError> {
        self.world.step(self.node).await;
        let state = self.world.state();
        let scopes = state.tables.scopes.keys().filter(|key| after.is_none_or(|after| *key > after));
        Ok(scopes.take(limit).cloned().collect())
    }

    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError> {
        self.world.step(self.node).await;
        let mut state = self.world.state();
        let now = self.world.now(&state);
        let over = state.tables.keys.iter().filter(|(_, row)| row.until <= now).map(|(key, _)| key.clone());
        let over: Vec<_> = over.take(limit).collect();
        for key in &over {
            state.tables.keys.remove(key);
            state.judge.forget_key(key);
        }
        Ok(over.len())
    }

    /// No run is long enough for figures to expire.
    async fn forget_figures(&self, _: Option<&QueueKey>, _: usize) -> Result<Option<QueueKey>, StoreError> {
        Ok(None)
    }

    /// No run is long enough for flow keys to expire.
    async fn forget_flows(&self, _: Option<&ScopeKey>, _: usize) -> Result<Option<ScopeKey>, StoreError> {
        Ok(None)
    }

    async fn verify(&self) -> Result<Report, StoreError> {
        not_simulated()
    }

    async fn rebuild(&self) -> Result<u64, StoreError> {
        not_simulated()
    }

    async fn health(&self) -> Result<Health, StoreError> {
        not_simulated()
    }

    async fn close(&self) {}
}
