//! Job keys that an open transaction has inserted.

use std::sync::Arc;

use bursar_core::answer::{Answer, Enqueued, Outcome};
use bursar_core::name::Tenant;
use bursar_core::refusal::Refusal;
use bursar_store::conformance::{CommitRequests, checked};
use bursar_store::prelude::*;
use bursar_store::{LockPolicy, RequestOutcome};
use sqlx::{Connection, PgConnection};

use crate::support::{done, job, one, open};

#[tokio::test]
async fn a_job_key_of_an_open_transaction_blocks_only_its_request() {
    let (store, url) = open(1).await;
    for commits in [true, false] {
        let unique = |n: usize| format!("{commits} {n}");
        let mut conn = PgConnection::connect(&url).await.unwrap();
        let mut theirs = conn.begin().await.unwrap();
        let first = only(store.commit_in(&mut theirs, &checked(job(&unique(5)))).await.unwrap());

        let requests: Vec<_> = (0..8).map(|n| Arc::new(job(&unique(n)))).collect();
        let outcomes = store.commit_requests(&requests, LockPolicy::Skip).await.unwrap();
        for (n, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                RequestOutcome::Blocked(locks) => assert_eq!((n, locks.is_empty()), (5, false)),
                RequestOutcome::Answered(done) => {
                    assert_ne!(n, 5, "{done:?}");
                    let created = only(done).id;
                    assert!(store.job(&Tenant::built_in(), created).await.unwrap().is_some(), "job {n} is stored");
                }
                other => panic!("{n}: {other:?}"),
            }
        }
        if commits {
            theirs.commit().await.unwrap();
        } else {
            theirs.rollback().await.unwrap();
        }
        let second = only(one(&store, &requests[5]).await);
        assert_eq!((second.created, second.id == first.id), (!commits, commits));
        assert!(store.job(&Tenant::built_in(), second.id).await.unwrap().is_some());
    }
}

/// Returns the only job of an answer.
fn only(answer: Result<Outcome, Refusal>) -> Enqueued {
    let Answer::Submitted(submitted) = done(answer) else { panic!("a job") };
    let [enqueued] = submitted.jobs[..] else { panic!("one job: {:?}", submitted.jobs) };
    enqueued
}
