//! `POST /v1/meter/check`: charges a caller's quota, from any language.

use std::sync::Arc;

use bursar::meter::MeterSettings;
use bursar::{Event, Scope, Stream, Tenant};
use bursar_server::Settings;
use serde_json::{Value, json};

use crate::client::Response;
use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(
    a_check_charges_the_quota_of_its_caller,
    a_check_beyond_the_quota_charges_nothing,
    a_check_is_charged_once_for_a_key,
    an_invalid_check_is_refused,
    tenants_have_quotas_of_their_own,
    a_worker_needs_the_mutation,
    a_callers_own_limit_replaces_the_default,
);

const CHECK: &str = "/v1/meter/check";

async fn check(server: &TestServer, body: Value) -> Response {
    server.call("POST", CHECK, body).await
}

async fn used(server: &TestServer, agent: &str) -> i64 {
    let path = format!("/v1/meter/quota?agent_id={agent}");
    server.call("GET", &path, Value::Null).await.is(200).json()["used"].as_i64().unwrap()
}

async fn a_check_charges_the_quota_of_its_caller(server: TestServer) {
    let agent = "0a".repeat(32);
    let answer = check(&server, json!({ "agent_id": agent.to_uppercase(), "cost": 10 })).await.is(200);
    assert_eq!((answer.header("x-quota-limit"), answer.header("x-quota-remaining")), (Some("10000"), Some("9990")));
    assert!(answer.header("ratelimit").unwrap().starts_with("\"hour@UTC\";r=9990;t="), "{answer:?}");
    let answer = answer.json();
    assert_eq!((&answer["admitted"], &answer["cost"]), (&json!(true), &json!(10)));
    // The quota is that which the other route shows.
    let quota = server.call("GET", &format!("/v1/meter/quota?agent_id={agent}"), Value::Null).await.is(200);
    assert_eq!(quota.header("x-quota-remaining"), Some("9990"));
    let quota = quota.json();
    for (field, value) in quota.as_object().unwrap() {
        assert_eq!(&answer[field], value, "{field}");
    }
    assert_eq!((&quota["used"], &quota["remaining"]), (&json!(10), &json!(9_990)));
    assert_eq!(quota["reset_at"].as_i64().unwrap() - quota["window_start"].as_i64().unwrap(), 3_600);
    // The first charge has defined the budget.
    let budget = server.call("GET", &format!("/v1/budgets/agent:{agent}"), Value::Null).await.is(200).json();
    assert_eq!(budget["limits"], json!([{ "amount": 10_000, "window": "hour", "zone": "UTC" }]));
    // A check of nothing is admitted too.
    assert_eq!(check(&server, json!({ "agent_id": agent, "cost": 0 })).await.is(200).json()["used"], 10);
    server.stop().await;
}

async fn a_check_beyond_the_quota_charges_nothing(server: TestServer) {
    check(&server, json!({ "agent_id": "bob", "cost": 9_995 })).await.is(200);
    let over = check(&server, json!({ "agent_id": "bob", "cost": 6 })).await.is(429);
    assert_eq!(over.problem(), "quota-exceeded");
    let wait: i64 = over.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3_600).contains(&wait), "{wait}");
    assert_eq!((over.header("x-quota-limit"), over.header("x-quota-remaining")), (Some("10000"), Some("5")));
    let violation = &over.json()["violations"][0];
    assert_eq!((&violation["scope"], &violation["limit"]), (&json!("agent:bob"), &json!(10_000)));
    assert_eq!((&violation["requested"], &violation["available"]), (&json!(6), &json!(5)));
    assert_eq!(used(&server, "bob").await, 9_995);
    check(&server, json!({ "agent_id": "bob", "cost": 5 })).await.is(200);
    // A refused caller gets no budget, and a cost above the limit has no Retry-After.
    let never = check(&server, json!({ "agent_id": "carol", "cost": 10_001 })).await.is(429);
    assert_eq!((never.header("retry-after"), &never.json()["violations"][0]["possible"]), (None, &json!(false)));
    server.call("GET", "/v1/budgets/agent:carol", Value::Null).await.is(404);
    // A frozen quota admits nothing.
    server.call("POST", "/v1/budgets/agent:bob/freeze", json!({ "reason": "abuse" })).await.is(200);
    let frozen = check(&server, json!({ "agent_id": "bob", "cost": 0 })).await.is(429);
    assert_eq!((&frozen.json()["violations"][0]["kind"], frozen.header("retry-after")), (&json!("frozen"), None));
    server.stop().await;
}

