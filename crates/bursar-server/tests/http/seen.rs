//! What the server counts in memory since it started: refusals by limit, and workers that ask for jobs. Tenants, and periods of the
//! journal.

use std::time::Duration;

use serde_json::{Value, json};

use crate::events::EventStream;
use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(
    refusals_are_counted_by_limit,
    a_refusal_is_told_on_the_channel_of_its_budget,
    workers_that_wait_are_seen,
    grants_can_begin_with_the_newest,
    the_journal_of_a_period_has_its_events_and_no_others,
    operators_list_tenants,
);

const NULL: Value = Value::Null;

async fn budget(server: &TestServer, scope: &str, parent: Option<&str>, limits: Value) {
    let body = json!({ "parent": parent, "limits": limits });
    server.call("PUT", &format!("/v1/budgets/{scope}"), body).await.is(200);
}

async fn spend(server: &TestServer, scope: &str, amount: i64, dry_run: bool) -> u16 {
    let body = json!({ "charges": [{ "scope": scope, "amount": amount }], "dry_run": dry_run });
    server.call("POST", "/v1/commands", body).await.status
}

async fn refusals_are_counted_by_limit(server: TestServer) {
    budget(&server, "team", None, json!([{ "amount": 50, "window": "month" }])).await;
    let limits = json!([{ "amount": 10, "window": "day" }, { "amount": 100, "window": "rolling:1h" }]);
    budget(&server, "agent", Some("team"), limits).await;
    let budget = server.call("GET", "/v1/budgets/agent", NULL).await.is(200).json();
    assert!(budget.get("refusals").is_none(), "{budget}");
    for (amount, status) in [(10, 201), (5, 409), (6, 409), (200, 409)] {
        assert_eq!(spend(&server, "agent", amount, false).await, status, "{amount}");
    }
    assert_eq!(spend(&server, "agent", 7, true).await, 409, "a dry run does not count");
    server.call("POST", "/v1/budgets/agent/freeze", json!({})).await.is(200);
    assert_eq!(spend(&server, "agent", 1, false).await, 409);
    let counted = |of: &Value| {
        let counts = of["refusals"].as_array().unwrap().iter().map(|count| {
            assert!(count["last_at"].is_string(), "{count}");
            (count["scope"].clone(), count["window"].clone(), count["count"].as_u64().unwrap())
        });
        let mut counts: Vec<_> = counts.collect();
        counts.sort_by_key(|(scope, window, _)| (scope.to_string(), window.to_string()));
        counts
    };
    // The freeze and the limit that was reached refused the last charge together.
    let agent = [
        (json!("agent"), json!("day@UTC"), 4),
        (json!("agent"), json!("rolling:1h"), 1),
        (json!("agent"), Value::Null, 1),
    ];
    assert_eq!(counted(&server.call("GET", "/v1/budgets/agent", NULL).await.is(200).json()), agent);
    let team = [(json!("team"), json!("month@UTC"), 1)];
    let list = server.call("GET", "/v1/budgets", NULL).await.is(200).json();
    let listed = |scope: &str| list["items"].as_array().unwrap().iter().find(|item| item["scope"] == scope).unwrap();
    assert_eq!((counted(listed("agent")), counted(listed("team"))), (agent.to_vec(), team.to_vec()));
    let activity = server.call("GET", "/v1/activity", NULL).await.is(200).json();
    assert_eq!(counted(&activity), [agent.as_slice(), team.as_slice()].concat());
    assert!(activity["started_at"].is_string(), "{activity}");
    let other = server.key("acme", "viewer").await;
    let other = server.call_as(&other, "GET", "/v1/activity", NULL).await.is(200).json();
    assert_eq!(other["refusals"], json!([]), "tenants are isolated");
    server.stop().await;
}

async fn a_refusal_is_told_on_the_channel_of_its_budget(server: TestServer) {
    budget(&server, "a", None, json!([{ "amount": 10, "window": "day" }])).await;
    budget(&server, "b", None, json!([{ "amount": 10, "window": "day" }])).await;
    let mut stream = EventStream::open(&server, OPERATOR, "budget:a", None).await;
    assert_eq!(stream.next().await.kind, "ready");
    assert_eq!(spend(&server, "b", 11, false).await, 409);
    assert_eq!(spend(&server, "a", 11, false).await, 409);
    let told = stream.next().await;
    assert_eq!(told.kind, "refused");
    assert_eq!(
        (&told.data["scope"], &told.data["window"], &told.data["count"]),
        (&json!("a"), &json!("day@UTC"), &json!(1))
    );
    server.stop().await;
}

async fn workers_that_wait_are_seen(server: TestServer) {
    let lease = async |worker: &str, wait_ms: u64| {
        let body = json!({ "queues": ["media"], "worker": worker, "capacity": 1, "wait_ms": wait_ms });
        server.call("POST", "/v1/jobs/lease", body).await.is(200)
    };
    lease("gpu-1", 0).await;
    let seen = async || server.call("GET", "/v1/activity", NULL).await.is(200).json()["workers"].clone();
    let look = async {
        loop {
            let workers = seen().await;
            if workers.as_array().unwrap().len() == 2 {
                return workers;
            }
        }
    };
    let ((), workers) = tokio::join!(async { drop(lease("gpu-2", 5_000).await) }, async {
        let workers = tokio::time::timeout(Duration::from_secs(60), look).await.expect("the worker is seen");
        // The job ends the wait.
        server.call("POST", "/v1/jobs", json!({ "queue": "media", "kind": "k" })).await.is(201);
        workers
    });
    let of = |worker: &Value| (worker["name"].clone(), worker["waiting"].clone(), worker["queues"].clone());
    let expected = [(json!("gpu-2"), json!(true), json!(["media"])), (json!("gpu-1"), json!(false), json!(["media"]))];
    assert_eq!(workers.as_array().unwrap().iter().map(of).collect::<Vec<_>>(), expected);
    let later = seen().await;
    assert!(later.as_array().unwrap().iter().all(|worker| worker["waiting"] == false), "{later}");
    server.stop().await;
}

