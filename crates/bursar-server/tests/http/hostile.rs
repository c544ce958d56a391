//! Requests that are malformed, too large, too slow or too many.

use std::time::Duration;

use bursar_server::{Limits, Settings, route_list};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Connection, request, send};
use crate::permissions::example_path;
use crate::test_server::{OPERATOR, TestServer};

async fn post(server: &TestServer, path: &str, headers: &[(&str, &str)], body: &str) -> crate::client::Response {
    let bearer = format!("Bearer {OPERATOR}");
    let mut all = vec![("Authorization", bearer.as_str())];
    all.extend(headers);
    send(server.address, request("POST", path, &all, Some(body)).as_bytes()).await
}

const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

#[tokio::test]
async fn an_invalid_field_is_named_in_the_problem() {
    let server = TestServer::limited(Limits::default()).await;
    let deep = format!("{{\"queue\":\"q\",\"kind\":\"k\",\"payload\":{}1{}}}", "[".repeat(9_000), "]".repeat(9_000));
    for (body, field) in [
        (r#"{"queue":"q","kind":"k","prio":1}"#, "prio"),
        (r#"{"queue":"q"}"#, "kind"),
        (r#"{"queue":"q","queue":"r","kind":"k"}"#, "queue"),
        (r#"{"queue":"q","kind":"k","payload":{"a":1,"a":2}}"#, "a"),
        (&deep, "body"),
        ("", "queue"),
        ("[]", "body"),
        ("{", "body"),
        ("nonsense", "body"),
        (r#"["q","k"]"#, "body"),
        (r#"{"queue":"q","kind":"k","retry":["exponential",3]}"#, "retry"),
        (r#"{"queue":"q","kind":"k","priority":99999999999}"#, "priority"),
        (r#"{"queue":"","kind":"k"}"#, "queue"),
        (r#"{"queue":"q","kind":"k","delay_ms":-1}"#, "delay_ms"),
    ] {
        let answer = post(&server, "/v1/jobs", &JSON, body).await.is(400);
        assert_eq!(answer.problem(), "invalid");
        assert_eq!(answer.json()["field"], field, "{body:.80}: {}", answer.text);
    }
    for (path, field) in [
        ("/v1/jobs?colour=red", "colour"),
        ("/v1/jobs?limit=0", "limit"),
        ("/v1/jobs?limit=1001", "limit"),
        ("/v1/jobs?limit=x", "limit"),
        ("/v1/jobs?cursor=x", "cursor"),
        ("/v1/jobs?queue=a&queue=b", "queue"),
    ] {
        let answer = server.call("GET", path, Value::Null).await.is(400);
        assert_eq!(
            (answer.problem().as_str(), &answer.json()["field"]),
            ("invalid", &json!(field)),
            "{path}: {}",
            answer.text
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn wrong_methods_paths_and_media_types_are_problems() {
    let server = TestServer::limited(Limits::default()).await;
    assert_eq!(server.call("GET", "/v1/nothing", Value::Null).await.is(404).problem(), "not-found");
    assert_eq!(server.call("GET", "/v2/budgets", Value::Null).await.is(404).problem(), "not-found");
    let wrong = server.call("DELETE", "/v1/budgets", Value::Null).await.is(405);
    assert_eq!((wrong.problem().as_str(), wrong.header("allow")), ("method-not-allowed", Some("GET")));
    for headers in [
        &[][..],
        &[("Content-Type", "text/plain")],
        &[("Content-Type", "application/json"), ("Content-Encoding", "gzip")],
    ] {
        let answer = post(&server, "/v1/jobs", headers, r#"{"queue":"q","kind":"k"}"#).await.is(415);
        assert_eq!(answer.problem(), "unsupported-media-type", "{headers:?}");
    }
    post(&server, "/v1/jobs", &[("Content-Type", "application/json; charset=utf-8")], r#"{"queue":"q","kind":"k"}"#)
        .await
        .is(201);
    let path = server.call("GET", "/v1/budgets/%ff%fe", Value::Null).await.is(400);
    assert_eq!(path.problem(), "invalid");
    server.stop().await;
}

#[tokio::test]
async fn every_route_refuses_malformed_bodies() {
    let server = TestServer::limited(Limits::default()).await;
    for route in route_list().into_iter().filter(|route| route.takes_body && !route.streams) {
        for body in ["[1,2]", r#"{"no such field":1}"#, "\u{0}", "1e999", r#""\ud800""#] {
            let bearer = format!("Bearer {OPERATOR}");
            let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
            let answer =
                send(server.address, request(&route.method, &example_path(&route), &headers, Some(body)).as_bytes())
                    .await;
            assert_eq!(answer.status, 400, "{} {} {body}: {answer:?}", route.method, route.path);
            answer.problem();
        }
        let odd = example_path(&route).replace("nowhere", "%00");
        server.call(&route.method, &odd, json!({})).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn large_requests_are_cut_off() {
    let server = TestServer::limited(Limits::default()).await;
    let large = format!("{{\"queue\":\"q\",\"kind\":\"k\",\"payload\":\"{}\"}}", "x".repeat(5 << 20));
    assert_eq!(post(&server, "/v1/jobs", &JSON, &large).await.is(413).problem(), "too-large");
    let payload = format!("{{\"queue\":\"q\",\"kind\":\"k\",\"payload\":\"{}\"}}", "x".repeat(2 << 20));
    let answer = post(&server, "/v1/jobs", &JSON, &payload).await.is(400);
    assert_eq!(answer.problem(), "invalid", "a payload has its own limit");
    // Without Content-Length the size is checked as the body arrives.
    let bearer = format!("Bearer {OPERATOR}");
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    let text = format!("{head}{}0\r\n\r\n", chunk.repeat(6));
    assert_eq!(send(server.address, text.as_bytes()).await.is(413).problem(), "too-large");
    let many: String = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    let answer = send(server.address, format!("GET /livez HTTP/1.1\r\nHost: x\r\n{many}\r\n").as_bytes()).await;
    assert_eq!(answer.status, 431, "the number of headers is limited");
    server.call("GET", "/v1/budgets", Value::Null).await.is(200);
    server.stop().await;
}

#[tokio::test]
async fn slow_requests_are_cut_off() {
    let limits = Limits { body: Duration::from_millis(200), head: Duration::from_millis(300), ..Limits::default() };
    let server = TestServer::limited(limits).await;
    let bearer = format!("Bearer {OPERATOR}");
    // A body that is never completed, then a head that is never completed.
    let slow = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer}\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{{"
    );
    let (_, answer) = Connection::open(server.address, &slow).await;
    assert_eq!(answer.status, 408);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), Connection::of(stream).line()).await;
    assert!(ended.is_ok(), "the connection is closed");
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_early() {
    // If the server waited for the rest, the response would be a timeout.
    let limits = Limits { body: Duration::from_millis(200), body_bytes: 1_000, ..Limits::default() };
    let server = TestServer::limited(limits).await;
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {OPERATOR}\r\nContent-Type: application/json\r\n"
    );
    let part = "x".repeat(1_001);
    for begun in
        ["Content-Length: 1001\r\n\r\n{".to_owned(), format!("Transfer-Encoding: chunked\r\n\r\n3e9\r\n{part}\r\n")]
    {
        let (mut connection, answer) = Connection::open(server.address, &format!("{head}{begun}")).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (413, Some("application/problem+json")),
            "{answer:?}"
        );
        assert!(connection.rest(&answer).await.contains("/problems/too-large"));
        // The server closes the connection soon.
        let ended = async { while !connection.line().await.is_empty() {} };
        tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the connection is closed");
    }
    server.stop().await;
}

/// Blocks all writes to the database until the returned sender is dropped.
async fn busy(server: &TestServer) -> std::sync::mpsc::Sender<()> {
    let (free, until) = std::sync::mpsc::channel::<()>();
    let (began, has_begun) = tokio::sync::oneshot::channel();
    let bursar = server.bursar.clone();
    tokio::spawn(async move {
        let waits = move |_: &mut bursar::Transaction<'_, '_>| {
            let _ = began.send(());
            let _ = until.recv();
            Ok::<_, bursar::Error>(())
        };
        bursar.transaction_within(Duration::from_secs(60), waits).await.unwrap();
    });
    has_begun.await.unwrap();
    free
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_the_limit_get_overloaded() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let limits = Limits { requests: 1, ..Limits::default() };
    let server = TestServer::on(&url, Settings { limits, ..Settings::default() }).await;
    let writer = busy(&server).await;
    // The only slot may be taken by one of the other requests.
    let served = async {
        loop {
            let answer = server.call("POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await;
            if answer.status != 503 {
                break answer;
            }
        }
    };
    let others = async {
        let until = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            let refused = server.call("GET", "/v1/queues", Value::Null).await;
            if refused.status == 503 {
                break refused;
            }
            assert!(tokio::time::Instant::now() < until, "no request was refused");
        }
    };
    let others = async {
        let refused = others.await;
        assert_eq!((refused.problem().as_str(), refused.header("retry-after")), ("overloaded", Some("1")));
        // Health and metrics are still served.
        for path in ["/livez", "/metrics"] {
            server.call("GET", path, Value::Null).await.is(200);
        }
        drop(writer);
    };
    let (served, ()) = tokio::join!(served, others);
    served.is(201);
    server.call("GET", "/v1/queues", Value::Null).await.is(200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_body_occupies_no_slot() {
    let slow = Duration::from_secs(600);
    let server = TestServer::limited(Limits { requests: 1, stall: slow, body: slow, ..Limits::default() }).await;
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {OPERATOR}\r\nContent-Type: application/json\r\nContent-Length: 24\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    );
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server has authorized the request and waits for the body.
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).await.unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(b"{").await.unwrap();
        slow.push(stream);
    }
    for path in ["/v1/queues", "/livez", "/readyz", "/metrics"] {
        server.call("GET", path, Value::Null).await.is(200);
    }
    for mut stream in slow {
        stream.write_all(br#""queue":"q","kind":"k"}"#).await.unwrap();
        assert!(Connection::of(stream).line().await.contains("201"), "the request is answered");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_beyond_the_limit_serve_only_health() {
    let server = TestServer::limited(Limits { connections: 2, ..Limits::default() }).await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {OPERATOR}\r\n\r\n");
    let connect = async || Connection::of(TcpStream::connect(server.address).await.unwrap());
    let (mut first, mut second) = (connect().await, connect().await);
    for connection in [&mut first, &mut second] {
        connection.exchange(&get("/v1/queues")).await.is(200);
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        connect().await.exchange(&get(path)).await.is(200);
    }
    let refused = connect().await.exchange(&get("/v1/queues")).await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "overloaded"));
    // A silent connection beyond the limit is closed soon.
    let mut silent = connect().await;
    assert_eq!(silent.chunk().await, None);
    first.exchange(&get("/v1/queues")).await.is(200);
    drop(first);
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    while connect().await.exchange(&get("/v1/queues")).await.status != 200 {
        assert!(tokio::time::Instant::now() < until, "a closed connection makes room");
    }
    drop(second);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_answers_running_requests() {
    let mut server = TestServer::limited(Limits::default()).await;
    let bearer = format!("Bearer {OPERATOR}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let text = request("POST", "/v1/jobs/lease", &headers, Some(r#"{"queues":["q"],"wait_ms":60000}"#));
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    // A waiting lease request makes the engine check the database for changes.
    let waits = async {
        while server.bursar.counters().polls == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waits).await.expect("the lease request waits");
    let running = server.stop_soon();
    let line = Connection::of(stream).line().await;
    assert!(line.contains("200"), "a waiting lease request is answered: {line:?}");
    tokio::time::timeout(Duration::from_secs(60), running).await.expect("the server stops").unwrap();
    assert!(TcpStream::connect(server.address).await.is_err(), "no connection is accepted after the shutdown");
}

#[tokio::test]
async fn requests_have_ids_and_traces() {
    let server = TestServer::limited(Limits::default()).await;
    let plain = server.call("GET", "/livez", Value::Null).await.is(200);
    assert_eq!(plain.header("x-request-id").map(str::len), Some(32));
    assert!(plain.header("traceparent").unwrap().starts_with("00-"));
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [("X-Request-Id", "r-1"), ("traceparent", parent)];
    let traced =
        server.call_with(OPERATOR, &headers, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
    assert_eq!(traced.header("x-request-id"), Some("r-1"));
    assert!(traced.header("traceparent").unwrap().contains("0af7651916cd43dd8448eb211c80319c"));
    let journal = server.call("GET", "/v1/journal", Value::Null).await.is(200).json();
    assert_eq!(
        journal["items"][0]["correlation_id"], "0af7651916cd43dd8448eb211c80319c",
        "the journal records the trace id"
    );
    let metrics = server.call("GET", "/metrics", Value::Null).await.is(200).text;
    assert!(
        metrics.contains("bursar_http_requests_total{method=\"POST\",route=\"/v1/jobs\",status=\"201\"} 1"),
        "{metrics}"
    );
    assert!(metrics.contains("bursar_commands_done_total 1"), "{metrics}");
    server.stop().await;
}
