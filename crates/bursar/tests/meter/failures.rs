//! Requests while the quota cannot be checked, and the refusals of gRPC requests.

use axum::body::Body;
use bursar::meter::OnFailure;
use bursar::sqlx::{self, Connection, PgConnection};

use crate::app::{App, caller, hourly, key, on_both_engines, request, wait_for};

on_both_engines! {
    a_meter_that_fails_open_serves_without_charge,
    a_meter_that_fails_closed_serves_nothing,
    a_disabled_meter_has_no_effect,
    a_grpc_request_is_refused_with_a_grpc_status,
}

async fn a_meter_that_fails_open_serves_without_charge(url: String) {
    let app = App::open(url, 10).await;
    app.bursar.clone().close().await;
    for uri in ["/other", "/claims"] {
        let answer = app.send(1, "GET", uri, Body::empty()).await;
        assert_eq!((answer.status, answer.text.as_str(), answer.header("x-quota-limit")), (200, "served", None));
    }
    // The cost that a two-phase operation reports is ignored.
    assert_eq!(app.send(1, "POST", "/work?cost=3", "x").await.status, 200);
    assert_eq!(app.send(1, "GET", "/stream", "").await.text, "part 1;part 2;part 3;");
    let counters = app.meter.counters();
    assert_eq!((counters.failed_open, counters.failed_closed, counters.admitted), (4, 0, 0));
}

async fn a_meter_that_fails_closed_serves_nothing(url: String) {
    let closed = |settings: &mut bursar::meter::MeterSettings| settings.on_failure = OnFailure::Closed;
    let app = App::open_with(url, |meter| meter.set(closed)).await;
    assert_eq!(app.send(1, "GET", "/other", Body::empty()).await.status, 200);
    app.bursar.clone().close().await;
    let answer = app.send(1, "GET", "/other", Body::empty()).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!(answer.json()["type"], "/problems/unavailable");
    assert_eq!(app.send(1, "POST", "/work", "x").await.status, 503);
    assert_eq!(app.send(1, "GET", "/livez", Body::empty()).await.status, 200);
    assert_eq!((app.served(), app.meter.counters().failed_closed), (2, 2));
}

async fn a_disabled_meter_has_no_effect(url: String) {
    let off = |settings: &mut bursar::meter::MeterSettings| {
        (settings.enabled, settings.quota) = (false, hourly(1));
    };
    let app = App::open_with(url, |meter| meter.set(off)).await;
    for _ in 0..3 {
        let answer = app.send(1, "GET", "/other", Body::empty()).await;
        assert_eq!((answer.status, answer.header("x-quota-limit")), (200, None));
    }
    // Handlers can still report a cost.
    assert_eq!(app.send(1, "GET", "/stream", "").await.status, 200);
    // A malformed caller id is ignored.
    let nonsense = request("GET", "/other").header("x-agent-id", "nonsense").body(Body::empty()).unwrap();
    assert_eq!(app.ask(nonsense).await.status, 200);
    assert_eq!(app.bursar.ledger().budgets("", None, 10).await.unwrap(), []);
    app.bursar.close().await;
}

async fn a_grpc_request_is_refused_with_a_grpc_status(url: String) {
    let app = App::open(url, 1).await;
    let http_request = || {
        let request = request("POST", "/other").header("x-agent-id", key(1));
        request.header("content-type", "application/grpc+proto").body(Body::empty()).unwrap()
    };
    assert_eq!(app.ask(http_request()).await.header("grpc-status"), None);
    let over = app.ask(http_request()).await;
    assert_eq!((over.status, over.header("grpc-status"), over.text.as_str()), (200, Some("8"), ""));
    assert_eq!(over.header("content-type"), Some("application/grpc"));
    assert!(over.header("grpc-message").unwrap().starts_with("quota exceeded; nothing was charged; 0 of 1 (hour@UTC)"));
    assert!(over.header("retry-after").is_some());
    assert_eq!(app.served(), 1);
    app.bursar.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_quota_is_waited_for_until_the_timeout() {
    let url = bursar_testkit::fresh_database();
    let patient = |settings: &mut bursar::meter::MeterSettings| settings.patience_ms = 3_000;
    let app = App::open_with(url.clone(), |meter| meter.set(patient)).await;
    assert!(app.meter.check_and_record(&caller(1), 1).await.unwrap().is_ok());
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut transaction = other.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM bursar.scopes FOR UPDATE").execute(&mut *transaction).await.unwrap();
    assert_eq!(app.send(1, "GET", "/other", Body::empty()).await.status, 200);
    assert_eq!(app.meter.counters().failed_open, 1);
    transaction.rollback().await.unwrap();
    // The quota can be checked again once the lock is released.
    assert!(app.meter.check_and_record(&caller(1), 1).await.unwrap().is_ok());
    app.books_are_right().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnect_before_admission_leaves_no_hold() {
    let url = bursar_testkit::fresh_database();
    let app = App::open(url.clone(), 100).await;
    app.meter.check_and_record(&caller(1), 1).await.unwrap().unwrap();
    let mut notices = app.bursar.listen();
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut transaction = other.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM bursar.scopes FOR UPDATE").execute(&mut *transaction).await.unwrap();
    let http_request = request("POST", "/work").header("x-agent-id", key(1)).body(Body::empty()).unwrap();
    let mut served = Box::pin(tower::ServiceExt::oneshot(app.router.clone(), http_request));
    assert!(futures_util::FutureExt::now_or_never(&mut served).is_none());
    drop(served);
    transaction.rollback().await.unwrap();
    wait_for(&mut notices, "hold.placed").await;
    wait_for(&mut notices, "hold.released").await;
    assert_eq!((app.served(), app.spent(1).await), (0, (1, 0)));
    app.books_are_right().await;
}
