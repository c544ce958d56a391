//! Problems with the bytes of blobs.

use std::time::Duration;

use bursar_blobs::BlobError;

use crate::pipeline::paced_body::TooSlow;
use crate::wire::problem::{Kind, Problem};

/// When a caller may retry after the storage failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Returns the problem of a failed operation on bytes.
pub(crate) fn blob_problem(error: BlobError) -> Problem {
    let text = error.to_string();
    match error {
        BlobError::Bursar(error) => error.into(),
        BlobError::Backend(error) if error.is_full() => Problem::new(Kind::StorageUnavailable, text)
            .with_hint("the storage for blobs is full; delete blobs or add room"),
        BlobError::Backend(_) => Problem::new(Kind::StorageUnavailable, text).retry_after(RETRY_AFTER),
        BlobError::Interrupted(source) if is_too_slow(&*source) => {
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

/// Returns whether a body broke because it was too slow. The parser of forms wraps the reason.
fn is_too_slow(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let wrapped = match error.downcast_ref() {
            Some(multer::Error::StreamReadFailed(inner)) => inner.is::<TooSlow>(),
            _ => false,
        };
        if wrapped || error.is::<TooSlow>() {
            return true;
        }
        cause = error.source();
    }
    false
}
