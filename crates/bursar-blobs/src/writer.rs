//! Writes one object from a stream of bytes, in bounded memory, and computes its digest on the way.

use bursar_core::blob::Sha256Digest;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;

use crate::backend::Backend;
use crate::error::BackendError;

/// The parts of one object that are written at the same time.
pub(crate) const PARTS_AT_ONCE: usize = 2;
/// The first bytes of an object that are kept, to recognize its type.
pub(crate) const HEAD_BYTES: usize = 512;

/// Writes an object. It is visible after [`Writer::finish`] only.
pub(crate) struct Writer {
    backend: Backend,
    path: Path,
    part_bytes: usize,
    buffer: Vec<Bytes>,
    buffered: usize,
    upload: Option<Box<dyn MultipartUpload>>,
    running: JoinSet<object_store::Result<()>>,
    hasher: Sha256,
    size: u64,
    head: Vec<u8>,
}

impl Writer {
    /// Begins an object of `size` bytes, if that is known.
    pub(crate) fn new(backend: &Backend, path: Path, size: Option<u64>) -> Writer {
        Writer {
            backend: backend.clone(),
            path,
            part_bytes: backend.part_bytes(size),
            buffer: Vec::new(),
            buffered: 0,
            upload: None,
            running: JoinSet::new(),
            hasher: Sha256::new(),
            size: 0,
            head: Vec::new(),
        }
    }

    /// Returns the bytes so far.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the first bytes, at most [`HEAD_BYTES`].
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Appends bytes. Waits while two parts are being written.
    pub(crate) async fn write(&mut self, bytes: Bytes) -> Result<(), BackendError> {
        self.hasher.update(&bytes);
        self.size += bytes.len() as u64;
        if self.head.len() < HEAD_BYTES {
            let missing = bytes.len().min(HEAD_BYTES - self.head.len());
            self.head.extend_from_slice(&bytes[..missing]);
        }
        let mut rest = bytes;
        while self.buffered + rest.len() >= self.part_bytes {
            let part = rest.split_to(self.part_bytes - self.buffered);
            self.push(part);
            self.write_part().await?;
        }
        self.push(rest);
        Ok(())
    }

    fn push(&mut self, bytes: Bytes) {
        self.buffered += bytes.len();
        if !bytes.is_empty() {
            self.buffer.push(bytes);
        }
    }

    /// Begins to write what is buffered as a part.
    async fn write_part(&mut self) -> Result<(), BackendError> {
        if self.upload.is_none() {
            let begun = self.backend.store.put_multipart(&self.path).await;
            self.upload = Some(begun.map_err(|error| self.backend.failed(error))?);
        }
        while self.running.len() >= PARTS_AT_ONCE {
            self.join_one().await?;
        }
        let payload: PutPayload = std::mem::take(&mut self.buffer).into_iter().collect();
        self.buffered = 0;
        if let Some(upload) = &mut self.upload {
            self.running.spawn(upload.put_part(payload));
        }
        Ok(())
    }

    async fn join_one(&mut self) -> Result<(), BackendError> {
        let written = match self.running.join_next().await {
            None => Ok(()),
            Some(Ok(written)) => written,
            Some(Err(source)) => Err(source.into()),
        };
        written.map_err(|error| self.backend.failed(error))
    }

    /// Completes the object, and returns its length and its digest.
    pub(crate) async fn finish(mut self) -> Result<(u64, Sha256Digest), BackendError> {
        match self.complete().await {
            Ok(()) => Ok((self.size, Sha256Digest(self.hasher.finalize().into()))),
            Err(error) => {
                self.abort().await;
                Err(error)
            }
        }
    }

    async fn complete(&mut self) -> Result<(), BackendError> {
        if self.upload.is_none() {
            let payload: PutPayload = std::mem::take(&mut self.buffer).into_iter().collect();
            let written = self.backend.store.put(&self.path, payload).await;
            return written.map(drop).map_err(|error| self.backend.failed(error));
        }
        if self.buffered > 0 {
            self.write_part().await?;
        }
        while !self.running.is_empty() {
            self.join_one().await?;
        }
        match &mut self.upload {
            Some(upload) => upload.complete().await.map(drop).map_err(|error| self.backend.failed(error)),
            None => Ok(()),
        }
    }

    /// Gives the object up. What is left of it is not visible.
    pub(crate) async fn abort(mut self) {
        self.running.shutdown().await;
        if let Some(upload) = &mut self.upload
            && let Err(error) = upload.abort().await
        {
            tracing::debug!(path = %self.path, %error, "aborting an upload failed");
        }
    }
}
