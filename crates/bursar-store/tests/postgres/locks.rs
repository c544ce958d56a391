//! Rows and keys that another transaction has locked.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::answer::Answer;
use bursar_core::id::JobId;
use bursar_core::job::{JobSpec, JobState, LeaseRequest, QueueConfig};
use bursar_core::name::{JobKind, Queue, Tenant, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{Act, Charge, Command, Op, Request, Settle};
use bursar_core::time::Span;
use bursar_store::conformance::{CommitRequests, checked};
use bursar_store::prelude::*;
use bursar_store::{Lock, LockPolicy, PostgresOptions, PostgresStore, RequestOutcome, StoreError};
use sqlx::{Connection, PgConnection};

use crate::support::*;

fn lock(scope: &str) -> Lock {
    Lock::Scope((Tenant::built_in(), scope.try_into().unwrap()))
}

#[tokio::test]
async fn only_requests_for_locked_rows_are_blocked() {
    let (store, url) = open(1).await;
    define(&store, &["a", "b"], 1_000).await;
    let Answer::Submitted(placed) = done(one(&store, &hold("b", 10)).await) else { panic!("a hold") };
    let placed = placed.hold.unwrap().id;
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut theirs = other.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM bursar.scopes WHERE scope = 'a' FOR UPDATE").execute(&mut *theirs).await.unwrap();

    let requests = [Arc::new(post("a", 1)), Arc::new(post("b", 1)), Arc::new(post_within("new", 1, 5))];
    let outcomes = store.commit_requests(&requests, LockPolicy::Skip).await.unwrap();
    assert!(matches!(outcomes[0], RequestOutcome::Blocked(_)), "{outcomes:?}");
    assert!(matches!(outcomes[1], RequestOutcome::Answered(Ok(_))), "{outcomes:?}");
    assert!(matches!(outcomes[2], RequestOutcome::Answered(Ok(_))), "{outcomes:?}");

    sqlx::query("SELECT 1 FROM bursar.holds FOR UPDATE").execute(&mut *theirs).await.unwrap();
    let requests = [Arc::new(Op::Release { hold: placed }.into()), Arc::new(post("b", 1))];
    let outcomes = store.commit_requests(&requests, LockPolicy::Skip).await.unwrap();
    assert!(matches!(outcomes[0], RequestOutcome::Blocked(_)), "{outcomes:?}");
    assert!(matches!(outcomes[1], RequestOutcome::Answered(Ok(_))), "{outcomes:?}");

    let short = LockPolicy::WaitFor(lock("a"), Duration::from_millis(20));
    let busy = store.commit_requests(&[Arc::new(post("a", 1))], short).await;
    assert!(matches!(busy, Err(StoreError::Busy(_))), "{busy:?}");
    theirs.rollback().await.unwrap();
    done(one(&store, &post("a", 1)).await);
}

/// A sweep skips locked holds, unless it has an idempotency key: a retry must be the same request and get the same answer.
#[tokio::test]
async fn a_keyed_sweep_does_not_skip_locked_holds() {
    let clock = clock();
    let (store, url) = open_timed(1, &clock).await;
    define(&store, &["a"], 1_000).await;
    let holds = vec![
        hold_of(&RequestOutcome::Answered(one(&store, &hold("a", 10)).await)),
        hold_of(&RequestOutcome::Answered(one(&store, &hold("a", 10)).await)),
    ];
    clock.advance(Span::from_secs(3_600));
    let keyed = Arc::new(Request::from(Op::Expire { holds: holds.clone() }).with_key(key("sweep")));
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut theirs = other.begin().await.unwrap();
    let take =
        sqlx::query("SELECT 1 FROM bursar.holds WHERE id = $1 FOR UPDATE").bind(uuid::Uuid::from_u128(holds[0].0));
    take.execute(&mut *theirs).await.unwrap();
    let outcomes = store.commit_requests(std::slice::from_ref(&keyed), LockPolicy::Skip).await.unwrap();
    assert!(matches!(outcomes[0], RequestOutcome::Blocked(_)), "{outcomes:?}");
    theirs.rollback().await.unwrap();
    assert_eq!(done(one(&store, &keyed).await), Answer::Swept { count: 2 });
    assert!(one(&store, &keyed).await.expect("the retry succeeds").replayed);
}

#[tokio::test]
async fn a_waiting_request_sees_the_balance_after_the_wait() {
    let (store, url) = open(1).await;
    define(&store, &["a"], 1_000).await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let mut theirs = conn.begin().await.unwrap();
    store.commit_in(&mut theirs, &checked(post("a", 900))).await.unwrap().unwrap();

    let store = Arc::new(store);
    let waiter = tokio::spawn({
        let store = store.clone();
        async move {
            store
                .commit_requests(&[Arc::new(post("a", 200))], LockPolicy::WaitFor(lock("a"), Duration::from_secs(30)))
                .await
        }
    });
    until_waiting(&url, 1).await;
    theirs.commit().await.unwrap();
    let outcomes = waiter.await.unwrap().unwrap();
    let [RequestOutcome::Answered(Err(Refusal::Refused(violations)))] = outcomes.as_slice() else {
        panic!("{outcomes:?}")
    };
    assert!(matches!(violations[0], Violation::Limit { available: 100, requested: 200, .. }), "{violations:?}");
}

/// Opens a connection whose transaction has locked a scope.
async fn locked(url: &str, scope: &str) -> PgConnection {
    let mut other = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql("BEGIN").execute(&mut other).await.unwrap();
    let sql = "SELECT 1 FROM bursar.scopes WHERE scope = $1 FOR UPDATE";
    sqlx::query(sql).bind(scope).execute(&mut other).await.unwrap();
    other
}

#[tokio::test]
async fn a_batch_waits_only_for_locks_later_in_the_order() {
    // Far longer than the test, so that a wait for the wrong row hangs it.
    let patient = Duration::from_secs(3_600);
    let (store, url) = open_with(1, PostgresOptions { key_patience: patient, ..PostgresOptions::default() }).await;
    define(&store, &["a", "b"], 1_000).await;
    let store = Arc::new(store);
    let charges = ["a", "b"].map(|name| Charge::new(scope(name), 1)).to_vec();
    let both: Arc<Request> = Arc::new(Op::Submit(Command { charges, ..Command::default() }).into());
    let waits_for = |name: &str| {
        let (store, both, first) = (store.clone(), both.clone(), LockPolicy::WaitFor(lock(name), patient));
        tokio::spawn(async move { store.commit_requests(&[both], first).await })
    };

    let (on_a, mut on_b) = (locked(&url, "a").await, locked(&url, "b").await);
    let waiter = waits_for("b");
    until_waiting(&url, 1).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut on_b).await.unwrap();
    // The batch gets the lock on `b`, must not wait for `a`, and reports that lock while it is still taken.
    let outcomes = waiter.await.unwrap().unwrap();
    assert!(matches!(outcomes.as_slice(), [RequestOutcome::Blocked(locks)] if *locks == [lock("a")]), "{outcomes:?}");
    done(one(&*store, &post("b", 1)).await);

    let (mut on_a, mut on_b) = (on_a, locked(&url, "b").await);
    let waiter = waits_for("a");
    until_waiting(&url, 1).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut on_a).await.unwrap();
    // The batch gets the lock on `a`, and waits for `b`.
    until_locked(&url, "a").await;
    until_waiting(&url, 1).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut on_b).await.unwrap();
    let outcomes = waiter.await.unwrap().unwrap();
    assert!(matches!(outcomes.as_slice(), [RequestOutcome::Answered(Ok(_))]), "{outcomes:?}");
}

