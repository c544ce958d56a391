//! Tests for nodes with different time zone data: the stored bounds of a window count, and an unknown zone is an error.

use std::collections::BTreeMap;
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

use super::{Journal, MemoryStore};
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
    /// Creates a node with ten units a day on `a`, and ten units in all on `b`.
    fn new() -> Node {
        let clock = Arc::new(ManualClock::at(NOON));
        let ids = Arc::new(Mutex::new(Counter(0)));
        let setup = Setup { rules: Rules::default(), clock: Some(clock.clone()), ids, migrate: true };
        let node = Node { store: MemoryStore::new(setup), clock };
        for (name, window) in [("a", day("UTC")), ("b", Window::Lifetime)] {
            let op = Op::Define { scope: key(name).1, budget: Budget::new([Limit::new(10, window)]) };
            node.decide(vec![op]).pop().unwrap().unwrap();
        }
        node
    }

    fn decide(&self, ops: Vec<Op>) -> Vec<Result<(), Refusal>> {
        let requests: Vec<_> = ops.into_iter().map(|op| Arc::new(Request::from(op))).collect();
        let outcomes = self.store.commit_requests(&requests, LockPolicy::Skip).now_or_never().unwrap().unwrap();
        let answers = outcomes.into_iter().map(|outcome| match outcome {
            RequestOutcome::Answered(answer) => answer.map(drop),
            other => panic!("{other:?}"),
        });
        answers.collect()
    }

    /// Changes the stored row of `a`, as another node may have stored it.
    fn edit_row(&self, change: impl FnOnce(&mut ScopeState)) {
        change(self.store.tables().scopes.get_mut(&key("a")).unwrap());
    }

    /// Returns the number of postings and of journal rows.
    fn row_counts(&self) -> (usize, usize) {
        let tables = self.store.tables();
        (tables.postings.values().map(BTreeMap::len).sum(), tables.journal.rows().len())
    }

    fn set_zone(&self, zone: &str) {
        let window = day(zone);
        self.edit_row(|row| {
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

/// Returns the calendar day in a zone, without a check that the zone exists.
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
fn a_window_ends_at_its_stored_bound() {
    let node = Node::new();
    node.decide(vec![post("a", 6)])[0].clone().unwrap();
    // By the zone data of the other node, the day ends two hours later.
    let (mut since, mut until) = (Time::MIN, Time::MIN);
    node.edit_row(|row| {
        let balance = &mut row.balances[1];
        (balance.since, balance.until) =
            (balance.since.after(Span::from_secs(7_200)), balance.until.after(Span::from_secs(7_200)));
        (since, until) = (balance.since, balance.until);
    });
    node.clock.set(until.before(HOUR));
    assert_eq!(node.remaining("UTC"), 4, "the stored window lasts beyond the local midnight");
    node.decide(vec![post("a", 4)])[0].clone().unwrap();
    assert!(matches!(node.decide(vec![post("a", 1)])[0], Err(Refusal::Refused(_))));
    node.clock.set(until);
    assert_eq!(node.remaining("UTC"), 10);
    node.decide(vec![post("a", 10)])[0].clone().unwrap();
    node.edit_row(|row| {
        let balance = &row.balances[1];
        assert_eq!(balance.since, until, "the next window begins at the end of the stored one");
        assert_eq!(balance.until.since(balance.since), Span::from_secs(22 * 3_600), "it ends by the local zone data");
    });
    assert!(node.store.verify().now_or_never().unwrap().unwrap().is_ok());
}

#[test]
fn a_window_in_an_unknown_zone_is_used_until_its_end() {
    let node = Node::new();
    node.set_zone("Mars/Olympus");
    let hold = charge("a", 2, Settle::Hold { ttl: None });
    node.decide(vec![post("a", 5), hold]).into_iter().for_each(|answer| answer.unwrap());
    assert_eq!(node.remaining("Mars/Olympus"), 3, "the stored bounds are used");
    let held: HoldId = *node.store.tables().holds.keys().next().unwrap();

    node.clock.advance(Span::from_days(1));
    let before = node.row_counts();
    let unknown = |answer: &Result<(), Refusal>| match answer {
        Err(Refusal::UnknownZone { scope, zone }) => (scope.as_str(), zone.as_str()) == ("a", "Mars/Olympus"),
        _ => false,
    };
    let commit = || Op::Commit { hold: held, actual: Actual::Held };
    let credit = Op::Credit { scope: key("a").1, amount: 1, hold: None };
    let answers = node.decide(vec![post("a", 1), commit(), credit, Op::Tidy { scopes: vec![key("a").1] }]);
    assert!(answers.iter().all(unknown), "{answers:?}");
    assert_eq!(node.row_counts(), before);
    let answers = node.decide(vec![post("a", 1), post("b", 1)]);
    assert!(unknown(&answers[0]) && answers[1].is_ok(), "the other request is done: {answers:?}");
    let named = Op::Submit(Command {
        charges: vec![Charge::new(key("c").1, 1).within([Limit::new(1, day("Mars/Olympus"))])],
        ..Command::default()
    });
    assert!(
        matches!(&node.decide(vec![named])[0], Err(Refusal::Invalid(invalid)) if invalid.field == "charges[0].limits[0].zone")
    );

    // With a known zone the scope can be used again.
    node.set_zone("UTC");
    node.decide(vec![commit()])[0].clone().unwrap();
    assert_eq!(node.remaining("UTC"), 8, "the late commit counts today");
    assert!(node.store.verify().now_or_never().unwrap().unwrap().is_ok());
}

#[test]
fn a_journal_with_an_unknown_zone_is_not_replayed() {
    let node = Node::new();
    {
        let mut tables = node.store.tables();
        let mut changed = Journal::default();
        for row in tables.journal.rows() {
            let json = serde_json::to_string(&row.batch).unwrap().replace("day@UTC", "day@Mars/Olympus");
            changed.push(serde_json::from_str(&json).unwrap());
        }
        tables.journal = changed;
    }
    let refused = node.store.rebuild().now_or_never().unwrap().unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
    assert!(refused.to_string().contains("Mars/Olympus"), "{refused}");
    assert_eq!(node.remaining("UTC"), 10, "the tables are unchanged");
}
