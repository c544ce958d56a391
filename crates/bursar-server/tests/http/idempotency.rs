//! Retries with the same idempotency key: one effect, one answer.

use serde_json::{Value, json};

use crate::client::Response;
use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(
    a_keyed_action_on_a_job_happens_once,
    a_keyed_action_on_many_jobs_happens_once,
    keys_of_parts_cannot_collide_with_callers_keys,
    a_keyed_delete_is_replayed
);

async fn keyed(server: &TestServer, key: &str, method: &str, path: &str, body: Value) -> Response {
    server.call_with(OPERATOR, &[("Idempotency-Key", key)], method, path, body).await
}

async fn enqueue(server: &TestServer, kind: &str) -> String {
    let body = json!({ "queue": "q", "kind": kind });
    server.call("POST", "/v1/jobs", body).await.is(201).json()["id"].as_str().unwrap().to_owned()
}

/// Leases all ready jobs and fails them without retry.
async fn kill(server: &TestServer) {
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"], "capacity": 10 })).await.is(200).json();
    for job in leased["jobs"].as_array().unwrap() {
        let path = format!("/v1/jobs/{}/fail", job["id"].as_str().unwrap());
        let body = json!({ "fence": job["lease"]["fence"], "error": { "kind": "bad" }, "retryable": false });
        assert_eq!(server.call("POST", &path, body).await.is(200).json()["state"], "dead");
    }
}

async fn state(server: &TestServer, id: &str) -> Value {
    server.call("GET", &format!("/v1/jobs/{id}"), Value::Null).await.is(200).json()["state"].clone()
}

/// Sends a request twice; asserts that the second response is a marked replay of the first.
async fn twice(server: &TestServer, key: &str, method: &str, path: &str, body: Value) -> Value {
    let first = keyed(server, key, method, path, body.clone()).await.is(200);
    assert_eq!(first.header("idempotent-replayed"), None, "{path}");
    let again = keyed(server, key, method, path, body).await.is(200);
    assert_eq!((again.json(), again.header("idempotent-replayed")), (first.json(), Some("true")), "{path}");
    first.json()
}

async fn a_keyed_action_on_a_job_happens_once(server: TestServer) {
    let id = enqueue(&server, "k").await;
    kill(&server).await;
    let path = |act: &str| format!("/v1/jobs/{id}/{act}");
    assert_eq!(twice(&server, "retry", "POST", &path("retry"), json!({ "reason": "mended" })).await["state"], "queued");
    kill(&server).await;
    // The replay is the first answer, although the job has changed since. The reason is not part of the compared request.
    let again = keyed(&server, "retry", "POST", &path("retry"), json!({})).await.is(200);
    assert_eq!((&again.json()["state"], again.header("idempotent-replayed")), (&json!("queued"), Some("true")));
    assert_eq!(state(&server, &id).await, "dead");
    let other = enqueue(&server, "other").await;
    for (path, body) in [
        (path("discard"), json!({})),
        (format!("/v1/jobs/{other}/retry"), json!({})),
        ("/v1/jobs/retry".to_owned(), json!({ "filter": { "queue": "q" } })),
        ("/v1/jobs".to_owned(), json!({ "queue": "q", "kind": "k" })),
    ] {
        assert_eq!(keyed(&server, "retry", "POST", &path, body).await.is(409).problem(), "conflict", "{path}");
    }
    twice(&server, "discard", "POST", &path("discard"), json!({})).await;
    let path = |act: &str| format!("/v1/jobs/{other}{act}");
    twice(&server, "edit", "PATCH", &path(""), json!({ "priority": 5 })).await;
    assert_eq!(
        keyed(&server, "edit", "PATCH", &path(""), json!({ "priority": 6 })).await.is(409).problem(),
        "conflict",
        "the same key with another body"
    );
    twice(&server, "move", "POST", &path("/move"), json!({ "queue": "slow" })).await;
    assert_eq!(twice(&server, "cancel", "POST", &path("/cancel"), json!({})).await["state"], "cancelled");
    // A refused request does not use up its key.
    keyed(&server, "later", "POST", &path("/discard"), json!({})).await.is(409);
    server.call("POST", &path("/retry"), json!({})).await.is(200);
    server.call("POST", &path("/move"), json!({ "queue": "q" })).await.is(200);
    kill(&server).await;
    keyed(&server, "later", "POST", &path("/discard"), json!({})).await.is(200);
    server.stop().await;
}

