//! Several committers on PostgreSQL, and foreign transactions that hold locks which requests need.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use bursar::{Budget, Bursar, JobSpec, Limit, Payload, Window};
use futures_util::future::join_all;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::JoinSet;

fn budget() -> Budget {
    Budget::new([Limit::new(1_000_000, Window::Lifetime)])
}

async fn open(url: &str, upkeep: Option<Duration>) -> Bursar {
    // Longer than any test here takes, so that no request times out while it waits for a foreign transaction.
    Bursar::options(url).upkeep(upkeep).patience(Duration::from_secs(600)).open().await.unwrap()
}

/// Opens a foreign transaction that has locked a scope by posting to it.
async fn foreign_lock(bursar: &Bursar, url: &str, scope: &str) -> PgConnection {
    let mut conn = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql("BEGIN").execute(&mut conn).await.unwrap();
    bursar.command().charge(scope, 1).submit_in(&mut conn).await.unwrap();
    conn
}

/// The foreign transaction commits only after all other requests were answered: if they waited for it, the test would
/// hang.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_lock_delays_only_requests_for_its_scope() {
    let url = bursar_testkit::fresh_database();
    let bursar = open(&url, Some(Duration::from_millis(1))).await;
    for scope in ["a", "m", "z"] {
        bursar.ledger().define(scope, budget()).await.unwrap();
    }
    let mut held = foreign_lock(&bursar, &url, "m").await;
    // A command on a free scope and the locked one waits, without locking the free one.
    let mut waiting = JoinSet::new();
    for pair in [["a", "m"], ["m", "z"]] {
        let bursar = bursar.clone();
        waiting.spawn(async move { bursar.command().charge(pair[0], 1).charge(pair[1], 1).submit().await.map(drop) });
    }
    for _ in 0..200 {
        for scope in ["a", "z"] {
            bursar.ledger().post(scope, 1).await.unwrap();
        }
        // Maintenance skips locked rows and handles the others.
        bursar.sweep(500).await.unwrap();
    }
    bursar.tidy().await.unwrap();
    sqlx::raw_sql("COMMIT").execute(&mut held).await.unwrap();
    assert!(waiting.join_all().await.into_iter().all(|answer| answer.is_ok()));
    let posted = async |scope: &str| bursar.ledger().budget(scope).await.unwrap().unwrap().balances[0].posted;
    assert_eq!((posted("a").await, posted("m").await, posted("z").await), (201, 3, 201));
    assert!(bursar.verify().await.unwrap().is_ok());
    bursar.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_past_its_lock_timeout_is_busy_and_others_keep_waiting() {
    let url = bursar_testkit::fresh_database();
    let patient = open(&url, None).await;
    let hasty = Bursar::options(&url).upkeep(None).patience(Duration::from_millis(50)).open().await.unwrap();
    patient.ledger().define("m", budget()).await.unwrap();
    let mut held = foreign_lock(&patient, &url, "m").await;
    let waiting = tokio::spawn({
        let patient = patient.clone();
        async move { patient.ledger().post("m", 1).await.map(drop) }
    });
    assert!(hasty.ledger().post("m", 1).await.unwrap_err().is_busy());
    sqlx::raw_sql("COMMIT").execute(&mut held).await.unwrap();
    waiting.await.unwrap().unwrap();
    hasty.ledger().post("m", 1).await.unwrap();
}

/// An open foreign transaction has inserted a job key. A request with the same key waits until its timeout, or until that
/// transaction ends. Other requests are not delayed.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_key_in_an_open_transaction_delays_only_requests_for_it() {
    let url = bursar_testkit::fresh_database();
    let patient = open(&url, None).await;
    let hasty = Bursar::options(&url).upkeep(None).patience(Duration::from_millis(50)).open().await.unwrap();
    let mut watch = PgConnection::connect(&url).await.unwrap();
    for end in ["ROLLBACK", "COMMIT"] {
        let mut conn = PgConnection::connect(&url).await.unwrap();
        sqlx::raw_sql("BEGIN").execute(&mut conn).await.unwrap();
        let (first, _) = patient.jobs().enqueue_in(&mut conn, unique(end)).await.unwrap();
        let beside = |bursar: &Bursar, n: usize| {
            let bursar = bursar.clone();
            async move { bursar.jobs().enqueue(unique(&format!("{end} {n}"))).await }
        };
        let jobs = hasty.jobs();
        // Submitted together, so that they share a batch.
        let (busy, others) =
            tokio::join!(jobs.enqueue(unique(end)), futures_util::future::join_all((0..20).map(|n| beside(&hasty, n))));
        assert!(busy.unwrap_err().is_busy());
        assert!(others.into_iter().all(|enqueued| enqueued.unwrap().created));
        let waiting = tokio::spawn({
            let patient = patient.clone();
            async move { patient.jobs().enqueue(unique(end)).await }
        });
        until_waiting(&mut watch, 1).await;
        for n in 20..40 {
            assert!(beside(&patient, n).await.unwrap().created, "the foreign transaction is still open");
        }
        assert!(!waiting.is_finished());
        sqlx::raw_sql(AssertSqlSafe(end)).execute(&mut conn).await.unwrap();
        let second = waiting.await.unwrap().unwrap();
        let commits = end == "COMMIT";
        assert_eq!((second.created, second.id == first.id), (!commits, commits), "{end}");
        assert!(patient.jobs().find(second.id).await.unwrap().is_some(), "{end}");
    }
    for bursar in [patient, hasty] {
        bursar.close().await;
    }
}