/// Waits until a transaction has locked a scope.
async fn until_locked(url: &str, scope: &str) {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let sql = "SELECT 1 FROM bursar.scopes WHERE scope = $1 FOR UPDATE SKIP LOCKED";
    while sqlx::query(sql).bind(scope).fetch_optional(&mut conn).await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_key_of_an_open_transaction_blocks_only_its_request() {
    let (store, url) = open(1).await;
    define(&store, &["a", "b"], 1_000_000).await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let mut theirs = conn.begin().await.unwrap();
    store.commit_in(&mut theirs, &checked(post("b", 5).with_key(key("mine")))).await.unwrap().unwrap();

    let mut requests: Vec<_> = (0..8).map(|n| Arc::new(post("a", 1).with_key(key(&format!("k{n}"))))).collect();
    // The other transaction has locked its scope too, so this request has the same key on another scope.
    requests[5] = Arc::new(post("a", 5).with_key(key("mine")));
    let outcomes = store.commit_requests(&requests, LockPolicy::Skip).await.unwrap();
    for (n, outcome) in outcomes.iter().enumerate() {
        match outcome {
            RequestOutcome::Blocked(_) => assert_eq!(n, 5),
            RequestOutcome::Answered(Ok(_)) => assert_ne!(n, 5),
            other => panic!("{n}: {other:?}"),
        }
    }
    theirs.commit().await.unwrap();
    let reused = one(&store, &requests[5]).await;
    assert!(matches!(reused, Err(Refusal::KeyReused { .. })), "{reused:?}");
    let replayed = one(&store, &post("b", 5).with_key(key("mine"))).await.unwrap();
    assert!(replayed.replayed);
}

/// Enqueues and cancels a job.
async fn cancelled(store: &PostgresStore) -> JobId {
    let Answer::Submitted(submitted) = done(one(store, &job("a")).await) else { panic!("a job") };
    let id = submitted.jobs[0].id;
    done(one(store, &act(Act::Cancel, id)).await);
    id
}

fn act(act: Act, id: JobId) -> Request {
    Op::Act { act, jobs: vec![id] }.into()
}

#[tokio::test]
async fn a_request_waits_for_the_lock_of_a_finished_job() {
    let (store, url) = open(1).await;
    let id = cancelled(&store).await;
    let store = Arc::new(store);
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut theirs = other.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM bursar.ended_jobs FOR UPDATE").execute(&mut *theirs).await.unwrap();
    let waiter = tokio::spawn({
        let (store, first) = (store.clone(), LockPolicy::WaitFor(Lock::Job(id), Duration::from_secs(3_600)));
        async move { store.commit_requests(&[Arc::new(act(Act::Retry, id))], first).await }
    });
    until_waiting(&url, 1).await;
    theirs.rollback().await.unwrap();
    let outcomes = waiter.await.unwrap().unwrap();
    assert!(matches!(outcomes.as_slice(), [RequestOutcome::Answered(Ok(_))]), "{outcomes:?}");
    assert_eq!(store.job(&Tenant::built_in(), id).await.unwrap().unwrap().life.state, JobState::Queued);
}

#[tokio::test]
async fn a_job_that_is_retried_during_the_wait_is_found() {
    let (store, url) = open(1).await;
    let id = cancelled(&store).await;
    let store = Arc::new(store);
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let mut theirs = conn.begin().await.unwrap();
    store.commit_in(&mut theirs, &checked(act(Act::Retry, id))).await.unwrap().unwrap();
    let other = tokio::spawn({
        let (store, url) = (store.clone(), url.clone());
        async move {
            let mut conn = PgConnection::connect(&url).await.unwrap();
            let mut ours = conn.begin().await.unwrap();
            let answer = store.commit_in(&mut ours, &checked(act(Act::Cancel, id))).await.unwrap();
            ours.commit().await.unwrap();
            answer
        }
    });
    until_waiting(&url, 1).await;
    theirs.commit().await.unwrap();
    let Answer::Acted { each, .. } = done(other.await.unwrap()) else { panic!("an act") };
    assert!(matches!(each.as_slice(), [Ok(_)]), "{each:?}");
    assert_eq!(store.job(&Tenant::built_in(), id).await.unwrap().unwrap().life.state, JobState::Cancelled);
}

#[tokio::test]
async fn an_uncommitted_queue_change_blocks_only_changes_of_that_queue() {
    let (store, url) = open(1).await;
    define(&store, &["a"], 1_000).await;
    let pause = || -> Request { Op::PauseQueue { queue: Queue::new("q").unwrap(), paused: true }.into() };
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let mut theirs = conn.begin().await.unwrap();
    store.commit_in(&mut theirs, &checked(pause())).await.unwrap().unwrap();

    let requests = [Arc::new(post("a", 1)), Arc::new(pause()), Arc::new(post("a", 2))];
    let outcomes = store.commit_requests(&requests, LockPolicy::Skip).await.unwrap();
    assert!(
        matches!(&outcomes[1], RequestOutcome::Failed(error) if matches!(**error, StoreError::Busy(_))),
        "{outcomes:?}"
    );
    for index in [0, 2] {
        assert!(matches!(outcomes[index], RequestOutcome::Answered(Ok(_))), "{outcomes:?}");
    }
    theirs.rollback().await.unwrap();
    done(one(&store, &pause()).await);
}

#[tokio::test]
async fn a_job_skipped_as_locked_can_be_leased_in_the_same_batch() {
    let options = PostgresOptions { key_patience: Duration::from_secs(60), ..PostgresOptions::default() };
    let (store, url) = open_with(1, options).await;
    define(&store, &["a"], 1_000).await;
    let spec = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("k").unwrap(), Payload::default());
    let charges = vec![Charge::new(scope("a"), 10)];
    let held = Command { charges, settle: Settle::Job, jobs: vec![spec], ..Command::default() };
    let Answer::Submitted(placed) = done(one(&store, &Op::Submit(held).into()).await) else { panic!("a job") };
    let job = placed.jobs[0].id;
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut theirs = other.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM bursar.jobs FOR UPDATE").execute(&mut *theirs).await.unwrap();

    // The batch reads queue settings after the job of the first request and before the jobs that can be leased. The barrier stops it
    // there.
    let barrier = Barrier::before("bursar.queues", "INTO bursar.queues", &url).await;
    let (queue, worker) = (Queue::new("q").unwrap(), WorkerName::new("w").unwrap());
    let lease = LeaseRequest { queues: vec![queue], kinds: Vec::new(), capacity: 1, lease: None, worker };
    let requests: Vec<Arc<Request>> = vec![
        Arc::new(Op::Act { act: Act::Cancel, jobs: vec![job] }.into()),
        Arc::new(Op::DefineQueue { queue: Queue::new("other").unwrap(), config: QueueConfig::default() }.into()),
        Arc::new(Op::Lease(lease).into()),
    ];
    let store = Arc::new(store);
    let late = tokio::spawn({
        let store = store.clone();
        async move { store.commit_requests(&requests, LockPolicy::Skip).await }
    });
    until_waiting(&url, 1).await;
    theirs.rollback().await.unwrap();
    barrier.lift().await;
    let outcomes = late.await.expect("it does not panic").unwrap();
    assert!(matches!(outcomes[0], RequestOutcome::Blocked(_)), "{outcomes:?}");
    assert!(matches!(outcomes[1], RequestOutcome::Answered(Ok(_))), "{outcomes:?}");
    let RequestOutcome::Answered(Ok(leased)) = &outcomes[2] else { panic!("{outcomes:?}") };
    assert!(matches!(&leased.answer, Answer::Leased(leased) if leased.jobs.len() == 1), "{leased:?}");
    done(one(&*store, &Op::Act { act: Act::Cancel, jobs: vec![job] }.into()).await);
    let report = store.verify().await.unwrap();
    assert!(report.is_ok(), "{:#?}", report.violations);
}
