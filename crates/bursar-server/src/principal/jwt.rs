//! Tokens of users: JSON web tokens, signed by somebody the operator trusts.
//!
//! Written here and not taken from a crate, because those that are kept bring a second family of cryptography with them; `ring`
//! is there already, and what is taken is little: three algorithms, each bound to the key it is for.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bursar::Tenant;
use bursar::bounds::NAME_BYTES_MAX;
use ring::hmac;
use ring::signature::{ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde::Deserialize;

use crate::principal::table::Role;

/// Seconds by which the clock of whoever signs may differ.
const LEEWAY_SECS: i64 = 60;
/// Bytes of a token.
const BYTES_MAX: usize = 8 << 10;
/// Bytes of a secret, at least.
const SECRET_BYTES_MIN: usize = 32;

/// A key that tokens of users are checked with. It is for one algorithm: what a token says of itself does not choose it.
#[derive(Clone)]
pub struct JwtKey(Key);

#[derive(Clone)]
enum Key {
    Hs256(hmac::Key),
    Rs256(Vec<u8>),
    EdDsa(Vec<u8>),
}

/// What tokens of users must say beside who they are; what is not set does not matter.
#[derive(Clone, Debug, Default)]
pub struct JwtRules {
    /// Who signed.
    pub issuer: Option<String>,
    /// For whom.
    pub audience: Option<String>,
}

/// What is wrong with a key or a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum JwtError {
    #[error("a JWT secret must have at least {SECRET_BYTES_MIN} bytes")]
    ShortSecret,
    #[error("a JWT public key must be PEM: `BEGIN PUBLIC KEY`, RSA of 2048 bits or more, or Ed25519")]
    BadKey,
    #[error("the token is malformed")]
    Malformed,
    #[error("no key is for the algorithm of the token, or the signature is wrong")]
    Unsigned,
    #[error("the token has expired, or is not good yet")]
    NotNow,
    #[error("the token is of another issuer or for another audience")]
    NotForUs,
    #[error("the token says no role that users have, or no subject")]
    NoRole,
}

/// A user, as a token says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) subject: String,
    pub(crate) tenant: Tenant,
    pub(crate) role: Role,
    pub(crate) good_until: i64,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
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
    /// A shared secret, for HS256.
    pub fn secret(secret: &[u8]) -> Result<JwtKey, JwtError> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(JwtError::ShortSecret);
        }
        Ok(JwtKey(Key::Hs256(hmac::Key::new(hmac::HMAC_SHA256, secret))))
    }

    /// A public key in PEM, for RS256 or EdDSA.
    pub fn public(pem: &str) -> Result<JwtKey, JwtError> {
        let der = pem_body(pem).ok_or(JwtError::BadKey)?;
        public_key(&der).map(JwtKey).ok_or(JwtError::BadKey)
    }

    /// The user that a token is of, at an instant in seconds since 1970.
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
        // Nothing that the token says is looked at before its signature.
        if !keys.iter().any(|key| key.signed(&header.alg, signed.as_bytes(), &signature)) {
            return Err(JwtError::Unsigned);
        }
        let claims: Claims = serde_json::from_slice(&decode(claims)?).map_err(|_| JwtError::Malformed)?;
        claims.user(rules, now)
    }

    fn signed(&self, algorithm: &str, text: &[u8], signature: &[u8]) -> bool {
        match (&self.0, algorithm) {
            (Key::Hs256(key), "HS256") => hmac::verify(key, text, signature).is_ok(),
            (Key::Rs256(key), "RS256") => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key).verify(text, signature).is_ok()
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
            return Err(JwtError::NotNow);
        }
        let audience = |wanted: &String| match &self.aud {
            Some(Audience::One(one)) => one == wanted,
            Some(Audience::Many(many)) => many.contains(wanted),
            None => false,
        };
        if rules.issuer.is_some() && rules.issuer != self.iss || !rules.audience.as_ref().is_none_or(audience) {
            return Err(JwtError::NotForUs);
        }
        let role = match self.role.as_deref() {
            Some("admin") => Role::Admin,
            Some("user") => Role::User,
            Some("agent") => Role::Agent,
            Some("viewer") => Role::Viewer,
            _ => return Err(JwtError::NoRole),
        };
        if self.sub.is_empty() || self.sub.len() > NAME_BYTES_MAX {
            return Err(JwtError::NoRole);
        }
        let tenant = self.tenant.map_or(Ok(Tenant::built_in()), Tenant::new).map_err(|_| JwtError::NoRole)?;
        Ok(User { subject: self.sub, tenant, role, good_until: self.exp.saturating_add(LEEWAY_SECS) })
    }
}

/// What stands between the lines of a PEM file.
fn pem_body(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once("-----BEGIN PUBLIC KEY-----")?;
    let (body, _) = rest.split_once("-----END PUBLIC KEY-----")?;
    STANDARD.decode(body.split_ascii_whitespace().collect::<String>()).ok()
}

const RSA: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const ED25519_OID: [u8; 3] = [0x2b, 0x65, 0x70];

/// The key in a `SubjectPublicKeyInfo`: a sequence of the algorithm and the bits of the key.
fn public_key(der: &[u8]) -> Option<Key> {
    let (whole, []) = part(der, 0x30)? else { return None };
    let (algorithm, rest) = part(whole, 0x30)?;
    let (bits, []) = part(rest, 0x03)? else { return None };
    let (oid, _) = part(algorithm, 0x06)?;
    let (0, key) = bits.split_first().map(|(unused, key)| (*unused, key))? else { return None };
    match oid {
        _ if oid == RSA => Some(Key::Rs256(key.to_vec())),
        _ if oid == ED25519_OID && key.len() == 32 => Some(Key::EdDsa(key.to_vec())),
        _ => None,
    }
}

/// A part of a DER text with this tag: what is in it, and what follows.
fn part(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
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

/// Never the key.
impl fmt::Debug for JwtKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Key::Hs256(_) => "JwtKey(HS256)",
            Key::Rs256(_) => "JwtKey(RS256)",
            Key::EdDsa(_) => "JwtKey(EdDSA)",
        })
    }
}

#[cfg(test)]
mod tests;
