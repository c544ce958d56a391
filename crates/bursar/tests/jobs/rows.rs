//! A worker's own rows, the end of its job and the job's cost commit together or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bursar::{
    Act, BlobSpec, Bursar, Error, Event, Failure, JobId, JobSpec, JobState, ManualClock, Op, Payload, Refusal, Request,
    Sha256Digest, Time, Transaction, Usage,
};

use crate::home::{balance, budget, enqueue_held, job, lease_one, open, secs};

#[tokio::test]
async fn rows_job_and_cost_commit_together_on_sqlite() {
    let bursar = Bursar::options("sqlite::memory:").upkeep(None).open().await.unwrap();
    bursar.ledger().define("team", budget(100)).await.unwrap();
    let create = "CREATE TABLE videos (job TEXT PRIMARY KEY)";
    let made = bursar.transaction(move |tx| tx.connection().execute(create, []).map(drop).map_err(Wrong::from)).await;
    made.unwrap();
    let id = enqueue_held(&bursar, "q", "team", 40).await;
    let leased = lease_one(&bursar, "q").await;
    for works in [false, true] {
        let fence = leased.life.fence;
        let done = bursar.transaction(move |tx| {
            tx.connection().execute("INSERT INTO videos VALUES (?1)", [id.to_string()])?;
            let usage = Some(vec![Usage { scope: None, amount: 25 }]);
            let finished = tx.complete(id, fence, Payload::of(&"done").unwrap(), usage)?;
            assert_eq!(finished.state, JobState::Succeeded);
            let next = tx.enqueue(job("q", "follow"))?;
            assert!(next.created);
            if works { Ok(()) } else { Err(Wrong::Changed) }
        });
        assert_eq!(done.await.is_ok(), works);
        let rows = bursar.transaction(|tx| {
            Ok::<i64, Wrong>(tx.connection().query_row("SELECT count(*) FROM videos", [], |row| row.get(0))?)
        });
        let expected = if works { (1, (25, 0), JobState::Succeeded) } else { (0, (0, 40), JobState::Leased) };
        let state = bursar.jobs().find(id).await.unwrap().unwrap().life.state;
        assert_eq!((rows.await.unwrap(), balance(&bursar, "team").await, state), expected);
    }
    // If the lease is lost, the worker's rows are rolled back too.
    let late = bursar.transaction(move |tx| {
        tx.connection().execute("INSERT INTO videos VALUES ('late')", [])?;
        tx.fail(id, leased.life.fence, Failure::new("late", "x"))?;
        Ok::<(), Wrong>(())
    });
    assert!(matches!(late.await, Err(Wrong::Bursar(error)) if error.is_lease_lost()));
    assert_eq!(lease_one(&bursar, "q").await.kind.as_str(), "follow");
    bursar.close().await;
}

#[tokio::test]
async fn rows_job_and_cost_commit_together_on_postgres() {
    let url = bursar_testkit::fresh_database();
    let bursar = Bursar::options(&url).upkeep(None).open().await.unwrap();
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    sqlx::query("CREATE TABLE videos (job text PRIMARY KEY)").execute(&pool).await.unwrap();
    bursar.ledger().define("team", budget(100)).await.unwrap();
    let id = enqueue_held(&bursar, "q", "team", 40).await;
    let fence = lease_one(&bursar, "q").await.life.fence;
    for works in [false, true] {
        let mut tx = pool.begin().await.unwrap();
        sqlx::query("INSERT INTO videos VALUES ($1)").bind(id.to_string()).execute(&mut *tx).await.unwrap();
        let usage = Some(vec![Usage { scope: None, amount: 25 }]);
        let done = bursar.jobs().complete_in(&mut tx, id, fence, Payload::default(), usage).await.unwrap();
        assert_eq!(done.0.state, JobState::Succeeded);
        let next = bursar.jobs().enqueue_in(&mut tx, job("q", "follow")).await.unwrap();
        if works {
            tx.commit().await.unwrap();
            bursar.announce([&done.1, &next.1]);
        } else {
            tx.rollback().await.unwrap();
        }
        let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM videos").fetch_one(&pool).await.unwrap();
        let expected = if works { (1, (25, 0), JobState::Succeeded) } else { (0, (0, 40), JobState::Leased) };
        let state = bursar.jobs().find(id).await.unwrap().unwrap().life.state;
        assert_eq!((rows, balance(&bursar, "team").await, state), expected);
    }
    let mut tx = pool.begin().await.unwrap();
    let late = bursar.jobs().fail_in(&mut tx, id, fence, Failure::new("late", "x")).await.unwrap_err();
    assert!(late.is_lease_lost());
    tx.rollback().await.unwrap();
    assert_eq!(lease_one(&bursar, "q").await.kind.as_str(), "follow");
    bursar.close().await;
}

