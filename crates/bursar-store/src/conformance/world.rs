//! A store with a manual clock, and short forms of the requests that the cases send.

use std::sync::Arc;

use bursar_core::answer::{Answer, Outcome, Settled, Submitted};
use bursar_core::budget::{Budget, Limit};
use bursar_core::context::Context;
use bursar_core::event::Event;
use bursar_core::hold::HoldState;
use bursar_core::id::HoldId;
use bursar_core::name::{Scope, Tenant};
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{Actual, Charge, Command, Op, Request, Settle};
use bursar_core::scope::ScopeState;
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;

use super::commit_requests::CommitRequests;
use crate::clock::{Clock, ManualClock};
use crate::store::{LockPolicy, RequestOutcome, Store};

/// A store under test and its clock.
pub struct World {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The clock of the store.
    pub clock: Arc<ManualClock>,
}

const TICK: Span = Span::from_micros(1);

pub(super) fn scope(name: &str) -> Scope {
    Scope::new(name).expect("a valid name")
}

pub(super) fn limit(amount: i64, window: &str) -> Limit {
    Limit::new(amount, window.parse().expect("a valid window"))
}

pub(super) fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}

/// A hold on one scope that has a budget.
pub(super) fn hold(name: &str, amount: i64, ttl: Span) -> Op {
    Op::Submit(Command {
        charges: vec![Charge::new(scope(name), amount)],
        settle: Settle::Hold { ttl: Some(ttl) },
        ..Command::default()
    })
}

/// A hold on one scope under limits of the caller.
pub(super) fn hold_within(name: &str, amount: i64, limits: &[Limit]) -> Op {
    Op::Submit(Command {
        charges: vec![Charge::new(scope(name), amount).within(limits.iter().cloned())],
        settle: Settle::Hold { ttl: Some(secs(60)) },
        ..Command::default()
    })
}

pub(super) fn post(name: &str, amount: i64) -> Op {
    Op::Submit(Command { charges: vec![Charge::new(scope(name), amount)], ..Command::default() })
}

pub(super) fn post_within(name: &str, amount: i64, limits: &[Limit]) -> Op {
    Op::Submit(Command {
        charges: vec![Charge::new(scope(name), amount).within(limits.iter().cloned())],
        ..Command::default()
    })
}

/// Returns the available units that a refusal by one limit reports.
pub(super) fn available(refused: Result<Outcome, Refusal>) -> i64 {
    match refused {
        Err(Refusal::Refused(violations)) => match violations.as_slice() {
            [Violation::Limit { available, .. }] => *available,
            other => panic!("expected a refusal by one limit: {other:?}"),
        },
        other => panic!("expected a refusal: {other:?}"),
    }
}

pub(super) fn submitted(outcome: Outcome) -> Submitted {
    match outcome.answer {
        Answer::Submitted(submitted) => submitted,
        other => panic!("expected the answer of a command: {other:?}"),
    }
}

impl World {
    /// Creates a world from a store and its clock.
    pub fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> World {
        World { store, clock }
    }

    /// Commits requests in one batch. Requests that must be submitted again are.
    pub(super) async fn batch(&self, requests: Vec<Request>) -> Vec<Result<Outcome, Refusal>> {
        // Each decision on a scope has a later time than the one before, so the clock must move.
        self.clock.advance(TICK);
        let requests: Vec<Arc<Request>> = requests.into_iter().map(Arc::new).collect();
        let mut answers: Vec<Option<Result<Outcome, Refusal>>> = requests.iter().map(|_| None).collect();
        for _ in 0..10_000 {
            let open: Vec<usize> = (0..requests.len()).filter(|index| answers[*index].is_none()).collect();
            if open.is_empty() {
                return answers.into_iter().flatten().collect();
            }
            let unanswered: Vec<_> = open.iter().map(|index| requests[*index].clone()).collect();
            let outcomes = self.store.commit_requests(&unanswered, LockPolicy::Skip).await.expect("the store works");
            for (index, outcome) in open.into_iter().zip(outcomes) {
                match outcome {
                    RequestOutcome::Answered(answer) => answers[index] = Some(answer),
                    RequestOutcome::Again => {}
                    RequestOutcome::Blocked(_) | RequestOutcome::Failed(_) => {
                        panic!("no other transaction can block it")
                    }
                }
            }
        }
        panic!("a request was returned as `Again` too often")
    }