async fn grants_can_begin_with_the_newest(server: TestServer) {
    for subject in ["a", "b", "c"] {
        let body = json!({ "purpose": "upload", "subject": subject, "ttl_ms": 60_000 });
        server.call("POST", "/v1/grants", body).await.is(201);
    }
    // A token is a row of the same table, and is not listed.
    server.key("default", "viewer").await;
    let subjects = |page: &Value| {
        page["items"].as_array().unwrap().iter().map(|grant| grant["subject"].clone()).collect::<Vec<_>>()
    };
    let first = server.call("GET", "/v1/grants?order=newest&limit=2", NULL).await.is(200).json();
    assert_eq!(subjects(&first), ["c", "b"]);
    let next = format!("/v1/grants?order=newest&limit=2&cursor={}", first["next"].as_str().unwrap());
    let rest = server.call("GET", &next, NULL).await.is(200).json();
    assert_eq!((subjects(&rest), &rest["next"]), (vec![json!("a")], &Value::Null));
    server.stop().await;
}

async fn the_journal_of_a_period_has_its_events_and_no_others(server: TestServer) {
    let mut edges = Vec::new();
    for number in 0..4 {
        let body = json!({ "queue": "q", "kind": format!("k{number}") });
        server.call("POST", "/v1/jobs", body).await.is(201);
        edges.push(server.bursar.now().await.unwrap().to_string());
    }
    let found = async |query: &str| {
        let page = server.call("GET", &format!("/v1/journal?kind=job&{query}"), NULL).await.is(200).json();
        assert!(!query.contains("newest") || page["next"].is_null(), "{query}: {page}");
        let kinds = page["items"].as_array().unwrap().iter().map(|event| event["data"]["spec"]["kind"].clone());
        kinds.collect::<Vec<_>>()
    };
    let (from, to) = (&edges[0], &edges[2]);
    assert_eq!(found(&format!("from={from}&to={to}")).await, ["k1", "k2"]);
    assert_eq!(found(&format!("order=newest&from={from}&to={to}")).await, ["k2", "k1"]);
    assert_eq!(found(&format!("order=newest&from={to}")).await, ["k3"]);
    assert_eq!(found(&format!("order=newest&to={from}")).await, ["k0"]);
    let wrong = server.call("GET", "/v1/journal?from=yesterday", NULL).await.is(400);
    assert_eq!(wrong.problem(), "invalid");
    server.stop().await;
}

async fn operators_list_tenants(server: TestServer) {
    let list = async |query: &str| {
        let page = server.call("GET", &format!("/v1/tenants{query}"), NULL).await.is(200).json();
        let names = page["items"].as_array().unwrap().iter().map(|tenant| tenant["name"].clone());
        (names.collect::<Vec<_>>(), page["next"].clone())
    };
    assert_eq!(list("").await, (Vec::new(), Value::Null));
    let limits = json!({ "limits": [{ "amount": 1, "window": "day" }] });
    for tenant in ["globex", "acme", "initech"] {
        for scope in ["a", "b", "\u{10fffd}z"] {
            let path = format!(
                "/v1/budgets/{}",
                percent_encoding::utf8_percent_encode(scope, percent_encoding::NON_ALPHANUMERIC)
            );
            let made = server.call_with(OPERATOR, &[("Bursar-Tenant", tenant)], "PUT", &path, limits.clone()).await;
            made.is(200);
        }
    }
    assert_eq!(list("").await, (vec![json!("acme"), json!("globex"), json!("initech")], Value::Null));
    assert_eq!(list("?limit=2").await, (vec![json!("acme"), json!("globex")], json!("globex")));
    assert_eq!(list("?limit=2&cursor=globex").await, (vec![json!("initech")], Value::Null));
    assert_eq!(list("?cursor=b").await.0, ["globex", "initech"], "a cursor need not be a tenant");
    // A tenant that only has a token, or only a job, is known although it is not listed.
    server.key("hooli", "viewer").await;
    let job = json!({ "queue": "q", "kind": "k" });
    server.call_with(OPERATOR, &[("Bursar-Tenant", "umbrella")], "POST", "/v1/jobs", job).await.is(201);
    for (tenant, status) in [("acme", 200), ("hooli", 200), ("umbrella", 200), ("nope", 404)] {
        server.call("GET", &format!("/v1/tenants/{tenant}"), NULL).await.is(status);
    }
    let admin = server.key("acme", "admin").await;
    for path in ["/v1/tenants", "/v1/tenants/acme"] {
        server.call_as(&admin, "GET", path, NULL).await.is(403);
    }
    server.stop().await;
}
