//! How much a database and its archive grow. `cargo test -p bursar --test api growth -- --nocapture` prints the figures.

use std::time::Duration;

use bursar::{ArchiveOptions, JobKind, JobSpec, MemoryPlace, Payload, Queue, Span};

use crate::home::{Home, Place, on_both_engines};

on_both_engines! {
    the_archive_is_a_fraction_of_the_journal,
}

/// The requests of each kind that are measured.
const REQUESTS: u64 = 500;
/// The requests that share a transaction.
const TOGETHER: u64 = 50;

/// Returns the bytes of the tables of the journal, and of all tables with their indexes.
async fn bytes(home: &Home) -> (u64, u64) {
    if home.postgres.is_some() {
        home.sql("VACUUM FULL").await;
        let of = |tables: &str| {
            format!(
                "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
                 JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'bursar' AND c.relkind = 'r' {tables}"
            )
        };
        let mut connection = home.connect().await;
        let mut read = async |sql: String| {
            let sql = bursar::sqlx::AssertSqlSafe(sql);
            let bytes: i64 = bursar::sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap();
            bytes.unsigned_abs()
        };
        return (read(of("AND c.relname LIKE 'journal%'")).await, read(of("")).await);
    }
    let file = bursar::rusqlite::Connection::open(home.url.trim_start_matches("sqlite://")).unwrap();
    let read = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap().unsigned_abs();
    let pages = read("PRAGMA page_count") - read("PRAGMA freelist_count");
    let journal = read("SELECT coalesce(sum(24 + length(prev) + length(entries)), 0) FROM bursar_journal");
    (journal, pages * read("PRAGMA page_size"))
}

/// Sends requests, some of which share a transaction.
async fn send<F: Future<Output = ()>>(request: impl Fn(u64) -> F) {
    for first in (0..REQUESTS).step_by(TOGETHER as usize) {
        futures_util::future::join_all((first..first + TOGETHER).map(&request)).await;
    }
}

async fn the_archive_is_a_fraction_of_the_journal(place: Place) {
    let engine = if place.is_postgres() { "PostgreSQL" } else { "SQLite" };
    let archive = ArchiveOptions::at(MemoryPlace::default()).after(Duration::from_secs(3_600));
    let folder = tempfile::tempdir().unwrap();
    let home = place.in_folder(folder.path()).open_with(|options| options.archive(archive)).await;
    let bursar = &home.bursar;
    let scopes: Vec<String> = (0..100).map(|number| format!("agent:{number}")).collect();
    home.budgets(&scopes.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let queue = Queue::new("media").unwrap();
    let kind = JobKind::new("video.render").unwrap();
    let payload =
        Payload::new(r#"{"model":"large","prompt":"b5f1c2d3-8a7e-4f60-9c1d-2e3f4a5b6c7d","seconds":8}"#).unwrap();
    let scope = |number: u64| scopes[number as usize % scopes.len()].as_str();
    let mut before = bytes(&home).await;
    let mut after_kind = async |what: &str| {
        home.clock.advance(Span::from_secs(7_200));
        bursar.ledger().post("agent:0", 1).await.unwrap();
        let grown = bytes(&home).await;
        let each = |before: u64, after: u64| after.saturating_sub(before) / REQUESTS;
        let (journal, all) = (each(before.0, grown.0), each(before.1, grown.1));
        let segments = bursar.journal().archive().await.unwrap().segments;
        let archived = segments.iter().map(|segment| segment.bytes).sum::<u64>() / REQUESTS;
        let plain = segments.iter().map(|segment| segment.plain_bytes).sum::<u64>() / REQUESTS;
        println!("{engine}: {what}: journal {journal}, all tables {all}, archived {archived} of {plain} bytes each");
        before = bytes(&home).await;
        (archived, plain)
    };
    send(async |number| drop(bursar.ledger().post(scope(number), 5).await.unwrap())).await;
    let post = after_kind("post").await;
    send(async |number| {
        let held = bursar.ledger().hold(scope(number), 50, Duration::from_secs(60)).await.unwrap();
        held.commit(20).await.unwrap();
    })
    .await;
    let hold = after_kind("hold and commit").await;
    send(async |number| {
        let command = bursar.command().charge(scope(number), 50);
        let job = JobSpec::new(queue.clone(), kind.clone(), payload.clone());
        drop(command.settle_with_job().job(job).submit().await.unwrap());
    })
    .await;
    let job = after_kind("command with a hold and a job").await;
    for (archived, plain) in [post, hold, job] {
        assert!(archived * 3 < plain, "{archived} of {plain} bytes: a segment is much smaller than its rows");
    }
}
