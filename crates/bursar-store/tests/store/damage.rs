//! Database files with pages that a disk has spoiled: the right answer, or `unavailable`; never another one.

use std::path::Path;
use std::sync::Arc;

use bursar_core::answer::Outcome;
use bursar_core::budget::{Budget, Limit};
use bursar_core::job::JobSpec;
use bursar_core::name::{JobKind, Queue};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Charge, Command, Op, Request, Settle};
use bursar_core::window::Window;
use bursar_store::conformance::CommitRequests;
use bursar_store::prelude::*;
use bursar_store::{LockPolicy, ManualClock, RequestOutcome, SqliteStore, Store, StoreError};

use crate::ask::{clock, done, key_of, setup};

const SCOPES: usize = 120;
const PAGE: usize = 4_096;

fn name(place: usize) -> String {
    format!("team:{}/agent:{place:03}", place % 7)
}

/// Each scope has spent its limit but for one unit, a part of which is held.
async fn fill(store: &dyn Store) {
    for place in 0..SCOPES {
        let scope = key_of(&name(place)).1;
        let budget = Budget::new([Limit::new(100, Window::Lifetime), Limit::new(200, "day".parse().unwrap())]);
        let charge = |amount| vec![Charge::new(scope.clone(), amount)];
        let held = Settle::Hold { ttl: Some(bursar_core::time::Span::from_secs(300)) };
        done(store, vec![Op::Define { scope: scope.clone(), budget }.into()]).await;
        done(
            store,
            vec![
                Op::Submit(Command { charges: charge(90), ..Command::default() }).into(),
                Op::Submit(Command { charges: charge(9), settle: held, ..Command::default() }).into(),
            ],
        )
        .await;
    }
}

async fn open(path: &Path, clock: &Arc<ManualClock>) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, setup(clock)).await
}

/// A file with everything in it and nothing in its log.
async fn good(path: &Path, clock: &Arc<ManualClock>, padding: usize) -> Vec<u8> {
    let store = open(path, clock).await.unwrap();
    fill(&store).await;
    for _ in 0..padding {
        let payload = Payload::new(format!("\"{}\"", "x".repeat(1_000_000))).unwrap();
        let spec = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("k").unwrap(), payload);
        done(&store, vec![Op::Submit(Command { jobs: vec![spec], ..Command::default() }).into()]).await;
    }
    store.close().await;
    drop(store);
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(conn);
    std::fs::read(path).unwrap()
}

fn is_unavailable(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { .. } | StoreError::Corrupt { .. })
}

/// Opens the file and asks about every scope: whatever is answered must be right. Returns how often it was unavailable.
async fn ask_everything(path: &Path, clock: &Arc<ManualClock>, damage: &str) -> usize {
    let store = match open(path, clock).await {
        Ok(store) => store,
        Err(error) => {
            assert!(is_unavailable(&error), "{damage}: {error:?}");
            return 1;
        }
    };
    let mut unavailable = 0;
    let mut failed = |error: &StoreError| {
        assert!(is_unavailable(error), "{damage}: {error:?}");
        unavailable += 1;
    };
    for place in 0..SCOPES {
        let name = name(place);
        match store.scope(&key_of(&name)).await {
            Ok(Some(row)) => assert_eq!((row.balances[0].posted, row.balances[0].held), (90, 9), "{damage}: {name}"),
            Ok(None) => panic!("{damage}: {name} is gone"),
            Err(error) => failed(&error),
        }
        match ask(&store, &name, 2).await {
            Ok(Err(Refusal::Refused(_))) => {}
            Ok(other) => panic!("{damage}: two of one unit on {name}: {other:?}"),
            Err(error) => failed(&error),
        }
        // A dry run: what is written would be another damage to look for.
        match ask(&store, &name, 1).await {
            Ok(Ok(_)) => {}
            Ok(Err(refusal)) => panic!("{damage}: the last unit of {name}: {refusal}"),
            Err(error) => failed(&error),
        }
    }
    store.close().await;
    unavailable
}

