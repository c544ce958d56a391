//! What principals may not do: report on another's lease, charge other scopes than their job's, gain another role.

use serde_json::{Value, json};

use crate::client::Response;
use crate::test_server::{OPERATOR, TestServer, on_both_engines};

const LIMITS: &str = r#"[{ "amount": 1000, "window": "lifetime" }]"#;

async fn budget(server: &TestServer, scope: &str) {
    let limits: Value = serde_json::from_str(LIMITS).unwrap();
    server.call("PUT", &format!("/v1/budgets/{scope}"), json!({ "limits": limits })).await.is(200);
}

async fn left(server: &TestServer, scope: &str) -> i64 {
    server.call("GET", &format!("/v1/budgets/{scope}"), Value::Null).await.is(200).json()["balances"][0]["remaining"]
        .as_i64()
        .unwrap()
}

/// Enqueues a job, with a hold of 10 on a scope if one is given.
async fn enqueue(server: &TestServer, hold: Option<&str>) {
    let job = json!({ "queue": "q", "kind": "k" });
    match hold {
        Some(scope) => {
            let charges = json!([{ "scope": scope, "amount": 10 }]);
            let body = json!({ "charges": charges, "settle": "job", "jobs": [job] });
            server.call("POST", "/v1/commands", body).await.is(201)
        }
        None => server.call("POST", "/v1/jobs", job).await.is(201),
    };
}

