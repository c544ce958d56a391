//! The cost of admitting and settling a hold does not grow with history. The tests count statements and rows, not time.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar_core::answer::Answer;
use bursar_core::budget::{Budget, Limit};
use bursar_core::decide::Rules;
use bursar_core::id::JobId;
use bursar_core::job::{End, Finish, FlowScopes, Job, JobSpec, LeaseRequest, QueueConfig};
use bursar_core::name::{FlowKey, JobKind, Queue, Scope, Tenant, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Act, Actual, Charge, Command, Op, Request, Settle};
use bursar_core::time::{Span, Time};
use bursar_store::conformance::CommitRequests;
use bursar_store::prelude::*;
use bursar_store::{
    JobFilter, LockPolicy, ManualClock, PostgresOptions, PostgresStore, RequestOutcome, Setup, SqliteStore, Store,
};
use bursar_testkit::SeqIds;
use sqlx::{Connection, PgConnection};

const NOON: Time = Time::from_micros(1_794_830_400_000_000);
const HISTORY: [u64; 2] = [10_000, 1_000_000];
const HOLDS: u64 = 200;

fn setup(clock: &Arc<ManualClock>) -> Setup {
    Setup {
        rules: Rules::default(),
        clock: Some(clock.clone()),
        ids: Arc::new(Mutex::new(SeqIds::new(1))),
        migrate: true,
    }
}

async fn ask(store: &dyn Store, op: Op) -> Answer {
    let outcomes = store.commit_requests(&[Arc::new(Request::from(op))], LockPolicy::Skip).await.unwrap();
    match outcomes.into_iter().next() {
        Some(RequestOutcome::Answered(Ok(outcome))) => outcome.answer,
        other => panic!("expected a success: {other:?}"),
    }
}

async fn define(store: &dyn Store) {
    let windows = ["lifetime", "rolling:3600000", "month"];
    let limits = windows.map(|window| Limit::new(1 << 40, window.parse().unwrap()));
    ask(store, Op::Define { scope: Scope::new("room").unwrap(), budget: Budget::new(limits) }).await;
}

/// Places and commits holds, and advances the clock so that postings leave the rolling window.
async fn hold_and_settle(store: &dyn Store, clock: &ManualClock) {
    for _ in 0..HOLDS {
        clock.advance(Span::from_secs(60));
        let charges = vec![Charge::new(Scope::new("room").unwrap(), 10)];
        let command = Command { charges, settle: Settle::Hold { ttl: None }, ..Command::default() };
        let Answer::Submitted(done) = ask(store, Op::Submit(command)).await else { panic!("a hold is placed") };
        ask(store, Op::Commit { hold: done.hold.unwrap().id, actual: Actual::Amount(7) }).await;
    }
}

#[tokio::test]
async fn the_cost_of_a_sqlite_hold_does_not_grow_with_history() {
    let mut costs = Vec::new();
    for rows in HISTORY {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.db");
        let clock = Arc::new(ManualClock::at(NOON));
        let store = SqliteStore::open(&path, setup(&clock)).await.unwrap();
        define(&store).await;
        let filler = rusqlite::Connection::open(&path).unwrap();
        filler
            .execute_batch(&format!(
                "BEGIN;
                 CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) SELECT i FROM n;
                 INSERT INTO bursar_postings SELECT 'default', 'room', {start} + i * 1000, 1000000000 + i, 1, NULL FROM n;
                 INSERT INTO bursar_holds SELECT unhex(printf('%032x', i)), 'default', 1, {start} + i, x'00' FROM n;
                 INSERT INTO bursar_keys SELECT 'default', 'k' || i, x'00', x'00', x'00', 9223372036854775807 FROM n;
                 COMMIT;",
                start = NOON.micros() - 40 * 86_400_000_000,
            ))
            .unwrap();
        hold_and_settle(&store, &clock).await;
        let before = store.effort();
        hold_and_settle(&store, &clock).await;
        let after = store.effort();
        println!(
            "{rows} rows: {} statements, {} steps a hold with its commit",
            (after.0 - before.0) / HOLDS,
            (after.1 - before.1) / HOLDS
        );
        costs.push(((after.0 - before.0) / HOLDS, (after.1 - before.1) / HOLDS));
    }
    assert_eq!(costs[0].0, costs[1].0, "statements");
    // Reading a row takes about ten steps of SQLite's virtual machine.
    assert!(costs[0].1.abs_diff(costs[1].1) <= 50, "steps: {costs:?}");
}

