//! The world of one run: the database, the clock, the nodes and the judge.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::decide::Rules;
use bursar_core::scope::ScopeState;
use bursar_core::state::ScopeKey;
use bursar_core::time::{Span, Time};
use bursar_store::Lock;
use bursar_store::memory::Tables;
use tokio::time::Instant;

use super::judge::Judge;
use super::locks::{Locks, TxId};
use super::plan::Plan;
use super::random::Random;
use super::store::Ids;
use super::workload::Workload;

/// The start time, in microseconds: ten seconds before midnight in Berlin, before a day of 23 hours.
pub(crate) const START: i64 = 1_774_738_790_000_000;

/// The state shared by all nodes, callers and faults of a run.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) rules: Rules,
    began: Instant,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) random: Random,
    pub(crate) tables: Tables,
    pub(crate) locks: Locks,
    pub(crate) judge: Judge,
    pub(crate) workload: Workload,
    /// The difference between the clock and the elapsed time, in microseconds.
    pub(crate) clock_off: i64,
    /// The number of crashes of each node, which is its current life.
    pub(crate) lives: Vec<u64>,
    /// Open transactions by node and life.
    open: BTreeMap<TxId, Node>,
    last_tx: TxId,
    id_sources: u64,
    /// The disk is slow until then.
    pub(crate) stalled_until: Instant,
}

/// A node in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) place: usize,
    pub(crate) life: u64,
}

impl World {
    pub(crate) fn new(seed: u64, plan: Plan) -> Arc<World> {
        let rules = Rules {
            hold_ttl: Span::from_millis(plan.hold_ttl_ms),
            hold_ttl_max: Span::from_millis(3_000),
            key_kept: Span::from_secs(plan.key_kept_secs),
            // As short as the longest window allows, so that maintenance rolls up postings.
            postings_kept: Span::from_secs(25 * 3_600),
            holds_kept: plan.holds_kept_ms.map_or(Rules::default().holds_kept, Span::from_millis),
            ..Rules::default()
        };
        let state = State {
            random: Random::new(seed),
            tables: Tables::default(),
            locks: Locks::default(),
            judge: Judge::new(rules.clone()),
            workload: Workload::new(&plan),
            clock_off: 0,
            // The last entry is for callers' own transactions, which have no node.
            lives: vec![0; plan.nodes + 1],
            open: BTreeMap::new(),
            last_tx: 0,
            id_sources: 0,
            stalled_until: Instant::now(),
        };
        Arc::new(World { plan, rules, began: Instant::now(), state: Mutex::new(state) })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time of the database's clock, which may jump.
    pub(crate) fn now(&self, state: &State) -> Time {
        Time::from_micros(START + self.elapsed_micros() + state.clock_off)
    }

    pub(crate) fn elapsed_micros(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// Records a violation; the first one ends the run.
    pub(crate) fn fail(&self, check: &'static str, what: String) {
        self.state().judge.fail(check, what);
    }

    pub(crate) fn is_over(&self) -> bool {
        let state = self.state();
        state.judge.failure.is_some() || state.judge.decided >= self.plan.commands
    }

    /// Waits a random time between two steps; a crashed node waits forever. Returns true when the connection is lost.
    pub(crate) async fn step(&self, node: Node) -> bool {
        let (pause, lost) = {
            let mut state = self.state();
            let pause = match state.random.below(12) {
                0..7 => 0,
                7..11 => 1 + state.random.below(4),
                _ if state.random.one_in(30) => 50 + state.random.below(400),
                _ => 5 + state.random.below(15),
            };
            let stalled = state.stalled_until > Instant::now();
            let pause = if stalled { pause * 8 + 5 } else { pause };
            let lost_in = self.plan.lose_connection_in;
            (pause, node.place < self.plan.nodes && state.random.one_in(lost_in))
        };
        if pause > 0 {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        self.block_if_crashed(node).await;
        lost
    }

    /// Never returns on a crashed node: locks that it took now would never be released.
    pub(crate) async fn block_if_crashed(&self, node: Node) {
        if !self.is_alive(node) {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn is_alive(&self, node: Node) -> bool {
        self.state().lives[node.place] == node.life
    }

    /// Crashes a node: its open transactions are rolled back and their locks released.
    pub(crate) fn crash(&self, place: usize) {
        let mut state = self.state();
        state.lives[place] += 1;
        let dead: Vec<TxId> = state.open.iter().filter(|(_, node)| node.place == place).map(|(tx, _)| *tx).collect();
        for tx in dead {
            state.close(tx);
        }
    }
}

impl State {
    /// Creates a scope row that exists only to be locked.
    pub(crate) fn create_scope(&mut self, key: &ScopeKey) {
        if !self.tables.scopes.contains_key(key) {
            self.tables.scopes.insert(key.clone(), ScopeState::default());
            self.judge.row_created(Lock::Scope(key.clone()));
        }
    }

    /// Returns an id source that shares no ids with others.
    pub(crate) fn next_ids(&mut self) -> Ids {
        self.id_sources += 1;
        Ids::new(self.id_sources)
    }

    pub(crate) fn open(&mut self, node: Node) -> TxId {
        self.last_tx += 1;
        self.open.insert(self.last_tx, node);
        self.last_tx
    }

    /// Ends a transaction and releases its locks.
    pub(crate) fn close(&mut self, tx: TxId) {
        self.open.remove(&tx);
        self.locks.release(tx);
    }
}
