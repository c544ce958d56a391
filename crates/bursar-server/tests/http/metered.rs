//! Quotas over HTTP, and those of the server's own callers.

use bursar::meter::MeterSettings;
use bursar_server::{Server, Settings, StartError};
use serde_json::{Value, json};

use crate::client::send;
use crate::home::{Home, OPERATOR, on_both};

on_both!(a_quota_is_told_and_set, a_quota_is_its_tenants, unless_it_is_set_nobody_is_metered);

async fn a_quota_is_told_and_set(home: Home) {
    let agent = "0a".repeat(32);
    let quota = |id: &str| format!("/v1/meter/quota?agent_id={id}");
    let told = home.ask("GET", &quota(&agent), Value::Null).await.is(200).json();
    assert_eq!((&told["agent_id"], &told["scope"]), (&json!(agent), &json!(format!("agent:{agent}"))));
    assert_eq!((&told["limit"], &told["used"], &told["remaining"]), (&json!(10_000), &json!(0), &json!(10_000)));
    let (start, reset) = (told["window_start"].as_i64().unwrap(), told["reset_at"].as_i64().unwrap());
    assert_eq!((start % 3_600, reset - start), (0, 3_600));
    // Asking makes no budget.
    home.ask("GET", &format!("/v1/budgets/agent:{agent}"), Value::Null).await.is(404);

    let set = async |body: Value| home.ask("POST", "/v1/meter/quota/limit", body).await;
    let told = set(json!({ "agent_id": agent, "limit": 50, "reason": "paid plan" })).await.is(200).json();
    assert_eq!((&told["limit"], &told["remaining"], &told["window"]), (&json!(50), &json!(50), &json!("hour")));
    // In capitals it is the same caller. What is spent by whatever way counts.
    let charges = json!({ "charges": [{ "scope": format!("agent:{agent}"), "amount": 30 }] });
    home.ask("POST", "/v1/commands", charges).await.is(201);
    let told = home.ask("GET", &quota(&agent.to_uppercase()), Value::Null).await.is(200).json();
    assert_eq!((&told["used"], &told["remaining"]), (&json!(30), &json!(20)));
    // It is a budget like others.
    let budget = home.ask("GET", &format!("/v1/budgets/agent:{agent}"), Value::Null).await.is(200).json();
    assert_eq!(budget["limits"], json!([{ "amount": 50, "window": "hour", "zone": "UTC" }]));
    let listed = home.ask("GET", "/v1/budgets?prefix=agent:", Value::Null).await.is(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);

    let limits = json!([{ "amount": 40, "window": "day" }, { "amount": 35, "window": "lifetime" }]);
    let told = set(json!({ "agent_id": agent, "limits": limits })).await.is(200).json();
    assert_eq!((&told["limit"], &told["remaining"], &told["reset_at"]), (&json!(35), &json!(5), &Value::Null));
    assert_eq!(told["limits"].as_array().unwrap().len(), 2);

    for (body, field) in [
        (json!({ "agent_id": agent }), "limit"),
        (json!({ "agent_id": agent, "limit": 1, "limits": [] }), "limit"),
        (json!({ "agent_id": agent, "limits": [] }), "limits"),
        (json!({ "agent_id": agent, "limit": -1 }), "limits.amount"),
        (json!({ "agent_id": "", "limit": 1 }), "agent_id"),
        (json!({ "agent_id": "x".repeat(300), "limit": 1 }), "agent_id"),
        (json!({ "agent_id": "a\nb", "limit": 1 }), "agent_id"),
    ] {
        let answer = set(body.clone()).await.is(400);
        assert_eq!((answer.problem().as_str(), &answer.json()["field"]), ("invalid", &json!(field)), "{body}");
    }
    // A repetition has one effect and one answer.
    let body = json!({ "agent_id": "bob", "limit": 7 });
    let key = [("Idempotency-Key", "once")];
    for replayed in [None, Some("true")] {
        let answer = home.ask_with(OPERATOR, &key, "POST", "/v1/meter/quota/limit", body.clone()).await.is(200);
        assert_eq!(answer.header("idempotent-replayed"), replayed);
    }
    home.stop().await;
}

async fn a_quota_is_its_tenants(home: Home) {
    let acme = [("Bursar-Tenant", "acme")];
    let body = json!({ "agent_id": "bob", "limit": 7 });
    home.ask_with(OPERATOR, &acme, "POST", "/v1/meter/quota/limit", body).await.is(200);
    let path = "/v1/meter/quota?agent_id=bob";
    assert_eq!(home.ask_with(OPERATOR, &acme, "GET", path, Value::Null).await.json()["limit"], 7);
    assert_eq!(home.ask("GET", path, Value::Null).await.json()["limit"], 10_000);
    let (own, other) = (home.key("acme", "user").await, home.key("globex", "user").await);
    assert_eq!(home.ask_as(&own, "GET", path, Value::Null).await.json()["limit"], 7);
    assert_eq!(home.ask_as(&other, "GET", path, Value::Null).await.json()["limit"], 10_000);
    home.stop().await;
}