#[tokio::test]
async fn a_job_that_completes_in_the_library_names_the_blobs_it_made() {
    let bursar = Bursar::options("sqlite::memory:").upkeep(None).open().await.unwrap();
    let records = bursar.blob_records();
    let mut made = Vec::new();
    for byte in [1, 2] {
        let spec = BlobSpec::new("media".try_into().unwrap(), "local".try_into().unwrap());
        let blob = records.start(spec, Duration::from_secs(60), None).await.unwrap().blob;
        made.push(records.store(blob, 10, Sha256Digest([byte; 32])).await.unwrap().blob);
    }
    for (blob, in_transaction) in made.clone().into_iter().zip([false, true]) {
        let id = bursar.jobs().enqueue(job("q", "x")).await.unwrap().id;
        let fence = lease_one(&bursar, "q").await.life.fence;
        if in_transaction {
            let done = bursar.transaction(move |tx| {
                tx.complete_with_blobs(id, fence, Payload::default(), None, vec![blob]).map(drop).map_err(Wrong::from)
            });
            done.await.unwrap();
        } else {
            bursar.jobs().complete_with_blobs(id, fence, Payload::default(), None, vec![blob]).await.unwrap();
            let repeated = bursar.jobs().complete_with_blobs(id, fence, Payload::default(), None, made.clone()).await;
            assert!(matches!(repeated, Err(Error::Refused(Refusal::BlobsRecorded { .. }))), "{repeated:?}");
        }
        assert_eq!(bursar.jobs().find(id).await.unwrap().unwrap().life.blobs, [blob]);
        assert_eq!(records.find(blob).await.unwrap().unwrap().jobs, 1);
    }
    bursar.close().await;
}

/// How a transaction ends after it found that the lease is lost.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// It is rolled back with the error, as by `?`.
    RollBack,
    /// It panics.
    Panic,
    /// It commits despite the error.
    Commit,
    /// It is rolled back, and the error is ignored.
    Forget,
}

/// Returns a job whose first lease has expired and whose second one runs, with the fences of both.
async fn lost_and_running(bursar: &Bursar, clock: &ManualClock) -> (JobId, u64, u64) {
    bursar.ledger().define("team", budget(100)).await.unwrap();
    let id = enqueue_held(bursar, "q", "team", 40).await;
    let first = lease_one(bursar, "q").await.life.fence;
    clock.advance(secs(60));
    assert_eq!(bursar.tend(10).await.unwrap().rescued, 1);
    clock.advance(secs(60));
    (id, first, lease_one(bursar, "q").await.life.fence)
}

/// Asserts that the usage of the lost lease is charged once and flagged, and that the other lease is unchanged.
async fn assert_billed_once(bursar: &Bursar, id: JobId, lost: u64, running: u64) {
    let expected: [(u64, bool, i64); 1] = [(lost, true, 25)];
    assert_eq!(bills(bursar, id).await, expected);
    let job = bursar.jobs().find(id).await.unwrap().unwrap();
    assert_eq!((job.life.state, job.life.fence, job.life.lease.is_some()), (JobState::Leased, running, true));
    assert_eq!((balance(bursar, "team").await, job.total_cost()), ((25, 40), 25));
    // Also if it is reported again.
    let again = bursar.jobs().complete(id, lost, Payload::default(), spent(25)).await.unwrap_err();
    assert!(again.is_lease_lost());
    assert_eq!(bills(bursar, id).await, expected);
    bursar.jobs().complete(id, running, Payload::default(), spent(30)).await.unwrap();
    assert_eq!(balance(bursar, "team").await, (55, 0));
    assert!(bursar.verify().await.unwrap().is_ok());
}

