//! Archiving with faults: instances that share a database archive its journal, fail at random steps and overtake each other, while
//! requests with idempotency keys go on. Every event stays readable, in order and once; every repeated request gets its first answer.
//! Each fault of the archive must be caught.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bursar::{
    ArchiveOptions, ArchivePlace, Budget, Bursar, JournalEvent, Limit, ManualClock, MemoryPlace, Rules, Span, Time,
    Window,
};
use bursar_core::mutant::Mutant;
use bursar_store::{MemoryStore, Setup, Store};
use bursar_testkit::SeqIds;

/// Numbers that are the same in every run.
#[derive(Debug)]
struct Numbers(AtomicU64);

impl Numbers {
    fn below(&self, limit: u64) -> u64 {
        let next = |state: u64| state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| Some(next(state))).unwrap();
        (next(last) >> 33) % limit
    }
}

/// A place that fails before or after it has done what was asked, and during which another instance archives.
#[derive(Clone, Debug)]
struct Faulty {
    files: MemoryPlace,
    numbers: Arc<Numbers>,
    other: Arc<Mutex<Option<Other>>>,
}

#[derive(Clone)]
struct Other(Bursar);

impl std::fmt::Debug for Other {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("another instance")
    }
}

impl Faulty {
    fn fails(&self) -> io::Result<()> {
        if self.numbers.below(8) == 0 { Err(io::Error::other("the process ended")) } else { Ok(()) }
    }

    async fn overtake(&self) {
        if self.numbers.below(3) == 0 {
            let other = self.other.lock().unwrap().take();
            if let Some(Other(bursar)) = other {
                drop(bursar.journal().archive().await);
                *self.other.lock().unwrap() = Some(Other(bursar));
            }
        }
    }
}

#[async_trait]
impl ArchivePlace for Faulty {
    fn describe(&self) -> String {
        "a faulty place".to_owned()
    }

    async fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.fails()?;
        self.files.put(name, bytes).await?;
        self.overtake().await;
        self.fails()
    }

    async fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.files.read(name, range).await
    }

    async fn list(&self) -> io::Result<Vec<String>> {
        self.files.list().await
    }
}

async fn events(bursar: &Bursar) -> Result<Vec<JournalEvent>, String> {
    let (mut all, mut at) = (Vec::new(), 0);
    loop {
        let (events, next) = bursar.journal().read(at, 100).await.map_err(|error| error.to_string())?;
        all.extend(events);
        if next == at {
            return Ok(all);
        }
        at = next;
    }
}

/// Runs one world. Returns what is wrong with it.
async fn world(seed: u64) -> Result<(), String> {
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_794_744_000_000_000)));
    let ids = Arc::new(Mutex::new(SeqIds::new(seed)));
    let setup = Setup { rules: Rules::default(), clock: Some(clock.clone()), ids, migrate: true };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(setup));
    let numbers = Arc::new(Numbers(AtomicU64::new(seed)));
    let files = MemoryPlace::default();
    let open = |place: ArchiveOptions, ids: u64| {
        let ids = Arc::new(Mutex::new(SeqIds::new(ids)));
        let options = Bursar::options("").clock(clock.clone()).ids(ids).upkeep(None);
        options.archive(place.after(Duration::from_secs(3_600))).open_on(store.clone())
    };
    let other = open(ArchiveOptions::at(files.clone()), seed + 1_000);
    let faulty = Faulty {
        files: files.clone(),
        numbers: numbers.clone(),
        other: Arc::new(Mutex::new(Some(Other(other.clone())))),
    };
    let bursar = open(ArchiveOptions::at(faulty), seed + 2_000);
    bursar.ledger().define("room", Budget::new([Limit::new(1_000_000, Window::Lifetime)])).await.unwrap();
    let mut seen: Vec<JournalEvent> = Vec::new();
    let mut keyed: Vec<(String, i64, String, Time)> = Vec::new();
    for step in 0..120 {
        let now = other.now().await.unwrap();
        match numbers.below(11) {
            0..4 => drop(bursar.ledger().post("room", 1).await.unwrap()),
            4 | 5 => {
                let (key, amount) = (format!("key-{step}"), step);
                let command = bursar.command().key(key.as_str()).charge("room", amount);
                let first = command.submit().await.map_err(|error| error.to_string())?;
                keyed.push((key, amount, format!("{:?}", first.done), now));
            }
            6 => {
                // Keys are kept for a week.
                keyed.retain(|(.., at)| now.since(*at) < Span::from_days(6));
                for (key, amount, first, _) in &keyed {
                    let command = bursar.command().key(key.as_str()).charge("room", *amount);
                    let again = command.submit().await.map_err(|error| format!("a repeated request: {error}"))?;
                    let again = format!("{:?}", again.done);
                    if again != *first {
                        return Err(format!("a repeated request was answered {again} instead of {first}"));
                    }
                }
            }
            7 => clock.advance(Span::from_secs(3_600 * (1 + numbers.below(48)))),
            8 => bursar.tidy().await.map_err(|error| error.to_string())?,
            9 => {
                // An instance whose place has failed is a process that has ended.
                let _ = bursar.journal().archive().await;
            }
            // Seldom, so that there are often several segments.
            _ if numbers.below(8) == 0 => {
                drop(other.journal().unarchive().await.map_err(|error| error.to_string())?);
            }
            _ => {}
        }
        let all = events(&other).await?;
        if all.get(..seen.len()) != Some(&seen[..]) {
            return Err(format!("step {step}: events have changed"));
        }
        seen = all;
    }
    let proof = other.journal().prove().await.map_err(|error| error.to_string())?;
    if proof.position != seen.len() as u64 {
        return Err(format!("{} positions are proved, and {} were read", proof.position, seen.len()));
    }
    let rebuilt = other.rebuild().await.map_err(|error| error.to_string())?;
    let report = other.verify().await.map_err(|error| error.to_string())?;
    if rebuilt != proof.position || !report.is_ok() {
        return Err(format!("the rebuilt tables are wrong: {rebuilt} events, {:?}", report.violations));
    }
    Ok(())
}

/// Runs worlds until one fails.
async fn first_failure(worlds: u64) -> Option<String> {
    for seed in 0..worlds {
        if let Err(problem) = world(seed).await {
            return Some(format!("seed {seed}: {problem}"));
        }
    }
    None
}

#[tokio::test]
async fn archiving_loses_nothing_and_every_fault_of_it_is_caught() {
    assert_eq!(first_failure(12).await, None);
    for mutant in [Mutant::PruneUnarchived, Mutant::ArchiveAnswers, Mutant::BreakChain] {
        Mutant::switch(Some(mutant));
        let caught = first_failure(12).await;
        Mutant::switch(None);
        println!("{}: {caught:?}", mutant.name());
        assert!(caught.is_some(), "{} survived", mutant.name());
    }
}
