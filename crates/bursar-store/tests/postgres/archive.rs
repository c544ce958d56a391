//! Processes that archive the journal while another one puts rows back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bursar_core::time::Time;
use bursar_store::prelude::*;
use bursar_store::segment::{self, ArchivedRow, NO_SEGMENT};
use bursar_store::{PostgresOptions, PostgresStore, StoreError};

use crate::support::*;

const ROWS: u64 = 60;
const ROUNDS: usize = 80;
/// Rows that one transaction deletes: few, so that the others come between.
const PRUNED: usize = 2;

/// The rows of every segment that was ever written.
type Files = Arc<Mutex<HashMap<[u8; 32], Vec<ArchivedRow>>>>;

/// Returns what a step has done, or nothing if another process kept it from that.
fn unless_busy<T: Default>(result: Result<T, StoreError>) -> T {
    match result {
        Ok(done) => done,
        Err(StoreError::Busy(_)) => T::default(),
        Err(error) => panic!("{error}"),
    }
}

/// Archives a few rows after the last segment and deletes what is archived.
async fn archive(store: &PostgresStore, files: &Files) {
    let last = store.last_segment().await.unwrap();
    let (after, previous) = last.map_or((0, NO_SEGMENT), |last| (last.last, last.digest));
    let mut rows = store.archivable(after, Time::NEVER, 1 << 20).await.unwrap();
    rows.truncate(rows.len().min(20));
    if !rows.is_empty() {
        let encoded = segment::encode(1, previous, &rows);
        files.lock().unwrap().insert(encoded.segment.digest.0, rows);
        unless_busy(store.record_segment(&encoded.segment).await);
    }
    while unless_busy(store.prune_journal(PRUNED).await) > 0 {}
}

/// Puts the rows of the last segment back. Returns whether there was one.
async fn restore(store: &PostgresStore, files: &Files) -> bool {
    let Some(last) = store.last_segment().await.unwrap() else { return false };
    let rows = files.lock().unwrap()[&last.digest.0].clone();
    unless_busy(store.restore_segment(&last, rows).await);
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_put_back_while_others_archive_are_not_lost() {
    let (store, url) = open(1).await;
    define(&store, &["room"], 1_000).await;
    for _ in 0..ROWS {
        one(&store, &post("room", 1)).await.unwrap();
    }
    let end = store.health().await.unwrap().position;
    let files = Files::default();
    let mut tasks = Vec::new();
    for node in 0..3 {
        let store = PostgresStore::open(&url, setup(10 + node), PostgresOptions::default()).await.unwrap();
        let files = files.clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                if node == 0 {
                    restore(&store, &files).await;
                } else {
                    archive(&store, &files).await;
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    while restore(&store, &files).await {}
    let mut next = 1;
    while next <= end {
        let page = store.list_journal(next - 1, 100).await.unwrap();
        assert!(!page.is_empty(), "the journal ends before {next} of {end}");
        for row in page {
            assert_eq!(row.position, next, "rows are missing");
            next += row.batch.count() as u64;
        }
    }
}
