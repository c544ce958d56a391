//! Who asks: the operator, keys, workers, users; and who is not known.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bursar::Bursar;
use bursar_server::{Server, Settings, StartError};
use ring::hmac;
use serde_json::{Value, json};

use crate::client::{request, send};
use crate::home::{Home, OPERATOR, SECRET, on_both};

on_both!(tokens_are_shown_once_rotated_and_revoked, users_are_who_their_tokens_say);

async fn tokens_are_shown_once_rotated_and_revoked(home: Home) {
    let body = json!({ "name": "encoder", "capabilities": { "queues": ["media"], "kinds": ["*"] } });
    let made = home.ask("POST", "/v1/workers", body).await.is(201);
    let (path, token) =
        (made.header("location").unwrap().to_owned(), made.json()["token"].as_str().unwrap().to_owned());
    assert!(token.starts_with("bwk_") && path.starts_with("/v1/workers/wkr_"));
    let shown = home.ask("GET", &path, Value::Null).await.is(200);
    assert!(!shown.text.contains(&token[10..40]) && shown.json()["state"] == "good");
    assert_eq!(shown.json()["capabilities"]["queues"], json!(["media"]));
    let lease = json!({ "queues": ["media"] });
    home.ask_as(&token, "POST", "/v1/jobs/lease", lease.clone()).await.is(200);
    // That it was used is written down by and by.
    while !home.ask("GET", &path, Value::Null).await.is(200).json()["last_used_at"].is_string() {}
    let rotated = home.ask("POST", &format!("{path}/rotate"), json!({ "overlap_ms": 600_000 })).await.is(201);
    let fresh = rotated.json()["token"].as_str().unwrap().to_owned();
    for good in [&token, &fresh] {
        home.ask_as(good, "POST", "/v1/jobs/lease", lease.clone()).await.is(200);
    }
    // Without an overlap the old one is over at once.
    let path = rotated.header("location").unwrap().to_owned();
    let third = home.ask("POST", &format!("{path}/rotate"), json!({ "overlap_ms": 0 })).await.is(201);
    let (last, last_path) =
        (third.json()["token"].as_str().unwrap().to_owned(), third.header("location").unwrap().to_owned());
    assert_eq!(home.ask_as(&fresh, "POST", "/v1/jobs/lease", lease.clone()).await.is(401).problem(), "unauthorized");
    let over = home.ask("POST", &format!("{path}/rotate"), json!({})).await.is(409);
    assert_eq!(over.problem(), "conflict");
    home.ask_as(&last, "POST", "/v1/jobs/lease", lease.clone()).await.is(200);
    home.ask("DELETE", &last_path, Value::Null).await.is(204);
    let refused = home.ask_as(&last, "POST", "/v1/jobs/lease", lease.clone()).await.is(401);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"bursar\""));
    let listed = home.ask("GET", "/v1/workers", Value::Null).await.is(200).json();
    let states: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|worker| worker["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["good", "expired", "revoked"]);
    // Whatever is wrong with a token, the answer is the same.
    let mistyped = format!("{}{}", &token[..token.len() - 1], if token.ends_with('0') { '1' } else { '0' });
    let detail = refused.json()["detail"].clone();
    for bad in [mistyped.as_str(), "", "x", &token.replace("bwk_", "bop_"), &token.replace("bwk_", "bgr_"), "a.b.c"] {
        let answer = home.ask_as(bad, "GET", "/v1/budgets", Value::Null).await.is(401);
        assert_eq!(answer.json()["detail"], detail, "{bad}");
    }
    // A worker's header takes a worker's token only; two tokens are none.
    let key = home.key("default", "admin").await;
    let by_header = request("GET", "/v1/budgets", &[("X-Worker-Token", &key)], None);
    send(home.address, by_header.as_bytes()).await.is(401);
    let bearer = format!("Bearer {OPERATOR}");
    let both = request("GET", "/v1/budgets", &[("Authorization", &bearer), ("X-Worker-Token", &token)], None);
    send(home.address, both.as_bytes()).await.is(401);
    for (body, field) in [
        (json!({ "name": "k", "role": "operator" }), "role"),
        (json!({ "name": "k", "role": "worker" }), "role"),
        (json!({ "name": "", "role": "user" }), "name"),
        (json!({ "name": "k", "role": "user", "expires_in_ms": 0 }), "expires_in_ms"),
        (json!({ "name": "k", "role": "user", "expires_in_ms": -5 }), "expires_in_ms"),
    ] {
        assert_eq!(home.ask("POST", "/v1/keys", body.clone()).await.is(400).json()["field"], field, "{body}");
    }
    let admin = home.key("acme", "admin").await;
    let monitor = home.ask_as(&admin, "POST", "/v1/keys", json!({ "name": "m", "role": "monitor" })).await.is(403);
    assert_eq!(monitor.problem(), "forbidden");
    home.stop().await;
}

