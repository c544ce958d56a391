//! Signatures against the test vectors of RFC 9421 and RFC 9530, and against altered requests.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::time::{Duration, SystemTime};

use bursar_signatures::{
    BodyDigest, Checks, Head, PublicKey, SignatureError, Signer, VerifiedSignature, new_seed, signature_base, verify,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request};

const NOW: i64 = 1_800_000_000;
const BODY: &str = r#"{"claim":"x"}"#;

fn at(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs())
}

fn signer() -> Signer {
    Signer::from_seed(&[7; 32]).unwrap()
}

fn any_host() -> Vec<String> {
    vec!["*".to_owned()]
}

fn checked(head: &Parts) -> Result<VerifiedSignature, SignatureError> {
    verify(Head::of(head), &Checks { now: NOW, window: 60, authorities: &any_host() })
}

/// Returns the head of a signed request.
fn signed() -> Parts {
    let mut request = Request::post("/claims?lens=a%20b&x=").header("host", "api.example").body(BODY).unwrap();
    signer().sign(&mut request, at(NOW)).unwrap();
    request.into_parts().0
}

/// The key `test-key-ed25519` of RFC 9421, appendix B.1.4.
const RFC_SEED: [u8; 32] = [
    0x9f, 0x83, 0x62, 0xf8, 0x7a, 0x48, 0x4a, 0x95, 0x4e, 0x6e, 0x74, 0x0c, 0x5b, 0x4c, 0x0e, 0x84, 0x22, 0x91, 0x39,
    0xa2, 0x0a, 0xa8, 0xab, 0x56, 0xff, 0x66, 0x58, 0x6f, 0x6a, 0x7d, 0x29, 0xc5,
];

/// The input of the example in RFC 9421, appendix B.2.6.
const RFC_INPUT: &str = "sig-b26=(\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" \"content-length\");created=1618884473;keyid=\"test-key-ed25519\"";

#[test]
fn the_example_of_rfc_9421_is_verified() {
    let request = Request::post("/foo?param=Value&Pet=dog")
        .header("host", "example.com")
        .header("date", "Tue, 20 Apr 2021 02:07:55 GMT")
        .header("content-type", "application/json")
        .header("content-length", "18");
    let (head, ()) = request.body(()).unwrap().into_parts();
    let text = signature_base(Head::of(&head), "sig-b26", RFC_INPUT).unwrap();
    let expected = "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@method\": POST\n\"@path\": /foo\n\"@authority\": example.com\n\
        \"content-type\": application/json\n\"content-length\": 18\n\"@signature-params\": (\"date\" \"@method\" \"@path\" \
        \"@authority\" \"content-type\" \"content-length\");created=1618884473;keyid=\"test-key-ed25519\"";
    assert_eq!(text, expected);
    let signature = "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==";
    let signature = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, signature).unwrap();
    let public = Signer::from_seed(&RFC_SEED).unwrap().public_key();
    assert_eq!(public.to_string(), "26b40b8f93fff3d897112f7ebc582b232dbd72517d082fe83cfb30ddce43d1bb");
    let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, public.0);
    key.verify(text.as_bytes(), &signature).unwrap();
    assert!(key.verify(text.replace("/foo", "/fop").as_bytes(), &signature).is_err());
}

/// The vectors that the TypeScript and the Python package sign too.
#[test]
fn all_languages_sign_alike() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/signatures/vectors.json")).unwrap();
    for vector in vectors.as_array().unwrap() {
        let text = |name: &str| vector[name].as_str().unwrap_or_default();
        let mut signer = Signer::from_hex(text("seed")).unwrap();
        if let Some(agent) = vector["agent"].as_str() {
            signer = signer.named(agent).unwrap();
        }
        let request = Request::builder().method(text("method")).uri(text("url")).body(()).unwrap();
        let (head, ()) = request.into_parts();
        let body = Some(text("body")).filter(|body| !body.is_empty()).map(|body| BodyDigest::of(body.as_bytes()));
        let mut headers = http::HeaderMap::new();
        signer.sign_head(&head.method, &head.uri, &mut headers, body, at(NOW), text("nonce")).unwrap();
        let expected = vector["headers"].as_object().unwrap();
        assert_eq!(headers.len(), expected.len(), "{vector}");
        for (name, value) in expected {
            assert_eq!(headers[name.as_str()].to_str().unwrap(), value.as_str().unwrap(), "{}: {name}", text("name"));
        }
        let mut signed = head;
        signed.headers = headers;
        assert_eq!(checked(&signed).unwrap().agent, signer.agent());
    }
}