/// Sends a request that is refused under a window that the scope does not have.
async fn refused(store: &dyn Store) {
    let window = "rolling:3456000000".parse().unwrap();
    let charge = Charge::new(Scope::new("room").unwrap(), 1).within([Limit::new(0, window)]);
    let request = Request::from(Op::Submit(Command { charges: vec![charge], ..Command::default() }));
    let outcomes = store.commit_requests(&[Arc::new(request)], LockPolicy::Skip).await.unwrap();
    assert!(matches!(outcomes.as_slice(), [RequestOutcome::Answered(Err(Refusal::Refused(_)))]), "{outcomes:?}");
}

#[tokio::test]
async fn sqlite_refusals_under_a_new_window_sum_history_once() {
    let mut costs = Vec::new();
    for rows in [1_000, 100_000] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.db");
        let clock = Arc::new(ManualClock::at(NOON));
        let store = SqliteStore::open(&path, setup(&clock)).await.unwrap();
        define(&store).await;
        let filler = rusqlite::Connection::open(&path).unwrap();
        filler
            .execute_batch(&format!(
                "INSERT INTO bursar_postings
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
                 SELECT 'default', 'room', {start} + i, 1000000000 + i, 1, NULL FROM n;",
                start = NOON.micros() - 86_400_000_000,
            ))
            .unwrap();
        hold_and_settle(&store, &clock).await;
        let steps = async || {
            let before = store.effort().1;
            refused(&store).await;
            store.effort().1 - before
        };
        let (first, second) = (steps().await, steps().await);
        assert!(first > rows, "the first request sums the history: {first}");
        costs.push(second);
    }
    assert!(costs[0].abs_diff(costs[1]) <= 50, "steps: {costs:?}");
}

#[tokio::test]
async fn sqlite_wal_of_a_command_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.db");
    let clock = Arc::new(ManualClock::at(NOON));
    let store = SqliteStore::open(&path, setup(&clock)).await.unwrap();
    define(&store).await;
    let command = |settle: Settle, jobs: Vec<JobSpec>| {
        let charges = vec![Charge::new(Scope::new("room").unwrap(), 10)];
        Arc::new(Request::from(Op::Submit(Command { charges, settle, jobs, ..Command::default() })))
    };
    for (what, with_job, most) in [("hold", false, 1_500), ("hold with its job", true, 2_000)] {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        rusqlite::Connection::open(&path).unwrap().query_row(checkpoint, [], |_| Ok(())).unwrap();
        let batch = (0..500).map(|_| match with_job {
            true => command(Settle::Job, vec![work(None)]),
            false => command(Settle::Hold { ttl: None }, Vec::new()),
        });
        done_all(&store.commit_requests(&batch.collect::<Vec<_>>(), LockPolicy::Skip).await.unwrap());
        let wal = std::fs::metadata(folder.path().join("b.db-wal")).unwrap().len() / 500;
        println!("WAL bytes for each {what} of a batch of 500 on SQLite: {wal}");
        assert!(wal > 100 && wal < most, "{what}: {wal}");
    }
}

fn done_all(outcomes: &[RequestOutcome]) {
    assert!(outcomes.iter().all(|outcome| matches!(outcome, RequestOutcome::Answered(Ok(_)))), "{outcomes:?}");
}

#[tokio::test]
async fn the_rows_read_by_a_postgres_hold_do_not_grow() {
    let mut costs = Vec::new();
    for rows in HISTORY {
        let url = bursar_testkit::fresh_database();
        let clock = Arc::new(ManualClock::at(NOON));
        let open = || PostgresStore::open(&url, setup(&clock), PostgresOptions::default());
        let store = open().await.unwrap();
        define(&store).await;
        let mut filler = PgConnection::connect(&url).await.unwrap();
        let start = NOON.micros() - 40 * 86_400_000_000;
        for sql in [
            format!(
                "INSERT INTO bursar.postings SELECT 'default', 'room', {start} + i * 1000, 1000000000 + i, 1, NULL FROM generate_series(1, {rows}) i"
            ),
            format!(
                "INSERT INTO bursar.holds (id, tenant, state, expires_at, data) SELECT lpad(to_hex(i), 32, '0')::uuid, 'default', 1, {start} + i, '' FROM generate_series(1, {rows}) i"
            ),
        ] {
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut filler).await.unwrap();
        }
        hold_and_settle(&store, &clock).await;
        store.close().await;
        let before = rows_read(&mut filler).await;
        let store = open().await.unwrap();
        hold_and_settle(&store, &clock).await;
        store.close().await;
        let after = rows_read(&mut filler).await;
        println!("{rows} rows: {} rows read a hold with its commit", (after - before) / HOLDS as i64);
        costs.push((after - before) / HOLDS as i64);
    }
    assert!(costs[0].abs_diff(costs[1]) <= 5, "rows read: {costs:?}");
}

