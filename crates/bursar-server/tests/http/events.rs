//! Events as they happen.

use std::time::Duration;

use bursar_server::Limits;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::time::Instant;

use crate::client::{Connection, request};
use crate::home::{Home, OPERATOR, on_both};

/// Longer than anything takes that is not stuck.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_stream_ends_with_its_token_and_beats_until_then() {
    let limits = Limits { heartbeat: Duration::from_millis(20), ..Limits::default() };
    let home = Home::limited(limits).await;
    let key = home.key("default", "viewer").await;
    let id =
        home.ask("GET", "/v1/keys", Value::Null).await.is(200).json()["items"][0]["id"].as_str().unwrap().to_owned();
    let mut stream = Listening::open(&home, &key, "journal", None).await;
    assert_eq!(stream.next().await.kind, "ready");
    // Events may come between; beats come without an end.
    while stream.connection.chunk().await.as_deref() != Some(": \n\n") {}
    home.ask("DELETE", &format!("/v1/keys/{id}"), Value::Null).await.is(204);
    while stream.connection.chunk().await.is_some() {}
    home.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_listen_is_dropped_and_delays_nobody() {
    let limits = Limits { stall: Duration::from_secs(3), ..Limits::default() };
    let home = Home::limited(limits).await;
    // It asks, and reads nothing of what it is sent.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut deaf = socket.connect(home.address).await.unwrap();
    let bearer = format!("Bearer {OPERATOR}");
    let text = request("GET", "/v1/events?channels=journal", &[("Authorization", &bearer)], None);
    deaf.write_all(text.as_bytes()).await.unwrap();
    let metric = async |name: &str| {
        let text = home.ask("GET", "/metrics", Value::Null).await.is(200).text;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap()
    };
    let until = Instant::now() + PATIENCE;
    while metric("bursar_event_listeners ").await == 0 {
        assert!(Instant::now() < until, "nobody listens");
    }
    let mut live = Listening::open(&home, OPERATOR, "journal", None).await;
    assert_eq!(live.next().await.kind, "ready");
    let text = "x".repeat(900);
    let until = Instant::now() + PATIENCE;
    while metric("bursar_event_listeners ").await == 2 {
        assert!(Instant::now() < until, "who does not listen is not dropped");
        let jobs: Vec<Value> = (0..500).map(|_| json!({ "queue": "q", "kind": "k", "payload": text })).collect();
        let hears = async {
            for _ in 0..500 {
                assert_eq!(live.next().await.kind, "job.enqueued", "who listens hears everything");
            }
        };
        let (told, ()) = tokio::join!(home.ask("POST", "/v1/jobs/bulk", json!({ "jobs": jobs })), hears);
        told.is(200);
    }
    drop(deaf);
    home.stop().await;
}

on_both!(events_come_in_order_and_go_on_where_they_broke_off, channels_choose_and_are_refused);

/// A stream of events.
struct Listening {
    connection: Connection,
    text: String,
}

/// An event, as it was told.
#[derive(Debug)]
struct Told {
    id: Option<u64>,
    kind: String,
    data: Value,
}

impl Listening {
    async fn open(home: &Home, token: &str, channels: &str, last: Option<u64>) -> Listening {
        let (bearer, last) = (format!("Bearer {token}"), last.map(|last| last.to_string()));
        let mut headers = vec![("Authorization", bearer.as_str())];
        headers.extend(last.iter().map(|last| ("Last-Event-ID", last.as_str())));
        let text = request("GET", &format!("/v1/events?channels={channels}"), &headers, None);
        let (connection, head) = Connection::open(home.address, &text).await;
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")), "{head:?}");
        Listening { connection, text: String::new() }
    }

    async fn next(&mut self) -> Told {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                let told = field("event: ").map(|kind| Told {
                    id: field("id: ").map(|id| id.parse().unwrap()),
                    kind,
                    data: serde_json::from_str(&field("data: ").unwrap()).unwrap(),
                });
                self.text = rest.to_owned();
                match told {
                    Some(told) => return told,
                    None => continue,
                }
            }
            let part = self.connection.chunk().await.expect("the stream goes on");
            self.text.push_str(&part);
        }
    }
}