/// Leases a job; returns its id and fence.
async fn lease(server: &TestServer, token: &str) -> (String, Value) {
    let leased = server.call_as(token, "POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
    let job = &leased["jobs"][0];
    (job["id"].as_str().unwrap().to_owned(), job["lease"]["fence"].clone())
}

fn forbidden(answer: &Response, words: &str) {
    assert_eq!((answer.status, answer.problem().as_str()), (403, "forbidden"), "{answer:?}");
    assert!(answer.text.contains(words), "{answer:?}");
}

async fn a_worker_charges_only_allowed_scopes(server: TestServer) {
    for scope in ["own", "named", "foreign"] {
        budget(&server, scope).await;
    }
    let worker = server.worker("default", json!({ "queues": ["q"], "kinds": ["k"], "charges": ["named*"] })).await;
    for (hold, may, may_not) in [(Some("own"), "own", ["foreign", "named"]), (None, "named", ["foreign", "own"])] {
        enqueue(&server, hold).await;
        let (id, fence) = lease(&server, &worker).await;
        for scope in may_not {
            let usage = json!([{ "scope": may, "amount": 3 }, { "scope": scope, "amount": 1_000_000_000_000_000_i64 }]);
            let complete = json!({ "fence": fence, "usage": usage });
            let fail = json!({ "fence": fence, "error": { "kind": "e" }, "usage": usage });
            forbidden(&server.call_as(&worker, "POST", &format!("/v1/jobs/{id}/complete"), complete).await, scope);
            forbidden(&server.call_as(&worker, "POST", &format!("/v1/jobs/{id}/fail"), fail).await, scope);
            let many = json!({ "items": [{ "id": id, "fence": fence, "usage": usage }] });
            let many = server.call_as(&worker, "POST", "/v1/jobs/complete", many).await.is(200).json();
            assert_eq!(many["items"][0]["problem"]["status"], 403, "{many}");
        }
        assert_eq!(
            (left(&server, "foreign").await, left(&server, "named").await),
            (1_000, 1_000),
            "nothing is charged"
        );
        let state = server.call("GET", &format!("/v1/jobs/{id}"), Value::Null).await.is(200).json()["state"].clone();
        assert_eq!(state, "leased", "the job is unchanged");
        let usage = json!([{ "scope": may, "amount": 7 }]);
        let done = json!({ "fence": fence, "usage": usage });
        server.call_as(&worker, "POST", &format!("/v1/jobs/{id}/complete"), done).await.is(200);
        assert_eq!(left(&server, may).await, 993);
        // Undoes the charge, for the next case.
        let credit = json!({ "amount": 7 });
        server.call("POST", &format!("/v1/budgets/{may}/credits"), credit).await.is(200);
    }
    server.stop().await;
}

async fn a_lease_belongs_to_the_principal_that_took_it(server: TestServer) {
    budget(&server, "own").await;
    let capabilities = json!({ "queues": ["q"], "kinds": ["k"] });
    let made = json!({ "name": "encoder", "capabilities": capabilities });
    let made = server.call("POST", "/v1/workers", made).await.is(201).json();
    let (taker, id_of_taker) = (made["token"].as_str().unwrap(), made["id"].as_str().unwrap());
    let (other, admin) = (server.worker("default", capabilities).await, server.key("default", "admin").await);
    enqueue(&server, Some("own")).await;
    let (id, fence) = lease(&server, taker).await;
    let usage = json!([{ "amount": 900 }]);
    let reports = [
        ("heartbeat", json!({ "fence": fence })),
        ("progress", json!({ "fence": fence, "percent": 50 })),
        ("complete", json!({ "fence": fence, "usage": usage })),
        ("fail", json!({ "fence": fence, "error": { "kind": "e" }, "usage": usage })),
        ("snooze", json!({ "fence": fence, "delay_ms": 1 })),
        ("return", json!({ "fence": fence })),
    ];
    for token in [other.as_str(), &admin, OPERATOR] {
        for (act, body) in &reports {
            let refused = server.call_as(token, "POST", &format!("/v1/jobs/{id}/{act}"), body.clone()).await;
            forbidden(&refused, "another principal");
        }
    }
    assert_eq!(left(&server, "own").await, 990, "nothing is charged");
    // Rotated tokens are the same principal, also after the second rotation.
    let mut successor = json!({ "id": id_of_taker });
    for _ in 0..2 {
        let path = format!("/v1/workers/{}/rotate", successor["id"].as_str().unwrap());
        successor = server.call("POST", &path, json!({})).await.is(201).json();
    }
    let successor = successor["token"].as_str().unwrap();
    server.call_as(successor, "POST", &format!("/v1/jobs/{id}/heartbeat"), json!({ "fence": fence })).await.is(200);
    let complete = |amount: i64| json!({ "fence": fence, "usage": [{ "amount": amount }] });
    let path = format!("/v1/jobs/{id}/complete");
    server.call_as(successor, "POST", &path, complete(42)).await.is(200);
    // A repeated report gets the same answer; another usage is a conflict that names the recorded one.
    server.call_as(taker, "POST", &path, complete(42)).await.is(200);
    let refused = server.call_as(taker, "POST", &path, complete(41)).await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "conflict"));
    assert!(refused.text.contains("42 on own"), "{refused:?}");
    forbidden(&server.call_as(&other, "POST", &path, complete(42)).await, "another principal");
    assert_eq!(left(&server, "own").await, 958);
    server.stop().await;
}

async fn a_repeated_failure_must_report_the_same_usage(server: TestServer) {
    budget(&server, "own").await;
    let worker = server.worker("default", json!({ "queues": ["q"], "kinds": ["k"], "charges": ["own"] })).await;
    for hold in [Some("own"), None] {
        enqueue(&server, hold).await;
        let (id, fence) = lease(&server, &worker).await;
        let fail = |usage: Value| json!({ "fence": fence, "error": { "kind": "e" }, "retry_after_ms": 3_600_000, "usage": usage });
        let path = format!("/v1/jobs/{id}/fail");
        let spent = json!([{ "scope": "own", "amount": 3 }, { "scope": "own", "amount": 4 }]);
        server.call_as(&worker, "POST", &path, fail(spent)).await.is(200);
        server.call_as(&worker, "POST", &path, fail(json!([{ "scope": "own", "amount": 7 }]))).await.is(200);
        for other in [json!([]), Value::Null, json!([{ "scope": "own", "amount": 8 }])] {
            let refused = server.call_as(&worker, "POST", &path, fail(other)).await;
            assert_eq!(refused.problem(), "conflict");
            assert!(refused.text.contains("7 on own"), "{refused:?}");
        }
        server.call("POST", &format!("/v1/jobs/{id}/cancel"), json!({})).await.is(200);
    }
    assert_eq!(left(&server, "own").await, 986);
    server.stop().await;
}

