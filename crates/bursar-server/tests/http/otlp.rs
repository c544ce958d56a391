//! Spans, exported to a receiver of OpenTelemetry.

mod receiver;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bursar::{ManualClock, Span, Time};
use bursar_server::{OtlpSettings, Settings};
use serde_json::{Value, json};

use self::receiver::{Answer, Received, Receiver};
use crate::test_server::{Engine, OPERATOR, TestServer, with_storage};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// The secret of a header of the receiver.
const KEY: &str = "a-key-of-the-receiver";
/// The kinds of spans, as OTLP numbers them.
const SERVER: u8 = 2;
const PRODUCER: u8 = 4;
const CONSUMER: u8 = 5;

/// A wait that no test notices.
const SHORT: Duration = Duration::from_millis(1);

/// Returns settings that send each span soon, and start no trace.
fn settings(receiver: &Receiver) -> OtlpSettings {
    let settings = OtlpSettings::new(&receiver.endpoint).unwrap().with_headers(&format!("api-key={KEY}")).unwrap();
    with(settings, |settings| {
        settings.service_name = "bursar-test".into();
        settings.sample = 0.0;
        (settings.delay, settings.retry) = (SHORT, SHORT);
    })
}

fn with(mut settings: OtlpSettings, change: impl FnOnce(&mut OtlpSettings)) -> OtlpSettings {
    change(&mut settings);
    settings
}

async fn server(engine: Engine, otlp: OtlpSettings) -> TestServer {
    TestServer::of(engine, None, |folder| Settings { otlp: Some(otlp), ..with_storage(folder) }).await
}

async fn traced(server: &TestServer, parent: &str, method: &str, path: &str, body: Value) -> Value {
    let answer = server.call_with(OPERATOR, &[("traceparent", parent)], method, path, body).await;
    assert!(answer.status < 300, "{answer:?}");
    answer.json()
}

async fn lease(server: &TestServer, count: usize) -> Vec<Value> {
    let body = json!({ "queues": ["media"], "capacity": 10, "worker": "encoder" });
    let leased = server.call("POST", "/v1/jobs/lease", body).await.is(200).json();
    let leased = leased["jobs"].as_array().unwrap().clone();
    assert_eq!(leased.len(), count);
    leased
}

fn path(job: &Value, act: &str) -> String {
    format!("/v1/jobs/{}/{act}", job["id"].as_str().unwrap()).trim_end_matches('/').to_owned()
}

/// Returns the span id of a `traceparent` of the trace, which must be sampled.
fn span_of(traceparent: &Value) -> String {
    let parts: Vec<&str> = traceparent.as_str().unwrap().split('-').collect();
    assert_eq!((parts[0], parts[1], parts[3], parts.len()), ("00", TRACE, "01", 4));
    parts[2].to_owned()
}

/// Returns the only span of a name.
fn one<'a>(spans: &'a [Received], name: &str) -> &'a Received {
    let found: Vec<&Received> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name} in {spans:#?}");
    found[0]
}

