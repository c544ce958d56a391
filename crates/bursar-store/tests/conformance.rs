//! The conformance suite, all cases on every engine.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, Mutex};

use bursar_core::decide::Rules;
use bursar_core::id::{IdSource, uuid_v7};
use bursar_core::time::Time;
use bursar_store::conformance::{BLOB_CASES, CASES, Case, JOB_CASES, World, job_stream};
use bursar_store::{ManualClock, MemoryStore, PostgresOptions, PostgresStore, Setup, SqliteStore};

const MORNING: Time = Time::from_micros(1_794_823_200_000_000);

struct CountingIds(u128);

impl IdSource for CountingIds {
    fn next_id(&mut self, now: Time) -> u128 {
        self.0 += 1;
        uuid_v7(now, self.0)
    }
}

fn setup(clock: &Arc<ManualClock>) -> Setup {
    Setup {
        rules: Rules::default(),
        clock: Some(clock.clone()),
        ids: Arc::new(Mutex::new(CountingIds(0))),
        migrate: true,
    }
}

/// Runs every case on a new store, and panics with the names of those that failed.
fn run(engine: &str, cases: &[&[Case]], mut world: impl AsyncFnMut(Arc<ManualClock>) -> World) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut failed = Vec::new();
    for case in cases.iter().copied().flatten() {
        let clock = Arc::new(ManualClock::at(MORNING));
        let world = runtime.block_on(world(clock));
        let done = runtime.block_on(runtime.spawn((case.run)(world)));
        println!("{engine}: {} {}", case.name, if done.is_ok() { "ok" } else { "FAILED" });
        if done.is_err() {
            failed.push(case.name);
        }
    }
    assert!(failed.is_empty(), "{engine}: {} failed: {failed:?}", failed.len());
}

#[test]
fn memory_passes_every_case() {
    run("memory", &[CASES, JOB_CASES, BLOB_CASES], async |clock| {
        World::new(Arc::new(MemoryStore::new(setup(&clock))), clock)
    });
}

#[test]
fn sqlite_files_pass_every_case() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    run("sqlite", &[CASES, JOB_CASES, BLOB_CASES], async |clock| {
        count += 1;
        let path = folder.path().join(format!("{count}.db"));
        World::new(Arc::new(SqliteStore::open(path, setup(&clock)).await.unwrap()), clock)
    });
}

#[test]
fn sqlite_in_memory_passes_every_case() {
    run("sqlite in memory", &[CASES, JOB_CASES, BLOB_CASES], async |clock| {
        World::new(Arc::new(SqliteStore::in_memory(setup(&clock)).await.unwrap()), clock)
    });
}

/// The options of a store behind row-level security: its transactions take a role that owns nothing.
fn walled() -> PostgresOptions {
    let role = bursar_testkit::postgres().app_role().to_owned();
    PostgresOptions { role: Some(role), ..PostgresOptions::default() }
}

#[test]
fn postgres_passes_every_case() {
    run("postgres", &[CASES, JOB_CASES, BLOB_CASES], async |clock| {
        let url = bursar_testkit::fresh_database();
        World::new(Arc::new(PostgresStore::open(&url, setup(&clock), walled()).await.unwrap()), clock)
    });
}

#[test]
fn postgres_behind_pgbouncer_passes_every_case() {
    run("pgbouncer", &[CASES, JOB_CASES, BLOB_CASES], async |clock| {
        let url = bursar_testkit::pooler().url(&bursar_testkit::fresh_database());
        let options = PostgresOptions { pooled: true, ..walled() };
        World::new(Arc::new(PostgresStore::open(&url, setup(&clock), options).await.unwrap()), clock)
    });
}

/// Replaces the ids in answers by numbers in order of appearance. The engines draw different ids, because not all of them draw one
/// for a transaction.
fn number_ids(answers: &[String]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    let mut number = |id: &str| {
        let index = ids.iter().position(|other| other == id).unwrap_or_else(|| {
            ids.push(id.to_owned());
            ids.len() - 1
        });
        format!("#{index}")
    };
    let mut replace = |answer: &String| {
        let mut text = String::new();
        let words = answer.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words {
            let id = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            match ["job_", "hold_", "cmd_", "tx_"].iter().any(|prefix| id.starts_with(prefix) && id.len() > 26) {
                true => text.extend([number(id).as_str(), &word[id.len()..]]),
                false => text.push_str(word),
            }
        }
        text
    };
    answers.iter().map(&mut replace).collect()
}

/// Sends the same stream of requests to the memory engine and to another, and compares the answers.
async fn compare_with_memory(seed: u64, engine: World) {
    let clock = Arc::new(ManualClock::at(MORNING));
    let memory = World::new(Arc::new(MemoryStore::new(setup(&clock))), clock);
    let expected = number_ids(&job_stream(&memory, seed, 120).await);
    let answers = number_ids(&job_stream(&engine, seed, 120).await);
    for (place, (expected, answer)) in expected.iter().zip(&answers).enumerate() {
        let same = expected.bytes().zip(answer.bytes()).take_while(|(one, other)| one == other).count();
        let near = |text: &str| text.get(same.saturating_sub(200)..(same + 200).min(text.len())).map(str::to_owned);
        assert!(answer == expected, "seed {seed}, answer {place}: {:?}, not {:?}", near(answer), near(expected));
    }
    assert_eq!(answers.len(), expected.len());
}

#[tokio::test]
async fn sqlite_and_memory_give_the_same_answers() {
    for seed in 1..=12 {
        let clock = Arc::new(ManualClock::at(MORNING));
        let store = SqliteStore::in_memory(setup(&clock)).await.unwrap();
        compare_with_memory(seed, World::new(Arc::new(store), clock)).await;
    }
}

#[tokio::test]
async fn postgres_and_memory_give_the_same_answers() {
    for seed in 1..=6 {
        let clock = Arc::new(ManualClock::at(MORNING));
        let url = bursar_testkit::fresh_database();
        let options = if seed % 2 == 0 { walled() } else { PostgresOptions::default() };
        let store = PostgresStore::open(&url, setup(&clock), options).await.unwrap();
        compare_with_memory(seed, World::new(Arc::new(store), clock)).await;
    }
}
