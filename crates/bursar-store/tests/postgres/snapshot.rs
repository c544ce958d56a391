//! A snapshot that is held open, as by a report or a dump, keeps the server from removing old versions of rows.

use bursar_core::name::Tenant;
use bursar_store::prelude::*;
use bursar_store::{PostgresOptions, PostgresStore};
use sqlx::{Connection, PgConnection};

use crate::support::*;

/// Writes of one scope, each of which leaves an old version.
const WRITES: usize = 1_500;
/// The most pages that a look-up of the scope reads. All versions are on more than that.
const PAGES_MAX: i64 = 20;

/// Returns how many times scopes were looked up for writing, and the pages that this read.
async fn lookups(url: &str) -> (i64, i64) {
    let mut conn = PgConnection::connect(url).await.unwrap();
    sqlx::query_as(
        "SELECT sum(calls)::bigint, sum(shared_blks_hit + shared_blks_read)::bigint FROM pg_stat_statements s
         JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = current_database()
         AND query LIKE '%FROM bursar.scopes s%FOR UPDATE SKIP LOCKED%'",
    )
    .fetch_one(&mut conn)
    .await
    .unwrap()
}

async fn post_often(store: &PostgresStore, times: usize) {
    for _ in 0..times {
        one(store, &post("busy", 1)).await.unwrap();
    }
}

#[tokio::test]
async fn a_busy_scope_is_found_without_its_old_versions() {
    let (store, url) = open(1).await;
    define(&store, &["busy"], 1_000_000).await;
    sqlx::raw_sql("CREATE EXTENSION pg_stat_statements").execute(store.pool()).await.unwrap();
    let mut report = PgConnection::connect(&url).await.unwrap();
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM bursar.scopes";
    sqlx::raw_sql(begin).execute(&mut report).await.unwrap();
    post_often(&store, WRITES).await;
    let (calls, pages) = lookups(&url).await;
    post_often(&store, 100).await;
    let (calls_after, pages_after) = lookups(&url).await;
    assert_eq!(calls_after - calls, 100, "each look-up finds the scope by its spot");
    let each = (pages_after - pages) / 100;
    println!("a look-up reads {each} pages");
    assert!(each <= PAGES_MAX, "a look-up reads {each} pages");

    // Another node does not know the spot, and gives the scope another one, which the first node does not know.
    let other = PostgresStore::open(&url, setup(2), PostgresOptions::default()).await.unwrap();
    for _ in 0..3 {
        post_often(&other, 300).await;
        post_often(&store, 10).await;
    }
    let row = store.scope(&(Tenant::built_in(), scope("busy"))).await.unwrap().unwrap();
    assert_eq!(row.balances[0].posted, (WRITES + 100 + 3 * 310) as i64);
    assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new());
}
