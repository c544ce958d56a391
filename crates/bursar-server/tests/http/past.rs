//! Resources as they were: `?at=` on the routes of one resource.

use serde_json::{Value, json};

use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(resources_are_shown_as_they_were, moments_that_cannot_be_read_are_refused);

async fn position(server: &TestServer) -> u64 {
    let page = server.call("GET", "/v1/journal?order=newest&limit=1", Value::Null).await.is(200).json();
    page["items"][0]["position"].as_u64().unwrap()
}

async fn resources_are_shown_as_they_were(server: TestServer) {
    let call = async |method: &str, path: &str, body: Value| {
        let answer = server.call(method, path, body).await;
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
        answer.header("location").map(|made| made.rsplit('/').next().unwrap().to_owned())
    };
    let limits = json!([{ "amount": 1_000, "window": "lifetime" }]);
    call("PUT", "/v1/budgets/room", json!({ "limits": limits })).await;
    let hold = json!({ "charges": [{ "scope": "room", "amount": 300 }], "ttl_ms": 60_000 });
    let hold = call("POST", "/v1/holds", hold).await.unwrap();
    let job = call("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k", "payload": 1 })).await.unwrap();
    let grant = json!({ "purpose": "p", "subject": "s", "payload": 1, "ttl_ms": 60_000 });
    let grant = call("POST", "/v1/grants", grant).await.unwrap();
    let schedule = |kind: &str| json!({ "cron": "@yearly", "queue": "q", "kind": kind });
    call("PUT", "/v1/schedules/s", schedule("first")).await;
    call("PUT", "/v1/namespaces/media", json!({ "bytes_max": 7 })).await;
    let blob = server.send_as(OPERATOR, &[], "POST", "/v1/blobs?namespace=media", Some("bytes")).await.is(201).json();
    let blob = blob["id"].as_str().unwrap().to_owned();

    let paths = [
        "/v1/budgets/room".to_owned(),
        format!("/v1/holds/{hold}"),
        format!("/v1/jobs/{job}"),
        format!("/v1/grants/{grant}"),
        "/v1/schedules/s".to_owned(),
        "/v1/namespaces/media".to_owned(),
        format!("/v1/blobs/{blob}/meta"),
    ];
    let then = position(&server).await;
    let mut before = Vec::new();
    for path in &paths {
        before.push(server.call("GET", path, Value::Null).await.is(200).json());
    }
    call("POST", &format!("/v1/holds/{hold}/commit"), json!({ "actual": 250 })).await;
    call("POST", &format!("/v1/jobs/{job}/cancel"), json!({})).await;
    server.call("DELETE", &format!("/v1/grants/{grant}"), Value::Null).await.is(204);
    call("PUT", "/v1/schedules/s", schedule("second")).await;
    call("PUT", "/v1/namespaces/media", json!({ "bytes_max": 8 })).await;
    server.call("DELETE", &format!("/v1/blobs/{blob}"), Value::Null).await.is(204);

    for (path, before) in paths.iter().zip(&before) {
        let now = server.call("GET", path, Value::Null).await.is(200).json();
        assert_ne!(now, *before, "{path} has changed");
        let was = server.call("GET", &format!("{path}?at={then}"), Value::Null).await.is(200);
        assert_eq!(was.header("etag"), None, "{path}: the past cannot be changed");
        assert_eq!(was.json(), *before, "{path}");
        let at = before_now(&server).await;
        let is = server.call("GET", &format!("{path}?at={at}"), Value::Null).await.is(200).json();
        assert_eq!(is, now, "{path} at {at}");
        if !path.starts_with("/v1/namespaces") {
            server.call("GET", &format!("{path}?at=0"), Value::Null).await.is(404);
            let before = server.call("GET", &format!("{path}?at=2020-01-01T00:00:00Z"), Value::Null).await.is(404);
            assert!(before.text.contains(" at 2020-01-01T00:00:00Z"), "it tells that the moment matters: {before:?}");
        }
    }
    server.stop().await;
}

/// Returns a time that is not before the last event and not after now.
async fn before_now(server: &TestServer) -> String {
    let page = server.call("GET", "/v1/journal?order=newest&limit=1", Value::Null).await.is(200).json();
    page["items"][0]["at"].as_str().unwrap().to_owned()
}

async fn moments_that_cannot_be_read_are_refused(server: TestServer) {
    let limits = json!([{ "amount": 1_000, "window": "lifetime" }]);
    server.call("PUT", "/v1/budgets/room", json!({ "limits": limits })).await.is(200);
    let last = position(&server).await;
    let beyond = (last + 1).to_string();
    for (at, problem) in [
        ("yesterday", "at must be a time such as 2026-11-15T10:00:00Z, or a position of the journal such as 1200"),
        ("2999-01-01T00:00:00Z", "at is in the future"),
        (beyond.as_str(), "at is beyond the last position of the journal"),
    ] {
        let answer = server.call("GET", &format!("/v1/budgets/room?at={at}"), Value::Null).await.is(400);
        assert!(answer.text.contains(problem), "{at}: {answer:?}");
        assert!(answer.text.contains("\"field\":\"at\""), "{at}: {answer:?}");
    }
    let outsider = server.key("globex", "admin").await;
    let foreign = server.call_as(&outsider, "GET", &format!("/v1/budgets/room?at={last}"), Value::Null).await;
    assert_eq!(foreign.is(404).problem(), "not-found");
    server.stop().await;
}
