//! Callers that sign their requests: nobody can spend another's quota, and a signature is accepted once.

use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use bursar::meter::{
    AgentKey, Caller, CostModel, Meter, MeterBuilder, MeterSettings, OnFailure, SignatureSettings, Signed,
};
use bursar::{Bursar, Rules, Time};
use bursar_signatures::Signer;
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::app::{Answer, App, START, another, costs, hourly, on_both_engines, request, router};

on_both_engines! {
    a_signed_request_is_charged_to_its_key,
    nobody_can_spend_anothers_quota,
    a_repetition_is_refused_on_every_node,
    one_of_many_copies_is_served,
    a_repetition_is_refused_while_the_quota_cannot_be_checked,
    keys_are_registered_and_rotated,
    whether_callers_must_sign_is_a_setting,
}

fn signer(seed: u8) -> Signer {
    Signer::from_seed(&[seed; 32]).unwrap()
}

fn at(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs())
}

/// Returns a request that is signed at the start of the test.
fn signed(signer: &Signer, method: &str, uri: &str, body: &'static str) -> Request<Bytes> {
    signed_at(signer, START, method, uri, body)
}

fn signed_at(signer: &Signer, seconds: i64, method: &str, uri: &str, body: &'static str) -> Request<Bytes> {
    let mut request = request(method, uri).header("host", "api.example").body(Bytes::from(body)).unwrap();
    signer.sign(&mut request, at(seconds)).unwrap();
    request
}

fn signatures() -> SignatureSettings {
    SignatureSettings { authorities: vec!["api.example".into()], ..SignatureSettings::default() }
}

/// Returns what turns signatures on in a meter's settings.
fn with(mode: Signed, signatures: SignatureSettings) -> impl FnOnce(MeterBuilder) -> MeterBuilder {
    move |meter| meter.set(|settings| (settings.signed, settings.signatures) = (mode, signatures))
}

async fn required(url: String) -> App {
    App::open_with(url, with(Signed::Required, signatures())).await
}

async fn ask(router: &Router, request: Request<impl Into<Body>>) -> Answer {
    let response = router.clone().oneshot(request.map(Into::into)).await.unwrap();
    let (head, body) = response.into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    Answer { status: head.status.as_u16(), headers: head.headers, text }
}

/// Returns why an answer says that a signature is refused.
fn reason(answer: &Answer) -> String {
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Agent")), "{answer:?}");
    assert!(answer.header("accept-signature").unwrap().contains("\"x-agent-id\""), "{answer:?}");
    let problem = answer.json();
    assert_eq!(problem["type"], "/problems/signature-refused");
    assert!(problem["detail"].as_str().unwrap().ends_with("; nothing was charged"), "{problem}");
    problem["reason"].as_str().unwrap().to_owned()
}

async fn spent(app: &App, name: &str) -> Option<(i64, i64)> {
    let view = app.bursar.ledger().budget(Caller::new(name).unwrap().scope()).await.unwrap()?;
    Some((view.balances[0].posted, view.balances[0].held))
}

async fn a_signed_request_is_charged_to_its_key(url: String) {
    let app = required(url).await;
    let alice = signer(1);
    let read = ask(&app.router, signed(&alice, "GET", "/claims?lens=a&lens=b", "")).await;
    assert_eq!((read.status, read.quota()[1]), (200, 9_993), "5, and 1 per lens");
    let body = "x".repeat(3_000).leak();
    let written = ask(&app.router, signed(&alice, "POST", "/claims", body)).await;
    assert_eq!((written.status, written.text.as_str(), written.quota()[1]), (200, "3000", 9_980), "10, and 3 KiB");
    // Two phases, and a body of unknown length.
    let (head, body) = signed(&alice, "POST", "/work?cost=3", "the body").into_parts();
    let chunked = Request::from_parts(head, Body::new(http_body_util::StreamBody::new(Chunks(body))));
    let worked = ask(&app.router, chunked).await;
    assert_eq!((worked.status, worked.text.as_str(), worked.quota()[1]), (200, "the body", 9_977));
    // An absolute URI names the host, as in HTTP/2.
    let mut absolute = Request::get("https://api.example/other").body(Bytes::new()).unwrap();
    alice.sign(&mut absolute, at(START)).unwrap();
    assert_eq!(ask(&app.router, absolute).await.status, 200);
    assert_eq!(spent(&app, alice.agent()).await, Some((24, 0)));
    // A path that costs nothing needs no signature.
    assert_eq!(ask(&app.router, request("GET", "/livez").body(Body::empty()).unwrap()).await.status, 200);
    assert_eq!(app.served(), 5);
    app.books_are_right().await;
}

