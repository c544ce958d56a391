//! Grants, which are read without a lock and written only if they have not changed since.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::grant::Token;
use bursar_core::id::GrantId;
use bursar_core::name::{Purpose, Subject};
use bursar_core::payload::Payload;
use bursar_core::request::{Mint, Op, Request};
use bursar_core::time::Span;
use bursar_store::conformance::CommitRequests;
use bursar_store::prelude::*;
use bursar_store::{Lock, LockPolicy, PostgresOptions, PostgresStore, RequestOutcome};
use sqlx::{Connection, PgConnection};

use crate::support::*;

/// Opens a store whose batches wait long for locks, because the barrier is one.
async fn open_patient() -> (Arc<PostgresStore>, String) {
    let options = PostgresOptions { key_patience: Duration::from_secs(60), ..PostgresOptions::default() };
    let (store, url) = open_with(1, options).await;
    define(&store, &["a"], 1_000).await;
    (Arc::new(store), url)
}

async fn held(store: &PostgresStore) -> i64 {
    store.scope(&scope_key("a")).await.unwrap().unwrap().balances[0].held
}

#[tokio::test]
async fn a_grant_that_changes_after_its_read_is_decided_again() {
    for change in ["redeemed", "revoked", "touched"] {
        let (store, url) = open_patient().await;
        let (grant, redemption) = mint(&*store).await;
        let barrier = Barrier::before("bursar.grants", "INTO bursar.jobs", &url).await;
        let command = full_command("a", 10, redemption.clone(), "work");
        let late = tokio::spawn({
            let store = store.clone();
            async move { one(&*store, &command).await }
        });
        until_waiting(&url, 1).await;
        match change {
            "redeemed" => drop(done(one(&*store, &redeem(redemption)).await)),
            "revoked" => drop(done(one(&*store, &Op::Revoke { grant }.into()).await)),
            _ => {
                let mut other = PgConnection::connect(&url).await.unwrap();
                let touch = "UPDATE bursar.grants SET expires_at = expires_at";
                assert_eq!(sqlx::query(touch).execute(&mut other).await.unwrap().rows_affected(), 1);
            }
        }
        barrier.lift().await;
        let answer = late.await.unwrap();
        assert_eq!(answer.is_ok(), change == "touched", "{change}: {answer:?}");
        assert_eq!(held(&store).await, if change == "touched" { 10 } else { 0 }, "{change}");
        let grants = store.list_grants(&scope_key("a").0, None, 10).await.unwrap();
        assert_eq!((grants.len(), grants[0].version), (1, 2), "the grant changed once: {change}");
        let report = store.verify().await.unwrap();
        assert!(report.is_ok(), "{change}: {:#?}", report.violations);
    }
}

#[tokio::test]
async fn a_grant_that_changes_before_its_purge_is_read_again() {
    let clock = clock();
    let url = bursar_testkit::fresh_database();
    let options = PostgresOptions { key_patience: Duration::from_secs(60), ..PostgresOptions::default() };
    let store = Arc::new(PostgresStore::open(&url, timed(1, &clock), options).await.unwrap());
    let (grant, _) = mint(&*store).await;
    clock.advance(Span::from_secs(400 * 86_400));
    let barrier = Barrier::before("bursar.grants", "DELETE FROM bursar.grants", &url).await;
    let late = tokio::spawn({
        let store = store.clone();
        async move { one(&*store, &Op::PurgeGrants { grants: vec![grant] }.into()).await }
    });
    until_waiting(&url, 1).await;
    let mut other = PgConnection::connect(&url).await.unwrap();
    sqlx::query("UPDATE bursar.grants SET expires_at = expires_at").execute(&mut other).await.unwrap();
    barrier.lift().await;
    done(late.await.unwrap());
    assert!(store.list_grants(&scope_key("a").0, None, 10).await.unwrap().is_empty(), "the grant was purged");
    let report = store.verify().await.unwrap();
    assert!(report.is_ok(), "{:#?}", report.violations);
}

#[tokio::test]
async fn only_a_locked_grant_blocks_its_request() {
    let (store, url) = open_patient().await;
    let ((theirs, blocked), (_, free)) = (mint(&*store).await, mint(&*store).await);
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    let lock = sqlx::query("SELECT 1 FROM bursar.grants WHERE id = $1 FOR UPDATE");
    lock.bind(uuid::Uuid::from_u128(theirs.0)).execute(&mut *tx).await.unwrap();
    let requests = [blocked.clone(), free].map(|redemption| Arc::new(redeem(redemption)));
    let outcomes = store.commit_requests(&requests, LockPolicy::Skip).await.unwrap();
    assert!(matches!(outcomes[0], RequestOutcome::Blocked(_)), "{outcomes:?}");
    assert!(matches!(outcomes[1], RequestOutcome::Answered(Ok(_))), "{outcomes:?}");
    // The lock changed the row's header (`xmax`). That must not count as a change of the row.
    tx.rollback().await.unwrap();
    done(one(&*store, &redeem(blocked)).await);
}

#[tokio::test]
async fn a_credential_is_not_revoked_during_its_rotation() {
    let (store, url) = open_patient().await;
    let (grant, _) = mint(&*store).await;
    let token = Token::new(GrantId(grant.0 + 1), [8; 32]);
    let (purpose, subject) = (Purpose::new("upload").unwrap(), Subject::new("bob").unwrap());
    let (id, digest, payload) = (token.id(), token.digest(), Payload::default());
    let new = Mint { id, digest, purpose, subject, payload, ttl: Span::from_secs(3_600) };
    // The overlap is longer than the rest of its lifetime, so the old credential is not written.
    let rotate = Op::Rotate { grant, mint: new, overlap: Span::from_secs(86_400) };
    let barrier = Barrier::before("bursar.grants", "INTO bursar.grants", &url).await;
    let late = tokio::spawn({
        let store = store.clone();
        async move { one(&*store, &rotate.into()).await }
    });
    until_waiting(&url, 1).await;
    let revoke = Arc::new(Request::from(Op::Revoke { grant }));
    let outcomes = store.commit_requests(std::slice::from_ref(&revoke), LockPolicy::Skip).await.unwrap();
    assert!(matches!(outcomes[0], RequestOutcome::Blocked(_)), "{outcomes:?}");
    barrier.lift().await;
    done(late.await.unwrap());
    done(one(&*store, &revoke).await);
}

#[tokio::test]
async fn a_request_blocked_by_a_grant_reports_its_lock() {
    let (store, url) = open(1).await;
    let (grant, redemption) = mint(&store).await;
    let barrier = Barrier::before("bursar.grants", "UPDATE bursar.grants", &url).await;
    let request = Arc::new(redeem(redemption));
    let outcomes = store.commit_requests(std::slice::from_ref(&request), LockPolicy::Skip).await.unwrap();
    assert!(matches!(&outcomes[0], RequestOutcome::Blocked(locks) if *locks == [Lock::Grant(grant)]), "{outcomes:?}");
    barrier.lift().await;
    done(one(&store, &request).await);
}
