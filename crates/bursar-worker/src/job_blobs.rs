//! The blobs of a running handler.

use bursar_core::id::BlobId;
use bursar_core::refusal::{Invalid, Refusal};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use crate::blobs::{BlobReader, BlobStore, StoredBlob, Upload};
use crate::context::{JobContext, Stop};
use crate::reports::Backoff;
use crate::source::{NotTaken, SourceError};

/// How often bytes in memory are uploaded before the attempt fails.
const UPLOADS_MAX: u32 = 5;

impl JobContext {
    /// Stores and reads blobs. The job refers to those that its handler stores, once it is completed.
    pub fn blobs(&self) -> JobBlobs<'_> {
        JobBlobs(self)
    }
}

/// The blobs of a running handler. From [`JobContext::blobs`].
///
/// A blob that the handler stores is one that its job makes: the job refers to it from the transaction that completes the job on. If the
/// handler fails or its lease is lost, nothing refers to it, and the next attempt stores its own. Equal bytes are the same blob.
#[derive(Clone, Copy)]
pub struct JobBlobs<'a>(&'a JobContext);

impl JobBlobs<'_> {
    /// Stores a blob from a stream, which is read once: a failed upload is not repeated. It is given up if the lease is lost or the job is
    /// cancelled.
    pub async fn put<S, E>(&self, upload: Upload, bytes: S) -> Result<StoredBlob, SourceError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let bytes = bytes.map(|bytes| bytes.map_err(Into::into)).boxed();
        let stored = self.unless_ended(self.store()?.put(upload, bytes)).await?;
        self.0.made(stored.id).map_err(Refusal::from)?;
        Ok(stored)
    }

    /// Stores a blob from memory. An upload that fails for a reason that may pass is repeated.
    pub async fn put_bytes(&self, upload: Upload, bytes: impl Into<Bytes>) -> Result<StoredBlob, SourceError> {
        let bytes = bytes.into();
        let upload = Upload { size: Some(bytes.len() as u64), ..upload };
        let mut backoff = Backoff::default();
        for _ in 1..UPLOADS_MAX {
            match self.put(upload.clone(), in_memory(&bytes)).await {
                Err(SourceError::Transient(error)) => {
                    tracing::warn!(%error, "storing a blob failed, retrying");
                    backoff.wait().await;
                }
                answer => return answer,
            }
        }
        self.put(upload, in_memory(&bytes)).await
    }

    /// Reads a blob.
    pub async fn get(&self, blob: BlobId) -> Result<BlobReader, SourceError> {
        self.unless_ended(self.store()?.get(blob, None)).await
    }

    /// Reads a range of a blob: `length` bytes from `offset` on, or fewer at its end.
    pub async fn get_range(&self, blob: BlobId, offset: u64, length: u64) -> Result<BlobReader, SourceError> {
        let range = offset..offset.saturating_add(length);
        self.unless_ended(self.store()?.get(blob, Some(range))).await
    }

    fn store(&self) -> Result<&dyn BlobStore, SourceError> {
        let missing = || Refusal::from(Invalid::new("blobs", "this worker has no storage: set it with Worker::blobs"));
        self.0.blob_store().ok_or_else(|| missing().into())
    }

    /// Waits for a call, unless the job is not this worker's any more. A draining worker lets its handlers finish.
    async fn unless_ended<T>(&self, call: impl Future<Output = Result<T, SourceError>>) -> Result<T, SourceError> {
        let ended = async {
            match self.0.stopped_for_good().await {
                Stop::Cancelled => NotTaken::Refused("the job was cancelled while it moved a blob".to_owned()),
                _ => NotTaken::Lost("the lease was lost while the job moved a blob".to_owned()),
            }
        };
        tokio::select! {
            answer = call => answer,
            ended = ended => Err(ended.into()),
        }
    }
}

fn in_memory(bytes: &Bytes) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send + 'static {
    futures_util::stream::iter([Ok(bytes.clone())])
}
