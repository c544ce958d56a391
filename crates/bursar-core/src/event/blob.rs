//! The contents of the events of an upload.

use serde::{Deserialize, Serialize};

use super::{is_never, never};
use crate::blob::{BlobSpec, Sha256Digest};
use crate::id::{BlobId, HoldId};
use crate::name::Scope;
use crate::time::Time;

/// The start of an upload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartedBlob {
    /// The new blob.
    pub blob: BlobId,
    /// The announced blob.
    pub spec: Box<BlobSpec>,
    /// When the upload is given up, if it does not go on.
    pub due_at: Time,
    /// The scope that its bytes are charged to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<Scope>,
    /// The hold for its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldId>,
}

/// The continuation of an upload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrownBlob {
    /// The blob.
    pub blob: BlobId,
    /// When the upload is given up, if it does not go on.
    pub due_at: Time,
    /// A hold for more bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldId>,
}

/// The end of an upload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredBlob {
    /// The blob.
    pub blob: BlobId,
    /// The length of its bytes.
    pub size: u64,
    /// The SHA-256 of its bytes.
    pub digest: Sha256Digest,
    /// When it is collected if nothing refers to it.
    #[serde(default = "never", skip_serializing_if = "is_never")]
    pub due_at: Time,
}
