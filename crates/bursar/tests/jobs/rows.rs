//! A worker's own rows, the end of its job and what the job cost commit together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bursar::{Bursar, Error, Failure, JobSpec, JobState, Payload, Transaction, Usage};

use crate::home::{balance, budget, enqueue_held, job, lease_one};

#[tokio::test]
async fn rows_job_and_cost_commit_together_or_not_at_all_on_sqlite() {
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
    // Who has lost the lease writes nothing of its own either.
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
async fn rows_job_and_cost_commit_together_or_not_at_all_on_postgres() {
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

/// A file has one writer: whoever comes second waits, and finds what the first has left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_of_two_transactions_with_one_job_key_waits_for_the_first_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("b.db").display());
    let (one, two) = (Bursar::open(&url).await.unwrap(), Bursar::open(&url).await.unwrap());
    for commits in [true, false] {
        let key = if commits { "once" } else { "again" };
        let spec = JobSpec { idempotency_key: Some(key.try_into().unwrap()), ..job("q", "work") };
        let (is_open, opened) = tokio::sync::oneshot::channel();
        let (go_on, told) = std::sync::mpsc::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let first = tokio::spawn({
            let (one, spec, ended) = (one.clone(), spec.clone(), ended.clone());
            async move {
                let work = move |tx: &mut Transaction<'_, '_>| {
                    let enqueued = tx.enqueue(spec)?;
                    is_open.send(enqueued).unwrap();
                    told.recv().unwrap();
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
        go_on.send(()).unwrap();
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
