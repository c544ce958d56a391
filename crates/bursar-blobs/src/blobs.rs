//! Uploads and downloads.

use std::collections::HashSet;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar::Bursar;
use bursar_core::blob::{Blob, BlobSpec, Sha256Digest};
use bursar_core::id::BlobId;
use bursar_core::name::Namespace;
use bursar_core::payload::Payload;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResultPayload};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::backend::{Abilities, Backend, Backends};
use crate::error::{BackendError, BlobError};
use crate::signed::PartRule;
use crate::writer::{HEAD_BYTES, PARTS_AT_ONCE, Writer};
use crate::{object, sniff};

/// The bytes of an upload.
pub type BodyStream = BoxStream<'static, Result<Bytes, Box<dyn std::error::Error + Send + Sync>>>;

/// Returns bytes in memory as the body of an upload.
pub fn body(bytes: impl Into<Bytes>) -> BodyStream {
    futures_util::stream::iter([Ok(bytes.into())]).boxed()
}

/// How long an upload may stand still before its record is collected.
pub(crate) const UPLOAD_TTL: Duration = Duration::from_secs(24 * 3_600);
/// How long a running upload goes without telling Bursar that it goes on.
const RENEW_EVERY: Duration = Duration::from_secs(3_600);
/// The bytes for which an upload of unknown length asks for room at once.
const STEP_BYTES: usize = 4 << 20;

/// The bytes of blobs, in one or several backends. Cloning it is cheap.
///
/// Every call takes the handle of Bursar that it acts with, so that the record is of that handle's tenant and names its actor.
#[derive(Clone)]
pub struct Blobs {
    pub(crate) backends: Backends,
    abilities: Arc<OnceCell<Abilities>>,
    /// The resumable uploads that a request of this process continues.
    pub(crate) continued: Arc<Mutex<HashSet<BlobId>>>,
    pub(crate) parts: PartRule,
}

/// A blob to upload.
#[derive(Clone, Debug)]
pub struct NewBlob {
    /// Its namespace.
    pub namespace: Namespace,
    /// The file name to offer it under.
    pub filename: Option<String>,
    /// Its content type; `None` for bytes of any type.
    pub content_type: Option<String>,
    /// Data of the caller that Bursar stores and does not read.
    pub metadata: Payload,
    /// Its length, if known.
    pub size: Option<u64>,
    /// The SHA-256 of its bytes, if known.
    pub digest: Option<Sha256Digest>,
}

impl NewBlob {
    /// Creates a blob of bytes of any type.
    pub fn new(namespace: Namespace) -> NewBlob {
        let metadata = Payload::default();
        NewBlob { namespace, filename: None, content_type: None, metadata, size: None, digest: None }
    }

    pub(crate) fn spec(&self, backend: &Backend) -> BlobSpec {
        let mut spec = BlobSpec::new(self.namespace.clone(), backend.name().clone());
        spec.filename.clone_from(&self.filename);
        if let Some(content_type) = &self.content_type {
            spec.content_type.clone_from(content_type);
        }
        spec.metadata = self.metadata.clone();
        spec.size = self.size;
        spec
    }
}

/// A blob that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its record.
    pub blob: Blob,
    /// Whether the namespace had these bytes already, so that this is the blob that was there.
    pub found: bool,
}

impl Blobs {
    /// Creates a handle on backends.
    pub fn new(backends: Backends) -> Blobs {
        Blobs { backends, abilities: Arc::default(), continued: Arc::default(), parts: PartRule::default() }
    }

    /// Returns its backends.
    pub fn backends(&self) -> &Backends {
        &self.backends
    }

    /// Returns what the backend for new blobs can do. The first call tries it.
    pub async fn abilities(&self) -> Result<Abilities, BackendError> {
        self.abilities.get_or_try_init(|| self.backends.primary().probe()).await.copied()
    }

    /// Returns the most bytes of an upload that are in memory at once, by its length, if that is known: the parts that are being written,
    /// the one that is being filled, and what waits for room.
    pub fn upload_memory(&self, length: Option<u64>) -> usize {
        let parts = self.backends.primary().part_bytes(length) * (PARTS_AT_ONCE + 1);
        match length {
            Some(length) => parts.min(usize::try_from(length).unwrap_or(usize::MAX)),
            None => parts + STEP_BYTES,
        }
    }

