//! The world of one run: the database, the clock, the nodes, and whoever judges what is committed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::decide::Rules;
use bursar_core::scope::ScopeState;
use bursar_core::state::ScopeKey;
use bursar_core::time::{Span, Time};
use bursar_store::Lock;
use tokio::time::Instant;

use super::chance::Chance;
use super::judge::Judge;
use super::locks::{Locks, TxId};
use super::plan::Plan;
use super::store::Ids;
use super::tables::Tables;
use super::workload::Workload;

/// Ten seconds before midnight in Berlin, on the eve of a day with 23 hours.
pub(crate) const START: i64 = 1_774_738_790_000_000;

/// What all nodes, callers and faults of a run share.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) rules: Rules,
    began: Instant,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) chance: Chance,
    pub(crate) tables: Tables,
    pub(crate) locks: Locks,
    pub(crate) judge: Judge,
    pub(crate) workload: Workload,
    /// How far the clock is from the time that passed, in microseconds.
    pub(crate) clock_off: i64,
    /// The life each node is in; those of earlier lives are dead.
    pub(crate) lives: Vec<u64>,
    /// Open transactions, with the node and the life they belong to.
    open: BTreeMap<TxId, Node>,
    last_tx: TxId,
    id_sources: u64,
    /// Until then the disk answers slowly.
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
            key_kept: Span::from_secs(plan.key_kept_secs),
            // As short as the longest window allows, so that tidying rolls postings up.
            postings_kept: Span::from_secs(25 * 3_600),
        };
        let state = State {
            chance: Chance::new(seed),
            tables: Tables::default(),
            locks: Locks::default(),
            judge: Judge::new(rules.clone()),
            workload: Workload::new(&plan),
            clock_off: 0,
            // The last one stands for callers' own transactions, which have no node.
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

    /// The clock of the database, which may jump.
    pub(crate) fn now(&self, state: &State) -> Time {
        Time::from_micros(START + self.elapsed_micros() + state.clock_off)
    }

    pub(crate) fn elapsed_micros(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// Something went as it must not; the first such thing ends the run.
    pub(crate) fn fail(&self, check: &'static str, what: String) {
        self.state().judge.fail(check, what);
    }

    pub(crate) fn is_over(&self) -> bool {
        let state = self.state();
        state.judge.failure.is_some() || state.judge.decided >= self.plan.commands
    }

    /// Waits between two steps, as long as chance says; a dead node waits for ever. True when the connection was lost.
    pub(crate) async fn step(&self, node: Node) -> bool {
        let (pause, lost) = {
            let mut state = self.state();
            let pause = match state.chance.below(12) {
                0..7 => 0,
                7..11 => 1 + state.chance.below(4),
                _ if state.chance.one_in(30) => 50 + state.chance.below(400),
                _ => 5 + state.chance.below(15),
            };
            let stalled = state.stalled_until > Instant::now();
            let pause = if stalled { pause * 8 + 5 } else { pause };
            let lost_in = self.plan.lose_connection_in;
            (pause, node.place < self.plan.nodes && state.chance.one_in(lost_in))
        };
        if pause > 0 {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        self.outlive(node).await;
        lost
    }

    /// A dead node goes no further: what it took now, nobody would give back.
    pub(crate) async fn outlive(&self, node: Node) {
        if !self.is_alive(node) {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn is_alive(&self, node: Node) -> bool {
        self.state().lives[node.place] == node.life
    }

    /// A node dies: what it has not committed is rolled back, and whoever waits for its locks goes on.
    pub(crate) fn kill(&self, place: usize) {
        let mut state = self.state();
        state.lives[place] += 1;
        let dead: Vec<TxId> = state.open.iter().filter(|(_, node)| node.place == place).map(|(tx, _)| *tx).collect();
        for tx in dead {
            state.close(tx);
        }
    }
}

impl State {
    /// Brings a scope into being that exists only to be locked.
    pub(crate) fn create_scope(&mut self, key: &ScopeKey) {
        if !self.tables.scopes.contains_key(key) {
            self.tables.scopes.insert(key.clone(), ScopeState::default());
            self.judge.born(Lock::Scope(key.clone()));
        }
    }

    /// Ids that nobody else gives out.
    pub(crate) fn next_ids(&mut self) -> Ids {
        self.id_sources += 1;
        Ids::new(self.id_sources)
    }

    pub(crate) fn open(&mut self, node: Node) -> TxId {
        self.last_tx += 1;
        self.open.insert(self.last_tx, node);
        self.last_tx
    }

    /// Ends a transaction: it gives its locks back.
    pub(crate) fn close(&mut self, tx: TxId) {
        self.open.remove(&tx);
        self.locks.release(tx);
    }
}