    pub(super) async fn request(&self, request: Request) -> Result<Outcome, Refusal> {
        self.batch(vec![request]).await.remove(0)
    }

    pub(super) async fn submit(&self, op: Op) -> Result<Outcome, Refusal> {
        self.request(op.into()).await
    }

    pub(super) async fn apply(&self, op: Op) -> Outcome {
        self.submit(op).await.expect("the request succeeds")
    }

    pub(super) async fn define(&self, name: &str, budget: Budget) {
        self.apply(Op::Define { scope: scope(name), budget }).await;
    }

    /// Defines a budget that accepts any TTL from a millisecond to thirty days.
    pub(super) async fn budget(&self, name: &str, limits: &[Limit]) {
        self.define(name, loose(limits)).await;
    }

    pub(super) async fn place(&self, op: Op) -> HoldId {
        submitted(self.apply(op).await).hold.expect("a hold").id
    }

    pub(super) async fn settle(&self, op: Op) -> Result<Settled, Refusal> {
        self.submit(op).await.map(|outcome| match outcome.answer {
            Answer::Settled(settled) => settled,
            other => panic!("expected a settled hold: {other:?}"),
        })
    }

    pub(super) async fn commit(&self, hold: HoldId, actual: i64) -> Result<Settled, Refusal> {
        self.settle(Op::Commit { hold, actual: Actual::Amount(actual) }).await
    }

    pub(super) async fn state(&self, name: &str) -> ScopeState {
        let key = (Tenant::built_in(), scope(name));
        self.store.scope(&key).await.expect("the store works").expect("the scope exists")
    }

    /// Returns the posted and held units of a window, as a read reports them.
    pub(super) async fn balance(&self, name: &str, window: &str) -> (i64, i64) {
        let window: Window = window.parse().expect("a valid window");
        let state = self.state(name).await;
        let balance = state.balance(&window).expect("the window exists");
        (balance.spent(), balance.held)
    }

    pub(super) async fn hold_state(&self, hold: HoldId) -> HoldState {
        self.store.hold(&Tenant::built_in(), hold).await.expect("the store works").expect("the hold exists").state
    }

    pub(super) async fn sweep(&self) -> usize {
        let due = self.store.due_holds(500).await.expect("the store works");
        if due.is_empty() {
            return 0;
        }
        let tenant = due[0].0.clone();
        let op = Op::Expire { holds: due.into_iter().map(|(_, id)| id).collect() };
        match self
            .request(Request::from(op).in_context(Context::of(tenant)))
            .await
            .expect("a sweep is never refused")
            .answer
        {
            Answer::Swept { count } => count,
            _ => 0,
        }
    }

    /// Returns the kinds of all events of the journal.
    pub(super) async fn kinds(&self) -> Vec<&'static str> {
        self.events().await.iter().map(Event::kind).collect()
    }

    pub(super) async fn events(&self) -> Vec<Event> {
        let journal = self.store.list_journal(0, 1_000_000).await.expect("the store works");
        let entries = journal.iter().flat_map(|row| &row.batch.entries);
        entries.flat_map(|entry| entry.events.iter().map(|recorded| recorded.e.clone())).collect()
    }

    pub(super) async fn assert_verified(&self) {
        let report = self.store.verify().await.expect("the store works");
        assert!(report.is_ok(), "{:#?}", report.violations);
    }

    /// Sets the clock so that the next request is decided at this time.
    pub(super) fn at(&self, now: Time) {
        self.clock.set(now.before(TICK));
    }

    /// Returns the time of the last request.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }
}

pub(super) fn loose(limits: &[Limit]) -> Budget {
    let mut budget = Budget::new(limits.iter().cloned());
    budget.hold.ttl_min = Span::from_millis(1);
    budget.hold.ttl_max = Some(Span::from_days(30));
    budget
}
