//! What answers teach a caller who does not know the API yet: paths of fields, units, warnings, suggestions.

use serde_json::{Value, json};

use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(
    an_answer_that_is_changed_and_sent_back_is_accepted,
    a_problem_names_the_path_of_the_field_as_it_was_written,
    a_job_that_spends_more_than_its_hold_says_so,
    one_job_settles_a_hold,
    balances_violations_and_credits_carry_their_unit_and_warnings,
    unknown_names_are_not_found_and_the_nearest_is_suggested,
    periods_are_written_alike_everywhere,
    a_dry_run_has_no_ids,
    a_job_lists_what_can_be_done_with_it,
    roles_of_keys_are_listed_once,
);

fn budget(amount: i64) -> Value {
    json!({ "unit": "usd", "limits": [{ "amount": amount, "window": "lifetime" }] })
}

async fn an_answer_that_is_changed_and_sent_back_is_accepted(server: TestServer) {
    server.call("PUT", "/v1/budgets/room", budget(5_000_000)).await.is(200);
    server.call("POST", "/v1/budgets/room/freeze", json!({})).await.is(200);
    let mut shown = server.call("GET", "/v1/budgets/room", Value::Null).await.is(200).json();
    assert!(shown["freeze"].is_object() && shown["balances"].is_array(), "{shown}");
    shown["limits"][0]["amount"] = 7_000_000.into();
    let changed = server.call("PUT", "/v1/budgets/room", shown.clone()).await.is(200).json();
    assert_eq!((&changed["limits"][0]["amount"], &changed["frozen"]), (&json!(7_000_000), &json!(true)));
    shown["limts"] = json!([]);
    let misspelt = server.call("PUT", "/v1/budgets/room", shown).await.is(400).json();
    assert_eq!(misspelt["field"], "limts");
    assert!(misspelt["detail"].as_str().unwrap().contains("did you mean `limits`?"), "{misspelt}");

    server.call("PUT", "/v1/queues/media", json!({ "concurrency": 2 })).await.is(200);
    let mut queue = server.call("GET", "/v1/queues/media?series=true", Value::Null).await.is(200).json();
    queue["concurrency"] = 3.into();
    assert_eq!(server.call("PUT", "/v1/queues/media", queue).await.is(200).json()["concurrency"], 3);
    let schedule = json!({ "cron": "@daily", "queue": "media", "kind": "clean" });
    server.call("PUT", "/v1/schedules/nightly", schedule).await.is(200);
    let mut schedule = server.call("GET", "/v1/schedules/nightly", Value::Null).await.is(200).json();
    schedule["kind"] = "tidy".into();
    assert_eq!(server.call("PUT", "/v1/schedules/nightly", schedule).await.is(200).json()["kind"], "tidy");
    server.stop().await;
}

async fn a_problem_names_the_path_of_the_field_as_it_was_written(server: TestServer) {
    server.call("PUT", "/v1/budgets/room", budget(5_000_000)).await.is(200);
    let good = json!({ "scope": "room", "amount": 1 });
    let job = json!({ "queue": "q", "kind": "k" });
    for (path, body, field, words) in [
        (
            "/v1/commands",
            json!({ "charges": [good, { "scope": "room", "amount": -1 }] }),
            "charges[1].amount",
            "negative",
        ),
        (
            "/v1/commands",
            json!({ "charges": [{ "scope": "room", "amount": 0.5 }] }),
            "charges[0].amount",
            "$0.50 is 500000",
        ),
        (
            "/v1/commands",
            json!({ "charges": [{ "scope": "room", "amount": "$1" }] }),
            "charges[0].amount",
            "$0.50 is 500000",
        ),
        (
            "/v1/commands",
            json!({ "charges": [{ "scope": "room", "amount": 1, "limits": [{ "amount": 1, "window": "soon" }] }] }),
            "charges[0].limits[0].window",
            "is not one of",
        ),
        (
            "/v1/commands",
            json!({ "jobs": [job, { "queue": "q", "kind": "k", "priority": 9999 }] }),
            "jobs[1].priority",
            "from -",
        ),
        (
            "/v1/commands",
            json!({ "jobs": [{ "queue": "q", "kind": "k", "delay": "9999d" }] }),
            "jobs[0].delay",
            "is above",
        ),
        ("/v1/jobs", json!({ "queue": "q", "kind": "k", "priority": 9999 }), "priority", "from -"),
        (
            "/v1/jobs/bulk",
            json!({ "jobs": [job, { "queue": "q", "kind": "k", "delay_ms": -1 }] }),
            "jobs[1].delay_ms",
            "negative",
        ),
        ("/v1/grants", json!({ "purpose": "p", "subject": "s", "ttl": "9999d" }), "ttl", "at most"),
        ("/v1/grants", json!({ "purpose": "p", "subject": "s", "ttl_ms": 0 }), "ttl_ms", "at least"),
        ("/v1/grants", json!({ "purpose": "p", "subject": "s" }), "ttl_ms", "or `ttl`, as text"),
        ("/v1/holds", json!({ "charges": [good], "ttll": "1m" }), "ttll", "`ttl_ms` or `ttl`"),
    ] {
        let problem = server.call("POST", path, body.clone()).await.is(400).json();
        assert_eq!(problem["field"], field, "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{body}: {problem}");
    }
    for (path, field) in [
        ("/v1/jobs?limit=many", "limit"),
        ("/v1/jobs?limt=1", "limt"),
        ("/v1/budgets/room/spent?from=yesterday", "from"),
        ("/v1/costs?from=2026-11-01&to=soon", "to"),
    ] {
        let problem = server.call("GET", path, Value::Null).await.is(400).json();
        assert_eq!(problem["field"], field, "{path}: {problem}");
    }
    server.stop().await;
}

