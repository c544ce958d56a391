//! What a principal may not do: report on another's lease, charge what is none of its job's, climb to another role, keep a limit away.

use serde_json::{Value, json};

use crate::client::Answer;
use crate::home::{Home, OPERATOR, on_both};

const LIMITS: &str = r#"[{ "amount": 1000, "window": "lifetime" }]"#;

async fn budget(home: &Home, scope: &str) {
    let limits: Value = serde_json::from_str(LIMITS).unwrap();
    home.ask("PUT", &format!("/v1/budgets/{scope}"), json!({ "limits": limits })).await.is(200);
}

async fn left(home: &Home, scope: &str) -> i64 {
    home.ask("GET", &format!("/v1/budgets/{scope}"), Value::Null).await.is(200).json()["balances"][0]["remaining"]
        .as_i64()
        .unwrap()
}

/// A job with a hold of 10 on a scope, or without one.
async fn enqueue(home: &Home, hold: Option<&str>) {
    let job = json!({ "queue": "q", "kind": "k" });
    match hold {
        Some(scope) => {
            let charges = json!([{ "scope": scope, "amount": 10 }]);
            let body = json!({ "charges": charges, "settle": "job", "jobs": [job] });
            home.ask("POST", "/v1/commands", body).await.is(201)
        }
        None => home.ask("POST", "/v1/jobs", job).await.is(201),
    };
}

/// The id and the fence of the job that a token leases.
async fn lease(home: &Home, token: &str) -> (String, Value) {
    let leased = home.ask_as(token, "POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
    let job = &leased["jobs"][0];
    (job["id"].as_str().unwrap().to_owned(), job["lease"]["fence"].clone())
}

fn forbidden(answer: &Answer, words: &str) {
    assert_eq!((answer.status, answer.problem().as_str()), (403, "forbidden"), "{answer:?}");
    assert!(answer.text.contains(words), "{answer:?}");
}

async fn a_worker_spends_only_what_its_job_may(home: Home) {
    for scope in ["own", "named", "foreign"] {
        budget(&home, scope).await;
    }
    let worker = home.worker("default", json!({ "queues": ["q"], "kinds": ["k"], "charges": ["named*"] })).await;
    for (hold, may, may_not) in [(Some("own"), "own", ["foreign", "named"]), (None, "named", ["foreign", "own"])] {
        enqueue(&home, hold).await;
        let (id, fence) = lease(&home, &worker).await;
        for scope in may_not {
            let usage = json!([{ "scope": may, "amount": 3 }, { "scope": scope, "amount": 1_000_000_000_000_000_i64 }]);
            let complete = json!({ "fence": fence, "usage": usage });
            let fail = json!({ "fence": fence, "error": { "kind": "e" }, "usage": usage });
            forbidden(&home.ask_as(&worker, "POST", &format!("/v1/jobs/{id}/complete"), complete).await, scope);
            forbidden(&home.ask_as(&worker, "POST", &format!("/v1/jobs/{id}/fail"), fail).await, scope);
            let many = json!({ "items": [{ "id": id, "fence": fence, "usage": usage }] });
            let many = home.ask_as(&worker, "POST", "/v1/jobs/complete", many).await.is(200).json();
            assert_eq!(many["items"][0]["problem"]["status"], 403, "{many}");
        }
        assert_eq!((left(&home, "foreign").await, left(&home, "named").await), (1_000, 1_000), "nothing is charged");
        let state = home.ask("GET", &format!("/v1/jobs/{id}"), Value::Null).await.is(200).json()["state"].clone();
        assert_eq!(state, "leased", "and nothing has changed");
        let usage = json!([{ "scope": may, "amount": 7 }]);
        let done = json!({ "fence": fence, "usage": usage });
        home.ask_as(&worker, "POST", &format!("/v1/jobs/{id}/complete"), done).await.is(200);
        assert_eq!(left(&home, may).await, 993);
        // Whoever has the budgets in hand charges them elsewhere; the job's end is no way around its hold.
        let credit = json!({ "amount": 7 });
        home.ask("POST", &format!("/v1/budgets/{may}/credits"), credit).await.is(200);
    }
    home.stop().await;
}

async fn a_lease_belongs_to_the_principal_that_took_it(home: Home) {
    budget(&home, "own").await;
    let capabilities = json!({ "queues": ["q"], "kinds": ["k"] });
    let made = json!({ "name": "encoder", "capabilities": capabilities });
    let made = home.ask("POST", "/v1/workers", made).await.is(201).json();
    let (taker, id_of_taker) = (made["token"].as_str().unwrap(), made["id"].as_str().unwrap());
    let (other, admin) = (home.worker("default", capabilities).await, home.key("default", "admin").await);
    enqueue(&home, Some("own")).await;
    let (id, fence) = lease(&home, taker).await;
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
            let refused = home.ask_as(token, "POST", &format!("/v1/jobs/{id}/{act}"), body.clone()).await;
            forbidden(&refused, "another principal");
        }
    }
    assert_eq!(left(&home, "own").await, 990, "nothing is charged");
    // The token that takes the place of the old one is the same principal, and so is the next.
    let mut successor = json!({ "id": id_of_taker });
    for _ in 0..2 {
        let path = format!("/v1/workers/{}/rotate", successor["id"].as_str().unwrap());
        successor = home.ask("POST", &path, json!({})).await.is(201).json();
    }
    let successor = successor["token"].as_str().unwrap();
    home.ask_as(successor, "POST", &format!("/v1/jobs/{id}/heartbeat"), json!({ "fence": fence })).await.is(200);
    let complete = |amount: i64| json!({ "fence": fence, "usage": [{ "amount": amount }] });
    let path = format!("/v1/jobs/{id}/complete");
    home.ask_as(successor, "POST", &path, complete(42)).await.is(200);
    // The same again is the same answer; another usage is a conflict that tells what was recorded.
    home.ask_as(taker, "POST", &path, complete(42)).await.is(200);
    let refused = home.ask_as(taker, "POST", &path, complete(41)).await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "conflict"));
    assert!(refused.text.contains("42 on own"), "{refused:?}");
    forbidden(&home.ask_as(&other, "POST", &path, complete(42)).await, "another principal");
    assert_eq!(left(&home, "own").await, 958);
    home.stop().await;
}

