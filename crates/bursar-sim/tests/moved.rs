//! Databases of a seeded workload are moved between the engines: nothing is lost, and a move there and back gives the same rows. Each
//! fault of a move must be caught.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bursar::Bursar;
use bursar_core::decide::Rules;
use bursar_core::mutant::Mutant;
use bursar_core::time::{Span, Time};
use bursar_sim::sim::run_on;
use bursar_store::moving::relocate;
use bursar_store::{
    ManualClock, MoveOptions, MovePlace, MoveReport, MoveStep, MoveSummary, PostgresOptions, PostgresStore, Setup,
    SqliteStore, Store,
};
use bursar_testkit::SeqIds;
use tokio::sync::{RwLock, mpsc};

const START: Time = Time::from_micros(1_774_738_790_000_000);
const REQUESTS: usize = 150;

/// A test without a fault shares it, because a fault is enabled in the whole process.
static FAULT: RwLock<()> = RwLock::const_new(());

fn setup(seed: u64) -> (Arc<ManualClock>, Setup) {
    let clock = Arc::new(ManualClock::at(START));
    let ids = Arc::new(Mutex::new(SeqIds::new(seed)));
    (clock.clone(), Setup { rules: Rules::default(), clock: Some(clock), ids, migrate: true })
}

async fn fill(store: &dyn Store, clock: &ManualClock, seed: u64) {
    run_on(store, clock, Rules::default(), seed, REQUESTS).await.expect("it agrees with the model");
    store.close().await;
}

/// Moves a database and returns what both sides have.
async fn moved(from: &MovePlace, to: &MovePlace, seed: u64) -> MoveSummary {
    let options = MoveOptions { follow: false, setup: setup(seed).1, progress: Arc::new(|_| ()) };
    let report: MoveReport = relocate(from, to, options).await.expect("a move");
    let violations = [report.reports.0.violations, report.reports.1.violations].concat();
    assert_eq!((report.differences, violations), (Vec::new(), Vec::new()), "seed {seed}");
    assert!(report.complete);
    report.summaries.1
}

fn file(folder: &Path, name: &str) -> MovePlace {
    MovePlace::Sqlite(folder.join(name))
}

#[tokio::test]
async fn a_database_is_the_same_after_a_move_to_postgres_and_back() {
    let _none = FAULT.read().await;
    let folder = tempfile::tempdir().expect("a folder");
    for seed in 0..4 {
        let (clock, setup) = setup(seed);
        let first = folder.path().join(format!("{seed}.db"));
        fill(&SqliteStore::open(&first, setup).await.expect("a store"), &clock, seed).await;
        let postgres = MovePlace::Postgres(bursar_testkit::fresh_database());
        let there = moved(&MovePlace::Sqlite(first), &postgres, seed).await;
        let back = moved(&postgres, &file(folder.path(), &format!("{seed}.back.db")), seed).await;
        assert_eq!(there, back, "seed {seed}");
    }
}

#[tokio::test]
async fn a_database_of_postgres_keeps_its_rows_through_sqlite() {
    let _none = FAULT.read().await;
    let folder = tempfile::tempdir().expect("a folder");
    for seed in 10..14 {
        let (clock, setup) = setup(seed);
        let first = bursar_testkit::fresh_database();
        let store = PostgresStore::open(&first, setup, PostgresOptions::default()).await.expect("a store");
        fill(&store, &clock, seed).await;
        let sqlite = file(folder.path(), &format!("{seed}.db"));
        let there = moved(&MovePlace::Postgres(first.clone()), &sqlite, seed).await;
        let back = moved(&sqlite, &MovePlace::Postgres(bursar_testkit::fresh_database()), seed).await;
        assert_eq!(there, back, "seed {seed}");
        // Between two servers even the ids of transactions stay.
        moved(&MovePlace::Postgres(first), &MovePlace::Postgres(bursar_testkit::fresh_database()), seed).await;
    }
}

/// Interrupts a move after it has copied everything once, maintains the source two years later, and moves it again.
async fn moved_again(seed: u64) -> MoveReport {
    let folder = tempfile::tempdir().expect("a folder");
    let (clock, own) = setup(seed);
    let first = folder.path().join("first.db");
    fill(&SqliteStore::open(&first, own).await.expect("a store"), &clock, seed).await;
    let (from, to) = (MovePlace::Sqlite(first.clone()), MovePlace::Postgres(bursar_testkit::fresh_database()));
    let (copied, mut is_copied) = mpsc::unbounded_channel();
    let progress = Arc::new(move |step: &MoveStep| {
        if matches!(step, MoveStep::Passed { .. }) {
            copied.send(()).expect("the test waits for it");
        }
    });
    tokio::select! {
        biased;
        _ = is_copied.recv() => {}
        _ = relocate(&from, &to, MoveOptions { follow: true, setup: setup(seed).1, progress }) => panic!("it ended"),
    }
    clock.advance(Span::from_days(800));
    let later = Setup { clock: Some(clock), ..setup(seed + 1_000).1 };
    let store = Arc::new(SqliteStore::open(&first, later).await.expect("a store"));
    let bursar = Bursar::options("").upkeep(None).open_on(store);
    bursar.sweep(1_000).await.expect("it works");
    bursar.tend(1_000).await.expect("it works");
    bursar.tidy().await.expect("it works");
    bursar.close().await;
    relocate(&from, &to, MoveOptions { follow: false, setup: setup(seed).1, progress: Arc::new(|_| ()) })
        .await
        .expect("a move")
}

#[tokio::test]
async fn a_move_that_goes_on_copies_what_changed_and_each_fault_is_caught() {
    let _one = FAULT.write().await;
    let right = moved_again(20).await;
    assert_eq!((right.differences, right.complete), (Vec::new(), true));
    assert!(right.changed > 50, "too little has changed since: {}", right.changed);
    for fault in [Mutant::KeepMovedRow, Mutant::KeepStaleRow] {
        Mutant::switch(Some(fault));
        let wrong = moved_again(20).await;
        Mutant::switch(None);
        println!("{}: {:?}", fault.name(), wrong.differences);
        assert!(!wrong.complete && !wrong.differences.is_empty(), "{} survived", fault.name());
    }
}
