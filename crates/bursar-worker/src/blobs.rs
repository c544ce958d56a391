//! Blobs as workers store and read them.

use std::ops::Range;

use async_trait::async_trait;
use bursar_core::blob::Sha256Digest;
use bursar_core::id::BlobId;
use bursar_core::name::Namespace;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, TryStreamExt};

use crate::source::SourceError;

/// A blob to upload.
#[derive(Clone, Debug, Default)]
pub struct Upload {
    /// Its namespace; default: `default`.
    pub namespace: Option<Namespace>,
    /// The file name to offer it under.
    pub filename: Option<String>,
    /// Its media type; default: `application/octet-stream`.
    pub content_type: Option<String>,
    /// JSON to store with it.
    pub metadata: Option<String>,
    /// Its length in bytes, if it is known.
    pub size: Option<u64>,
    /// The SHA-256 of its bytes, if it is known. Other bytes are refused.
    pub sha256: Option<Sha256Digest>,
}

/// The bytes of an upload.
pub type UploadBytes = BoxStream<'static, Result<Bytes, Box<dyn std::error::Error + Send + Sync>>>;

/// A blob that a handler has stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlob {
    /// Its id. It is the id of an older blob if the namespace had the same bytes already.
    pub id: BlobId,
    /// Its length in bytes.
    pub size: u64,
    /// The SHA-256 of its bytes.
    pub sha256: Sha256Digest,
}

/// The bytes of a blob that a handler reads.
pub struct BlobReader {
    /// The number of bytes, if it is known.
    pub size: Option<u64>,
    bytes: BoxStream<'static, Result<Bytes, SourceError>>,
}

impl BlobReader {
    /// A reader of bytes that arrive one after the other.
    pub fn new(size: Option<u64>, bytes: impl Stream<Item = Result<Bytes, SourceError>> + Send + 'static) -> Self {
        BlobReader { size, bytes: bytes.boxed() }
    }

    /// Returns the next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        self.bytes.try_next().await
    }

    /// Returns all bytes, in memory.
    pub async fn bytes(mut self) -> Result<Bytes, SourceError> {
        let mut all = Vec::new();
        while let Some(bytes) = self.next().await? {
            all.extend_from_slice(&bytes);
        }
        Ok(all.into())
    }

    /// Returns the bytes as a stream.
    pub fn into_stream(self) -> BoxStream<'static, Result<Bytes, SourceError>> {
        self.bytes
    }
}

/// Where handlers store and read blobs: a server, or backends in this process.
#[async_trait]
pub trait BlobStore: Send + Sync + 'static {
    /// Stores a blob. Storing the same bytes again returns the same blob.
    async fn put(&self, upload: Upload, bytes: UploadBytes) -> Result<StoredBlob, SourceError>;
    /// Reads a blob, or a range of it. A range that ends after the last byte ends with it.
    async fn get(&self, blob: BlobId, range: Option<Range<u64>>) -> Result<BlobReader, SourceError>;
}
