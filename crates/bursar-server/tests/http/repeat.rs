//! Asked again under the same key: one effect, one answer.

use serde_json::{Value, json};

use crate::client::Answer;
use crate::home::{Home, OPERATOR, on_both};

on_both!(
    what_is_done_to_a_job_under_a_key_is_done_once,
    what_is_done_to_many_jobs_under_a_key_is_done_once,
    parts_of_what_is_asked_have_keys_that_nobody_else_can_have,
    what_is_taken_back_under_a_key_is_answered_again
);

async fn keyed(home: &Home, key: &str, method: &str, path: &str, body: Value) -> Answer {
    home.ask_with(OPERATOR, &[("Idempotency-Key", key)], method, path, body).await
}

async fn enqueue(home: &Home, kind: &str) -> String {
    let body = json!({ "queue": "q", "kind": kind });
    home.ask("POST", "/v1/jobs", body).await.is(201).json()["id"].as_str().unwrap().to_owned()
}

/// Leases whatever waits, and fails it for good.
async fn kill(home: &Home) {
    let leased = home.ask("POST", "/v1/jobs/lease", json!({ "queues": ["q"], "capacity": 10 })).await.is(200).json();
    for job in leased["jobs"].as_array().unwrap() {
        let path = format!("/v1/jobs/{}/fail", job["id"].as_str().unwrap());
        let body = json!({ "fence": job["lease"]["fence"], "error": { "kind": "bad" }, "retryable": false });
        assert_eq!(home.ask("POST", &path, body).await.is(200).json()["state"], "dead");
    }
}

async fn state(home: &Home, id: &str) -> Value {
    home.ask("GET", &format!("/v1/jobs/{id}"), Value::Null).await.is(200).json()["state"].clone()
}

/// What is asked twice in the same way is answered in the same way, and marked.
async fn twice(home: &Home, key: &str, method: &str, path: &str, body: Value) -> Value {
    let first = keyed(home, key, method, path, body.clone()).await.is(200);
    assert_eq!(first.header("idempotent-replayed"), None, "{path}");
    let again = keyed(home, key, method, path, body).await.is(200);
    assert_eq!((again.json(), again.header("idempotent-replayed")), (first.json(), Some("true")), "{path}");
    first.json()
}

async fn what_is_done_to_a_job_under_a_key_is_done_once(home: Home) {
    let id = enqueue(&home, "k").await;
    kill(&home).await;
    let path = |act: &str| format!("/v1/jobs/{id}/{act}");
    assert_eq!(twice(&home, "retry", "POST", &path("retry"), json!({ "reason": "mended" })).await["state"], "queued");
    kill(&home).await;
    // The answer of then, though the job has gone on; why it is asked is not part of what is asked.
    let again = keyed(&home, "retry", "POST", &path("retry"), json!({})).await.is(200);
    assert_eq!((&again.json()["state"], again.header("idempotent-replayed")), (&json!("queued"), Some("true")));
    assert_eq!(state(&home, &id).await, "dead");
    let other = enqueue(&home, "other").await;
    for (path, body) in [
        (path("discard"), json!({})),
        (format!("/v1/jobs/{other}/retry"), json!({})),
        ("/v1/jobs/retry".to_owned(), json!({ "filter": { "queue": "q" } })),
        ("/v1/jobs".to_owned(), json!({ "queue": "q", "kind": "k" })),
    ] {
        assert_eq!(keyed(&home, "retry", "POST", &path, body).await.is(409).problem(), "conflict", "{path}");
    }
    twice(&home, "discard", "POST", &path("discard"), json!({})).await;
    let path = |act: &str| format!("/v1/jobs/{other}{act}");
    twice(&home, "edit", "PATCH", &path(""), json!({ "priority": 5 })).await;
    assert_eq!(
        keyed(&home, "edit", "PATCH", &path(""), json!({ "priority": 6 })).await.is(409).problem(),
        "conflict",
        "the same key, another body"
    );
    twice(&home, "move", "POST", &path("/move"), json!({ "queue": "slow" })).await;
    assert_eq!(twice(&home, "cancel", "POST", &path("/cancel"), json!({})).await["state"], "cancelled");
    // What was refused may be tried again.
    keyed(&home, "later", "POST", &path("/discard"), json!({})).await.is(409);
    home.ask("POST", &path("/retry"), json!({})).await.is(200);
    home.ask("POST", &path("/move"), json!({ "queue": "q" })).await.is(200);
    kill(&home).await;
    keyed(&home, "later", "POST", &path("/discard"), json!({})).await.is(200);
    home.stop().await;
}

