//! Event streams.

use std::time::Duration;

use bursar_server::{Limits, Settings};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::time::Instant;

use crate::client::{Connection, request};
use crate::test_server::{OPERATOR, TestServer, on_both_engines};

/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked() {
    let limits = Limits { heartbeat: Duration::from_millis(20), ..Limits::default() };
    let server = TestServer::limited(limits).await;
    let key = server.key("default", "viewer").await;
    let id =
        server.call("GET", "/v1/keys", Value::Null).await.is(200).json()["items"][0]["id"].as_str().unwrap().to_owned();
    let mut stream = EventStream::open(&server, &key, "journal", None).await;
    assert_eq!(stream.next().await.kind, "ready");
    // Events may arrive before the first heartbeat.
    while stream.connection.chunk().await.as_deref() != Some(": \n\n") {}
    server.call("DELETE", &format!("/v1/keys/{id}"), Value::Null).await.is(204);
    while stream.connection.chunk().await.is_some() {}
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_does_not_read_is_dropped() {
    let limits = Limits { stall: Duration::from_secs(3), ..Limits::default() };
    let server = TestServer::limited(limits).await;
    // A client that never reads its stream.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut unread = socket.connect(server.address).await.unwrap();
    let bearer = format!("Bearer {OPERATOR}");
    let text = request("GET", "/v1/events?channels=journal", &[("Authorization", &bearer)], None);
    unread.write_all(text.as_bytes()).await.unwrap();
    let metric = async |name: &str| {
        let text = server.call("GET", "/metrics", Value::Null).await.is(200).text;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap()
    };
    let until = Instant::now() + PATIENCE;
    while metric("bursar_event_listeners ").await == 0 {
        assert!(Instant::now() < until, "the stream is not open");
    }
    let mut live = EventStream::open(&server, OPERATOR, "journal", None).await;
    assert_eq!(live.next().await.kind, "ready");
    let text = "x".repeat(900);
    let until = Instant::now() + PATIENCE;
    while metric("bursar_event_listeners ").await == 2 {
        assert!(Instant::now() < until, "the client that does not read is not dropped");
        let jobs: Vec<Value> = (0..500).map(|_| json!({ "queue": "q", "kind": "k", "payload": text })).collect();
        let receive = async {
            for _ in 0..500 {
                assert_eq!(live.next().await.kind, "job.enqueued", "the other listener gets every event");
            }
        };
        let (response, ()) = tokio::join!(server.call("POST", "/v1/jobs/bulk", json!({ "jobs": jobs })), receive);
        response.is(200);
    }
    drop(unread);
    server.stop().await;
}

on_both_engines!(events_are_ordered_and_resumable, channels_select_events_and_are_authorized);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_heard_on_every_node_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    progress_is_heard_on_every_node(&format!("sqlite://{}", folder.path().join("bursar.db").display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_heard_on_every_node_postgres() {
    progress_is_heard_on_every_node(&bursar_testkit::fresh_database()).await;
}

async fn progress_is_heard_on_every_node(url: &str) {
    let nodes = [TestServer::on(url, Settings::default()).await, TestServer::on(url, Settings::default()).await];
    let [near, far] = &nodes;
    let job = near.call("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201).json()["id"].clone();
    let path = format!("/v1/jobs/{}", job.as_str().unwrap());
    let channel = format!("job:{}", job.as_str().unwrap());
    let leased = near.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
    let fence = leased["jobs"][0]["lease"]["fence"].clone();
    let report = async |percent: f64| {
        let body = json!({ "fence": fence, "percent": percent, "message": "cutting", "data": { "n": 1 } });
        near.call("POST", &format!("{path}/progress"), body).await.is(200);
    };
    report(10.0).await;
    for listens_to in [far, near] {
        let mut stream = EventStream::open(listens_to, OPERATOR, &channel, None).await;
        assert_eq!(stream.next().await.kind, "ready");
        let last = stream.next().await;
        assert_eq!((last.kind.as_str(), &last.data["percent"]), ("progress", &json!(10.0)), "it begins with the last");
    }
    let mut streams = Vec::new();
    for node in &nodes {
        let mut stream = EventStream::open(node, OPERATOR, &channel, None).await;
        assert_eq!(stream.next().await.kind, "ready");
        streams.push(stream);
    }
    report(20.0).await;
    for stream in &mut streams {
        let mut heard = stream.next().await;
        if heard.data["percent"] == 10.0 {
            heard = stream.next().await;
        }
        let expected = json!({ "job": job, "fence": fence, "percent": 20.0, "message": "cutting", "data": { "n": 1 } });
        assert_eq!((heard.kind.as_str(), heard.data), ("progress", expected));
    }
    let shown = far.call("GET", &path, Value::Null).await.is(200).json();
    assert_eq!((&shown["progress"]["percent"], &shown["progress"]["fence"]), (&json!(20.0), &fence));
    assert!(shown["progress"]["at"].is_string(), "{shown}");
    drop(streams);
    for node in nodes {
        node.stop().await;
    }
    // The last report survives a restart.
    let again = TestServer::on(url, Settings::default()).await;
    let shown = again.call("GET", &path, Value::Null).await.is(200).json();
    assert_eq!(shown["progress"]["message"], "cutting");
    again.stop().await;
}

/// An open event stream.
pub(crate) struct EventStream {
    connection: Connection,
    text: String,
}

/// A received event.
#[derive(Debug)]
pub(crate) struct ReceivedEvent {
    id: Option<u64>,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

impl EventStream {
    pub(crate) async fn open(server: &TestServer, token: &str, channels: &str, last: Option<u64>) -> EventStream {
        let (bearer, last) = (format!("Bearer {token}"), last.map(|last| last.to_string()));
        let mut headers = vec![("Authorization", bearer.as_str())];
        headers.extend(last.iter().map(|last| ("Last-Event-ID", last.as_str())));
        let text = request("GET", &format!("/v1/events?channels={channels}"), &headers, None);
        let (connection, head) = Connection::open(server.address, &text).await;
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")), "{head:?}");
        EventStream { connection, text: String::new() }
    }

    pub(crate) async fn next(&mut self) -> ReceivedEvent {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                let event = field("event: ").map(|kind| ReceivedEvent {
                    id: field("id: ").map(|id| id.parse().unwrap()),
                    kind,
                    data: serde_json::from_str(&field("data: ").unwrap()).unwrap(),
                });
                self.text = rest.to_owned();
                match event {
                    Some(event) => return event,
                    None => continue,
                }
            }
            let part = self.connection.chunk().await.expect("the stream stays open");
            self.text.push_str(&part);
        }
    }
}

async fn events_are_ordered_and_resumable(server: TestServer) {
    let mut live = EventStream::open(&server, OPERATOR, "journal", None).await;
    assert_eq!(live.next().await.kind, "ready");
    for n in 0..5 {
        server.call("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k", "payload": n })).await.is(201);
    }
    let mut seen = Vec::new();
    for n in 0..5 {
        let event = live.next().await;
        assert_eq!((event.kind.as_str(), &event.data["data"]["spec"]["payload"]), ("job.enqueued", &json!(n)));
        assert_eq!(event.data["position"], event.id.unwrap());
        seen.push(event.id.unwrap());
    }
    assert!(seen.is_sorted());
    drop(live);
    server.call("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k", "payload": 5 })).await.is(201);
    let mut again = EventStream::open(&server, OPERATOR, "journal", Some(seen[2])).await;
    assert_eq!(again.next().await.kind, "ready");
    for n in 3..6 {
        assert_eq!(again.next().await.data["data"]["spec"]["payload"], n, "missed events come first");
    }
    server.call("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k", "payload": 6 })).await.is(201);
    assert_eq!(again.next().await.data["data"]["spec"]["payload"], 6, "live events follow");
    let mut lost = EventStream::open(&server, OPERATOR, "journal", Some(1 << 40)).await;
    assert_eq!(lost.next().await.kind, "resync", "an unknown position");
    // The last has a digit more than any position, though a 64-bit number holds it.
    for bad in ["", "-1", "+1", "1 2", "x", "18446744073709551616", "10000000000000000000"] {
        let headers = [("Last-Event-ID", bad)];
        let refused = server.call_with(OPERATOR, &headers, "GET", "/v1/events", Value::Null).await.is(400).json();
        assert_eq!(refused["field"], "last-event-id", "{bad}");
    }
    server.stop().await;
}

