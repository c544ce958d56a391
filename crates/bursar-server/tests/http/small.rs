//! What is asked less often: grants by their id, tokens of operators, the journal as it goes on, progress of many.

use bursar::{Bursar, CredentialClass, Payload};
use serde_json::{Value, json};

use crate::client::{Connection, request};
use crate::home::{Home, OPERATOR, on_both};

on_both!(
    a_grant_is_found_where_its_answer_said,
    tokens_of_operators_are_the_operators_business,
    who_names_no_channel_hears_the_journal,
    many_tell_how_far_they_are,
    what_is_there_can_be_asked_for_without_reading_it
);

async fn a_grant_is_found_where_its_answer_said(home: Home) {
    let body = json!({ "purpose": "upload", "subject": "s", "payload": { "n": 1 }, "ttl_ms": 60_000 });
    let minted = home.ask("POST", "/v1/grants", body).await.is(201);
    let at = minted.header("location").unwrap().to_owned();
    let found = home.ask("GET", &at, Value::Null).await.is(200);
    assert!(!found.text.contains("token") && !found.text.contains("bgr_"), "{found:?}");
    assert_eq!((&found.json()["state"], &found.json()["payload"]), (&json!("open"), &json!({ "n": 1 })));
    home.ask("DELETE", &at, Value::Null).await.is(204);
    assert_eq!(home.ask("GET", &at, Value::Null).await.is(200).json()["state"], "revoked");
    // Another tenant's grant, and a credential, are no grants here.
    home.ask_with(OPERATOR, &[("Bursar-Tenant", "acme")], "GET", &at, Value::Null).await.is(404);
    let key = home.ask("POST", "/v1/keys", json!({ "name": "k", "role": "user" })).await.is(201).json();
    let as_grant = key["id"].as_str().unwrap().replace("key_", "/v1/grants/grant_");
    home.ask("GET", &as_grant, Value::Null).await.is(404);
    home.stop().await;
}

/// An operator's token, as the first start makes it.
async fn operator(bursar: &Bursar) -> (String, String) {
    let subject = "operator".try_into().unwrap();
    let made = bursar.credentials().issue(CredentialClass::Operator, subject, Payload::default(), None, None).await;
    let token = made.unwrap().token.unwrap();
    let listed = bursar.credentials().list(CredentialClass::Operator, None, 10).await.unwrap();
    (format!("/v1/keys/{}", bursar::KeyId(listed[0].id.0)), token)
}

