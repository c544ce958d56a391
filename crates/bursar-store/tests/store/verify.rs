//! The violations that verification finds in damaged tables.

use std::sync::Arc;

use bursar_core::answer::Answer;
use bursar_core::hold::HoldState;
use bursar_core::job::{End, Finish, JobSpec, LeaseRequest, QueueConfig};
use bursar_core::name::{FlowKey, JobKind, Queue, Tenant, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Actual, Command, Op};
use bursar_store::conformance::CommitRequests;
use bursar_store::{LockPolicy, PostgresOptions, PostgresStore, RequestOutcome, SqliteStore, Store};
use sqlx::{Connection, PgConnection};

use crate::ask::{clock, done, every_store, hold, job, key_of, post, setup, submitted};

/// Statements that damage the tables, with parts of the violations they cause. Table names are those of PostgreSQL.
const CASES: [(&str, &[&str]); 10] = [
    ("UPDATE bursar.postings SET amount = 8 WHERE amount = 7", &["posted is 7, its postings add up to 8"]),
    (
        "DELETE FROM bursar.live_charges WHERE scope = 'two'",
        &["two lifetime: held is 20, its live holds add up to 0", "it is held, but has no live charge on", "/two"],
    ),
    ("UPDATE bursar.live_charges SET amount = 21 WHERE scope = 'two'", &["held is 20", "which has another amount"]),
    ("UPDATE bursar.live_charges SET placed_at = placed_at - 1 WHERE scope = 'two'", &["which has another amount"]),
    ("UPDATE bursar.live_charges SET scope = 'three' WHERE scope = 'two'", &["three: a live charge", "on", "/two"]),
    // The latest charges are in the row of the scope.
    (
        "UPDATE bursar.scopes SET state = (SELECT state FROM bursar.scopes WHERE scope = 'one') WHERE scope = 'two'",
        &["two lifetime: held is 25", "which has another amount", "it is held, but has no live charge on", "/two"],
    ),
    ("DELETE FROM bursar.holds WHERE state = 0", &["which does not exist", "its hold hold_"]),
    ("UPDATE bursar.holds SET state = 1 WHERE state = 0", &["the columns for its state or expiry are wrong"]),
    (
        "UPDATE bursar.holds SET state = 1, data = (SELECT data FROM bursar.holds WHERE state = 1) WHERE state = 0",
        &["which is committed", "does not belong to it"],
    ),
    ("DELETE FROM bursar.holds WHERE expires_at = 9223372036854775807", &["job_", "does not exist"]),
];

/// Stores a posting, a hold on two scopes, a committed hold, a hold of a job, and more empty holds than the row of a scope has
/// room for.
async fn fill(store: &dyn Store) {
    let placed = done(store, vec![post("one", 7), hold(&["one", "two"], 20), hold(&["one"], 30), job("one", 5)]).await;
    let placed = Ok(placed[2].clone());
    let settled = submitted(&placed).hold.as_ref().unwrap().id;
    done(store, vec![Op::Commit { hold: settled, actual: Actual::Amount(0) }.into()]).await;
    done(store, (0..16).map(|_| hold(&["two"], 0)).collect()).await;
    let report = store.verify().await.unwrap();
    assert_eq!((report.scopes, report.holds, report.jobs, report.violations), (2, 19, 1, Vec::new()));
    assert_eq!(store.hold(&Tenant::built_in(), settled).await.unwrap().unwrap().state, HoldState::Committed);
}

async fn finds(store: &dyn Store, damage: &str, expected: &[&str]) {
    let violations = store.verify().await.unwrap().violations;
    for part in expected {
        assert!(violations.iter().any(|text| text.contains(part)), "{damage}: {part} is missing in {violations:#?}");
    }
    // A rebuild from the journal repairs everything.
    store.rebuild().await.unwrap();
    assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new(), "{damage}");
}

#[tokio::test]
async fn verification_finds_damage_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.db");
    let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    fill(&store).await;
    for (damage, expected) in CASES {
        let damage = damage.replace("bursar.", "bursar_");
        let conn = rusqlite::Connection::open(&path).unwrap();
        assert_ne!(conn.execute(&damage, []).unwrap(), 0, "{damage}");
        finds(&store, &damage, expected).await;
    }
}

/// Statements that damage the tables of jobs, with parts of the violations they cause.
const JOB_CASES: [(&str, &[&str]); 12] = [
    (
        "UPDATE bursar.jobs SET state = 4 WHERE state = 0",
        &[
            "it would not be found by its state, rank or instant",
            "is queued, but has no place in a line",
            "its line has 0 heads of the kind k, not one",
        ],
    ),
    (
        "UPDATE bursar.jobs SET rank = rank + 1 WHERE state = 1",
        &["it would not be found by its state, rank or instant"],
    ),
    ("UPDATE bursar.jobs SET at = at + 1 WHERE state = 6", &["it would not be found by its state, rank or instant"]),
    (
        "DELETE FROM bursar.jobs WHERE state = 6",
        &[
            "bursar:slots:q lifetime: held is 1, its live holds add up to 0",
            "its job job_",
            "1 jobs are counted as leased, there are 0",
        ],
    ),
    ("DELETE FROM bursar.jobs WHERE state = 1", &["its row counts 2 jobs in line (0 barred), there are 1 (0 barred)"]),
    ("UPDATE bursar.tallies SET count = 7 WHERE what = 4", &["7 jobs are counted as succeeded, there are 1"]),
    ("DELETE FROM bursar.tallies WHERE what = 4", &["no job is counted as succeeded, there are 1"]),
    ("UPDATE bursar.held SET low = low + 1", &["/q: the stored sum held for k in \"\" is 6, its jobs hold 5"]),
    (
        "UPDATE bursar.held SET high = high - 1",
        &["/q: the stored sum held for k in \"\" is -4294967291, its jobs hold 5"],
    ),
    ("DELETE FROM bursar.held", &["/q: no stored sum held for k in \"\", its jobs hold 5"]),
    ("UPDATE bursar.ended_jobs SET state = 6", &["it would not be found by its state or instant"]),
    (
        "UPDATE bursar.holds SET state = 1, data = (SELECT data FROM bursar.holds WHERE state = 1)
         WHERE state = 0 AND expires_at = 9223372036854775807",
        &["does not belong to it", "it records 5 held units, its hold has 0"],
    ),
];