async fn what_an_attempt_spent_is_not_said_in_two_ways(home: Home) {
    budget(&home, "own").await;
    let worker = home.worker("default", json!({ "queues": ["q"], "kinds": ["k"], "charges": ["own"] })).await;
    for hold in [Some("own"), None] {
        enqueue(&home, hold).await;
        let (id, fence) = lease(&home, &worker).await;
        let fail = |usage: Value| json!({ "fence": fence, "error": { "kind": "e" }, "retry_after_ms": 3_600_000, "usage": usage });
        let path = format!("/v1/jobs/{id}/fail");
        let spent = json!([{ "scope": "own", "amount": 3 }, { "scope": "own", "amount": 4 }]);
        home.ask_as(&worker, "POST", &path, fail(spent)).await.is(200);
        home.ask_as(&worker, "POST", &path, fail(json!([{ "scope": "own", "amount": 7 }]))).await.is(200);
        for other in [json!([]), Value::Null, json!([{ "scope": "own", "amount": 8 }])] {
            let refused = home.ask_as(&worker, "POST", &path, fail(other)).await;
            assert_eq!(refused.problem(), "conflict");
            assert!(refused.text.contains("7 on own"), "{refused:?}");
        }
        home.ask("POST", &format!("/v1/jobs/{id}/cancel"), json!({})).await.is(200);
    }
    assert_eq!(left(&home, "own").await, 986);
    home.stop().await;
}

async fn a_good_token_is_taken_whatever_its_address_did(home: Home) {
    let (used, unused, worker) = (
        home.key("default", "viewer").await,
        home.key("default", "viewer").await,
        home.worker("default", json!({})).await,
    );
    let ask = async |token: &str| home.ask_as(token, "GET", "/v1/queues", Value::Null).await;
    ask(&used).await.is(200);
    let mut statuses = Vec::new();
    for number in 0..40 {
        // Some look right, and belong to nobody.
        let bad = if number % 2 == 0 { format!("nonsense-{number}") } else { forged(&used, number) };
        statuses.push(ask(&bad).await.status);
    }
    assert!(statuses[..20].iter().all(|status| *status == 401), "{statuses:?}");
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while ask("nonsense").await.status != 429 {
        assert!(tokio::time::Instant::now() < until, "nobody is told to wait");
    }
    for token in [used.as_str(), &unused, OPERATOR] {
        ask(token).await.is(200);
    }
    assert_eq!(ask(&worker).await.status, 403, "who it is is known; it may not do this");
    home.stop().await;
}

/// A token with another secret: its checksum is wrong too.
fn forged(token: &str, number: usize) -> String {
    let mut bytes = token.as_bytes().to_vec();
    let place = bytes.len() - 10 - number % 5;
    bytes[place] = if bytes[place] == b'a' { b'b' } else { b'a' };
    String::from_utf8(bytes).unwrap()
}

