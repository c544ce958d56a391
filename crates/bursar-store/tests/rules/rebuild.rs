//! The check after every story: the tables verify, and a rebuild from the journal restores them.

use std::collections::BTreeMap;

use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::job::{Job, JobState, QueueState, Schedule};
use bursar_core::name::{Queue, ScheduleName, Tenant};
use bursar_core::scope::ScopeState;
use bursar_core::state::{Counted, ScopeKey};
use bursar_core::time::Span;
use bursar_store::prelude::*;
use bursar_store::{Clock, Cost, DeadGroup, HeldSum};
use futures_util::FutureExt;

use crate::story::World;

/// A queue with its settings and figures.
type QueueFigures = (Queue, QueueState, Vec<(Counted, i64)>);

#[derive(Debug, PartialEq)]
struct Tables {
    scopes: Vec<(ScopeKey, Option<ScopeState>)>,
    holds: Vec<Option<Hold>>,
    grants: Vec<Grant>,
    jobs: Vec<Option<Job>>,
    queues: Vec<QueueFigures>,
    schedules: Vec<(ScheduleName, Schedule)>,
    costs: Vec<Cost>,
    held: Vec<HeldSum>,
    dead: Vec<DeadGroup>,
}

impl World {
    #[track_caller]
    pub(crate) fn rebuild(&self) {
        self.verify();
        // Both reads are made at the same time, later than every decision.
        let now = self.clock.now();
        self.clock.advance(Span::from_secs(7_200));
        let before = self.tables();
        self.store.rebuild().now_or_never().unwrap().unwrap();
        assert_eq!(self.tables(), before, "after a rebuild");
        self.clock.set(now);
        self.verify();
    }

    #[track_caller]
    fn verify(&self) {
        let report = self.store.verify().now_or_never().unwrap().unwrap();
        assert!(report.is_ok(), "{:?}", report.violations);
    }

    fn tables(&self) -> Tables {
        let keys = self.store.list_scope_keys(None, 1_000).now_or_never().unwrap().unwrap();
        let scope = |key: ScopeKey| {
            let row = self.store.scope(&key).now_or_never().unwrap().unwrap();
            (key, row.map(without_marks))
        };
        Tables {
            // A row with version 0 exists only to be locked.
            scopes: keys
                .into_iter()
                .map(scope)
                .filter(|(_, row)| row.as_ref().is_some_and(|row| row.version > 0))
                .collect(),
            holds: self
                .holds
                .values()
                .map(|id| self.store.hold(&Tenant::built_in(), *id).now_or_never().unwrap().unwrap())
                .collect(),
            grants: self.store.list_grants(&Tenant::built_in(), None, 1_000).now_or_never().unwrap().unwrap(),
            jobs: self
                .jobs
                .iter()
                .map(|id| self.store.job(&Tenant::built_in(), *id).now_or_never().unwrap().unwrap())
                .map(|job| job.map(|job| job.lasting(self.clock.now())))
                .collect(),
            queues: self.queues(),
            schedules: self.store.list_schedules(&Tenant::built_in(), None, 100).now_or_never().unwrap().unwrap(),
            costs: self
                .store
                .list_costs(&Tenant::built_in(), i64::MIN..=i64::MAX, None, 1_000)
                .now_or_never()
                .unwrap()
                .unwrap(),
            held: self.store.list_held(&Tenant::built_in(), None, None, 1_000).now_or_never().unwrap().unwrap(),
            dead: self.dead_groups(),
        }
    }
}

impl World {
    /// Returns the queues with their figures. Queued and scheduled jobs are counted together.
    fn queues(&self) -> Vec<QueueFigures> {
        let tenant = Tenant::built_in();
        let queues = self.store.list_queues(&tenant, None, 100).now_or_never().unwrap().unwrap();
        let figures = |queue: &Queue| {
            let mut counts: BTreeMap<Counted, i64> = BTreeMap::new();
            for (what, count) in self.figures(queue).counts {
                let due = what == Counted::In(JobState::Scheduled);
                *counts.entry(if due { Counted::In(JobState::Queued) } else { what }).or_default() += count;
            }
            counts.into_iter().collect()
        };
        queues.into_iter().map(|(queue, state)| (queue.clone(), state, figures(&queue))).collect()
    }
}

/// Removes the marks, which depend on the requests that touched the scope. Everything else must be equal.
fn without_marks(mut row: ScopeState) -> ScopeState {
    let fresh = ScopeState::default();
    (row.folded, row.next_expiry) = (fresh.folded, fresh.next_expiry);
    row.line = fresh.line;
    row.expiry_postings.clear();
    for balance in &mut row.balances {
        (balance.evicted, balance.next_eviction) = (fresh.balances[0].evicted, fresh.balances[0].next_eviction);
    }
    row
}