#[test]
fn the_digest_of_rfc_9530_is_computed() {
    let digest = BodyDigest::of(b"{\"hello\": \"world\"}\n");
    assert_eq!(digest.header(), "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:");
}

#[test]
fn a_signed_request_is_verified() {
    let head = signed();
    let found = checked(&head).unwrap();
    assert_eq!((found.agent.as_str(), found.key), (signer().agent(), signer().public_key()));
    assert!(found.digest.unwrap().is_of(BODY.as_bytes()) && !found.digest.unwrap().is_of(b"{}"));
    // Two signatures of the same request have different nonces.
    assert_ne!(checked(&signed()).unwrap().nonce, found.nonce);

    // An absolute URI names the host, as in HTTP/2.
    let mut request = Request::get("https://API.example/a").body("").unwrap();
    signer().named("alice").unwrap().sign(&mut request, at(NOW)).unwrap();
    let (mut head, _) = request.into_parts();
    let found = checked(&head).unwrap();
    assert_eq!((found.agent.as_str(), found.digest), ("alice", None));
    head.uri = "/a".parse().unwrap();
    head.headers.insert("host", HeaderValue::from_static("api.example"));
    assert!(checked(&head).is_ok(), "the same request over HTTP/1.1");
}

#[test]
fn any_altered_part_of_a_request_is_refused() {
    let head = signed();
    let refused = |change: &dyn Fn(&mut Parts)| {
        let mut altered = head.clone();
        change(&mut altered);
        checked(&altered).expect_err("an altered request").reason()
    };
    assert_eq!(refused(&|head| head.method = http::Method::PUT), "wrong-signature");
    for uri in
        ["/claims?lens=a%20b", "/claims?lens=a+b&x=", "/claim?lens=a%20b&x=", "/claims/?lens=a%20b&x=", "/claims"]
    {
        assert_eq!(refused(&|head| head.uri = uri.parse().unwrap()), "wrong-signature", "{uri}");
    }
    let set = |head: &mut Parts, name: &'static str, value: &str| {
        head.headers.insert(name, HeaderValue::from_str(value).unwrap());
    };
    assert_eq!(refused(&|head| set(head, "host", "other.example")), "wrong-signature");
    assert_eq!(refused(&|head| set(head, "x-agent-id", "alice")), "wrong-signature");
    assert_eq!(refused(&|head| set(head, "content-digest", &BodyDigest::of(b"y").header())), "wrong-signature");
    assert_eq!(refused(&|head| drop(head.headers.remove("signature"))), "malformed");
    assert_eq!(refused(&|head| drop(head.headers.remove("signature-input"))), "malformed");
    assert_eq!(refused(&|head| drop(head.headers.remove("content-digest"))), "unknown-component");
    let second = |name: &'static str| {
        move |head: &mut Parts| {
            let value = head.headers[name].clone();
            head.headers.append(name, value);
        }
    };
    for (name, reason) in [
        ("x-agent-id", "malformed"),
        ("host", "malformed"),
        ("signature", "malformed"),
        ("signature-input", "malformed"),
    ] {
        assert_eq!(refused(&second(name)), reason, "{name}");
    }
    assert_eq!(refused(&second("content-digest")), "wrong-signature");
}