async fn a_job_that_spends_more_than_its_hold_says_so(server: TestServer) {
    server.call("PUT", "/v1/budgets/room", budget(100)).await.is(200);
    let order = json!({ "charges": [{ "scope": "room", "amount": 10 }], "settle": "job",
                        "jobs": [{ "queue": "q", "kind": "k" }] });
    for (spent, overrun, warnings) in [(10, 0, json!([])), (13, 3, json!(["overrun"]))] {
        let id = server.call("POST", "/v1/commands", order.clone()).await.is(201).json()["jobs"][0]["id"].clone();
        let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
        let fence = &leased["jobs"][0]["lease"]["fence"];
        let report = json!({ "fence": fence, "usage": [{ "amount": spent }] });
        let path = format!("/v1/jobs/{}/complete", id.as_str().unwrap());
        for _ in ["first", "repeated"] {
            let done = server.call("POST", &path, report.clone()).await.is(200).json();
            assert_eq!((&done["overrun"], &done["warnings"]), (&json!(overrun), &warnings), "{done}");
        }
    }
    // A failed attempt says it too, though the next one has a new hold.
    let id = server.call("POST", "/v1/commands", order).await.is(201).json()["jobs"][0]["id"].clone();
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
    let fence = &leased["jobs"][0]["lease"]["fence"];
    let report =
        json!({ "items": [{ "id": id, "fence": fence, "error": { "kind": "e" }, "usage": [{ "amount": 11 }] }] });
    for _ in ["first", "repeated"] {
        let done = server.call("POST", "/v1/jobs/fail", report.clone()).await.is(200).json();
        assert_eq!(done["items"][0]["overrun"], 1, "{done}");
    }
    server.stop().await;
}

async fn one_job_settles_a_hold(server: TestServer) {
    server.call("PUT", "/v1/budgets/room", budget(100)).await.is(200);
    let jobs = json!([{ "queue": "q", "kind": "image.render" }, { "queue": "q", "kind": "image.notify" }]);
    let order = json!({ "charges": [{ "scope": "room", "amount": 10 }], "settle": "job", "jobs": jobs });
    let refused = server.call("POST", "/v1/commands", order).await.is(400).json();
    assert_eq!(refused["field"], "jobs");
    assert!(refused["detail"].as_str().unwrap().contains("image.render, image.notify"), "{refused}");
    let jobs = server.call("GET", "/v1/jobs", Value::Null).await.is(200).json();
    assert_eq!(jobs["items"], json!([]), "nothing was enqueued");
    server.stop().await;
}