async fn a_valid_token_works_from_a_blocked_address(server: TestServer) {
    let (used, unused, worker) = (
        server.key("default", "viewer").await,
        server.key("default", "viewer").await,
        server.worker("default", json!({})).await,
    );
    let call = async |token: &str| server.call_as(token, "GET", "/v1/queues", Value::Null).await;
    call(&used).await.is(200);
    let mut statuses = Vec::new();
    for number in 0..40 {
        // Half of the tokens have the right form.
        let bad = if number % 2 == 0 { format!("nonsense-{number}") } else { forged(&used, number) };
        statuses.push(call(&bad).await.status);
    }
    assert!(statuses[..20].iter().all(|status| *status == 401), "{statuses:?}");
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while call("nonsense").await.status != 429 {
        assert!(tokio::time::Instant::now() < until, "invalid tokens are not rate limited");
    }
    for token in [used.as_str(), &unused, OPERATOR] {
        call(token).await.is(200);
    }
    assert_eq!(call(&worker).await.status, 403, "the token is valid but its role is not allowed");
    server.stop().await;
}

/// Returns a token with a changed secret, and therefore a wrong checksum.
fn forged(token: &str, number: usize) -> String {
    let mut bytes = token.as_bytes().to_vec();
    let place = bytes.len() - 10 - number % 5;
    bytes[place] = if bytes[place] == b'a' { b'b' } else { b'a' };
    String::from_utf8(bytes).unwrap()
}

async fn a_defined_limit_always_takes_effect(server: TestServer) {
    let (agent, admin) = (server.key("default", "agent").await, server.key("default", "admin").await);
    for (amount, scope) in [(0, "asked"), (1, "spent")] {
        for minutes in 1..=8 {
            let limits = json!([{ "amount": 100, "window": "rolling", "length_ms": minutes * 60_000 }]);
            let body = json!({ "charges": [{ "scope": scope, "amount": amount, "limits": limits }] });
            server.call_as(&agent, "POST", "/v1/commands", body).await.is(201);
        }
        let day = json!({ "limits": [{ "amount": 10, "window": "day" }, { "amount": 20, "window": "month" }] });
        server.call_as(&admin, "PUT", &format!("/v1/budgets/{scope}"), day).await.is(200);
        let body = json!({ "charges": [{ "scope": scope, "amount": 11 }] });
        assert_eq!(server.call_as(&agent, "POST", "/v1/commands", body).await.problem(), "refused");
        let ninth = json!([{ "amount": 100, "window": "rolling", "length_ms": 9 * 60_000 }]);
        let body = json!({ "charges": [{ "scope": scope, "amount": 1, "limits": ninth }] });
        let status = server.call_as(&agent, "POST", "/v1/commands", body).await.status;
        assert_eq!(status, if amount == 0 { 201 } else { 409 }, "a charge of 0 creates no window");
    }
    let verified = server.call("GET", "/v1/verify", Value::Null).await.is(200).json();
    assert_eq!(verified["violations"], json!([]));
    server.stop().await;
}