/// Changes each byte of each signed header in turn.
#[test]
fn any_altered_byte_of_a_signed_header_is_refused() {
    let head = signed();
    let before = checked(&head).unwrap();
    for name in ["host", "x-agent-id", "content-digest", "signature-input", "signature"] {
        let name = HeaderName::from_static(name);
        let value = head.headers[&name].as_bytes().to_vec();
        for place in 0..value.len() {
            for flip in [1, 2, 4, 0x20] {
                let mut value = value.clone();
                value[place] ^= flip;
                let Ok(value) = HeaderValue::from_bytes(&value) else { continue };
                let mut altered = head.clone();
                altered.headers.insert(name.clone(), value.clone());
                let Ok(found) = checked(&altered) else { continue };
                // A host is compared in lower case, and unused bits of base64 are refused.
                assert_eq!((name.as_str(), &found), ("host", &before), "{value:?}");
            }
        }
    }
}

#[test]
fn fuzz_only_the_signed_headers_are_accepted() {
    let head = signed();
    let (input, signature) = (head.headers["signature-input"].clone(), head.headers["signature"].clone());
    let before = checked(&head).unwrap();
    for (name, sample) in [("signature-input", &input), ("signature", &signature)] {
        bursar_fuzz::bytes(&[sample.as_bytes()], |bytes| {
            let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
            let mut altered = head.clone();
            altered.headers.insert(name, value);
            // White space and labels have no meaning; whatever is accepted says the same.
            if let Ok(found) = checked(&altered) {
                assert_eq!(found, before, "{:?}", String::from_utf8_lossy(bytes));
            }
        });
    }
}

/// Signs like [`signed`], with another text for the parameters or components.
fn with_input(change: impl Fn(&str) -> String) -> Result<VerifiedSignature, SignatureError> {
    let mut head = signed();
    let input = change(head.headers["signature-input"].to_str().unwrap());
    let text = signature_base(Head::of(&head), "agent", &input).unwrap_or_default();
    let key = ring::signature::Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let signature = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, key.sign(text.as_bytes()));
    head.headers.insert("signature-input", HeaderValue::from_str(&input).unwrap());
    head.headers.insert("signature", HeaderValue::from_str(&format!("agent=:{signature}:")).unwrap());
    checked(&head)
}

#[test]
fn a_signature_must_cover_the_request_and_say_when_and_by_which_key_it_was_made() {
    assert!(with_input(str::to_owned).is_ok(), "the helper signs correctly");
    assert!(with_input(|input| input.replace(";alg=\"ed25519\"", "")).is_ok(), "the key says the algorithm");
    assert!(with_input(|input| format!("{input};tag=\"other\"")).is_ok(), "further parameters are signed too");
    for component in ["@method", "@authority", "@path", "@query", "x-agent-id"] {
        let refused = with_input(|input| input.replace(&format!("\"{component}\" "), ""));
        assert_eq!(refused, Err(SignatureError::MissingComponent(component)), "{component}");
    }
    let without_digest = with_input(|input| input.replace(" \"content-digest\"", "")).unwrap();
    assert_eq!(without_digest.digest, None, "then the body must be empty");
    let parameter = |name: &str, value: &str| {
        with_input(|input| {
            let (list, parameters) = input.split_once(");").unwrap();
            let kept = parameters.split(';').filter(|part| !part.starts_with(&format!("{name}=")));
            let mut kept: Vec<String> = kept.map(str::to_owned).collect();
            (!value.is_empty()).then(|| kept.push(format!("{name}={value}")));
            format!("{list});{}", kept.join(";"))
        })
    };
    for name in ["created", "nonce", "keyid"] {
        assert!(
            matches!(parameter(name, ""), Err(SignatureError::MissingParameter(missing)) if missing == name),
            "{name}"
        );
    }
    for (name, value, reason) in [
        ("created", "1799999939", "stale"),
        ("created", "1800000061", "stale"),
        ("created", "-999999999999999", "stale"),
        ("created", "\"1800000000\"", "malformed"),
        ("expires", "1800000000", "expired"),
        ("expires", "0", "expired"),
        ("nonce", "\"123456789012345\"", "malformed"),
        ("nonce", "1234567890123456", "malformed"),
        ("alg", "\"hmac-sha256\"", "malformed"),
        ("alg", "\"rsa-v1_5-sha256\"", "malformed"),
        ("keyid", "\"alice\"", "malformed"),
    ] {
        assert_eq!(parameter(name, value).unwrap_err().reason(), reason, "{name}={value}");
    }
    for (name, value) in [("created", "1799999940"), ("created", "1800000060"), ("expires", "1800000001")] {
        assert!(parameter(name, value).is_ok(), "{name}={value}");
    }
    for component in [
        "\"@status\"",
        "\"@target-uri\"",
        "\"x-missing\"",
        "\"X-Agent-Id\"",
        "\"date\";sf",
        "\"@query-param\";name=\"a\"",
    ] {
        let refused = with_input(|input| input.replace("(\"@method\"", &format!("({component} \"@method\"")));
        assert_eq!(refused.unwrap_err().reason(), "unknown-component", "{component}");
    }
    let twice = with_input(|input| input.replace("(\"@method\"", "(\"@method\" \"@method\""));
    assert_eq!(twice.unwrap_err().reason(), "malformed");
}