/// Returns the charges outside the hold of a job: fence, whether the lease was lost, and units.
async fn bills(bursar: &Bursar, id: JobId) -> Vec<(u64, bool, i64)> {
    let history = bursar.jobs().history(id, 100).await.unwrap();
    let billed = history.iter().filter_map(|event| match &event.event {
        Event::JobBilled { fence, charges, lost, .. } => Some((*fence, *lost, charges.iter().map(|c| c.amount).sum())),
        _ => None,
    });
    billed.collect()
}

fn spent(amount: i64) -> Option<Vec<Usage>> {
    Some(vec![Usage { scope: None, amount }])
}

#[tokio::test]
async fn usage_of_a_lost_lease_is_charged_once_on_sqlite() {
    for then in [Then::RollBack, Then::Panic, Then::Commit, Then::Forget] {
        let (bursar, clock) = open("sqlite").await;
        let (id, lost, running) = lost_and_running(&bursar, &clock).await;
        let done = bursar.transaction(move |tx| {
            let error = tx.complete(id, lost, Payload::default(), spent(25)).unwrap_err();
            match then {
                Then::RollBack => Err(Wrong::Bursar(error)),
                Then::Panic => panic!("the worker panics"),
                Then::Commit => Ok(error.is_lease_lost()),
                Then::Forget => Err(Wrong::Changed),
            }
        });
        match (then, done.await) {
            (Then::RollBack, Err(Wrong::Bursar(error))) => assert!(error.is_lease_lost()),
            (Then::Panic, Err(Wrong::Bursar(error))) => assert!(!error.is_lease_lost(), "{error}"),
            (Then::Commit, Ok(true)) | (Then::Forget, Err(Wrong::Changed)) => {}
            (then, done) => panic!("{then:?} returned {done:?}"),
        }
        // The usage is charged before the transaction returns.
        assert_billed_once(&bursar, id, lost, running).await;
        bursar.close().await;
    }
}

/// A cancelled caller drops its future, and the closure on the writer's thread runs on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_of_a_lost_lease_is_charged_after_cancellation_on_sqlite() {
    let (bursar, clock) = open("sqlite").await;
    let (id, lost, running) = lost_and_running(&bursar, &clock).await;
    let (is_open, opened) = tokio::sync::oneshot::channel();
    let (send_resume, resume) = std::sync::mpsc::channel::<()>();
    let caller = tokio::spawn({
        let bursar = bursar.clone();
        async move {
            let work = move |tx: &mut Transaction<'_, '_>| {
                is_open.send(()).unwrap();
                resume.recv().unwrap();
                tx.complete(id, lost, Payload::default(), spent(25)).map(drop).map_err(Wrong::from)
            };
            bursar.transaction(work).await.is_err()
        }
    });
    opened.await.unwrap();
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    let mut notices = bursar.listen();
    send_resume.send(()).unwrap();
    while notices.next().await.unwrap().unwrap().event().kind() != "job.billed" {}
    assert_billed_once(&bursar, id, lost, running).await;
    bursar.close().await;
}

#[tokio::test]
async fn usage_of_a_lost_lease_is_charged_once_on_postgres() {
    for then in [Then::RollBack, Then::Commit, Then::Forget] {
        let url = bursar_testkit::fresh_database();
        let clock = Arc::new(ManualClock::at(Time::from_micros(1_700_000_000_000_000)));
        let bursar = Bursar::options(&url).upkeep(None).clock(clock.clone()).open().await.unwrap();
        let pool = sqlx::PgPool::connect(&url).await.unwrap();
        let (id, lost, running) = lost_and_running(&bursar, &clock).await;
        let mut notices = bursar.listen();
        let mut tx = pool.begin().await.unwrap();
        let error = bursar.jobs().complete_in(&mut tx, id, lost, Payload::default(), spent(25)).await.unwrap_err();
        assert!(error.is_lease_lost() && matches!(error, Error::LeaseLost(_)), "{error:?}");
        match then {
            Then::RollBack => {
                tx.rollback().await.unwrap();
                assert_eq!(bills(&bursar, id).await, []);
                error.bill().await.unwrap();
            }
            Then::Commit => {
                tx.commit().await.unwrap();
                error.bill().await.unwrap();
            }
            // The error is ignored: a background task charges the usage once the transaction has released its locks.
            Then::Forget => {
                drop(error);
                tx.rollback().await.unwrap();
                while notices.next().await.unwrap().unwrap().event().kind() != "job.billed" {}
            }
            Then::Panic => unreachable!("a transaction of the caller's has no closure"),
        }
        assert_billed_once(&bursar, id, lost, running).await;
        bursar.close().await;
    }
}

