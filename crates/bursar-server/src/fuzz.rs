//! Whatever is sent, nothing that reads a request panics; and what is taken is what was meant.

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bursar::IfMatch;
use ring::hmac;
use serde_json::{Value, json};

use crate::body;
use crate::call::Nothing;
use crate::entry::if_match;
use crate::events::{Channel, EventsQuery, percent_decode};
use crate::principal::jwt::{JwtKey, JwtRules};
use crate::routes::{self, PageQuery, WhyQuery};
use crate::trace::{REQUEST_ID, TRACEPARENT, Trace};
use crate::wire::command::CommandBody;
use crate::wire::problem::Problem;
use crate::wire::queue::QueueBody;

const SECRET: &[u8] = b"a secret of more than thirty-two bytes, for tests only";

/// Something is taken, or refused with words; it is never the server's fault.
fn told<T>(read: Result<T, Problem>) -> Option<T> {
    read.map_err(|problem| assert!(problem.status == 400 && !problem.detail.is_empty(), "{}", problem.detail)).ok()
}

#[test]
fn bodies_of_any_bytes_are_read_or_refused() {
    let deep = |depth: usize| format!("{{\"jobs\":{}{}}}", "[".repeat(depth), "]".repeat(depth)).into_bytes();
    let (near, far) = (deep(body::DEPTH_MAX), deep(100_000));
    let samples: [&[u8]; 6] = [
        br#"{"charges":[{"scope":"a","amount":1}],"jobs":[{"queue":"q","kind":"k","payload":{"a":1,"b":[1.5e3]}}]}"#,
        br#"{"concurrency":20,"rate":{"amount":100,"per_ms":1000}}"#,
        b"{\"a\":\"\\ud83d\\ude00\",\"a\":1}",
        b"{\"settle\":\"\xff\"}",
        &near,
        &far,
    ];
    bursar_fuzz::bytes(&samples, |bytes| {
        let command = told(body::json::<CommandBody>(bytes)).is_some();
        let queue = told(body::json::<QueueBody>(bytes)).is_some();
        let nothing = told(body::json::<Nothing>(bytes)).is_some();
        if command || queue || nothing {
            let whole = bytes.is_empty() || serde_json::from_slice::<Value>(bytes).is_ok_and(|read| read.is_object());
            assert!(whole, "something that is no object was taken");
        }
    });
}

#[test]
fn bodies_of_every_route_are_read_or_refused() {
    for route in routes::all().iter().filter(|route| route.takes_body()) {
        let sample = route.example.clone().unwrap_or_else(|| json!({}));
        bursar_fuzz::values(&[sample], |value| {
            assert!(told((route.readable)(value)).is_none_or(|()| value.is_object()));
        });
    }
}

#[test]
fn queries_are_read_or_refused() {
    bursar_fuzz::texts(&["limit=5&cursor=x%20y", "reason=%C3%A4%26b", "channels=job:x,journal&after=7"], |text| {
        let Ok(uri) = format!("/x?{text}").parse::<Uri>() else { return };
        told(body::query::<PageQuery>(&uri));
        told(body::query::<EventsQuery>(&uri));
        if let Some(WhyQuery { reason: Some(reason) }) = told(body::query(&uri)) {
            let written: String = reason.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let again: WhyQuery = body::query(&format!("/x?reason={written}").parse().unwrap()).unwrap();
            assert_eq!(again.reason, Some(reason), "{uri}");
        }
    });
}

#[test]
fn channels_are_read_as_they_were_written() {
    let samples =
        ["journal", "queue:media", "budget:show:42%2Frow%2CA", "job:job_01j9zq3v4w5x6y7z8abcdefghj", "%6a%6F"];
    bursar_fuzz::texts(&samples, |text| {
        let channel = told(Channel::read(text));
        let Some(plain) = percent_decode(text) else {
            assert_eq!(channel, None, "{text:?}");
            return;
        };
        let encoded: String = plain.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(percent_decode(&encoded).as_ref(), Some(&plain));
        assert_eq!(told(Channel::read(&encoded)), channel, "{text:?} means the same in full encoding");
        // Each sign of percent stands for a byte that two digits say.
        let mut parts = text.split('%');
        parts.next();
        assert!(
            parts.all(|part| part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit)),
            "{text:?}"
        );
    });
}

