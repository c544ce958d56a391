//! User tokens that an identity provider signs, whose keys are in a key set.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bursar::{Clock, SystemClock};
use bursar_server::{JwksSettings, JwksSource, Server, Settings, StartError};
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::test_server::{Engine, TestServer, with_storage};

/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the identity provider answers.
#[derive(Clone, Debug)]
enum Answer {
    Keys(&'static [u8]),
    Text(&'static str),
    Status(&'static str),
    /// More bytes than are read.
    Huge,
    /// Nothing, on a connection that stays open.
    Silence,
    /// A body that never ends, of a few bytes.
    Stalled,
    Closed,
}

/// An identity provider.
#[derive(Clone)]
struct Provider(Arc<Mutex<(Answer, usize)>>);

impl Provider {
    async fn start(answer: Answer) -> (Provider, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/keys", listener.local_addr().unwrap());
        let provider = Provider(Arc::new(Mutex::new((answer, 0))));
        let shared = provider.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let provider = shared.clone();
                tokio::spawn(async move {
                    let mut head = [0; 4_096];
                    let mut length = 0;
                    while !head[..length].ends_with(b"\r\n\r\n") {
                        length += stream.read(&mut head[length..]).await.unwrap();
                    }
                    let answer = {
                        let mut state = provider.0.lock().unwrap();
                        state.1 += 1;
                        state.0.clone()
                    };
                    let text = |status: &str, body: &str| {
                        format!(
                            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                            body.len()
                        )
                    };
                    let bytes = match answer {
                        Answer::Keys(seeds) => text("200 OK", &key_set(seeds).to_string()),
                        Answer::Text(body) => text("200 OK", body),
                        Answer::Status(status) => text(status, &key_set(&[9]).to_string()),
                        Answer::Huge => text("200 OK", &" ".repeat(1 << 20)),
                        Answer::Stalled => "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"keys\"".to_owned(),
                        Answer::Silence | Answer::Closed => String::new(),
                    };
                    let _ = stream.write_all(bytes.as_bytes()).await;
                    if matches!(answer, Answer::Silence | Answer::Stalled) {
                        let _ = stream.read(&mut head).await;
                    }
                });
            }
        });
        (provider, address)
    }

    fn answers(&self, answer: Answer) {
        self.0.lock().unwrap().0 = answer;
    }

    fn reads(&self) -> usize {
        self.0.lock().unwrap().1
    }
}

fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

/// Returns a key set. The id of each key is its seed.
fn key_set(seeds: &[u8]) -> Value {
    let key = |seed: &u8| {
        let x = URL_SAFE_NO_PAD.encode(pair(*seed).public_key());
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": seed.to_string(), "use": "sig", "x": x })
    };
    json!({ "keys": seeds.iter().map(key).collect::<Vec<Value>>() })
}

/// Returns a token with any header and signature.
fn token_with(header: Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let now = SystemClock.now().micros() / 1_000_000;
    let claims = json!({ "sub": "ann", "exp": now + 600, "role": "viewer" });
    let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    let text = format!("{header}.{claims}");
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(sign(text.as_bytes())))
}

/// Returns a token that a key has signed.
fn token(seed: u8) -> String {
    let header = json!({ "alg": "EdDSA", "kid": seed.to_string() });
    token_with(header, |text| pair(seed).sign(text).as_ref().to_vec())
}

/// Settings that read the set at any time, and give up soon.
fn eager(source: JwksSource) -> JwksSettings {
    JwksSettings { pause: Duration::ZERO, timeout: Duration::from_millis(500), ..JwksSettings::new(source) }
}

async fn server(jwks: JwksSettings) -> TestServer {
    TestServer::of(Engine::Memory, None, |folder| Settings { jwks: Some(jwks), ..with_storage(folder) }).await
}

async fn status(server: &TestServer, token: &str) -> u16 {
    server.call_as(token, "GET", "/v1/whoami", Value::Null).await.status
}

