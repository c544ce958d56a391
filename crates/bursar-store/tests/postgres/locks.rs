//! Rows and names that somebody else has locked.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::answer::Answer;
use bursar_core::id::JobId;
use bursar_core::job::{JobSpec, JobState, LeaseAsk, QueueConfig};
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
async fn what_somebody_else_has_locked_is_blocked_and_nothing_else_is() {
    let (store, url) = open(1).await;
    define(&store, &["a", "b"], 1_000).await;
    let Answer::Submitted(placed) = done(one(&store, &hold("b", 10)).await) else { panic!("a hold") };
    let placed = placed.hold.unwrap().id;
    let mut stranger = PgConnection::connect(&url).await.unwrap();
    let mut theirs = stranger.begin().await.unwrap();
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

/// Upkeep passes over what is locked, but not under a key: who repeats it is to get the answer, and not to hear that it asks for
/// something else.
#[tokio::test]
async fn what_has_a_key_is_done_whole_or_not_yet() {
    let clock = clock();
    let (store, url) = open_timed(1, &clock).await;
    define(&store, &["a"], 1_000).await;
    let holds = vec![
        hold_of(&RequestOutcome::Answered(one(&store, &hold("a", 10)).await)),
        hold_of(&RequestOutcome::Answered(one(&store, &hold("a", 10)).await)),
    ];
    clock.advance(Span::from_secs(3_600));
    let keyed = Arc::new(Request::from(Op::Expire { holds: holds.clone() }).with_key(key("sweep")));
    let mut stranger = PgConnection::connect(&url).await.unwrap();
    let mut theirs = stranger.begin().await.unwrap();
    let take =
        sqlx::query("SELECT 1 FROM bursar.holds WHERE id = $1 FOR UPDATE").bind(uuid::Uuid::from_u128(holds[0].0));
    take.execute(&mut *theirs).await.unwrap();
    let outcomes = store.commit_requests(std::slice::from_ref(&keyed), LockPolicy::Skip).await.unwrap();
    assert!(matches!(outcomes[0], RequestOutcome::Blocked(_)), "{outcomes:?}");
    theirs.rollback().await.unwrap();
    assert_eq!(done(one(&store, &keyed).await), Answer::Swept { count: 2 });
    assert!(one(&store, &keyed).await.expect("the same again").replayed);
}

#[tokio::test]
async fn a_waiter_sees_the_balance_as_it_is_after_the_wait() {
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

/// A stranger who has locked a scope.
async fn locked(url: &str, scope: &str) -> PgConnection {
    let mut stranger = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql("BEGIN").execute(&mut stranger).await.unwrap();
    let sql = "SELECT 1 FROM bursar.scopes WHERE scope = $1 FOR UPDATE";
    sqlx::query(sql).bind(scope).execute(&mut stranger).await.unwrap();
    stranger
}

#[tokio::test]
async fn whoever_has_a_row_waits_for_later_ones_and_never_for_earlier_ones() {
    // Far longer than the test: whoever waits for a row that he must not wait for does not come back from it.
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
    // It has the later row now, gives it back, and says what is in the way, while the stranger still has that.
    let outcomes = waiter.await.unwrap().unwrap();
    assert!(matches!(outcomes.as_slice(), [RequestOutcome::Blocked(locks)] if *locks == [lock("a")]), "{outcomes:?}");
    done(one(&*store, &post("b", 1)).await);

    let (mut on_a, mut on_b) = (on_a, locked(&url, "b").await);
    let waiter = waits_for("a");
    until_waiting(&url, 1).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut on_a).await.unwrap();
    // It has the earlier row now, and waits for the later one.
    until_locked(&url, "a").await;
    until_waiting(&url, 1).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut on_b).await.unwrap();
    let outcomes = waiter.await.unwrap().unwrap();
    assert!(matches!(outcomes.as_slice(), [RequestOutcome::Answered(Ok(_))]), "{outcomes:?}");
}

