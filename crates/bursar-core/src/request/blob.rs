//! Operations on blobs.

use serde::{Deserialize, Serialize};

use super::checks::{check_sweep_size, check_ttl};
use crate::blob::{BlobSpec, NamespaceConfig, Sha256Digest};
use crate::bounds::{BLOB_BYTES_MAX, UPLOAD_TTL_MAX};
use crate::id::BlobId;
use crate::name::{Backend, Namespace, Referrer};
use crate::refusal::Invalid;
use crate::time::Span;

/// A reference of the application to a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedReference {
    /// The blob.
    pub blob: BlobId,
    /// The name of what refers to it.
    pub by: Referrer,
}

/// An operation on blobs or namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlobOp {
    /// Defines or changes the rules of a namespace.
    DefineNamespace {
        /// The namespace.
        namespace: Namespace,
        /// Its rules.
        config: NamespaceConfig,
    },
    /// Begins an upload. If the digest is known and a live blob of the namespace has it, that blob is the answer.
    Start {
        /// The blob.
        spec: BlobSpec,
        /// How long the upload may stand still before it is collected.
        ttl: Span,
    },
    /// Continues an upload: holds units for a longer blob, and moves the end of its time.
    Grow {
        /// The blob.
        blob: BlobId,
        /// The bytes that the upload will have at least.
        size: u64,
        /// How long the upload may stand still from now on.
        ttl: Span,
    },
    /// Ends an upload whose bytes are stored and verified. If a live blob of the namespace has the same bytes, that blob is
    /// the answer, and the upload is doomed.
    Store {
        /// The blob.
        blob: BlobId,
        /// The length of its bytes.
        size: u64,
        /// The SHA-256 of its bytes.
        digest: Sha256Digest,
    },
    /// Gives up an upload.
    Abandon {
        /// The blob.
        blob: BlobId,
    },
    /// Adds a reference of the application.
    Reference {
        /// The blob.
        blob: BlobId,
        /// The name of what refers to it.
        by: Referrer,
    },
    /// Removes a reference of the application.
    Release {
        /// The blob.
        blob: BlobId,
        /// The name of what referred to it.
        by: Referrer,
    },
    /// Deletes a blob. It can be restored for a while.
    Delete {
        /// The blob.
        blob: BlobId,
    },
    /// Restores a deleted blob.
    Restore {
        /// The blob.
        blob: BlobId,
    },
    /// Records that another backend has the bytes.
    Move {
        /// The blob.
        blob: BlobId,
        /// The backend.
        backend: Backend,
    },
    /// Dooms blobs that nothing needs any more.
    Doom {
        /// The blobs. Those that something needs are left out.
        blobs: Vec<BlobId>,
    },
    /// Removes doomed blobs, after their bytes were deleted.
    Collect {
        /// The blobs. Those that are not doomed are left out.
        blobs: Vec<BlobId>,
    },
}

impl BlobOp {
    /// Refuses what is invalid in any state.
    pub(super) fn check(&self) -> Result<(), Invalid> {
        match self {
            BlobOp::DefineNamespace { config, .. } => config.check(),
            BlobOp::Start { spec, ttl } => {
                spec.check()?;
                check_ttl("ttl_ms", *ttl, UPLOAD_TTL_MAX)
            }
            BlobOp::Grow { size, ttl, .. } => {
                check_size(*size)?;
                check_ttl("ttl_ms", *ttl, UPLOAD_TTL_MAX)
            }
            BlobOp::Store { size, .. } => check_size(*size),
            BlobOp::Doom { blobs } | BlobOp::Collect { blobs } => check_sweep_size("blobs", blobs.len()),
            BlobOp::Abandon { .. }
            | BlobOp::Reference { .. }
            | BlobOp::Release { .. }
            | BlobOp::Delete { .. }
            | BlobOp::Restore { .. }
            | BlobOp::Move { .. } => Ok(()),
        }
    }

    /// Returns the blobs that it names.
    pub fn blobs(&self) -> &[BlobId] {
        match self {
            BlobOp::DefineNamespace { .. } | BlobOp::Start { .. } => &[],
            BlobOp::Doom { blobs } | BlobOp::Collect { blobs } => blobs,
            BlobOp::Grow { blob, .. }
            | BlobOp::Store { blob, .. }
            | BlobOp::Abandon { blob }
            | BlobOp::Reference { blob, .. }
            | BlobOp::Release { blob, .. }
            | BlobOp::Delete { blob }
            | BlobOp::Restore { blob }
            | BlobOp::Move { blob, .. } => std::slice::from_ref(blob),
        }
    }
}

fn check_size(size: u64) -> Result<(), Invalid> {
    if size > BLOB_BYTES_MAX {
        return Err(Invalid::new("size", format!("is {size}; at most {BLOB_BYTES_MAX} are allowed")));
    }
    Ok(())
}