async fn a_keyed_action_on_many_jobs_happens_once(server: TestServer) {
    let ids = [enqueue(&server, "a").await, enqueue(&server, "a").await, enqueue(&server, "b").await];
    kill(&server).await;
    let of_kind = |kind: &str| json!({ "filter": { "queue": "q", "kind": kind } });
    let acted = twice(&server, "retry", "POST", "/v1/dead/retry", of_kind("a")).await;
    assert_eq!((&acted["matched"], &acted["done"], &acted["next"]), (&json!(2), &json!(2), &Value::Null));
    kill(&server).await;
    let again = keyed(&server, "retry", "POST", "/v1/dead/retry", of_kind("a")).await.is(200);
    assert_eq!((again.json(), again.header("idempotent-replayed")), (acted, Some("true")));
    assert_eq!(state(&server, &ids[0]).await, "dead", "the job was retried only once");
    let other = keyed(&server, "retry", "POST", "/v1/dead/retry", of_kind("b")).await.is(409);
    assert_eq!(other.problem(), "conflict");
    let named = json!({ "ids": [ids[1], ids[2], "job_00000000000000000000000000"] });
    let acted = twice(&server, "named", "POST", "/v1/dead/discard", named).await;
    assert_eq!((&acted["done"], &acted["refused"]), (&json!(2), &json!(1)));

    // Exactly as many jobs as fill the pages, so that the last page is full.
    let jobs: Vec<Value> = (0..1_000).map(|_| json!({ "queue": "many", "kind": "k" })).collect();
    server.call("POST", "/v1/jobs/bulk", json!({ "jobs": jobs })).await.is(200);
    let all = json!({ "filter": { "queue": "many" } });
    let acted = twice(&server, "cancel", "POST", "/v1/jobs/cancel", all.clone()).await;
    assert_eq!((&acted["matched"], &acted["done"]), (&json!(1_000), &json!(1_000)));
    let few: Vec<Value> = (0..3).map(|_| json!({ "queue": "many", "kind": "k" })).collect();
    server.call("POST", "/v1/jobs/bulk", json!({ "jobs": few })).await.is(200);
    assert_eq!(keyed(&server, "cancel", "POST", "/v1/jobs/cancel", all.clone()).await.is(200).json(), acted);
    let left = server.call("GET", "/v1/jobs?queue=many&state=queued", Value::Null).await.is(200).json();
    assert_eq!(left["items"].as_array().unwrap().len(), 3, "jobs enqueued later are not affected");
    // With a limit the action stops early and returns a cursor.
    let some = json!({ "filter": { "queue": "many", "state": "cancelled" }, "limit": 500 });
    let acted = twice(&server, "some", "POST", "/v1/jobs/retry", some).await;
    assert_eq!(acted["matched"], 500);
    assert!(acted["next"].is_string());
    server.stop().await;
}

async fn keys_of_parts_cannot_collide_with_callers_keys(server: TestServer) {
    let longest = "k".repeat(255);
    let jobs: Vec<Value> = (0..1_500).map(|n| json!({ "queue": "q", "kind": "k", "payload": n })).collect();
    let first = twice(&server, &longest, "POST", "/v1/jobs/bulk", json!({ "jobs": jobs })).await;
    assert_eq!(first["jobs"].as_array().unwrap().len(), 1_500);
    let fewer = json!({ "jobs": jobs[..1_000] });
    assert_eq!(keyed(&server, &longest, "POST", "/v1/jobs/bulk", fewer).await.is(409).problem(), "conflict");
    let mut changed = jobs.clone();
    changed[1_499] = json!({ "queue": "q", "kind": "k", "payload": "another" });
    let changed = keyed(&server, &longest, "POST", "/v1/jobs/bulk", json!({ "jobs": changed })).await.is(409);
    assert_eq!(changed.problem(), "conflict");
    // Keys that look like those of parts do not collide with them.
    for key in ["order/0", "order/1"] {
        keyed(&server, key, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
    }
    twice(&server, "order", "POST", "/v1/jobs/bulk", json!({ "jobs": jobs })).await;
    let own = keyed(&server, "bursar:part:1", "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(400);
    assert_eq!(own.json()["field"], "idempotency_key");
    server.stop().await;
}

async fn a_keyed_delete_is_replayed(server: TestServer) {
    let grant = json!({ "purpose": "upload", "subject": "s", "ttl_ms": 60_000 });
    let grant = server.call("POST", "/v1/grants", grant).await.is(201).json()["id"].as_str().unwrap().to_owned();
    let key = server.call("POST", "/v1/keys", json!({ "name": "k", "role": "user" })).await.is(201).json();
    let schedule = json!({ "cron": "@daily", "queue": "q", "kind": "k" });
    server.call("PUT", "/v1/schedules/s", schedule).await.is(200);
    let paths =
        [format!("/v1/grants/{grant}"), format!("/v1/keys/{}", key["id"].as_str().unwrap()), "/v1/schedules/s".into()];
    for path in paths {
        for replayed in [None, Some("true")] {
            let answer = keyed(&server, &path, "DELETE", &path, Value::Null).await.is(204);
            assert_eq!(answer.header("idempotent-replayed"), replayed, "{path}");
        }
    }
    server.stop().await;
}
