//! Signed uploads: the caller sends the bytes to the backend itself, or to this server with a token in the address, and commits them
//! afterwards.
//!
//! The bytes go to a staging object. A signed request stays valid after the commit, so it must not be able to write the object that a
//! live blob has.

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bursar::Bursar;
use bursar_core::blob::{Blob, BlobState, Sha256Digest};
use bursar_core::id::BlobId;
use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::signer::{HeaderName, HeaderValue, Method, SignedUrlOptions, Signer};
use object_store::{CopyOptions, ObjectStoreExt};

use crate::backend::{Backend, Signing};
use crate::blobs::{Announced, Blobs, BodyStream, NewBlob, Stored, delete, read};
use crate::error::{BackendError, BlobError};
use crate::object;
use crate::writer::{HEAD_BYTES, Writer};

/// A signed upload that was begun.
#[derive(Clone, Debug)]
pub struct SignedUpload {
    /// The record: pending, or live if the namespace has these bytes already.
    pub blob: Blob,
    /// Where the bytes go; `None` if the namespace has them already.
    pub target: Option<Target>,
}

/// Where the bytes of a signed upload go.
#[derive(Clone, Debug)]
pub enum Target {
    /// To the server itself, with [`Blobs::receive_staged`].
    Server,
    /// To the backend, with one request.
    Request {
        /// Its address, with the signature.
        url: String,
        /// The headers that it must have.
        headers: Vec<(String, String)>,
    },
    /// To the backend, with one request for each part.
    Parts {
        /// The id of the upload, which the commit repeats.
        upload_id: String,
        /// The parts.
        parts: Vec<SignedPart>,
    },
}

/// The request for a part of an upload.
#[derive(Clone, Debug)]
pub struct SignedPart {
    /// Its number, from 1.
    pub number: usize,
    /// The position of its first byte.
    pub offset: u64,
    /// Its length.
    pub size: u64,
    /// Its address, with the signature.
    pub url: String,
}

/// A part that was uploaded.
#[derive(Clone, Debug)]
pub struct UploadedPart {
    /// Its number, from 1.
    pub number: usize,
    /// The entity tag that the backend answered.
    pub etag: String,
}

/// The longest object that S3 copies in one request.
const COPY_MAX: u64 = 5 << 30;
/// The most parts of an upload.
const PARTS_MAX: u64 = 10_000;

/// When a signed upload goes in parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartRule {
    /// The longest upload with one request.
    single_max: u64,
    /// The length of a part, unless that gives too many parts.
    part_bytes: u64,
}

impl Default for PartRule {
    fn default() -> PartRule {
        PartRule { single_max: 1 << 30, part_bytes: 64 << 20 }
    }
}

/// Returns the header that pins the digest of a signed upload, and with it the length.
pub(crate) fn put_options(digest: Sha256Digest) -> SignedUrlOptions {
    let checksum = HeaderValue::from_str(&BASE64_STANDARD.encode(digest.0)).expect("base64 is visible ASCII");
    SignedUrlOptions::default().with_signed_header(HeaderName::from_static("x-amz-checksum-sha256"), checksum)
}

impl Blobs {
    /// Signs uploads of more than `single_max` bytes in parts of `part_bytes`; default: 1 GiB and 64 MiB. S3 allows parts of 5 MiB to 5 GiB.
    pub fn signing_parts(mut self, single_max: u64, part_bytes: u64) -> Blobs {
        self.parts = PartRule { single_max, part_bytes: part_bytes.max(1) };
        self
    }

    /// Begins a signed upload of a blob whose length and digest are known. The signature is valid for `ttl`.
    pub async fn sign_upload(&self, bursar: &Bursar, new: NewBlob, ttl: Duration) -> Result<SignedUpload, BlobError> {
        let backend = self.backends.primary();
        let signs = backend.s3.is_some() && self.abilities().await?.signed_requests;
        let mut spec = new.spec(backend);
        (spec.digest, spec.staged) = (new.digest, true);
        let answer = bursar.blob_records().start(spec, ttl.max(Duration::from_secs(60)) * 2, None).await?;
        let Stored { blob, found } = self.stored(bursar, answer).await?;
        if found {
            return Ok(SignedUpload { blob, target: None });
        }
        let target = match backend.s3.as_ref().filter(|_| signs) {
            None => Ok(Target::Server),
            Some(s3) => sign(s3, &blob, ttl, self.parts).await.map_err(|error| backend.failed(error)),
        };
        match target {
            Ok(target) => Ok(SignedUpload { blob, target: Some(target) }),
            Err(error) => {
                self.give_up(bursar, blob.id, backend, &object::staged(blob.id)).await;
                Err(error.into())
            }
        }
    }

