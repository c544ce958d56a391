//! SQLite's write-ahead log stays short while somebody writes without a pause.

use bursar_core::job::JobSpec;
use bursar_core::name::{JobKind, Queue};
use bursar_core::payload::Payload;
use bursar_core::request::{Command, Op, Request};
use bursar_store::SqliteStore;
use bursar_store::prelude::*;

use crate::ask::{clock, done, setup};

/// The length of the log at which the writer waits for it to be copied, and a batch more, in pages of 4 KiB and their heads.
const MOST_BYTES: u64 = (32_768 + 4_000) * 4_120;

#[tokio::test]
async fn it_begins_anew_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.db");
    let log = folder.path().join("bursar.db-wal");
    let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    let payload = Payload::new(format!("\"{}\"", "x".repeat(60_000))).unwrap();
    let job = || -> Request {
        let spec = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("k").unwrap(), payload.clone());
        Op::Submit(Command { jobs: vec![spec], ..Command::default() }).into()
    };
    // Five hundred megabytes, four times as much as the log may hold.
    let mut written = 0;
    for _ in 0..80 {
        done(&store, (0..100).map(|_| job()).collect()).await;
        written += 100 * 60_000;
        let length = std::fs::metadata(&log).unwrap().len();
        assert!(length <= MOST_BYTES, "the log has {length} bytes after {written} were written");
    }
    let report = store.verify().await.unwrap();
    assert_eq!((report.jobs, report.violations), (8_000, Vec::new()));
    store.close().await;
    assert!(!log.exists(), "whoever closes the database last copies what is left");
    let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    assert_eq!(store.verify().await.unwrap().jobs, 8_000);
}
