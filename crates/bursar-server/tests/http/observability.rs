//! Traces and metrics.

use std::collections::BTreeSet;

use bursar_server::{Limits, metrics_table};
use serde_json::{Value, json};

use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(a_trace_follows_a_job_to_its_end, every_metric_is_declared_and_printed);

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn a_trace_follows_a_job_to_its_end(server: TestServer) {
    let job = json!({ "queue": "q", "kind": "k" });
    let traced = [("traceparent", PARENT)];
    server.call_with(OPERATOR, &traced, "POST", "/v1/jobs", job.clone()).await.is(201);
    // A retry from another trace is a replay, and the job keeps its first trace.
    let keyed = json!({ "queue": "q", "kind": "k", "idempotency_key": "once" });
    let other = PARENT.replace('7', "8");
    let headers = |parent| [("traceparent", parent), ("Idempotency-Key", "key-1")];
    server.call_with(OPERATOR, &headers(PARENT), "POST", "/v1/jobs", keyed.clone()).await.is(201);
    server.call_with(OPERATOR, &headers(&other), "POST", "/v1/jobs", keyed).await.is(201);
    server.call("POST", "/v1/jobs", job).await.is(201);
    let lease = json!({ "queues": ["q"], "capacity": 10 });
    let leased = server.call("POST", "/v1/jobs/lease", lease).await.is(200).json()["jobs"].clone();
    let leased = leased.as_array().unwrap();
    let traces: Vec<&Value> = leased.iter().map(|job| &job["traceparent"]).collect();
    assert_eq!(traces, [&json!(PARENT), &json!(PARENT), &Value::Null]);

    // The worker sends no trace, and completes all jobs in one request.
    let end = |job: &Value| json!({ "id": job["id"], "fence": job["lease"]["fence"] });
    let items: Vec<Value> = leased.iter().map(end).collect();
    server.call("POST", "/v1/jobs/complete", json!({ "items": items })).await.is(200);
    let journal = server.call("GET", "/v1/journal", Value::Null).await.is(200).json();
    let of = |kind: &str| -> Vec<Value> {
        let all = journal["items"].as_array().unwrap().iter();
        all.filter(|event| event["kind"] == kind).map(|event| event["traceparent"].clone()).collect()
    };
    for kind in ["job.enqueued", "job.leased", "job.succeeded"] {
        assert_eq!(of(kind), [json!(PARENT), json!(PARENT), Value::Null], "{kind}");
    }
    let id = leased[0]["id"].as_str().unwrap();
    assert_eq!(server.call("GET", &format!("/v1/jobs/{id}"), Value::Null).await.is(200).json()["traceparent"], PARENT);
}

async fn every_metric_is_declared_and_printed(server: TestServer) {
    server.call("POST", "/v1/jobs", json!({ "queue": "the-queue", "kind": "the-kind" })).await.is(201);
    let table = metrics_table();
    let rows = table.lines().skip(2).map(|row| {
        let mut cells = row.split('|').map(str::trim).skip(1);
        (cells.next().unwrap().trim_matches('`').to_owned(), cells.next().unwrap().to_owned())
    });
    let declared: BTreeSet<(String, String)> = rows.collect();
    let text = server.call("GET", "/metrics", Value::Null).await.is(200).text;
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let printed: BTreeSet<(String, String)> = types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect();
    assert_eq!(printed, declared);
    for (name, kind) in &declared {
        assert!(name.starts_with("bursar_"), "{name}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        let sampled = text.lines().any(|line| line.starts_with(name.as_str()) && !line.starts_with('#'));
        assert!(sampled, "{name} has a value");
    }
    // Metrics contain no tenants, names or ids.
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for word in ["the-queue", "the-kind", "default", "tenant", "job_"] {
        assert!(samples.iter().all(|line| !line.contains(word)), "{word} is in\n{text}");
    }
    assert!(text.contains("bursar_jobs{state=\"queued\"} 1\n"), "{text}");
    assert!(text.contains("bursar_batch_size_bucket{le=\"1\"} 1\n"), "{text}");
    assert!(text.contains("bursar_http_requests 0\n"), "the metrics request itself uses no request slot: {text}");
    assert!(text.contains("bursar_http_bytes_in_flight 0\n"), "{text}");
    let connections = samples.iter().find_map(|line| line.strip_prefix("bursar_http_connections ")).unwrap();
    assert!(connections.parse::<u64>().unwrap() >= 1, "at least this connection: {connections}");
    assert!(text.contains("bursar_database_up 1\n"), "{text}");
}

#[tokio::test]
async fn waiting_lease_requests_are_counted() {
    let server = TestServer::limited(Limits::default()).await;
    let waits = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"], "wait_ms": 60_000 }));
    let counts = async {
        loop {
            let text = server.call("GET", "/metrics", Value::Null).await.is(200).text;
            if text.contains("bursar_lease_waiters 1\n") {
                assert!(text.contains("bursar_http_waiting 1\n"), "{text}");
                return server.call("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
            }
        }
    };
    let (leased, _) = tokio::join!(waits, counts);
    assert_eq!(leased.is(200).json()["jobs"].as_array().unwrap().len(), 1);
    server.stop().await;
}

#[test]
fn the_documentation_has_the_metrics_table() {
    let document = include_str!("../../../../docs/observability.md");
    assert!(document.contains(&metrics_table()), "put this into docs/observability.md:\n{}", metrics_table());
}