/// A body that arrives in pieces of three bytes.
struct Chunks(Bytes);

impl futures_util::Stream for Chunks {
    type Item = Result<http_body::Frame<Bytes>, std::io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let length = self.0.len().min(3);
        let piece = self.0.split_to(length);
        std::task::Poll::Ready((!piece.is_empty()).then(|| Ok(http_body::Frame::data(piece))))
    }
}

async fn nobody_can_spend_anothers_quota(url: String) {
    let app = required(url).await;
    let (alice, mallory) = (signer(1), signer(2));
    let refused = async |request: Request<Bytes>| reason(&ask(&app.router, request).await);

    let bare = request("GET", "/other").header("host", "api.example").header("x-agent-id", alice.agent());
    assert_eq!(refused(bare.body(Bytes::new()).unwrap()).await, "unsigned");
    let anonymous = request("GET", "/other").body(Bytes::new()).unwrap();
    assert_eq!(refused(anonymous).await, "unsigned");
    // Mallory signs in the name of Alice, with the own key or with Alice's public one.
    let posing = mallory.clone().named(alice.agent()).unwrap();
    assert_eq!(refused(signed(&posing, "GET", "/other", "")).await, "unknown-key");
    let mut replaced = signed(&posing, "GET", "/other", "");
    let input = replaced.headers()["signature-input"].to_str().unwrap();
    let input = input.replace(&mallory.public_key().to_string(), alice.agent());
    replaced.headers_mut().insert("signature-input", input.parse().unwrap());
    assert_eq!(refused(replaced).await, "wrong-signature");
    // What Alice has signed cannot be used for another request.
    let changed = |change: &dyn Fn(&mut Request<Bytes>)| {
        let mut request = signed(&alice, "POST", "/claims", "vote for a");
        change(&mut request);
        request
    };
    assert_eq!(refused(changed(&|request| *request.body_mut() = "vote for b".into())).await, "digest-mismatch");
    assert_eq!(refused(changed(&|request| *request.body_mut() = Bytes::new())).await, "digest-mismatch");
    assert_eq!(
        refused(changed(&|request| *request.uri_mut() = "/claims/1/vote".parse().unwrap())).await,
        "wrong-signature"
    );
    assert_eq!(refused(changed(&|request| *request.method_mut() = "PUT".parse().unwrap())).await, "wrong-signature");
    let other_host = |request: &mut Request<Bytes>| {
        request.headers_mut().insert("host", "other.example".parse().unwrap());
    };
    assert_eq!(refused(changed(&other_host)).await, "wrong-authority");
    let mut with_body = signed(&alice, "POST", "/claims", "");
    *with_body.body_mut() = "a body that was not signed".into();
    assert_eq!(refused(with_body).await, "missing-component");
    // A signature is accepted within a minute of its creation, in both directions.
    for seconds in [START - 61, START + 61] {
        assert_eq!(refused(signed_at(&alice, seconds, "GET", "/other", "")).await, "stale");
    }
    assert_eq!((spent(&app, alice.agent()).await, app.served()), (None, 0), "nothing was charged to Alice");
    // A refused copy with an altered body does not use up the signature.
    let original = signed(&alice, "POST", "/claims", "vote for a");
    let mut altered = original.clone();
    *altered.body_mut() = "vote for b".into();
    assert_eq!(refused(altered).await, "digest-mismatch");
    assert_eq!(ask(&app.router, original).await.status, 200);
    for seconds in [START - 60, START + 60] {
        assert_eq!(ask(&app.router, signed_at(&alice, seconds, "GET", "/other", "")).await.status, 200);
    }
    assert_eq!(spent(&app, alice.agent()).await, Some((13, 0)));
    assert_eq!(app.meter.counters().rejected, 13);
    app.books_are_right().await;
}