async fn balances_violations_and_credits_carry_their_unit_and_warnings(server: TestServer) {
    let made = server.call("PUT", "/v1/budgets/room", budget(5_000_000)).await.is(200).json();
    let usd = json!({ "name": "usd", "symbol": "$", "decimals": 6 });
    assert_eq!(made["balances"][0]["unit"], usd);
    let charge = |amount: i64| json!({ "charges": [{ "scope": "room", "amount": amount }] });
    let refused = server.call("POST", "/v1/commands", charge(6_000_000)).await.is(409).json();
    assert_eq!(refused["violations"][0]["unit"], usd);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("room has $5.00 left of $5.00 (lifetime), $6.00 requested"), "{detail}");

    server.call("POST", "/v1/commands", charge(1_000_000)).await.is(201);
    let other = json!({ "unit": "tokens", "limits": [{ "amount": 9, "window": "lifetime" }] });
    let relabelled = server.call("PUT", "/v1/budgets/room", other).await.is(409);
    assert_eq!(relabelled.problem(), "conflict");
    assert!(relabelled.json()["detail"].as_str().unwrap().contains("cannot count tokens"), "{relabelled:?}");

    let key = [("Idempotency-Key", "credit-1")];
    for _ in ["first", "replayed"] {
        let body = json!({ "amount": 1_500_000 });
        let credited = server.call_with(OPERATOR, &key, "POST", "/v1/budgets/room/credits", body).await.is(200).json();
        assert_eq!(
            (&credited["warnings"], &credited["excess"], &credited["amount"]),
            (&json!(["credit_exceeds_spend"]), &json!(500_000), &json!(1_500_000)),
            "{credited}"
        );
    }
    server.call("POST", "/v1/commands", charge(1_000_000)).await.is(201);
    let credited = server.call("POST", "/v1/budgets/room/credits", json!({ "amount": 500_000 })).await.is(200).json();
    assert_eq!((&credited["warnings"], &credited["excess"]), (&json!([]), &json!(0)));
    server.stop().await;
}

async fn unknown_names_are_not_found_and_the_nearest_is_suggested(server: TestServer) {
    server.call("PUT", "/v1/budgets/agent:scout", budget(100)).await.is(200);
    server.call("POST", "/v1/jobs", json!({ "queue": "media", "kind": "k" })).await.is(201);
    let charge = json!({ "charges": [{ "scope": "agent:scuot", "amount": 1 }] });
    for (method, path, body, words) in [
        ("GET", "/v1/queues/medai", Value::Null, "there is no queue medai; did you mean media?"),
        ("GET", "/v1/budgets/agent:scuot", Value::Null, "did you mean agent:scout?"),
        ("GET", "/v1/holds?scope=agent:scuot", Value::Null, "did you mean agent:scout?"),
        ("POST", "/v1/commands", charge, "did you mean agent:scout?"),
    ] {
        let problem = server.call(method, path, body).await.is(404).json();
        assert!(problem["detail"].as_str().unwrap().contains(words), "{path}: {problem}");
    }
    let stranger = server.key("globex", "admin").await;
    for path in ["/v1/queues/medai", "/v1/budgets/agent:scuot"] {
        let problem = server.call_as(&stranger, "GET", path, Value::Null).await.is(404).json();
        assert!(!problem["detail"].as_str().unwrap().contains("did you mean"), "names of another tenant: {problem}");
    }
    server.call("GET", "/v1/queues/media", Value::Null).await.is(200);
    server.call("GET", "/v1/queues/m", Value::Null).await.is(404);
    let holds = server.call("GET", "/v1/holds?scope=agent:scout", Value::Null).await.is(200).json();
    assert_eq!(holds["items"], json!([]), "a scope without holds is known");

    let unknown = server.call("GET", "/v1/budgets/nowhere", Value::Null).await.is(404).json();
    let hint = "GET /v1/budgets lists the budgets of the tenant; PUT /v1/budgets/nowhere defines this one";
    assert_eq!(unknown["hint"], hint);
    let hold = json!({ "charges": [{ "scope": "agent:scout", "amount": 1 }], "ttl": "1m" });
    let hold = server.call("POST", "/v1/holds", hold).await.is(201).json()["hold"]["id"].as_str().unwrap().to_owned();
    server.call("POST", &format!("/v1/holds/{hold}/release"), json!({})).await.is(200);
    let settled = server.call("POST", &format!("/v1/holds/{hold}/commit"), json!({})).await.is(409).json();
    assert_eq!((&settled["id"], &settled["state"]), (&json!(hold), &json!("released")));
    assert!(settled["hint"].as_str().unwrap().contains(&format!("GET /v1/holds/{hold} shows")), "{settled}");
    let agent = server.key("default", "agent").await;
    let events = server.call_as(&agent, "GET", "/v1/events", Value::Null).await.is(403).json();
    assert!(events["hint"].as_str().unwrap().contains("?channels=budget:SCOPE"), "{events}");
    let denied = server.call_as(&agent, "PUT", "/v1/budgets/b", budget(1)).await.is(403).json();
    assert!(denied["hint"].as_str().unwrap().contains("GET /v1/whoami"), "{denied}");
    server.stop().await;
}