#[test]
fn only_what_was_given_out_is_taken_for_a_tag() {
    bursar_fuzz::texts(&["\"17e95898108b94be94b130be606c734a\"", "W/\"1\"", "*"], |text| {
        let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) else { return };
        let headers = HeaderMap::from_iter([(header::IF_MATCH, value)]);
        if let Some(tag) = told(if_match(&headers)) {
            match tag.expect("there is one") {
                IfMatch::Any => assert_eq!(text, "*"),
                IfMatch::Only(tag) => assert_eq!(format!("\"{:032x}\"", tag.0), text.to_lowercase()),
            }
        }
    });
}

#[test]
fn traces_and_ids_of_requests_fit_into_headers_again() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    bursar_fuzz::bytes(&[parent.as_bytes(), b"r-1", b"\xff"], |bytes| {
        let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
        let trace = Trace::of(&HeaderMap::from_iter([(REQUEST_ID, value.clone()), (TRACEPARENT, value)]));
        let mut told = HeaderMap::new();
        trace.tell(&mut told);
        assert_eq!(told.len(), 2, "both are told");
        if let Some(taken) = trace.parent {
            assert_eq!(taken.to_string().as_bytes(), bytes);
        }
    });
}

fn signed(claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encode(&json!({ "alg": "HS256" })), encode(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
}

fn verified(token: &str) -> bool {
    JwtKey::verify(&[JwtKey::secret(SECRET).unwrap()], &JwtRules::default(), token, 1_800_000_000).is_ok()
}

#[test]
fn no_token_is_taken_but_one_that_was_signed() {
    let good = signed(&json!({ "sub": "ann", "exp": 1_800_000_060, "tenant": "acme", "role": "admin" }));
    assert!(verified(&good));
    bursar_fuzz::texts(&[&good, "a.b.c", ".."], |token| assert!(!verified(token) || token == good, "{token}"));
}

#[test]
fn claims_of_any_shape_that_somebody_signed_are_read_or_refused() {
    let good = json!({ "sub": "ann", "exp": 1_800_000_060, "nbf": 1, "iss": "i", "aud": ["a"], "tenant": "acme", "role": "user" });
    bursar_fuzz::values(&[good], |claims| {
        if verified(&signed(claims)) {
            assert!(claims["sub"].is_string() && claims["exp"].is_i64() && claims["role"].is_string(), "{claims}");
        }
    });
}

#[test]
fn keys_of_any_bytes_are_read_or_refused_and_sign_nothing() {
    let pem = |der: &[u8]| format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der));
    // An Ed25519 key, and the beginning of one of RSA.
    let ed25519 = [&[0x30, 42, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 33, 0][..], &[7; 32]].concat();
    let oid = [0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
    let rsa = [&[0x30, 0x82, 1, 0x22][..], &oid, &[3, 0x82, 1, 0x0f, 0], &[0x30; 270]].concat();
    assert!(JwtKey::public(&pem(&ed25519)).is_ok() && JwtKey::public(&pem(&rsa)).is_ok());
    let signs_nothing = |key: JwtKey| {
        let token =
            |algorithm: &str| format!("{}.e30.AAAA", URL_SAFE_NO_PAD.encode(json!({ "alg": algorithm }).to_string()));
        for algorithm in ["HS256", "RS256", "EdDSA", "none"] {
            assert!(JwtKey::verify(std::slice::from_ref(&key), &JwtRules::default(), &token(algorithm), 0).is_err());
        }
    };
    bursar_fuzz::bytes(&[&ed25519, &rsa, &[0x30, 0x82, 0xff, 0xff]], |der| {
        let _ = JwtKey::public(&pem(der)).map(signs_nothing);
    });
    bursar_fuzz::texts(&[&pem(&ed25519), &pem(&rsa)], |text| {
        let _ = JwtKey::public(text).map(signs_nothing);
    });
}
