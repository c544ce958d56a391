//! The number of statements and bytes of write-ahead log that a batch takes, whatever its size.

use std::sync::Arc;

use bursar_core::answer::Answer;
use bursar_core::id::JobId;
use bursar_core::job::{End, Finish, HeartbeatItem, JobError, JobSpec, LeaseRequest};
use bursar_core::name::{JobKind, Queue, Tenant, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::request::{Charge, Command, Op, Request, Settle};
use bursar_store::conformance::CommitRequests;
use bursar_store::prelude::*;
use bursar_store::{LockPolicy, PostgresOptions, PostgresStore, RequestOutcome};

use crate::support::*;

/// The most statements of a batch of commands.
const STATEMENTS_MAX: i64 = 15;
/// The most statements of a batch of leases, heartbeats or completions.
const WORK_STATEMENTS_MAX: i64 = 12;
/// The most bytes of write-ahead log for each command with its job.
const WAL_MAX: i64 = 3_000;
/// The most bytes of write-ahead log for each job that is completed and settles its hold.
const WORK_WAL_MAX: i64 = 2_000;
/// The number of workers in a batch.
const WORKERS: usize = 50;
/// The number of jobs that each worker leases.
const EACH: usize = 10;

#[tokio::test]
async fn five_hundred_commands_take_few_statements_and_no_scan() {
    let (store, url) = open(1).await;
    // Every connection flushes its statistics when it writes to the journal.
    let flush = "CREATE FUNCTION flush_stats() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM pg_stat_force_next_flush(); RETURN NULL; END $$;
        CREATE TRIGGER flush_stats AFTER INSERT ON bursar.journal FOR EACH STATEMENT EXECUTE FUNCTION flush_stats()";
    sqlx::raw_sql(flush).execute(store.pool()).await.unwrap();
    let scopes: Vec<String> = (0..500).map(|n| format!("s{n:03}")).collect();
    define(&store, &scopes.iter().map(String::as_str).collect::<Vec<_>>(), 1_000_000).await;
    sqlx::raw_sql("CREATE EXTENSION pg_stat_statements").execute(store.pool()).await.unwrap();
    let mut batches = Vec::new();
    for n in 0..3 {
        let mut batch = Vec::new();
        for scope in &scopes {
            let (_, redemption) = mint(&store).await;
            batch.push(Arc::new(full_command(scope, 1, redemption, &format!("{scope}/{n}"))));
        }
        batches.push(batch);
    }
    // The first batch runs without planner statistics, and its plans were made for small tables.
    done_all(store.commit_requests(&batches[0], LockPolicy::Skip).await);
    let before = counters(&store, &url).await;
    done_all(store.commit_requests(&batches[1], LockPolicy::Skip).await);
    let after = counters(&store, &url).await;
    let statements = after.statements - before.statements;
    println!("statements for a batch of 500 commands: {statements}");
    let wal = (after.wal - before.wal) / 500;
    println!("WAL bytes for each command: {wal}");
    assert!(statements <= STATEMENTS_MAX && wal <= WAL_MAX, "{statements} statements, {wal} bytes of WAL a command");
    assert_eq!(after.seq_scans, before.seq_scans, "no sequential scan");

    // The same commands again are answered from the journal. Settling their holds takes as few statements.
    let replayed = store.commit_requests(&batches[1], LockPolicy::Skip).await.unwrap();
    let holds: Vec<_> = replayed.iter().map(hold_of).collect();
    let before = counters(&store, &url).await;
    let commits = holds.iter().map(|hold| Arc::new(Op::Commit { hold: *hold, actual: Default::default() }.into()));
    done_all(store.commit_requests(&commits.collect::<Vec<_>>(), LockPolicy::Skip).await);
    let after = counters(&store, &url).await;
    assert!(after.statements - before.statements <= STATEMENTS_MAX);
    assert_eq!(after.seq_scans, before.seq_scans, "no sequential scan");
    assert!(store.verify().await.unwrap().is_ok());
}

/// Commits requests in one batch. Returns their answers, the number of statements, and the bytes of write-ahead log.
async fn measure(store: &PostgresStore, url: &str, ops: Vec<Op>) -> (Vec<Answer>, i64, i64) {
    let requests: Vec<_> = ops.into_iter().map(|op| Arc::new(Request::from(op))).collect();
    let before = counters(store, url).await;
    let outcomes = store.commit_requests(&requests, LockPolicy::Skip).await.unwrap();
    let after = counters(store, url).await;
    assert_eq!(after.seq_scans, before.seq_scans, "no sequential scan");
    let answers = outcomes.into_iter().map(|outcome| match outcome {
        RequestOutcome::Answered(Ok(outcome)) => outcome.answer,
        other => panic!("expected a success: {other:?}"),
    });
    (answers.collect(), after.statements - before.statements, after.wal - before.wal)
}

fn lease(worker: usize) -> Op {
    let (queues, worker) = (vec![Queue::new("q").unwrap()], WorkerName::new(format!("w{worker}")).unwrap());
    Op::Lease(LeaseRequest { queues, kinds: Vec::new(), capacity: EACH.try_into().unwrap(), lease: None, worker })
}

/// A command with a job that owns its hold.
fn held() -> Arc<Request> {
    let job = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("work").unwrap(), Payload::default());
    let (charges, jobs) = (vec![Charge::new(scope("team"), 1)], vec![job]);
    Arc::new(Op::Submit(Command { charges, jobs, settle: Settle::Job, ..Command::default() }).into())
}