async fn ask(store: &SqliteStore, name: &str, amount: i64) -> Result<Result<Outcome, Refusal>, StoreError> {
    let command = Command { charges: vec![Charge::new(key_of(name).1, amount)], ..Command::default() };
    let request = Request { dry_run: amount == 1, ..Request::from(Op::Submit(command)) };
    let mut outcomes = store.commit_requests(&[Arc::new(request)], LockPolicy::Skip).await?;
    match outcomes.pop() {
        Some(RequestOutcome::Answered(answer)) => Ok(answer),
        other => panic!("{other:?}"),
    }
}

/// What a disk does to a page: forgets it, fills it with a pattern, or puts another one in its place.
fn spoil(bytes: &mut [u8], page: usize, how: usize) -> String {
    let pages = bytes.len() / PAGE;
    let (from, to) = (page * PAGE, (page + 1) * PAGE);
    match how {
        0 => bytes[from..to].fill(0),
        1 => bytes[from..to].fill(0xa5),
        2 => {
            let noise = (0..PAGE).map(|n| ((n * 2_654_435_761 + page * 40_503) >> 7) as u8);
            bytes[from..to].copy_from_slice(&noise.collect::<Vec<_>>());
        }
        _ => {
            let other = (page + pages / 2) % pages * PAGE;
            bytes.copy_within(other..other + PAGE, from);
        }
    }
    format!("page {page} of {pages}, damage {how}")
}

#[tokio::test]
async fn a_small_file_with_any_page_spoiled_is_unavailable_or_right() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), clock());
    let bytes = good(&folder.path().join("good.db"), &clock, 0).await;
    let pages = bytes.len() / PAGE;
    assert!(pages > 30, "{pages} pages");
    let mut found = 0;
    for page in 0..pages {
        let mut spoiled = bytes.clone();
        let damage = spoil(&mut spoiled, page, page % 4);
        let path = folder.path().join(format!("{page}.db"));
        std::fs::write(&path, &spoiled).unwrap();
        found += usize::from(ask_everything(&path, &clock, &damage).await > 0);
        std::fs::remove_file(&path).unwrap();
    }
    // What is left is text that runs over into pages of its own, of which no structure can tell.
    assert!(found + 3 >= pages, "{found} of {pages} spoiled pages were found");
    let path = folder.path().join("short.db");
    std::fs::write(&path, &bytes[..(pages / 2) * PAGE]).unwrap();
    assert_eq!(ask_everything(&path, &clock, "half of it is missing").await, 1);
    assert_eq!(std::fs::read(&path).unwrap(), &bytes[..(pages / 2) * PAGE], "nothing was overwritten");
}

#[tokio::test]
async fn a_large_file_with_a_spoiled_page_is_unavailable_or_right_in_use() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), clock());
    let bytes = good(&folder.path().join("good.db"), &clock, 9).await;
    let is_tree = |page: &usize| matches!(bytes[page * PAGE], 0x02 | 0x05 | 0x0a | 0x0d);
    let trees: Vec<usize> = (1..bytes.len() / PAGE).filter(is_tree).collect();
    assert!(trees.len() > 30 && bytes.len() > 9_000_000, "{} of {}", trees.len(), bytes.len());
    let (path, mut found) = (folder.path().join("spoiled.db"), 0);
    for (place, page) in trees.iter().enumerate() {
        let mut spoiled = bytes.clone();
        let damage = spoil(&mut spoiled, *page, place % 3);
        std::fs::write(&path, &spoiled).unwrap();
        found += usize::from(ask_everything(&path, &clock, &damage).await > 0);
        for beside in ["spoiled.db-wal", "spoiled.db-shm"] {
            let _ = std::fs::remove_file(folder.path().join(beside));
        }
    }
    assert!(found > 0, "no damage was met");
}
