//! Blobs: `/v1/blobs`.

use bursar_core::blob::{Blob, BlobState, Sha256Digest};
use bursar_core::id::BlobId;
use bursar_core::name::{Backend, Namespace, Referrer};
use bursar_core::payload::Payload;
use bursar_core::request::NamedReference;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::budget::ActorAnswer;
use crate::stamp;

/// A blob: what is known about bytes that a storage backend keeps.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct BlobAnswer {
    pub id: BlobId,
    pub namespace: Namespace,
    pub state: BlobStateWord,
    /// The file name that it is offered under.
    pub filename: Option<String>,
    /// Its media type, such as `image/png`.
    pub content_type: String,
    /// Its length in bytes; while it is uploaded, the announced one.
    pub size: Option<u64>,
    /// The SHA-256 of its bytes, in hexadecimal; while it is uploaded, the announced one.
    pub sha256: Option<Sha256Digest>,
    /// JSON that is stored with the blob for its owner.
    #[serde(default)]
    pub metadata: Payload,
    /// The storage backend that has its bytes: `local` or `s3`.
    pub backend: Backend,
    /// When its upload began.
    pub created_at: Option<String>,
    /// The caller that uploaded it.
    pub created_by: ActorAnswer,
    /// When it was deleted; `null` if it is not.
    pub deleted_at: Option<String>,
    /// The number of jobs that refer to it.
    pub jobs: u64,
    /// The references of the application, by name.
    pub references: Vec<Referrer>,
}

/// The state of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlobStateWord {
    /// Its bytes are being uploaded.
    Pending,
    /// Its bytes are stored and verified.
    Live,
    /// It was deleted, and can be restored.
    Deleted,
    /// Its bytes are being deleted.
    Doomed,
}

impl BlobStateWord {
    /// Returns its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            BlobStateWord::Pending => "pending",
            BlobStateWord::Live => "live",
            BlobStateWord::Deleted => "deleted",
            BlobStateWord::Doomed => "doomed",
        }
    }
}

/// Which blobs a list has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlobListWord {
    /// Those that can be read.
    #[default]
    Live,
    /// Those that were deleted and can be restored.
    Deleted,
    /// Those whose bytes are being uploaded.
    Pending,
    /// All, also those whose bytes are being deleted.
    All,
}

impl BlobListWord {
    /// Returns its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            BlobListWord::Live => "live",
            BlobListWord::Deleted => "deleted",
            BlobListWord::Pending => "pending",
            BlobListWord::All => "all",
        }
    }

    /// Returns whether the list has blobs in a state.
    pub fn has(self, state: BlobStateWord) -> bool {
        match self {
            BlobListWord::Live => state == BlobStateWord::Live,
            BlobListWord::Deleted => state == BlobStateWord::Deleted,
            BlobListWord::Pending => state == BlobStateWord::Pending,
            BlobListWord::All => true,
        }
    }
}

impl From<&Blob> for BlobAnswer {
    fn from(blob: &Blob) -> BlobAnswer {
        let state = match blob.state {
            BlobState::Pending => BlobStateWord::Pending,
            BlobState::Live if blob.deleted_at.is_some() => BlobStateWord::Deleted,
            BlobState::Live => BlobStateWord::Live,
            BlobState::Doomed => BlobStateWord::Doomed,
        };
        BlobAnswer {
            id: blob.id,
            namespace: blob.namespace.clone(),
            state,
            filename: blob.filename.clone(),
            content_type: blob.content_type.clone(),
            size: blob.size,
            sha256: blob.digest,
            metadata: blob.metadata.clone(),
            backend: blob.backend.clone(),
            created_at: stamp(blob.created_at),
            created_by: ActorAnswer::from(&blob.created_by),
            deleted_at: blob.deleted_at.and_then(stamp),
            jobs: blob.jobs,
            references: blob.references.iter().cloned().collect(),
        }
    }
}

/// A reference of the application to a blob, which keeps it from being collected.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReferenceBody {
    pub blob: BlobId,
    /// The name of what refers to the blob, such as `post:42`.
    pub by: Referrer,
}

impl From<ReferenceBody> for NamedReference {
    fn from(ReferenceBody { blob, by }: ReferenceBody) -> NamedReference {
        NamedReference { blob, by }
    }
}