    /// Stores a blob. If it fails, nothing is stored.
    ///
    /// 1. A pending record is made, which holds the units for its bytes.
    /// 2. The bytes are written to an object that is named after the record.
    /// 3. The record becomes live, unless a live one has the same bytes; then that one is the answer.
    pub async fn put(&self, bursar: &Bursar, new: NewBlob, body: BodyStream) -> Result<Stored, BlobError> {
        let backend = self.backends.primary();
        let records = bursar.blob_records();
        let id = records.start(new.spec(backend), UPLOAD_TTL, None).await?.blob;
        let written = self.write(bursar, id, &new, backend, body).await;
        let stored = match written {
            Ok((size, digest)) => records.store(id, size, digest).await.map_err(BlobError::from),
            Err(error) => Err(error),
        };
        match stored {
            Ok(answer) => self.stored(bursar, answer).await,
            Err(error) => {
                self.give_up(bursar, id, backend, &object::object(id)).await;
                Err(error)
            }
        }
    }

    /// Returns the record that an upload ended with.
    pub(crate) async fn stored(&self, bursar: &Bursar, answer: bursar::BlobAnswer) -> Result<Stored, BlobError> {
        let blob = bursar.blob_records().find(answer.blob).await?;
        let blob = blob.ok_or(bursar::Error::from(bursar::Refusal::UnknownBlob { blob: answer.blob }))?;
        Ok(Stored { blob, found: answer.found })
    }

    /// Writes the bytes of an upload, and checks them against what was announced.
    async fn write(
        &self,
        bursar: &Bursar,
        id: BlobId,
        new: &NewBlob,
        backend: &Backend,
        body: BodyStream,
    ) -> Result<(u64, Sha256Digest), BlobError> {
        let mut writer = Writer::new(backend, object::object(id), new.size);
        let announced = Announced { size: new.size, digest: new.digest, content_type: new.content_type.as_deref() };
        match receive(bursar, id, &announced, &mut writer, body).await {
            Ok(()) => announced.check(writer.finish().await?),
            Err(error) => {
                writer.abort().await;
                Err(error)
            }
        }
    }

    /// Removes what a failed upload left. If this fails too, collection does it when the time of the upload is over.
    pub(crate) async fn give_up(&self, bursar: &Bursar, id: BlobId, backend: &Backend, path: &Path) {
        let abandoned = bursar.blob_records().abandon(id).await;
        if let Err(error) = abandoned {
            tracing::warn!(blob = %id, %error, "abandoning an upload failed; it is collected later");
            return;
        }
        if let Err(error) = delete(backend, path).await {
            tracing::warn!(blob = %id, %error, "removing the bytes of an upload failed; they are collected later");
        }
    }

    /// Returns the backend with the bytes of a blob.
    pub(crate) fn backend_of(&self, blob: &Blob) -> Result<&Backend, BlobError> {
        let named = self.backends.named(blob.backend.as_str());
        named.ok_or_else(|| BlobError::NoBackend { blob: blob.id, backend: blob.backend.to_string() })
    }

    /// Returns the bytes of a blob, or a range of them.
    pub async fn get(
        &self,
        blob: &Blob,
        range: Option<Range<u64>>,
    ) -> Result<BoxStream<'static, Result<Bytes, BackendError>>, BlobError> {
        let backend = self.backend_of(blob)?;
        read(backend, &object::object(blob.id), range).await.map_err(|error| match error.is_not_found() {
            true => BlobError::Missing { blob: blob.id, backend: blob.backend.to_string() },
            false => error.into(),
        })
    }
}

/// What the caller of an upload said about its bytes.
pub(crate) struct Announced<'a> {
    pub(crate) size: Option<u64>,
    pub(crate) digest: Option<Sha256Digest>,
    pub(crate) content_type: Option<&'a str>,
}

impl Announced<'_> {
    /// Checks what was written.
    pub(crate) fn check(&self, (size, found): (u64, Sha256Digest)) -> Result<(u64, Sha256Digest), BlobError> {
        if let Some(announced) = self.size.filter(|announced| *announced != size) {
            return Err(BlobError::Length { announced, received: size });
        }
        if let Some(announced) = self.digest.filter(|announced| *announced != found) {
            return Err(BlobError::Digest { announced, found });
        }
        Ok((size, found))
    }

    /// Checks the first bytes.
    pub(crate) fn check_type(&self, head: &[u8]) -> Result<(), BlobError> {
        let Some(announced) = self.content_type else { return Ok(()) };
        sniff::check(announced, head)
            .map_err(|mismatch| BlobError::Type { announced: announced.to_owned(), found: mismatch.found })
    }
}