/// Returns the leases of each worker.
fn leases(answers: &[Answer]) -> Vec<Vec<(JobId, u64)>> {
    let each = answers.iter().map(|answer| match answer {
        Answer::Leased(leased) => leased.jobs.iter().map(|job| (job.id, job.life.fence)).collect(),
        other => panic!("expected leases: {other:?}"),
    });
    each.collect()
}

#[tokio::test]
async fn batches_of_leases_heartbeats_and_completions_take_few_statements() {
    let (store, url) = open_with(1, PostgresOptions { connections: 1, ..PostgresOptions::default() }).await;
    define(&store, &["team"], 1_000_000).await;
    sqlx::raw_sql("CREATE EXTENSION pg_stat_statements").execute(store.pool()).await.unwrap();
    for _ in 0..3 {
        let batch: Vec<_> = (0..WORKERS * EACH).map(|_| held()).collect();
        done_all(store.commit_requests(&batch, LockPolicy::Skip).await);
    }
    let mut seen = Vec::new();
    // The first round prepares the statements.
    for workers in [WORKERS, 1, WORKERS] {
        let (answers, to_lease, _) = measure(&store, &url, (0..workers).map(lease).collect()).await;
        let leases = leases(&answers);
        assert!(leases.iter().all(|jobs| jobs.len() == EACH), "each worker gets as many jobs as it requests");
        let beats = leases.iter().map(|jobs| Op::Heartbeat {
            beats: jobs.iter().map(|(job, fence)| HeartbeatItem::new(*job, *fence)).collect(),
        });
        let (_, to_beat, _) = measure(&store, &url, beats.collect()).await;
        let end = || End::Complete { result: Payload::default(), usage: None, blobs: Vec::new() };
        let ends = leases.iter().map(|jobs| Op::Finish {
            items: jobs.iter().map(|(job, fence)| Finish { job: *job, fence: *fence, end: end() }).collect(),
        });
        let (answers, to_end, wal) = measure(&store, &url, ends.collect()).await;
        let ended = |answer: &Answer| matches!(answer, Answer::Finished(all) if all.iter().all(Result::is_ok));
        assert!(answers.iter().all(ended), "each job is completed");
        let wal = wal / i64::try_from(workers * EACH).unwrap();
        println!(
            "{workers} workers: {to_lease} statements to lease, {to_beat} to beat, {to_end} to end; {wal} bytes of WAL an end"
        );
        assert!([to_lease, to_beat, to_end].iter().all(|statements| *statements <= WORK_STATEMENTS_MAX));
        seen.push((to_lease, to_beat, to_end, wal));
    }
    let (one, many) = (seen[1], seen[2]);
    assert_eq!((one.0, one.1, one.2), (many.0, many.1, many.2), "fifty workers take as many statements as one");
    assert!(many.3 <= WORK_WAL_MAX, "bytes of WAL a job that is completed and settled: {}", many.3);
    assert!(store.verify().await.unwrap().is_ok());
}