    /// Receives the bytes of a signed upload that go to the server itself. They can be sent again until they are committed.
    pub async fn receive_staged(&self, blob: &Blob, mut body: BodyStream) -> Result<(), BlobError> {
        let backend = self.backend_of(blob)?;
        let announced = announced(blob);
        let mut writer = Writer::new(backend, object::staged(blob.id), blob.size);
        let received = async {
            while let Some(bytes) = body.try_next().await.map_err(BlobError::Interrupted)? {
                let received = writer.size() + bytes.len() as u64;
                if let Some(announced) = announced.size.filter(|announced| received > *announced) {
                    return Err(BlobError::Length { announced, received });
                }
                writer.write(bytes).await?;
            }
            announced.check_type(writer.head())
        };
        match received.await {
            Ok(()) => {}
            Err(error) => {
                writer.abort().await;
                return Err(error);
            }
        }
        let written = writer.finish().await?;
        if let Err(error) = announced.check(written) {
            delete(backend, &object::staged(blob.id)).await?;
            return Err(error);
        }
        Ok(())
    }

    /// Ends a signed upload: checks that the bytes are the announced ones, and makes the record live. Repeating it is safe.
    pub async fn commit(
        &self,
        bursar: &Bursar,
        id: BlobId,
        parts: Option<(String, Vec<UploadedPart>)>,
    ) -> Result<Stored, BlobError> {
        let records = bursar.blob_records();
        let unknown = || bursar::Error::from(bursar::Refusal::UnknownBlob { blob: id });
        let blob = records.find(id).await?.ok_or_else(unknown)?;
        let (Some(size), Some(digest)) = (blob.size, blob.digest) else { return Err(unknown().into()) };
        if blob.state == BlobState::Pending && !blob.staged {
            return Err(BlobError::NotUploaded { blob: id });
        }
        if blob.state == BlobState::Pending {
            let backend = self.backend_of(&blob)?;
            if let Some((upload, parts)) = parts {
                complete(backend, id, upload, parts).await?;
            }
            if let Err(error) = self.publish(backend, &blob, size).await {
                if matches!(error, BlobError::Length { .. } | BlobError::Digest { .. } | BlobError::Type { .. }) {
                    self.give_up(bursar, id, backend, &object::object(id)).await;
                    delete(backend, &object::staged(id)).await?;
                }
                return Err(error);
            }
        }
        // The kernel answers a repeated report, and refuses a doomed record.
        let answer = records.store(id, size, digest).await?;
        let stored = self.stored(bursar, answer).await?;
        if let Ok(backend) = self.backend_of(&blob) {
            let _ = delete(backend, &object::staged(id)).await;
        }
        Ok(stored)
    }

    /// Makes the staged bytes those of the blob, and checks them.
    async fn publish(&self, backend: &Backend, blob: &Blob, size: u64) -> Result<(), BlobError> {
        let (staged, object) = (object::staged(blob.id), object::object(blob.id));
        let found = match backend.store.head(&staged).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => {
                // An earlier commit that was cut off may have come further.
                return match backend.store.head(&object).await {
                    Ok(_) => check_bytes(backend, blob).await,
                    Err(object_store::Error::NotFound { .. }) => Err(BlobError::NotUploaded { blob: blob.id }),
                    Err(error) => Err(backend.failed(error).into()),
                };
            }
            Err(error) => return Err(backend.failed(error).into()),
        };
        if found.size != size {
            return Err(BlobError::Length { announced: size, received: found.size });
        }
        if backend.s3.is_none() {
            // The server itself has checked these bytes when it received them.
            return backend.store.rename(&staged, &object).await.map_err(|error| backend.failed(error).into());
        }
        if size > COPY_MAX {
            return rewrite(backend, &staged, blob).await;
        }
        let copied = backend.store.copy_opts(&staged, &object, CopyOptions::default()).await;
        copied.map_err(|error| backend.failed(error))?;
        if backend.checksum(&object).await.map_err(|error| backend.failed(error))? == blob.digest {
            let head = match size {
                0 => Vec::new(),
                _ => read_all(read(backend, &object, Some(0..size.min(HEAD_BYTES as u64))).await?).await?,
            };
            return announced(blob).check_type(&head);
        }
        // The backend does not tell a digest, as for an object of several parts, or tells another one.
        check_bytes(backend, blob).await
    }
}

