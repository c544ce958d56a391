//! JSON Web Tokens of users, signed by an identity provider that the operator configures.
//!
//! This is written here because the maintained JWT crates bring a second cryptography library. `ring` is already a dependency, and
//! only three algorithms are needed, each bound to the type of its key.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bursar::Tenant;
use bursar::bounds::NAME_BYTES_MAX;
use ring::hmac;
use ring::signature::{ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;

use crate::principal::permissions::Role;

/// Tolerated difference between the issuer's clock and this one, in seconds.
const LEEWAY_SECS: i64 = 60;
/// Maximum size of a token in bytes.
const BYTES_MAX: usize = 8 << 10;
/// Minimum size of a shared secret in bytes.
const SECRET_BYTES_MIN: usize = 32;

/// A key that verifies JWTs. It belongs to one algorithm, so the header of a token cannot choose another.
#[derive(Clone)]
pub struct JwtKey(Key);

#[derive(Clone)]
enum Key {
    Hs256(hmac::Key),
    Rs256(Vec<u8>),
    /// An RSA key as its modulus and its exponent.
    Components(Vec<u8>, Vec<u8>),
    EdDsa(Vec<u8>),
}

/// The issuer and audience that a JWT must have; `None` accepts any.
#[derive(Clone, Debug, Default)]
pub struct JwtRules {
    /// The required `iss` claim.
    pub issuer: Option<String>,
    /// The required `aud` claim.
    pub audience: Option<String>,
}

/// Why a JWT key or token is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum JwtError {
    #[error("a JWT secret must have at least {SECRET_BYTES_MIN} bytes")]
    ShortSecret,
    #[error("a JWT public key must be PEM: `BEGIN PUBLIC KEY`, RSA of 2048 bits or more, or Ed25519")]
    BadKey,
    #[error("the token is malformed")]
    Malformed,
    #[error("no key matches the token's algorithm, or the signature is wrong")]
    BadSignature,
    #[error("the token has expired, or is not valid yet")]
    OutsideValidity,
    #[error("the token has another issuer or audience")]
    WrongIssuerOrAudience,
    #[error("the token has no valid role, subject or tenant")]
    InvalidClaims,
}

/// The user that a JWT identifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) subject: String,
    pub(crate) tenant: Tenant,
    pub(crate) role: Role,
    pub(crate) valid_until: i64,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: i64,
    #[serde(default)]
    nbf: Option<i64>,
    #[serde(default)]
    iss: Option<String>,
    #[serde(default)]
    aud: Option<Audience>,
    #[serde(default)]
    tenant: Option<String>,
    #[serde(default)]
    role: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl JwtKey {
    /// Creates an HS256 key from a shared secret.
    pub fn secret(secret: &[u8]) -> Result<JwtKey, JwtError> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(JwtError::ShortSecret);
        }
        Ok(JwtKey(Key::Hs256(hmac::Key::new(hmac::HMAC_SHA256, secret))))
    }

    /// Creates an RS256 or EdDSA key from a public key in PEM.
    pub fn public(pem: &str) -> Result<JwtKey, JwtError> {
        let der = pem_body(pem).ok_or(JwtError::BadKey)?;
        public_key(&der).map(JwtKey).ok_or(JwtError::BadKey)
    }

    /// Creates an RS256 key from its modulus and exponent; `None` if it has too few or too many bits.
    pub(crate) fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<JwtKey> {
        let plain = |number: &[u8]| -> Vec<u8> { number.iter().copied().skip_while(|byte| *byte == 0).collect() };
        let (modulus, exponent) = (plain(modulus), plain(exponent));
        let good = (256..=1_024).contains(&modulus.len()) && (1..=8).contains(&exponent.len());
        good.then_some(JwtKey(Key::Components(modulus, exponent)))
    }

    /// Creates an EdDSA key from its 32 bytes.
    pub(crate) fn ed25519(key: &[u8]) -> Option<JwtKey> {
        (key.len() == 32).then(|| JwtKey(Key::EdDsa(key.to_vec())))
    }

    /// Returns the id of the key that a token names.
    pub(crate) fn id_in(token: &str) -> Result<Option<String>, JwtError> {
        let (header, _) = token.split_once('.').filter(|_| token.len() <= BYTES_MAX).ok_or(JwtError::Malformed)?;
        let header = URL_SAFE_NO_PAD.decode(header).map_err(|_| JwtError::Malformed)?;
        let header: Header = serde_json::from_slice(&header).map_err(|_| JwtError::Malformed)?;
        Ok(header.kid)
    }

    /// Verifies a token at a time in seconds since 1970, and returns its user.
    pub(crate) fn verify(keys: &[JwtKey], rules: &JwtRules, token: &str, now: i64) -> Result<User, JwtError> {
        if token.len() > BYTES_MAX {
            return Err(JwtError::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(JwtError::Malformed)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtError::Malformed);
        let signature = decode(signature)?;
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| JwtError::Malformed)?;
        if header.crit.is_some() {
            return Err(JwtError::Malformed);
        }
        // The claims are parsed only after the signature has been verified.
        if !keys.iter().any(|key| key.has_signed(&header.alg, signed.as_bytes(), &signature)) {
            return Err(JwtError::BadSignature);
        }
        let claims: Claims = serde_json::from_slice(&decode(claims)?).map_err(|_| JwtError::Malformed)?;
        claims.user(rules, now)
    }

    fn has_signed(&self, algorithm: &str, text: &[u8], signature: &[u8]) -> bool {
        match (&self.0, algorithm) {
            (Key::Hs256(key), "HS256") => hmac::verify(key, text, signature).is_ok(),
            (Key::Rs256(key), "RS256") => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key).verify(text, signature).is_ok()
            }
            (Key::Components(n, e), "RS256") => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, text, signature).is_ok()
            }
            (Key::EdDsa(key), "EdDSA") => UnparsedPublicKey::new(&ED25519, key).verify(text, signature).is_ok(),
            _ => false,
        }
    }
}

