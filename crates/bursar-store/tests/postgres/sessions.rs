//! Sessions keep nothing that a later transaction relies on, so that a pooler can give each transaction another session.

use bursar_store::PostgresOptions;
use sqlx::{Connection, PgConnection};

use crate::support::{open_with, run_steps, story};

#[tokio::test]
async fn a_session_keeps_no_settings_locks_or_tables() {
    // With one connection every transaction runs in the same session.
    let (store, url) = open_with(1, PostgresOptions { connections: 1, ..PostgresOptions::default() }).await;
    for steps in story() {
        run_steps(&store, &steps).await;
    }
    let kept = "SELECT name || ' = ' || setting FROM pg_settings WHERE source IN ('session', 'client')
        UNION ALL SELECT 'an advisory lock' FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
        UNION ALL SELECT 'table ' || relname FROM pg_class WHERE relpersistence = 't'
        UNION ALL SELECT 'channel ' || c FROM pg_listening_channels() c ORDER BY 1";
    let mut fresh = PgConnection::connect(&url).await.unwrap();
    let of_the_driver: Vec<String> = sqlx::query_scalar(kept).fetch_all(&mut fresh).await.unwrap();
    let of_the_store: Vec<String> = sqlx::query_scalar(kept).fetch_all(store.pool()).await.unwrap();
    assert_eq!(of_the_store, of_the_driver);
    // A setting that stays is found.
    sqlx::raw_sql("SET enable_seqscan = off").execute(store.pool()).await.unwrap();
    let of_the_store: Vec<String> = sqlx::query_scalar(kept).fetch_all(store.pool()).await.unwrap();
    assert_ne!(of_the_store, of_the_driver);
}
