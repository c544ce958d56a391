//! Authentication: the operator token, API keys, worker tokens, JWTs, and invalid tokens.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bursar::Bursar;
use bursar_server::{Server, Settings, StartError};
use ring::hmac;
use serde_json::{Value, json};

use crate::client::{request, send};
use crate::test_server::{OPERATOR, SECRET, TestServer, on_both_engines};

on_both_engines!(
    tokens_are_shown_once_rotated_and_revoked,
    a_revoked_worker_stops_waiting_and_gets_no_job,
    a_jwt_determines_user_tenant_and_role
);

/// The worker waits at the node that revokes its token, then at another one.
async fn a_revoked_worker_stops_waiting_and_gets_no_job(server: TestServer) {
    let other = TestServer::serve(server.bursar.clone(), Settings::default()).await;
    for node in [&server, &other] {
        let body = json!({ "name": "encoder", "capabilities": { "queues": ["media"], "kinds": ["*"] } });
        let made = server.call("POST", "/v1/workers", body).await.is(201);
        let token = made.json()["token"].as_str().unwrap().to_owned();
        let lease = json!({ "queues": ["media"], "wait_ms": 60_000 });
        let waiting = node.call_as(&token, "POST", "/v1/jobs/lease", lease);
        let revoking = async {
            while !node.call("GET", "/metrics", Value::Null).await.is(200).text.contains("bursar_lease_waiters 1\n") {}
            server.call("DELETE", made.header("location").unwrap(), Value::Null).await.is(204);
            // The job wakes the worker before it can have looked for itself.
            let job = json!({ "queue": "media", "kind": "video" });
            server.call("POST", "/v1/jobs", job).await.is(201).json()["id"].as_str().unwrap().to_owned()
        };
        let both = async { tokio::join!(waiting, revoking) };
        let (answer, job) = tokio::time::timeout(Duration::from_secs(30), both).await.expect("the wait ends early");
        assert_eq!(answer.is(401).problem(), "unauthorized");
        // Jobs are returned in the background.
        let path = format!("/v1/jobs/{job}");
        let returned = async {
            while server.call("GET", &path, Value::Null).await.is(200).json()["state"] != "queued" {}
            server.call("POST", &format!("{path}/cancel"), json!({})).await.is(200)
        };
        tokio::time::timeout(Duration::from_secs(30), returned).await.expect("the job is queued again");
    }
    other.stop().await;
}

async fn tokens_are_shown_once_rotated_and_revoked(server: TestServer) {
    let body = json!({ "name": "encoder", "capabilities": { "queues": ["media"], "kinds": ["*"] } });
    let made = server.call("POST", "/v1/workers", body).await.is(201);
    let (path, token) =
        (made.header("location").unwrap().to_owned(), made.json()["token"].as_str().unwrap().to_owned());
    assert!(token.starts_with("bwk_") && path.starts_with("/v1/workers/wkr_"));
    let shown = server.call("GET", &path, Value::Null).await.is(200);
    assert!(!shown.text.contains(&token[10..40]) && shown.json()["state"] == "good");
    assert_eq!(shown.json()["capabilities"]["queues"], json!(["media"]));
    let lease = json!({ "queues": ["media"] });
    server.call_as(&token, "POST", "/v1/jobs/lease", lease.clone()).await.is(200);
    // The use of the token is recorded in the background.
    let used =
        async { while !server.call("GET", &path, Value::Null).await.is(200).json()["last_used_at"].is_string() {} };
    tokio::time::timeout(Duration::from_secs(60), used).await.expect("the use is recorded within a minute");
    let rotated = server.call("POST", &format!("{path}/rotate"), json!({ "overlap_ms": 600_000 })).await.is(201);
    let fresh = rotated.json()["token"].as_str().unwrap().to_owned();
    for good in [&token, &fresh] {
        server.call_as(good, "POST", "/v1/jobs/lease", lease.clone()).await.is(200);
    }
    // Without an overlap the old token is invalid at once.
    let path = rotated.header("location").unwrap().to_owned();
    let third = server.call("POST", &format!("{path}/rotate"), json!({ "overlap_ms": 0 })).await.is(201);
    let (last, last_path) =
        (third.json()["token"].as_str().unwrap().to_owned(), third.header("location").unwrap().to_owned());
    assert_eq!(server.call_as(&fresh, "POST", "/v1/jobs/lease", lease.clone()).await.is(401).problem(), "unauthorized");
    let over = server.call("POST", &format!("{path}/rotate"), json!({})).await.is(409);
    assert_eq!(over.problem(), "conflict");
    server.call_as(&last, "POST", "/v1/jobs/lease", lease.clone()).await.is(200);
    server.call("DELETE", &last_path, Value::Null).await.is(204);
    let refused = server.call_as(&last, "POST", "/v1/jobs/lease", lease.clone()).await.is(401);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"bursar\""));
    let listed = server.call("GET", "/v1/workers", Value::Null).await.is(200).json();
    let states: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|worker| worker["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["good", "expired", "revoked"]);
    // The response is the same for every fault of a token.
    let mistyped = format!("{}{}", &token[..token.len() - 1], if token.ends_with('0') { '1' } else { '0' });
    let detail = refused.json()["detail"].clone();
    for bad in [mistyped.as_str(), "", "x", &token.replace("bwk_", "bop_"), &token.replace("bwk_", "bgr_"), "a.b.c"] {
        let answer = server.call_as(bad, "GET", "/v1/budgets", Value::Null).await.is(401);
        assert_eq!(answer.json()["detail"], detail, "{bad}");
    }
    // `X-Worker-Token` accepts worker tokens only, and a request may have only one token.
    let key = server.key("default", "admin").await;
    let by_header = request("GET", "/v1/budgets", &[("X-Worker-Token", &key)], None);
    send(server.address, by_header.as_bytes()).await.is(401);
    let bearer = format!("Bearer {OPERATOR}");
    let both = request("GET", "/v1/budgets", &[("Authorization", &bearer), ("X-Worker-Token", &token)], None);
    send(server.address, both.as_bytes()).await.is(401);
    for (body, field) in [
        (json!({ "name": "k", "role": "operator" }), "role"),
        (json!({ "name": "k", "role": "worker" }), "role"),
        (json!({ "name": "", "role": "user" }), "name"),
        (json!({ "name": "k", "role": "user", "expires_in_ms": 0 }), "expires_in_ms"),
        (json!({ "name": "k", "role": "user", "expires_in_ms": -5 }), "expires_in_ms"),
    ] {
        assert_eq!(server.call("POST", "/v1/keys", body.clone()).await.is(400).json()["field"], field, "{body}");
    }
    let admin = server.key("acme", "admin").await;
    let monitor = server.call_as(&admin, "POST", "/v1/keys", json!({ "name": "m", "role": "monitor" })).await.is(403);
    assert_eq!(monitor.problem(), "forbidden");
    server.stop().await;
}

