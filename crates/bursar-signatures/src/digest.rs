//! Digests of bodies: the header `Content-Digest` (RFC 9530) with SHA-256.

use ring::digest::{Context, SHA256, digest};

use crate::error::SignatureError;
use crate::structured::{Item, bytes_text, parse_dictionary};

/// The SHA-256 digest of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyDigest([u8; 32]);

impl BodyDigest {
    /// Computes the digest of a body.
    pub fn of(body: &[u8]) -> BodyDigest {
        BodyDigest(digest(&SHA256, body).as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// Returns whether this is the digest of a body.
    pub fn is_of(&self, body: &[u8]) -> bool {
        *self == BodyDigest::of(body)
    }

    /// Returns the value of `Content-Digest`.
    pub fn header(&self) -> String {
        format!("sha-256={}", bytes_text(&self.0))
    }

    /// Reads the SHA-256 digest in `Content-Digest`. Digests by other algorithms are ignored.
    pub(crate) fn parse(text: &str) -> Result<BodyDigest, SignatureError> {
        const HEADER: &str = "content-digest";
        let malformed = |problem| SignatureError::Malformed { header: HEADER, problem };
        let members = parse_dictionary(text).map_err(malformed)?;
        let digest = members.iter().find(|(name, _)| name == "sha-256").ok_or(malformed("has no sha-256 digest"))?;
        match &digest.1.item {
            Some(Item::Bytes(bytes)) => bytes.as_slice().try_into().ok().map(BodyDigest),
            _ => None,
        }
        .ok_or(malformed("has a sha-256 digest that is not 32 bytes in base64 between colons"))
    }
}

/// Computes the digest of a body that arrives in parts.
pub struct DigestBuilder(Context);

impl Default for DigestBuilder {
    fn default() -> DigestBuilder {
        DigestBuilder(Context::new(&SHA256))
    }
}

impl DigestBuilder {
    /// Adds the next part.
    pub fn add(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// Returns the digest of all parts.
    pub fn finish(self) -> BodyDigest {
        BodyDigest(self.0.finish().as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}