async fn a_check_is_charged_once_for_a_key(server: TestServer) {
    let keyed = async |key: &str, body: Value| {
        server.call_with(OPERATOR, &[("Idempotency-Key", key)], "POST", CHECK, body).await
    };
    let first = keyed("k", json!({ "agent_id": "bob", "cost": 7 })).await.is(200);
    check(&server, json!({ "agent_id": "bob", "cost": 100 })).await.is(200);
    let again = keyed("k", json!({ "agent_id": "bob", "cost": 7 })).await.is(200);
    assert_eq!((first.header("idempotent-replayed"), again.header("idempotent-replayed")), (None, Some("true")));
    assert_eq!(first.json(), again.json(), "a retry gets the first answer");
    assert_eq!(again.header("x-quota-remaining"), Some("9993"));
    assert_eq!(used(&server, "bob").await, 107);
    for other in [json!({ "agent_id": "bob", "cost": 8 }), json!({ "agent_id": "carol", "cost": 7 })] {
        assert_eq!(keyed("k", other).await.is(409).problem(), "conflict");
    }
    // A refusal is not recorded: once there is room, the same request is admitted.
    let large = json!({ "agent_id": "bob", "cost": 10_000 });
    keyed("large", large.clone()).await.is(429);
    server.call("POST", "/v1/meter/quota/limit", json!({ "agent_id": "bob", "limit": 20_000 })).await.is(200);
    keyed("large", large.clone()).await.is(200);
    assert_eq!(keyed("large", large).await.is(200).header("idempotent-replayed"), Some("true"));
    assert_eq!(used(&server, "bob").await, 10_107);
    server.stop().await;
}

async fn an_invalid_check_is_refused(server: TestServer) {
    let priced = |method: &str, path: &str| json!({ "agent_id": "a", "operation": { "method": method, "path": path } });
    for (body, field) in [
        (json!({ "agent_id": "a" }), "cost"),
        (json!({ "agent_id": "a", "cost": 1, "operation": { "method": "GET", "path": "/" } }), "cost"),
        (json!({ "agent_id": "a", "cost": -1 }), "cost"),
        (json!({ "agent_id": "a", "cost": "1" }), "cost"),
        (json!({ "cost": 1 }), "agent_id"),
        (json!({ "agent_id": "", "cost": 1 }), "agent_id"),
        (json!({ "agent_id": "x".repeat(250), "cost": 1 }), "agent_id"),
        (json!({ "agent_id": "a", "cost": 1, "price": 1 }), "price"),
        (priced("get", "/"), "operation.method"),
        (priced("", "/"), "operation.method"),
        (priced("GET", ""), "operation.path"),
        (priced("GET", "claims"), "operation.path"),
        (priced("GET", "http://elsewhere/claims"), "operation.path"),
        (priced("GET", "/a b"), "operation.path"),
    ] {
        let answer = check(&server, body.clone()).await.is(400);
        assert_eq!((answer.problem().as_str(), &answer.json()["field"]), ("invalid", &json!(field)), "{body}");
    }
    let listed = server.call("GET", "/v1/budgets", Value::Null).await.is(200).json();
    assert_eq!(listed["items"], json!([]));
    server.stop().await;
}

async fn tenants_have_quotas_of_their_own(server: TestServer) {
    let (acme, globex) = (server.key("acme", "user").await, server.key("globex", "agent").await);
    let body = json!({ "agent_id": "bob", "cost": 10_000 });
    // The same key is not the same request in another tenant.
    for token in [&acme, &globex] {
        let answer = server.call_with(token, &[("Idempotency-Key", "k")], "POST", CHECK, body.clone()).await.is(200);
        assert_eq!((&answer.json()["remaining"], answer.header("idempotent-replayed")), (&json!(0), None));
    }
    server.call_as(&acme, "POST", CHECK, json!({ "agent_id": "bob", "cost": 1 })).await.is(429);
    assert_eq!(used(&server, "bob").await, 0, "the built-in tenant has another bob");
    server.stop().await;
}