/// Returns a job with an idempotency key.
fn unique(key: &str) -> JobSpec {
    let job = JobSpec::new("q".try_into().unwrap(), "work".try_into().unwrap(), Payload::default());
    JobSpec { idempotency_key: Some(key.try_into().unwrap()), ..job }
}

/// Returns the number of sessions of this database that wait for a lock.
async fn waiting_for_locks(conn: &mut PgConnection) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    sqlx::query_scalar(sql).fetch_one(conn).await.unwrap()
}

/// Waits until `count` sessions wait for a lock.
async fn until_waiting(conn: &mut PgConnection, count: i64) {
    let waited = async { while waiting_for_locks(conn).await < count {} };
    tokio::time::timeout(Duration::from_secs(60), waited).await.expect("the sessions wait for a lock");
}

/// A request waits for two rows that two foreign transactions have locked. When the first row is free and the second is
/// not, the request releases the first, so that other requests can use it.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_request_does_not_keep_its_first_row_locked() {
    let url = bursar_testkit::fresh_database();
    let bursar = open(&url, None).await;
    for scope in ["a", "b"] {
        bursar.ledger().define(scope, budget()).await.unwrap();
    }
    let mut first = foreign_lock(&bursar, &url, "a").await;
    let mut second = foreign_lock(&bursar, &url, "b").await;
    let both = tokio::spawn({
        let bursar = bursar.clone();
        async move { bursar.command().charge("a", 1).charge("b", 1).submit().await.map(drop) }
    });
    let mut observer = PgConnection::connect(&url).await.unwrap();
    until_waiting(&mut observer, 1).await;
    // A third transaction that wants only the first row, and is next in line for it.
    let mut third = PgConnection::connect(&url).await.unwrap();
    let want = tokio::spawn(async move {
        sqlx::raw_sql("BEGIN; SET LOCAL lock_timeout = '120s'").execute(&mut third).await.unwrap();
        let row = sqlx::query("SELECT 1 FROM bursar.scopes WHERE scope = 'a' FOR UPDATE").execute(&mut third).await;
        (third, row.map(|done| done.rows_affected()))
    });
    until_waiting(&mut observer, 2).await;
    let freed = tokio::time::Instant::now();
    sqlx::raw_sql("COMMIT").execute(&mut first).await.unwrap();
    let (mut third, row) = want.await.unwrap();
    assert_eq!(row.expect("the waiting request released the row"), 1);
    println!("the first row was free again after {} ms", freed.elapsed().as_millis());
    assert!(!both.is_finished(), "the second foreign transaction is still open");
    sqlx::raw_sql("COMMIT").execute(&mut third).await.unwrap();
    // Batches can use the row as well.
    for _ in 0..20 {
        bursar.ledger().post("a", 1).await.unwrap();
    }
    sqlx::raw_sql("COMMIT").execute(&mut second).await.unwrap();
    both.await.unwrap().unwrap();
    let posted = async |scope: &str| bursar.ledger().budget(scope).await.unwrap().unwrap().balances[0].posted;
    assert_eq!((posted("a").await, posted("b").await), (22, 2));
    bursar.close().await;
}