/// Returns a signed JWT with these claims.
pub(crate) fn jwt(claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encode(&json!({ "alg": "HS256" })), encode(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
}

async fn a_jwt_determines_user_tenant_and_role(server: TestServer) {
    let far = 4_000_000_000_i64;
    let ann = jwt(&json!({ "sub": "ann", "exp": far, "tenant": "acme", "role": "admin" }));
    let bob = jwt(&json!({ "sub": "bob", "exp": far, "tenant": "acme", "role": "user" }));
    server
        .call_as(&ann, "PUT", "/v1/budgets/room", json!({ "limits": [{ "amount": 5, "window": "day" }] }))
        .await
        .is(200);
    server
        .call_as(&bob, "POST", "/v1/commands", json!({ "charges": [{ "scope": "room", "amount": 1 }] }))
        .await
        .is(201);
    server.call_as(&bob, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
    for (method, path) in
        [("PUT", "/v1/budgets/room"), ("PUT", "/v1/queues/q"), ("POST", "/v1/keys"), ("POST", "/v1/workers")]
    {
        assert_eq!(server.call_as(&bob, method, path, json!({})).await.is(403).problem(), "forbidden", "{path}");
    }
    let journal = server.call_as(&ann, "GET", "/v1/journal?kind=job.enqueued", Value::Null).await.is(200).json();
    assert_eq!(journal["items"][0]["actor"], json!({ "kind": "user", "id": "bob" }));
    let over = jwt(&json!({ "sub": "ann", "exp": 1, "tenant": "acme", "role": "admin" }));
    assert_eq!(server.call_as(&over, "GET", "/v1/budgets", Value::Null).await.is(401).problem(), "unauthorized");
    server.stop().await;
}

#[tokio::test]
async fn invalid_tokens_are_rate_limited() {
    let server = TestServer::limited(bursar_server::Limits::default()).await;
    server.call_as("wrong", "GET", "/v1/budgets", Value::Null).await.is(401);
    server.call("GET", "/v1/budgets", Value::Null).await.is(200);
    let mut refused = None;
    for _ in 0..100 {
        let answer = server.call_as("wrong", "GET", "/v1/budgets", Value::Null).await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("invalid tokens are rate limited");
    assert_eq!(refused.problem(), "too-many-attempts");
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    server.call("GET", "/v1/budgets", Value::Null).await.is(200);
    server.stop().await;
}

#[tokio::test]
async fn a_public_address_needs_an_operator_token() {
    let open = async |address: &str, token: Option<&str>| {
        let bursar = Bursar::open("sqlite::memory:").await.unwrap();
        let settings = Settings { operator_token: token.map(str::to_owned), ..Settings::default() };
        Server::bind(bursar, address.parse().unwrap(), settings).await
    };
    assert!(matches!(open("0.0.0.0:0", None).await.map(drop), Err(StartError::Open(_))));
    assert!(matches!(open("[::]:0", None).await.map(drop), Err(StartError::Open(_))));
    assert!(matches!(open("127.0.0.1:0", Some("short")).await.map(drop), Err(StartError::ShortToken)));
    assert!(open("0.0.0.0:0", Some(OPERATOR)).await.is_ok());
    let made = open("127.0.0.1:0", None).await.unwrap();
    assert!(made.operator_token().unwrap().starts_with("bop_"), "a loopback server creates a token");
}

#[tokio::test]
async fn the_first_operator_token_is_created_once() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let mut made = Vec::new();
    for _ in 0..2 {
        let bursar = Bursar::open(&url).await.unwrap();
        let server = Server::bind(bursar.clone(), "127.0.0.1:0".parse().unwrap(), Settings::default()).await.unwrap();
        made.push(server.operator_token().map(str::to_owned));
        bursar.close().await;
    }
    assert!(made[0].is_some() && made[1].is_none(), "{made:?}");
}