async fn tokens_of_operators_are_the_operators_business(home: Home) {
    let (at, token) = operator(&home.bursar).await;
    let user = home.key("default", "user").await;
    let listed = home.ask_as(&token, "GET", "/v1/keys", Value::Null).await.is(200).json();
    let roles: Vec<&str> = listed["items"].as_array().unwrap().iter().map(|k| k["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["operator", "user"]);
    let page = home.ask("GET", "/v1/keys?limit=1", Value::Null).await.is(200).json();
    let next = format!("/v1/keys?limit=1&cursor={}", page["next"].as_str().unwrap());
    assert_eq!(home.ask("GET", &next, Value::Null).await.is(200).json()["items"][0]["role"], "user");
    // An admin of the same tenant hears nothing of them, and can do nothing to them.
    let admin = home.key("default", "admin").await;
    let seen = home.ask_as(&admin, "GET", "/v1/keys", Value::Null).await.is(200).text;
    assert!(!seen.contains("operator"), "{seen}");
    home.ask_as(&admin, "GET", &at, Value::Null).await.is(404);
    home.ask_as(&admin, "POST", &format!("{at}/rotate"), json!({})).await.is(404);
    home.ask_as(&admin, "DELETE", &at, Value::Null).await.is(404);
    home.ask_as(&user, "GET", &at, Value::Null).await.is(403);
    // Nor are they another tenant's.
    let elsewhere = home.ask_with(OPERATOR, &[("Bursar-Tenant", "acme")], "GET", &at, Value::Null).await;
    elsewhere.is(404);
    // Replaced, with an overlap, for ever; then the old one is taken back.
    let shown = home.ask("GET", &at, Value::Null).await.is(200).json();
    assert_eq!(
        (&shown["role"], &shown["state"], &shown["expires_at"]),
        (&json!("operator"), &json!("good"), &Value::Null)
    );
    let rotated = home.ask("POST", &format!("{at}/rotate"), json!({ "overlap_ms": 60_000 })).await.is(201).json();
    assert_eq!(rotated["expires_at"], Value::Null);
    let new = rotated["token"].as_str().unwrap();
    assert!(new.starts_with("bop_"));
    for good in [token.as_str(), new] {
        home.ask_as(good, "GET", "/v1/verify", Value::Null).await.is(200);
    }
    home.ask_as(new, "DELETE", &at, Value::Null).await.is(204);
    home.ask_as(&token, "GET", "/v1/verify", Value::Null).await.is(401);
    home.ask_as(new, "GET", "/v1/verify", Value::Null).await.is(200);
    home.stop().await;
}

async fn who_names_no_channel_hears_the_journal(home: Home) {
    let viewer = home.key("acme", "viewer").await;
    let listen = async |token: &str| {
        let text = request("GET", "/v1/events", &[("Authorization", &format!("Bearer {token}"))], None);
        Connection::open(home.address, &text).await
    };
    let (mut stream, head) = listen(&viewer).await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    let acme = [("Bursar-Tenant", "acme")];
    home.ask_with(OPERATOR, &acme, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
    loop {
        let part = stream.chunk().await.expect("the stream goes on");
        if part.contains("job.enqueued") {
            break;
        }
    }
    let user = home.key("acme", "user").await;
    assert_eq!(listen(&user).await.1.status, 403, "who may not read the journal has to name a channel");
    drop(stream);
    home.stop().await;
}

async fn many_tell_how_far_they_are(home: Home) {
    for _ in 0..2 {
        home.ask("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
    }
    let leased = home.ask("POST", "/v1/jobs/lease", json!({ "queues": ["q"], "capacity": 2 })).await.is(200).json();
    let id = |place: usize| leased["jobs"][place]["id"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {OPERATOR}");
    let text = request("GET", &format!("/v1/events?channels=job:{}", id(1)), &[("Authorization", &bearer)], None);
    let (mut stream, _) = Connection::open(home.address, &text).await;
    while !stream.chunk().await.expect("it begins").contains("ready") {}
    let items = json!([{ "id": id(0), "fence": 9 }, { "id": id(1), "fence": 1, "percent": 40, "message": "half" }]);
    let told = home.ask("POST", "/v1/jobs/progress", json!({ "items": items })).await.is(200).json();
    assert_eq!(told["items"][0]["problem"]["type"], "/problems/lease-lost");
    assert_eq!(told["items"][1]["order"], "continue");
    let alone = home.ask("POST", &format!("/v1/jobs/{}/progress", id(1)), json!({ "fence": 1 })).await.is(200).json();
    let until = |lease: &Value| lease["expires_at"].as_str().unwrap().parse::<bursar::Time>().unwrap();
    let lapses = [until(&leased["jobs"][1]["lease"]), until(&told["items"][1]), until(&alone)];
    assert!(lapses[0] < lapses[1] && lapses[1] < lapses[2], "each report renews the lease: {lapses:?}");
    loop {
        let part = stream.chunk().await.expect("the stream goes on");
        if part.contains("\"half\"") {
            break;
        }
    }
    let durable = json!({ "items": [{ "id": id(1), "fence": 1, "durable": true }] });
    assert_eq!(home.ask("POST", "/v1/jobs/progress", durable).await.is(400).json()["field"], "durable");
    drop(stream);
    home.stop().await;
}

async fn what_is_there_can_be_asked_for_without_reading_it(home: Home) {
    let budget = json!({ "limits": [{ "amount": 5, "window": "day" }] });
    let any = [("If-Match", "*")];
    let schedule = json!({ "cron": "@daily", "queue": "q", "kind": "k" });
    for (path, body) in [("/v1/budgets/room", budget), ("/v1/schedules/s", schedule)] {
        let none = home.ask_with(OPERATOR, &any, "PUT", path, body.clone()).await.is(412);
        assert_eq!(none.problem(), "changed");
        home.ask("PUT", path, body.clone()).await.is(200);
        home.ask_with(OPERATOR, &any, "PUT", path, body).await.is(200);
    }
    home.ask_with(OPERATOR, &any, "PUT", "/v1/queues/q", json!({ "concurrency": 2 })).await.is(200);
    home.ask_with(OPERATOR, &[("If-Match", "\"*\"")], "PUT", "/v1/budgets/room", json!({})).await.is(400);
    home.stop().await;
}