#[test]
fn signatures_of_proxies_are_ignored_and_two_of_agents_are_refused() {
    let mut head = signed();
    let (input, signature) = (head.headers["signature-input"].clone(), head.headers["signature"].clone());
    let append = |head: &mut Parts, name: &'static str, text: &str| {
        head.headers.append(name, HeaderValue::from_str(text).unwrap());
    };
    append(&mut head, "signature-input", "proxy=(\"@authority\";req \"date\");keyid=\"p\"");
    append(&mut head, "signature", "proxy=:AAEC:");
    assert!(checked(&head).is_ok());
    append(&mut head, "signature-input", &input.to_str().unwrap().replace("agent=", "second="));
    append(&mut head, "signature", &signature.to_str().unwrap().replace("agent=", "second="));
    assert_eq!(checked(&head).unwrap_err().reason(), "malformed");
}

#[test]
fn a_signature_for_another_service_is_refused() {
    let head = signed();
    let of = |names: &[&str]| {
        let authorities: Vec<String> = names.iter().map(ToString::to_string).collect();
        verify(Head::of(&head), &Checks { now: NOW, window: 60, authorities: &authorities })
    };
    assert!(of(&["other.example", "API.example"]).is_ok());
    for names in [&[][..], &["other.example"], &["api.example:443"], &["example"]] {
        assert_eq!(of(names), Err(SignatureError::WrongAuthority("api.example".into())), "{names:?}");
    }
}

#[test]
fn a_signer_refuses_what_cannot_be_signed() {
    let mut relative = Request::get("/a").body("").unwrap();
    assert_eq!(
        signer().sign(&mut relative, at(NOW)).unwrap_err().to_string().split(':').next(),
        Some("the request has no host")
    );
    for name in ["", " a", "a ", "a\tb", "é", &"x".repeat(250)] {
        assert!(signer().named(name).is_err(), "{name:?}");
    }
    let (parts, ()) = Request::get("https://a/").body(()).unwrap().into_parts();
    for nonce in ["short", &"x".repeat(129), "0123456789 012345", "0123456789\"012345"] {
        let mut headers = http::HeaderMap::new();
        assert!(signer().sign_head(&parts.method, &parts.uri, &mut headers, None, at(NOW), nonce).is_err(), "{nonce}");
    }
    assert_ne!(new_seed().unwrap(), new_seed().unwrap());
    assert!(!format!("{:?}", signer()).contains("07070707"), "the private key is not shown");
    assert!(PublicKey([0; 32]).to_string().parse::<PublicKey>().is_ok());
}
