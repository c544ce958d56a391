//! Digests of requests and definitions, to detect that one differs from another.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The digest of an operation or of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    /// Computes the digest of the data as JSON. It must stay the same in every version, so serialized names must not change.
    pub fn of(data: &impl Serialize) -> Fingerprint {
        let text = serde_json::to_vec(data).expect("plain data serializes");
        let digest = Sha256::digest(text);
        Fingerprint(u128::from_be_bytes(digest[..16].try_into().expect("16 of 32 bytes")))
    }
}

/// A precondition of a change: what must be defined already. It is checked against the loaded row when the change is
/// decided, so two changes cannot both be based on the same read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// Anything.
    Any,
    /// A definition with this digest.
    Only(Fingerprint),
}

/// A part of a request that is too large for one transaction.
///
/// Each part has an idempotency key of its own. If the whole request is repeated, finished parts return their recorded
/// answers and the rest is done. The digest is that of the whole request, because the content of a part may depend on
/// what was found at the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 0. The first part uses the caller's key itself, so that any other use of the key is detected.
    pub number: u32,
    /// The digest of the whole request.
    pub whole: Fingerprint,
    /// Whether more parts follow, as far as known when this one was made. It is recorded with the answer.
    pub more: bool,
}