async fn a_worker_needs_the_mutation(server: TestServer) {
    let gateway = server.worker("acme", json!({ "mutations": ["meter.check"] })).await;
    let other = server.worker("acme", json!({ "mutations": ["commands.submit"] })).await;
    let viewer = server.key("acme", "viewer").await;
    let body = json!({ "agent_id": "bob", "cost": 1 });
    server.call_as(&gateway, "POST", CHECK, body.clone()).await.is(200);
    for token in [&other, &viewer] {
        assert_eq!(server.call_as(token, "POST", CHECK, body.clone()).await.is(403).problem(), "forbidden");
    }
    // The token of a gateway can do nothing else with a quota.
    let command = json!({ "charges": [{ "scope": "agent:bob", "amount": 1 }] });
    server.call_as(&gateway, "POST", "/v1/commands", command).await.is(403);
    server.call_as(&gateway, "POST", "/v1/meter/quota/limit", json!({ "agent_id": "bob", "limit": 9 })).await.is(403);
    server.stop().await;
}

async fn a_callers_own_limit_replaces_the_default(server: TestServer) {
    check(&server, json!({ "agent_id": "bob", "cost": 30 })).await.is(200);
    for (agent, spent) in [("bob", 30), ("carol", 0)] {
        // A limit can be set before and after the first charge, whose units still count.
        server.call("POST", "/v1/meter/quota/limit", json!({ "agent_id": agent, "limit": 50 })).await.is(200);
        let answer = check(&server, json!({ "agent_id": agent, "cost": 20 })).await.is(200).json();
        assert_eq!((&answer["limit"], &answer["remaining"]), (&json!(50), &json!(30 - spent)), "{agent}");
        check(&server, json!({ "agent_id": agent, "cost": 31 - spent })).await.is(429);
    }
    server.stop().await;
}

/// Prices for checks. The server does not meter its own callers.
fn prices() -> MeterSettings {
    let text = "
        enabled = false
        quota = [{ amount = 100, window = 'year' }]
        [costs]
        base = 3
        [[costs.operations]]
        name = 'assert'
        method = 'POST'
        path = '/claims'
        base = 10
        per_kib = 1
        [[costs.operations]]
        name = 'query'
        method = 'GET'
        path = '/claims'
        base = 5
        extras = [{ name = 'lens', each = 1, query = 'lens' }]
    ";
    MeterSettings::from_toml(text).unwrap()
}