/// Returns a node on the database of another one, with a memory of its own.
fn node(app: &App, bursar: Bursar, mode: Signed, set: impl FnOnce(&mut MeterSettings)) -> (Meter, Router) {
    let builder = Meter::builder(bursar).clock(app.clock.clone()).costs(costs());
    let builder = builder.set(|settings| settings.patience_ms = 120_000);
    let meter = with(mode, signatures())(builder).set(set).build().unwrap();
    let router = router(&meter, app.seen.clone());
    (meter, router)
}

async fn a_repetition_is_refused_on_every_node(url: String) {
    let app = required(url).await;
    let (other_meter, other) = node(&app, app.bursar.clone(), Signed::Required, |_| {});
    let alice = signer(1);
    // Charged at once, held, and free of charge.
    for (method, uri, body) in [("GET", "/other", ""), ("POST", "/work?cost=3", "b"), ("POST", "/claims", "b")] {
        let request = signed(&alice, method, uri, body);
        assert_eq!(ask(&app.router, request.clone()).await.status, 200, "{uri}");
        for router in [&app.router, &other, &other] {
            assert_eq!(reason(&ask(router, request.clone()).await), "replayed", "{uri}");
        }
    }
    let free = |settings: &mut MeterSettings| settings.costs = CostModel { base: 0, ..CostModel::default() };
    let (_, one) = node(&app, app.bursar.clone(), Signed::Required, free);
    let (_, two) = node(&app, app.bursar.clone(), Signed::Required, free);
    let request = signed(&alice, "GET", "/other", "");
    assert_eq!(ask(&one, request.clone()).await.status, 200);
    assert_eq!(reason(&ask(&two, request).await), "replayed", "a request that costs nothing");
    assert_eq!((spent(&app, alice.agent()).await, app.served()), (Some((15, 0)), 4));
    assert_eq!(other_meter.counters().rejected, 6);
    app.books_are_right().await;
}

async fn one_of_many_copies_is_served(url: String) {
    let app = required(url.clone()).await;
    // On PostgreSQL the other node has connections of its own too.
    let bursar = match url.starts_with("postgres") {
        true => Bursar::options(&url).clock(app.clock.clone()).upkeep(None).open().await.unwrap(),
        false => app.bursar.clone(),
    };
    let (_, other) = node(&app, bursar.clone(), Signed::Required, |_| {});
    let alice = signer(1);
    for (method, uri) in [("GET", "/other"), ("POST", "/work")] {
        let request = signed(&alice, method, uri, "");
        let copies = (0..24).map(|copy| {
            let router = if copy % 2 == 0 { app.router.clone() } else { other.clone() };
            let request = request.clone();
            tokio::spawn(async move { ask(&router, request).await })
        });
        let mut served = 0;
        for copy in copies.collect::<Vec<_>>() {
            let answer = copy.await.unwrap();
            match answer.status {
                200 => served += 1,
                _ => assert_eq!(reason(&answer), "replayed"),
            }
        }
        assert_eq!(served, 1, "{uri}");
    }
    assert_eq!((spent(&app, alice.agent()).await, app.served()), (Some((21, 0)), 2));
    if url.starts_with("postgres") {
        bursar.close().await;
    }
    app.books_are_right().await;
}

async fn a_repetition_is_refused_while_the_quota_cannot_be_checked(url: String) {
    let app = required(url).await;
    app.bursar.clone().close().await;
    let alice = signer(1);
    let request = signed(&alice, "GET", "/other", "");
    assert_eq!(ask(&app.router, request.clone()).await.status, 200, "it fails open");
    assert_eq!(reason(&ask(&app.router, request).await), "replayed");
    let bare = axum::http::Request::get("/other").header("x-agent-id", alice.agent()).body(Body::empty()).unwrap();
    assert_eq!(reason(&ask(&app.router, bare).await), "unsigned");
    assert_eq!((app.served(), app.meter.counters().failed_open), (1, 1));
    let (closed, router) = node(&app, app.bursar.clone(), Signed::Required, |settings| {
        settings.on_failure = OnFailure::Closed;
    });
    assert_eq!(ask(&router, signed(&alice, "GET", "/other", "")).await.status, 503);
    assert_eq!(closed.counters().failed_closed, 1);
}