async fn channels_select_events_and_are_authorized(server: TestServer) {
    server.call("PUT", "/v1/budgets/room", json!({ "limits": [{ "amount": 9, "window": "day" }] })).await.is(200);
    let job = server.call("POST", "/v1/jobs", json!({ "queue": "media", "kind": "k" })).await.is(201).json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let user = server.key("default", "user").await;
    let mut one = EventStream::open(&server, &user, &format!("job:{job},budget:room"), None).await;
    let mut queue = EventStream::open(&server, &user, "queue:media", None).await;
    assert_eq!((one.next().await.kind.as_str(), queue.next().await.kind.as_str()), ("ready", "ready"));
    server.call("POST", "/v1/jobs", json!({ "queue": "other", "kind": "k" })).await.is(201);
    server.call("POST", "/v1/commands", json!({ "charges": [{ "scope": "room", "amount": 1 }] })).await.is(201);
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["media"] })).await.is(200).json();
    let fence = leased["jobs"][0]["lease"]["fence"].clone();
    server.call("POST", &format!("/v1/jobs/{job}/progress"), json!({ "fence": fence, "percent": 40.0 })).await.is(200);
    let among_many = json!({ "items": [{ "id": job, "fence": fence, "progress": { "percent": 80.0 } }] });
    server.call("POST", "/v1/jobs/heartbeat", among_many).await.is(200);
    server.call("POST", &format!("/v1/jobs/{job}/complete"), json!({ "fence": fence })).await.is(200);
    let mut events = Vec::new();
    for _ in 0..5 {
        events.push(one.next().await);
    }
    // Progress is not stored in the journal, so it may arrive before journal events.
    let (progress, journal): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| event.kind == "progress");
    let percents: Vec<_> = progress.iter().map(|event| event.data["percent"].clone()).collect();
    assert_eq!(percents, [json!(40.0), json!(80.0)]);
    let kinds: Vec<_> = journal.into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, ["spend.posted", "job.leased", "job.succeeded"]);
    assert_eq!((queue.next().await.kind.as_str(), queue.next().await.kind.as_str()), ("job.leased", "job.succeeded"));
    let refuse = async |token: &str, channels: &str, status: u16| {
        server.call_as(token, "GET", &format!("/v1/events?channels={channels}"), Value::Null).await.is(status).problem()
    };
    assert_eq!(refuse(&user, "journal", 403).await, "forbidden");
    assert_eq!(refuse(&user, "queue:media,journal", 403).await, "forbidden", "one forbidden channel fails the request");
    let worker = server.worker("default", json!({ "queues": ["media"], "kinds": ["k"] })).await;
    assert_eq!(refuse(&worker, "queue:other", 403).await, "forbidden");
    assert_eq!(refuse(&worker, "budget:room", 403).await, "forbidden");
    EventStream::open(&server, &worker, &format!("queue:media,job:{job}"), None).await;
    for bad in ["", "nonsense", "job:x"] {
        assert_eq!(refuse(OPERATOR, bad, 400).await, "invalid", "{bad}");
    }
    server.stop().await;
}
