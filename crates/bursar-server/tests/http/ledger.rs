//! Budgets, commands, holds and grants.

use serde_json::{Value, json};

use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(
    budgets_are_defined_read_and_listed,
    a_budget_changes_only_if_its_etag_matches,
    commands_hold_redeem_and_enqueue,
    holds_are_settled,
    an_expiry_charges_what_the_hold_says,
    a_retry_with_a_key_has_one_effect,
    grants_are_created_and_revoked
);

fn month(amount: i64) -> Value {
    json!({ "unit": "micro_usd", "limits": [{ "amount": amount, "window": "month", "zone": "Europe/Berlin" }] })
}

async fn budgets_are_defined_read_and_listed(server: TestServer) {
    let made = server.call("PUT", "/v1/budgets/show:42%2Frow:A", month(1_000)).await.is(200).json();
    assert_eq!(made["scope"], "show:42/row:A", "a scope is percent-encoded");
    assert_eq!((&made["frozen"], &made["unit"]), (&json!(false), &json!("micro_usd")));
    let balances = made["balances"].as_array().unwrap();
    let balance = balances.iter().find(|balance| balance["window"] == "month").unwrap();
    assert_eq!((&balance["limit"], &balance["remaining"]), (&json!(1_000), &json!(1_000)));
    for scope in ["room:a", "room:b", "room:c"] {
        server.call("PUT", &format!("/v1/budgets/{scope}"), month(10)).await.is(200);
    }
    let page = server.call("GET", "/v1/budgets?prefix=room:&limit=2", Value::Null).await.is(200).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let next = page["next"].as_str().unwrap();
    let rest = server
        .call("GET", &format!("/v1/budgets?prefix=room:&limit=2&cursor={next}"), Value::Null)
        .await
        .is(200)
        .json();
    assert_eq!((rest["items"][0]["scope"].as_str(), &rest["next"]), (Some("room:c"), &Value::Null));
    server.call("POST", "/v1/budgets/room:a/freeze", json!({ "reason": "audit" })).await.is(200);
    let frozen = server.call("GET", "/v1/budgets/room:a", Value::Null).await.is(200).json();
    assert_eq!((&frozen["frozen"], &frozen["freeze"]["reason"]), (&json!(true), &json!("audit")));
    let refused =
        server.call("POST", "/v1/holds", json!({ "charges": [{ "scope": "room:a", "amount": 1 }] })).await.is(409);
    assert_eq!((refused.problem().as_str(), &refused.json()["violations"][0]["kind"]), ("refused", &json!("frozen")));
    server.call("POST", "/v1/budgets/room:a/unfreeze", Value::Null).await.is(200);
    server.call("POST", "/v1/commands", json!({ "charges": [{ "scope": "room:a", "amount": 7 }] })).await.is(201);
    let spent = server.call("GET", "/v1/budgets/room:a/spent", Value::Null).await.is(200).json();
    assert_eq!(spent["spent"], 7);
    let credit =
        server.call("POST", "/v1/budgets/room:a/credits", json!({ "amount": 2, "reason": "refund" })).await.is(200);
    assert_eq!(credit.json()["scope"], "room:a");
    let history = server.call("GET", "/v1/budgets/room:a/history?limit=2", Value::Null).await.is(200).json();
    let kinds = |page: &Value| page["items"].as_array().unwrap().iter().map(|e| e["kind"].clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&history), ["spend.credited", "spend.posted"]);
    let next = history["next"].as_str().unwrap();
    let older =
        server.call("GET", &format!("/v1/budgets/room:a/history?limit=10&cursor={next}"), Value::Null).await.is(200);
    assert_eq!(kinds(&older.json()), ["budget.unfrozen", "budget.frozen", "budget.defined"]);
    assert_eq!(server.call("GET", "/v1/budgets/none", Value::Null).await.is(404).problem(), "unknown-scope");
    let wrong = server
        .call("PUT", "/v1/budgets/x", json!({ "limits": [{ "amount": 1, "window": "fortnight" }] }))
        .await
        .is(400);
    assert_eq!((wrong.problem().as_str(), &wrong.json()["field"]), ("invalid", &json!("limits[0].window")));
    let own = server.call("PUT", "/v1/budgets/bursar:slots:x", month(1)).await.is(400);
    assert_eq!(own.problem(), "invalid");
    server.stop().await;
}

