//! Grants: single-use permissions that expire, presented as tokens.
//!
//! A token is `bgr_` and the Crockford base 32 of 16 bytes of grant id, 32 bytes of secret and 4 bytes of checksum (the
//! start of the SHA-256 of the rest). The checksum refuses mistyped tokens without a query. The database stores only
//! the SHA-256 of the secret; the token is shown once.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::id::{BatchId, GrantId, base32, from_base32};
use crate::name::{Purpose, Subject, Tenant};
use crate::payload::Payload;
use crate::time::{Span, Time};

/// The row of a grant. It has the digest of the secret, not the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its id, which is part of its token.
    pub id: GrantId,
    /// The tenant it belongs to.
    pub tenant: Tenant,
    /// The SHA-256 of the secret.
    pub digest: TokenDigest,
    /// The purpose it permits.
    pub purpose: Purpose,
    /// The subject it is for.
    pub subject: Subject,
    /// The payload returned to the caller that redeems it.
    pub payload: Payload,
    /// When it expires.
    pub expires_at: Time,
    /// Its state.
    pub state: GrantState,
    /// The number of its events so far.
    pub version: u64,
    /// The last transaction with an event of the grant.
    pub last: Option<BatchId>,
}

impl Grant {
    /// Returns whether the row of a grant with this expiry can be deleted: it expired `kept` ago. Until its expiry, the row of a
    /// redeemed grant refuses a second redemption.
    pub fn is_forgettable(expires_at: Time, kept: Span, now: Time) -> bool {
        expires_at <= now.before(kept)
    }
}

/// The state of a grant. Expiry is not a state: it follows from time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantState {
    /// It can be redeemed until it expires.
    Open,
    /// It has been redeemed.
    Redeemed,
    /// It was revoked.
    Revoked,
}

/// Why a token was refused. Only the log has the reason; callers over the network get one answer for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum GrantFault {
    #[error("the token is malformed")]
    Malformed,
    #[error("no such grant")]
    Unknown,
    #[error("the secret does not match")]
    Wrong,
    #[error("the purpose or the subject does not match")]
    Mismatch,
    #[error("the grant has expired")]
    Expired,
    #[error("the grant has been redeemed")]
    Redeemed,
    #[error("the grant was revoked")]
    Revoked,
}

/// The SHA-256 of a token's secret.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenDigest(#[serde(with = "digits")] pub [u8; 32]);

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest(…)")
    }
}

/// The token of a grant: its id and its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: GrantId,
    secret: [u8; 32],
}

const PREFIX: &str = "bgr_";
const BYTES: usize = 16 + 32 + 4;

impl Token {
    /// Creates the token of a grant with this secret.
    pub fn new(id: GrantId, secret: [u8; 32]) -> Token {
        Token { id, secret }
    }

    /// Parses a token; its checksum refuses a mistyped one.
    pub fn parse(text: &str) -> Result<Token, GrantFault> {
        Token::parse_with(PREFIX, text)
    }

    /// Parses a token with another prefix.
    pub(crate) fn parse_with(prefix: &str, text: &str) -> Result<Token, GrantFault> {
        let mut bytes = [0u8; BYTES];
        text.strip_prefix(prefix).and_then(|digits| from_base32(digits, &mut bytes)).ok_or(GrantFault::Malformed)?;
        let (body, checksum) = bytes.split_at(48);
        if Sha256::digest(body)[..4] != *checksum {
            return Err(GrantFault::Malformed);
        }
        let (id, secret) = body.split_at(16);
        Ok(Token {
            id: GrantId(u128::from_be_bytes(id.try_into().expect("16 bytes"))),
            secret: secret.try_into().expect("32 bytes"),
        })
    }

    /// Returns the text of the token, which must be shown only once.
    pub fn reveal(&self) -> String {
        self.reveal_with(PREFIX)
    }

    pub(crate) fn reveal_with(&self, prefix: &str) -> String {
        let mut bytes = [0u8; BYTES];
        bytes[..16].copy_from_slice(&self.id.0.to_be_bytes());
        bytes[16..48].copy_from_slice(&self.secret);
        let checksum = Sha256::digest(&bytes[..48]);
        bytes[48..].copy_from_slice(&checksum[..4]);
        format!("{prefix}{}", base32(&bytes))
    }

    /// Returns the id of its grant.
    pub fn id(&self) -> GrantId {
        self.id
    }

    /// Returns the digest that is stored.
    pub fn digest(&self) -> TokenDigest {
        TokenDigest(Sha256::digest(self.secret).into())
    }
}

/// Writes the id, never the secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.id)
    }
}

mod digits {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8; 32], ser: S) -> Result<S::Ok, S::Error> {
        if ser.is_human_readable() { ser.serialize_str(&super::base32(bytes)) } else { ser.serialize_bytes(bytes) }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(de: D) -> Result<[u8; 32], D::Error> {
        if !de.is_human_readable() {
            return <&'de [u8]>::deserialize(de)?.try_into().map_err(D::Error::custom);
        }
        let text = <std::borrow::Cow<'de, str>>::deserialize(de)?;
        let mut bytes = [0u8; 32];
        super::from_base32(&text, &mut bytes).ok_or_else(|| D::Error::custom("not a digest"))?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_parse_back_and_every_mistyped_digit_is_refused() {
        let token = Token::new(GrantId(42), [7; 32]);
        let text = token.reveal();
        assert_eq!(Token::parse(&text), Ok(token));
        for place in PREFIX.len()..text.len() {
            let mut mistyped = text.clone().into_bytes();
            mistyped[place] = if mistyped[place] == b'a' { b'b' } else { b'a' };
            let mistyped = String::from_utf8(mistyped).unwrap();
            assert_eq!(Token::parse(&mistyped), Err(GrantFault::Malformed), "digit {place}");
        }
        assert_eq!(Token::parse(""), Err(GrantFault::Malformed));
        assert!(!format!("{:?}", Token::new(GrantId(42), [7; 32])).contains(&text[30..40]));
    }
}