impl Claims {
    fn user(self, rules: &JwtRules, now: i64) -> Result<User, JwtError> {
        if self.exp.saturating_add(LEEWAY_SECS) <= now
            || self.nbf.is_some_and(|nbf| nbf.saturating_sub(LEEWAY_SECS) > now)
        {
            return Err(JwtError::OutsideValidity);
        }
        let audience = |wanted: &String| match &self.aud {
            Some(Audience::One(one)) => one == wanted,
            Some(Audience::Many(many)) => many.contains(wanted),
            None => false,
        };
        if rules.issuer.is_some() && rules.issuer != self.iss || !rules.audience.as_ref().is_none_or(audience) {
            return Err(JwtError::WrongIssuerOrAudience);
        }
        let role = match self.role.as_deref() {
            Some("admin") => Role::Admin,
            Some("user") => Role::User,
            Some("agent") => Role::Agent,
            Some("viewer") => Role::Viewer,
            _ => return Err(JwtError::InvalidClaims),
        };
        if self.sub.is_empty() || self.sub.len() > NAME_BYTES_MAX {
            return Err(JwtError::InvalidClaims);
        }
        let tenant = self.tenant.map_or(Ok(Tenant::built_in()), Tenant::new).map_err(|_| JwtError::InvalidClaims)?;
        Ok(User { subject: self.sub, tenant, role, valid_until: self.exp.saturating_add(LEEWAY_SECS) })
    }
}

/// Decodes the body of a PEM file.
fn pem_body(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once("-----BEGIN PUBLIC KEY-----")?;
    let (body, _) = rest.split_once("-----END PUBLIC KEY-----")?;
    STANDARD.decode(body.split_ascii_whitespace().collect::<String>()).ok()
}

const RSA: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const ED25519_OID: [u8; 3] = [0x2b, 0x65, 0x70];

/// Reads the key from a DER `SubjectPublicKeyInfo`: a sequence of the algorithm and the key's bits.
fn public_key(der: &[u8]) -> Option<Key> {
    let (whole, []) = der_element(der, 0x30)? else { return None };
    let (algorithm, rest) = der_element(whole, 0x30)?;
    let (bits, []) = der_element(rest, 0x03)? else { return None };
    let (oid, _) = der_element(algorithm, 0x06)?;
    let (0, key) = bits.split_first().map(|(unused, key)| (*unused, key))? else { return None };
    match oid {
        _ if oid == RSA => Some(Key::Rs256(key.to_vec())),
        _ if oid == ED25519_OID && key.len() == 32 => Some(Key::EdDsa(key.to_vec())),
        _ => None,
    }
}

/// Reads a DER element with this tag; returns its content and the bytes after it.
fn der_element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81 | 0x82 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    (*found == tag).then(|| rest.split_at_checked(length)).flatten()
}

/// Shows the algorithm, never the key.
impl fmt::Debug for JwtKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Key::Hs256(_) => "JwtKey(HS256)",
            Key::Rs256(_) | Key::Components(..) => "JwtKey(RS256)",
            Key::EdDsa(_) => "JwtKey(EdDSA)",
        })
    }
}

#[cfg(test)]
mod tests;