/// Passes a body on to a writer. Asks for room for the bytes of an upload of unknown length before it writes them.
async fn receive(
    bursar: &Bursar,
    id: BlobId,
    announced: &Announced<'_>,
    writer: &mut Writer,
    mut body: BodyStream,
) -> Result<(), BlobError> {
    let records = bursar.blob_records();
    let (mut waiting, mut waiting_bytes) = (Vec::new(), 0);
    let mut renewed = Instant::now();
    let mut checked = false;
    loop {
        let next = body.try_next().await.map_err(BlobError::Interrupted)?;
        let ended = next.is_none();
        if let Some(bytes) = next {
            waiting_bytes += bytes.len();
            waiting.push(bytes);
        }
        let received = writer.size() + waiting_bytes as u64;
        if let Some(announced) = announced.size.filter(|announced| received > *announced) {
            return Err(BlobError::Length { announced, received });
        }
        // The room of an upload of known length is held already.
        let step = if announced.size.is_some() { 0 } else { STEP_BYTES };
        if waiting_bytes < step && !ended {
            continue;
        }
        if announced.size.is_none() && waiting_bytes > 0 || renewed.elapsed() > RENEW_EVERY {
            records.grow(id, received, UPLOAD_TTL).await?;
            renewed = Instant::now();
        }
        for bytes in waiting.drain(..) {
            writer.write(bytes).await?;
        }
        waiting_bytes = 0;
        if !checked && (ended || writer.head().len() >= HEAD_BYTES) {
            announced.check_type(writer.head())?;
            checked = true;
        }
        if ended {
            return Ok(());
        }
    }
}

/// The bytes of a local file that are read at once.
const FILE_STEP: usize = 256 << 10;

/// Reads an object, or a range of it. A local file is open until the stream ends, so a deletion meanwhile does not break it.
pub(crate) async fn read(
    backend: &Backend,
    path: &Path,
    range: Option<Range<u64>>,
) -> Result<BoxStream<'static, Result<Bytes, BackendError>>, BackendError> {
    let options = GetOptions::new().with_range(range.map(GetRange::Bounded));
    let result = backend.store.get_opts(path, options).await.map_err(|error| backend.failed(error))?;
    let range = result.range.clone();
    match result.payload {
        GetResultPayload::Stream(stream) => {
            let backend = backend.clone();
            Ok(stream.map_err(move |error| backend.failed(error)).boxed())
        }
        GetResultPayload::File(file, _) => Ok(file_stream(backend.clone(), file, range)),
    }
}

/// A file that is being read, at a position.
struct OpenFile {
    file: std::fs::File,
    left: Range<u64>,
    positioned: bool,
}

impl OpenFile {
    fn next(&mut self) -> std::io::Result<Bytes> {
        if !self.positioned {
            self.file.seek(SeekFrom::Start(self.left.start))?;
            self.positioned = true;
        }
        let mut bytes = vec![0; FILE_STEP.min(usize::try_from(self.left.end - self.left.start).unwrap_or(FILE_STEP))];
        self.file.read_exact(&mut bytes)?;
        self.left.start += bytes.len() as u64;
        Ok(bytes.into())
    }
}

fn file_stream(
    backend: Backend,
    file: std::fs::File,
    range: Range<u64>,
) -> BoxStream<'static, Result<Bytes, BackendError>> {
    let open = OpenFile { file, left: range, positioned: false };
    futures_util::stream::try_unfold(open, move |mut open| {
        let backend = backend.clone();
        async move {
            if open.left.is_empty() {
                return Ok(None);
            }
            let read = tokio::task::spawn_blocking(move || open.next().map(|bytes| (bytes, open))).await;
            let generic = |source: Box<dyn std::error::Error + Send + Sync>| {
                backend.failed(object_store::Error::Generic { store: "local", source })
            };
            match read {
                Ok(Ok(step)) => Ok(Some(step)),
                Ok(Err(error)) => Err(generic(error.into())),
                Err(error) => Err(generic(error.into())),
            }
        }
    })
    .boxed()
}

/// Deletes an object; does nothing if there is none.
pub(crate) async fn delete(backend: &Backend, path: &Path) -> Result<(), BackendError> {
    use object_store::ObjectStoreExt;
    match backend.store.delete(path).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(backend.failed(error)),
    }
}
