//! Why an operation on the bytes of a blob failed.

use bursar_core::blob::Sha256Digest;
use bursar_core::id::BlobId;

/// Why an operation on the bytes of a blob failed. Nothing was stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// Bursar refused a record, or its database failed.
    #[error(transparent)]
    Bursar(#[from] bursar::Error),
    /// The storage backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The body of an upload ended with an error.
    #[error("the upload was interrupted: {0}; nothing was stored")]
    Interrupted(Box<dyn std::error::Error + Send + Sync>),
    /// The body has another length than announced.
    #[error("the body has {received} bytes, and {announced} were announced; nothing was stored")]
    Length {
        /// The announced length.
        announced: u64,
        /// The bytes that were received: all, or those up to the first one too many.
        received: u64,
    },
    /// The body has another digest than announced.
    #[error("the bytes have the SHA-256 {found}, and {announced} was announced; nothing was stored")]
    Digest {
        /// The announced digest.
        announced: Sha256Digest,
        /// The digest of the bytes.
        found: Sha256Digest,
    },
    /// The bytes are not of the announced type.
    #[error("the bytes are not {announced}{}; nothing was stored", .found.map(|found| format!(", they look like {found}")).unwrap_or_default())]
    Type {
        /// The announced type.
        announced: String,
        /// The type that the bytes have, if it is known.
        found: Option<&'static str>,
    },
    /// The bytes of a signed upload have not arrived.
    #[error("the bytes of {blob} have not been uploaded; upload them by the signed request, then commit")]
    NotUploaded {
        /// The blob.
        blob: BlobId,
    },
    /// A resumable upload continues at another position.
    #[error("the upload has {offset} bytes, so it continues there")]
    Offset {
        /// The bytes that are stored.
        offset: u64,
    },
    /// Another request continues the same resumable upload.
    #[error("another request continues this upload")]
    Locked,
    /// The record names a backend that is not configured.
    #[error("the bytes of {blob} are in the backend `{backend}`, which is not configured")]
    NoBackend {
        /// The blob.
        blob: BlobId,
        /// The backend.
        backend: String,
    },
    /// The bytes of a live blob are missing.
    #[error("the bytes of {blob} are missing in the backend `{backend}`")]
    Missing {
        /// The blob.
        blob: BlobId,
        /// The backend.
        backend: String,
    },
}

/// A storage backend failed.
#[derive(Debug, thiserror::Error)]
#[error("the storage backend `{backend}` failed: {source}")]
pub struct BackendError {
    /// The name of the backend.
    pub backend: String,
    /// What went wrong.
    pub source: object_store::Error,
}

impl BackendError {
    /// Returns whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.source, object_store::Error::NotFound { .. })
    }

    /// Returns whether there is no room on the disk of a local directory.
    pub fn is_full(&self) -> bool {
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&self.source);
        while let Some(error) = source {
            let full = |error: &std::io::Error| {
                matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
            };
            if error.downcast_ref::<std::io::Error>().is_some_and(full) {
                return true;
            }
            source = error.source();
        }
        false
    }
}
