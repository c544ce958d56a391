//! SQLite's write-ahead log stays bounded under continuous writes.

use bursar_core::job::JobSpec;
use bursar_core::name::{JobKind, Queue};
use bursar_core::payload::Payload;
use bursar_core::request::{Command, Op, Request};
use bursar_store::SqliteStore;
use bursar_store::prelude::*;

use crate::ask::{clock, done, setup};

/// The length in bytes at which the writer waits for a checkpoint, plus a batch: pages of 4 KiB with their frame headers.
const MOST_BYTES: u64 = (32_768 + 4_000) * 4_120;

#[tokio::test]
async fn the_write_ahead_log_stays_below_its_maximum() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.db");
    let log = folder.path().join("bursar.db-wal");
    let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    let payload = Payload::new(format!("\"{}\"", "x".repeat(60_000))).unwrap();
    let job = || -> Request {
        let spec = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("k").unwrap(), payload.clone());
        Op::Submit(Command { jobs: vec![spec], ..Command::default() }).into()
    };
    // Five hundred megabytes, four times the maximum of the log.
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
    assert!(!log.exists(), "closing the last connection checkpoints the log");
    let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    assert_eq!(store.verify().await.unwrap().jobs, 8_000);
}
