//! Quotas over HTTP, and quotas on calls to the server itself.

use bursar::meter::MeterSettings;
use bursar_server::{Role, Server, Settings, StartError};
use serde_json::{Value, json};

use crate::client::{Response, send};
use crate::permissions::user;
use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(a_quota_is_read_and_changed, a_quota_belongs_to_its_tenant, without_a_meter_nothing_is_metered);

async fn a_quota_is_read_and_changed(server: TestServer) {
    let agent = "0a".repeat(32);
    let quota = |id: &str| format!("/v1/meter/quota?agent_id={id}");
    let quota_answer = server.call("GET", &quota(&agent), Value::Null).await.is(200).json();
    assert_eq!((&quota_answer["agent_id"], &quota_answer["scope"]), (&json!(agent), &json!(format!("agent:{agent}"))));
    assert_eq!(
        (&quota_answer["limit"], &quota_answer["used"], &quota_answer["remaining"]),
        (&json!(10_000), &json!(0), &json!(10_000))
    );
    let (start, reset) = (quota_answer["window_start"].as_i64().unwrap(), quota_answer["reset_at"].as_i64().unwrap());
    assert_eq!((start % 3_600, reset - start), (0, 3_600));
    // Reading a quota creates no budget.
    server.call("GET", &format!("/v1/budgets/agent:{agent}"), Value::Null).await.is(404);

    let set = async |body: Value| server.call("POST", "/v1/meter/quota/limit", body).await;
    let quota_answer = set(json!({ "agent_id": agent, "limit": 50, "reason": "paid plan" })).await.is(200).json();
    assert_eq!(
        (&quota_answer["limit"], &quota_answer["remaining"], &quota_answer["window"]),
        (&json!(50), &json!(50), &json!("hour"))
    );
    // Upper case names the same caller. Spend by other routes counts too.
    let charges = json!({ "charges": [{ "scope": format!("agent:{agent}"), "amount": 30 }] });
    server.call("POST", "/v1/commands", charges).await.is(201);
    let quota_answer = server.call("GET", &quota(&agent.to_uppercase()), Value::Null).await.is(200).json();
    assert_eq!((&quota_answer["used"], &quota_answer["remaining"]), (&json!(30), &json!(20)));
    // The quota is stored as a budget.
    let budget = server.call("GET", &format!("/v1/budgets/agent:{agent}"), Value::Null).await.is(200).json();
    assert_eq!(budget["limits"], json!([{ "amount": 50, "window": "hour", "zone": "UTC" }]));
    let listed = server.call("GET", "/v1/budgets?prefix=agent:", Value::Null).await.is(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);

    let limits = json!([{ "amount": 40, "window": "day" }, { "amount": 35, "window": "lifetime" }]);
    let quota_answer = set(json!({ "agent_id": agent, "limits": limits })).await.is(200).json();
    assert_eq!(
        (&quota_answer["limit"], &quota_answer["remaining"], &quota_answer["reset_at"]),
        (&json!(35), &json!(5), &Value::Null)
    );
    assert_eq!(quota_answer["limits"].as_array().unwrap().len(), 2);

    for (body, field) in [
        (json!({ "agent_id": agent }), "limit"),
        (json!({ "agent_id": agent, "limit": 1, "limits": [] }), "limit"),
        (json!({ "agent_id": agent, "limits": [] }), "limits"),
        (json!({ "agent_id": agent, "limit": -1 }), "limit"),
        (json!({ "agent_id": "", "limit": 1 }), "agent_id"),
        (json!({ "agent_id": "x".repeat(300), "limit": 1 }), "agent_id"),
        (json!({ "agent_id": "a\nb", "limit": 1 }), "agent_id"),
    ] {
        let answer = set(body.clone()).await.is(400);
        assert_eq!((answer.problem().as_str(), &answer.json()["field"]), ("invalid", &json!(field)), "{body}");
    }
    // A retry with the same key is a replay.
    let body = json!({ "agent_id": "bob", "limit": 7 });
    let key = [("Idempotency-Key", "once")];
    for replayed in [None, Some("true")] {
        let answer = server.call_with(OPERATOR, &key, "POST", "/v1/meter/quota/limit", body.clone()).await.is(200);
        assert_eq!(answer.header("idempotent-replayed"), replayed);
    }
    server.stop().await;
}

