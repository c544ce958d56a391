//! Metered principals of the server that sign their requests.

use std::time::SystemTime;

use bursar::meter::{AgentKey, MeterSettings, Signed};
use bursar_client::{
    Body, Bytes, Client, Http, Request, Response as Answer, Signer, Signing, Transport, TransportError,
};
use bursar_server::Settings;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::test_server::{OPERATOR, TestServer};

fn signer(seed: u8, name: &str) -> Signer {
    Signer::from_seed(&[seed; 32]).unwrap().named(name).unwrap()
}

/// Returns settings with keys for the agents of two tenants.
fn settings(folder: &std::path::Path, mode: Signed) -> Settings {
    let mut meter =
        MeterSettings::from_toml("quota = [{ amount = 100, window = 'year' }]\npatience_ms = 120000").unwrap();
    meter.signed = mode;
    meter.signatures.authorities = vec!["*".into()];
    for (seed, name) in [(1, "acme/agent:agent of acme"), (2, "agent:agent of default"), (4, "acme/user:user of acme")]
    {
        let keys = vec![AgentKey::from(signer(seed, "any").public_key())];
        meter.signatures.agents.insert(name.into(), keys);
    }
    Settings { meter: Some(meter), ..crate::test_server::with_storage(folder) }
}

/// Signs a request and returns its headers.
fn signed(signer: &Signer, method: &str, path: &str, body: &str) -> Vec<(String, String)> {
    let uri = format!("http://localhost{path}");
    let mut request = Request::builder().method(method).uri(uri).body(body.to_owned()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the server's meter uses the clock of the machine")]
    signer.sign(&mut request, SystemTime::now()).unwrap();
    let text = |value: &axum::http::HeaderValue| value.to_str().unwrap().to_owned();
    request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

async fn send(
    server: &TestServer,
    token: &str,
    headers: &[(String, String)],
    method: &str,
    path: &str,
    body: &str,
) -> crate::client::Response {
    let mut all: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    if !body.is_empty() {
        all.push(("Content-Type", "application/json"));
    }
    server.send_as(token, &all, method, path, Some(body).filter(|body| !body.is_empty())).await
}

fn reason(answer: &crate::client::Response) -> String {
    assert_eq!((answer.status, answer.problem().as_str()), (401, "signature-refused"), "{answer:?}");
    assert!(answer.header("accept-signature").unwrap().contains("\"x-agent-id\""), "{answer:?}");
    assert_eq!(answer.header("www-authenticate"), Some("Agent realm=\"bursar\""));
    answer.json()["reason"].as_str().unwrap().to_owned()
}

const COMMAND: &str = r#"{"charges":[{"scope":"x","amount":1,"limits":[{"amount":9,"window":"lifetime"}]}]}"#;

async fn a_stolen_token_alone_spends_no_quota(server: TestServer) {
    let agent = server.key("acme", "agent").await;
    let own = signer(1, "agent:agent of acme");
    let (read, write) = (("GET", "/v1/budgets", ""), ("POST", "/v1/commands", COMMAND));
    for (method, path, body) in [read, write] {
        assert_eq!(reason(&send(&server, &agent, &[], method, path, body).await), "unsigned", "{path}");
        let headers = signed(&own, method, path, body);
        assert!(send(&server, &agent, &headers, method, path, body).await.status < 300, "{path}");
        assert_eq!(reason(&send(&server, &agent, &headers, method, path, body).await), "replayed", "{path}");
        // Another key, another name, and the key of the same name in another tenant.
        for (signer, expected) in [
            (signer(3, "agent:agent of acme"), "unknown-key"),
            (signer(4, "user:user of acme"), "other-agent"),
            (signer(2, "agent:agent of acme"), "unknown-key"),
            (signer(1, &signer(1, "any").public_key().to_string()), "other-agent"),
        ] {
            let headers = signed(&signer, method, path, body);
            assert_eq!(reason(&send(&server, &agent, &headers, method, path, body).await), expected, "{path}");
        }
    }
    let headers = signed(&own, "POST", "/v1/commands", COMMAND);
    let dearer = COMMAND.replace("\"amount\":1,", "\"amount\":2,");
    let answer = send(&server, &agent, &headers, "POST", "/v1/commands", &dearer).await;
    assert_eq!(reason(&answer), "digest-mismatch");
    let quota = server.call_as(&agent, "GET", "/v1/meter/quota", Value::Null).await.is(200).json();
    assert_eq!(quota["used"], 2, "only what was signed is charged");
    let scope = server.call_with(OPERATOR, &[("Bursar-Tenant", "acme")], "GET", "/v1/budgets/x", Value::Null).await;
    assert_eq!(scope.is(200).json()["balances"][0]["posted"], 1);
    // Each tenant has keys of its own, and operators are not metered.
    let other = server.key("default", "agent").await;
    let headers = signed(&signer(2, "agent:agent of default"), "GET", "/v1/budgets", "");
    send(&server, &other, &headers, "GET", "/v1/budgets", "").await.is(200);
    server.call("GET", "/v1/budgets", Value::Null).await.is(200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stolen_token_alone_spends_no_quota_on_sqlite() {
    let engine = crate::test_server::Engine::Sqlite;
    let server = TestServer::of(engine, None, |folder| settings(folder, Signed::Required)).await;
    a_stolen_token_alone_spends_no_quota(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stolen_token_alone_spends_no_quota_on_postgres() {
    let engine = crate::test_server::Engine::Postgres;
    let server = TestServer::of(engine, None, |folder| settings(folder, Signed::Required)).await;
    a_stolen_token_alone_spends_no_quota(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_request_is_served_by_one_of_two_servers() {
    let url = bursar_testkit::fresh_database();
    let folder = tempfile::tempdir().unwrap();
    let one = TestServer::on(&url, settings(folder.path(), Signed::Required)).await;
    let two = TestServer::on(&url, settings(folder.path(), Signed::Required)).await;
    let agent = one.key("acme", "agent").await;
    let headers = signed(&signer(1, "agent:agent of acme"), "POST", "/v1/commands", COMMAND);
    send(&one, &agent, &headers, "POST", "/v1/commands", COMMAND).await.is(201);
    assert_eq!(reason(&send(&two, &agent, &headers, "POST", "/v1/commands", COMMAND).await), "replayed");
    two.stop().await;
    one.stop().await;
}

/// Alters the body of each upload after it was signed.
#[derive(Clone)]
struct Altered(Http);

impl Transport for Altered {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Answer<Body>, TransportError>> {
        self.0.send(request)
    }

    fn send_stream(&self, request: Request<Body>) -> BoxFuture<'static, Result<Answer<Body>, TransportError>> {
        use http_body_util::{BodyExt, Full};
        let http = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let mut bytes = body.collect().await.unwrap().to_bytes().to_vec();
            bytes[0] ^= 1;
            let body = Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed_unsync();
            http.send_stream(Request::from_parts(head, body)).await
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rust_client_signs_calls_and_uploads() {
    let engine = crate::test_server::Engine::Sqlite;
    let server = TestServer::of(engine, None, |folder| settings(folder, Signed::Optional)).await;
    let user = server.key("acme", "user").await;
    let url = format!("http://{}", server.address);
    let bare = Client::new(&url).unwrap().token(user.as_str());
    let error = bare.budgets().show(&"x".try_into().unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), Some(bursar_client::Kind::SignatureRefused), "{error:?}");
    let signer = signer(4, "user:user of acme");
    let client = Client::signed(&url, signer.clone()).unwrap().token(user.as_str());
    let command = serde_json::from_value(serde_json::from_str::<Value>(COMMAND).unwrap()).unwrap();
    client.commands().submit(&command).await.unwrap();
    let upload = bursar_client::Upload::default();
    let stored = client.blobs().put_bytes(&upload, "the bytes").await.unwrap();
    assert_eq!(client.blobs().get(stored.id).await.unwrap().bytes().await.unwrap(), "the bytes");
    // An upload that is altered on its way is refused at its end, and nothing is stored.
    let altering = Client::over(Signing::new(Altered(Http::new()), signer), &url).unwrap().token(user.as_str());
    let error = altering.blobs().put_bytes(&upload, "other bytes").await.unwrap_err();
    assert_eq!(error.kind(), Some(bursar_client::Kind::Invalid), "{error:?}");
    let blobs = server.call_with(OPERATOR, &[("Bursar-Tenant", "acme")], "GET", "/v1/blobs", json!(null)).await.json();
    let live = blobs["items"].as_array().unwrap().iter().filter(|blob| blob["state"] == "live").count();
    assert_eq!(live, 1, "{blobs}");
    // An agent without registered keys need not sign.
    let agent = server.key("other", "agent").await;
    server.call_as(&agent, "GET", "/v1/budgets", Value::Null).await.is(200);
    server.stop().await;
}