async fn a_limit_that_is_set_always_goes(home: Home) {
    let (agent, admin) = (home.key("default", "agent").await, home.key("default", "admin").await);
    for (amount, scope) in [(0, "asked"), (1, "spent")] {
        for minutes in 1..=8 {
            let limits = json!([{ "amount": 100, "window": "rolling", "length_ms": minutes * 60_000 }]);
            let body = json!({ "charges": [{ "scope": scope, "amount": amount, "limits": limits }] });
            home.ask_as(&agent, "POST", "/v1/commands", body).await.is(201);
        }
        let day = json!({ "limits": [{ "amount": 10, "window": "day" }, { "amount": 20, "window": "month" }] });
        home.ask_as(&admin, "PUT", &format!("/v1/budgets/{scope}"), day).await.is(200);
        let body = json!({ "charges": [{ "scope": scope, "amount": 11 }] });
        assert_eq!(home.ask_as(&agent, "POST", "/v1/commands", body).await.problem(), "refused");
        let ninth = json!([{ "amount": 100, "window": "rolling", "length_ms": 9 * 60_000 }]);
        let body = json!({ "charges": [{ "scope": scope, "amount": 1, "limits": ninth }] });
        let status = home.ask_as(&agent, "POST", "/v1/commands", body).await.status;
        assert_eq!(status, if amount == 0 { 201 } else { 409 }, "charges of nothing use up no place");
    }
    let verified = home.ask("GET", "/v1/verify", Value::Null).await.is(200).json();
    assert_eq!(verified["violations"], json!([]));
    home.stop().await;
}

async fn no_role_is_climbed_to(home: Home) {
    let roles = ["admin", "user", "agent", "viewer", "monitor"];
    let make = async |role: &str| match role {
        "worker" => {
            let body = json!({ "name": "w", "capabilities": { "queues": ["*"], "kinds": ["*"] } });
            home.ask("POST", "/v1/workers", body).await.is(201).json()
        }
        role => home.ask("POST", "/v1/keys", json!({ "name": role, "role": role })).await.is(201).json(),
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
            let ask = async |method: &str, path: String, body: Value| home.ask_as(&token, method, &path, body).await;
            let minted = ask("POST", format!("/v1/{place}"), mint).await;
            let rotated = ask("POST", format!("/v1/{place}/{one}/rotate"), json!({})).await;
            let read = ask("GET", format!("/v1/{place}/{one}"), Value::Null).await;
            let revoked = ask("DELETE", format!("/v1/{place}/{one}"), Value::Null).await;
            let expected = if manages { [201, 201, 204] } else { [403; 3] };
            assert_eq!([minted.status, rotated.status, revoked.status], expected, "{name}");
            assert_eq!(read.status, if reads { 200 } else { 403 }, "{name}");
        }
    }
    // Nobody but an operator sees an operator's token.
    let admin = home.key("default", "admin").await;
    let listed = home.ask_as(&admin, "GET", "/v1/keys?limit=1000", Value::Null).await.is(200).json();
    assert!(listed["items"].as_array().unwrap().iter().all(|key| key["role"] != "operator"), "{listed}");
    home.stop().await;
}

async fn names_have_nothing_hidden_in_them_and_look_like_what_they_are(home: Home) {
    for (path, status) in
        [("/v1/budgets?prefix=%00", 400), ("/v1/jobs?fingerprint=%00", 400), ("/v1/budgets?prefix=a", 200)]
    {
        home.ask("GET", path, Value::Null).await.is(status);
    }
    for (sign, code) in [("\u{200b}", "U+200B"), ("\u{202e}", "U+202E"), ("\u{feff}", "U+FEFF")] {
        let name = format!("a{sign}b");
        let limits: Value = serde_json::from_str(LIMITS).unwrap();
        let told = [
            ("POST", "/v1/jobs", json!({ "queue": name, "kind": "k" })),
            ("POST", "/v1/jobs", json!({ "queue": "q", "kind": name })),
            ("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k", "tags": [name] })),
            ("POST", "/v1/commands", json!({ "charges": [{ "scope": name, "amount": 1, "limits": limits }] })),
            ("PUT", "/v1/budgets/x", json!({ "limits": limits, "parent": name })),
            ("PUT", "/v1/budgets/x", json!({ "limits": limits, "unit": name })),
            ("POST", "/v1/keys", json!({ "name": name, "role": "user" })),
        ];
        for (method, path, body) in told {
            let refused = home.ask(method, path, body).await;
            assert_eq!((refused.status, refused.problem().as_str()), (400, "invalid"), "{refused:?}");
            assert!(refused.text.contains(code), "{refused:?}");
        }
    }
    let (composed, decomposed) = ("caf%C3%A9", "cafe%CC%81");
    budget(&home, decomposed).await;
    assert_eq!(left(&home, composed).await, 1_000);
    let body = json!({ "charges": [{ "scope": "cafe\u{301}", "amount": 1 }, { "scope": "caf\u{e9}", "amount": 2 }] });
    home.ask("POST", "/v1/commands", body).await.is(201);
    assert_eq!(left(&home, composed).await, 997);
    home.stop().await;
}

on_both!(
    a_worker_spends_only_what_its_job_may,
    a_lease_belongs_to_the_principal_that_took_it,
    what_an_attempt_spent_is_not_said_in_two_ways,
    a_good_token_is_taken_whatever_its_address_did,
    a_limit_that_is_set_always_goes,
    no_role_is_climbed_to,
    names_have_nothing_hidden_in_them_and_look_like_what_they_are,
);