/// Returns the number of spans with a result.
async fn count(server: &TestServer, result: &str) -> u64 {
    let text = server.call("GET", "/metrics", Value::Null).await.is(200).text;
    let prefix = format!("bursar_otlp_spans_total{{result=\"{result}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&prefix)?.parse().ok()).unwrap()
}

/// Waits until a number of spans has a result.
async fn counted(server: &TestServer, result: &str, expected: u64) {
    let until = tokio::time::Instant::now() + Duration::from_secs(120);
    while count(server, result).await != expected {
        assert!(tokio::time::Instant::now() < until, "{expected} spans are {result}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_trace_leads_from_the_caller_to_the_settlement() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let receiver = Receiver::start([]).await;
        let server = server(engine, settings(&receiver)).await;
        let budget = json!({ "limits": [{ "amount": 100, "window": "day" }] });
        server.call("PUT", "/v1/budgets/room", budget).await.is(200);
        let command = json!({
            "charges": [{ "scope": "room", "amount": 50 }], "settle": "job",
            "jobs": [{ "queue": "media", "kind": "video.cut", "payload": { "word": "swordfish" }, "tags": ["marlin"] }],
        });
        traced(&server, PARENT, "POST", "/v1/commands", command).await;
        let job = lease(&server, 1).await.remove(0);
        let attempt = span_of(&job["traceparent"]);
        // The handler reports in the trace that it was given.
        let end = json!({ "fence": job["lease"]["fence"], "result": "sturgeon", "usage": [{ "amount": 42 }] });
        traced(&server, job["traceparent"].as_str().unwrap(), "POST", &path(&job, "complete"), end).await;
        let balance = server.call("GET", "/v1/budgets/room", Value::Null).await.is(200).json();
        assert_eq!(
            (&balance["balances"][0]["posted"], &balance["balances"][0]["held"]),
            (&json!(42), &json!(0)),
            "the hold is settled: {balance}"
        );

        let spans = receiver.spans(4).await;
        let [request, enqueue, process, complete] =
            ["POST /v1/commands", "enqueue media", "process media", "POST /v1/jobs/{id}/complete"]
                .map(|name| one(&spans, name));
        assert!(spans.iter().all(|span| span.trace == TRACE && span.status.is_none() && span.links.is_empty()));
        let kinds = [request, enqueue, process, complete].map(|span| span.kind);
        assert_eq!(kinds, [SERVER, PRODUCER, CONSUMER, SERVER]);
        let parents = [request, enqueue, process, complete].map(|span| span.parent.as_deref().unwrap());
        assert_eq!(parents, [CALLER, &request.id, &enqueue.id, &attempt]);
        assert_eq!(process.id, attempt);

        // The attempt is from the lease to its end, and the enqueueing within its request.
        let job_id = job["id"].as_str().unwrap();
        let since: Time = job["lease"]["since"].as_str().unwrap().parse().unwrap();
        assert_eq!(process.began / 1_000, since.micros());
        assert!(request.began <= enqueue.began && enqueue.ended <= request.ended);
        for (span, route, status) in [(request, "/v1/commands", "201"), (complete, "/v1/jobs/{id}/complete", "200")] {
            let found = ["http.request.method", "http.route", "http.response.status_code"].map(|key| span.get(key));
            assert_eq!((found, span.attributes.len()), (["POST", route, status], 3));
        }
        for (span, operation, kind) in [(enqueue, "enqueue", "send"), (process, "process", "process")] {
            let keys = ["system", "operation.name", "operation.type", "destination.name", "message.id"];
            let found = keys.map(|key| span.get(&format!("messaging.{key}")));
            assert_eq!(found, ["bursar", operation, kind, "media", job_id]);
            assert_eq!(span.get("bursar.job.kind"), "video.cut");
        }
        let keys = ["bursar.job.attempt", "bursar.job.outcome", "messaging.client.id", "error.type"];
        assert_eq!(keys.map(|key| process.get(key)), ["1", "completed", "encoder", ""]);

        // The job and its events name the span that enqueued it.
        let shown = server.call("GET", &format!("/v1/jobs/{job_id}"), Value::Null).await.is(200).json();
        assert_eq!(span_of(&shown["traceparent"]), enqueue.id);
        counted(&server, "exported", 4).await;
        server.stop().await;
        for (headers, body) in receiver.requests() {
            assert_eq!(headers["api-key"], KEY);
            let secrets =
                ["swordfish", "sturgeon", "marlin", "room", OPERATOR, KEY, "default", "url.path", "/v1/jobs/job_"];
            let told: Vec<&str> = secrets.into_iter().filter(|secret| body.contains(secret)).collect();
            assert!(told.is_empty(), "{told:?} is in {body}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attempt_is_a_span_with_its_outcome() {
    let receiver = Receiver::start([]).await;
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_800_000_000_000_000)));
    let otlp = settings(&receiver);
    let server = TestServer::of(Engine::Memory, Some(clock.clone()), |folder| Settings {
        otlp: Some(otlp),
        clock: Some(clock.clone()),
        ..with_storage(folder)
    })
    .await;
    let body = json!({ "queue": "media", "kind": "k", "max_attempts": 3 });
    traced(&server, PARENT, "POST", "/v1/jobs", body).await;
    let mut attempts = Vec::new();
    let mut begin = async || {
        clock.advance(Span::from_secs(60));
        let job = lease(&server, 1).await.remove(0);
        attempts.push(span_of(&job["traceparent"]));
        clock.advance(Span::from_secs(7));
        job
    };
    let end = async |job: &Value, act: &str, mut body: Value| {
        body["fence"] = job["lease"]["fence"].clone();
        let other = PARENT.replace('7', "8");
        traced(&server, &other, "POST", &path(job, act), body).await;
    };
    let job = begin().await;
    end(&job, "fail", json!({ "error": { "kind": "timeout", "message": "swordfish" }, "retry_after_ms": 1_000 })).await;
    let job = begin().await;
    end(&job, "snooze", json!({ "delay_ms": 1_000 })).await;
    let job = begin().await;
    end(&job, "return", json!({})).await;
    let job = begin().await;
    // No worker reports the end of this lease.
    clock.advance(Span::from_secs(3_600));
    while server.call("GET", &path(&job, ""), Value::Null).await.is(200).json()["state"] == "leased" {
        server.bursar.tend(10).await.unwrap();
    }
    clock.advance(Span::from_secs(3_600));
    let job = begin().await;
    server.call("POST", &path(&job, "cancel"), json!({})).await.is(200);
    end(&job, "fail", json!({ "error": { "kind": "stopped" } })).await;

    // A request to enqueue, five attempts, and the four requests that ended some, which belong to another trace.
    let spans = receiver.spans(2 + 5 + 4).await;
    let enqueue = one(&spans, "enqueue media").id.clone();
    let of: Vec<&Received> = attempts.iter().map(|id| spans.iter().find(|span| span.id == *id).unwrap()).collect();
    assert_eq!(attempts.iter().collect::<HashSet<_>>().len(), 5, "every attempt has a span of its own");
    let found = |key: &str| of.iter().map(|span| span.get(key)).collect::<Vec<&str>>();
    assert_eq!(found("bursar.job.outcome"), ["failed", "snoozed", "returned", "lapsed", "failed"]);
    assert_eq!(found("bursar.job.attempt"), ["1", "2", "2", "2", "3"]);
    assert_eq!(found("error.type"), ["timeout", "", "", "lease expired", "stopped"]);
    let statuses: Vec<Option<u8>> = of.iter().map(|span| span.status.as_ref().map(|status| status.code)).collect();
    assert_eq!(statuses, [Some(2), None, None, Some(2), Some(2)]);
    assert_eq!(of[0].status.as_ref().unwrap().message, "timeout");
    for (number, span) in of.iter().enumerate() {
        assert_eq!((span.parent.as_deref(), span.kind, span.trace.as_str()), (Some(enqueue.as_str()), CONSUMER, TRACE));
        let seconds = if number == 3 { 3_607 } else { 7 };
        assert_eq!(span.ended - span.began, seconds * 1_000_000_000, "attempt {number}");
        // It is linked to the request that ended it, which maintenance has not.
        let ended_by = span.links.first().map(|link| (link.flags, link.trace_id.clone(), link.span_id.clone()));
        let request = spans.iter().find(|span| Some(&span.id) == ended_by.as_ref().map(|(.., id)| id));
        assert_eq!((request.is_some(), ended_by.is_some()), (number != 3, number != 3));
        assert!(request.is_none_or(|request| request.kind == SERVER && ended_by.unwrap().1 == request.trace));
    }
    server.stop().await;
    assert!(receiver.requests().iter().all(|(_, body)| !body.contains("swordfish")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traces_that_are_not_sampled_are_passed_on_unchanged_and_not_exported() {
    let receiver = Receiver::start([]).await;
    let server = server(Engine::Memory, settings(&receiver)).await;
    let unsampled = PARENT.replace("-01", "-00");
    let body = json!({ "queue": "media", "kind": "k" });
    traced(&server, &unsampled, "POST", "/v1/jobs", body.clone()).await;
    // A request without a trace starts none, because nothing is sampled.
    server.call("POST", "/v1/jobs", body).await.is(201);
    let jobs = lease(&server, 2).await;
    assert_eq!([&jobs[0]["traceparent"], &jobs[1]["traceparent"]], [&json!(unsampled), &Value::Null]);
    for job in jobs {
        let end = json!({ "fence": job["lease"]["fence"] });
        traced(&server, &unsampled, "POST", &path(&job, "complete"), end).await;
    }
    // A request that fails authentication adds nothing to the trace.
    let denied = server.call_with("no-token", &[("traceparent", PARENT)], "GET", "/v1/whoami", Value::Null).await;
    denied.is(401);
    traced(&server, PARENT, "GET", "/v1/whoami", Value::Null).await;
    server.stop().await;
    let names: Vec<String> = receiver.received().into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["GET /v1/whoami"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_without_a_trace_start_one_and_polls_do_not() {
    let receiver = Receiver::start([]).await;
    let server = server(Engine::Memory, with(settings(&receiver), |settings| settings.sample = 1.0)).await;
    let jobs = json!({ "jobs": [{ "queue": "media", "kind": "a" }, { "queue": "media", "kind": "b" }] });
    let answer = server.call("POST", "/v1/jobs/bulk", jobs).await.is(200);
    let traceparent = answer.header("traceparent").unwrap().to_owned();
    assert!(traceparent.ends_with("-01"), "{traceparent}");
    server.call("GET", "/v1/jobs", Value::Null).await.is(200);
    for job in lease(&server, 2).await {
        assert_eq!(job["traceparent"].as_str().unwrap()[..35], traceparent[..35]);
        server.call("POST", &path(&job, "heartbeat"), json!({ "fence": job["lease"]["fence"] })).await.is(200);
        server.call("POST", &path(&job, "complete"), json!({ "fence": job["lease"]["fence"] })).await.is(200);
    }
    server.stop().await;
    let spans = receiver.received();
    let request = one(&spans, "POST /v1/jobs/bulk");
    assert_eq!(
        (request.parent.as_ref(), &request.trace[..], &request.id[..]),
        (None, &traceparent[3..35], &traceparent[36..52])
    );
    let enqueue = one(&spans, "enqueue media");
    assert_eq!((enqueue.get("messaging.batch.message_count"), enqueue.get("bursar.job.kind")), ("2", ""));
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!((names.len(), names.iter().filter(|name| **name == "process media").count()), (4, 2), "{names:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_request_enqueues_nothing_and_its_job_keeps_its_span() {
    let receiver = Receiver::start([]).await;
    let server = server(Engine::Memory, settings(&receiver)).await;
    let headers = [("traceparent", PARENT), ("Idempotency-Key", "key-1")];
    for _ in 0..2 {
        let body = json!({ "queue": "media", "kind": "k" });
        server.call_with(OPERATOR, &headers, "POST", "/v1/jobs", body).await.is(201);
    }
    let job = lease(&server, 1).await.remove(0);
    server.call("POST", &path(&job, "complete"), json!({ "fence": job["lease"]["fence"] })).await.is(200);
    server.stop().await;
    let spans = receiver.received();
    let enqueue = one(&spans, "enqueue media");
    assert_eq!(one(&spans, "process media").parent.as_ref(), Some(&enqueue.id));
    assert_eq!(spans.iter().filter(|span| span.name == "POST /v1/jobs").count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_receiver_refuses_for_now_is_sent_again() {
    // The wait before a retry is longer than the test, so only the receiver's own wait can lead to one.
    let busy = [Answer::Status(503, Some(0)), Answer::Status(429, Some(0)), Answer::Status(502, Some(0))];
    let receiver = Receiver::start(busy).await;
    let hour = Duration::from_secs(3_600);
    let server = server(Engine::Memory, with(settings(&receiver), |settings| settings.retry = hour)).await;
    traced(&server, PARENT, "GET", "/v1/whoami", Value::Null).await;
    assert_eq!(receiver.spans(1).await.len(), 1);
    counted(&server, "exported", 1).await;
    let bodies: HashSet<String> = receiver.requests().into_iter().map(|(_, body)| body).collect();
    assert_eq!((receiver.requests().len(), bodies.len()), (4, 1), "the same request is sent each time");
    assert_eq!((count(&server, "failed").await, count(&server, "dropped").await), (0, 0));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_receiver_does_not_take_is_counted_as_failed() {
    let answers = [Answer::Status(400, None), Answer::Status(500, None), Answer::Reject(1)];
    // These are retried, in vain.
    let receiver = Receiver::start(answers.into_iter().chain([Answer::Status(504, None); 6])).await;
    let server = server(Engine::Memory, settings(&receiver)).await;
    for (number, asked) in [(1, 1), (2, 2), (3, 3), (4, 9)] {
        traced(&server, PARENT, "GET", "/v1/whoami", Value::Null).await;
        counted(&server, "failed", number).await;
        assert_eq!(receiver.requests().len(), asked, "requests for span {number}");
    }
    traced(&server, PARENT, "GET", "/v1/whoami", Value::Null).await;
    counted(&server, "exported", 1).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_slow_or_down_delays_no_request() {
    let receiver = Receiver::start([Answer::Wait]).await;
    let otlp = with(settings(&receiver), |settings| {
        (settings.queue, settings.batch) = (2, 1);
        settings.timeout = Duration::from_secs(3_600);
    });
    let server = server(Engine::Memory, otlp).await;
    traced(&server, PARENT, "GET", "/v1/whoami", Value::Null).await;
    receiver.asked(1).await;
    // One span is being sent, and two are queued.
    for _ in 0..20 {
        traced(&server, PARENT, "GET", "/v1/whoami", Value::Null).await;
    }
    assert_eq!((count(&server, "exported").await, count(&server, "dropped").await), (0, 18));
    receiver.release();
    counted(&server, "exported", 3).await;
    server.stop().await;

    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = OtlpSettings::new(&format!("http://{address}")).unwrap();
    let gone = with(gone, |settings| (settings.delay, settings.retry) = (SHORT, SHORT));
    let server = self::server(Engine::Memory, gone).await;
    traced(&server, PARENT, "POST", "/v1/jobs", json!({ "queue": "media", "kind": "k" })).await;
    counted(&server, "failed", 2).await;
    server.stop().await;
}
