//! Files that are deleted, replaced or cannot grow while they are in use.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar_store::conformance::CommitRequests;
use bursar_store::prelude::*;
use bursar_store::{LockPolicy, SqliteStore, StoreError};

use crate::ask::{clock, done, post, posted, setup};

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the text of an `unavailable` error.
fn unavailable<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Unavailable { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

/// Returns the text of an `unavailable` or `unknown outcome` error.
fn unavailable_or_unknown<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::UnknownOutcome(source)) => source.to_string(),
        other => unavailable(other),
    }
}

#[tokio::test]
async fn no_commit_succeeds_after_a_file_is_deleted_or_replaced() {
    type Act = fn(&Path);
    let acts: [(&str, Act); 4] = [
        ("file", |path| fs::remove_file(path).unwrap()),
        ("file", |path| {
            fs::copy(path, with_suffix(path, ".copy")).unwrap();
            fs::rename(with_suffix(path, ".copy"), path).unwrap();
        }),
        ("log", |path| fs::remove_file(with_suffix(path, "-wal")).unwrap()),
        ("index", |path| fs::remove_file(with_suffix(path, "-shm")).unwrap()),
    ];
    for (what, act) in acts {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.db");
        let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
        done(&store, vec![post("room", 1)]).await;
        store.ready().await.unwrap();
        act(&path);
        let first = unavailable_or_unknown(store.commit_requests(&[Arc::new(post("room", 1))], LockPolicy::Skip).await);
        assert!(first.contains(what) && first.contains("deleted or replaced"), "{first}");
        // The store does not recover, because later writes would be in one of two files.
        for _ in 0..2 {
            assert!(unavailable(store.ready().await).contains("deleted or replaced"));
            assert!(
                unavailable(store.commit_requests(&[Arc::new(post("room", 1))], LockPolicy::Skip).await)
                    .contains("deleted")
            );
        }
        store.close().await;
    }
}

#[tokio::test]
async fn readiness_detects_a_deleted_file_without_a_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.db");
    let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    done(&store, vec![post("room", 1)]).await;
    let away = with_suffix(&path, ".away");
    fs::rename(&path, &away).unwrap();
    assert!(unavailable(store.ready().await).contains("file"));
    store.close().await;
    fs::rename(&away, &path).unwrap();
    let again = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    assert_eq!(posted(&again, "room").await, 1, "no acknowledged commit is lost");
    again.close().await;
}

#[tokio::test]
async fn readiness_detects_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.db");
    let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    // A write to this file fails as on a full disk.
    std::os::unix::fs::symlink("/dev/full", with_suffix(&path, "-space")).unwrap();
    assert_eq!(unavailable(store.ready().await), "the disk of the database is full");
    store.ready().await.expect("ready again as soon as there is space");
    assert!(!with_suffix(&path, "-space").exists(), "the test file is deleted");
    store.close().await;
}
