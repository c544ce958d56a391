//! Uploads by signed requests, links, and what operators do with the bytes of blobs.

use std::collections::BTreeMap;

use bursar_core::blob::Sha256Digest;
use bursar_core::bounds::BLOB_BYTES_MAX;
use bursar_core::id::BlobId;
use bursar_core::name::{Backend, Namespace};
use bursar_core::payload::Payload;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blob::BlobAnswer;

/// The longest validity of a link or a signed upload, in milliseconds: seven days, which is the most that S3 allows.
pub const LINK_MS_MAX: u64 = 7 * 24 * 3_600 * 1_000;

/// A blob to upload by a signed request.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PresignBody {
    /// Its namespace; default: `default`.
    #[serde(default)]
    pub namespace: Option<Namespace>,
    /// The file name to offer it under.
    #[serde(default)]
    pub filename: Option<String>,
    /// Its media type; default: `application/octet-stream`.
    #[serde(default)]
    pub content_type: Option<String>,
    /// JSON that is stored with the blob.
    #[serde(default)]
    pub metadata: Payload,
    /// Its length in bytes.
    #[schemars(range(min = 0, max = BLOB_BYTES_MAX))]
    pub size: u64,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub sha256: Sha256Digest,
    /// How long the signature is valid, in milliseconds, at most seven days; default: one hour.
    #[serde(default)]
    #[schemars(range(min = 1_000, max = LINK_MS_MAX))]
    pub expires_in_ms: Option<u64>,
}

/// A signed upload.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct PresignAnswer {
    pub blob: BlobAnswer,
    /// Where to send the bytes; `null` if the namespace has them already, so that the blob is live.
    pub upload: Option<UploadTarget>,
}

/// Where the bytes of a signed upload go.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct UploadTarget {
    /// The method: `PUT`.
    pub method: String,
    /// The address for all bytes; `null` if they go in parts.
    pub url: Option<String>,
    /// The headers that the request must have.
    pub headers: BTreeMap<String, String>,
    /// The id of an upload in parts, which the commit repeats.
    pub upload_id: Option<String>,
    /// The parts; `null` if all bytes go in one request.
    pub parts: Option<Vec<PartTarget>>,
    /// When the signature ends.
    pub expires_at: Option<String>,
}

/// Where a part of the bytes goes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct PartTarget {
    /// Its number, from 1.
    pub number: usize,
    /// The position of its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub size: u64,
    /// Its address. The answer has an `ETag` that the commit names.
    pub url: String,
}

/// The end of a signed upload.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CommitBlobBody {
    /// The id of an upload in parts.
    pub upload_id: Option<String>,
    /// The parts of an upload in parts.
    #[schemars(length(max = 10_000))]
    pub parts: Vec<PartBody>,
}

/// A part that was uploaded.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartBody {
    /// Its number, from 1.
    pub number: usize,
    /// The `ETag` that its upload was answered with.
    pub etag: String,
}

/// A link to create.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinkBody {
    /// How long it is valid, in milliseconds, at most seven days; default: one hour.
    #[schemars(range(min = 1_000, max = LINK_MS_MAX))]
    pub expires_in_ms: Option<u64>,
}

/// A link that was created.
// It contains a secret: no `Debug`, so that it cannot reach a log.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
pub struct LinkAnswer {
    /// Its id, by which it can be revoked.
    pub id: String,
    /// The address, which needs no token. It is returned only once: `null` when the request is replayed.
    pub url: Option<String>,
    /// When it ends.
    pub expires_at: Option<String>,
}

/// A link, without its address.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LinkInfo {
    /// Its id, by which it can be revoked.
    pub id: String,
    /// The blob that it opens.
    pub blob: BlobId,
    /// Whether it reads the blob or uploads its bytes.
    pub act: LinkAct,
    /// `good`, `expired` or `revoked`.
    pub state: String,
    /// When it ends.
    pub expires_at: Option<String>,
}

/// What a link allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkAct {
    /// To read the blob.
    Read,
    /// To upload its bytes.
    Upload,
}

/// A collection to run.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GcBody {
    /// Whether to report only what is due; default: true.
    pub dry_run: bool,
    /// The most blobs to collect; default: 1,000.
    #[schemars(range(min = 1, max = 1_000))]
    pub limit: Option<usize>,
}

impl Default for GcBody {
    fn default() -> GcBody {
        GcBody { dry_run: true, limit: None }
    }
}

/// What a collection did.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct GcAnswer {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// The blobs that were due.
    pub due: usize,
    /// The blobs that were removed.
    pub collected: usize,
    /// The bytes of these; of a dry run, those that are due.
    pub bytes: u64,
    /// The blobs whose bytes could not be deleted; the next collection tries them again.
    pub failed: usize,
    /// Whether more may be due.
    pub more: bool,
}

/// A scan for orphans.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OrphansBody {
    /// Whether to delete the objects that no blob names and that are older than an hour; default: false.
    pub remove: bool,
}

/// What a scan found.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct OrphansAnswer {
    /// The objects that were looked at.
    pub objects: u64,
    /// The live blobs that were looked at.
    pub blobs: u64,
    /// The objects that no blob names, at most 1,000 of them.
    pub orphans: Vec<OrphanAnswer>,
    /// The number of all such objects.
    pub orphans_total: u64,
    /// Their bytes.
    pub orphan_bytes: u64,
    /// How many of them were deleted.
    pub deleted: u64,
    /// The live blobs whose bytes are missing, at most 1,000 of them.
    pub missing: Vec<BlobId>,
    /// The number of all such blobs.
    pub missing_total: u64,
}

/// An object that no blob names.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct OrphanAnswer {
    /// The backend that has it.
    pub backend: String,
    /// Its name there.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A step of a move to another backend.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelocateBody {
    /// The backend that gets the bytes: `local` or `s3`.
    pub to: Backend,
    /// The last blob of the step before.
    #[serde(default)]
    pub after: Option<BlobId>,
    /// The most blobs to look at; default: 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000))]
    pub limit: Option<usize>,
}

/// What a step of a move did.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct RelocateAnswer {
    /// The blobs whose bytes were moved.
    pub moved: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The blobs that were there already.
    pub there: u64,
    /// The blobs that could not be moved; they stay where they are.
    pub failed: u64,
    /// Where the next step goes on; `null` at the end.
    pub next: Option<BlobId>,
}
