//! The stored numbers of dead jobs by error: damage is found, and counters of empty groups are removed.

use bursar_core::answer::Answer;
use bursar_core::job::{End, Finish, JobError, JobSpec, LeaseRequest};
use bursar_core::name::{JobKind, Queue, Tenant, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::request::{Act, Command, Op};
use bursar_store::{Maintain, PostgresOptions, PostgresStore, SqliteStore, Store};
use sqlx::{Connection, PgConnection};

use crate::ask::{clock, done, setup};

/// Statements that damage the groups, with a part of the violation each causes. Table names are those of PostgreSQL.
const CASES: [(&str, &str); 4] = [
    ("UPDATE bursar.dead_groups SET count = count + 4", "5 dead jobs of k are counted with the error"),
    ("DELETE FROM bursar.dead_groups", "0 dead jobs of k are counted with the error"),
    ("UPDATE bursar.ended_jobs SET fingerprint = NULL", "it would not be found by the fingerprint of its error"),
    ("UPDATE bursar.ended_jobs SET fingerprint = 'x'", "it would not be found by the fingerprint of its error"),
];

/// Stores a dead job.
async fn fill(store: &dyn Store) {
    let queue = Queue::new("q").unwrap();
    let spec = JobSpec::new(queue.clone(), JobKind::new("k").unwrap(), Payload::default());
    done(store, vec![Op::Submit(Command { jobs: vec![spec], ..Command::default() }).into()]).await;
    let worker = WorkerName::new("w").unwrap();
    let ask = LeaseRequest { queues: vec![queue], kinds: Vec::new(), capacity: 1, lease: None, worker };
    let leased = done(store, vec![Op::Lease(ask).into()]).await.remove(0);
    let Answer::Leased(leased) = leased.answer else { panic!("a job is leased") };
    let error = JobError::new("timeout", "");
    let end = End::Fail { error, retryable: false, retry_after: None, usage: None };
    let (job, fence) = (leased.jobs[0].id, leased.jobs[0].life.fence);
    done(store, vec![Op::Finish { items: vec![Finish { job, fence, end }] }.into()]).await;
    assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new());
}

async fn finds(store: &dyn Store, damage: &str, expected: &str) {
    let violations = store.verify().await.unwrap().violations;
    assert!(violations.iter().any(|text| text.contains(expected)), "{damage}: {violations:?}");
    store.rebuild().await.unwrap();
    assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new(), "{damage}");
}

#[tokio::test]
async fn verification_finds_damaged_groups_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.db");
    let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    fill(&store).await;
    for (damage, expected) in CASES {
        let damage = damage.replace("bursar.", "bursar_");
        assert_eq!(rusqlite::Connection::open(&path).unwrap().execute(&damage, []).unwrap(), 1, "{damage}");
        finds(&store, &damage, expected).await;
    }
}

#[tokio::test]
async fn verification_finds_damaged_groups_on_postgres() {
    let url = bursar_testkit::fresh_database();
    let store = PostgresStore::open(&url, setup(&clock()), PostgresOptions::default()).await.unwrap();
    fill(&store).await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    for (damage, expected) in CASES {
        assert_eq!(sqlx::query(damage).execute(&mut conn).await.unwrap().rows_affected(), 1, "{damage}");
        finds(&store, damage, expected).await;
    }
}

#[tokio::test]
async fn counters_of_empty_groups_are_removed() {
    let url = bursar_testkit::fresh_database();
    let postgres = PostgresStore::open(&url, setup(&clock()), PostgresOptions::default()).await.unwrap();
    let mut conn = PgConnection::connect(&url).await.unwrap();
    fill(&postgres).await;
    // Another lane of the group, as another connection would write it: together they count one job.
    sqlx::raw_sql(
        "INSERT INTO bursar.dead_groups SELECT tenant, queue, kind, fingerprint, lane + 1, -2 FROM bursar.dead_groups;
         UPDATE bursar.dead_groups SET count = 3 WHERE count = 1",
    )
    .execute(&mut conn)
    .await
    .unwrap();
    let mut rows = async || {
        let sql = "SELECT count(*) FROM bursar.dead_groups";
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut conn).await.unwrap()
    };
    assert_eq!(postgres.verify().await.unwrap().violations, Vec::<String>::new());
    postgres.forget_figures(None, 10).await.unwrap();
    assert_eq!(rows().await, 2, "the group has a job");
    retry_all(&postgres).await;
    postgres.forget_figures(None, 10).await.unwrap();
    assert_eq!(rows().await, 0);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.db");
    let sqlite = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    fill(&sqlite).await;
    let rows = || {
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.query_row("SELECT count(*) FROM bursar_dead_groups", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(rows(), 1);
    retry_all(&sqlite).await;
    assert_eq!(rows(), 0, "on SQLite in the same transaction");
}

async fn retry_all(store: &dyn Store) {
    let jobs = store.list_jobs(&Tenant::built_in(), &Default::default(), None, 10).await.unwrap();
    let jobs = jobs.iter().map(|job| job.id).collect();
    done(store, vec![Op::Act { act: Act::Retry, jobs }.into()]).await;
    assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new());
}
