//! Nodes with other zone data: bounds that were stored count, and a zone that is unknown here is never guessed.

use std::sync::{Arc, Mutex};

use bursar_core::budget::{Budget, Limit};
use bursar_core::decide::Rules;
use bursar_core::id::{HoldId, IdSource};
use bursar_core::name::{Scope, Tenant};
use bursar_core::refusal::Refusal;
use bursar_core::request::{Actual, Charge, Command, Op, Request, Settle};
use bursar_core::scope::ScopeState;
use bursar_core::state::ScopeKey;
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;
use futures_util::FutureExt;

use super::MemoryStore;
use crate::clock::ManualClock;
use crate::conformance::CommitRequests;
use crate::error::StoreError;
use crate::prelude::*;
use crate::store::{LockPolicy, RequestOutcome, Setup};

const HOUR: Span = Span::from_secs(3_600);
/// 2026-11-15 at noon in UTC.
const NOON: Time = Time::from_micros(1_794_744_000_000_000);

struct Counter(u128);

impl IdSource for Counter {
    fn next_id(&mut self, _: Time) -> u128 {
        self.0 += 1;
        self.0
    }
}

struct Node {
    store: MemoryStore,
    clock: Arc<ManualClock>,
}

impl Node {
    /// A node with ten units a day on `a`, and as many ever on `b`.
    fn new() -> Node {
        let clock = Arc::new(ManualClock::at(NOON));
        let ids = Arc::new(Mutex::new(Counter(0)));
        let setup = Setup { rules: Rules::default(), clock: Some(clock.clone()), ids, migrate: true };
        let node = Node { store: MemoryStore::new(setup), clock };
        for (name, window) in [("a", day("UTC")), ("b", Window::Lifetime)] {
            let op = Op::Define { scope: key(name).1, budget: Budget::new([Limit::new(10, window)]) };
            node.ask(vec![op]).pop().unwrap().unwrap();
        }
        node
    }

    fn ask(&self, ops: Vec<Op>) -> Vec<Result<(), Refusal>> {
        let requests: Vec<_> = ops.into_iter().map(|op| Arc::new(Request::from(op))).collect();
        let verdicts = self.store.commit_requests(&requests, LockPolicy::Skip).now_or_never().unwrap().unwrap();
        let answers = verdicts.into_iter().map(|verdict| match verdict {
            RequestOutcome::Answered(answer) => answer.map(drop),
            other => panic!("{other:?}"),
        });
        answers.collect()
    }

    /// Changes what is stored of `a`, as another node may have stored it.
    fn stored(&self, change: impl FnOnce(&mut ScopeState)) {
        change(self.store.tables().scopes.get_mut(&key("a")).unwrap());
    }

    /// What was posted and journaled.
    fn written(&self) -> (usize, usize) {
        let tables = self.store.tables();
        (tables.postings.len(), tables.journal.len())
    }

    fn in_zone(&self, zone: &str) {
        let window = day(zone);
        self.stored(|row| {
            row.balances[1].window = window.clone();
            row.budget = Some(Arc::new(Budget::new([Limit::new(10, window)])));
        });
    }

    fn remaining(&self, zone: &str) -> i64 {
        let row = self.store.scope(&key("a")).now_or_never().unwrap().unwrap().unwrap();
        row.balance(&day(zone)).unwrap().remaining(10)
    }
}

fn key(name: &str) -> ScopeKey {
    (Tenant::built_in(), Scope::new(name).unwrap())
}

/// A day in a zone that need not be known, as a row of another node names it.
fn day(zone: &str) -> Window {
    serde_json::from_value(format!("day@{zone}").into()).unwrap()
}

fn charge(name: &str, amount: i64, settle: Settle) -> Op {
    Op::Submit(Command { charges: vec![Charge::new(key(name).1, amount)], settle, ..Command::default() })
}

fn post(name: &str, amount: i64) -> Op {
    charge(name, amount, Settle::Now)
}

