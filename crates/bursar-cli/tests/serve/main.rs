//! `bursar serve` as a process: how it starts and ends, and two of them on one PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod attacked;
mod backup;
mod crowd;
mod killed;
mod log;
mod process;
mod woken;

use serde_json::{Value, json};

use crate::process::{Process, Stream};

#[test]
fn it_says_where_it_listens_makes_a_token_once_and_ends_when_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let first = Process::start(&url, &[]);
    let token = first.made_token();
    assert!(token.starts_with("bop_"), "{token}");
    let made = first.ask(&token, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" }));
    assert_eq!(made.0, 201, "{made:?}");
    // One that waits is answered when the server ends.
    let waiting = first.send(&token, "POST", "/v1/jobs/lease", json!({ "queues": ["other"], "wait_ms": 60_000 }));
    first.somebody_waits(&token);
    let (code, rest) = first.end();
    assert_eq!(code, Some(0), "{rest}");
    assert_eq!(waiting.answer(), (200, json!({ "jobs": [] })));
    let second = Process::start(&url, &[]);
    assert_eq!(second.ask(&token, "GET", "/v1/jobs", Value::Null).1["items"].as_array().unwrap().len(), 1);
    let (code, told) = second.end();
    assert_eq!(code, Some(0));
    assert!(!told.contains("bop_"), "the token is shown once: {told}");
}

#[test]
fn secrets_come_from_files_too_and_a_public_address_needs_one() {
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
    assert_eq!(process.ask(secret, "GET", "/v1/budgets", Value::Null).0, 200);
    assert_eq!(
        process.ask("another token of more than thirty-two characters", "GET", "/v1/budgets", Value::Null).0,
        401
    );
    let (code, told) = process.end();
    assert_eq!(code, Some(0));
    assert!(!told.contains(secret), "a secret is never printed");
    let both = Process::try_start(
        &url,
        "127.0.0.1:0",
        &[("BURSAR_OPERATOR_TOKEN", secret), ("BURSAR_OPERATOR_TOKEN_FILE", &file)],
    );
    assert_eq!(both.0, Some(2), "{}", both.1);
}

#[test]
fn dev_serves_its_demo_and_says_that_it_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").display().to_string();
    let process = Process::start_with(&["dev", "--data", &data, "--listen", "127.0.0.1:0"], &[]);
    process.told_after("NOT FOR PRODUCTION");
    let token = process.told_after("token     ").split(' ').next().unwrap().to_owned();
    let budgets = process.ask(&token, "GET", "/v1/budgets", Value::Null);
    assert_eq!((budgets.0, budgets.1["items"].as_array().unwrap().len()), (200, 3), "what the demo made is there");
    assert_eq!(process.end().0, Some(0));
}

#[test]
fn two_nodes_on_one_database_are_one() {
    let url = bursar_testkit::fresh_database();
    let operator = "the operator's token, the same on both nodes";
    let env = [("BURSAR_OPERATOR_TOKEN", operator)];
    let (one, two) = (Process::start(&url, &env), Process::start(&url, &env));

    // What is made on one is good on the other, and what is revoked there is no good here, at once.
    let body = json!({ "name": "encoder", "capabilities": { "queues": ["media"], "kinds": ["*"] } });
    let (status, made) = one.ask(operator, "POST", "/v1/workers", body);
    assert_eq!(status, 201, "{made}");
    let worker = made["token"].as_str().unwrap();
    let lease = json!({ "queues": ["media"] });
    for _ in 0..20 {
        assert_eq!(two.ask(worker, "POST", "/v1/jobs/lease", lease.clone()).0, 200);
    }
    assert_eq!(
        one.ask(operator, "DELETE", &format!("/v1/workers/{}", made["id"].as_str().unwrap()), Value::Null).0,
        204
    );
    assert_eq!(two.ask(worker, "POST", "/v1/jobs/lease", lease).0, 401, "the very next request");

    // Events of one are heard on the other, in order.
    let mut events = Stream::open(&two, operator, "journal");
    // A job that is enqueued on one wakes who waits on the other.
    let waiting = two.send(operator, "POST", "/v1/jobs/lease", json!({ "queues": ["media"], "wait_ms": 60_000 }));
    two.somebody_waits(operator);
    let began = process::now();
    let (_, job) = one.ask(operator, "POST", "/v1/jobs", json!({ "queue": "media", "kind": "k", "payload": 0 }));
    let (status, leased) = waiting.answer();
    assert_eq!((status, &leased["jobs"][0]["id"]), (200, &job["id"]));
    assert!(began.elapsed() < std::time::Duration::from_secs(50), "long before its time was over");
    for n in 1..20 {
        let on = if n % 2 == 0 { &one } else { &two };
        assert_eq!(on.ask(operator, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k", "payload": n })).0, 201);
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
    assert_eq!(payloads, (0..20).collect::<Vec<_>>(), "none is missing, and all are in order");
    assert_eq!(two.ask(operator, "GET", "/v1/verify", Value::Null).1["ok"], true);
    assert_eq!((one.end().0, two.end().0), (Some(0), Some(0)));
}