async fn a_budget_changes_only_if_its_etag_matches(server: TestServer) {
    let made = server.call("PUT", "/v1/budgets/room", month(10)).await.is(200);
    let tag = made.header("etag").unwrap().to_owned();
    let read = server.call("GET", "/v1/budgets/room", Value::Null).await.is(200);
    assert_eq!(read.header("etag"), Some(tag.as_str()));
    // Spending does not change the ETag of the definition.
    server.call("POST", "/v1/commands", json!({ "charges": [{ "scope": "room", "amount": 1 }] })).await.is(201);
    let seen = [("If-Match", tag.as_str())];
    server.call_with(OPERATOR, &seen, "PUT", "/v1/budgets/room", month(20)).await.is(200);
    let late = server.call_with(OPERATOR, &seen, "PUT", "/v1/budgets/room", month(30)).await.is(412);
    assert_eq!(late.problem(), "changed");
    let now = server.call("GET", "/v1/budgets/room", Value::Null).await.json();
    assert_eq!(now["limits"][0]["amount"], 20);
    for bad in ["\"*\"", "W/\"1\"", "\"xyz\"", "1"] {
        let answer =
            server.call_with(OPERATOR, &[("If-Match", bad)], "PUT", "/v1/budgets/room", month(1)).await.is(400);
        assert_eq!(answer.problem(), "invalid", "{bad}");
    }
    server.stop().await;
}

