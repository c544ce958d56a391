//! Digests: what was asked, what is defined, and what follows where it is another.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The digest of what was asked, or of what is defined: that it is another is noticed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    /// The digest of plain data.
    pub fn of(data: &impl Serialize) -> Fingerprint {
        let text = serde_json::to_vec(data).expect("it is plain data");
        let digest = Sha256::digest(text);
        Fingerprint(u128::from_be_bytes(digest[..16].try_into().expect("16 of 32 bytes")))
    }
}

/// What must be defined already, for it to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// Anything.
    Any,
    /// What has this digest.
    Only(Fingerprint),
}

/// A part of something that is too large for one transaction.
///
/// Each part is remembered by itself, so that the whole can be asked again: what was done is answered again, and it goes on where
/// it broke off. What was asked is compared as a whole, for a part may be what was found when its turn came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which one, from 0; the first has the key itself, so that it is known whatever else is asked under it.
    pub number: u32,
    /// The digest of the whole.
    pub whole: Fingerprint,
    /// More follow, as far as it was seen when its turn came; where that depends on what is found, it is remembered.
    pub more: bool,
}
