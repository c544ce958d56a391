//! Event streams over a WebSocket.

use std::net::SocketAddr;
use std::time::Duration;

use bursar_server::{Limits, Settings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};

use crate::client::{Connection, Response};
use crate::test_server::{OPERATOR, TestServer, on_both_engines};

/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(120);

on_both_engines!(a_socket_has_the_events_of_a_stream, channels_of_a_socket_are_authorized);

/// The key of a handshake, and its answer in the specification.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A received frame.
#[derive(Debug, PartialEq)]
enum Frame {
    Message(Value),
    Ping,
    Pong(Vec<u8>),
    Close(u16),
}

/// An open WebSocket.
struct Socket(TcpStream);

/// Returns a request for a WebSocket.
fn handshake(path: &str, headers: &[(&str, &str)]) -> String {
    let mut text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text + "\r\n"
}

const PLAIN: [(&str, &str); 2] = [("Sec-WebSocket-Key", KEY), ("Sec-WebSocket-Version", "13")];

/// Sends a handshake that is refused.
async fn refused(server: &TestServer, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(handshake(path, headers).as_bytes()).await.unwrap();
    Connection::of(stream).response().await
}

impl Socket {
    async fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> (Socket, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let text = handshake(path, &[PLAIN.as_slice(), headers].concat());
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(
            head.to_ascii_lowercase().contains(&format!("sec-websocket-accept: {}\r\n", ACCEPT.to_ascii_lowercase()))
        );
        (Socket(stream), head)
    }

    /// Opens a socket with a token in the header.
    async fn with_token(server: &TestServer, token: &str, query: &str) -> Socket {
        let bearer = format!("Bearer {token}");
        let path = format!("/v1/events?{query}");
        Socket::open(server.address, &path, &[("Authorization", &bearer)]).await.0
    }

    async fn frame(&mut self) -> Frame {
        timeout(PATIENCE, self.read_frame()).await.expect("a frame in time")
    }

