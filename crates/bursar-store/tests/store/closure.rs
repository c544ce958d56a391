//! A caller's closure on SQLite is atomic, even if a statement ends its transaction.

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

/// Runs a closure that ignores every error, checks that nothing of it is stored, and returns the error of its caller.
async fn ignoring_errors(
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
    let error = store.transaction(LIMIT, work).await.expect_err(ends);
    assert_eq!(posted(&store, "a").await, 1, "{ends}");
    assert_eq!(store.list_journal(0, 10).await.unwrap().len(), 1, "{ends}");
    let count = |tx: &mut SqliteTx<'_>| tx.connection().query_row("SELECT count(*) FROM orders", [], |row| row.get(0));
    let (orders, _): (i64, _) = store.transaction(LIMIT, count).await.unwrap().unwrap();
    assert_eq!(orders, 0, "{ends}");
    // The next transaction works as usual.
    done(&store, vec![post("a", 5)]).await;
    assert_eq!(posted(&store, "a").await, 6, "{ends}");
    assert!(store.verify().await.unwrap().is_ok());
    error
}

#[tokio::test]
async fn a_closure_cannot_continue_after_its_transaction_ended() {
    let trigger = "CREATE TRIGGER stop BEFORE INSERT ON orders BEGIN SELECT RAISE(ROLLBACK, 'no'); END;
        INSERT INTO orders VALUES (2)";
    for ends in ["INSERT OR ROLLBACK INTO orders VALUES (1)", trigger] {
        for before in [false, true] {
            let error = ignoring_errors(ends, before, |tx| {
                let request = tx.request(&checked(post("a", 10))).expect_err("the transaction has ended");
                assert!(request.to_string().contains("its transaction was rolled back"), "{request}");
                assert!(
                    tx.connection().execute_batch("INSERT INTO orders VALUES (3)").is_err(),
                    "a statement outside of the transaction fails"
                );
            });
            let error = error.await;
            assert!(matches!(error, StoreError::Closure(_)), "{error:?}");
            // The transaction fails also without another request.
            let error = ignoring_errors(ends, before, |_| {}).await;
            assert!(matches!(error, StoreError::Closure(_)), "{error:?}");
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
    let error = store.transaction(LIMIT, work).await;
    assert!(matches!(error, Err(StoreError::Closure(_))), "{error:?}");
    assert_eq!(posted(&store, "a").await, 1);
    assert!(store.verify().await.unwrap().is_ok());
}

#[tokio::test]
async fn the_number_of_waiting_closures_is_limited() {
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
        // The runtime has one thread, so the closure is queued when this returns.
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
