//! Problems with the bytes of blobs.

use bursar_blobs::BlobError;

use crate::pipeline::paced_body::TooSlow;
use crate::wire::problem::{Kind, Problem};

/// Returns the problem of a failed operation on bytes.
pub(crate) fn blob_problem(error: BlobError) -> Problem {
    let text = error.to_string();
    match error {
        BlobError::Bursar(error) => error.into(),
        BlobError::Backend(error) if error.is_full() => {
            tracing::warn!(%error, "the storage for blobs is full");
            Problem::new(Kind::Unavailable, "the storage for blobs is full; nothing was stored")
        }
        BlobError::Backend(_) => Problem::new(Kind::Unavailable, text),
        BlobError::Interrupted(source) if source.is::<TooSlow>() => {
            Problem::new(Kind::Timeout, "the body arrived too slowly; nothing was stored; retry")
        }
        BlobError::Interrupted(_) | BlobError::Length { .. } => Problem::invalid("body".into(), text),
        BlobError::Digest { .. } => Problem::invalid("sha256".into(), text),
        BlobError::Type { .. } => Problem::new(Kind::UnsupportedMediaType, text)
            .with_hint("send the type that the bytes have, or application/octet-stream"),
        BlobError::NotUploaded { .. } | BlobError::Offset { .. } | BlobError::Locked => {
            Problem::new(Kind::Conflict, text)
        }
        // Missing bytes and backends are faults of the installation.
        _ => Problem::new(Kind::Internal, text),
    }
}
