//! Bounds on the memory and connections that one client can occupy.

use std::time::Duration;

use bursar_server::Limits;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::client::request;
use crate::test_server::{OPERATOR, TestServer, on_both_engines};

const PATIENCE: Duration = Duration::from_secs(60);

async fn figure(server: &TestServer, name: &str) -> u64 {
    let text = server.call("GET", "/metrics", Value::Null).await.is(200).text;
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap()
}

/// Opens a connection with a small receive buffer.
async fn narrow(server: &TestServer) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2_048).unwrap();
    socket.connect(server.address).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_reads_nothing_is_closed() {
    let server = TestServer::limited(Limits { stall: Duration::from_secs(5), ..Limits::default() }).await;
    let get = request("GET", "/v1/openapi.json", &[], None).replace("Connection: close\r\n", "");
    let mut unread = Vec::new();
    for _ in 0..20 {
        let mut stream = narrow(&server).await;
        stream.write_all(get.repeat(40).as_bytes()).await.unwrap();
        unread.push(stream);
    }
    let until = tokio::time::Instant::now() + PATIENCE;
    while figure(&server, "bursar_http_connections ").await < 20 {
        assert!(tokio::time::Instant::now() < until, "the connections are not open");
    }
    while figure(&server, "bursar_http_connections ").await > 2 {
        assert!(tokio::time::Instant::now() < until, "the connections are not closed");
    }
    drop(unread);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_body_times_out() {
    let server =
        TestServer::limited(Limits { stall: Duration::from_millis(300), rate: 1 << 20, ..Limits::default() }).await;
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {OPERATOR}\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    );
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = slow.into_split();
    let drip = tokio::spawn(async move {
        let mut beat = tokio::time::interval(Duration::from_millis(50));
        while writer.write_all(b" ").await.is_ok() {
            beat.tick().await;
        }
    });
    let mut response = vec![0; 1 << 12];
    let read = tokio::time::timeout(PATIENCE, reader.read(&mut response)).await.expect("a response in time").unwrap();
    assert!(response[..read].starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&response[..read]));
    drip.abort();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_are_counted_before_they_are_read() {
    let slow = Duration::from_secs(600);
    let limits = Limits { bytes: 16 << 20, principal_bytes: 8 << 20, stall: slow, body: slow, ..Limits::default() };
    let server = TestServer::limited(limits).await;
    let (one, other) = (server.key("one", "user").await, server.key("other", "user").await);
    let begin = async |token: &str, length: usize| {
        let head = format!(
            "POST /v1/jobs/bulk HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
        );
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = vec![0; 1 << 12];
        let read = stream.read(&mut response).await.unwrap();
        (stream, String::from_utf8_lossy(&response[..read]).into_owned())
    };
    let (first, response) = begin(&one, 6 << 20).await;
    assert!(response.starts_with("HTTP/1.1 100 "), "{response}");
    let (_, response) = begin(&one, 6 << 20).await;
    assert!(response.starts_with("HTTP/1.1 429 ") && response.contains("too-many-bytes"), "{response}");
    assert!(response.to_ascii_lowercase().contains("retry-after: 1"), "{response}");
    let (second, response) = begin(&other, 7 << 20).await;
    assert!(response.starts_with("HTTP/1.1 100 "), "the limit of one principal does not affect another: {response}");
    let (_, response) = begin(&server.key("third", "user").await, 6 << 20).await;
    assert!(response.starts_with("HTTP/1.1 503 ") && response.contains("overloaded"), "{response}");
    // Small requests still work, and aborted bodies free their memory.
    server.call_as(&one, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
    drop((first, second));
    let until = tokio::time::Instant::now() + PATIENCE;
    while figure(&server, "bursar_http_bytes_in_flight ").await > 0 {
        assert!(tokio::time::Instant::now() < until, "aborted bodies are still counted");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_of_finished_requests_are_not_counted() {
    let server = TestServer::limited(Limits::default()).await;
    let mut kept = crate::client::Connection::of(TcpStream::connect(server.address).await.unwrap());
    let get = format!("GET /livez HTTP/1.1\r\nHost: x\r\nX-Pad: {}\r\n\r\n", "x".repeat(6_000));
    for _ in 0..50 {
        kept.exchange(&get).await.is(200);
    }
    assert_eq!(figure(&server, "bursar_http_bytes_in_flight ").await, 0);
    server.stop().await;
}

async fn pages_of_medium_payloads_are_complete(server: TestServer) {
    let payload = "x".repeat(5_000);
    let job = json!({ "queue": "q", "kind": "k", "payload": payload });
    for _ in 0..2 {
        server.call("POST", "/v1/jobs/bulk", json!({ "jobs": vec![job.clone(); 600] })).await.is(200);
    }
    let (mut next, mut found) = (None, 0);
    loop {
        let cursor = next.map_or(String::new(), |next: String| format!("&cursor={next}"));
        let page = server.call("GET", &format!("/v1/jobs?limit=1000{cursor}"), Value::Null).await.is(200).json();
        found += page["items"].as_array().unwrap().len();
        match page["next"].as_str() {
            Some(more) => next = Some(more.to_owned()),
            None => break,
        }
    }
    assert_eq!(found, 1_200, "pagination returns all jobs");
    server.stop().await;
}

/// Enqueues jobs whose payloads fill several pages; returns how many.
async fn large_jobs(server: &TestServer) -> usize {
    let payload = "x".repeat(700_000);
    for _ in 0..3 {
        let job = json!({ "queue": "q", "kind": "k", "payload": payload });
        server.call("POST", "/v1/jobs/bulk", json!({ "jobs": vec![job; 5] })).await.is(200);
    }
    15
}

async fn pages_are_bounded_in_bytes(server: TestServer) {
    let jobs = large_jobs(&server).await;
    for (path, wanted) in [("/v1/jobs?limit=1000", jobs), ("/v1/journal?limit=1000&kind=job.enqueued", jobs)] {
        let (mut next, mut found, mut pages) = (None, Vec::new(), 0);
        loop {
            let cursor = next.map_or(String::new(), |next: String| format!("&cursor={next}"));
            let page = server.call("GET", &format!("{path}{cursor}"), Value::Null).await.is(200);
            assert!(page.text.len() < 6 << 20, "{path}: a page of {} bytes", page.text.len());
            let page = page.json();
            let name = |item: &Value| item.get("position").unwrap_or(&item["id"]).to_string();
            found.extend(page["items"].as_array().unwrap().iter().map(name));
            pages += 1;
            match page["next"].as_str() {
                Some(more) => next = Some(more.to_owned()),
                None => break,
            }
        }
        assert!(pages > 2, "{path}: {pages} pages");
        assert_eq!(found.len(), wanted, "{path}: all of them");
        found.sort();
        found.dedup();
        assert_eq!(found.len(), wanted, "{path}: each once");
    }
    // A lease request returns as many jobs as fit into one response.
    let mut leased = 0;
    while leased < jobs {
        let answer = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"], "capacity": 1000 })).await.is(200);
        let some = answer.json()["jobs"].as_array().unwrap().len();
        assert!((1..=7).contains(&some), "{some} jobs of 700,000 bytes at once");
        leased += some;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_responses_are_counted_and_bounded() {
    let stall = Duration::from_secs(600);
    let limits = Limits { bytes: 32 << 20, principal_bytes: 16 << 20, stall, ..Limits::default() };
    let server = TestServer::limited(limits).await;
    large_jobs(&server).await;
    let key = server.key("default", "viewer").await;
    let bearer = format!("Bearer {key}");
    let get = request("GET", "/v1/jobs?limit=1000", &[("Authorization", &bearer)], None);
    let mut unread = Vec::new();
    for _ in 0..8 {
        let mut stream = narrow(&server).await;
        stream.write_all(get.as_bytes()).await.unwrap();
        unread.push(stream);
    }
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        assert!(figure(&server, "bursar_http_bytes_in_flight ").await <= 16 << 20);
        let refused = server.call_as(&key, "GET", "/v1/jobs?limit=1000", Value::Null).await;
        if refused.status == 429 {
            break assert_eq!(refused.problem(), "too-many-bytes");
        }
        assert!(tokio::time::Instant::now() < until, "unread responses are not bounded");
    }
    server.call("GET", "/v1/jobs?limit=1000", Value::Null).await.is(200);
    drop(unread);
    let until = tokio::time::Instant::now() + PATIENCE;
    while figure(&server, "bursar_http_bytes_in_flight ").await > 0 {
        assert!(tokio::time::Instant::now() < until, "dropped responses are still counted");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_size_of_a_head_is_bounded() {
    let server = TestServer::limited(Limits::default()).await;
    for (bytes, status) in [(60_000, 200), (66_000, 431), (100_000, 431)] {
        let pad = "x".repeat(bytes);
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let get = request("GET", "/livez", &[("X-Pad", &pad)], None);
        stream.write_all(get.as_bytes()).await.unwrap();
        let mut response = vec![0; 1 << 12];
        let read = stream.read(&mut response).await.unwrap();
        let response = String::from_utf8_lossy(&response[..read]).into_owned();
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{bytes}: {response}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_size_of_progress_is_bounded() {
    let server = TestServer::limited(Limits::default()).await;
    server.call("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
    let leased = server.call("POST", "/v1/jobs/lease", json!({ "queues": ["q"] })).await.is(200).json();
    let (id, fence) =
        (leased["jobs"][0]["id"].as_str().unwrap().to_owned(), leased["jobs"][0]["lease"]["fence"].clone());
    for (bytes, status) in [(16_000, 200), (17_000, 400)] {
        let progress = json!({ "fence": fence, "percent": 4, "data": "x".repeat(bytes) });
        server.call("POST", &format!("/v1/jobs/{id}/progress"), progress).await.is(status);
        let many = json!({ "items": [{ "id": id, "fence": fence, "data": "x".repeat(bytes) }] });
        // Another item of the same call is not concerned.
        let many = server.call("POST", "/v1/jobs/progress", many).await.is(200).json();
        let answered = many["items"][0]["problem"]["status"].as_u64().unwrap_or(200);
        assert_eq!(answered, u64::from(status), "{many}");
        let saved = json!({ "fence": fence, "checkpoint": "x".repeat(bytes) });
        let answer = server.call("POST", &format!("/v1/jobs/{id}/progress"), saved).await.is(status).json();
        if status == 400 {
            assert_eq!(answer["field"], "checkpoint");
            assert!(answer["detail"].as_str().unwrap().contains("store larger data as a blob"), "{answer}");
        }
    }
    server.stop().await;
}

on_both_engines!(pages_are_bounded_in_bytes, pages_of_medium_payloads_are_complete);
