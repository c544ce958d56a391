//! A caller's closure on SQLite: all or nothing, whatever ends the transaction beneath it.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use bursar_store::conformance::checked;
use bursar_store::prelude::*;
use bursar_store::sqlite::SqliteTx;
use bursar_store::{SqliteStore, StoreError};

use crate::ask::{clock, done, post, posted, setup};

const LIMIT: Duration = Duration::from_secs(30);

async fn store() -> SqliteStore {
    let store = SqliteStore::in_memory(setup(&clock())).await.unwrap();
    done(&store, vec![post("a", 1)]).await;
    let table = |tx: &mut SqliteTx<'_>| tx.connection().execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)");
    store.transaction(LIMIT, table).await.unwrap().unwrap();
    store
}

/// Runs a closure that swallows every error, and returns what the caller is told. Nothing may be left of it.
async fn swallowing(
    ends: &'static str,
    before: bool,
    after: impl FnOnce(&mut SqliteTx<'_>) + Send + 'static,
) -> StoreError {
    let store = store().await;
    let work = move |tx: &mut SqliteTx<'_>| {
        if before {
            tx.request(&checked(post("a", 100))).unwrap().unwrap();
        }
        tx.connection().execute_batch("INSERT INTO orders VALUES (1)").unwrap();
        assert!(tx.connection().execute_batch(ends).is_err(), "{ends}");
        after(tx);
        Ok::<_, StoreError>(())
    };
    let told = store.transaction(LIMIT, work).await.expect_err(ends);
    assert_eq!(posted(&store, "a").await, 1, "{ends}");
    assert_eq!(store.list_journal(0, 10).await.unwrap().len(), 1, "{ends}");
    let count = |tx: &mut SqliteTx<'_>| tx.connection().query_row("SELECT count(*) FROM orders", [], |row| row.get(0));
    let (orders, _): (i64, _) = store.transaction(LIMIT, count).await.unwrap().unwrap();
    assert_eq!(orders, 0, "{ends}");
    // The next one is as good as any.
    done(&store, vec![post("a", 5)]).await;
    assert_eq!(posted(&store, "a").await, 6, "{ends}");
    assert!(store.verify().await.unwrap().is_ok());
    told
}

#[tokio::test]
async fn a_transaction_that_ended_beneath_its_closure_is_not_gone_on_with() {
    let trigger = "CREATE TRIGGER stop BEFORE INSERT ON orders BEGIN SELECT RAISE(ROLLBACK, 'no'); END;
        INSERT INTO orders VALUES (2)";
    for ends in ["INSERT OR ROLLBACK INTO orders VALUES (1)", trigger] {
        for before in [false, true] {
            let told = swallowing(ends, before, |tx| {
                let request = tx.request(&checked(post("a", 10))).expect_err("there is no transaction to do it in");
                assert!(request.to_string().contains("its transaction was rolled back"), "{request}");
                assert!(tx.connection().execute_batch("INSERT INTO orders VALUES (3)").is_err(), "not on its own");
            });
            let told = told.await;
            assert!(matches!(told, StoreError::Closure(_)), "{told:?}");
            // Also without another request: what was answered before is not durable.
            let told = swallowing(ends, before, |_| {}).await;
            assert!(matches!(told, StoreError::Closure(_)), "{told:?}");
        }
    }
}

#[tokio::test]
async fn a_request_that_failed_halfway_is_not_committed() {
    let store = store().await;
    let work = |tx: &mut SqliteTx<'_>| {
        let stop = "CREATE TRIGGER stop BEFORE INSERT ON bursar_postings BEGIN SELECT RAISE(ABORT, 'no'); END";
        tx.connection().execute_batch(stop).unwrap();
        assert!(tx.request(&checked(post("a", 10))).is_err());
        tx.connection().execute_batch("DROP TRIGGER stop").unwrap();
        Ok::<_, StoreError>(())
    };
    let told = store.transaction(LIMIT, work).await;
    assert!(matches!(told, Err(StoreError::Closure(_))), "{told:?}");
    assert_eq!(posted(&store, "a").await, 1);
    assert!(store.verify().await.unwrap().is_ok());
}

#[tokio::test]
async fn only_so_many_closures_wait() {
    let store = Arc::new(store().await);
    let (begun, begin) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let first = tokio::spawn({
        let store = store.clone();
        let work = move |_: &mut SqliteTx<'_>| {
            begun.send(()).unwrap();
            wait.recv().unwrap();
            Ok::<_, StoreError>(())
        };
        async move { store.transaction(LIMIT, work).await }
    });
    tokio::task::spawn_blocking(move || begin.recv()).await.unwrap().unwrap();
    let mut waiting = Vec::new();
    for _ in 1..1_000 {
        let store = store.clone();
        let work = |tx: &mut SqliteTx<'_>| tx.request(&checked(post("a", 1))).map(drop);
        waiting.push(tokio::spawn(async move { store.transaction(LIMIT, work).await }));
        // The runtime of this test has one thread: the closure is on its way when this comes back.
        tokio::task::yield_now().await;
    }
    let full = store.transaction(LIMIT, |_| Ok::<_, StoreError>(())).await;
    assert!(matches!(full, Err(StoreError::Busy(_))), "{full:?}");
    go.send(()).unwrap();
    first.await.unwrap().unwrap().unwrap();
    for closure in waiting {
        closure.await.unwrap().unwrap().unwrap();
    }
    assert_eq!(posted(&*store, "a").await, 1_000);
    store.transaction(LIMIT, |_| Ok::<_, StoreError>(())).await.unwrap().unwrap();
}