/// Collects the bytes of a short stream.
async fn read_all(mut stream: BoxStream<'static, Result<Bytes, BackendError>>) -> Result<Vec<u8>, BackendError> {
    let mut all = Vec::new();
    while let Some(bytes) = stream.try_next().await? {
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

fn announced(blob: &Blob) -> Announced<'_> {
    Announced { size: blob.size, digest: blob.digest, content_type: Some(&blob.content_type) }
}

/// Reads the bytes of a blob and checks them.
async fn check_bytes(backend: &Backend, blob: &Blob) -> Result<(), BlobError> {
    let announced = announced(blob);
    let (head, read) = digest_of(backend, &object::object(blob.id)).await?;
    announced.check_type(&head)?;
    announced.check(read).map(drop)
}

/// Reads an object, and returns its first bytes, its length and its digest.
pub(crate) async fn digest_of(backend: &Backend, path: &Path) -> Result<(Vec<u8>, (u64, Sha256Digest)), BackendError> {
    use sha2::{Digest, Sha256};
    let mut stream = read(backend, path, None).await?;
    let (mut hasher, mut size, mut head) = (Sha256::new(), 0, Vec::new());
    while let Some(bytes) = stream.try_next().await? {
        hasher.update(&bytes);
        size += bytes.len() as u64;
        let missing = HEAD_BYTES - head.len();
        head.extend_from_slice(&bytes[..bytes.len().min(missing)]);
    }
    Ok((head, (size, Sha256Digest(hasher.finalize().into()))))
}

/// Copies an object that is too long for one request, and checks it on the way.
async fn rewrite(backend: &Backend, from: &Path, blob: &Blob) -> Result<(), BlobError> {
    let announced = announced(blob);
    let mut stream = read(backend, from, None).await?;
    let mut writer = Writer::new(backend, object::object(blob.id), blob.size);
    while let Some(bytes) = stream.try_next().await? {
        writer.write(bytes).await?;
    }
    announced.check_type(writer.head())?;
    announced.check(writer.finish().await?).map(drop)
}

async fn sign(s3: &Signing, blob: &Blob, ttl: Duration, parts: PartRule) -> object_store::Result<Target> {
    let PartRule { single_max, part_bytes } = parts;
    let (size, path) = (blob.size.unwrap_or(0), s3.path(&object::staged(blob.id)));
    if size <= single_max {
        let digest = blob.digest.unwrap_or(Sha256Digest([0; 32]));
        let options = put_options(digest);
        let url = s3.service.signed_url_opts(Method::PUT, &path, ttl, &options).await?;
        let headers = options.signed_headers.iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()));
        return Ok(Target::Request { url: url.to_string(), headers: headers.collect() });
    }
    let upload_id = s3.service.create_multipart(&path).await?;
    let part_bytes = part_bytes.max(size.div_ceil(PARTS_MAX));
    let mut parts = Vec::new();
    for (place, offset) in (0..size).step_by(usize::try_from(part_bytes).unwrap_or(usize::MAX)).enumerate() {
        let number = place + 1;
        let query = [("partNumber", number.to_string()), ("uploadId", upload_id.clone())];
        let options = SignedUrlOptions::default().with_query(query);
        let url = s3.service.signed_url_opts(Method::PUT, &path, ttl, &options).await?;
        parts.push(SignedPart { number, offset, size: part_bytes.min(size - offset), url: url.to_string() });
    }
    Ok(Target::Parts { upload_id, parts })
}

/// Puts the parts of a signed upload together. An upload that is gone was completed before.
async fn complete(
    backend: &Backend,
    id: BlobId,
    upload: String,
    mut parts: Vec<UploadedPart>,
) -> Result<(), BlobError> {
    let Some(s3) = &backend.s3 else { return Ok(()) };
    parts.sort_by_key(|part| part.number);
    let ids = parts.into_iter().map(|part| PartId { content_id: part.etag }).collect();
    match s3.service.complete_multipart(&s3.path(&object::staged(id)), &upload, ids).await {
        Ok(_) => Ok(()),
        Err(_) if backend.store.head(&object::staged(id)).await.is_ok() => Ok(()),
        Err(error) => Err(backend.failed(error).into()),
    }
}

impl Blobs {
    /// Returns an address of the backend from which the blob can be read without a token until `ttl` is over; `None` if the backend
    /// has no such addresses. The signature fixes the type and the disposition.
    pub async fn sign_download(&self, blob: &Blob, ttl: Duration) -> Result<Option<String>, BlobError> {
        let backend = self.backend_of(blob)?;
        let Some(s3) = &backend.s3 else { return Ok(None) };
        let disposition = crate::disposition::content_disposition(&blob.content_type, blob.filename.as_deref());
        let options = SignedUrlOptions::default().with_query([
            ("response-content-type", blob.content_type.clone()),
            ("response-content-disposition", disposition),
        ]);
        let path = s3.path(&object::object(blob.id));
        let url = s3.service.signed_url_opts(Method::GET, &path, ttl, &options).await;
        Ok(Some(url.map_err(|error| backend.failed(error))?.to_string()))
    }
}
