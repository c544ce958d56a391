//! How callers are identified, and what happens to requests without a valid caller.

use axum::body::Body;
use axum::http::HeaderName;
use bursar::meter::{Anonymous, ApiKey, Caller, FromExtension, FromHeader};

use crate::app::{App, another, caller, key, on_both_engines, request};

on_both_engines! {
    a_malformed_caller_id_is_refused,
    anonymous_requests_are_served_or_share_a_quota_or_are_refused,
    each_admitted_caller_has_a_row_and_refused_ones_have_none,
    callers_can_be_identified_in_several_ways,
}

async fn a_malformed_caller_id_is_refused(url: String) {
    let app = App::open(url, 100).await;
    let hostile: [&[u8]; 8] =
        [b"", b"a", b"zz", &[b'f'; 63], &[b'f'; 65], &[b'f'; 4_000], &[0xff; 64], b"../../../etc/passwd"];
    for id in hostile {
        let value = axum::http::HeaderValue::from_bytes(id).unwrap();
        let answer = app.ask(request("GET", "/other").header("x-agent-id", value).body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, 400, "{id:?}: {answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let problem = answer.json();
        assert_eq!(
            (problem["type"].as_str(), problem["field"].as_str()),
            (Some("/problems/invalid"), Some("x-agent-id"))
        );
        assert!(answer.text.len() < 400, "{answer:?}");
    }
    let twice = request("GET", "/other").header("x-agent-id", key(1)).header("x-agent-id", key(2));
    assert_eq!(app.ask(twice.body(Body::empty()).unwrap()).await.status, 400);
    assert_eq!((app.served(), app.meter.counters().rejected), (0, 9));
    assert_eq!(app.bursar.ledger().budgets("", None, 10).await.unwrap(), []);
    // An upper-case key is the same caller.
    app.send(1, "GET", "/other", Body::empty()).await;
    let capitals = request("GET", "/other").header("x-agent-id", key(1).to_uppercase());
    assert_eq!(app.ask(capitals.body(Body::empty()).unwrap()).await.quota()[1], 98);
    let lowered = request("GET", "/other").header("x-agent-id", "AB".repeat(32)).body(Body::empty()).unwrap();
    app.ask(lowered).await;
    assert_eq!(app.spent(0xab).await, (1, 0));
    app.books_are_right().await;
}

async fn anonymous_requests_are_served_or_share_a_quota_or_are_refused(url: String) {
    let plain = || request("GET", "/other").body(Body::empty()).unwrap();
    let app = App::open(url.clone(), 100).await;
    let answer = app.ask(plain()).await;
    assert_eq!((answer.status, answer.header("x-quota-limit"), app.served()), (200, None, 1));
    assert_eq!(app.meter.counters().bypassed, 1);
    app.bursar.close().await;

    let set = |anonymous| {
        App::open_with(another(&url), move |meter| {
            meter.set(|settings| (settings.anonymous, settings.quota) = (anonymous, crate::app::hourly(2)))
        })
    };
    let app = set(Anonymous::Shared).await;
    for status in [200, 200, 429] {
        assert_eq!(app.ask(plain()).await.status, status);
    }
    assert_eq!(app.meter.status(&Caller::anonymous()).await.unwrap().limits[0].used(), 2);
    app.bursar.close().await;

    let app = set(Anonymous::Refuse).await;
    let answer = app.ask(plain()).await;
    assert_eq!((answer.status, answer.json()["type"].as_str()), (401, Some("/problems/unauthorized")));
    assert!(answer.header("www-authenticate").is_some());
    assert_eq!((app.served(), app.meter.counters().rejected), (0, 1));
    // Health checks need no caller.
    let health = request("GET", "/livez").body(Body::empty()).unwrap();
    assert_eq!(app.ask(health).await.status, 200);
    app.bursar.close().await;
}

async fn each_admitted_caller_has_a_row_and_refused_ones_have_none(url: String) {
    let app = App::open(url, 1).await;
    let tasks = (0..500u32).map(|number| {
        let (meter, agent) = (app.meter.clone(), Caller::new(&format!("{number:064x}")).unwrap());
        tokio::spawn(async move { meter.check_and_record(&agent, 1).await.unwrap().is_ok() })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert!(task.await.unwrap());
    }
    assert_eq!(app.bursar.ledger().budgets("agent:", None, 1_000).await.unwrap().len(), 500);
    // A caller whose first request is refused has no row.
    for number in 500..600u32 {
        let agent = Caller::new(&format!("{number:064x}")).unwrap();
        assert!(app.meter.check_and_record(&agent, 2).await.unwrap().is_err());
    }
    assert_eq!(app.bursar.ledger().budgets("agent:", None, 1_000).await.unwrap().len(), 500);
    app.books_are_right().await;
}

/// Without a router or axum: a plain service function.
#[tokio::test]
async fn any_tower_service_can_be_metered() {
    use axum::body::Bytes;
    use bursar::meter::{CountedBody, Meter};
    use http_body_util::{BodyExt, Empty, Full};
    use tower::{Layer, ServiceExt};

    let bursar = bursar::Bursar::open("sqlite::memory:").await.unwrap();
    let meter = Meter::builder(bursar.clone()).set(|settings| settings.quota = crate::app::hourly(1)).build().unwrap();
    let service =
        meter.layer().layer(tower::service_fn(|request: axum::http::Request<CountedBody<Full<Bytes>>>| async move {
            let read = request.into_body().collect().await?.to_bytes();
            assert_eq!(read, "question");
            Ok::<_, std::convert::Infallible>(axum::http::Response::new(Empty::<Bytes>::new()))
        }));
    for status in [200, 429] {
        let http_request = request("POST", "/").header("x-agent-id", key(1)).body(Full::from("question")).unwrap();
        let answer = service.clone().oneshot(http_request).await.unwrap();
        assert_eq!(answer.status().as_u16(), status);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.is_empty(), status == 200, "{body:?}");
    }
    bursar.close().await;
}

async fn callers_can_be_identified_in_several_ways(url: String) {
    let app = App::open_with(url.clone(), |meter| meter.identify(ApiKey::default())).await;
    let http_request = request("GET", "/other").header("x-api-key", "secret").body(Body::empty()).unwrap();
    assert_eq!(app.ask(http_request).await.quota()[1], 9_999);
    let listed = app.bursar.ledger().budgets("agent:key:", None, 10).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert!(!listed[0].scope.as_str().contains("secret"));
    app.bursar.close().await;

    let app = App::open_with(another(&url), |meter| meter.identify(FromExtension)).await;
    let http_request = request("GET", "/other").extension(caller(7)).body(Body::empty()).unwrap();
    assert_eq!(app.ask(http_request).await.quota()[1], 9_999);
    assert_eq!(app.spent(7).await, (1, 0));
    app.bursar.close().await;

    let header = FromHeader(HeaderName::from_static("x-user"));
    let app = App::open_with(another(&url), |meter| meter.identify(header)).await;
    let http_request = request("GET", "/other").header("x-user", "alice").body(Body::empty()).unwrap();
    assert_eq!(app.ask(http_request).await.quota()[1], 9_999);
    app.bursar.close().await;
}
