//! What people read and write: durations, windows and units as text, warnings, hints, pages that explain problems.

use bursar_server::wire::problem::{Kind, problem_table};
use serde_json::{Value, json};

use crate::client::{request, send};
use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(
    durations_and_windows_may_be_text,
    a_hold_with_a_changed_time_to_live_says_so,
    a_refusal_says_what_helps_and_when,
    a_child_counts_what_its_parent_counts,
    a_budget_is_removed_unless_it_is_in_use,
);

async fn durations_and_windows_may_be_text(server: TestServer) {
    let body = json!({
        "unit": "usd", "hold": { "ttl_max": "2h", "ttl": "10m" },
        "limits": [{ "amount": 25_000_000, "window": "month@Europe/Berlin" }, { "amount": 9, "window": "bucket:2/s" },
                   { "amount": 5, "window": "rolling", "length": "1h30m" }],
    });
    let made = server.call("PUT", "/v1/budgets/room", body).await.is(200);
    let tag = made.header("etag").unwrap().to_owned();
    let made = made.json();
    assert_eq!(made["limits"][0], json!({ "amount": 25_000_000, "window": "month", "zone": "Europe/Berlin" }));
    assert_eq!(made["limits"][1], json!({ "amount": 9, "window": "bucket", "refill": 2, "length_ms": 1_000 }));
    assert_eq!(made["limits"][2], json!({ "amount": 5, "window": "rolling", "length_ms": 5_400_000 }));
    assert_eq!((&made["hold"]["ttl_ms_max"], &made["hold"]["ttl_ms"]), (&json!(7_200_000), &json!(600_000)));
    assert_eq!((&made["unit_symbol"], &made["unit_decimals"]), (&json!("$"), &json!(6)));
    let windows: Vec<_> =
        made["balances"].as_array().unwrap().iter().map(|balance| balance["window"].clone()).collect();
    assert_eq!(windows, ["month", "bucket", "rolling", "lifetime"], "the balance without a limit comes last");

    let again = server.call("PUT", "/v1/budgets/room", made.clone()).await.is(200);
    assert_eq!(again.header("etag"), Some(tag.as_str()), "an answer that is sent back changes nothing");

    let charges = json!([{ "scope": "room", "amount": 1 }]);
    server.call("POST", "/v1/holds", json!({ "charges": charges, "ttl": "10m" })).await.is(201);
    for (body, field, words) in [
        (json!({ "charges": charges, "ttl": "10m", "ttl_ms": 5 }), "ttl", "only one of them may be given"),
        (json!({ "charges": charges, "ttl": "10" }), "ttl", "has no unit: write 10s"),
        (json!({ "charges": charges, "ttl": 10 }), "ttl", "10 has no unit"),
        (json!({ "charges": [{ "scope": "room", "amount": 1.5 }] }), "charges[0].amount", "expected a whole number"),
    ] {
        let refused = server.call("POST", "/v1/holds", body.clone()).await.is(400);
        assert_eq!(refused.problem(), "invalid");
        let problem = refused.json();
        assert_eq!(problem["field"], field, "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{body}: {problem}");
    }
    let queue = json!({ "lease": "1m30s", "retry": { "backoff": "list", "delays": ["1s", "1m"] }, "rate": { "amount": 5, "per": "1m" } });
    let queue = server.call("PUT", "/v1/queues/media", queue).await.is(200).json();
    assert_eq!((&queue["lease_ms"], &queue["retry"]["delays_ms"]), (&json!(90_000), &json!([1_000, 60_000])));
    assert_eq!(queue["rate"]["per_ms"], 60_000);
    let schedule = json!({ "cron": "@daily", "queue": "media", "kind": "clean", "delay": "5m" });
    let schedule = server.call("PUT", "/v1/schedules/nightly", schedule).await.is(200).json();
    assert_eq!(schedule["delay_ms"], 300_000);
    server.call("POST", "/v1/keys", json!({ "name": "k", "role": "user", "expires_in": "7d" })).await.is(201);
    server.call("POST", "/v1/grants", json!({ "purpose": "p", "subject": "s", "ttl": "1h" })).await.is(201);
    let neither = server.call("POST", "/v1/grants", json!({ "purpose": "p", "subject": "s" })).await.is(400);
    assert_eq!(neither.json()["field"], "ttl_ms");
    server.stop().await;
}