async fn a_quota_belongs_to_its_tenant(server: TestServer) {
    let acme = [("Bursar-Tenant", "acme")];
    let body = json!({ "agent_id": "bob", "limit": 7 });
    server.call_with(OPERATOR, &acme, "POST", "/v1/meter/quota/limit", body).await.is(200);
    let path = "/v1/meter/quota?agent_id=bob";
    assert_eq!(server.call_with(OPERATOR, &acme, "GET", path, Value::Null).await.json()["limit"], 7);
    assert_eq!(server.call("GET", path, Value::Null).await.json()["limit"], 10_000);
    let (own, other) = (server.key("acme", "user").await, server.key("globex", "user").await);
    assert_eq!(server.call_as(&own, "GET", path, Value::Null).await.json()["limit"], 7);
    assert_eq!(server.call_as(&other, "GET", path, Value::Null).await.json()["limit"], 10_000);
    server.stop().await;
}

async fn without_a_meter_nothing_is_metered(server: TestServer) {
    let user = server.key("acme", "user").await;
    let answer = server.call_as(&user, "GET", "/v1/budgets", Value::Null).await.is(200);
    assert_eq!(answer.header("x-quota-limit"), None);
    assert_eq!(answer.json()["items"], json!([]));
    server.stop().await;
}

/// Starts a server with a quota of five requests per year; a test rarely crosses the end of a year.
async fn metered(url: &str) -> TestServer {
    let settings = "
        quota = [{ amount = 5, window = 'year' }]
        patience_ms = 120000
        [[costs.operations]]
        name = 'command'
        method = 'POST'
        path = '/v1/commands'
        base = 1
        per_kib = 1
    ";
    let meter = Some(MeterSettings::from_toml(settings).unwrap());
    TestServer::on(url, Settings { meter, ..Settings::default() }).await
}

async fn callers_of_the_server_have_quotas(server: TestServer) {
    let (user, agent) = (server.key("acme", "user").await, server.key("acme", "agent").await);
    for left in (1..5).rev() {
        let answer = server.call_as(&user, "GET", "/v1/budgets", Value::Null).await.is(200);
        assert_eq!(answer.header("x-quota-limit"), Some("5"));
        assert_eq!(answer.header("x-quota-remaining"), Some(left.to_string().as_str()));
        assert!(answer.header("ratelimit").unwrap().starts_with("\"year@UTC\";r="), "{answer:?}");
    }
    // A failed request is charged too, and has the quota headers.
    let answer = server.call_as(&user, "GET", "/v1/budgets/nowhere", Value::Null).await.is(404);
    assert_eq!(answer.header("x-quota-remaining"), Some("0"));
    let over = server.call_as(&user, "GET", "/v1/budgets", Value::Null).await.is(429);
    assert_eq!(over.problem(), "quota-exceeded");
    let wait: i64 = over.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=366 * 86_400).contains(&wait), "{wait}");
    let violation = &over.json()["violations"][0];
    assert_eq!((&violation["scope"], &violation["limit"]), (&json!("agent:user:user of acme"), &json!(5)));
    assert_eq!(over.header("x-quota-remaining"), Some("0"));
    // An exhausted caller can still read its quota, which costs nothing.
    for _ in 0..3 {
        let own = server.call_as(&user, "GET", "/v1/meter/quota", Value::Null).await.is(200);
        assert_eq!(own.header("x-quota-remaining"), Some("0"));
        let own = own.json();
        assert_eq!((&own["agent_id"], &own["used"]), (&json!("user:user of acme"), &json!(5)));
        assert_eq!((&own["limit"], &own["remaining"]), (&json!(5), &json!(0)));
        assert_eq!(own["reset_at"], reported_reset(&over));
    }
    // Each caller has its own quota, and public routes are free.
    server.call_as(&agent, "GET", "/v1/budgets", Value::Null).await.is(200);
    server.call_as(&user, "GET", "/livez", Value::Null).await.is(200);
    server.call_as(&user, "GET", "/v1/openapi.json", Value::Null).await.is(200);
    // The body is charged per KiB, with and without Content-Length.
    let body = json!({ "charges": [{ "scope": "x", "amount": 1, "limits": [{ "amount": 9, "window": "lifetime" }] }] });
    let answer = server.call_as(&agent, "POST", "/v1/commands", body.clone()).await.is(201);
    assert_eq!(answer.header("x-quota-remaining"), Some("2"));
    let text = body.to_string();
    let chunked = format!(
        "POST /v1/commands HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {agent}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n{:x}\r\n{text}\r\n0\r\n\r\n",
        text.len()
    );
    assert_eq!(send(server.address, chunked.as_bytes()).await.is(201).header("x-quota-remaining"), Some("0"));
    let refused = send(server.address, chunked.as_bytes()).await.is(429);
    assert_eq!(refused.problem(), "quota-exceeded");
    // Operators are never metered, and may raise a quota.
    for _ in 0..8 {
        assert_eq!(server.call("GET", "/v1/budgets", Value::Null).await.is(200).header("x-quota-limit"), None);
    }
    let body = json!({ "agent_id": "user:user of acme", "limit": 100 });
    server.call_with(OPERATOR, &[("Bursar-Tenant", "acme")], "POST", "/v1/meter/quota/limit", body).await.is(200);
    let own = server.call_as(&user, "GET", "/v1/meter/quota", Value::Null).await.is(200).json();
    assert_eq!((&own["used"], &own["remaining"]), (&json!(5), &json!(95)));
    let metrics = server.call("GET", "/metrics", Value::Null).await.is(200).text;
    for line in ["bursar_meter_admitted_total 8", "bursar_meter_exceeded_total 2", "bursar_meter_failed_open_total 0"] {
        assert!(metrics.lines().any(|known| known == line), "{line}\n{metrics}");
    }
    server.stop().await;
}

