//! What a quota admits, and what responses report of it.

use std::collections::HashMap;

use axum::body::Body;
use bursar::meter::{Meter, Once};
use bursar::{Context, Error, Event, IdempotencyKey, Limit, Refusal, Span, Stream, Tenant};

use crate::app::{App, START, caller, hourly, key, on_both_engines, request};

on_both_engines! {
    by_default_a_caller_has_ten_thousand_units_an_hour,
    operations_cost_what_the_model_says,
    a_request_beyond_the_quota_is_neither_served_nor_charged,
    concurrent_requests_never_exceed_a_quota,
    the_first_charge_defines_the_budget_once,
    a_charge_with_a_key_is_made_once,
    all_limits_must_admit_and_the_tightest_is_reported,
    a_callers_own_limit_overrides_the_quota,
    a_new_quota_applies_to_callers_without_their_own_limit,
    the_quota_resets_at_the_full_hour,
    a_frozen_quota_admits_nothing,
    each_tenant_has_its_own_quotas,
}

async fn by_default_a_caller_has_ten_thousand_units_an_hour(url: String) {
    let app = App::open_with(url, |meter| meter).await;
    let answer = app.send(1, "GET", "/other", Body::empty()).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, "served"));
    assert_eq!(answer.quota(), [10_000, 9_999, START + 3_600]);
    assert_eq!(answer.header("ratelimit-policy"), Some("\"hour@UTC\";q=10000;w=3600"));
    assert_eq!(answer.header("ratelimit"), Some("\"hour@UTC\";r=9999;t=3600"));
    // A quota is a budget, and listed with them.
    let ledger = app.bursar.ledger();
    assert_eq!(ledger.remaining(caller(1).scope()).await.unwrap()[0].remaining, Some(9_999));
    let listed = ledger.budgets("agent:", None, 10).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].scope.as_str(), listed[0].balances[0].posted), (&*format!("agent:{}", key(1)), 1));
    // A new caller has the full quota, and reading it defines no budget.
    let fresh = app.meter.status(&caller(2)).await.unwrap();
    assert_eq!((fresh.limits[0].remaining, fresh.limits[0].used()), (10_000, 0));
    assert!(ledger.budget(caller(2).scope()).await.unwrap().is_none());
    app.books_are_right().await;
}

async fn operations_cost_what_the_model_says(url: String) {
    let app = App::open(url, 1_000).await;
    let mut left = 1_000;
    for (method, uri, bytes, cost) in [
        ("POST", "/claims", 0, 10),
        ("POST", "/claims", 1, 11),
        ("POST", "/claims", 1_024, 11),
        ("POST", "/claims", 1_025, 12),
        ("POST", "/claims/7/vote", 3_000, 1),
        ("GET", "/claims", 0, 5),
        ("GET", "/claims?lens=trust,recency&lens=cost", 0, 8),
        ("GET", "/other", 0, 1),
    ] {
        let answer = app.send(1, method, uri, "x".repeat(bytes)).await;
        left -= cost;
        assert_eq!((answer.status, answer.quota()[1]), (200, left), "{method} {uri} {bytes}");
    }
    // A bypassed request costs nothing and has no headers. A request for an unknown path costs one unit.
    let health = app.send(1, "GET", "/livez", Body::empty()).await;
    assert_eq!((health.status, health.header("x-quota-limit")), (200, None));
    let missing = app.send(1, "GET", "/nowhere", Body::empty()).await;
    assert_eq!((missing.status, missing.quota()[1]), (404, left - 1));
    assert_eq!(app.meter.counters().bypassed, 1);
    assert_eq!(app.spent(1).await, (1_000 - left + 1, 0));
    app.books_are_right().await;
}