/// Waits until somebody has locked a scope.
async fn until_locked(url: &str, scope: &str) {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let sql = "SELECT 1 FROM bursar.scopes WHERE scope = $1 FOR UPDATE SKIP LOCKED";
    while sqlx::query(sql).bind(scope).fetch_optional(&mut conn).await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_key_about_to_be_taken_by_a_stranger_delays_only_those_who_want_it() {
    let (store, url) = open(1).await;
    define(&store, &["a", "b"], 1_000_000).await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let mut theirs = conn.begin().await.unwrap();
    store.commit_in(&mut theirs, &checked(post("b", 5).with_key(key("mine")))).await.unwrap().unwrap();

    let mut requests: Vec<_> = (0..8).map(|n| Arc::new(post("a", 1).with_key(key(&format!("k{n}"))))).collect();
    // The stranger's scope is locked as well, so this asks for the same key on another one.
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

/// A job that has ended.
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
async fn a_job_that_has_ended_is_waited_for_where_it_lies() {
    let (store, url) = open(1).await;
    let id = cancelled(&store).await;
    let store = Arc::new(store);
    let mut stranger = PgConnection::connect(&url).await.unwrap();
    let mut theirs = stranger.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM bursar.ended_jobs FOR UPDATE").execute(&mut *theirs).await.unwrap();
    let waiter = tokio::spawn({
        let (store, first) = (store.clone(), LockPolicy::WaitFor(Lock::Job(id), Duration::from_secs(3_600)));
        async move { store.commit_requests(&[Arc::new(act(Act::Retry, id))], first).await }
    });
    until_waiting(&url, 1).await;
    theirs.rollback().await.unwrap();
    let outcomes = waiter.await.unwrap().unwrap();
    assert!(matches!(outcomes.as_slice(), [RequestOutcome::Answered(Ok(_))]), "{outcomes:?}");
    assert_eq!(store.job(id).await.unwrap().unwrap().life.state, JobState::Queued);
}

#[tokio::test]
async fn a_job_that_comes_back_to_life_while_it_is_waited_for_is_found() {
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
    assert_eq!(store.job(id).await.unwrap().unwrap().life.state, JobState::Cancelled);
}

#[tokio::test]
async fn a_queue_that_a_stranger_changes_delays_only_those_who_change_it() {
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
    for place in [0, 2] {
        assert!(matches!(outcomes[place], RequestOutcome::Answered(Ok(_))), "{outcomes:?}");
    }
    theirs.rollback().await.unwrap();
    done(one(&store, &pause()).await);
}

#[tokio::test]
async fn a_job_that_is_locked_first_and_leased_then_is_blocked_for_who_named_it() {
    let options = PostgresOptions { key_patience: Duration::from_secs(60), ..PostgresOptions::default() };
    let (store, url) = open_with(1, options).await;
    define(&store, &["a"], 1_000).await;
    let spec = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("k").unwrap(), Payload::default());
    let charges = vec![Charge::new(scope("a"), 10)];
    let held = Command { charges, settle: Settle::Job, jobs: vec![spec], ..Command::default() };
    let Answer::Submitted(placed) = done(one(&store, &Op::Submit(held).into()).await) else { panic!("a job") };
    let job = placed.jobs[0].id;
    let mut stranger = PgConnection::connect(&url).await.unwrap();
    let mut theirs = stranger.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM bursar.jobs FOR UPDATE").execute(&mut *theirs).await.unwrap();

    // Between looking for the job that is named and for those that can be leased, the batch comes to what is set for queues.
    let barrier = Barrier::before("bursar.queues", "INTO bursar.queues", &url).await;
    let (queue, worker) = (Queue::new("q").unwrap(), WorkerName::new("w").unwrap());
    let lease = LeaseAsk { queues: vec![queue], kinds: Vec::new(), capacity: 1, lease: None, worker };
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