/// A value that the server rejects fails its own request, not the others of the batch.
#[tokio::test]
async fn a_value_that_the_server_rejects_fails_one_request_of_a_batch() {
    let url = bursar_testkit::fresh_database();
    let bursar = open(&url, None).await;
    for scope in 0..20 {
        bursar.ledger().define(format!("s{scope:02}"), budget()).await.unwrap();
    }
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let trigger = "CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.scope = 's03' THEN RAISE EXCEPTION 'out of range' USING ERRCODE = '22003'; END IF;
            IF NEW.scope = 's11' THEN RAISE EXCEPTION 'too large' USING ERRCODE = '54000'; END IF;
            RETURN NEW; END $$;
        CREATE TRIGGER reject BEFORE INSERT ON bursar.postings FOR EACH ROW EXECUTE FUNCTION reject()";
    sqlx::raw_sql(trigger).execute(&mut conn).await.unwrap();
    let ledger = bursar.ledger();
    let batches = bursar.counters().batches;
    let posts = (0..20).map(|scope| ledger.post(format!("s{scope:02}"), 1));
    let answers = futures_util::future::join_all(posts).await;
    let failed: Vec<usize> = (0..20).filter(|index| answers[*index].is_err()).collect();
    assert_eq!(failed, [3, 11], "{answers:?}");
    for index in failed {
        let error = answers[index].as_ref().unwrap_err();
        let bursar::Error::Store(store) = error else { panic!("{error}") };
        assert!(matches!(**store, bursar::StoreError::Rejected(_)), "{error}");
    }
    // Fewer batches than requests: they shared batches before these were split.
    assert!(bursar.counters().batches - batches < 20, "{:?}", bursar.counters());
    assert!(bursar.verify().await.unwrap().is_ok());
}

/// Committers that meet on scopes which the requests do not name: scopes of settled holds, and common parents.
#[tokio::test(flavor = "multi_thread")]
async fn committers_share_hot_scopes_without_waiting_for_each_other() {
    let url = bursar_testkit::fresh_database();
    let bursar = open(&url, None).await;
    bursar.ledger().define("org", budget()).await.unwrap();
    for agent in 0..20 {
        let under = budget().under("org".try_into().unwrap());
        bursar.ledger().define(format!("agent:{agent}"), under).await.unwrap();
    }
    let mut callers = JoinSet::new();
    for caller in 0..100 {
        let bursar = bursar.clone();
        callers.spawn(async move {
            for _ in 0..10 {
                let scope = format!("agent:{}", caller % 20);
                let held = bursar.ledger().hold(scope, 2, Duration::from_secs(60)).await.unwrap();
                held.commit(1).await.unwrap();
            }
        });
    }
    callers.join_all().await;
    let org = bursar.ledger().budget("org").await.unwrap().unwrap();
    assert_eq!((org.balances[0].posted, org.balances[0].held), (1_000, 0));
    let counters = bursar.counters();
    println!("2,000 requests on one hot parent took {} batches", counters.batches);
    assert!(counters.batches < 1_000, "requests should share commits: {counters:?}");
    assert!(bursar.verify().await.unwrap().is_ok());
    bursar.close().await;
}

/// After a batch, no connection stays in a transaction, which would block a table lock.
#[tokio::test(flavor = "multi_thread")]
async fn no_transaction_is_left_open_between_batches() {
    let url = bursar_testkit::fresh_database();
    let bursar = open(&url, None).await;
    bursar.ledger().define("team", budget()).await.unwrap();
    let mut observer = PgConnection::connect(&url).await.unwrap();
    for round in 1..=20 {
        let callers = (0..20).map(|_| async { bursar.ledger().post("team", 1).await.map(drop) });
        assert!(join_all(callers).await.into_iter().all(|answer| answer.is_ok()));
        let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL
             AND pid <> pg_backend_pid()";
        let until = tokio::time::Instant::now() + Duration::from_secs(60);
        while sqlx::query_scalar::<_, i64>(open).fetch_one(&mut observer).await.unwrap() > 0 {
            assert!(tokio::time::Instant::now() < until, "a transaction is open a minute after round {round}");
            tokio::task::yield_now().await;
        }
    }
    // Terminated connections are replaced.
    let callers = (0..20).map(|_| async { bursar.ledger().post("team", 1).await.map(drop) });
    assert!(join_all(callers).await.into_iter().all(|answer| answer.is_ok()));
    let lost = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid()";
    sqlx::query(lost).execute(&mut observer).await.unwrap();
    let callers = (0..20).map(|_| async { bursar.ledger().post("team", 1).await.map(drop) });
    assert!(join_all(callers).await.into_iter().all(|answer| answer.is_ok()));
    assert_eq!(bursar.ledger().budget("team").await.unwrap().unwrap().balances[0].posted, 440);
    bursar.close().await;
}