/// Returns when the quota resets that an answer reports in its headers.
fn reported_reset(answer: &Response) -> Value {
    json!(answer.header("x-quota-reset").unwrap().parse::<i64>().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_gives_back_what_it_held_of_quotas() {
    let settings = "quota = [{ amount = 1000, window = 'year' }]\npatience_ms = 120000\nslices = {}";
    let meter = Some(MeterSettings::from_toml(settings).unwrap());
    let mut server = TestServer::on("sqlite::memory:", Settings { meter, ..Settings::default() }).await;
    let user = server.key("acme", "user").await;
    for sent in 1..=20 {
        let answer = server.call_as(&user, "GET", "/v1/budgets", Value::Null).await.is(200);
        assert_eq!(answer.header("x-quota-remaining"), Some((1_000 - sent).to_string().as_str()));
    }
    let metrics = server.call("GET", "/metrics", Value::Null).await.is(200).text;
    assert!(!metrics.contains("bursar_meter_sliced_total 0"), "requests are admitted from memory");
    server.stop_soon().await.unwrap();
    let acme = server.bursar.tenant("acme").unwrap();
    let view = acme.ledger().budget("agent:user:user of acme").await.unwrap().unwrap();
    assert_eq!((view.balances[0].posted, view.balances[0].held), (20, 0), "exactly what was admitted");
    server.bursar.clone().close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_the_server_have_quotas_on_sqlite() {
    callers_of_the_server_have_quotas(metered("sqlite::memory:").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_the_server_have_quotas_on_postgres() {
    callers_of_the_server_have_quotas(metered(&bursar_testkit::fresh_database()).await).await;
}

/// A database that cannot be used: the server's own meter follows its setting, and a check leaves the decision to its caller.
async fn a_quota_that_cannot_be_checked(url: impl Fn() -> String) {
    for (on_failure, status) in [("open", 200), ("closed", 503)] {
        let text = format!("on_failure = '{on_failure}'\npatience_ms = 120000");
        let meter = Some(MeterSettings::from_toml(&text).unwrap());
        let server = TestServer::on(&url(), Settings { meter, ..Settings::default() }).await;
        // A signed token and this route need no database.
        let ann = user("acme", Role::User);
        let paid = server.call_as(&ann, "GET", "/v1/whoami", Value::Null).await.is(200);
        assert_eq!(paid.header("x-quota-remaining"), Some("9999"));
        server.bursar.clone().close().await;
        let failed = server.call_as(&ann, "GET", "/v1/whoami", Value::Null).await.is(status);
        assert_eq!(failed.header("x-quota-remaining"), None);
        assert_eq!(failed.header("retry-after"), (status == 503).then_some("1"));
        for (method, path, body) in [
            ("POST", "/v1/meter/check", json!({ "agent_id": "bob", "cost": 1 })),
            ("GET", "/v1/meter/quota", Value::Null),
        ] {
            let unchecked = server.call(method, path, body).await.is(503);
            assert_eq!(
                (unchecked.problem().as_str(), unchecked.header("x-quota-limit")),
                ("unavailable", None),
                "{path}"
            );
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_that_cannot_be_checked_on_sqlite() {
    a_quota_that_cannot_be_checked(|| "sqlite::memory:".into()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_that_cannot_be_checked_on_postgres() {
    a_quota_that_cannot_be_checked(bursar_testkit::fresh_database).await;
}

#[tokio::test]
async fn invalid_meter_settings_prevent_the_start() {
    let bursar = bursar::Bursar::open("sqlite::memory:").await.unwrap();
    let text = "[[costs.operations]]\nname = 'a'\npath = '/a'\nbase = 1\ntwo_phase = true";
    let meter = Some(MeterSettings::from_toml(text).unwrap());
    let settings = Settings { operator_token: Some(OPERATOR.into()), meter, ..Settings::default() };
    let started = Server::bind(bursar, "127.0.0.1:0".parse().unwrap(), settings).await;
    let Err(StartError::Meter(error)) = started else { panic!("the server starts") };
    assert!(error.to_string().starts_with("costs.operations: two_phase is for handlers"), "{error}");
}
