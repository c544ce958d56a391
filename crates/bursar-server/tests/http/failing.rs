//! What callers are told when the database does not do what it should.

use bursar::rusqlite;
use bursar::sqlx::{Connection as _, PgConnection, query};
use bursar_server::Settings;
use serde_json::{Value, json};

use crate::home::{Home, on_both};

on_both!(a_server_without_its_database_is_alive_and_not_ready);

async fn a_server_without_its_database_is_alive_and_not_ready(home: Home) {
    assert_eq!(home.ask("GET", "/readyz", Value::Null).await.is(200).json(), json!({ "status": "ok" }));
    home.bursar.clone().close().await;
    home.ask("GET", "/livez", Value::Null).await.is(200);
    let unready = home.ask("GET", "/readyz", Value::Null).await.is(503);
    assert_eq!((unready.problem().as_str(), unready.header("retry-after")), ("not-ready", Some("1")));
    home.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_words_of_sqlite_are_for_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.db");
    let home = Home::on(&format!("sqlite://{}", path.display()), Settings::default()).await;
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("ALTER TABLE bursar_jobs RENAME TO secret_name").unwrap();
    database_is_not_quoted(home).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_words_of_postgres_are_for_the_log() {
    let url = bursar_testkit::fresh_database();
    let home = Home::on(&url, Settings::default()).await;
    let mut other = PgConnection::connect(&url).await.unwrap();
    query("ALTER TABLE bursar.jobs RENAME TO secret_name").execute(&mut other).await.unwrap();
    database_is_not_quoted(home).await;
}

/// A table is gone: who asks is told that the server failed, and in which request.
async fn database_is_not_quoted(home: Home) {
    let nobody = "job_00000000000000000000000000";
    for (method, path, body) in [
        ("GET", "/v1/jobs".to_owned(), Value::Null),
        ("GET", format!("/v1/jobs/{nobody}"), Value::Null),
        ("POST", "/v1/jobs".to_owned(), json!({ "queue": "q", "kind": "k" })),
        ("POST", "/v1/jobs/complete".to_owned(), json!({ "items": [{ "id": nobody, "fence": 1 }] })),
    ] {
        let failed = home.ask(method, &path, body).await;
        assert!(matches!(failed.status, 500 | 503), "{method} {path}: {failed:?}");
        assert!(matches!(failed.problem().as_str(), "internal" | "unavailable"), "{failed:?}");
        assert!(failed.json()["detail"].as_str().unwrap().ends_with("says why"), "{failed:?}");
        let text = failed.text.to_lowercase();
        for word in ["jobs", "table", "relation", "sql", "select", "insert", "column"] {
            assert!(!text.contains(word), "{word} is told by {method} {path}: {failed:?}");
        }
    }
    home.stop().await;
}
