use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::json;

use super::*;

const SECRET: &[u8] = b"a secret of more than thirty-two bytes, for tests only";
const NOW: i64 = 1_800_000_000;

fn signed(algorithm: &str, claims: &serde_json::Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let encode = |value: String| URL_SAFE_NO_PAD.encode(value);
    let text =
        format!("{}.{}", encode(json!({ "alg": algorithm, "typ": "JWT" }).to_string()), encode(claims.to_string()));
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(sign(text.as_bytes())))
}

fn hmac(text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), text).as_ref().to_vec()
}

fn verify(token: &str) -> Result<User, JwtError> {
    JwtKey::verify(&[JwtKey::secret(SECRET).unwrap()], &JwtRules::default(), token, NOW)
}

fn pem(der: &[u8]) -> String {
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}

/// Encodes a DER element whose length fits into two bytes.
fn der(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = match length {
        0..0x80 => vec![tag, length as u8],
        0x80..0x100 => vec![tag, 0x81, length as u8],
        _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
    };
    [head.as_slice(), body].concat()
}

fn public_pem(oid: &[u8], key: &[u8], with_null: bool) -> String {
    let null: &[u8] = if with_null { &[5, 0] } else { &[] };
    let algorithm = der(0x30, &[der(6, oid).as_slice(), null].concat());
    let bits = der(3, &[&[0], key].concat());
    pem(&der(0x30, &[algorithm, bits].concat()))
}

fn good() -> serde_json::Value {
    json!({ "sub": "ann", "exp": NOW + 60, "tenant": "acme", "role": "admin" })
}

#[test]
fn a_valid_token_identifies_its_user() {
    let tenant = Tenant::new("acme").unwrap();
    let user = verify(&signed("HS256", &good(), hmac)).unwrap();
    assert_eq!((user.subject.as_str(), user.tenant, user.role), ("ann", tenant, Role::Admin));
    let plain = verify(&signed("HS256", &json!({ "sub": "bob", "exp": NOW + 1, "role": "user" }), hmac)).unwrap();
    assert_eq!((plain.tenant, plain.role), (Tenant::built_in(), Role::User));
}

#[test]
fn an_invalid_token_fails_with_its_reason() {
    let with = |name: &str, value: serde_json::Value| {
        let mut claims = good();
        claims[name] = value;
        signed("HS256", &claims, hmac)
    };
    let without = |name: &str| {
        let mut claims = good();
        claims.as_object_mut().unwrap().remove(name);
        signed("HS256", &claims, hmac)
    };
    let cases = [
        (with("exp", json!(NOW - 61)), JwtError::OutsideValidity),
        (with("nbf", json!(NOW + 61)), JwtError::OutsideValidity),
        (without("exp"), JwtError::Malformed),
        (without("sub"), JwtError::Malformed),
        (without("role"), JwtError::InvalidClaims),
        (with("role", json!("operator")), JwtError::InvalidClaims),
        (with("role", json!("worker")), JwtError::InvalidClaims),
        (with("sub", json!("")), JwtError::InvalidClaims),
        (with("tenant", json!("")), JwtError::InvalidClaims),
        (signed("none", &good(), |_| Vec::new()), JwtError::BadSignature),
        (signed("HS256", &good(), |_| Vec::new()), JwtError::BadSignature),
        (signed("RS256", &good(), hmac), JwtError::BadSignature),
        ("a.b.c".into(), JwtError::Malformed),
        (format!("{}x", signed("HS256", &good(), hmac)), JwtError::BadSignature),
        ("x".repeat(10_000), JwtError::Malformed),
    ];
    for (token, error) in cases {
        assert_eq!(verify(&token), Err(error), "{token:.80}");
    }
    // A token signed with another secret, and one whose claims were changed after signing.
    let other = signed("HS256", &good(), |text| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"other"), text).as_ref().to_vec()
    });
    assert_eq!(verify(&other), Err(JwtError::BadSignature));
    let (ours, theirs) = (signed("HS256", &good(), hmac), with("role", json!("viewer")));
    let swapped: Vec<&str> =
        ours.split('.').take(1).chain(theirs.split('.').skip(1).take(1)).chain(ours.split('.').skip(2)).collect();
    assert_eq!(verify(&swapped.join(".")), Err(JwtError::BadSignature));
}

#[test]
fn issuer_and_audience_are_checked() {
    let rules = JwtRules { issuer: Some("idp".into()), audience: Some("bursar".into()) };
    let check = |iss: serde_json::Value, aud: serde_json::Value| {
        let mut claims = good();
        (claims["iss"], claims["aud"]) = (iss, aud);
        let token = signed("HS256", &claims, hmac);
        JwtKey::verify(&[JwtKey::secret(SECRET).unwrap()], &rules, &token, NOW).map(drop)
    };
    assert_eq!(check(json!("idp"), json!("bursar")), Ok(()));
    assert_eq!(check(json!("idp"), json!(["x", "bursar"])), Ok(()));
    assert_eq!(check(json!("idp"), json!("x")), Err(JwtError::WrongIssuerOrAudience));
    assert_eq!(check(json!("idp"), json!(null)), Err(JwtError::WrongIssuerOrAudience));
    assert_eq!(check(json!(null), json!("bursar")), Err(JwtError::WrongIssuerOrAudience));
}

#[test]
fn ed25519_tokens_are_verified() {
    let pair =
        Ed25519KeyPair::from_pkcs8(Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap().as_ref()).unwrap();
    let public = public_pem(&ED25519_OID, pair.public_key().as_ref(), false);
    let keys = [JwtKey::public(&public).unwrap()];
    let token = signed("EdDSA", &good(), |text| pair.sign(text).as_ref().to_vec());
    assert_eq!(JwtKey::verify(&keys, &JwtRules::default(), &token, NOW).unwrap().subject, "ann");
    // Algorithm confusion: an HS256 token signed with the public key as the secret.
    let forged = signed("HS256", &good(), |text| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, public.as_bytes()), text).as_ref().to_vec()
    });
    assert_eq!(JwtKey::verify(&keys, &JwtRules::default(), &forged, NOW), Err(JwtError::BadSignature));
}

#[test]
fn rsa_tokens_are_verified() {
    let pair = RsaKeyPair::from_der(include_bytes!("test_rsa.der")).unwrap();
    let keys = [JwtKey::public(&public_pem(&RSA, pair.public_key().as_ref(), true)).unwrap()];
    let sign = |text: &[u8]| {
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature).unwrap();
        signature
    };
    let token = signed("RS256", &good(), sign);
    assert_eq!(JwtKey::verify(&keys, &JwtRules::default(), &token, NOW).unwrap().role, Role::Admin);
    assert_eq!(
        JwtKey::verify(&keys, &JwtRules::default(), &signed("EdDSA", &good(), sign), NOW),
        Err(JwtError::BadSignature)
    );
}

#[test]
fn invalid_keys_are_refused() {
    assert_eq!(JwtKey::secret(b"short").map(drop), Err(JwtError::ShortSecret));
    for bad in
        ["", "-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----", &pem(&[0x30, 0x82, 0xff]), &pem(&[0x30, 0x80])]
    {
        assert_eq!(JwtKey::public(bad).map(drop), Err(JwtError::BadKey), "{bad}");
    }
    assert_eq!(format!("{:?}", JwtKey::secret(SECRET).unwrap()), "JwtKey(HS256)");
}
