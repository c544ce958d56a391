//! Fuzz tests of everything that parses requests: no input causes a panic, and accepted input is interpreted correctly.

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bursar::IfMatch;
use ring::hmac;
use serde_json::{Value, json};

use crate::call::NoFields;
use crate::events::{Channel, EventsQuery, percent_decode};
use crate::parse;
use crate::pipeline::headers::if_match;
use crate::principal::jwt::{JwtKey, JwtRules};
use crate::routes::{self, PageQuery, ReasonQuery};
use crate::trace::{REQUEST_ID, TRACEPARENT, Trace};
use crate::wire::command::CommandBody;
use crate::wire::problem::Problem;
use crate::wire::queue::QueueBody;

const SECRET: &[u8] = b"a secret of more than thirty-two bytes, for tests only";

/// Returns the parsed value, if any. Asserts that an error is a 400 with a detail.
fn accepted<T>(parsed: Result<T, Problem>) -> Option<T> {
    parsed.map_err(|problem| assert!(problem.status == 400 && !problem.detail.is_empty(), "{}", problem.detail)).ok()
}

#[test]
fn bodies_of_any_bytes_are_parsed_or_refused() {
    let deep = |depth: usize| format!("{{\"jobs\":{}{}}}", "[".repeat(depth), "]".repeat(depth)).into_bytes();
    let (near, far) = (deep(parse::DEPTH_MAX), deep(100_000));
    let samples: [&[u8]; 6] = [
        br#"{"charges":[{"scope":"a","amount":1}],"jobs":[{"queue":"q","kind":"k","payload":{"a":1,"b":[1.5e3]}}]}"#,
        br#"{"concurrency":20,"rate":{"amount":100,"per_ms":1000}}"#,
        b"{\"a\":\"\\ud83d\\ude00\",\"a\":1}",
        b"{\"settle\":\"\xff\"}",
        &near,
        &far,
    ];
    bursar_fuzz::bytes(&samples, |bytes| {
        let command = accepted(parse::json::<CommandBody>(bytes, &[])).is_some();
        let queue = accepted(parse::json::<QueueBody>(bytes, &[])).is_some();
        let nothing = accepted(parse::json::<NoFields>(bytes, &[])).is_some();
        if command || queue || nothing {
            let whole = bytes.is_empty() || serde_json::from_slice::<Value>(bytes).is_ok_and(|read| read.is_object());
            assert!(whole, "only a JSON object is accepted");
        }
    });
}

#[test]
fn bodies_of_every_route_are_parsed_or_refused() {
    // A body that is bytes is not parsed.
    for route in routes::all().iter().filter(|route| route.takes_body() && route.streams.is_none()) {
        let sample = route.example.clone().unwrap_or_else(|| json!({}));
        bursar_fuzz::values(&[sample], |value| {
            assert!(accepted((route.check_body)(value)).is_none_or(|()| value.is_object()));
        });
    }
}

#[test]
fn queries_are_parsed_or_refused() {
    bursar_fuzz::texts(&["limit=5&cursor=x%20y", "reason=%C3%A4%26b", "channels=job:x,journal&after=7"], |text| {
        let Ok(uri) = format!("/x?{text}").parse::<Uri>() else { return };
        accepted(parse::query::<PageQuery>(&uri));
        accepted(parse::query::<EventsQuery>(&uri));
        if let Some(ReasonQuery { reason: Some(reason) }) = accepted(parse::query(&uri)) {
            let written: String = reason.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let again: ReasonQuery = parse::query(&format!("/x?reason={written}").parse().unwrap()).unwrap();
            assert_eq!(again.reason, Some(reason), "{uri}");
        }
    });
}