async fn a_request_beyond_the_quota_is_neither_served_nor_charged(url: String) {
    let app = App::open(url, 25).await;
    for left in [15, 5] {
        assert_eq!(app.send(1, "POST", "/claims", Body::empty()).await.quota()[1], left);
    }
    app.clock.advance(Span::from_secs(600));
    let over = app.send(1, "POST", "/claims", Body::empty()).await;
    assert_eq!(over.status, 429);
    assert_eq!(over.header("content-type"), Some("application/problem+json"));
    assert_eq!(over.header("retry-after"), Some("3000"));
    assert_eq!(over.quota(), [25, 5, START + 3_600]);
    assert_eq!(over.header("ratelimit"), Some("\"hour@UTC\";r=5;t=3000"));
    let problem = over.json();
    assert_eq!(problem["type"], "/problems/quota-exceeded");
    assert_eq!((problem["status"].as_i64(), problem["retry_after_ms"].as_i64()), (Some(429), Some(3_000_000)));
    let violation = &problem["violations"][0];
    assert_eq!(violation["scope"], format!("agent:{}", key(1)));
    assert_eq!((violation["window"].as_str(), violation["limit"].as_i64()), (Some("hour"), Some(25)));
    assert_eq!((violation["requested"].as_i64(), violation["available"].as_i64()), (Some(10), Some(5)));
    assert_eq!(app.served(), 2);
    assert_eq!(app.spent(1).await, (20, 0));
    // A cheaper request is still admitted. A request above the whole limit has no retry-after.
    assert_eq!(app.send(1, "GET", "/claims", Body::empty()).await.quota()[1], 0);
    let never = app.send(1, "POST", "/claims", "x".repeat(20 << 10)).await;
    assert_eq!((never.status, never.header("retry-after")), (429, None));
    assert_eq!(never.json()["violations"][0]["possible"], false);
    let counters = app.meter.counters();
    assert_eq!((counters.admitted, counters.exceeded), (3, 2));
    app.books_are_right().await;
}

async fn concurrent_requests_never_exceed_a_quota(url: String) {
    let app = App::open(url, 1_000).await;
    // Each costs seven units, in one phase or in two; a quota of 1,000 admits 142 of them.
    let tasks = (0..300).map(|task| {
        let router = app.router.clone();
        let uri = if task % 2 == 0 { "/claims?lens=a,b" } else { "/work?cost=7" };
        let method = if task % 2 == 0 { "GET" } else { "POST" };
        tokio::spawn(async move {
            let http_request = request(method, uri).header("x-agent-id", key(1)).body(Body::empty()).unwrap();
            tower::ServiceExt::oneshot(router, http_request).await.unwrap().status().as_u16()
        })
    });
    let mut answers: HashMap<u16, usize> = HashMap::new();
    for task in tasks.collect::<Vec<_>>() {
        *answers.entry(task.await.unwrap()).or_default() += 1;
    }
    let served = answers[&200];
    assert_eq!(answers.get(&429), Some(&(300 - served)), "{answers:?}");
    assert_eq!(app.served(), served);
    let (posted, held) = app.spent(1).await;
    assert_eq!((posted, held), (served as i64 * 7, 0));
    assert!(posted <= 1_000, "{posted}");
    // Held estimates may have refused some requests, but all units that are left now can be spent.
    for _ in served..142 {
        assert_eq!(app.send(1, "GET", "/claims?lens=a,b", Body::empty()).await.status, 200);
    }
    assert_eq!(app.send(1, "GET", "/claims?lens=a,b", Body::empty()).await.status, 429);
    assert_eq!(app.spent(1).await, (994, 0));
    app.books_are_right().await;
}