async fn no_role_can_escalate(server: TestServer) {
    let roles = ["admin", "user", "agent", "viewer", "monitor"];
    let make = async |role: &str| match role {
        "worker" => {
            let body = json!({ "name": "w", "capabilities": { "queues": ["*"], "kinds": ["*"] } });
            server.call("POST", "/v1/workers", body).await.is(201).json()
        }
        role => server.call("POST", "/v1/keys", json!({ "name": role, "role": role })).await.is(201).json(),
    };
    for who in roles.into_iter().chain(["worker", "operator"]) {
        let token =
            if who == "operator" { OPERATOR.to_owned() } else { make(who).await["token"].as_str().unwrap().to_owned() };
        for whose in roles.into_iter().chain(["worker"]) {
            let place = if whose == "worker" { "workers" } else { "keys" };
            let name = format!("{who} and a credential of {whose}");
            let mint = match whose {
                "worker" => json!({ "name": "x", "capabilities": {} }),
                role => json!({ "name": "x", "role": role }),
            };
            let manages = who == "operator" || who == "admin" && whose != "monitor";
            let reads = who == "operator" || who == "admin";
            let one = make(whose).await["id"].as_str().unwrap().to_owned();
            let call =
                async |method: &str, path: String, body: Value| server.call_as(&token, method, &path, body).await;
            let minted = call("POST", format!("/v1/{place}"), mint).await;
            let rotated = call("POST", format!("/v1/{place}/{one}/rotate"), json!({})).await;
            let read = call("GET", format!("/v1/{place}/{one}"), Value::Null).await;
            let revoked = call("DELETE", format!("/v1/{place}/{one}"), Value::Null).await;
            let expected = if manages { [201, 201, 204] } else { [403; 3] };
            assert_eq!([minted.status, rotated.status, revoked.status], expected, "{name}");
            assert_eq!(read.status, if reads { 200 } else { 403 }, "{name}");
        }
    }
    // Operator tokens are visible to operators only.
    let admin = server.key("default", "admin").await;
    let listed = server.call_as(&admin, "GET", "/v1/keys?limit=1000", Value::Null).await.is(200).json();
    assert!(listed["items"].as_array().unwrap().iter().all(|key| key["role"] != "operator"), "{listed}");
    server.stop().await;
}

async fn names_are_normalized_and_have_no_hidden_characters(server: TestServer) {
    for (path, status) in
        [("/v1/budgets?prefix=%00", 400), ("/v1/jobs?fingerprint=%00", 400), ("/v1/budgets?prefix=a", 200)]
    {
        server.call("GET", path, Value::Null).await.is(status);
    }
    for (sign, code) in [("\u{200b}", "U+200B"), ("\u{202e}", "U+202E"), ("\u{feff}", "U+FEFF")] {
        let name = format!("a{sign}b");
        let limits: Value = serde_json::from_str(LIMITS).unwrap();
        let requests = [
            ("POST", "/v1/jobs", json!({ "queue": name, "kind": "k" })),
            ("POST", "/v1/jobs", json!({ "queue": "q", "kind": name })),
            ("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k", "tags": [name] })),
            ("POST", "/v1/commands", json!({ "charges": [{ "scope": name, "amount": 1, "limits": limits }] })),
            ("PUT", "/v1/budgets/x", json!({ "limits": limits, "parent": name })),
            ("PUT", "/v1/budgets/x", json!({ "limits": limits, "unit": name })),
            ("POST", "/v1/keys", json!({ "name": name, "role": "user" })),
        ];
        for (method, path, body) in requests {
            let refused = server.call(method, path, body).await;
            assert_eq!((refused.status, refused.problem().as_str()), (400, "invalid"), "{refused:?}");
            assert!(refused.text.contains(code), "{refused:?}");
        }
    }
    let (composed, decomposed) = ("caf%C3%A9", "cafe%CC%81");
    budget(&server, decomposed).await;
    assert_eq!(left(&server, composed).await, 1_000);
    let body = json!({ "charges": [{ "scope": "cafe\u{301}", "amount": 1 }, { "scope": "caf\u{e9}", "amount": 2 }] });
    server.call("POST", "/v1/commands", body).await.is(201);
    assert_eq!(left(&server, composed).await, 997);
    server.stop().await;
}

on_both_engines!(
    a_worker_charges_only_allowed_scopes,
    a_lease_belongs_to_the_principal_that_took_it,
    a_repeated_failure_must_report_the_same_usage,
    a_valid_token_works_from_a_blocked_address,
    a_defined_limit_always_takes_effect,
    no_role_can_escalate,
    names_are_normalized_and_have_no_hidden_characters,
);
