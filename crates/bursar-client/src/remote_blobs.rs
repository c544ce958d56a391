//! The blobs of handlers of a worker over HTTP: those of its server.

use std::ops::Range;

use async_trait::async_trait;
use bursar_core::id::BlobId;
use bursar_worker::{BlobReader, BlobStore, SourceError, StoredBlob, Upload, UploadBytes};
use futures_util::TryStreamExt;

use crate::client::Client;
use crate::error::source_error;

/// Blobs that a server stores.
pub(crate) struct RemoteBlobs(pub(crate) Client);

#[async_trait]
impl BlobStore for RemoteBlobs {
    async fn put(&self, upload: Upload, bytes: UploadBytes) -> Result<StoredBlob, SourceError> {
        let blob = self.0.blobs().put(&upload, bytes).await.map_err(source_error)?;
        match (blob.size, blob.sha256) {
            (Some(size), Some(sha256)) => Ok(StoredBlob { id: blob.id, size, sha256 }),
            _ => Err(SourceError::Failed("the answer to an upload has no size or no digest".into())),
        }
    }

    async fn get(&self, blob: BlobId, range: Option<Range<u64>>) -> Result<BlobReader, SourceError> {
        let blobs = self.0.blobs();
        let download = match range {
            None => blobs.get(blob).await,
            Some(Range { start, end }) => blobs.get_range(blob, start, end.saturating_sub(start)).await,
        };
        let download = download.map_err(source_error)?;
        let broken = |error| SourceError::Transient(Box::new(error));
        Ok(BlobReader::new(download.size, download.into_stream().map_err(broken)))
    }
}