async fn what_is_done_to_many_jobs_under_a_key_is_done_once(home: Home) {
    let ids = [enqueue(&home, "a").await, enqueue(&home, "a").await, enqueue(&home, "b").await];
    kill(&home).await;
    let of_kind = |kind: &str| json!({ "filter": { "queue": "q", "kind": kind } });
    let acted = twice(&home, "retry", "POST", "/v1/dead/retry", of_kind("a")).await;
    assert_eq!((&acted["matched"], &acted["done"], &acted["next"]), (&json!(2), &json!(2), &Value::Null));
    kill(&home).await;
    let again = keyed(&home, "retry", "POST", "/v1/dead/retry", of_kind("a")).await.is(200);
    assert_eq!((again.json(), again.header("idempotent-replayed")), (acted, Some("true")));
    assert_eq!(state(&home, &ids[0]).await, "dead", "it was tried again once");
    let other = keyed(&home, "retry", "POST", "/v1/dead/retry", of_kind("b")).await.is(409);
    assert_eq!(other.problem(), "conflict");
    let named = json!({ "ids": [ids[1], ids[2], "job_00000000000000000000000000"] });
    let acted = twice(&home, "named", "POST", "/v1/dead/discard", named).await;
    assert_eq!((&acted["done"], &acted["refused"]), (&json!(2), &json!(1)));

    // As many as fill their pages, so that the last one is full too.
    let jobs: Vec<Value> = (0..1_000).map(|_| json!({ "queue": "many", "kind": "k" })).collect();
    home.ask("POST", "/v1/jobs/bulk", json!({ "jobs": jobs })).await.is(200);
    let all = json!({ "filter": { "queue": "many" } });
    let acted = twice(&home, "cancel", "POST", "/v1/jobs/cancel", all.clone()).await;
    assert_eq!((&acted["matched"], &acted["done"]), (&json!(1_000), &json!(1_000)));
    let few: Vec<Value> = (0..3).map(|_| json!({ "queue": "many", "kind": "k" })).collect();
    home.ask("POST", "/v1/jobs/bulk", json!({ "jobs": few })).await.is(200);
    assert_eq!(keyed(&home, "cancel", "POST", "/v1/jobs/cancel", all.clone()).await.is(200).json(), acted);
    let left = home.ask("GET", "/v1/jobs?queue=many&state=queued", Value::Null).await.is(200).json();
    assert_eq!(left["items"].as_array().unwrap().len(), 3, "who came later is not meant");
    // Under a limit it ends earlier, and says where to go on.
    let some = json!({ "filter": { "queue": "many", "state": "cancelled" }, "limit": 500 });
    let acted = twice(&home, "some", "POST", "/v1/jobs/retry", some).await;
    assert_eq!(acted["matched"], 500);
    assert!(acted["next"].is_string());
    home.stop().await;
}

async fn parts_of_what_is_asked_have_keys_that_nobody_else_can_have(home: Home) {
    let longest = "k".repeat(255);
    let jobs: Vec<Value> = (0..1_500).map(|n| json!({ "queue": "q", "kind": "k", "payload": n })).collect();
    let first = twice(&home, &longest, "POST", "/v1/jobs/bulk", json!({ "jobs": jobs })).await;
    assert_eq!(first["jobs"].as_array().unwrap().len(), 1_500);
    let fewer = json!({ "jobs": jobs[..1_000] });
    assert_eq!(keyed(&home, &longest, "POST", "/v1/jobs/bulk", fewer).await.is(409).problem(), "conflict");
    let mut changed = jobs.clone();
    changed[1_499] = json!({ "queue": "q", "kind": "k", "payload": "another" });
    let changed = keyed(&home, &longest, "POST", "/v1/jobs/bulk", json!({ "jobs": changed })).await.is(409);
    assert_eq!(changed.problem(), "conflict");
    // Whatever others use as keys, it is not in the way.
    for key in ["order/0", "order/1"] {
        keyed(&home, key, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
    }
    twice(&home, "order", "POST", "/v1/jobs/bulk", json!({ "jobs": jobs })).await;
    let own = keyed(&home, "bursar:part:1", "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(400);
    assert_eq!(own.json()["field"], "idempotency_key");
    home.stop().await;
}

async fn what_is_taken_back_under_a_key_is_answered_again(home: Home) {
    let grant = json!({ "purpose": "upload", "subject": "s", "ttl_ms": 60_000 });
    let grant = home.ask("POST", "/v1/grants", grant).await.is(201).json()["id"].as_str().unwrap().to_owned();
    let key = home.ask("POST", "/v1/keys", json!({ "name": "k", "role": "user" })).await.is(201).json();
    let schedule = json!({ "cron": "@daily", "queue": "q", "kind": "k" });
    home.ask("PUT", "/v1/schedules/s", schedule).await.is(200);
    let paths =
        [format!("/v1/grants/{grant}"), format!("/v1/keys/{}", key["id"].as_str().unwrap()), "/v1/schedules/s".into()];
    for path in paths {
        for replayed in [None, Some("true")] {
            let answer = keyed(&home, &path, "DELETE", &path, Value::Null).await.is(204);
            assert_eq!(answer.header("idempotent-replayed"), replayed, "{path}");
        }
    }
    home.stop().await;
}
