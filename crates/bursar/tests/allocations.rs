//! Counts the allocations of a metered command. The only test of this program, because the allocations of all threads are
//! counted.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::alloc::System;
use std::sync::{Arc, Mutex};

use bursar::{
    Budget, Bursar, Charge, Command, JobKind, JobSpec, Limit, Op, Payload, Queue, Request, Rules, Scope, Settle, Window,
};
use bursar_store::conformance::CommitRequests;
use bursar_store::prelude::*;
use bursar_store::{LockPolicy, RequestOutcome, Setup, SqliteStore};
use bursar_testkit::SeqIds;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The commands that are measured.
const COMMANDS: usize = 500;
/// The most allocations of a metered command in a batch of its own: answer, journal, rows and engine.
const ALONE_MAX: usize = 180;
/// The most allocations of a metered command in a shared batch, in the store only.
const SHARED_MAX: usize = 40;

fn scope() -> Scope {
    Scope::new("team").unwrap()
}

fn job() -> JobSpec {
    JobSpec::new(Queue::new("q").unwrap(), JobKind::new("work").unwrap(), Payload::of(&"small").unwrap())
}

/// Returns a command with a job that owns a hold.
fn metered() -> Arc<Request> {
    let (charges, jobs) = (vec![Charge::new(scope(), 1)], vec![job()]);
    Arc::new(Op::Submit(Command { charges, jobs, settle: Settle::Job, ..Command::default() }).into())
}

fn budget() -> Budget {
    Budget::new([Limit::new(1 << 40, Window::Lifetime)])
}

/// Returns the allocations for each command since the start of the region.
fn each(region: &Region<'_, System>) -> usize {
    let taken = region.change();
    (taken.allocations + taken.reallocations) / COMMANDS
}

#[tokio::test]
async fn a_metered_command_makes_a_bounded_number_of_allocations() {
    let bursar = Bursar::options("sqlite::memory:").upkeep(None).open().await.unwrap();
    bursar.ledger().define("team", budget()).await.unwrap();
    let submit = async || bursar.command().charge("team", 1).settle_with_job().job(job()).submit().await.unwrap();
    // Warm up: statements are prepared and caches grow first.
    for _ in 0..COMMANDS {
        submit().await;
    }
    let region = Region::new(COUNTED);
    for _ in 0..COMMANDS {
        submit().await;
    }
    let alone = each(&region);
    bursar.close().await;

    let ids = Arc::new(Mutex::new(SeqIds::new(1)));
    let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: true };
    let store = SqliteStore::in_memory(setup).await.unwrap();
    let define = Arc::new(Request::from(Op::Define { scope: scope(), budget: budget() }));
    store.commit_requests(&[define], LockPolicy::Skip).await.unwrap();
    let mut shared = 0;
    for _ in 0..2 {
        let batch: Vec<_> = (0..COMMANDS).map(|_| metered()).collect();
        let region = Region::new(COUNTED);
        let outcomes = store.commit_requests(&batch, LockPolicy::Skip).await.unwrap();
        shared = each(&region);
        assert!(outcomes.iter().all(|outcome| matches!(outcome, RequestOutcome::Answered(Ok(_)))));
    }
    store.close().await;
    println!("allocations of a metered command: {alone} alone, {shared} in a batch of {COMMANDS}");
    assert!(alone > 10 && alone <= ALONE_MAX, "alone: {alone}");
    assert!(shared > 5 && shared <= SHARED_MAX, "in a batch: {shared}");
}
