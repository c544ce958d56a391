//! Locks in a caller's own PostgreSQL transaction: a failed lock leaves the transaction usable.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar::sqlx::{self, Connection, PgConnection};
use bursar::{Rules, Scope, StoreError, Tenant};
use bursar_store::{PostgresOptions, PostgresStore, Setup};
use bursar_testkit::SeqIds;

async fn open(caller_patience: Duration) -> (PostgresStore, String) {
    let url = bursar_testkit::fresh_database();
    let ids = Arc::new(Mutex::new(SeqIds::new(1)));
    let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: true };
    let options = PostgresOptions { caller_patience, ..PostgresOptions::default() };
    (PostgresStore::open(&url, setup, options).await.unwrap(), url)
}

fn key(scope: &str) -> (Tenant, Scope) {
    (Tenant::built_in(), Scope::new(scope).unwrap())
}

#[tokio::test]
async fn lock_timeout_leaves_the_callers_transaction_usable() {
    let (store, url) = open(Duration::from_millis(50)).await;
    let mut first = PgConnection::connect(&url).await.unwrap();
    let mut theirs = first.begin().await.unwrap();
    store.lock_scope(&mut theirs, &key("a")).await.unwrap();

    let mut second = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("CREATE TABLE mine (n INT)").execute(&mut second).await.unwrap();
    let mut tx = second.begin().await.unwrap();
    sqlx::raw_sql("SET LOCAL lock_timeout = '7s'; INSERT INTO mine VALUES (1)").execute(&mut *tx).await.unwrap();
    for scope in ["a", "b"] {
        let locked = store.lock_scope(&mut tx, &key(scope)).await;
        match scope {
            "a" => assert!(matches!(locked, Err(StoreError::Busy(_))), "{locked:?}"),
            _ => locked.unwrap(),
        }
        let settings = "SELECT current_setting('lock_timeout'), current_setting('enable_seqscan')";
        let own: (String, String) = sqlx::query_as(settings).fetch_one(&mut *tx).await.unwrap();
        assert_eq!(own, ("7s".into(), "on".into()), "after {scope}");
    }
    tx.commit().await.unwrap();
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM mine").fetch_one(&mut second).await.unwrap();
    assert_eq!(kept, 1);
}

#[tokio::test]
async fn a_deadlock_asks_the_caller_to_retry_the_transaction() {
    let (store, url) = open(Duration::from_secs(60)).await;
    let both_have_one = tokio::sync::Barrier::new(2);
    let lock = async |one: &str, other: &str| {
        let mut conn = PgConnection::connect(&url).await.unwrap();
        let mut tx = conn.begin().await.unwrap();
        store.lock_scope(&mut tx, &key(one)).await.unwrap();
        both_have_one.wait().await;
        let locked = store.lock_scope(&mut tx, &key(other)).await;
        tx.rollback().await.unwrap();
        locked
    };
    let (one, other) = tokio::join!(lock("a", "b"), lock("b", "a"));
    let victims: Vec<_> = [one, other].into_iter().filter_map(Result::err).collect();
    assert!(matches!(victims.as_slice(), [StoreError::RetryTransaction(_)]), "{victims:?}");
}
