//! `bursar serve` as a process: startup, shutdown, load, and two nodes on one PostgreSQL database.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod backup;
mod dev;
mod hostile_clients;
mod large_blob;
mod log;
mod many_streams;
mod node_failure;
mod otlp;
mod pooled;
mod process;
mod wakeup;

use serde_json::{Value, json};

use crate::process::{Process, Stream};

#[test]
fn the_first_start_creates_a_token_and_sigterm_stops_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let first = Process::start(&url, &[]);
    let token = first.created_token();
    assert!(token.starts_with("bop_"), "{token}");
    let made = first.request(&token, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" }));
    assert_eq!(made.0, 201, "{made:?}");
    // A waiting request is answered at shutdown.
    let waiting = first.send(&token, "POST", "/v1/jobs/lease", json!({ "queues": ["other"], "wait_ms": 60_000 }));
    first.wait_for_lease_waiter(&token);
    let (code, rest) = first.stop();
    assert_eq!(code, Some(0), "{rest}");
    assert_eq!(waiting.answer(), (200, json!({ "jobs": [] })));
    let second = Process::start(&url, &[]);
    assert_eq!(second.request(&token, "GET", "/v1/jobs", Value::Null).1["items"].as_array().unwrap().len(), 1);
    let (code, stderr) = second.stop();
    assert_eq!(code, Some(0));
    assert!(!stderr.contains("bop_"), "the token is shown only once: {stderr}");
}

#[test]
fn a_public_address_needs_an_operator_token_which_may_be_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let refused = Process::try_start(&url, "0.0.0.0:0", &[]);
    assert_eq!(refused.0, Some(2), "{}", refused.1);
    assert!(refused.1.contains("BURSAR_OPERATOR_TOKEN"), "{}", refused.1);
    let secret = "a token of more than thirty-two characters";
    let file = folder.path().join("operator");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    let file = file.display().to_string();
    let process = Process::start(&url, &[("BURSAR_OPERATOR_TOKEN_FILE", &file)]);
    assert_eq!(process.request(secret, "GET", "/v1/budgets", Value::Null).0, 200);
    assert_eq!(
        process.request("another token of more than thirty-two characters", "GET", "/v1/budgets", Value::Null).0,
        401
    );
    let (code, stderr) = process.stop();
    assert_eq!(code, Some(0));
    assert!(!stderr.contains(secret), "a secret is never printed");
    let both = Process::try_start(
        &url,
        "127.0.0.1:0",
        &[("BURSAR_OPERATOR_TOKEN", secret), ("BURSAR_OPERATOR_TOKEN_FILE", &file)],
    );
    assert_eq!(both.0, Some(2), "{}", both.1);
}

#[test]
fn two_nodes_on_one_database_act_as_one() {
    let url = bursar_testkit::fresh_database();
    let operator = "the operator's token, the same on both nodes";
    let env = [("BURSAR_OPERATOR_TOKEN", operator)];
    let (one, two) = (Process::start(&url, &env), Process::start(&url, &env));

    // A token created on one node is valid on the other; after it is revoked, the next request fails.
    let body = json!({ "name": "encoder", "capabilities": { "queues": ["media"], "kinds": ["*"] } });
    let (status, made) = one.request(operator, "POST", "/v1/workers", body);
    assert_eq!(status, 201, "{made}");
    let worker = made["token"].as_str().unwrap();
    let lease = json!({ "queues": ["media"] });
    for _ in 0..20 {
        assert_eq!(two.request(worker, "POST", "/v1/jobs/lease", lease.clone()).0, 200);
    }
    assert_eq!(
        one.request(operator, "DELETE", &format!("/v1/workers/{}", made["id"].as_str().unwrap()), Value::Null).0,
        204
    );
    assert_eq!(two.request(worker, "POST", "/v1/jobs/lease", lease).0, 401, "the next request fails");

    // The second node streams the events of the first, in order.
    let mut events = Stream::open(&two, operator, "journal");
    // A job enqueued on the first node wakes a request that waits on the second.
    let waiting = two.send(operator, "POST", "/v1/jobs/lease", json!({ "queues": ["media"], "wait_ms": 60_000 }));
    two.wait_for_lease_waiter(operator);
    let began = process::now();
    let (_, job) = one.request(operator, "POST", "/v1/jobs", json!({ "queue": "media", "kind": "k", "payload": 0 }));
    let (status, leased) = waiting.answer();
    assert_eq!((status, &leased["jobs"][0]["id"]), (200, &job["id"]));
    assert!(began.elapsed() < std::time::Duration::from_secs(50), "the request was woken before its timeout");
    for n in 1..20 {
        let on = if n % 2 == 0 { &one } else { &two };
        assert_eq!(on.request(operator, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k", "payload": n })).0, 201);
    }
    let (mut last, mut payloads) = (0, Vec::new());
    while payloads.len() < 20 {
        let (position, kind, data) = events.next();
        assert!(position > last, "positions grow");
        last = position;
        if kind == "job.enqueued" {
            payloads.push(data["data"]["spec"]["payload"].as_i64().unwrap());
        }
    }
    assert_eq!(payloads, (0..20).collect::<Vec<_>>(), "no event is missing or out of order");
    assert_eq!(two.request(operator, "GET", "/v1/verify", Value::Null).1["ok"], true);
    assert_eq!((one.stop().0, two.stop().0), (Some(0), Some(0)));
}