    async fn read_frame(&mut self) -> Frame {
        let [first, second] = [self.0.read_u8().await.unwrap(), self.0.read_u8().await.unwrap()];
        let length = match second {
            126 => u64::from(self.0.read_u16().await.unwrap()),
            127 => self.0.read_u64().await.unwrap(),
            short => u64::from(short),
        };
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).await.unwrap();
        match first {
            0x81 => Frame::Message(serde_json::from_slice(&payload).unwrap()),
            0x88 => Frame::Close(u16::from_be_bytes([payload[0], payload[1]])),
            0x89 => Frame::Ping,
            0x8A => Frame::Pong(payload),
            other => panic!("a frame of the kind {other:x}"),
        }
    }

    /// Returns the next event, and answers pings before it.
    async fn event(&mut self) -> Value {
        loop {
            match self.frame().await {
                Frame::Message(message) if message["event"] == "heartbeat" => {}
                Frame::Message(message) => return message,
                Frame::Ping => self.send(0x8A, b"").await,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Returns the code with which the server closes.
    async fn closed(&mut self) -> u16 {
        loop {
            match self.frame().await {
                Frame::Close(code) => return code,
                Frame::Ping => self.send(0x8A, b"").await,
                Frame::Message(_) | Frame::Pong(_) => {}
            }
        }
    }

    async fn send(&mut self, first: u8, payload: &[u8]) {
        let mut frame = vec![first, 0x80 | payload.len() as u8, 1, 2, 3, 4];
        frame.extend(payload.iter().zip([1, 2, 3, 4].iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.0.write_all(&frame).await.unwrap();
    }
}

async fn enqueue(server: &TestServer, payload: Value) {
    server.call("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k", "payload": payload })).await.is(201);
}

async fn metric(server: &TestServer, name: &str) -> u64 {
    let text = server.call("GET", "/metrics", Value::Null).await.is(200).text;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()).unwrap()
}

async fn a_socket_has_the_events_of_a_stream(server: TestServer) {
    let protocols = format!("bursar.events, bearer.{OPERATOR}");
    let by_protocol = [("Sec-WebSocket-Protocol", protocols.as_str())];
    let (mut live, head) = Socket::open(server.address, "/v1/events?channels=queue:q", &by_protocol).await;
    let head = head.to_ascii_lowercase();
    assert!(head.contains("sec-websocket-protocol: bursar.events\r\n"), "{head}");
    assert!(!head.contains(&OPERATOR.to_ascii_lowercase()), "a token is not repeated");
    let ready = live.event().await;
    assert_eq!(ready["event"], "ready");
    // The last one needs the longest form of a length.
    let payloads = [json!(1), json!("x".repeat(200)), json!("y".repeat(70_000))];
    let mut ids = Vec::new();
    for payload in &payloads {
        enqueue(&server, payload.clone()).await;
        let event = live.event().await;
        assert_eq!((&event["event"], &event["data"]["position"]), (&json!("job.enqueued"), &event["id"]));
        assert_eq!(event["data"]["data"]["spec"]["payload"].as_str().map(str::len), payload.as_str().map(str::len));
        ids.push(event["id"].as_u64().unwrap());
    }
    assert!(ids.is_sorted());
    // A client continues with the last id: in the query, because a browser cannot set headers, or in the header.
    let mut again = Socket::with_token(&server, OPERATOR, &format!("channels=queue:q&after={}", ids[0])).await;
    let (bearer, last) = (format!("Bearer {OPERATOR}"), ids[0].to_string());
    let headers = [("Authorization", bearer.as_str()), ("Last-Event-ID", &last)];
    let (mut by_header, _) = Socket::open(server.address, "/v1/events?channels=queue:q", &headers).await;
    for socket in [&mut again, &mut by_header] {
        assert_eq!(socket.event().await["event"], "ready");
        for id in &ids[1..] {
            assert_eq!(socket.event().await["id"], *id, "missed events come first");
        }
    }
    enqueue(&server, json!(2)).await;
    assert_eq!(again.event().await["data"]["data"]["spec"]["payload"], 2, "live events follow");
    let mut lost = Socket::with_token(&server, OPERATOR, &format!("after={}", 1_u64 << 40)).await;
    assert_eq!(lost.event().await["event"], "resync");
    // A ping is answered, a close is answered, and data closes the stream.
    lost.send(0x89, b"are you there").await;
    assert_eq!(lost.frame().await, Frame::Pong(b"are you there".to_vec()));
    lost.send(0x88, &1000_u16.to_be_bytes()).await;
    assert_eq!(lost.closed().await, 1000);
    again.send(0x81, b"hello").await;
    assert_eq!(again.closed().await, 1003);
    by_header.0.write_all(&[0x89, 0]).await.unwrap();
    assert_eq!(by_header.closed().await, 1002, "a frame that is not masked");
    server.stop().await;
}

/// Channels, headers, and the status and problem of the refusal.
type RefusedCase<'c> = (&'c str, Vec<(&'c str, &'c str)>, u16, &'c str);

async fn channels_of_a_socket_are_authorized(server: TestServer) {
    let (user, bad) = (server.key("default", "user").await, [("Sec-WebSocket-Key", "short"), PLAIN[1]]);
    let (bearer, operator) = (format!("Bearer {user}"), format!("Bearer {OPERATOR}"));
    let user_protocol = format!("bursar.events, bearer.{user}");
    let alone = format!("bearer.{OPERATOR}");
    let (by_header, by_operator) = (("Authorization", bearer.as_str()), ("Authorization", operator.as_str()));
    let by_protocol = ("Sec-WebSocket-Protocol", user_protocol.as_str());
    // Each is refused before the connection becomes a WebSocket, as a stream of server-sent events would be.
    let cases: [RefusedCase<'_>; 10] = [
        ("journal", vec![PLAIN[0], PLAIN[1], by_header], 403, "forbidden"),
        ("journal", vec![PLAIN[0], PLAIN[1], by_protocol], 403, "forbidden"),
        ("queue:q,journal", vec![PLAIN[0], PLAIN[1], by_protocol], 403, "forbidden"),
        ("queue:q", vec![PLAIN[0], PLAIN[1]], 401, "unauthorized"),
        ("queue:q", vec![PLAIN[0], PLAIN[1], by_header, by_protocol], 401, "unauthorized"),
        ("queue:q", vec![PLAIN[0], PLAIN[1], ("Sec-WebSocket-Protocol", &alone)], 400, "invalid"),
        ("nonsense", vec![PLAIN[0], PLAIN[1], by_header], 400, "invalid"),
        ("queue:q", vec![bad[0], bad[1], by_header], 400, "invalid"),
        ("queue:q", vec![PLAIN[0], ("Sec-WebSocket-Version", "8"), by_header], 400, "invalid"),
        ("queue:q", vec![PLAIN[0], PLAIN[1], by_header, ("Last-Event-ID", "x")], 400, "invalid"),
    ];
    for (channels, headers, status, problem) in cases {
        let answer = refused(&server, &format!("/v1/events?channels={channels}"), &headers).await.is(status);
        assert_eq!(answer.problem(), problem, "{channels} {headers:?}");
    }
    // Another tenant's events are not sent.
    let elsewhere = [by_operator, ("Bursar-Tenant", "other")];
    let (mut theirs, _) = Socket::open(server.address, "/v1/events", &elsewhere).await;
    assert_eq!(theirs.event().await["event"], "ready");
    enqueue(&server, json!(1)).await;
    let other = json!({ "queue": "theirs", "kind": "k" });
    server.call_with(OPERATOR, &[("Bursar-Tenant", "other")], "POST", "/v1/jobs", other).await.is(201);
    assert_eq!(theirs.event().await["data"]["data"]["spec"]["queue"], "theirs");
    // On other routes, a request for a WebSocket is an ordinary request.
    let plain = refused(&server, "/v1/queues", &[PLAIN[0], PLAIN[1], by_operator, ("Connection", "close")]).await;
    assert_eq!(plain.is(200).json()["items"][0]["name"], "q");
    drop(theirs);
    server.stop().await;
}

#[tokio::test]
async fn a_socket_resumes_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let server = TestServer::on(&url, Settings::default()).await;
    let mut live = Socket::with_token(&server, OPERATOR, "channels=queue:q").await;
    assert_eq!(live.event().await["event"], "ready");
    enqueue(&server, json!(1)).await;
    let seen = live.event().await["id"].as_u64().unwrap();
    enqueue(&server, json!(2)).await;
    // The server waits until its sockets are closed.
    let (stopped, code) = tokio::join!(timeout(PATIENCE, server.stop()), live.closed());
    assert!(stopped.is_ok());
    assert_eq!(code, 1001);
    drop(live);

    let server = TestServer::on(&url, Settings::default()).await;
    enqueue(&server, json!(3)).await;
    let mut again = Socket::with_token(&server, OPERATOR, &format!("channels=queue:q&after={seen}")).await;
    assert_eq!(again.event().await["event"], "ready");
    for payload in [2, 3] {
        assert_eq!(again.event().await["data"]["data"]["spec"]["payload"], payload);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_socket_is_closed_when_its_token_is_revoked() {
    let limits = Limits { heartbeat: Duration::from_millis(20), ..Limits::default() };
    let server = TestServer::limited(limits).await;
    let key = server.key("default", "viewer").await;
    let keys = server.call("GET", "/v1/keys", Value::Null).await.is(200).json();
    let id = keys["items"][0]["id"].as_str().unwrap();
    let mut socket = Socket::with_token(&server, &key, "channels=journal").await;
    assert_eq!(socket.event().await["event"], "ready");
    // The heartbeat is a ping and a message.
    let mut seen = [false; 2];
    while seen != [true; 2] {
        match socket.frame().await {
            Frame::Ping => {
                seen[0] = true;
                socket.send(0x8A, b"").await;
            }
            Frame::Message(message) if message == json!({ "event": "heartbeat" }) => seen[1] = true,
            Frame::Message(_) => {}
            other => panic!("{other:?}"),
        }
    }
    server.call("DELETE", &format!("/v1/keys/{id}"), Value::Null).await.is(204);
    assert_eq!(socket.closed().await, 1008);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_does_not_answer_or_read_is_dropped() {
    let limits = Limits { heartbeat: Duration::from_millis(20), stall: Duration::from_secs(3), ..Limits::default() };
    let server = TestServer::limited(limits).await;
    let mut silent = Socket::with_token(&server, OPERATOR, "channels=journal").await;
    let code = loop {
        match silent.frame().await {
            Frame::Close(code) => break code,
            Frame::Ping | Frame::Message(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code, 1013);
    drop(silent);
    assert_eq!(metric(&server, "bursar_event_listeners_dropped_total").await, 1);
    server.stop().await;

    // Without heartbeats, one that reads nothing is dropped once it is too far behind.
    let limits = Limits { stall: Duration::from_secs(3), ..Limits::default() };
    let server = TestServer::limited(limits).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut unread = socket.connect(server.address).await.unwrap();
    let bearer = format!("Bearer {OPERATOR}");
    let text = handshake("/v1/events?channels=journal", &[PLAIN[0], PLAIN[1], ("Authorization", &bearer)]);
    unread.write_all(text.as_bytes()).await.unwrap();
    let until = Instant::now() + PATIENCE;
    while metric(&server, "bursar_event_listeners").await == 0 {
        assert!(Instant::now() < until, "the socket is not open");
    }
    let text = "x".repeat(900);
    while metric(&server, "bursar_event_listeners").await == 1 {
        assert!(Instant::now() < until, "the client that does not read is not dropped");
        let jobs: Vec<Value> = (0..500).map(|_| json!({ "queue": "q", "kind": "k", "payload": text })).collect();
        server.call("POST", "/v1/jobs/bulk", json!({ "jobs": jobs })).await.is(200);
    }
    drop(unread);
    server.stop().await;
}

#[tokio::test]
async fn sockets_count_as_streams_and_as_connections() {
    let limits = Limits { waiting: 1, ..Limits::default() };
    let server = TestServer::limited(limits).await;
    let mut first = Socket::with_token(&server, OPERATOR, "channels=queue:q").await;
    assert_eq!(first.event().await["event"], "ready");
    // Besides the socket there is the connection of the request for metrics.
    assert_eq!(metric(&server, "bursar_http_connections").await, 2);
    assert_eq!(metric(&server, "bursar_event_listeners").await, 1);
    let bearer = format!("Bearer {OPERATOR}");
    let second = [PLAIN[0], PLAIN[1], ("Authorization", bearer.as_str())];
    let full = refused(&server, "/v1/events?channels=queue:q", &second).await.is(503);
    assert_eq!(full.problem(), "overloaded");
    first.send(0x88, &1000_u16.to_be_bytes()).await;
    assert_eq!(first.closed().await, 1000);
    drop(first);
    let until = Instant::now() + PATIENCE;
    while metric(&server, "bursar_http_connections").await > 1 {
        assert!(Instant::now() < until, "the connection of the socket is still counted");
    }
    assert_eq!(metric(&server, "bursar_event_listeners").await, 0);
    Socket::with_token(&server, OPERATOR, "channels=queue:q").await;
    server.stop().await;
}
