//! Every engine answers a seeded workload as the model says.

use std::sync::{Arc, Mutex};

use bursar_core::decide::Rules;
use bursar_core::time::{Span, Time};
use bursar_sim::sim::run_on;
use bursar_store::{ManualClock, MemoryStore, PostgresOptions, PostgresStore, Setup, SqliteStore, Store};
use bursar_testkit::SeqIds;

/// Ten seconds before midnight in Berlin, on the eve of a day with 23 hours.
const START: Time = Time::from_micros(1_774_738_790_000_000);

fn setup(seed: u64) -> (Arc<ManualClock>, Setup) {
    let clock = Arc::new(ManualClock::at(START));
    let ids = Arc::new(Mutex::new(SeqIds::new(seed)));
    (clock.clone(), Setup { rules: rules(), clock: Some(clock), ids, migrate: true })
}

/// Ended holds are kept for an hour, so that the workload outlives them.
fn rules() -> Rules {
    Rules { holds_kept: Span::from_secs(3_600), ..Rules::default() }
}

async fn check(store: &dyn Store, clock: &ManualClock, seed: u64, requests: usize) {
    if let Err(difference) = run_on(store, clock, rules(), seed, requests).await {
        panic!("seed {seed}: {}", difference.chars().take(2_000).collect::<String>());
    }
    store.close().await;
}

#[tokio::test]
async fn the_memory_store_agrees_with_the_model() {
    for seed in 0..150 {
        let (clock, setup) = setup(seed);
        check(&MemoryStore::new(setup), &clock, seed, 120).await;
    }
}

#[tokio::test]
async fn sqlite_agrees_with_the_model() {
    for seed in 0..80 {
        let (clock, setup) = setup(seed);
        let store = SqliteStore::in_memory(setup).await.expect("a store");
        check(&store, &clock, seed, 120).await;
    }
}

#[tokio::test]
async fn postgres_agrees_with_the_model() {
    for seed in 0..12 {
        let (clock, setup) = setup(seed);
        let url = bursar_testkit::fresh_database();
        let store = PostgresStore::open(&url, setup, PostgresOptions::default()).await.expect("a store");
        check(&store, &clock, seed, 120).await;
    }
}
