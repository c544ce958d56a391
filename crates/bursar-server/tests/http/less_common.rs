//! Less common requests: grants by id, operator tokens, the default event channel, progress of many jobs, `If-Match: *`.

use bursar::{Bursar, CredentialClass, Payload};
use serde_json::{Value, json};

use crate::client::{Connection, request};
use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(
    a_grant_is_found_at_its_location,
    only_operators_manage_operator_tokens,
    the_default_channel_is_the_journal,
    progress_is_reported_for_many_jobs,
    if_match_star_requires_existence
);

async fn a_grant_is_found_at_its_location(server: TestServer) {
    let body = json!({ "purpose": "upload", "subject": "s", "payload": { "n": 1 }, "ttl_ms": 60_000 });
    let minted = server.call("POST", "/v1/grants", body).await.is(201);
    let at = minted.header("location").unwrap().to_owned();
    let found = server.call("GET", &at, Value::Null).await.is(200);
    assert!(!found.text.contains("token") && !found.text.contains("bgr_"), "{found:?}");
    assert_eq!((&found.json()["state"], &found.json()["payload"]), (&json!("open"), &json!({ "n": 1 })));
    server.call("DELETE", &at, Value::Null).await.is(204);
    assert_eq!(server.call("GET", &at, Value::Null).await.is(200).json()["state"], "revoked");
    // Another tenant's grant and a credential are not found.
    server.call_with(OPERATOR, &[("Bursar-Tenant", "acme")], "GET", &at, Value::Null).await.is(404);
    let key = server.call("POST", "/v1/keys", json!({ "name": "k", "role": "user" })).await.is(201).json();
    let as_grant = key["id"].as_str().unwrap().replace("key_", "/v1/grants/grant_");
    server.call("GET", &as_grant, Value::Null).await.is(404);
    server.stop().await;
}

/// Creates an operator token as the first start does; returns its path and the token.
async fn operator(bursar: &Bursar) -> (String, String) {
    let subject = "operator".try_into().unwrap();
    let made = bursar.credentials().issue(CredentialClass::Operator, subject, Payload::default(), None, None).await;
    let token = made.unwrap().token.unwrap();
    let listed = bursar.credentials().list(CredentialClass::Operator, None, 10).await.unwrap();
    (format!("/v1/keys/{}", bursar::KeyId(listed[0].id.0)), token)
}

