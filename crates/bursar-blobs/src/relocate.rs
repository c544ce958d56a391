//! Moves the bytes of blobs from one backend to another, while both are in use.

use bursar::Bursar;
use bursar_core::blob::{Blob, BlobState};
use bursar_core::id::BlobId;
use bursar_core::name::Backend as BackendName;
use futures_util::TryStreamExt;

use crate::backend::Backend;
use crate::blobs::{Blobs, delete, read};
use crate::collect::of_tenant;
use crate::error::BlobError;
use crate::object;
use crate::writer::Writer;

/// What a move did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveReport {
    /// The blobs whose bytes were moved.
    pub moved: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The live blobs that the other backend had already.
    pub there: u64,
    /// The blobs whose bytes could not be moved. They stay where they are.
    pub failed: u64,
}

impl Blobs {
    /// Moves the bytes of the live blobs among the next `limit` (at most 1,000) after an id to a backend. Returns what it did, and the
    /// last id, `None` at the end.
    ///
    /// Each blob is copied, checked by its digest, then its record is changed, then the first copy is deleted. So a move can be cut
    /// off and begun again at any time.
    pub async fn move_some(
        &self,
        bursar: &Bursar,
        to: &BackendName,
        after: Option<BlobId>,
        limit: usize,
    ) -> Result<(MoveReport, Option<BlobId>), BlobError> {
        let mut report = MoveReport::default();
        let page = bursar.blob_records().list_all(after, limit.clamp(1, 1_000)).await?;
        let last = page.last().map(|blob| blob.id);
        for blob in page.into_iter().filter(|blob| blob.state == BlobState::Live) {
            if blob.backend == *to {
                report.there += 1;
                continue;
            }
            match self.move_one(bursar, &blob, to).await {
                Ok(()) => {
                    report.moved += 1;
                    report.bytes += blob.size.unwrap_or(0);
                }
                Err(error) => {
                    tracing::warn!(blob = %blob.id, %error, "moving a blob failed; it stays where it is");
                    report.failed += 1;
                }
            }
        }
        Ok((report, last))
    }

    async fn move_one(&self, bursar: &Bursar, blob: &Blob, to: &BackendName) -> Result<(), BlobError> {
        let from = self.backend_of(blob)?;
        let target = self.backends.named(to.as_str());
        let target = target.ok_or_else(|| BlobError::NoBackend { blob: blob.id, backend: to.to_string() })?;
        copy(from, target, blob).await?;
        let moved = of_tenant(bursar, blob.tenant.clone()).blob_records().moved(blob.id, to.clone()).await;
        match moved {
            Ok(()) => Ok(delete(from, &object::object(blob.id)).await?),
            Err(error @ bursar::Error::Refused(_)) => {
                // The blob was doomed meanwhile: its collection deletes the first copy only.
                delete(target, &object::object(blob.id)).await?;
                Err(error.into())
            }
            // The record may name either copy, so both stay: the scan for orphans finds the other one.
            Err(error) => Err(error.into()),
        }
    }
}

/// Copies the bytes of a blob, and checks them.
async fn copy(from: &Backend, to: &Backend, blob: &Blob) -> Result<(), BlobError> {
    let path = object::object(blob.id);
    let mut bytes = read(from, &path, None).await?;
    let mut writer = Writer::new(to, path.clone(), blob.size);
    while let Some(bytes) = bytes.try_next().await? {
        writer.write(bytes).await?;
    }
    let (size, found) = writer.finish().await?;
    let wrong = match (blob.size, blob.digest) {
        (Some(announced), _) if announced != size => Some(BlobError::Length { announced, received: size }),
        (_, Some(announced)) if announced != found => Some(BlobError::Digest { announced, found }),
        _ => None,
    };
    match wrong {
        None => Ok(()),
        Some(error) => {
            delete(to, &path).await?;
            Err(error)
        }
    }
}
