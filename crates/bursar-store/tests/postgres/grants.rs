//! Grants: locked by the batch that redeems, rotates or removes them.

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
async fn a_grant_is_locked_from_its_reading_to_the_commit() {
    let (store, url) = patient().await;
    let (grant, redemption) = mint(&*store).await;
    let barrier = Barrier::before("bursar.grants", "INTO bursar.jobs", &url).await;
    let command = full_command("a", 10, redemption.clone(), "work");
    let first = tokio::spawn({
        let store = store.clone();
        async move { one(&*store, &command).await }
    });
    until_waiting(&url, 1).await;
    let late = [redeem(redemption.clone()), Op::Revoke { grant }.into()].map(Arc::new);
    for outcome in store.commit_requests(&late, LockPolicy::Skip).await.unwrap() {
        assert!(matches!(&outcome, RequestOutcome::Blocked(locks) if *locks == [Lock::Grant(grant)]), "{outcome:?}");
    }
    barrier.lift().await;
    done(first.await.unwrap());
    assert!(one(&*store, &redeem(redemption)).await.is_err(), "it is redeemed once");
    assert_eq!(held(&store).await, 10);
    let report = store.verify().await.unwrap();
    assert!(report.is_ok(), "{:#?}", report.violations);
}

#[tokio::test]
async fn a_locked_grant_blocks_only_its_own_request() {
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
    // A row keeps a trace of a lock that was rolled back. It is free all the same.
    tx.rollback().await.unwrap();
    done(one(&*store, &redeem(blocked)).await);
}

#[tokio::test]
async fn a_credential_is_not_revoked_while_it_is_rotated() {
    let (store, url) = patient().await;
    let (grant, _) = mint(&*store).await;
    let token = Token::new(GrantId(grant.0 + 1), [8; 32]);
    let (purpose, subject) = (Purpose::new("upload").unwrap(), Subject::new("bob").unwrap());
    let (id, digest, payload) = (token.id(), token.digest(), Payload::default());
    let new = Mint { id, digest, purpose, subject, payload, ttl: Span::from_secs(3_600) };
    // The overlap is longer than the old credential lives, so that its row is not written.
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