#[test]
fn a_stored_window_counts_to_its_end_whatever_this_zone_data_says() {
    let node = Node::new();
    node.ask(vec![post("a", 6)])[0].clone().unwrap();
    // The other node's clocks go two hours after ours: its day ends at two in the morning.
    let (mut since, mut until) = (Time::MIN, Time::MIN);
    node.stored(|row| {
        let balance = &mut row.balances[1];
        (balance.since, balance.until) =
            (balance.since.after(Span::from_secs(7_200)), balance.until.after(Span::from_secs(7_200)));
        (since, until) = (balance.since, balance.until);
    });
    node.clock.set(until.before(HOUR));
    assert_eq!(node.remaining("UTC"), 4, "past our midnight, and in the stored window");
    node.ask(vec![post("a", 4)])[0].clone().unwrap();
    assert!(matches!(node.ask(vec![post("a", 1)])[0], Err(Refusal::Refused(_))));
    node.clock.set(until);
    assert_eq!(node.remaining("UTC"), 10);
    node.ask(vec![post("a", 10)])[0].clone().unwrap();
    node.stored(|row| {
        let balance = &row.balances[1];
        assert_eq!(balance.since, until, "the next one begins where the stored one ended");
        assert_eq!(balance.until.since(balance.since), Span::from_secs(22 * 3_600), "and ends by this zone data");
    });
    assert!(node.store.verify().now_or_never().unwrap().unwrap().is_ok());
}

#[test]
fn a_window_in_a_zone_that_is_unknown_here_counts_to_its_end_and_is_never_guessed() {
    let node = Node::new();
    node.in_zone("Mars/Olympus");
    let hold = charge("a", 2, Settle::Hold { ttl: None });
    node.ask(vec![post("a", 5), hold]).into_iter().for_each(|answer| answer.unwrap());
    assert_eq!(node.remaining("Mars/Olympus"), 3, "its bounds are stored");
    let held: HoldId = *node.store.tables().holds.keys().next().unwrap();

    node.clock.advance(Span::from_days(1));
    let before = node.written();
    let unknown = |answer: &Result<(), Refusal>| match answer {
        Err(Refusal::UnknownZone { scope, zone }) => (scope.as_str(), zone.as_str()) == ("a", "Mars/Olympus"),
        _ => false,
    };
    let commit = || Op::Commit { hold: held, actual: Actual::Held };
    let credit = Op::Credit { scope: key("a").1, amount: 1, hold: None };
    let answers = node.ask(vec![post("a", 1), commit(), credit, Op::Tidy { scopes: vec![key("a").1] }]);
    assert!(answers.iter().all(unknown), "{answers:?}");
    assert_eq!(node.written(), before);
    let answers = node.ask(vec![post("a", 1), post("b", 1)]);
    assert!(unknown(&answers[0]) && answers[1].is_ok(), "its neighbour is done: {answers:?}");
    let named = Op::Submit(Command {
        charges: vec![Charge::new(key("c").1, 1).within([Limit::new(1, day("Mars/Olympus"))])],
        ..Command::default()
    });
    assert!(matches!(&node.ask(vec![named])[0], Err(Refusal::Invalid(invalid)) if invalid.field == "zone"));

    // A node that knows the zone goes on, and nothing is lost or counted twice.
    node.in_zone("UTC");
    node.ask(vec![commit()])[0].clone().unwrap();
    assert_eq!(node.remaining("UTC"), 8, "the late commit counts today");
    assert!(node.store.verify().now_or_never().unwrap().unwrap().is_ok());
}

#[test]
fn a_journal_with_a_zone_that_is_unknown_here_is_not_replayed() {
    let node = Node::new();
    {
        let mut tables = node.store.tables();
        for batch in tables.journal.values_mut() {
            let json = serde_json::to_string(batch).unwrap().replace("day@UTC", "day@Mars/Olympus");
            *batch = serde_json::from_str(&json).unwrap();
        }
    }
    let refused = node.store.rebuild().now_or_never().unwrap().unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
    assert!(refused.to_string().contains("Mars/Olympus"), "{refused}");
    assert_eq!(node.remaining("UTC"), 10, "what was there is there");
}