#[test]
fn encoded_and_plain_channels_are_the_same() {
    let samples =
        ["journal", "queue:media", "budget:show:42%2Frow%2CA", "job:job_01j9zq3v4w5x6y7z8abcdefghj", "%6a%6F"];
    bursar_fuzz::texts(&samples, |text| {
        let channel = accepted(Channel::read(text));
        let Some(plain) = percent_decode(text) else {
            assert_eq!(channel, None, "{text:?}");
            return;
        };
        let encoded: String = plain.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(percent_decode(&encoded).as_ref(), Some(&plain));
        assert_eq!(accepted(Channel::read(&encoded)), channel, "{text:?} means the same in full encoding");
        // Every `%` is followed by two hexadecimal digits.
        let mut parts = text.split('%');
        parts.next();
        assert!(
            parts.all(|part| part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit)),
            "{text:?}"
        );
    });
}

#[test]
fn only_an_etag_or_a_star_is_accepted_by_if_match() {
    bursar_fuzz::texts(&["\"17e95898108b94be94b130be606c734a\"", "W/\"1\"", "*"], |text| {
        let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) else { return };
        let headers = HeaderMap::from_iter([(header::IF_MATCH, value)]);
        if let Some(tag) = accepted(if_match(&headers)) {
            match tag.expect("the header is present") {
                IfMatch::Any => assert_eq!(text, "*"),
                IfMatch::Only(tag) => assert_eq!(format!("\"{:032x}\"", tag.0), text.to_lowercase()),
            }
        }
    });
}

#[test]
fn request_ids_and_traces_fit_into_response_headers() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    bursar_fuzz::bytes(&[parent.as_bytes(), b"r-1", b"\xff"], |bytes| {
        let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
        let trace = Trace::of(&HeaderMap::from_iter([(REQUEST_ID, value.clone()), (TRACEPARENT, value)]));
        let mut sent = HeaderMap::new();
        trace.write_headers(&mut sent);
        assert_eq!(sent.len(), 2, "both headers are sent");
        if let Some(taken) = trace.parent() {
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
fn only_a_signed_token_is_accepted() {
    let good = signed(&json!({ "sub": "ann", "exp": 1_800_000_060, "tenant": "acme", "role": "admin" }));
    assert!(verified(&good));
    bursar_fuzz::texts(&[&good, "a.b.c", ".."], |token| assert!(!verified(token) || token == good, "{token}"));
}

#[test]
fn signed_claims_of_any_shape_are_parsed_or_refused() {
    let good = json!({ "sub": "ann", "exp": 1_800_000_060, "nbf": 1, "iss": "i", "aud": ["a"], "tenant": "acme", "role": "user" });
    bursar_fuzz::values(&[good], |claims| {
        if verified(&signed(claims)) {
            assert!(claims["sub"].is_string() && claims["exp"].is_i64() && claims["role"].is_string(), "{claims}");
        }
    });
}

#[test]
fn keys_of_any_bytes_verify_no_forged_token() {
    let pem = |der: &[u8]| format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der));
    // An Ed25519 key, and an RSA key with arbitrary content.
    let ed25519 = [&[0x30, 42, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 33, 0][..], &[7; 32]].concat();
    let oid = [0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
    let rsa = [&[0x30, 0x82, 1, 0x22][..], &oid, &[3, 0x82, 1, 0x0f, 0], &[0x30; 270]].concat();
    assert!(JwtKey::public(&pem(&ed25519)).is_ok() && JwtKey::public(&pem(&rsa)).is_ok());
    let verifies_nothing = |key: JwtKey| {
        let token =
            |algorithm: &str| format!("{}.e30.AAAA", URL_SAFE_NO_PAD.encode(json!({ "alg": algorithm }).to_string()));
        for algorithm in ["HS256", "RS256", "EdDSA", "none"] {
            assert!(JwtKey::verify(std::slice::from_ref(&key), &JwtRules::default(), &token(algorithm), 0).is_err());
        }
    };
    bursar_fuzz::bytes(&[&ed25519, &rsa, &[0x30, 0x82, 0xff, 0xff]], |der| {
        let _ = JwtKey::public(&pem(der)).map(verifies_nothing);
    });
    bursar_fuzz::texts(&[&pem(&ed25519), &pem(&rsa)], |text| {
        let _ = JwtKey::public(text).map(verifies_nothing);
    });
}
