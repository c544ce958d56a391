//! Grants, which are looked at without being locked, and written if they still are as they were seen.

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

/// A store whose batches wait long for locks, as the barrier is one.
async fn patient() -> (Arc<PostgresStore>, String) {
    let options = PostgresOptions { key_patience: Duration::from_secs(60), ..PostgresOptions::default() };
    let (store, url) = open_with(1, options).await;
    define(&store, &["a"], 1_000).await;
    (Arc::new(store), url)
}

async fn held(store: &PostgresStore) -> i64 {
    store.scope(&scope_key("a")).await.unwrap().unwrap().balances[0].held
}

#[tokio::test]
async fn a_grant_that_changes_after_it_was_looked_at_is_decided_anew() {
    for change in ["redeemed", "revoked", "touched"] {
        let (store, url) = patient().await;
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
                let mut stranger = PgConnection::connect(&url).await.unwrap();
                let touch = "UPDATE bursar.grants SET expires_at = expires_at";
                assert_eq!(sqlx::query(touch).execute(&mut stranger).await.unwrap().rows_affected(), 1);
            }
        }
        barrier.lift().await;
        let answer = late.await.unwrap();
        assert_eq!(answer.is_ok(), change == "touched", "{change}: {answer:?}");
        assert_eq!(held(&store).await, if change == "touched" { 10 } else { 0 }, "{change}");
        let seen = store.list_grants(&scope_key("a").0, None, 10).await.unwrap();
        assert_eq!((seen.len(), seen[0].version), (1, 2), "it changed once: {change}");
        let report = store.verify().await.unwrap();
        assert!(report.is_ok(), "{change}: {:#?}", report.violations);
    }
}

#[tokio::test]
async fn a_grant_that_changes_before_it_is_removed_is_looked_at_again() {
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
    let mut stranger = PgConnection::connect(&url).await.unwrap();
    sqlx::query("UPDATE bursar.grants SET expires_at = expires_at").execute(&mut stranger).await.unwrap();
    barrier.lift().await;
    done(late.await.unwrap());
    assert!(store.list_grants(&scope_key("a").0, None, 10).await.unwrap().is_empty(), "it was removed all the same");
    let report = store.verify().await.unwrap();
    assert!(report.is_ok(), "{:#?}", report.violations);
}

#[tokio::test]
async fn a_grant_that_somebody_else_has_in_hand_is_blocked_and_no_other_is() {
    let (store, url) = patient().await;
    let ((theirs, blocked), (_, free)) = (mint(&*store).await, mint(&*store).await);
    let mut stranger = PgConnection::connect(&url).await.unwrap();
    let mut tx = stranger.begin().await.unwrap();
    let lock = sqlx::query("SELECT 1 FROM bursar.grants WHERE id = $1 FOR UPDATE");
    lock.bind(uuid::Uuid::from_u128(theirs.0)).execute(&mut *tx).await.unwrap();
    let requests = [blocked.clone(), free].map(|redemption| Arc::new(redeem(redemption)));
    let outcomes = store.commit_requests(&requests, LockPolicy::Skip).await.unwrap();
    assert!(matches!(outcomes[0], RequestOutcome::Blocked(_)), "{outcomes:?}");
    assert!(matches!(outcomes[1], RequestOutcome::Answered(Ok(_))), "{outcomes:?}");
    // The lock leaves a trace in the row, which is no reason to pass it over.
    tx.rollback().await.unwrap();
    done(one(&*store, &redeem(blocked)).await);
}

#[tokio::test]
async fn a_credential_that_is_being_rotated_is_not_revoked_meanwhile() {
    let (store, url) = patient().await;
    let (grant, _) = mint(&*store).await;
    let token = Token::new(GrantId(grant.0 + 1), [8; 32]);
    let (purpose, subject) = (Purpose::new("upload").unwrap(), Subject::new("bob").unwrap());
    let (id, digest, payload) = (token.id(), token.digest(), Payload::default());
    let new = Mint { id, digest, purpose, subject, payload, ttl: Span::from_secs(3_600) };
    // The old one is to be good for longer than it is anyway, so that nothing is written of it.
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
async fn who_cannot_have_a_grant_in_time_is_told_what_to_wait_for() {
    let (store, url) = open(1).await;
    let (grant, redemption) = mint(&store).await;
    let barrier = Barrier::before("bursar.grants", "UPDATE bursar.grants", &url).await;
    let request = Arc::new(redeem(redemption));
    let outcomes = store.commit_requests(std::slice::from_ref(&request), LockPolicy::Skip).await.unwrap();
    assert!(matches!(&outcomes[0], RequestOutcome::Blocked(locks) if *locks == [Lock::Grant(grant)]), "{outcomes:?}");
    barrier.lift().await;
    done(one(&store, &request).await);
}