fn work(key: Option<&str>) -> JobSpec {
    let spec = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("work").unwrap(), Payload::default());
    // Jobs with a key have a higher priority, so that leases meet them first.
    JobSpec { key: key.map(|key| FlowKey::new(key).unwrap()), priority: if key.is_some() { 1 } else { 0 }, ..spec }
}

/// Enqueues jobs in one transaction.
async fn enqueue(store: &dyn Store, key: Option<&str>, count: usize) {
    let jobs = |count: usize| Op::Submit(Command { jobs: vec![work(key); count], ..Command::default() });
    let bulk = (0..count).step_by(1_000).map(|from| Arc::new(Request::from(jobs((count - from).min(1_000)))));
    done_all(&store.commit_requests(&bulk.collect::<Vec<_>>(), LockPolicy::Skip).await.unwrap());
}

async fn lease(store: &dyn Store, capacity: u32) -> Vec<Finish> {
    let queues = vec![Queue::new("q").unwrap()];
    let worker = WorkerName::new("w").unwrap();
    let ask = LeaseRequest { queues, kinds: Vec::new(), capacity, lease: None, worker };
    let Answer::Leased(leased) = self::ask(store, Op::Lease(ask)).await else { panic!("jobs are leased") };
    let end = |job: &Job| Finish {
        job: job.id,
        fence: job.life.fence,
        end: End::Complete { result: Payload::default(), usage: None, blobs: Vec::new() },
    };
    leased.jobs.iter().map(end).collect()
}

/// The other jobs in the queue of the jobs that are leased.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OtherJobs {
    Nothing,
    /// Jobs of one key that is at its limit.
    Blocked,
    Finished,
    /// Jobs that are due later.
    Scheduled,
    /// Ready jobs with a later rank.
    Backlog,
}

/// The number of other jobs.
const OTHER_JOBS: usize = 100_000;

/// Enqueues the jobs to be leased and the other jobs. Returns the SQL that brings the other jobs into their state.
async fn prepare(store: &dyn Store, clock: &ManualClock, other_jobs: OtherJobs, prefix: &str) -> Option<String> {
    let config = QueueConfig { key_concurrency: Some(1), ..QueueConfig::default() };
    ask(store, Op::DefineQueue { queue: Queue::new("q").unwrap(), config }).await;
    enqueue(store, Some("other"), 1).await;
    enqueue(store, None, 40).await;
    clock.advance(Span::from_millis(1));
    let late = NOON.micros() + 500;
    match other_jobs {
        OtherJobs::Nothing => None,
        OtherJobs::Blocked => {
            enqueue(store, Some("blocked"), OTHER_JOBS).await;
            // One of them stays leased, so the next one is barred.
            ask(store, Op::Act { act: Act::Edit { priority: Some(9), delay: None }, jobs: blocked(store).await }).await;
            assert_eq!(lease(store, 1).await.len(), 1);
            None
        }
        OtherJobs::Backlog => {
            enqueue(store, None, OTHER_JOBS).await;
            None
        }
        OtherJobs::Scheduled => {
            enqueue(store, None, OTHER_JOBS).await;
            Some(format!("UPDATE {prefix}jobs SET state = 4, at = at + 99999999999 WHERE at > {late}"))
        }
        OtherJobs::Finished => {
            enqueue(store, None, OTHER_JOBS).await;
            Some(format!(
                "INSERT INTO {prefix}ended_jobs (id, tenant, queue, kind, state, at, data)
                 SELECT id, tenant, queue, kind, 4, at, life FROM {prefix}jobs WHERE at > {late};
                 DELETE FROM {prefix}jobs WHERE at > {late}"
            ))
        }
    }
}

/// Leases once before the measurement, so that blocked heads are barred.
async fn warm_up(store: &dyn Store) {
    let leased = lease(store, 2).await;
    ask(store, Op::Finish { items: leased }).await;
}