async fn events_come_in_order_and_go_on_where_they_broke_off(home: Home) {
    let mut live = Listening::open(&home, OPERATOR, "journal", None).await;
    assert_eq!(live.next().await.kind, "ready");
    for n in 0..5 {
        home.ask("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k", "payload": n })).await.is(201);
    }
    let mut seen = Vec::new();
    for n in 0..5 {
        let told = live.next().await;
        assert_eq!((told.kind.as_str(), &told.data["data"]["spec"]["payload"]), ("job.enqueued", &json!(n)));
        assert_eq!(told.data["position"], told.id.unwrap());
        seen.push(told.id.unwrap());
    }
    assert!(seen.is_sorted());
    drop(live);
    home.ask("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k", "payload": 5 })).await.is(201);
    let mut again = Listening::open(&home, OPERATOR, "journal", Some(seen[2])).await;
    assert_eq!(again.next().await.kind, "ready");
    for n in 3..6 {
        assert_eq!(again.next().await.data["data"]["spec"]["payload"], n, "what was missed comes first");
    }
    home.ask("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k", "payload": 6 })).await.is(201);
    assert_eq!(again.next().await.data["data"]["spec"]["payload"], 6, "then what happens");
    let mut lost = Listening::open(&home, OPERATOR, "journal", Some(1 << 40)).await;
    assert_eq!(lost.next().await.kind, "resync", "a position that was never told");
    home.stop().await;
}

async fn channels_choose_and_are_refused(home: Home) {
    home.ask("PUT", "/v1/budgets/room", json!({ "limits": [{ "amount": 9, "window": "day" }] })).await.is(200);
    let job = home.ask("POST", "/v1/jobs", json!({ "queue": "media", "kind": "k" })).await.is(201).json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let user = home.key("default", "user").await;
    let mut one = Listening::open(&home, &user, &format!("job:{job},budget:room"), None).await;
    let mut queue = Listening::open(&home, &user, "queue:media", None).await;
    assert_eq!((one.next().await.kind.as_str(), queue.next().await.kind.as_str()), ("ready", "ready"));
    home.ask("POST", "/v1/jobs", json!({ "queue": "other", "kind": "k" })).await.is(201);
    home.ask("POST", "/v1/commands", json!({ "charges": [{ "scope": "room", "amount": 1 }] })).await.is(201);
    let leased = home.ask("POST", "/v1/jobs/lease", json!({ "queues": ["media"] })).await.is(200).json();
    let fence = leased["jobs"][0]["lease"]["fence"].clone();
    home.ask("POST", &format!("/v1/jobs/{job}/progress"), json!({ "fence": fence, "percent": 40.0 })).await.is(200);
    let among_many = json!({ "items": [{ "id": job, "fence": fence, "progress": { "percent": 80.0 } }] });
    home.ask("POST", "/v1/jobs/heartbeat", among_many).await.is(200);
    home.ask("POST", &format!("/v1/jobs/{job}/complete"), json!({ "fence": fence })).await.is(200);
    let mut events = Vec::new();
    for _ in 0..5 {
        events.push(one.next().await);
    }
    // Progress is told at once and kept nowhere, so that it may come before what is read from the journal.
    let (told, kept): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| event.kind == "progress");
    let percents: Vec<_> = told.iter().map(|event| event.data["percent"].clone()).collect();
    assert_eq!(percents, [json!(40.0), json!(80.0)]);
    let kinds: Vec<_> = kept.into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, ["spend.posted", "job.leased", "job.succeeded"]);
    assert_eq!((queue.next().await.kind.as_str(), queue.next().await.kind.as_str()), ("job.leased", "job.succeeded"));
    let refuse = async |token: &str, channels: &str, status: u16| {
        home.ask_as(token, "GET", &format!("/v1/events?channels={channels}"), Value::Null).await.is(status).problem()
    };
    assert_eq!(refuse(&user, "journal", 403).await, "forbidden");
    assert_eq!(refuse(&user, "queue:media,journal", 403).await, "forbidden", "one that may not be read is enough");
    let worker = home.worker("default", json!({ "queues": ["media"], "kinds": ["k"] })).await;
    assert_eq!(refuse(&worker, "queue:other", 403).await, "forbidden");
    assert_eq!(refuse(&worker, "budget:room", 403).await, "forbidden");
    Listening::open(&home, &worker, &format!("queue:media,job:{job}"), None).await;
    for bad in ["", "nonsense", "job:x"] {
        assert_eq!(refuse(OPERATOR, bad, 400).await, "invalid", "{bad}");
    }
    home.stop().await;
}