async fn a_hold_with_a_changed_time_to_live_says_so(server: TestServer) {
    let body = json!({ "limits": [{ "amount": 100, "window": "lifetime" }], "hold": { "life_max": "2h" } });
    server.call("PUT", "/v1/budgets/room", body).await.is(200);
    let hold = |ttl: &str| json!({ "charges": [{ "scope": "room", "amount": 1 }], "ttl": ttl });
    let key = [("Idempotency-Key", "k-1")];
    for replayed in [false, true] {
        let placed = server.call_with(OPERATOR, &key, "POST", "/v1/holds", hold("1d")).await.is(201).json();
        assert_eq!((&placed["replayed"], &placed["warnings"]), (&json!(replayed), &json!(["ttl_lowered"])));
        assert_eq!(placed["hold"]["clamped"], json!({ "requested_ms": 86_400_000, "granted_ms": 3_600_000 }));
    }
    let raised = server.call("POST", "/v1/holds", hold("1s")).await.is(201).json();
    assert_eq!(raised["warnings"], json!(["ttl_raised"]));
    let plain = server.call("POST", "/v1/holds", hold("1h")).await.is(201).json();
    assert_eq!((&plain["warnings"], plain["hold"].get("clamped")), (&json!([]), None));
    let path = format!("/v1/holds/{}/extend", plain["hold"]["id"].as_str().unwrap());
    let extended = server.call("POST", &path, json!({ "by": "1d" })).await.is(200).json();
    assert_eq!(
        (&extended["warnings"], &extended["clamped"]["granted_ms"]),
        (&json!(["ttl_lowered"]), &json!(3_600_000))
    );
    server.stop().await;
}

async fn a_child_counts_what_its_parent_counts(server: TestServer) {
    let body = |unit: &str, parent: Value| json!({ "unit": unit, "parent": parent, "limits": [{ "amount": 10, "window": "day" }] });
    server.call("PUT", "/v1/budgets/org", body("usd", Value::Null)).await.is(200);
    for unit in ["tokens", "eur"] {
        let refused = server.call("PUT", "/v1/budgets/team", body(unit, json!("org"))).await.is(400).json();
        assert_eq!(refused["field"], "unit");
        assert!(refused["detail"].as_str().unwrap().contains("the parent org counts usd with 6 decimals"), "{refused}");
    }
    for unit in ["usd", "USD", ""] {
        server.call("PUT", "/v1/budgets/team", body(unit, json!("org"))).await.is(200);
    }
    server.stop().await;
}

async fn a_refusal_says_what_helps_and_when(server: TestServer) {
    let body = json!({ "limits": [{ "amount": 10, "window": "bucket:1/h" }] });
    server.call("PUT", "/v1/budgets/room", body).await.is(200);
    let post = |scope: &str, amount: i64| json!({ "charges": [{ "scope": scope, "amount": amount }] });
    server.call("POST", "/v1/commands", post("room", 8)).await.is(201);
    let refused = server.call("POST", "/v1/commands", post("room", 5)).await.is(409);
    assert_eq!(refused.problem(), "refused");
    let problem = refused.json();
    let wait = problem["retry_after_ms"].as_i64().unwrap();
    assert!((10_700_000..=10_800_000).contains(&wait), "three tokens take three hours: {wait}");
    let seconds: i64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(seconds, (wait + 999) / 1_000, "rounded up");
    let hint = "nothing was changed; request at most 2, wait about 3 h (an estimate), or raise the limit with PUT /v1/budgets/room, which replaces the whole budget";
    assert_eq!(problem["hint"], hint);
    let never = server.call("POST", "/v1/commands", post("room", 11)).await.is(409);
    assert_eq!((never.header("retry-after"), never.json().get("retry_after_ms")), (None, None), "time does not help");
    let unknown = server.call("POST", "/v1/commands", post("no where", 1)).await.is(404);
    assert_eq!(unknown.problem(), "unknown-scope");
    assert_eq!(unknown.json()["scope"], "no where");
    let hint = "nothing was changed; define a budget with PUT /v1/budgets/no%20where, or give limits with the charge";
    assert_eq!(unknown.json()["hint"], hint);
    let read = server.call("GET", "/v1/budgets/nowhere", Value::Null).await.is(404);
    assert_eq!(read.problem(), "unknown-scope", "the same kind when it is read");
    server.stop().await;
}