#[tokio::test]
async fn jobs_that_die_take_as_few_statements_and_are_counted_by_their_error() {
    let (store, url) = open_with(1, PostgresOptions { connections: 1, ..PostgresOptions::default() }).await;
    define(&store, &["team"], 1_000_000).await;
    sqlx::raw_sql("CREATE EXTENSION pg_stat_statements").execute(store.pool()).await.unwrap();
    let batch: Vec<_> = (0..3 * EACH).map(|_| held()).collect();
    done_all(store.commit_requests(&batch, LockPolicy::Skip).await);
    // The first round prepares the statements.
    for _ in 0..3 {
        let (answers, ..) = measure(&store, &url, vec![lease(0)]).await;
        let leased = leases(&answers).remove(0);
        let die = |n: usize| {
            let error = JobError::new(["timeout", "refused"][n % 2], "");
            End::Fail { error, retryable: false, retry_after: None, usage: None }
        };
        let ends = leased.iter().enumerate().map(|(n, (job, fence))| Finish { job: *job, fence: *fence, end: die(n) });
        let (_, statements, _) = measure(&store, &url, vec![Op::Finish { items: ends.collect() }]).await;
        println!("{statements} statements for {EACH} jobs that die");
        assert!(statements <= WORK_STATEMENTS_MAX, "{statements} statements");
    }
    let before = counters(&store, &url).await;
    let groups = store.list_dead_groups(&Tenant::built_in(), None, None, 10).await.unwrap();
    let after = counters(&store, &url).await;
    assert_eq!(groups.iter().map(|group| group.count).collect::<Vec<_>>(), [15, 15]);
    assert_eq!(after.statements - before.statements, 1, "to list the groups");
    assert!(store.verify().await.unwrap().is_ok());
}

#[tokio::test]
async fn figures_of_many_queues_take_as_many_statements_as_those_of_one() {
    let (store, url) = open_with(1, PostgresOptions { connections: 1, ..PostgresOptions::default() }).await;
    let queues: Vec<Queue> = (0..100).map(|n| Queue::new(format!("q{n:02}")).unwrap()).collect();
    for queue in &queues {
        let jobs = vec![JobSpec::new(queue.clone(), JobKind::new("work").unwrap(), Payload::default())];
        done(one(&store, &Op::Submit(Command { jobs, ..Command::default() }).into()).await);
    }
    sqlx::raw_sql("CREATE EXTENSION pg_stat_statements").execute(store.pool()).await.unwrap();
    let tenant = Tenant::built_in();
    for many in [1, 100] {
        let before = counters(&store, &url).await;
        let listed = store.list_queues(&tenant, None, many).await.unwrap();
        let names: Vec<Queue> = listed.into_iter().map(|(queue, _)| queue).collect();
        assert_eq!(names, queues[..many]);
        let keys: Vec<_> = names.into_iter().map(|name| (tenant.clone(), name)).collect();
        let figures = store.figures(&keys, 0).await.unwrap();
        let after = counters(&store, &url).await;
        assert!(figures.iter().all(|figures| figures.counts.len() == 2 && figures.oldest_waiting.is_some()));
        let statements = after.statements - before.statements;
        println!("{statements} statements to list {many} queues with their figures");
        assert!(
            statements <= 7,
            "{statements}: the queues, the clock, the counts, the oldest jobs; the transaction of the last three"
        );
    }
}
