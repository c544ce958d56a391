//! The cases for several processes on one file.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use bursar_core::time::Time;
use bursar_store::SqliteStore;
use bursar_store::prelude::*;
use bursar_testkit::RandomIds;
use rusqlite::Connection;

use crate::child::{Process, open, runtime};

const WRITERS: usize = 4;
const COMMITS: usize = 250;
/// The number of consecutive commits over which shares are counted.
const SPAN: usize = 60;

const RUNS: usize = 3;

/// In nine of ten spans of commits no writer gets less than half of the average share, and no commit fails as busy. A writer that the
/// operating system does not schedule for a while takes no turns, which the process lock cannot prevent: so a tenth may be unequal.
pub(crate) fn equal_shares() {
    let (mut spans, mut unequal) = (0, Vec::new());
    for _ in 0..RUNS {
        let order = commits();
        let writers: HashSet<&str> = order.iter().map(String::as_str).collect();
        for span in order.chunks_exact(SPAN) {
            spans += 1;
            let mut shares: BTreeMap<&str, usize> = writers.iter().map(|writer| (*writer, 0)).collect();
            span.iter().for_each(|writer| *shares.get_mut(writer.as_str()).unwrap() += 1);
            if shares.values().min().unwrap() * 2 * WRITERS < SPAN {
                unequal.push(shares.into_values().collect::<Vec<_>>());
            }
        }
    }
    assert!(spans > RUNS * WRITERS * COMMITS / SPAN / 2, "the writers ran together only in {spans} spans");
    assert!(unequal.len() * 10 <= spans, "{} of {spans} spans are unequal: {unequal:?}", unequal.len());
}

/// Runs writers without pauses. Returns the writers of the commits, in order, from the start of the last writer to the end of the
/// first.
fn commits() -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.db");
    let mut writers: Vec<_> = (1..=WRITERS).map(|seed| Process::start("write", &path, seed, COMMITS)).collect();
    writers.iter_mut().for_each(Process::begin);
    for writer in writers {
        for _ in 0..COMMITS {
            let said = writer.hear().unwrap();
            assert!(said.starts_with("cmd_"), "{said}");
        }
        writer.end();
    }
    let order = runtime().block_on(async { journal(&open(&path, 99).await).await });
    let order: Vec<String> = order.into_iter().map(|(_, writer)| writer).collect();
    assert_eq!(order.len(), WRITERS * COMMITS);
    let names: HashSet<&String> = order.iter().collect();
    let from = names.iter().map(|name| order.iter().position(|own| own == *name).unwrap()).max().unwrap();
    let to = names.iter().map(|name| order.iter().rposition(|own| own == *name).unwrap()).min().unwrap();
    order[from..=to.max(from)].to_vec()
}

/// The first process creates the tables, the others find them.
pub(crate) fn opened_at_once() {
    for round in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bursar.db");
        let mut openers: Vec<_> = (1..=6).map(|seed| Process::start("open", &path, seed, 1)).collect();
        openers.iter_mut().for_each(Process::begin);
        for opener in openers {
            let said = opener.hear().unwrap_or_default();
            assert!(said.starts_with("cmd_"), "round {round}: {said}");
            assert_eq!(opener.hear().as_deref(), Some("schema 5"));
            opener.end();
        }
        let (entries, report) = runtime().block_on(async {
            let store = open(&path, 99).await;
            (journal(&store).await, store.verify().await.unwrap())
        });
        assert_eq!((entries.len(), report.violations), (6, Vec::new()), "round {round}");
    }
}

/// Writers are killed at random times, twenty times on one file.
pub(crate) fn killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.db");
    let mut random = RandomIds::new(u64::from(std::process::id()));
    let mut acknowledged = Vec::new();
    for round in 0..20 {
        let mut writer = Process::start("write", &path, 1_000 + round, 100_000);
        writer.begin();
        // The writer continues while this process reads, so the kill meets it at a random place.
        let patience = bursar_core::id::IdSource::next_id(&mut random, Time::MIN) % 40;
        for _ in 0..=patience {
            acknowledged.push(writer.hear().unwrap());
        }
        writer.child.kill().unwrap();
        writer.child.wait().unwrap();
        acknowledged.extend(std::iter::from_fn(|| writer.hear()));
    }
    runtime().block_on(async {
        let store = open(&path, 99).await;
        let found: HashSet<String> = journal(&store).await.into_iter().map(|(command, _)| command).collect();
        for command in &acknowledged {
            assert!(found.contains(command), "{command} was acknowledged, but is lost");
        }
        assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new());
        let before = dump(&path);
        store.rebuild().await.unwrap();
        assert_eq!(dump(&path), before, "after a rebuild");
    });
}

/// Returns the commands of the journal with their writers, in order.
async fn journal(store: &SqliteStore) -> Vec<(String, String)> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let page = store.list_journal(after, 500).await.unwrap();
        let Some(last) = page.last() else { return all };
        after = last.position + last.batch.count() as u64 - 1;
        for entry in page.iter().flat_map(|row| &row.batch.entries) {
            all.push((entry.id.to_string(), entry.context.correlation_id.clone().unwrap_or_default()));
        }
    }
}

/// Returns every row of every table.
fn dump(path: &Path) -> Vec<String> {
    let conn = Connection::open(path).unwrap();
    let mut tables = conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut rows = Vec::new();
    for table in tables {
        let mut all = conn.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap();
        let columns = all.column_count();
        let of = all.query_map([], |row| {
            let values: rusqlite::Result<Vec<_>> =
                (0..columns).map(|n| row.get::<_, rusqlite::types::Value>(n)).collect();
            Ok(format!("{table}: {:?}", values?))
        });
        rows.extend(of.unwrap().map(Result::unwrap));
    }
    rows
}