/// Returns a file with the keys of one agent, each with its last second.
fn keys_file(agent: &str, keys: &[(&Signer, Option<i64>)]) -> String {
    let keys = keys.iter().map(|(signer, last)| {
        let last = last.map(|last| format!(", not_after = \"{}\"", Time::from_micros(last * 1_000_000)));
        format!("{{ key = \"{}\"{} }}", signer.public_key(), last.unwrap_or_default())
    });
    format!("[agents]\n\"{agent}\" = [{}]\n", keys.collect::<Vec<_>>().join(", "))
}

async fn keys_are_registered_and_rotated(url: String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.toml");
    let named = |seed| signer(seed).named("alice").unwrap();
    let (old, new, newest) = (named(1), named(2), named(3));
    std::fs::write(&path, keys_file("alice", &[(&old, None)])).unwrap();
    let mut settings = SignatureSettings { self_certified: false, keys_path: Some(path.clone()), ..signatures() };
    settings.agents.insert("bob".into(), vec![AgentKey::from(signer(9).public_key())]);
    let app = App::open_with(url, with(Signed::Required, settings)).await;
    let status = async |by: &Signer, seconds: i64| {
        app.clock.set(Time::from_micros(seconds * 1_000_000));
        let answer = ask(&app.router, signed_at(by, seconds, "GET", "/other", "")).await;
        if answer.status == 200 { "served".to_owned() } else { reason(&answer) }
    };
    assert_eq!(status(&old, START).await, "served");
    assert_eq!(status(&signer(9).named("bob").unwrap(), START).await, "served", "registered in the settings");
    assert_eq!(status(&new, START).await, "unknown-key");
    assert_eq!(status(&signer(1), START).await, "unknown-key", "a key without a name is no caller");
    assert_eq!(status(&signer(1).named("carol").unwrap(), START).await, "unknown-key");
    // While keys are rotated, both are valid. The file is read again after a second.
    std::fs::write(&path, keys_file("alice", &[(&old, Some(START + 100)), (&new, None)])).unwrap();
    for (by, seconds, expected) in [
        (&new, START + 2, "served"),
        (&old, START + 2, "served"),
        (&old, START + 100, "served"),
        (&old, START + 101, "retired-key"),
        (&new, START + 101, "served"),
    ] {
        assert_eq!(status(by, seconds).await, expected, "{seconds}");
    }
    // A file that is wrong or missing changes nothing.
    for text in ["[agents", "[agents]\nbob = []\n", &keys_file("bob", &[(&newest, None)])] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(status(&new, START + 110).await, "served", "{text}");
        assert_eq!(status(&newest, START + 120).await, "unknown-key", "{text}");
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(status(&new, START + 130).await, "served");
    std::fs::write(&path, keys_file("alice", &[(&newest, None)])).unwrap();
    assert_eq!(status(&newest, START + 140).await, "served");
    assert_eq!(status(&new, START + 142).await, "unknown-key", "a key that was removed");
    assert_eq!(spent(&app, "alice").await, Some((10, 0)), "all keys spend one quota");
    app.books_are_right().await;
}

async fn whether_callers_must_sign_is_a_setting(url: String) {
    let bare = |agent: &str| request("GET", "/other").header("x-agent-id", agent).body(Body::empty()).unwrap();
    let (alice, bob) = (signer(1), signer(2));
    let wrong = || {
        let mut request = signed(&alice, "GET", "/other", "");
        *request.uri_mut() = "/claims".parse().unwrap();
        request
    };
    // Off: signatures are ignored.
    let app = App::open(url.clone(), 100).await;
    assert_eq!(ask(&app.router, wrong()).await.status, 200);
    app.bursar.close().await;

    // Optional: a wrong signature is refused, and an agent with registered keys must sign.
    let mut settings = signatures();
    settings.agents.insert("carol".into(), vec![AgentKey::from(signer(3).public_key())]);
    let app = App::open_with(another(&url), |meter| {
        let meter = meter.identify(bursar::meter::FromHeader("x-agent-id".parse().unwrap()));
        with(Signed::Optional, settings)(meter)
    });
    let app = app.await;
    assert_eq!(ask(&app.router, bare(bob.agent())).await.status, 200);
    assert_eq!(ask(&app.router, bare("dave")).await.status, 200);
    assert_eq!(reason(&ask(&app.router, wrong()).await), "wrong-signature");
    assert_eq!(reason(&ask(&app.router, bare("carol")).await), "unsigned");
    assert_eq!(ask(&app.router, signed(&signer(3).named("carol").unwrap(), "GET", "/other", "")).await.status, 200);
    assert_eq!(ask(&app.router, signed(&bob, "GET", "/other", "")).await.status, 200);
    assert_eq!((spent(&app, bob.agent()).await, spent(&app, "carol").await), (Some((2, 0)), Some((1, 0))));
    let grpc = request("POST", "/other").header("x-agent-id", "carol").header("content-type", "application/grpc");
    let grpc = ask(&app.router, grpc.body(Body::empty()).unwrap()).await;
    assert_eq!((grpc.status, grpc.header("grpc-status")), (200, Some("16")));
    app.bursar.close().await;
}

