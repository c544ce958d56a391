//! Responses when the database fails.

use bursar::rusqlite;
use bursar::sqlx::{Connection as _, PgConnection, query};
use bursar_server::Settings;
use serde_json::{Value, json};

use crate::test_server::{TestServer, on_both_engines};

on_both_engines!(a_server_without_database_is_alive_but_not_ready);

async fn a_server_without_database_is_alive_but_not_ready(server: TestServer) {
    assert_eq!(server.call("GET", "/readyz", Value::Null).await.is(200).json(), json!({ "status": "ok" }));
    server.bursar.clone().close().await;
    server.call("GET", "/livez", Value::Null).await.is(200);
    let unready = server.call("GET", "/readyz", Value::Null).await.is(503);
    assert_eq!((unready.problem().as_str(), unready.header("retry-after")), ("not-ready", Some("1")));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_errors_are_not_exposed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.db");
    let server = TestServer::on(&format!("sqlite://{}", path.display()), Settings::default()).await;
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("ALTER TABLE bursar_jobs RENAME TO secret_name").unwrap();
    database_is_not_quoted(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_errors_are_not_exposed() {
    let url = bursar_testkit::fresh_database();
    let server = TestServer::on(&url, Settings::default()).await;
    let mut other = PgConnection::connect(&url).await.unwrap();
    query("ALTER TABLE bursar.jobs RENAME TO secret_name").execute(&mut other).await.unwrap();
    database_is_not_quoted(server).await;
}

/// Asserts that responses with a missing table report a server failure without quoting the database.
async fn database_is_not_quoted(server: TestServer) {
    let unknown = "job_00000000000000000000000000";
    for (method, path, body) in [
        ("GET", "/v1/jobs".to_owned(), Value::Null),
        ("GET", format!("/v1/jobs/{unknown}"), Value::Null),
        ("POST", "/v1/jobs".to_owned(), json!({ "queue": "q", "kind": "k" })),
        ("POST", "/v1/jobs/complete".to_owned(), json!({ "items": [{ "id": unknown, "fence": 1 }] })),
    ] {
        let failed = server.call(method, &path, body).await;
        assert!(matches!(failed.status, 500 | 503), "{method} {path}: {failed:?}");
        assert!(matches!(failed.problem().as_str(), "internal" | "unavailable"), "{failed:?}");
        assert!(failed.json()["detail"].as_str().unwrap().contains("log"), "{failed:?}");
        let text = failed.text.to_lowercase();
        for word in ["jobs", "table", "relation", "sql", "select", "insert", "column"] {
            assert!(!text.contains(word), "{method} {path} exposes {word}: {failed:?}");
        }
    }
    server.stop().await;
}