/// A lease that the transaction itself took back is valid again after a rollback, and only its worker ends it.
#[tokio::test]
async fn a_lease_restored_by_a_rollback_is_not_ended() {
    let (bursar, clock) = open("sqlite").await;
    bursar.ledger().define("team", budget(100)).await.unwrap();
    let id = enqueue_held(&bursar, "q", "team", 40).await;
    let fence = lease_one(&bursar, "q").await.life.fence;
    clock.advance(secs(60));
    let rescue = Request::from(Op::Act { act: Act::Rescue, jobs: vec![id] });
    let done = bursar.transaction(move |tx| {
        tx.request(&rescue)?;
        let error = tx.complete(id, fence, Payload::default(), spent(25)).unwrap_err();
        Err::<(), Wrong>(Wrong::Bursar(error))
    });
    assert!(matches!(done.await, Err(Wrong::Bursar(error)) if error.is_lease_lost()));
    assert_eq!((bills(&bursar, id).await, balance(&bursar, "team").await), (Vec::new(), (0, 40)));
    let done = bursar.jobs().complete(id, fence, Payload::default(), spent(25)).await.unwrap();
    assert_eq!((done.state, balance(&bursar, "team").await), (JobState::Succeeded, (25, 0)));
    bursar.close().await;
}

/// A file has one writer: the second transaction waits, and finds what the first has committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_transaction_with_a_job_key_waits_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("b.db").display());
    let (one, two) = (Bursar::open(&url).await.unwrap(), Bursar::open(&url).await.unwrap());
    for commits in [true, false] {
        let key = if commits { "once" } else { "again" };
        let spec = JobSpec { idempotency_key: Some(key.try_into().unwrap()), ..job("q", "work") };
        let (is_open, opened) = tokio::sync::oneshot::channel();
        let (send_resume, resume) = std::sync::mpsc::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let first = tokio::spawn({
            let (one, spec, ended) = (one.clone(), spec.clone(), ended.clone());
            async move {
                let work = move |tx: &mut Transaction<'_, '_>| {
                    let enqueued = tx.enqueue(spec)?;
                    is_open.send(enqueued).unwrap();
                    resume.recv().unwrap();
                    ended.store(true, Ordering::SeqCst);
                    if commits { Ok(()) } else { Err(Wrong::Changed) }
                };
                one.transaction(work).await.is_ok()
            }
        });
        let first_job = opened.await.unwrap();
        let second = tokio::spawn({
            let (two, ended) = (two.clone(), ended.clone());
            async move { (two.jobs().enqueue(spec).await.unwrap(), ended.load(Ordering::SeqCst)) }
        });
        tokio::task::yield_now().await;
        send_resume.send(()).unwrap();
        assert_eq!(first.await.unwrap(), commits);
        let (second_job, waited) = second.await.unwrap();
        assert!(first_job.created && waited);
        assert_eq!((second_job.created, second_job.id == first_job.id), (!commits, commits));
        assert_eq!(one.jobs().find(first_job.id).await.unwrap().is_some(), commits);
    }
    one.close().await;
    two.close().await;
}

#[derive(Debug)]
enum Wrong {
    Bursar(Error),
    Sql,
    Changed,
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Wrong {
        Wrong::Bursar(error)
    }
}

impl From<bursar::rusqlite::Error> for Wrong {
    fn from(_: bursar::rusqlite::Error) -> Wrong {
        Wrong::Sql
    }
}