/// A token of a user, signed by somebody whom the operator trusts.
pub(crate) fn jwt(claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encode(&json!({ "alg": "HS256" })), encode(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
}

async fn users_are_who_their_tokens_say(home: Home) {
    let far = 4_000_000_000_i64;
    let ann = jwt(&json!({ "sub": "ann", "exp": far, "tenant": "acme", "role": "admin" }));
    let bob = jwt(&json!({ "sub": "bob", "exp": far, "tenant": "acme", "role": "user" }));
    home.ask_as(&ann, "PUT", "/v1/budgets/room", json!({ "limits": [{ "amount": 5, "window": "day" }] })).await.is(200);
    home.ask_as(&bob, "POST", "/v1/commands", json!({ "charges": [{ "scope": "room", "amount": 1 }] })).await.is(201);
    home.ask_as(&bob, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).await.is(201);
    for (method, path) in
        [("PUT", "/v1/budgets/room"), ("PUT", "/v1/queues/q"), ("POST", "/v1/keys"), ("POST", "/v1/workers")]
    {
        assert_eq!(home.ask_as(&bob, method, path, json!({})).await.is(403).problem(), "forbidden", "{path}");
    }
    let journal = home.ask_as(&ann, "GET", "/v1/journal?kind=job.enqueued", Value::Null).await.is(200).json();
    assert_eq!(journal["items"][0]["actor"], json!({ "kind": "user", "id": "bob" }));
    let over = jwt(&json!({ "sub": "ann", "exp": 1, "tenant": "acme", "role": "admin" }));
    assert_eq!(home.ask_as(&over, "GET", "/v1/budgets", Value::Null).await.is(401).problem(), "unauthorized");
    home.stop().await;
}

#[tokio::test]
async fn who_guesses_is_slowed_down_and_who_is_known_is_not() {
    let home = Home::limited(bursar_server::Limits::default()).await;
    home.ask_as("wrong", "GET", "/v1/budgets", Value::Null).await.is(401);
    home.ask("GET", "/v1/budgets", Value::Null).await.is(200);
    let mut refused = None;
    for _ in 0..100 {
        let answer = home.ask_as("wrong", "GET", "/v1/budgets", Value::Null).await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("at some time it is enough");
    assert_eq!(refused.problem(), "too-many-attempts");
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    home.ask("GET", "/v1/budgets", Value::Null).await.is(200);
    home.stop().await;
}

#[tokio::test]
async fn a_public_address_needs_an_operators_token() {
    let open = async |address: &str, token: Option<&str>| {
        let bursar = Bursar::open("sqlite::memory:").await.unwrap();
        let settings = Settings { operator_token: token.map(str::to_owned), ..Settings::default() };
        Server::bind(bursar, address.parse().unwrap(), settings).await
    };
    assert!(matches!(open("0.0.0.0:0", None).await.map(drop), Err(StartError::Open(_))));
    assert!(matches!(open("[::]:0", None).await.map(drop), Err(StartError::Open(_))));
    assert!(matches!(open("127.0.0.1:0", Some("short")).await.map(drop), Err(StartError::ShortToken)));
    assert!(open("0.0.0.0:0", Some(OPERATOR)).await.is_ok());
    let made = open("127.0.0.1:0", None).await.unwrap();
    assert!(made.operator_token().unwrap().starts_with("bop_"), "on the machine itself one is made");
}

#[tokio::test]
async fn the_first_token_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let mut made = Vec::new();
    for _ in 0..2 {
        let bursar = Bursar::open(&url).await.unwrap();
        let server = Server::bind(bursar.clone(), "127.0.0.1:0".parse().unwrap(), Settings::default()).await.unwrap();
        made.push(server.operator_token().map(str::to_owned));
        bursar.close().await;
    }
    assert!(made[0].is_some() && made[1].is_none(), "{made:?}");
}