async fn unless_it_is_set_nobody_is_metered(home: Home) {
    let user = home.key("acme", "user").await;
    let answer = home.ask_as(&user, "GET", "/v1/budgets", Value::Null).await.is(200);
    assert_eq!(answer.header("x-quota-limit"), None);
    assert_eq!(answer.json()["items"], json!([]));
    home.stop().await;
}

/// A server whose users may ask five times a year, on each engine in turn: a test seldom runs into the next one.
async fn metered(url: &str) -> Home {
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
    Home::on(url, Settings { meter, ..Settings::default() }).await
}

async fn callers_of_the_server_have_quotas(home: Home) {
    let (user, agent) = (home.key("acme", "user").await, home.key("acme", "agent").await);
    for left in (1..5).rev() {
        let answer = home.ask_as(&user, "GET", "/v1/budgets", Value::Null).await.is(200);
        assert_eq!(answer.header("x-quota-limit"), Some("5"));
        assert_eq!(answer.header("x-quota-remaining"), Some(left.to_string().as_str()));
        assert!(answer.header("ratelimit").unwrap().starts_with("\"year@UTC\";r="), "{answer:?}");
    }
    // What comes to nothing is paid too, and tells how its caller stands.
    let answer = home.ask_as(&user, "GET", "/v1/budgets/nowhere", Value::Null).await.is(404);
    assert_eq!(answer.header("x-quota-remaining"), Some("0"));
    let over = home.ask_as(&user, "GET", "/v1/budgets", Value::Null).await.is(429);
    assert_eq!(over.problem(), "quota-exceeded");
    let wait: i64 = over.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=366 * 86_400).contains(&wait), "{wait}");
    let violation = &over.json()["violations"][0];
    assert_eq!((&violation["scope"], &violation["limit"]), (&json!("agent:user:user of acme"), &json!(5)));
    assert_eq!(over.header("x-quota-remaining"), Some("0"));
    // Others have quotas of their own, and what anybody may see costs nothing.
    home.ask_as(&agent, "GET", "/v1/budgets", Value::Null).await.is(200);
    home.ask_as(&user, "GET", "/livez", Value::Null).await.is(200);
    home.ask_as(&user, "GET", "/v1/openapi.json", Value::Null).await.is(200);
    // A payload costs by its KiB, told or not told how large it is.
    let body = json!({ "charges": [{ "scope": "x", "amount": 1, "limits": [{ "amount": 9, "window": "lifetime" }] }] });
    let answer = home.ask_as(&agent, "POST", "/v1/commands", body.clone()).await.is(201);
    assert_eq!(answer.header("x-quota-remaining"), Some("2"));
    let text = body.to_string();
    let chunked = format!(
        "POST /v1/commands HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {agent}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n{:x}\r\n{text}\r\n0\r\n\r\n",
        text.len()
    );
    assert_eq!(send(home.address, chunked.as_bytes()).await.is(201).header("x-quota-remaining"), Some("0"));
    let refused = send(home.address, chunked.as_bytes()).await.is(429);
    assert_eq!(refused.problem(), "quota-exceeded");
    // Who runs the server is never metered, and may give one more.
    for _ in 0..8 {
        assert_eq!(home.ask("GET", "/v1/budgets", Value::Null).await.is(200).header("x-quota-limit"), None);
    }
    let body = json!({ "agent_id": "user:user of acme", "limit": 100 });
    home.ask_with(OPERATOR, &[("Bursar-Tenant", "acme")], "POST", "/v1/meter/quota/limit", body).await.is(200);
    let own = home.ask_as(&user, "GET", "/v1/meter/quota", Value::Null).await.is(200).json();
    assert_eq!((&own["agent_id"], &own["used"]), (&json!("user:user of acme"), &json!(6)));
    let metrics = home.ask("GET", "/metrics", Value::Null).await.is(200).text;
    for line in ["bursar_meter_admitted_total 9", "bursar_meter_exceeded_total 2", "bursar_meter_failed_open_total 0"] {
        assert!(metrics.lines().any(|known| known == line), "{line}\n{metrics}");
    }
    home.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_the_server_have_quotas_on_sqlite() {
    callers_of_the_server_have_quotas(metered("sqlite::memory:").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_the_server_have_quotas_on_postgres() {
    callers_of_the_server_have_quotas(metered(&bursar_testkit::fresh_database()).await).await;
}

#[tokio::test]
async fn a_server_whose_meter_makes_no_sense_does_not_start() {
    let bursar = bursar::Bursar::open("sqlite::memory:").await.unwrap();
    let text = "[[costs.operations]]\nname = 'a'\npath = '/a'\nbase = 1\ntwo_phase = true";
    let meter = Some(MeterSettings::from_toml(text).unwrap());
    let settings = Settings { operator_token: Some(OPERATOR.into()), meter, ..Settings::default() };
    let started = Server::bind(bursar, "127.0.0.1:0".parse().unwrap(), settings).await;
    let Err(StartError::Meter(error)) = started else { panic!("it starts") };
    assert!(error.to_string().starts_with("costs.operations: two_phase is for handlers"), "{error}");
}