#[tokio::test]
async fn the_body_of_a_signed_request_is_bounded_in_size_and_time() {
    let limits = SignatureSettings { body_bytes_max: 10, body_ms: 1, ..signatures() };
    let app = App::open_with("sqlite::memory:".into(), with(Signed::Required, limits)).await;
    let alice = signer(1);
    assert_eq!(ask(&app.router, signed(&alice, "POST", "/claims", "0123456789")).await.status, 200);
    let too_large = signed(&alice, "POST", "/claims", "0123456789a");
    let (head, body) = too_large.clone().into_parts();
    let chunked = Request::from_parts(head, Body::new(http_body_util::StreamBody::new(Chunks(body))));
    for answer in [ask(&app.router, too_large).await, ask(&app.router, chunked).await] {
        assert_eq!((answer.status, answer.json()["type"].as_str()), (413, Some("/problems/too-large")));
    }
    let (head, _) = signed(&alice, "POST", "/claims", "x").into_parts();
    let never = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
    let slow = ask(&app.router, Request::from_parts(head, Body::from_stream(never))).await;
    assert_eq!((slow.status, slow.json()["type"].as_str()), (408, Some("/problems/timeout")));
    let (head, _) = signed(&alice, "POST", "/claims", "x").into_parts();
    let broken = futures_util::stream::iter([Err::<Bytes, _>(std::io::Error::other("gone"))]);
    assert_eq!(ask(&app.router, Request::from_parts(head, Body::from_stream(broken))).await.status, 400);
    assert_eq!((app.served(), spent(&app, alice.agent()).await), (1, Some((11, 0))));
}

#[tokio::test]
async fn a_refused_quota_uses_up_the_signature_on_its_node() {
    let app = App::open_with("sqlite::memory:".into(), |meter| {
        with(Signed::Required, signatures())(meter).set(|settings| settings.quota = hourly(1))
    });
    let app = app.await;
    let alice = signer(1);
    assert_eq!(ask(&app.router, signed(&alice, "GET", "/other", "")).await.status, 200);
    let over = signed(&alice, "GET", "/other", "");
    assert_eq!(ask(&app.router, over.clone()).await.status, 429);
    assert_eq!(reason(&ask(&app.router, over).await), "replayed");
    assert_eq!(ask(&app.router, signed(&alice, "GET", "/other", "")).await.status, 429);
}

#[tokio::test]
async fn a_window_longer_than_idempotency_keys_are_kept_is_refused() {
    let rules = Rules { key_kept: bursar::Span::from_secs(119), ..Rules::default() };
    let bursar = Bursar::options("sqlite::memory:").rules(rules).open().await.unwrap();
    let build = |mode| with(mode, signatures())(Meter::builder(bursar.clone())).build();
    assert!(build(Signed::Off).is_ok());
    let error = build(Signed::Optional).err().unwrap().to_string();
    assert!(error.starts_with("signatures.window_ms: must be at most half of the time"), "{error}");
    let missing = SignatureSettings { keys_path: Some("no/such/file.toml".into()), ..signatures() };
    let error = with(Signed::Required, missing)(Meter::builder(Bursar::open("sqlite::memory:").await.unwrap())).build();
    let error = error.err().unwrap().to_string();
    assert!(error.starts_with("signatures.keys_path: no/such/file.toml: "), "{error}");
}
