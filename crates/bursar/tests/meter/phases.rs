//! Two-phase operations, whose cost is known only afterwards.

use axum::body::{Body, Bytes};
use bursar::Span;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use crate::app::{App, START, caller, key, on_both_engines, request, wait_for};

on_both_engines! {
    the_cost_that_the_handler_reports_is_charged,
    a_handler_that_panics_is_charged,
    a_cancelled_request_is_charged,
    a_broken_connection_is_charged,
    a_streamed_response_is_settled_when_it_ends_or_is_dropped,
    a_payload_of_unknown_size_is_counted_as_it_arrives,
    a_request_longer_than_its_hold_is_charged,
    a_budget_that_refuses_overruns_is_charged_the_estimate,
    units_can_be_reserved_without_the_middleware,
}

async fn the_cost_that_the_handler_reports_is_charged(url: String) {
    let app = App::open(url, 100).await;
    // Twenty units are held for each; the header reports what is left after the settlement.
    for (uri, left) in [("/work?cost=3", 97), ("/work?cost=0", 97), ("/work", 77), ("/work?cost=30", 47)] {
        let answer = app.send(1, "POST", uri, "payload").await;
        assert_eq!((answer.status, answer.text.as_str(), answer.quota()[1]), (200, "payload", left), "{uri}");
        assert_eq!(app.spent(1).await, (100 - left, 0), "{uri}");
    }
    // A one-phase operation is charged before it is served; a reported cost is ignored.
    let other = app.send(1, "POST", "/claims", "").await;
    assert_eq!(other.quota()[1], 37);
    // The quota must admit the estimate, even if the actual cost would be lower.
    app.meter.check_and_record(&caller(1), 18).await.unwrap().unwrap();
    assert_eq!(app.send(1, "POST", "/work?cost=1", "").await.status, 429);
    assert_eq!(app.spent(1).await, (81, 0));
    app.books_are_right().await;
}

async fn a_handler_that_panics_is_charged(url: String) {
    let app = App::open(url, 100).await;
    let mut notices = app.bursar.listen();
    for (uri, spent) in [("/crash?cost=4", 4), ("/crash", 24)] {
        let http_request = request("POST", uri).header("x-agent-id", key(1)).body(Body::empty()).unwrap();
        let crashed = tokio::spawn(app.router.clone().oneshot(http_request)).await;
        assert!(crashed.unwrap_err().is_panic());
        wait_for(&mut notices, "hold.committed").await;
        assert_eq!(app.spent(1).await, (spent, 0), "{uri}");
    }
    assert_eq!(app.meter.counters().abandoned, 2);
    app.books_are_right().await;
}

async fn a_cancelled_request_is_charged(url: String) {
    let app = App::open(url, 100).await;
    let mut notices = app.bursar.listen();
    for (uri, spent) in [("/hang?cost=4", 4), ("/hang", 24)] {
        let http_request = request("POST", uri).header("x-agent-id", key(1)).body(Body::empty()).unwrap();
        let serving = tokio::spawn(app.router.clone().oneshot(http_request));
        app.seen.begun.notified().await;
        assert_eq!(app.spent(1).await.1, 20);
        serving.abort();
        wait_for(&mut notices, "hold.committed").await;
        assert_eq!(app.spent(1).await, (spent, 0), "{uri}");
    }
    assert_eq!(app.meter.counters().abandoned, 2);
    app.books_are_right().await;
}

/// Serves the application on a port of its own.
async fn serve(app: &App) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = app.router.clone();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Returns the start of an HTTP request's head.
fn head(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-Agent-Id: {}\r\nConnection: close\r\n", key(1))
}

async fn a_broken_connection_is_charged(url: String) {
    let app = App::open(url, 100).await;
    let mut notices = app.bursar.listen();
    let mut stream = TcpStream::connect(serve(&app).await).await.unwrap();
    stream.write_all((head("POST", "/hang?cost=9") + "Content-Length: 0\r\n\r\n").as_bytes()).await.unwrap();
    app.seen.begun.notified().await;
    drop(stream);
    wait_for(&mut notices, "hold.committed").await;
    assert_eq!(app.spent(1).await, (9, 0));
    app.books_are_right().await;
}

