//! Files that are deleted, replaced or cannot grow while they are in use.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar_store::conformance::CommitRequests;
use bursar_store::prelude::*;
use bursar_store::{LockPolicy, SqliteStore, StoreError};

use crate::ask::{clock, done, post, posted, setup};

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// What is told of a database that cannot be used.
fn told<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Unavailable { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

/// The same, also where it was noticed after the commit.
fn told_late<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::UnknownOutcome(source)) => source.to_string(),
        other => told(other),
    }
}

#[tokio::test]
async fn nothing_is_answered_as_done_once_a_file_is_gone_or_another_one() {
    type Act = fn(&Path);
    let acts: [(&str, Act); 4] = [
        ("file", |path| fs::remove_file(path).unwrap()),
        ("file", |path| {
            fs::copy(path, beside(path, ".copy")).unwrap();
            fs::rename(beside(path, ".copy"), path).unwrap();
        }),
        ("log", |path| fs::remove_file(beside(path, "-wal")).unwrap()),
        ("index", |path| fs::remove_file(beside(path, "-shm")).unwrap()),
    ];
    for (what, act) in acts {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.db");
        let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
        done(&store, vec![post("room", 1)]).await;
        store.ready().await.unwrap();
        act(&path);
        let told_first = told_late(store.commit_requests(&[Arc::new(post("room", 1))], LockPolicy::Skip).await);
        assert!(told_first.contains(what) && told_first.contains("deleted or replaced"), "{told_first}");
        // It stays so: what was written meanwhile would be in one file and not in the other.
        for _ in 0..2 {
            assert!(told(store.ready().await).contains("deleted or replaced"));
            assert!(
                told(store.commit_requests(&[Arc::new(post("room", 1))], LockPolicy::Skip).await).contains("deleted")
            );
        }
        store.close().await;
    }
}

#[tokio::test]
async fn readiness_notices_a_deleted_file_without_a_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.db");
    let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    done(&store, vec![post("room", 1)]).await;
    let away = beside(&path, ".away");
    fs::rename(&path, &away).unwrap();
    assert!(told(store.ready().await).contains("file"));
    store.close().await;
    fs::rename(&away, &path).unwrap();
    let again = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    assert_eq!(posted(&again, "room").await, 1, "nothing that was answered is lost");
    again.close().await;
}

#[tokio::test]
async fn readiness_notices_a_disk_that_takes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.db");
    let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    // What is written there meets a full disk.
    std::os::unix::fs::symlink("/dev/full", beside(&path, "-space")).unwrap();
    assert_eq!(told(store.ready().await), "the disk of the database is full");
    store.ready().await.expect("as soon as there is room it is ready again");
    assert!(!beside(&path, "-space").exists(), "nothing is left behind");
    store.close().await;
}
