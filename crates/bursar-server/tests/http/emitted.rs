//! Events of the application, which workers emit about their jobs.

use serde_json::{Value, json};

use crate::events::EventStream;
use crate::test_server::{TestServer, on_both_engines};

on_both_engines!(workers_emit_the_events_that_their_capabilities_name);

async fn workers_emit_the_events_that_their_capabilities_name(server: TestServer) {
    let job = server.call("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201).json();
    let id = job["id"].as_str().unwrap();
    let path = format!("/v1/jobs/{id}/events");
    let capabilities = json!({ "queues": ["q"], "kinds": ["k"], "events": ["preview.*"] });
    let (worker, other) =
        (server.worker("default", capabilities.clone()).await, server.worker("default", capabilities).await);
    let emit = |event: &str| json!({ "fence": 1, "event": event, "data": { "frame": 7 } });
    server.call_as(&worker, "POST", &path, emit("preview.ready")).await.is(409);
    server.call_as(&worker, "POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200);
    let mut listener = EventStream::open(&server, &worker, &format!("job:{id}"), None).await;
    assert_eq!(listener.next().await.kind, "ready");

    server.call_as(&worker, "POST", &path, emit("preview.ready")).await.is(204);
    let heard = listener.next().await;
    assert_eq!(heard.kind, "job.emitted");
    assert_eq!(heard.data["data"], json!({ "job": id, "fence": 1, "event": "preview.ready", "data": { "frame": 7 } }));
    let denied = server.call_as(&worker, "POST", &path, emit("finished")).await.is(403).json();
    assert!(denied["detail"].as_str().unwrap().contains("the event finished"), "{denied}");
    server.call_as(&other, "POST", &path, emit("preview.ready")).await.is(403);
    for (role, status) in [("viewer", 403), ("user", 403), ("admin", 404)] {
        let key = server.key("acme", role).await;
        server.call_as(&key, "POST", &path, emit("preview.ready")).await.is(status);
    }
    let large = json!({ "fence": 1, "event": "preview.ready", "data": "x".repeat(16 << 10) });
    let refused = server.call_as(&worker, "POST", &path, large).await.is(400).json();
    assert_eq!(refused["field"], "data", "{refused}");

    let done = json!({ "fence": 1 });
    server.call_as(&worker, "POST", &format!("/v1/jobs/{id}/complete"), done).await.is(200);
    server.call_as(&worker, "POST", &path, emit("preview.ready")).await.is(409);
    let events = server.call("GET", &path, Value::Null).await.is(200).json();
    let emitted = |event: &&Value| event["kind"] == "job.emitted";
    assert_eq!(events["items"].as_array().unwrap().iter().filter(emitted).count(), 1);
    server.call("POST", &format!("/v1/jobs/{id}/erase"), json!({})).await.is(200);
    let journal = server.call("GET", "/v1/journal?limit=1000", Value::Null).await.is(200).text;
    assert!(journal.contains("preview.ready") && !journal.contains("\"frame\""), "the data is erased");
    server.stop().await;
}
