//! Stores on a clock that stands, and what is asked of them.

use std::sync::{Arc, Mutex};

use bursar_core::answer::{Answer, Outcome, Submitted};
use bursar_core::budget::Limit;
use bursar_core::decide::Rules;
use bursar_core::job::JobSpec;
use bursar_core::name::{IdempotencyKey, JobKind, Queue, Scope, Tenant};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Charge, Command, Op, Request, Settle};
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use bursar_core::window::Window;
use bursar_store::conformance::CommitRequests;
use bursar_store::{LockPolicy, ManualClock, MemoryStore, PostgresOptions, PostgresStore, Setup, SqliteStore};
use bursar_store::{RequestOutcome, Store};
use bursar_testkit::SeqIds;

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Time::from_micros(1_794_823_200_000_000)))
}

pub(crate) fn setup(clock: &Arc<ManualClock>) -> Setup {
    let ids = Arc::new(Mutex::new(SeqIds::new(1)));
    Setup { rules: Rules::default(), clock: Some(clock.clone()), ids, migrate: true }
}

/// One of each kind, empty.
pub(crate) async fn every_store(clock: &Arc<ManualClock>) -> Vec<(&'static str, Arc<dyn Store>)> {
    let url = bursar_testkit::fresh_database();
    let postgres = PostgresStore::open(&url, setup(clock), PostgresOptions::default()).await.unwrap();
    vec![
        ("memory", Arc::new(MemoryStore::new(setup(clock)))),
        ("sqlite", Arc::new(SqliteStore::in_memory(setup(clock)).await.unwrap())),
        ("postgres", Arc::new(postgres)),
    ]
}

pub(crate) fn key_of(scope: &str) -> ScopeKey {
    (Tenant::built_in(), Scope::new(scope).unwrap())
}

fn charge(scope: &str, amount: i64) -> Charge {
    Charge::new(Scope::new(scope).unwrap(), amount).within([Limit::new(1_000_000, Window::Lifetime)])
}

pub(crate) fn post(scope: &str, amount: i64) -> Request {
    Op::Submit(Command { charges: vec![charge(scope, amount)], ..Command::default() }).into()
}

pub(crate) fn hold(scopes: &[&str], amount: i64) -> Request {
    let charges = scopes.iter().map(|scope| charge(scope, amount)).collect();
    Op::Submit(Command { charges, settle: Settle::Hold { ttl: None }, ..Command::default() }).into()
}

/// A hold that lives as long as its job.
pub(crate) fn job(scope: &str, amount: i64) -> Request {
    let spec = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("k").unwrap(), Payload::default());
    let command =
        Command { charges: vec![charge(scope, amount)], settle: Settle::Job, jobs: vec![spec], ..Command::default() };
    Op::Submit(command).into()
}

pub(crate) fn keyed(request: Request, key: &str) -> Request {
    request.with_key(IdempotencyKey::new(key).unwrap())
}

/// Does requests in one transaction; all of them must be done.
pub(crate) async fn done(store: &dyn Store, requests: Vec<Request>) -> Vec<Outcome> {
    let requests: Vec<_> = requests.into_iter().map(Arc::new).collect();
    let outcomes = store.commit_requests(&requests, LockPolicy::Skip).await.unwrap();
    let done = outcomes.into_iter().map(|outcome| match outcome {
        RequestOutcome::Answered(Ok(outcome)) => outcome,
        other => panic!("{other:?}"),
    });
    done.collect()
}

pub(crate) fn submitted(outcome: &Result<Outcome, Refusal>) -> &Submitted {
    match outcome {
        Ok(Outcome { answer: Answer::Submitted(submitted), .. }) => submitted,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn posted(store: &dyn Store, scope: &str) -> i64 {
    store.scope(&key_of(scope)).await.unwrap().map_or(0, |row| row.balances[0].posted)
}