async fn operations_cost_what_the_configuration_says(url: &str) {
    let server = TestServer::on(url, Settings { meter: Some(prices()), ..Settings::default() }).await;
    let mut left = 100;
    for (method, path, bytes, cost) in [
        ("POST", "/claims", 1_025, 12),
        ("GET", "/claims?lens=trust,recency", 0, 7),
        ("GET", "/other", 5_000, 3),
        ("GET", "/livez", 0, 0),
    ] {
        let operation = json!({ "method": method, "path": path, "payload_bytes": bytes });
        let answer = check(&server, json!({ "agent_id": "bob", "operation": operation })).await.is(200);
        left -= cost;
        assert_eq!((&answer.json()["cost"], &answer.json()["remaining"]), (&json!(cost), &json!(left)), "{path}");
        assert_eq!(answer.header("x-quota-remaining"), Some(left.to_string().as_str()));
    }
    let large = json!({ "method": "POST", "path": "/claims", "payload_bytes": u64::MAX });
    check(&server, json!({ "agent_id": "bob", "operation": large })).await.is(429);
    // The server's own callers have no quota.
    let user = server.key("acme", "user").await;
    let answer = server.call_as(&user, "GET", "/v1/budgets", Value::Null).await.is(200);
    assert_eq!(answer.header("x-quota-limit"), None);
    // With other prices and another default, a retry is still a retry.
    let key = [("Idempotency-Key", "k")];
    let body = json!({ "agent_id": "bob", "operation": { "method": "POST", "path": "/claims" } });
    let first = server.call_with(OPERATOR, &key, "POST", CHECK, body.clone()).await.is(200).json();
    let changed = MeterSettings::from_toml("quota = [{ amount = 90, window = 'year' }]\n[costs]\nbase = 50").unwrap();
    let other =
        TestServer::serve(server.bursar.clone(), Settings { meter: Some(changed), ..Settings::default() }).await;
    let again = other.call_with(OPERATOR, &key, "POST", CHECK, body).await.is(200);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json(), first, "the first answer, with what was charged then");
    assert_eq!((&first["cost"], &first["remaining"]), (&json!(10), &json!(left - 10)));
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_cost_what_the_configuration_says_on_sqlite() {
    operations_cost_what_the_configuration_says("sqlite::memory:").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_cost_what_the_configuration_says_on_postgres() {
    operations_cost_what_the_configuration_says(&bursar_testkit::fresh_database()).await;
}

/// Many first calls of the same callers, over two servers on one database.
async fn first_callers_share_one_default_quota(url: &str) {
    let settings = || Settings { meter: Some(prices()), ..Settings::default() };
    let servers = [Arc::new(TestServer::on(url, settings()).await), Arc::new(TestServer::on(url, settings()).await)];
    let calls: Vec<_> = (0..120_usize)
        .map(|call| {
            let (server, agent) = (servers[call % 2].clone(), format!("new-{}", call / 2 % 3));
            tokio::spawn(async move { check(&server, json!({ "agent_id": agent, "cost": 7 })).await.status })
        })
        .collect();
    let mut statuses = Vec::new();
    for call in calls {
        statuses.push(call.await.unwrap());
    }
    // A quota of 100 admits 14 charges of 7 of each caller, and the other 26 are refused.
    let count = |status: u16| statuses.iter().filter(|seen| **seen == status).count();
    assert_eq!((count(200), count(429)), (3 * 14, 3 * 26), "{statuses:?}");
    for agent in 0..3 {
        assert_eq!(used(&servers[0], &format!("new-{agent}")).await, 98);
        let stream = Stream::Scope(Tenant::built_in(), Scope::new(format!("agent:new-{agent}")).unwrap());
        let events = servers[1].bursar.journal().history(&stream, 100).await.unwrap();
        let defined = events.iter().filter(|event| matches!(event.event, Event::BudgetDefined { .. })).count();
        assert_eq!(defined, 1, "new-{agent} has one default budget");
    }
    let verified = servers[0].call("GET", "/v1/verify", Value::Null).await.is(200).json();
    assert_eq!(verified["ok"], true, "{verified}");
    for server in servers {
        Arc::into_inner(server).expect("no call is left").stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_callers_share_one_default_quota_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    first_callers_share_one_default_quota(&url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_callers_share_one_default_quota_on_postgres() {
    first_callers_share_one_default_quota(&bursar_testkit::fresh_database()).await;
}

/// The quota of the checked caller and that of the principal who checks it are apart.
async fn a_metered_gateway_is_told_whose_quota_is_exceeded(url: &str) {
    let settings = "quota = [{ amount = 3, window = 'year' }]\npatience_ms = 120000";
    let meter = Some(MeterSettings::from_toml(settings).unwrap());
    let server = TestServer::on(url, Settings { meter, ..Settings::default() }).await;
    let gateway = server.key("acme", "agent").await;
    let checked =
        async |cost: i64| server.call_as(&gateway, "POST", CHECK, json!({ "agent_id": "bob", "cost": cost })).await;
    let answer = checked(1).await.is(200);
    assert_eq!((answer.header("x-quota-remaining"), &answer.json()["remaining"]), (Some("2"), &json!(2)));
    let scope = |answer: &Response| answer.json()["violations"][0]["scope"].as_str().unwrap().to_owned();
    let over = checked(9).await.is(429);
    assert_eq!((scope(&over).as_str(), over.header("x-quota-remaining")), ("agent:bob", Some("2")));
    checked(0).await.is(200);
    let own = checked(1).await.is(429);
    assert_eq!((scope(&own).as_str(), own.header("x-quota-remaining")), ("agent:agent:agent of acme", Some("0")));
    let path = "/v1/meter/quota?agent_id=bob";
    let quota = server.call_as(&gateway, "GET", path, Value::Null).await.is(200);
    assert_eq!((&quota.json()["used"], quota.header("x-quota-remaining")), (&json!(1), Some("2")));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metered_gateway_is_told_whose_quota_is_exceeded_on_sqlite() {
    a_metered_gateway_is_told_whose_quota_is_exceeded("sqlite::memory:").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metered_gateway_is_told_whose_quota_is_exceeded_on_postgres() {
    a_metered_gateway_is_told_whose_quota_is_exceeded(&bursar_testkit::fresh_database()).await;
}