async fn periods_are_written_alike_everywhere(server: TestServer) {
    server.call("PUT", "/v1/budgets/room", budget(100)).await.is(200);
    server.call("POST", "/v1/commands", json!({ "charges": [{ "scope": "room", "amount": 7 }] })).await.is(201);
    let day = |text: &Value| text.as_str().unwrap()[..10].to_owned();
    let spent = server.call("GET", "/v1/budgets/room/spent", Value::Null).await.is(200).json();
    let today = day(&spent["to"]);
    for from in [today.clone(), format!("{today}T00:00:00Z"), "-1d".to_owned()] {
        let spent =
            server.call("GET", &format!("/v1/budgets/room/spent?from={from}"), Value::Null).await.is(200).json();
        assert_eq!(spent["spent"], 7, "{from}");
        let series = format!("/v1/budgets/room/series?from={from}&to=now&steps=1");
        let series = server.call("GET", &series, Value::Null).await.is(200).json();
        assert_eq!(series["steps"].as_array().unwrap().len(), 1, "{from}");
        server.call("GET", &format!("/v1/costs?from={from}"), Value::Null).await.is(200);
    }
    server.stop().await;
}

async fn a_dry_run_has_no_ids(server: TestServer) {
    server.call("PUT", "/v1/budgets/room", budget(100)).await.is(200);
    let body = json!({ "charges": [{ "scope": "room", "amount": 7 }], "settle": "job", "dry_run": true,
                       "jobs": [{ "queue": "q", "kind": "k" }] });
    let checked = server.call("POST", "/v1/commands", body).await.is(200).json();
    assert_eq!((checked.get("id"), checked["hold"].get("id"), &checked["jobs"]), (None, None, &json!([])), "{checked}");
    assert_eq!(checked["hold"]["charges"][0]["amount"], 7);
    server.stop().await;
}

async fn a_job_lists_what_can_be_done_with_it(server: TestServer) {
    let id = server.call("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201).json()["id"].clone();
    let path = format!("/v1/jobs/{}", id.as_str().unwrap());
    let acts = async || server.call("GET", &path, Value::Null).await.is(200).json()["acts"].clone();
    assert_eq!(acts().await, json!(["cancel"]));
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
    assert_eq!(acts().await, json!(["cancel"]));
    server.call("POST", &format!("{path}/cancel"), json!({})).await.is(200);
    assert_eq!(acts().await, json!([]), "it was told to stop already");
    let report = json!({ "fence": leased["jobs"][0]["lease"]["fence"], "error": { "kind": "e" } });
    server.call("POST", &format!("{path}/fail"), report).await.is(200);
    assert_eq!(acts().await, json!(["retry", "erase"]), "cancelled");
    server.call("POST", &format!("{path}/retry"), json!({})).await.is(200);
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
    let fence = &leased["jobs"][0]["lease"]["fence"];
    let percent = server.call("POST", &format!("{path}/progress"), json!({ "fence": fence, "percent": 150 })).await;
    assert_eq!(percent.is(400).json()["field"], "percent");
    let report = json!({ "fence": fence, "error": { "kind": "e" }, "retryable": false });
    server.call("POST", &format!("{path}/fail"), report).await.is(200);
    assert_eq!(acts().await, json!(["retry", "discard", "erase"]), "dead");
    server.call("POST", &format!("{path}/erase"), json!({})).await.is(200);
    assert_eq!(acts().await, json!(["discard"]), "erased");
    server.stop().await;
}

async fn roles_of_keys_are_listed_once(server: TestServer) {
    for role in ["operator", "worker", "boss"] {
        let refused = server.call("POST", "/v1/keys", json!({ "name": "k", "role": role })).await.is(400).json();
        assert_eq!(refused["field"], "role");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("is not one of admin, user, agent, viewer, monitor"), "{detail}");
    }
    server.stop().await;
}