/// Leases and completes `count` jobs.
async fn lease_and_complete(store: &dyn Store, count: usize) {
    let leased = lease(store, count.try_into().unwrap()).await;
    assert_eq!(leased.len(), count);
    ask(store, Op::Finish { items: leased }).await;
}

/// Checks the line of the blocked key: one job is leased, the next is barred, and all others wait.
async fn assert_blocked(store: &dyn Store) {
    let line = FlowScopes::of_key(&Queue::new("q").unwrap(), &FlowKey::new("blocked").unwrap()).slots;
    let row = store.scope(&(Tenant::built_in(), line)).await.unwrap().unwrap();
    assert_eq!((row.line.waiting[0].1, row.line.barred, row.balances[0].held), (OTHER_JOBS as u64 - 1, 1, 1));
}

/// Returns the statements and steps of leasing and completing a job on SQLite.
async fn cost_of_a_job(other_jobs: OtherJobs) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.db");
    let clock = Arc::new(ManualClock::at(NOON));
    let store = SqliteStore::open(&path, setup(&clock)).await.unwrap();
    if let Some(moved) = prepare(&store, &clock, other_jobs, "bursar_").await {
        rusqlite::Connection::open(&path).unwrap().execute_batch(&moved).unwrap();
    }
    let mut costs = Vec::new();
    warm_up(&store).await;
    for _ in 0..3 {
        clock.advance(Span::from_millis(1));
        let before = store.effort();
        lease_and_complete(&store, 10).await;
        let after = store.effort();
        costs.push(((after.0 - before.0) / 10, (after.1 - before.1) / 10));
    }
    if other_jobs == OtherJobs::Blocked {
        assert_blocked(&store).await;
    }
    println!("with {other_jobs:?}: {costs:?} statements and steps a job");
    costs[1]
}

/// Returns the rows read by leasing and completing thirty jobs on PostgreSQL.
async fn rows_of_thirty_jobs(other_jobs: OtherJobs) -> i64 {
    let url = bursar_testkit::fresh_database();
    let clock = Arc::new(ManualClock::at(NOON));
    let open = || PostgresStore::open(&url, setup(&clock), PostgresOptions::default());
    let store = open().await.unwrap();
    let mut filler = PgConnection::connect(&url).await.unwrap();
    if let Some(moved) = prepare(&store, &clock, other_jobs, "bursar.").await {
        sqlx::raw_sql(sqlx::AssertSqlSafe(moved)).execute(&mut filler).await.unwrap();
    }
    // Without dead row versions, which a scan would read too.
    sqlx::raw_sql("VACUUM bursar.jobs").execute(&mut filler).await.unwrap();
    warm_up(&store).await;
    store.close().await;
    let before = rows_read(&mut filler).await;
    let store = open().await.unwrap();
    for _ in 0..3 {
        clock.advance(Span::from_millis(1));
        lease_and_complete(&store, 10).await;
    }
    store.close().await;
    let after = rows_read(&mut filler).await;
    if other_jobs == OtherJobs::Blocked {
        assert_blocked(&open().await.unwrap()).await;
    }
    println!("with {other_jobs:?}: {} rows read for 30 jobs", after - before);
    after - before
}

#[tokio::test]
async fn the_rows_read_by_a_postgres_lease_do_not_grow() {
    let alone = rows_of_thirty_jobs(OtherJobs::Nothing).await;
    for other_jobs in [OtherJobs::Blocked, OtherJobs::Finished, OtherJobs::Scheduled, OtherJobs::Backlog] {
        let cost = rows_of_thirty_jobs(other_jobs).await;
        assert!(cost.abs_diff(alone) <= 10, "{other_jobs:?}: {cost} rows, {alone} without");
    }
}

/// Returns a job of the key that will be blocked.
async fn blocked(store: &dyn Store) -> Vec<JobId> {
    let key = Some(FlowKey::new("blocked").unwrap());
    let filter = JobFilter { key, ..JobFilter::default() };
    let jobs = store.list_jobs(&Tenant::built_in(), &filter, None, 1).await.unwrap();
    jobs.iter().map(|job| job.id).collect()
}