async fn commands_hold_redeem_and_enqueue(server: TestServer) {
    server.call("PUT", "/v1/budgets/room", month(100)).await.is(200);
    let grant = json!({ "purpose": "upload", "subject": "s-7", "payload": { "assetId": "a-1" }, "ttl_ms": 60_000 });
    let token = server.call("POST", "/v1/grants", grant).await.is(201).json()["token"].as_str().unwrap().to_owned();
    let body = json!({
        "charges": [{ "scope": "room", "amount": 60 }], "settle": "job",
        "redeem": [{ "purpose": "upload", "subject": "s-7", "token": token }],
        "jobs": [{ "queue": "media", "kind": "video", "payload_from_grant": true }],
        "context": { "correlation_id": "c-1", "reason": "demo" },
    });
    let dry = {
        let mut dry = body.clone();
        dry["dry_run"] = json!(true);
        dry
    };
    let tried = server.call("POST", "/v1/commands", dry).await.is(200);
    assert!(tried.header("location").is_none() && tried.json()["dry_run"] == true);
    let done = server.call("POST", "/v1/commands", body.clone()).await.is(201);
    let answer = done.json();
    assert_eq!(answer["hold"]["state"], "held");
    assert_eq!(answer["hold"]["charges"][0]["balances"][0]["remaining"], 40);
    assert_eq!(answer["grants"][0]["payload"]["assetId"], "a-1");
    let location = done.header("location").unwrap();
    assert_eq!(location, format!("/v1/commands/{}", answer["id"].as_str().unwrap()));
    let again = server.call("GET", location, Value::Null).await.is(200).json();
    assert_eq!(again, answer, "a command can be read again");
    let job = server
        .call("GET", &format!("/v1/jobs/{}", answer["jobs"][0]["id"].as_str().unwrap()), Value::Null)
        .await
        .is(200);
    assert_eq!(job.json()["payload"]["assetId"], "a-1");
    let used = server.call("POST", "/v1/commands", body).await.is(409);
    let problem = used.json();
    assert_eq!(used.problem(), "refused");
    let kinds: Vec<&str> =
        problem["violations"].as_array().unwrap().iter().map(|v| v["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["limit", "grant"], "all violations are listed");
    assert_eq!(problem["violations"][0]["available"], 40);
    let unknown =
        server.call("POST", "/v1/commands", json!({ "charges": [{ "scope": "else", "amount": 1 }] })).await.is(404);
    assert_eq!(unknown.problem(), "unknown-scope");
    let empty = server.call("POST", "/v1/commands", json!({})).await.is(400);
    assert_eq!(empty.problem(), "invalid");
    let none = server.call("GET", &format!("/v1/commands/cmd_{}", "0".repeat(26)), Value::Null).await.is(404);
    assert_eq!(none.problem(), "not-found");
    server.stop().await;
}

async fn holds_are_settled(server: TestServer) {
    server.call("PUT", "/v1/budgets/room", month(100)).await.is(200);
    let place = |amount: i64| json!({ "charges": [{ "scope": "room", "amount": amount }], "ttl_ms": 60_000 });
    let placed = server.call("POST", "/v1/holds", place(50)).await.is(201);
    let path = placed.header("location").unwrap().to_owned();
    let held = server.call("GET", &path, Value::Null).await.is(200).json();
    assert_eq!((&held["state"], &held["charges"][0]["amount"]), (&json!("held"), &json!(50)));
    let listed = server.call("GET", "/v1/holds?scope=room&state=held", Value::Null).await.is(200).json();
    assert_eq!(listed["items"][0]["id"], held["id"]);
    let longer = server.call("POST", &format!("{path}/extend"), json!({ "by_ms": 30_000 })).await.is(200).json();
    assert!(longer["expires_at"].as_str() > held["expires_at"].as_str());
    let settled = server.call("POST", &format!("{path}/commit"), json!({ "actual": 42 })).await.is(200).json();
    assert_eq!(
        (&settled["state"], &settled["late"], &settled["warnings"]),
        (&json!("committed"), &json!(false), &json!([]))
    );
    let twice = server.call("POST", &format!("{path}/release"), json!({})).await.is(409);
    assert_eq!((twice.problem().as_str(), &twice.json()["state"]), ("already-settled", &json!("committed")));
    let too_much = server.call("POST", "/v1/holds", place(59)).await.is(409);
    assert_eq!(too_much.json()["violations"][0]["available"], 58);
    let other = server.call("POST", "/v1/holds", place(58)).await.is(201).header("location").unwrap().to_owned();
    let released =
        server.call("POST", &format!("{other}/release"), json!({ "reason": "not needed" })).await.is(200).json();
    assert_eq!(released["state"], "released");
    let both = server
        .call("POST", &format!("{other}/commit"), json!({ "actual": 1, "actuals": [{ "scope": "room", "amount": 1 }] }))
        .await;
    assert_eq!(both.is(400).problem(), "invalid");
    let digits = "0".repeat(26);
    assert_eq!(
        server.call("GET", &format!("/v1/holds/hold_{digits}"), Value::Null).await.is(404).problem(),
        "not-found"
    );
    assert_eq!(server.call("GET", "/v1/holds/nonsense", Value::Null).await.is(400).problem(), "invalid");
    assert_eq!(server.call("GET", "/v1/holds", Value::Null).await.is(400).json()["field"], "scope");
    server.stop().await;
}

async fn an_expiry_charges_what_the_hold_says(server: TestServer) {
    let charges = json!([{ "scope": "room", "amount": 60, "limits": [{ "amount": 100, "window": "lifetime" }] }]);
    let hold = |charge: i64| json!({ "charges": charges, "ttl_ms": 1, "on_expiry": { "charge": charge } });
    let wrong = server.call("POST", "/v1/holds", hold(61)).await.is(400).json();
    assert_eq!(wrong["field"], "on_expiry.charge");
    let command = json!({ "charges": charges, "settle": "now", "on_expiry": { "charge": 1 } });
    assert_eq!(server.call("POST", "/v1/commands", command).await.is(400).json()["field"], "on_expiry");
    let unknown = json!({ "charges": charges, "on_expiry": { "charge": 1, "when": "soon" } });
    assert_eq!(server.call("POST", "/v1/holds", unknown).await.is(400).json()["field"], "on_expiry.when");
    let placed = server.call("POST", "/v1/holds", hold(40)).await.is(201).json();
    let path = format!("/v1/holds/{}", placed["hold"]["id"].as_str().unwrap());
    let expiry = async {
        loop {
            let read = server.call("GET", &path, Value::Null).await.is(200).json();
            if read["state"] == "expired" {
                return read;
            }
        }
    };
    let expired = tokio::time::timeout(std::time::Duration::from_secs(60), expiry).await.expect("it expires");
    assert_eq!(expired["on_expiry"], json!({ "charge": 40 }));
    let spent =
        async || server.call("GET", "/v1/budgets/room/spent", Value::Null).await.is(200).json()["spent"].clone();
    assert_eq!(spent().await, 40);
    assert_eq!(server.call("POST", &format!("{path}/release"), json!({})).await.is(409).problem(), "already-settled");
    assert_eq!(spent().await, 40);
    let late = server.call("POST", &format!("{path}/commit"), json!({ "actual": 45 })).await.is(200).json();
    assert_eq!(late["warnings"], json!(["committed_after_expiry"]));
    assert_eq!(spent().await, 45);
    server.stop().await;
}

async fn a_retry_with_a_key_has_one_effect(server: TestServer) {
    server.call("PUT", "/v1/budgets/room", month(100)).await.is(200);
    let key = [("Idempotency-Key", "k-1")];
    let spend = |amount: i64| json!({ "charges": [{ "scope": "room", "amount": amount }] });
    let first = server.call_with(OPERATOR, &key, "POST", "/v1/commands", spend(10)).await.is(201);
    assert_eq!(first.header("idempotent-replayed"), None);
    let second = server.call_with(OPERATOR, &key, "POST", "/v1/commands", spend(10)).await.is(201);
    assert_eq!((second.header("idempotent-replayed"), second.json()["replayed"].as_bool()), (Some("true"), Some(true)));
    assert_eq!(first.json()["id"], second.json()["id"]);
    let other = server.call_with(OPERATOR, &key, "POST", "/v1/commands", spend(11)).await.is(409);
    assert_eq!(other.problem(), "conflict");
    assert_eq!(server.call("GET", "/v1/budgets/room/spent", Value::Null).await.json()["spent"], 10);
    // A replay does not return the token again.
    let grant = json!({ "purpose": "p", "subject": "s", "ttl_ms": 60_000 });
    let key = [("Idempotency-Key", "k-2")];
    let minted = server.call_with(OPERATOR, &key, "POST", "/v1/grants", grant.clone()).await.is(201).json();
    let again = server.call_with(OPERATOR, &key, "POST", "/v1/grants", grant).await.is(201).json();
    assert_eq!((&minted["id"], minted["token"].is_string(), again["token"].is_null()), (&again["id"], true, true));
    // Running a schedule twice with the same key enqueues one job.
    let schedule = json!({ "cron": "@yearly", "queue": "q", "kind": "k" });
    server.call_with(OPERATOR, &[("Idempotency-Key", "k-3")], "PUT", "/v1/schedules/s", schedule).await.is(200);
    let key = [("Idempotency-Key", "k-4")];
    let ran = server.call_with(OPERATOR, &key, "POST", "/v1/schedules/s/run", Value::Null).await.is(201).json();
    let again = server.call_with(OPERATOR, &key, "POST", "/v1/schedules/s/run", Value::Null).await.is(201).json();
    assert_eq!(ran["id"], again["id"]);
    let twice = server.call_with(
        OPERATOR,
        &[("Idempotency-Key", "a"), ("Idempotency-Key", "b")],
        "POST",
        "/v1/commands",
        spend(1),
    );
    assert_eq!(twice.await.is(400).json()["field"], "idempotency-key");
    server.stop().await;
}

async fn grants_are_created_and_revoked(server: TestServer) {
    let grant = json!({ "purpose": "upload", "subject": "s", "ttl_ms": 60_000 });
    let made = server.call("POST", "/v1/grants", grant).await.is(201);
    let path = made.header("location").unwrap().to_owned();
    // Worker tokens and API keys are not listed as grants.
    server.key("default", "user").await;
    let listed = server.call("GET", "/v1/grants", Value::Null).await.is(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!((&listed["items"][0]["state"], &listed["next"]), (&json!("open"), &Value::Null));
    assert!(listed["items"][0].get("token").is_none() && listed["items"][0].get("digest").is_none());
    server.call("DELETE", &path, Value::Null).await.is(204);
    assert_eq!(server.call("GET", "/v1/grants", Value::Null).await.json()["items"][0]["state"], "revoked");
    let reserved = json!({ "purpose": "bursar:operator", "subject": "s", "ttl_ms": 60_000 });
    let refused = server.call("POST", "/v1/grants", reserved).await.is(400);
    assert_eq!(refused.json()["field"], "purpose", "the purpose of operator tokens is reserved");
    let key = server.call("GET", "/v1/keys", Value::Null).await.json()["items"][0]["id"].as_str().unwrap().to_owned();
    let hidden = key.replace("key_", "grant_");
    assert_eq!(
        server.call("DELETE", &format!("/v1/grants/{hidden}"), Value::Null).await.is(404).problem(),
        "not-found"
    );
    server.stop().await;
}