/// Stores a job that succeeded, one that is leased under the limit of its queue, and two in the line of one flow key.
async fn fill_with_jobs(store: &dyn Store) {
    let queue = Queue::new("q").unwrap();
    let config = QueueConfig { concurrency: Some(9), ..QueueConfig::default() };
    let key = Some(FlowKey::new("customer").unwrap());
    let spec = JobSpec { key, ..JobSpec::new(queue.clone(), JobKind::new("k").unwrap(), Payload::default()) };
    let in_line = Op::Submit(Command { jobs: vec![spec.clone(), spec], ..Command::default() });
    done(store, vec![Op::DefineQueue { queue: queue.clone(), config }.into(), job("one", 5), job("one", 5)]).await;
    let worker = WorkerName::new("w").unwrap();
    let ask = LeaseRequest { queues: vec![queue], kinds: Vec::new(), capacity: 2, lease: None, worker };
    let leased = done(store, vec![Op::Lease(ask).into()]).await.remove(0);
    let Answer::Leased(leased) = leased.answer else { panic!("jobs are leased") };
    let end = End::Complete { result: Payload::default(), usage: None, blobs: Vec::new() };
    let items = vec![Finish { job: leased.jobs[0].id, fence: 1, end }];
    done(store, vec![Op::Finish { items }.into(), in_line.into()]).await;
    let report = store.verify().await.unwrap();
    assert_eq!((report.jobs, report.violations), (4, Vec::new()));
}

#[tokio::test]
async fn verification_finds_damaged_jobs_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.db");
    let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    fill_with_jobs(&store).await;
    for (damage, expected) in JOB_CASES {
        let damage = damage.replace("bursar.", "bursar_");
        let conn = rusqlite::Connection::open(&path).unwrap();
        assert_ne!(conn.execute(&damage, []).unwrap(), 0, "{damage}");
        finds(&store, &damage, expected).await;
    }
}

#[tokio::test]
async fn verification_finds_damaged_jobs_on_postgres() {
    let url = bursar_testkit::fresh_database();
    let store = PostgresStore::open(&url, setup(&clock()), PostgresOptions::default()).await.unwrap();
    fill_with_jobs(&store).await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    for (damage, expected) in JOB_CASES {
        assert_ne!(sqlx::query(damage).execute(&mut conn).await.unwrap().rows_affected(), 0, "{damage}");
        finds(&store, damage, expected).await;
    }
}

#[tokio::test]
async fn verification_finds_damage_on_postgres() {
    let url = bursar_testkit::fresh_database();
    let store = PostgresStore::open(&url, setup(&clock()), PostgresOptions::default()).await.unwrap();
    fill(&store).await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    for (damage, expected) in CASES {
        assert_ne!(sqlx::query(damage).execute(&mut conn).await.unwrap().rows_affected(), 0, "{damage}");
        finds(&store, damage, expected).await;
    }
}

#[tokio::test]
async fn verification_checks_more_than_one_page() {
    for (engine, store) in every_store(&clock()).await {
        let scopes: Vec<String> = (0..450).map(|n| format!("s{n}")).collect();
        done(&*store, scopes.iter().map(|scope| job(scope, 1)).collect()).await;
        done(&*store, scopes.iter().map(|scope| post(scope, 1)).collect()).await;
        let report = store.verify().await.unwrap();
        assert_eq!((report.scopes, report.holds, report.jobs), (450, 450, 450), "{engine}");
        assert!(report.is_ok(), "{engine}: {:?}", report.violations);
        drop::<Arc<dyn Store>>(store);
    }
}

#[tokio::test]
async fn a_refused_request_leaves_nothing_visible() {
    for (engine, store) in every_store(&clock()).await {
        let outcomes = store.commit_requests(&[Arc::new(post("new", 2_000_000))], LockPolicy::Skip).await.unwrap();
        assert!(
            matches!(outcomes.as_slice(), [RequestOutcome::Answered(Err(Refusal::Refused(_)))]),
            "{engine}: {outcomes:?}"
        );
        assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new(), "{engine}");
        assert_eq!(store.list_scopes(&key_of("new").0, "", None, 10).await.unwrap(), Vec::new(), "{engine}");
        assert_eq!(store.health().await.unwrap().position, 0, "{engine}");
        done(&*store, vec![post("new", 1)]).await;
        let before = store.scope(&key_of("new")).await.unwrap().unwrap();
        assert_eq!((before.version, before.balances[0].posted), (1, 1), "{engine}");
        assert_eq!(store.rebuild().await.unwrap(), 1, "{engine}");
        assert_eq!(store.scope(&key_of("new")).await.unwrap(), Some(before), "{engine}");
        assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new(), "{engine}");
    }
}