#[tokio::test]
async fn the_cost_of_a_sqlite_lease_does_not_grow() {
    let alone = cost_of_a_job(OtherJobs::Nothing).await;
    for other_jobs in [OtherJobs::Blocked, OtherJobs::Finished, OtherJobs::Scheduled, OtherJobs::Backlog] {
        let cost = cost_of_a_job(other_jobs).await;
        assert_eq!(cost.0, alone.0, "{other_jobs:?}: statements");
        // Reading a row takes about ten steps of SQLite's virtual machine.
        assert!(cost.1.abs_diff(alone.1) <= 10, "{other_jobs:?}: {cost:?} steps, {alone:?} without");
    }
}

/// Returns the rows that all sessions have read. A session reports its statistics when it ends, so this waits for all others to end.
async fn rows_read(conn: &mut PgConnection) -> i64 {
    let others = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    let alone = async { while sqlx::query_scalar::<_, i64>(others).fetch_one(&mut *conn).await.unwrap() > 0 {} };
    tokio::time::timeout(Duration::from_secs(120), alone).await.expect("all other sessions end");
    let read = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint
        FROM pg_stat_user_tables WHERE schemaname = 'bursar'";
    sqlx::query_scalar(read).fetch_one(conn).await.unwrap()
}

/// Reads what a scrape of the metrics reads: the counts of all queues, and the figures of each.
async fn scrape(store: &dyn Store, other_jobs: OtherJobs) {
    let began = tokio::time::Instant::now();
    let counts = store.queue_counts().await.unwrap();
    let mut keys: Vec<_> = counts.iter().map(|(key, ..)| key.clone()).collect();
    keys.dedup();
    let figures = store.figures(&keys, NOON.micros() / 60_000_000 - 60).await.unwrap();
    println!("with {other_jobs:?}: {:?} for a scrape", began.elapsed());
    let jobs: i64 = counts.iter().map(|(.., count)| count).sum();
    let others = if other_jobs == OtherJobs::Nothing { 0 } else { OTHER_JOBS as i64 };
    assert_eq!(jobs, 41 + others, "{other_jobs:?}");
    assert_eq!((keys.len(), figures.len()), (1, 1));
    assert!(figures[0].oldest_waiting.is_some());
}

#[tokio::test]
async fn the_rows_read_by_a_postgres_scrape_do_not_grow() {
    let rows = async |other_jobs| {
        let url = bursar_testkit::fresh_database();
        let clock = Arc::new(ManualClock::at(NOON));
        let open = || PostgresStore::open(&url, setup(&clock), PostgresOptions::default());
        let store = open().await.unwrap();
        let mut filler = PgConnection::connect(&url).await.unwrap();
        if let Some(moved) = prepare(&store, &clock, other_jobs, "bursar.").await {
            sqlx::raw_sql(sqlx::AssertSqlSafe(moved)).execute(&mut filler).await.unwrap();
        }
        store.close().await;
        sqlx::raw_sql("VACUUM ANALYZE").execute(&mut filler).await.unwrap();
        let before = rows_read(&mut filler).await;
        let store = open().await.unwrap();
        scrape(&store, other_jobs).await;
        store.close().await;
        rows_read(&mut filler).await - before
    };
    let alone = rows(OtherJobs::Nothing).await;
    for other_jobs in [OtherJobs::Blocked, OtherJobs::Finished, OtherJobs::Scheduled, OtherJobs::Backlog] {
        let cost = rows(other_jobs).await;
        println!("{cost} rows with {other_jobs:?}, {alone} without");
        assert!(cost.abs_diff(alone) <= 200, "{other_jobs:?}: {cost} rows, {alone} without");
    }
}

#[tokio::test]
async fn the_cost_of_a_sqlite_scrape_does_not_grow() {
    let steps = async |other_jobs| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.db");
        let clock = Arc::new(ManualClock::at(NOON));
        let store = SqliteStore::open(&path, setup(&clock)).await.unwrap();
        if let Some(moved) = prepare(&store, &clock, other_jobs, "bursar_").await {
            rusqlite::Connection::open(&path).unwrap().execute_batch(&moved).unwrap();
        }
        let before = store.effort();
        scrape(&store, other_jobs).await;
        store.effort().1 - before.1
    };
    let alone = steps(OtherJobs::Nothing).await;
    assert!(alone > 0, "the steps of reads are counted");
    for other_jobs in [OtherJobs::Blocked, OtherJobs::Finished, OtherJobs::Scheduled, OtherJobs::Backlog] {
        let cost = steps(other_jobs).await;
        println!("{cost} steps with {other_jobs:?}, {alone} without");
        assert!(cost.abs_diff(alone) <= 500, "{other_jobs:?}: {cost} steps, {alone} without");
    }
}