async fn a_streamed_response_is_settled_when_it_ends_or_is_dropped(url: String) {
    let app = App::open(url, 100).await;
    let mut notices = app.bursar.listen();
    // Three parts at two units each. The header reports what is left before any part is sent.
    let answer = app.send(1, "GET", "/stream", Body::empty()).await;
    assert_eq!((answer.text.as_str(), answer.quota()[1]), ("part 1;part 2;part 3;", 80));
    wait_for(&mut notices, "hold.committed").await;
    assert_eq!(app.spent(1).await, (6, 0));
    assert_eq!(app.meter.counters().abandoned, 0);
    // A client that disconnects after the second part is charged for two.
    let http_request = request("GET", "/stream").header("x-agent-id", key(1)).body(Body::empty()).unwrap();
    let mut body = app.router.clone().oneshot(http_request).await.unwrap().into_body();
    for part in ["part 1;", "part 2;"] {
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), Bytes::from(part));
    }
    drop(body);
    wait_for(&mut notices, "hold.committed").await;
    assert_eq!(app.spent(1).await, (10, 0));
    assert_eq!(app.meter.counters().abandoned, 1);
    app.books_are_right().await;
}

async fn a_payload_of_unknown_size_is_counted_as_it_arrives(url: String) {
    let app = App::open(url, 200).await;
    let address = serve(&app).await;
    let send = async |path: &str, kib: usize| {
        let part = format!("400\r\n{}\r\n", "x".repeat(1_024));
        let text =
            head("POST", path) + "Transfer-Encoding: chunked\r\n\r\n" + &part.repeat(kib) + "1\r\nx\r\n0\r\n\r\n";
        let (mut read, mut write) = TcpStream::connect(address).await.unwrap().into_split();
        // The server may close the connection while the payload is still being sent; only its response matters.
        let sending = async {
            let _ = write.write_all(text.as_bytes()).await;
        };
        let reading = async {
            let mut answer = Vec::new();
            let _ = read.read_to_end(&mut answer).await;
            String::from_utf8(answer).unwrap()
        };
        tokio::join!(sending, reading).1
    };
    // Ten units, and one for each started KiB: 64 KiB are held, three have arrived.
    let answer = send("/claims", 2).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("2049"), "{answer}");
    assert!(answer.contains("x-quota-remaining: 187\r\n"), "{answer}");
    assert_eq!(app.spent(1).await, (13, 0));
    // If the payload costs nothing, it is not counted.
    assert!(send("/other", 70).await.contains("x-quota-remaining: 186\r\n"));
    // A payload larger than the held units is charged in full.
    assert!(send("/claims", 70).await.contains("x-quota-remaining: 105\r\n"));
    assert_eq!(app.spent(1).await, (95, 0));
    // The quota must admit the units to be held.
    app.meter.check_and_record(&caller(1), 32).await.unwrap().unwrap();
    assert!(send("/claims", 1).await.starts_with("HTTP/1.1 429"));
    assert_eq!(app.spent(1).await, (127, 0));
    app.books_are_right().await;
}

async fn a_request_longer_than_its_hold_is_charged(url: String) {
    let app = App::open(url, 30).await;
    let reserved = app.meter.reserve(&caller(1), 20).await.unwrap().unwrap();
    assert!(app.meter.reserve(&caller(1), 20).await.unwrap().is_err());
    app.clock.advance(Span::from_secs(301));
    // The hold has expired, so another charge is admitted.
    app.meter.check_and_record(&caller(1), 25).await.unwrap().unwrap();
    // The late settlement is charged in full.
    reserved.settle(20).await.unwrap();
    assert_eq!(app.spent(1).await, (45, 0));
    app.books_are_right().await;
}

async fn a_budget_that_refuses_overruns_is_charged_the_estimate(url: String) {
    let app = App::open(url, 100).await;
    let mut budget = bursar::Budget::new(crate::app::hourly(100));
    budget.hold.overrun = bursar::Cover::Refuse;
    app.bursar.ledger().define(caller(1).scope(), budget).await.unwrap();
    assert_eq!(app.send(1, "POST", "/work?cost=30", "").await.quota()[1], 80);
    assert_eq!(app.send(1, "POST", "/work?cost=5", "").await.quota()[1], 75);
    assert_eq!((app.spent(1).await, app.meter.counters().unsettled), ((25, 0), 0));
    app.books_are_right().await;
}

async fn units_can_be_reserved_without_the_middleware(url: String) {
    let app = App::open(url, 100).await;
    let mut notices = app.bursar.listen();
    let reserved = app.meter.reserve(&caller(1), 40).await.unwrap().unwrap();
    assert_eq!(reserved.standing().limits[0].remaining, 60);
    let standing = reserved.settle(15).await.unwrap();
    assert_eq!((standing.limits[0].remaining, standing.limits[0].used()), (85, 15));
    assert_eq!(standing.limits[0].reset_at.map(bursar::meter::unix_seconds), Some(START + 3_600));
    // A dropped reservation is charged its estimate.
    drop(app.meter.reserve(&caller(1), 40).await.unwrap().unwrap());
    wait_for(&mut notices, "hold.committed").await;
    wait_for(&mut notices, "hold.committed").await;
    assert_eq!(app.spent(1).await, (55, 0));
    app.books_are_right().await;
}
