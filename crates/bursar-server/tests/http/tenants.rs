//! Isolation of tenants: resources, lists, journal and leases of one are invisible to another.

use serde_json::{Value, json};

use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(a_tenant_sees_nothing_of_another);

/// Has letters that ids do not have, so that no id contains it by chance.
const OWNER_TENANT: &str = "polonium";

async fn a_tenant_sees_nothing_of_another(server: TestServer) {
    let (ours, theirs) = (server.key(OWNER_TENANT, "admin").await, server.key("globex", "admin").await);
    let limit = json!({ "limits": [{ "amount": 100, "window": "lifetime" }] });
    let make = async |method: &str, path: &str, body: Value| {
        let made = server.call_as(&ours, method, path, body).await;
        assert!(made.status < 300, "{method} {path}: {made:?}");
        made
    };
    let at = |made: crate::client::Response| made.header("location").unwrap().to_owned();
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
        server.call_as(&ours, "GET", path, Value::Null).await.is(200);
        let other = server.call_as(&theirs, "GET", path, Value::Null).await.is(404);
        let kind = if path.starts_with("/v1/budgets") { "unknown-scope" } else { "not-found" };
        assert_eq!(other.problem(), kind, "{path}");
        server.call_with(OPERATOR, &[("Bursar-Tenant", OWNER_TENANT)], "GET", path, Value::Null).await.is(200);
        server.call("GET", path, Value::Null).await.is(404);
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
        let other = server.call_as(&theirs, method, &path, body).await.is(404);
        assert_eq!(other.problem(), "not-found", "{method} {path}");
        assert!(!other.text.contains(OWNER_TENANT), "the owner is revealed: {}", other.text);
    }
    for path in ["/v1/budgets", "/v1/jobs", "/v1/queues", "/v1/grants", "/v1/schedules", "/v1/workers", "/v1/dead"] {
        let listed = server.call_as(&theirs, "GET", path, Value::Null).await.is(200).json();
        assert_eq!(listed["items"], json!([]), "{path}");
    }
    server.call_as(&theirs, "GET", "/v1/holds?scope=room", Value::Null).await.is(404);
    let leased = server.call_as(&theirs, "POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
    assert_eq!(leased["jobs"], json!([]));
    let journal = server.call_as(&theirs, "GET", "/v1/journal?limit=1000", Value::Null).await.is(200).json();
    let seen = journal["items"].as_array().unwrap();
    assert!(seen.iter().all(|event| event["tenant"] == "globex"), "{seen:?}");
    let events = server
        .call_as(
            &theirs,
            "GET",
            &format!("/v1/events?channels=job:{}", job.trim_start_matches("/v1/jobs/")),
            Value::Null,
        )
        .await;
    assert_eq!(events.is(404).problem(), "not-found", "the channel does not exist");
    // Both tenants may use the same names.
    server
        .call_as(&theirs, "PUT", "/v1/budgets/room", json!({ "limits": [{ "amount": 1, "window": "lifetime" }] }))
        .await
        .is(200);
    let own = server.call_as(&ours, "GET", "/v1/budgets/room", Value::Null).await.json();
    assert_eq!(own["limits"][0]["amount"], 100);
    server.stop().await;
}
