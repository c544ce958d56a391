//! Tenants are apart: what one has, the other does not see.

use serde_json::{Value, json};

use crate::home::{Home, OPERATOR, on_both};

on_both!(nothing_of_a_tenant_is_seen_by_another);

async fn nothing_of_a_tenant_is_seen_by_another(home: Home) {
    let (ours, theirs) = (home.key("acme", "admin").await, home.key("globex", "admin").await);
    let limit = json!({ "limits": [{ "amount": 100, "window": "lifetime" }] });
    let make = async |method: &str, path: &str, body: Value| {
        let made = home.ask_as(&ours, method, path, body).await;
        assert!(made.status < 300, "{method} {path}: {made:?}");
        made
    };
    let at = |made: crate::client::Answer| made.header("location").unwrap().to_owned();
    make("PUT", "/v1/budgets/room", limit).await;
    let hold = at(make("POST", "/v1/holds", json!({ "charges": [{ "scope": "room", "amount": 1 }] })).await);
    let command = at(make("POST", "/v1/commands", json!({ "charges": [{ "scope": "room", "amount": 1 }] })).await);
    let job = at(make("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await);
    let grant = at(make("POST", "/v1/grants", json!({ "purpose": "p", "subject": "s", "ttl_ms": 60_000 })).await);
    make("PUT", "/v1/schedules/s", json!({ "cron": "@yearly", "queue": "q", "kind": "k" })).await;
    let worker = at(make("POST", "/v1/workers", json!({ "name": "w" })).await);
    let key = at(make("POST", "/v1/keys", json!({ "name": "k", "role": "user" })).await);
    for path in ["/v1/budgets/room", &hold, &command, &job, "/v1/schedules/s", &worker, &key, &format!("{job}/events")]
    {
        home.ask_as(&ours, "GET", path, Value::Null).await.is(200);
        let other = home.ask_as(&theirs, "GET", path, Value::Null).await.is(404);
        assert_eq!(other.problem(), "not-found", "{path}");
        home.ask_with(OPERATOR, &[("Bursar-Tenant", "acme")], "GET", path, Value::Null).await.is(200);
        home.ask("GET", path, Value::Null).await.is(404);
    }
    for (method, path, body) in [
        ("POST", format!("{hold}/commit"), json!({})),
        ("POST", format!("{hold}/release"), json!({})),
        ("POST", format!("{hold}/extend"), json!({ "by_ms": 1 })),
        ("POST", format!("{job}/cancel"), json!({})),
        ("POST", format!("{job}/complete"), json!({ "fence": 1 })),
        ("POST", format!("{job}/heartbeat"), json!({ "fence": 1 })),
        ("DELETE", grant.clone(), Value::Null),
        ("DELETE", "/v1/schedules/s".into(), Value::Null),
        ("POST", "/v1/schedules/s/run".into(), json!({})),
        ("DELETE", worker.clone(), Value::Null),
        ("POST", format!("{worker}/rotate"), json!({})),
        ("DELETE", key.clone(), Value::Null),
    ] {
        let other = home.ask_as(&theirs, method, &path, body).await.is(404);
        assert_eq!(other.problem(), "not-found", "{method} {path}");
        assert!(!other.text.contains("acme"), "no name of the other: {}", other.text);
    }
    for path in [
        "/v1/budgets",
        "/v1/jobs",
        "/v1/queues",
        "/v1/grants",
        "/v1/schedules",
        "/v1/workers",
        "/v1/dead",
        "/v1/holds?scope=room",
    ] {
        let listed = home.ask_as(&theirs, "GET", path, Value::Null).await.is(200).json();
        assert_eq!(listed["items"], json!([]), "{path}");
    }
    let leased = home.ask_as(&theirs, "POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
    assert_eq!(leased["jobs"], json!([]));
    let journal = home.ask_as(&theirs, "GET", "/v1/journal?limit=1000", Value::Null).await.is(200).json();
    let seen = journal["items"].as_array().unwrap();
    assert!(seen.iter().all(|event| event["tenant"] == "globex"), "{seen:?}");
    let events = home
        .ask_as(
            &theirs,
            "GET",
            &format!("/v1/events?channels=job:{}", job.trim_start_matches("/v1/jobs/")),
            Value::Null,
        )
        .await;
    assert_eq!(events.is(404).problem(), "not-found", "a channel of another is not there");
    // The same names are their own.
    home.ask_as(&theirs, "PUT", "/v1/budgets/room", json!({ "limits": [{ "amount": 1, "window": "lifetime" }] }))
        .await
        .is(200);
    let own = home.ask_as(&ours, "GET", "/v1/budgets/room", Value::Null).await.json();
    assert_eq!(own["limits"][0]["amount"], 100);
    home.stop().await;
}
