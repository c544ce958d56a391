//! The blobs of handlers of a worker in this process.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bursar::{BlobReader, BlobStore, Bursar, SourceError, StoredBlob, Upload, UploadBytes};
use bursar_core::id::BlobId;
use bursar_core::name::Namespace;
use bursar_core::payload::Payload;
use bursar_core::refusal::{Invalid, Refusal};
use futures_util::TryStreamExt;

use crate::blobs::{Blobs, NewBlob};
use crate::error::BlobError;

impl Blobs {
    /// Returns the blobs of one tenant for the handlers of a worker: `bursar.worker().blobs(blobs.for_worker(&bursar))`.
    pub fn for_worker(&self, bursar: &Bursar) -> Arc<dyn BlobStore> {
        Arc::new(WorkerBlobs { blobs: self.clone(), bursar: bursar.clone() })
    }
}

struct WorkerBlobs {
    blobs: Blobs,
    bursar: Bursar,
}

#[async_trait]
impl BlobStore for WorkerBlobs {
    async fn put(&self, upload: Upload, bytes: UploadBytes) -> Result<StoredBlob, SourceError> {
        let new = new_blob(upload).map_err(Refusal::from)?;
        let blob = self.blobs.put(&self.bursar, new, bytes).await.map_err(source_error)?.blob;
        match (blob.size, blob.digest) {
            (Some(size), Some(sha256)) => Ok(StoredBlob { id: blob.id, size, sha256 }),
            _ => Err(SourceError::Failed(format!("{} has no bytes", blob.id).into())),
        }
    }

    async fn get(&self, id: BlobId, range: Option<Range<u64>>) -> Result<BlobReader, SourceError> {
        let found = self.bursar.blob_records().find(id).await.map_err(|error| source_error(error.into()))?;
        // A job that uses a blob can read it although it was deleted meanwhile.
        let blob = found.filter(|blob| blob.is_available() || blob.is_kept_by_jobs());
        let unknown = || SourceError::from(Refusal::UnknownBlob { blob: id });
        let blob = blob.ok_or_else(unknown)?;
        let size = blob.size.ok_or_else(unknown)?;
        let range = range.map(|range| range.start.min(size)..range.end.min(size));
        let length = range.as_ref().map_or(size, |range| range.end.saturating_sub(range.start));
        if length == 0 {
            return Ok(BlobReader::new(Some(0), futures_util::stream::empty()));
        }
        let bytes = self.blobs.get(&blob, range).await.map_err(source_error)?;
        Ok(BlobReader::new(Some(length), bytes.map_err(|error| SourceError::Transient(Box::new(error)))))
    }
}

fn new_blob(upload: Upload) -> Result<NewBlob, Invalid> {
    let namespace = match upload.namespace {
        Some(namespace) => namespace,
        None => Namespace::new("default")?,
    };
    let metadata = match upload.metadata {
        Some(text) => Payload::new(text).map_err(|_| Invalid::new("metadata", "must be JSON"))?,
        None => Payload::default(),
    };
    let Upload { filename, content_type, size, sha256: digest, .. } = upload;
    Ok(NewBlob { namespace, filename, content_type, metadata, size, digest })
}

fn source_error(error: BlobError) -> SourceError {
    match error {
        BlobError::Bursar(error) => error.into(),
        BlobError::Backend(_) => SourceError::Transient(Box::new(error)),
        error => SourceError::Failed(Box::new(error)),
    }
}
