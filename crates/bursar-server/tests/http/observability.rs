//! Traces and metrics.

use std::collections::BTreeSet;
use std::sync::Arc;

use bursar::{ManualClock, RefusalReason, Span, Time};
use bursar_server::{Limits, Settings, metrics_table};
use serde_json::{Value, json};

use crate::client::Response;
use crate::test_server::{Engine, OPERATOR, TestServer, on_both_engines, with_storage};

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
    // Metrics contain no tenants or ids, and no names but those of queues.
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for word in ["the-kind", "default", "tenant", "job_"] {
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

/// Returns the samples of a metric: its labels and its value.
fn samples(text: &str, name: &str) -> Vec<(String, f64)> {
    let of = |line: &str| {
        let (labels, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
        let named = labels.is_empty() || labels.starts_with('{');
        named.then(|| (labels.to_owned(), value.parse().unwrap()))
    };
    text.lines().filter_map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_have_metrics_and_those_beyond_the_bound_share_theirs() {
    for engine in [Engine::Sqlite, Engine::Postgres, Engine::Memory] {
        let limits = Limits { metric_queues: 2, ..Limits::default() };
        let server = TestServer::of(engine, None, |folder| Settings { limits, ..with_storage(folder) }).await;
        let job = |queue: &str| json!({ "queue": queue, "kind": "k" });
        for queue in ["b", "b", "a \"x\"", "c", "d"] {
            server.call("POST", "/v1/jobs", job(queue)).await.is(201);
        }
        // The queue `b` of another tenant counts as the same one.
        let other = [("Bursar-Tenant", "other")];
        server.call_with(OPERATOR, &other, "POST", "/v1/jobs", job("b")).await.is(201);
        server.call("POST", "/v1/jobs/lease", json!({ "queues": ["d"] })).await.is(200);
        let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["b"] })).await.is(200).json();
        let leased = &leased["jobs"][0];
        let failed = json!({ "fence": leased["lease"]["fence"], "error": { "kind": "timeout", "message": "late" } });
        let path = format!("/v1/jobs/{}/fail", leased["id"].as_str().unwrap());
        server.call("POST", &path, failed).await.is(200);

        let text = server.call("GET", "/metrics", Value::Null).await.is(200).text;
        let jobs: Vec<(String, f64)> =
            samples(&text, "bursar_queue_jobs").into_iter().filter(|(_, value)| *value > 0.0).collect();
        let [a, b, other] = [r#"queue="a \"x\"""#, r#"queue="b""#, r#"queue="(other)""#];
        let expected = [
            (format!(r#"{{{a},state="queued"}}"#), 1.0),
            (format!(r#"{{{b},state="scheduled"}}"#), 1.0),
            (format!(r#"{{{b},state="queued"}}"#), 2.0),
            (format!(r#"{{{other},state="queued"}}"#), 1.0),
            (format!(r#"{{{other},state="leased"}}"#), 1.0),
        ];
        assert_eq!(jobs, expected, "{engine:?}");
        let queues = [a, b, other].map(|queue| format!("{{{queue}}}"));
        let of = |name: &str| {
            let found = samples(&text, name);
            assert_eq!(found.iter().map(|(labels, _)| labels).collect::<Vec<_>>(), queues.each_ref(), "{name}");
            found.into_iter().map(|(_, value)| value).collect::<Vec<f64>>()
        };
        assert_eq!(of("bursar_queue_failed_attempts"), [0.0, 1.0, 0.0], "{engine:?}");
        assert!(of("bursar_queue_oldest_ready_seconds").iter().all(|age| *age > 0.0), "{text}");
        let ages = of("bursar_queue_oldest_lease_seconds");
        assert!(ages[..2] == [0.0, 0.0] && ages[2] > 0.0, "{ages:?}");
        assert!(text.contains("\nbursar_queues 5\n") && text.contains("\nbursar_queues_without_figures 0\n"), "{text}");
        assert!(text.contains("\nbursar_jobs{state=\"queued\"} 4\n"), "{text}");
        server.stop().await;
    }
}

#[tokio::test]
async fn overruns_late_commits_freezes_and_refusals_are_counted() {
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_800_000_000_000_000)));
    let server = TestServer::of(Engine::Memory, Some(clock.clone()), with_storage).await;
    let limit = json!({ "limits": [{ "amount": 100, "window": "day" }], "trip": { "amount": 60, "window": "day" } });
    server.call("PUT", "/v1/budgets/room", limit).await.is(200);
    let hold = async |amount: i64| {
        let body = json!({ "charges": [{ "scope": "room", "amount": amount }], "ttl_ms": 60_000 });
        server.call("POST", "/v1/holds", body).await
    };
    let id = |held: Response| held.is(201).json()["hold"]["id"].as_str().unwrap().to_owned();
    let (over, late) = (id(hold(5).await), id(hold(5).await));
    let commit = async |id: &str, actual: i64| {
        server.call("POST", &format!("/v1/holds/{id}/commit"), json!({ "actual": actual })).await.is(200);
    };
    commit(&over, 8).await;
    hold(1_000).await.is(409);
    clock.advance(Span::from_secs(120));
    commit(&late, 5).await;
    server.call("POST", "/v1/budgets/room/freeze", json!({ "reason": "audit" })).await.is(200);
    hold(1).await.is(409);
    server.call("POST", "/v1/budgets/room/unfreeze", Value::Null).await.is(200);
    server.call("POST", "/v1/commands", json!({ "charges": [{ "scope": "room", "amount": 70 }] })).await.is(201);
    hold(1).await.is(409);
    server.call("POST", &format!("/v1/holds/{over}/release"), json!({})).await.is(409);

    let trial = json!({ "limits": [{ "amount": 10, "window": "day" }], "shadow": true });
    server.call("PUT", "/v1/budgets/trial", trial).await.is(200);
    let passed = json!({ "charges": [{ "scope": "trial", "amount": 25 }] });
    let passed = server.call("POST", "/v1/commands", passed).await.is(201).json();
    assert_eq!((&passed["warnings"][0], &passed["would_refuse"][0]["limit"]), (&json!("would_refuse"), &json!(10)));

    let text = server.call("GET", "/metrics", Value::Null).await.is(200).text;
    for name in ["overruns", "late_commits", "budget_trips", "budget_freezes", "shadow_refusals"] {
        assert_eq!(samples(&text, &format!("bursar_{name}_total")), [(String::new(), 1.0)], "{name}");
    }
    let reasons = samples(&text, "bursar_refusals_total");
    assert_eq!(reasons.len(), RefusalReason::ALL.len(), "every reason has a value from the start");
    let reasons: Vec<(String, f64)> = reasons.into_iter().filter(|(_, count)| *count > 0.0).collect();
    let of = |reason: &str, count: f64| (format!("{{reason=\"{reason}\"}}"), count);
    assert_eq!(reasons, [of("limit", 1.0), of("frozen", 2.0), of("already_settled", 1.0)]);
    server.stop().await;
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