async fn only_operators_manage_operator_tokens(server: TestServer) {
    let (at, token) = operator(&server.bursar).await;
    let user = server.key("default", "user").await;
    let listed = server.call_as(&token, "GET", "/v1/keys", Value::Null).await.is(200).json();
    let roles: Vec<&str> = listed["items"].as_array().unwrap().iter().map(|k| k["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["operator", "user"]);
    let page = server.call("GET", "/v1/keys?limit=1", Value::Null).await.is(200).json();
    let next = format!("/v1/keys?limit=1&cursor={}", page["next"].as_str().unwrap());
    assert_eq!(server.call("GET", &next, Value::Null).await.is(200).json()["items"][0]["role"], "user");
    // An admin of the same tenant can neither see nor change them.
    let admin = server.key("default", "admin").await;
    let seen = server.call_as(&admin, "GET", "/v1/keys", Value::Null).await.is(200).text;
    assert!(!seen.contains("operator"), "{seen}");
    server.call_as(&admin, "GET", &at, Value::Null).await.is(404);
    server.call_as(&admin, "POST", &format!("{at}/rotate"), json!({})).await.is(404);
    server.call_as(&admin, "DELETE", &at, Value::Null).await.is(404);
    server.call_as(&user, "GET", &at, Value::Null).await.is(403);
    // They do not exist in another tenant.
    let elsewhere = server.call_with(OPERATOR, &[("Bursar-Tenant", "acme")], "GET", &at, Value::Null).await;
    elsewhere.is(404);
    // A rotated operator token has no expiry; both tokens work until the old one is revoked.
    let shown = server.call("GET", &at, Value::Null).await.is(200).json();
    assert_eq!(
        (&shown["role"], &shown["state"], &shown["expires_at"]),
        (&json!("operator"), &json!("good"), &Value::Null)
    );
    let rotated = server.call("POST", &format!("{at}/rotate"), json!({ "overlap_ms": 60_000 })).await.is(201).json();
    assert_eq!(rotated["expires_at"], Value::Null);
    let new = rotated["token"].as_str().unwrap();
    assert!(new.starts_with("bop_"));
    for good in [token.as_str(), new] {
        server.call_as(good, "GET", "/v1/verify", Value::Null).await.is(200);
    }
    server.call_as(new, "DELETE", &at, Value::Null).await.is(204);
    server.call_as(&token, "GET", "/v1/verify", Value::Null).await.is(401);
    server.call_as(new, "GET", "/v1/verify", Value::Null).await.is(200);
    server.stop().await;
}

async fn the_default_channel_is_the_journal(server: TestServer) {
    let viewer = server.key("acme", "viewer").await;
    let listen = async |token: &str| {
        let text = request("GET", "/v1/events", &[("Authorization", &format!("Bearer {token}"))], None);
        Connection::open(server.address, &text).await
    };
    let (mut stream, head) = listen(&viewer).await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    let acme = [("Bursar-Tenant", "acme")];
    server.call_with(OPERATOR, &acme, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
    loop {
        let part = stream.chunk().await.expect("the stream stays open");
        if part.contains("job.enqueued") {
            break;
        }
    }
    let user = server.key("acme", "user").await;
    assert_eq!(listen(&user).await.1.status, 403, "the default channel needs the permission to read the journal");
    drop(stream);
    server.stop().await;
}

async fn progress_is_reported_for_many_jobs(server: TestServer) {
    for _ in 0..2 {
        server.call("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
    }
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"], "capacity": 2 })).await.is(200).json();
    let id = |place: usize| leased["jobs"][place]["id"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {OPERATOR}");
    let text = request("GET", &format!("/v1/events?channels=job:{}", id(1)), &[("Authorization", &bearer)], None);
    let (mut stream, _) = Connection::open(server.address, &text).await;
    while !stream.chunk().await.expect("the stream opens").contains("ready") {}
    let items = json!([{ "id": id(0), "fence": 9 }, { "id": id(1), "fence": 1, "percent": 40, "message": "half" }]);
    let reported = server.call("POST", "/v1/jobs/progress", json!({ "items": items })).await.is(200).json();
    assert_eq!(reported["items"][0]["problem"]["type"], "/problems/lease-lost");
    assert_eq!(reported["items"][1]["order"], "continue");
    let alone =
        server.call("POST", &format!("/v1/jobs/{}/progress", id(1)), json!({ "fence": 1 })).await.is(200).json();
    let until = |lease: &Value| lease["expires_at"].as_str().unwrap().parse::<bursar::Time>().unwrap();
    let lapses = [until(&leased["jobs"][1]["lease"]), until(&reported["items"][1]), until(&alone)];
    assert!(lapses[0] < lapses[1] && lapses[1] < lapses[2], "each report renews the lease: {lapses:?}");
    loop {
        let part = stream.chunk().await.expect("the stream stays open");
        if part.contains("\"half\"") {
            break;
        }
    }
    let durable = json!({ "items": [{ "id": id(1), "fence": 1, "durable": true }] });
    assert_eq!(server.call("POST", "/v1/jobs/progress", durable).await.is(400).json()["field"], "items[0].durable");
    drop(stream);
    server.stop().await;
}

async fn if_match_star_requires_existence(server: TestServer) {
    let budget = json!({ "limits": [{ "amount": 5, "window": "day" }] });
    let any = [("If-Match", "*")];
    let schedule = json!({ "cron": "@daily", "queue": "q", "kind": "k" });
    for (path, body) in [("/v1/budgets/room", budget), ("/v1/schedules/s", schedule)] {
        let none = server.call_with(OPERATOR, &any, "PUT", path, body.clone()).await.is(412);
        assert_eq!(none.problem(), "changed");
        server.call("PUT", path, body.clone()).await.is(200);
        server.call_with(OPERATOR, &any, "PUT", path, body).await.is(200);
    }
    server.call_with(OPERATOR, &any, "PUT", "/v1/queues/q", json!({ "concurrency": 2 })).await.is(200);
    server.call_with(OPERATOR, &[("If-Match", "\"*\"")], "PUT", "/v1/budgets/room", json!({})).await.is(400);
    server.stop().await;
}
