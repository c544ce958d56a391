//! Names that two transactions take at the same time: the second one waits, finds the name taken, and decides again.

use std::sync::Arc;

use bursar_core::answer::Answer;
use bursar_core::blob::{BlobSpec, Sha256Digest};
use bursar_core::cron::Cron;
use bursar_core::id::BlobId;
use bursar_core::job::{JobSpec, ScheduleSpec};
use bursar_core::name::{Backend, JobKind, Namespace, Queue, ScheduleName};
use bursar_core::payload::Payload;
use bursar_core::request::{BlobOp, Command, Op, Request};
use bursar_core::time::Span;
use bursar_core::window::Zone;
use bursar_store::PostgresStore;
use bursar_store::conformance::checked;
use bursar_store::prelude::*;
use sqlx::{Connection, PgConnection};

use crate::support::{job, key, one, open, until_waiting};

/// A job without a key of its own.
fn work() -> JobSpec {
    JobSpec::new(Queue::new("renders").unwrap(), JobKind::new("video").unwrap(), Payload::default())
}

fn enqueue_once() -> Request {
    Request::from(Op::Submit(Command { jobs: vec![work()], ..Command::default() })).with_key(key("once"))
}

fn schedule() -> Request {
    let spec = ScheduleSpec::new(Cron::new("0 3 * * *").unwrap(), Zone::utc(), work());
    Op::DefineSchedule { schedule: ScheduleName::new("nightly").unwrap(), spec }.into()
}

/// Starts an upload and returns the request that ends it with bytes that all uploads share.
async fn upload(store: &PostgresStore) -> Request {
    let spec = BlobSpec::new(Namespace::new("assets").unwrap(), Backend::new("local").unwrap());
    let start = BlobOp::Start { spec: BlobSpec { size: Some(1), ..spec }, ttl: Span::from_secs(600) };
    let started = one(store, &Op::Blob(start).into()).await.unwrap();
    let Answer::Blob(started) = started.answer else { panic!("an upload") };
    stored(started.blob)
}

fn stored(blob: BlobId) -> Request {
    Op::Blob(BlobOp::Store { blob, size: 1, digest: Sha256Digest([7; 32]) }).into()
}

#[tokio::test]
async fn a_name_that_is_taken_meanwhile_is_no_error_of_the_server() {
    let (store, url) = open(1).await;
    let store = Arc::new(store);
    let uploads = (upload(&store).await, upload(&store).await);
    let pairs = [(job("once"), job("once")), (enqueue_once(), enqueue_once()), (schedule(), schedule()), uploads];
    for (first, second) in pairs {
        let mut conn = PgConnection::connect(&url).await.unwrap();
        let mut ours = conn.begin().await.unwrap();
        store.commit_in(&mut ours, &checked(first)).await.unwrap().unwrap();
        let other = tokio::spawn({
            let (store, url) = (store.clone(), url.clone());
            async move {
                let mut conn = PgConnection::connect(&url).await.unwrap();
                let mut theirs = conn.begin().await.unwrap();
                store.commit_in(&mut theirs, &checked(second)).await.unwrap().unwrap();
                theirs.commit().await.unwrap();
            }
        });
        until_waiting(&url, 1).await;
        ours.commit().await.unwrap();
        other.await.unwrap();
    }
    // One job for each key, and one name for each schedule and digest.
    let counts = "SELECT (SELECT count(*) FROM bursar.jobs), (SELECT count(*) FROM bursar.schedules),
                         (SELECT count(*) FROM bursar.blob_digests)";
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let counts: (i64, i64, i64) = sqlx::query_as(counts).fetch_one(&mut conn).await.unwrap();
    assert_eq!(counts, (2, 1, 1));
    assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new());
    // An error of the test itself shows that errors of this database are found.
    sqlx::raw_sql("SELECT 1 / 0").execute(&mut conn).await.unwrap_err();
    let log = std::fs::read_to_string(bursar_testkit::postgres().folder().join("log")).unwrap();
    let error = format!(":{}:ERROR:", url.rsplit('/').next().unwrap());
    let errors: Vec<&str> = log.lines().filter(|line| line.contains(&error)).collect();
    assert!(matches!(errors.as_slice(), [one] if one.contains("division by zero")), "{errors:#?}");
}