async fn a_budget_is_removed_unless_it_is_in_use(server: TestServer) {
    let limits = json!([{ "amount": 100, "window": "lifetime" }]);
    let org = server.call("PUT", "/v1/budgets/org", json!({ "limits": limits })).await.is(200);
    let tag = org.header("etag").unwrap().to_owned();
    server.call("PUT", "/v1/budgets/team", json!({ "limits": limits, "parent": "org" })).await.is(200);
    let parent = server.call("DELETE", "/v1/budgets/org", Value::Null).await.is(409);
    assert_eq!(parent.problem(), "conflict");
    assert!(parent.json()["detail"].as_str().unwrap().contains("1 budget below it"), "{parent:?}");
    let placed = json!({ "charges": [{ "scope": "team", "amount": 4 }], "ttl": "1h" });
    let placed = server.call("POST", "/v1/holds", placed).await.is(201).json();
    let held = server.call("DELETE", "/v1/budgets/team", Value::Null).await.is(409);
    assert!(held.json()["detail"].as_str().unwrap().contains("4 held"), "{held:?}");
    let release = format!("/v1/holds/{}/release", placed["hold"]["id"].as_str().unwrap());
    server.call("POST", &release, Value::Null).await.is(200);
    let other = [("If-Match", "\"00000000000000000000000000000000\"")];
    server.call_with(OPERATOR, &other, "DELETE", "/v1/budgets/team", Value::Null).await.is(412);
    let key = [("Idempotency-Key", "remove-1")];
    for replayed in [None, Some("true")] {
        let path = "/v1/budgets/team?reason=merged";
        let removed = server.call_with(OPERATOR, &key, "DELETE", path, Value::Null).await.is(204);
        assert_eq!(removed.header("idempotent-replayed"), replayed);
    }
    let left = server.call("GET", "/v1/budgets/team", Value::Null).await.is(200).json();
    assert!(left.get("limits").is_none(), "only its history is left: {left}");
    let history = server.call("GET", "/v1/budgets/team/history?limit=1", Value::Null).await.is(200).json();
    assert_eq!(history["items"][0]["kind"], "budget.removed");
    let gone = server.call("DELETE", "/v1/budgets/team", Value::Null).await.is(404);
    assert_eq!(gone.problem(), "unknown-scope");
    let seen = [("If-Match", tag.as_str())];
    server.call_with(OPERATOR, &seen, "DELETE", "/v1/budgets/org", Value::Null).await.is(204);
    server.stop().await;
}

#[tokio::test]
async fn every_problem_type_has_a_page() {
    let server = TestServer::sqlite().await;
    let get = async |path: &str, accept: &[(&str, &str)]| {
        send(server.address, request("GET", path, accept, None).as_bytes()).await
    };
    for kind in Kind::ALL {
        let path = format!("/problems/{}", kind.word());
        let text = get(&path, &[("Accept", "*/*")]).await.is(200);
        assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
        for part in [kind.title(), &kind.status().to_string(), kind.word(), "Typical cause: ", "\"detail\": "] {
            assert!(text.text.contains(part), "{path} lacks {part:?}:\n{}", text.text);
        }
        let html = get(&path, &[("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")]).await.is(200);
        assert_eq!(html.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(html.text.starts_with("<!doctype html>") && !html.text.contains("{{"), "{}", html.text);
    }
    let unknown = get("/problems/nothing", &[]).await.is(404);
    assert_eq!(unknown.problem(), "not-found");
    server.stop().await;
}

#[test]
fn the_documentation_has_the_table_of_problems() {
    let page = include_str!("../../../../docs/server.md");
    assert!(page.contains(&problem_table()), "put this table into docs/server.md:\n{}", problem_table());
}