async fn readings(server: &TestServer, result: &str) -> u64 {
    let text = server.call("GET", "/metrics", Value::Null).await.is(200).text;
    let prefix = format!("bursar_jwks_readings_total{{result=\"{result}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&prefix)?.parse().ok()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_the_provider_rotates_is_read_when_a_token_names_it() {
    let (provider, address) = Provider::start(Answer::Keys(&[1])).await;
    let server = server(eager(JwksSource::at(&address).unwrap())).await;
    let who = server.call_as(&token(1), "GET", "/v1/whoami", Value::Null).await.is(200).json();
    assert_eq!((&who["name"], &who["role"]), (&json!("ann"), &json!("viewer")));
    // Both are valid while the provider has both, and the old one no longer once it has only the new one.
    provider.answers(Answer::Keys(&[1, 2]));
    assert_eq!([status(&server, &token(2)).await, status(&server, &token(1)).await], [200, 200]);
    provider.answers(Answer::Keys(&[3]));
    assert_eq!(status(&server, &token(3)).await, 200);
    assert_eq!([status(&server, &token(1)).await, status(&server, &token(2)).await], [401, 401]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_fails_changes_nothing() {
    let (provider, address) = Provider::start(Answer::Keys(&[1])).await;
    let server = server(eager(JwksSource::at(&address).unwrap())).await;
    assert_eq!(status(&server, &token(1)).await, 200);
    let failures = [
        Answer::Text("<html>sign in</html>"),
        Answer::Text("{ \"keys\": 7 }"),
        Answer::Text(""),
        Answer::Status("500 Internal Server Error"),
        Answer::Status("302 Found\r\nLocation: http://127.0.0.1:1/keys"),
        Answer::Huge,
        Answer::Closed,
        Answer::Stalled,
        Answer::Silence,
    ];
    for failure in failures {
        let before = readings(&server, "failed").await;
        provider.answers(failure.clone());
        assert_eq!(status(&server, &token(9)).await, 401, "{failure:?}");
        assert_eq!(status(&server, &token(1)).await, 200, "{failure:?}");
        let until = Instant::now() + PATIENCE;
        while readings(&server, "failed").await == before {
            assert!(Instant::now() < until, "{failure:?} is counted");
        }
    }
    provider.answers(Answer::Keys(&[9]));
    let until = Instant::now() + PATIENCE;
    while status(&server, &token(9)).await != 200 {
        assert!(Instant::now() < until, "the set is read again after a failure");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_up_keys_do_not_make_the_server_read_more_often() {
    let (provider, address) = Provider::start(Answer::Keys(&[1])).await;
    let jwks =
        JwksSettings { pause: Duration::from_secs(3_600), ..JwksSettings::new(JwksSource::at(&address).unwrap()) };
    let server = server(jwks).await;
    assert_eq!(status(&server, &token(1)).await, 200);
    provider.answers(Answer::Keys(&[1, 2]));
    for seed in 2..12 {
        assert_eq!(status(&server, &token(seed)).await, 401);
    }
    assert_eq!((provider.reads(), status(&server, &token(1)).await), (1, 200));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_key_that_a_token_names_can_have_signed_it() {
    let (provider, address) = Provider::start(Answer::Keys(&[1, 2])).await;
    let server = server(eager(JwksSource::at(&address).unwrap())).await;
    assert_eq!(status(&server, &token(1)).await, 200);
    let sign = |seed: u8| move |text: &[u8]| pair(seed).sign(text).as_ref().to_vec();
    let public = pair(1).public_key().as_ref().to_vec();
    let with_public = |text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &public), text).as_ref().to_vec();
    let forged = [
        token_with(json!({ "alg": "EdDSA", "kid": "1" }), sign(2)),
        token_with(json!({ "alg": "EdDSA", "kid": "1" }), sign(9)),
        token_with(json!({ "alg": "EdDSA" }), sign(1)),
        token_with(json!({ "alg": "RS256", "kid": "1" }), sign(1)),
        token_with(json!({ "alg": "HS256", "kid": "1" }), with_public),
        token_with(json!({ "alg": "none", "kid": "1" }), |_| Vec::new()),
    ];
    for forged in forged {
        assert_eq!(status(&server, &forged).await, 401, "{forged}");
    }
    // If the set has one key only, a token need not name it.
    provider.answers(Answer::Keys(&[3]));
    assert_eq!(status(&server, &token(3)).await, 200);
    assert_eq!(status(&server, &token_with(json!({ "alg": "EdDSA" }), sign(3))).await, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_read_again_when_it_is_due() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let jwks = JwksSettings { refresh: Duration::from_millis(20), ..eager(JwksSource::File(path.clone())) };
    let bursar = bursar::Bursar::open("sqlite::memory:").await.unwrap();
    let settings = Settings { jwks: Some(jwks.clone()), ..Settings::default() };
    let missing = Server::bind(bursar.clone(), "127.0.0.1:0".parse().unwrap(), settings).await;
    assert!(matches!(missing, Err(StartError::Jwks(_))), "a file that does not exist");
    bursar.close().await;

    std::fs::write(&path, key_set(&[1]).to_string()).unwrap();
    let server = server(jwks).await;
    assert_eq!(status(&server, &token(1)).await, 200);
    std::fs::write(&path, "a file that is not a key set").unwrap();
    let until = Instant::now() + PATIENCE;
    while readings(&server, "failed").await == 0 {
        assert!(Instant::now() < until, "the file is read again");
    }
    assert_eq!(status(&server, &token(1)).await, 200);
    // Nothing asks for the new key: the set is read because it is due.
    std::fs::write(&path, key_set(&[2]).to_string()).unwrap();
    while status(&server, &token(1)).await == 200 {
        assert!(Instant::now() < until, "the old key is gone");
    }
    assert_eq!(status(&server, &token(2)).await, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_starts_before_its_provider() {
    let (provider, address) = Provider::start(Answer::Closed).await;
    let server = server(eager(JwksSource::at(&address).unwrap())).await;
    assert_eq!(status(&server, &token(1)).await, 401);
    provider.answers(Answer::Keys(&[1]));
    let until = Instant::now() + PATIENCE;
    while status(&server, &token(1)).await != 200 {
        assert!(Instant::now() < until, "the keys are read once the provider answers");
    }
    server.stop().await;
}