async fn the_first_charge_defines_the_budget_once(url: String) {
    let app = App::open(url, 1_000).await;
    let tasks = (0..60).map(|task| {
        let (meter, agent) = (app.meter.clone(), caller(task % 3));
        tokio::spawn(async move { meter.check_and_record(&agent, 1).await.unwrap().unwrap() })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    for agent in 0..3 {
        assert_eq!(app.spent(agent).await, (20, 0));
        let stream = Stream::Scope(Tenant::built_in(), caller(agent).scope().clone());
        let events = app.bursar.journal().history(&stream, 100).await.unwrap();
        let defined = events.iter().filter(|event| matches!(event.event, Event::BudgetDefined { .. })).count();
        assert_eq!(defined, 1, "agent {agent}");
    }
    app.books_are_right().await;
}

/// Two nodes on one database, and callers that are new to both.
#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_never_exceed_a_quota_that_both_define() {
    let url = bursar_testkit::fresh_database();
    let nodes = [App::open(url.clone(), 50).await, App::open(url, 50).await];
    let tasks = (0..160).map(|task| {
        let (meter, agent) = (nodes[task % 2].meter.clone(), caller(1 + (task / 2 % 2) as u8));
        tokio::spawn(async move { meter.check_and_record(&agent, 1).await.unwrap().is_ok() })
    });
    let mut admitted = 0;
    for task in tasks.collect::<Vec<_>>() {
        admitted += usize::from(task.await.unwrap());
    }
    assert_eq!(admitted, 100);
    let [one, other] = nodes;
    for agent in [1, 2] {
        assert_eq!(one.spent(agent).await, (50, 0));
        let stream = Stream::Scope(Tenant::built_in(), caller(agent).scope().clone());
        let events = one.bursar.journal().history(&stream, 1_000).await.unwrap();
        assert_eq!(events.iter().filter(|event| matches!(event.event, Event::BudgetDefined { .. })).count(), 1);
    }
    other.bursar.close().await;
    one.books_are_right().await;
}

async fn a_charge_with_a_key_is_made_once(url: String) {
    let app = App::open(url, 100).await;
    let charge = async |units: i64, name: &str| {
        let once = Once::new(IdempotencyKey::new(name).unwrap());
        app.meter.check_and_record_once(&caller(1), units, once).await
    };
    let first = charge(30, "a").await.unwrap().unwrap();
    assert_eq!((first.replayed, first.standing.limits[0].remaining), (false, 70));
    app.meter.check_and_record(&caller(1), 5).await.unwrap().unwrap();
    let again = charge(30, "a").await.unwrap().unwrap();
    assert!(again.replayed);
    assert_eq!(again.standing, first.standing, "a retry gets the first answer");
    assert!(matches!(charge(31, "a").await, Err(Error::Refused(Refusal::KeyReused { .. }))));
    // The default quota may change between a request and its retry.
    let other = Meter::builder(app.bursar.clone()).set(|settings| settings.quota = hourly(90)).build().unwrap();
    let once = Once::new(IdempotencyKey::new("a").unwrap());
    assert!(other.check_and_record_once(&caller(1), 30, once).await.unwrap().unwrap().replayed);
    // A refusal is not recorded.
    let over = charge(80, "b").await.unwrap().unwrap_err();
    assert_eq!(over.standing.limits[0].remaining, 65);
    app.meter.set_limit(&caller(1), hourly(200)).await.unwrap();
    assert_eq!(charge(80, "b").await.unwrap().unwrap().standing.limits[0].remaining, 85);
    assert_eq!(app.spent(1).await, (115, 0));
    app.books_are_right().await;
}

async fn all_limits_must_admit_and_the_tightest_is_reported(url: String) {
    let limit = |amount, window: &str| Limit::new(amount, window.parse().unwrap());
    let limits = vec![limit(50, "hour"), limit(12, "rolling:1m"), limit(60, "day@Europe/Berlin")];
    let app = App::open_with(url, |meter| meter.set(|settings| settings.quota = limits)).await;
    let answer = app.send(1, "POST", "/claims", Body::empty()).await;
    assert_eq!(answer.quota(), [12, 2, START + 60]);
    assert_eq!(
        answer.header("ratelimit-policy"),
        Some("\"hour@UTC\";q=50;w=3600, \"rolling:1m\";q=12;w=60, \"day@Europe/Berlin\";q=60;w=86400")
    );
    assert_eq!(
        answer.header("ratelimit"),
        Some("\"hour@UTC\";r=40;t=3600, \"rolling:1m\";r=2;t=60, \"day@Europe/Berlin\";r=50;t=54000")
    );
    let over = app.send(1, "GET", "/claims", Body::empty()).await;
    assert_eq!((over.status, over.header("retry-after")), (429, Some("60")));
    assert_eq!(over.json()["violations"].as_array().unwrap().len(), 1);
    for minute in 1..5 {
        app.clock.advance(Span::from_secs(61));
        assert_eq!(app.send(1, "POST", "/claims", Body::empty()).await.status, 200, "minute {minute}");
    }
    app.clock.advance(Span::from_secs(61));
    let over = app.send(1, "POST", "/claims", Body::empty()).await;
    assert_eq!((over.status, over.json()["violations"][0]["window"].as_str()), (429, Some("hour")));
    assert_eq!(app.spent(1).await, (50, 0));
    app.books_are_right().await;
}

async fn a_callers_own_limit_overrides_the_quota(url: String) {
    let app = App::open(url, 10).await;
    assert_eq!(app.send(1, "POST", "/claims", Body::empty()).await.quota(), [10, 0, START + 3_600]);
    app.meter.set_limit(&caller(1), hourly(100)).await.unwrap();
    assert_eq!(app.send(1, "POST", "/claims", Body::empty()).await.quota(), [100, 80, START + 3_600]);
    // With a limit below what is spent, nothing is admitted and nothing remains.
    app.meter.set_limit(&caller(1), hourly(5)).await.unwrap();
    let over = app.send(1, "GET", "/other", Body::empty()).await;
    assert_eq!((over.status, over.quota()[..2].to_vec()), (429, vec![5, 0]));
    // A caller can have a limit before its first request.
    app.meter.set_limit(&caller(2), [Limit::new(15, "day".parse().unwrap())]).await.unwrap();
    assert_eq!(app.send(2, "POST", "/claims", Body::empty()).await.quota(), [15, 5, START + 57_600]);
    // The other settings of a budget stay.
    let mut budget = app.bursar.ledger().budget(caller(2).scope()).await.unwrap().unwrap().budget.unwrap();
    budget.thresholds = vec![80];
    app.bursar.ledger().define(caller(2).scope(), budget).await.unwrap();
    app.meter.set_limit(&caller(2), hourly(40)).await.unwrap();
    let known = app.bursar.ledger().budget(caller(2).scope()).await.unwrap().unwrap().budget.unwrap();
    assert_eq!((known.thresholds, known.limits), (vec![80], hourly(40)));
    assert_eq!(app.send(3, "POST", "/claims", Body::empty()).await.quota()[0], 10);
    app.books_are_right().await;
}

async fn a_new_quota_applies_to_callers_without_their_own_limit(url: String) {
    let app = App::open(url, 10).await;
    app.send(1, "POST", "/claims", Body::empty()).await;
    app.meter.set_limit(&caller(2), hourly(12)).await.unwrap();
    app.send(2, "POST", "/claims", Body::empty()).await;
    let quota = |settings: &mut bursar::meter::MeterSettings| settings.quota = hourly(30);
    let other = bursar::meter::Meter::builder(app.bursar.clone()).set(quota).build().unwrap();
    let standing = other.check_and_record(&caller(1), 5).await.unwrap().unwrap();
    assert_eq!((standing.limits[0].limit, standing.limits[0].remaining), (30, 15));
    let standing = other.check_and_record(&caller(2), 2).await.unwrap().unwrap();
    assert_eq!((standing.limits[0].limit, standing.limits[0].remaining), (12, 0));
    app.books_are_right().await;
}

async fn the_quota_resets_at_the_full_hour(url: String) {
    let app = App::open(url, 10).await;
    app.clock.advance(Span::from_secs(3_599));
    assert_eq!(app.send(1, "POST", "/claims", Body::empty()).await.quota(), [10, 0, START + 3_600]);
    let over = app.send(1, "GET", "/other", Body::empty()).await;
    assert_eq!((over.status, over.header("retry-after")), (429, Some("1")));
    app.clock.advance(Span::from_secs(1));
    assert_eq!(app.send(1, "POST", "/claims", Body::empty()).await.quota(), [10, 0, START + 7_200]);
    app.books_are_right().await;
}

async fn a_frozen_quota_admits_nothing(url: String) {
    let app = App::open(url, 100).await;
    app.send(1, "GET", "/other", Body::empty()).await;
    app.bursar.ledger().freeze(caller(1).scope()).await.unwrap();
    let frozen = app.send(1, "GET", "/other", Body::empty()).await;
    assert_eq!((frozen.status, frozen.header("retry-after")), (429, None));
    assert_eq!(frozen.json()["violations"][0]["kind"], "frozen");
    app.bursar.ledger().unfreeze(caller(1).scope()).await.unwrap();
    assert_eq!(app.send(1, "GET", "/other", Body::empty()).await.status, 200);
    app.books_are_right().await;
}

async fn each_tenant_has_its_own_quotas(url: String) {
    let app = App::open(url, 10).await;
    let other = app.meter.in_context(Context::of(Tenant::new("other").unwrap()));
    assert_eq!(app.meter.check_and_record(&caller(1), 10).await.unwrap().unwrap().limits[0].remaining, 0);
    assert_eq!(other.check_and_record(&caller(1), 10).await.unwrap().unwrap().limits[0].remaining, 0);
    let exceeded = other.check_and_record(&caller(1), 1).await.unwrap().unwrap_err();
    assert_eq!(
        exceeded.to_string(),
        "quota exceeded; nothing was charged; 0 of 10 (hour@UTC) are left, the request costs 1; retry in about 3600 s (an estimate)"
    );
    app.books_are_right().await;
}
