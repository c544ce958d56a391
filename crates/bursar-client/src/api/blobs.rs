//! `/v1/blobs` and `/v1/namespaces`.

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bursar_core::id::{BlobId, KeyId};
use bursar_core::name::{Namespace, Referrer};
use bursar_core::refusal::Invalid;
use bursar_wire::Page;
use bursar_wire::blob::{BlobAnswer, BlobListWord};
use bursar_wire::namespace::{NamespaceAnswer, NamespaceBody};
use bursar_wire::upload::{
    CommitBlobBody, GcAnswer, GcBody, LinkAnswer, LinkBody, LinkInfo, OrphansAnswer, OrphansBody, PresignAnswer,
    PresignBody, RelocateAnswer, RelocateBody,
};
use bursar_worker::Upload;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::Method;
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, RANGE};

use crate::answered::Answered;
use crate::api::reason_body;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;
use crate::transport::{Body, TransportError};

/// How long a call may take that goes through many blobs.
const LONG: Duration = Duration::from_secs(600);

/// The calls for blobs. From [`Client::blobs`].
#[derive(Clone, Copy, Debug)]
pub struct Blobs<'a>(&'a Client);

/// The calls for the rules of namespaces. From [`Client::namespaces`].
#[derive(Clone, Copy, Debug)]
pub struct Namespaces<'a>(&'a Client);

impl Client {
    /// The calls for blobs.
    pub fn blobs(&self) -> Blobs<'_> {
        Blobs(self)
    }

    /// The calls for the rules of namespaces.
    pub fn namespaces(&self) -> Namespaces<'_> {
        Namespaces(self)
    }
}

/// A filter for a page of blobs.
#[derive(Clone, Debug, Default)]
pub struct BlobQuery {
    /// The namespace; `None` matches all.
    pub namespace: Option<Namespace>,
    /// Which blobs; default: those that can be read.
    pub state: BlobListWord,
    /// Whether the newest blobs come first; default: the oldest.
    pub newest_first: bool,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
    /// The maximum number of blobs; default: 100.
    pub limit: Option<usize>,
}

/// A blob that is being downloaded.
pub struct Download {
    /// The length of the answer in bytes.
    pub size: Option<u64>,
    body: Body,
}

impl Download {
    /// Returns the next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, TransportError> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(bytes) = frame?.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// Returns the bytes as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, TransportError>> + Send + 'static {
        let next = async |mut download: Download| {
            let bytes = download.next().await?;
            Ok(bytes.map(|bytes| (bytes, download)))
        };
        futures_util::stream::try_unfold(self, next)
    }

    /// Returns all bytes, in memory.
    pub async fn bytes(self) -> Result<Bytes, TransportError> {
        Ok(self.body.collect().await?.to_bytes())
    }
}

fn at(id: BlobId) -> Path {
    Path::new("/v1/blobs").part(id)
}

impl Blobs<'_> {
    /// Uploads a blob. If the namespace has the same bytes already, the answer is the blob that has them. The upload is sent once; sending
    /// it again is safe.
    pub async fn put<S, E>(&self, upload: &Upload, bytes: S) -> Result<BlobAnswer, Error>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = Path::new("/v1/blobs")
            .query("namespace", upload.namespace.as_ref())
            .query("filename", upload.filename.as_ref())
            .query("metadata", upload.metadata.as_ref());
        let mut request = self.0.stream_request(Method::POST, &path)?;
        request = request.header(CONTENT_TYPE, upload.content_type.as_deref().unwrap_or("application/octet-stream"));
        if let Some(size) = upload.size {
            request = request.header(CONTENT_LENGTH, size);
        }
        if let Some(digest) = upload.sha256 {
            request = request.header("repr-digest", format!("sha-256=:{}:", BASE64_STANDARD.encode(digest.0)));
        }
        let frames = bytes.map(|bytes| match bytes {
            Ok(bytes) => Ok(Frame::data(bytes)),
            Err(error) => Err(TransportError { sent: true, source: error.into() }),
        });
        let request = request.body(StreamBody::new(frames).boxed_unsync());
        let request = request.map_err(|error| Invalid::new("upload", format!("cannot be sent: {error}")))?;
        let response = self.0.send_stream(request).await?;
        self.0.read_answer(response).await
    }

    /// Uploads a blob from memory.
    pub async fn put_bytes(&self, upload: &Upload, bytes: impl Into<Bytes>) -> Result<BlobAnswer, Error> {
        let bytes = bytes.into();
        let upload = Upload { size: Some(bytes.len() as u64), ..upload.clone() };
        self.put(&upload, futures_util::stream::iter([Ok::<_, std::convert::Infallible>(bytes)])).await
    }

    /// Downloads a blob.
    pub async fn get(&self, id: BlobId) -> Result<Download, Error> {
        self.download(id, None).await
    }

    /// Downloads a range of a blob: `length` bytes from `offset` on, or fewer at its end.
    pub async fn get_range(&self, id: BlobId, offset: u64, length: u64) -> Result<Download, Error> {
        self.download(id, Some(format!("bytes={offset}-{}", offset.saturating_add(length).saturating_sub(1)))).await
    }

    async fn download(&self, id: BlobId, range: Option<String>) -> Result<Download, Error> {
        let mut request = self.0.stream_request(Method::GET, &at(id))?;
        if let Some(range) = range {
            request = request.header(RANGE, range);
        }
        let request = request.body(Empty::new().map_err(|never| match never {}).boxed_unsync());
        let request = request.map_err(|error| Invalid::new("download", format!("cannot be sent: {error}")))?;
        let response = self.0.send_stream(request).await?;
        let size = response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        Ok(Download { size, body: response.into_body() })
    }

    /// Signs an upload that goes to the storage backend.
    pub async fn presign(&self, blob: &PresignBody) -> Result<Answered<PresignAnswer>, Error> {
        self.0.post(Path::new("/v1/blobs/presign"), blob).idempotent().answer().await
    }

    /// Completes a signed upload.
    pub async fn commit(&self, id: BlobId, parts: &CommitBlobBody) -> Result<Answered<BlobAnswer>, Error> {
        self.0.post(at(id).then("commit"), parts).idempotent().answer().await
    }

    /// Creates a link that reads a blob without a token.
    pub async fn link(&self, id: BlobId, link: &LinkBody) -> Result<Answered<LinkAnswer>, Error> {
        self.0.post(at(id).then("link"), link).answer().await
    }

    /// Returns a page of links, without their addresses.
    pub async fn links(&self, cursor: Option<&str>, limit: usize) -> Result<Answered<Page<LinkInfo>>, Error> {
        let path = Path::new("/v1/links").query("cursor", cursor).query("limit", Some(limit));
        self.0.get(path).answer().await
    }

    /// Revokes a link.
    pub async fn revoke_link(&self, id: KeyId) -> Result<Answered<()>, Error> {
        self.0.delete(Path::new("/v1/links").part(id)).done().await
    }

    /// Collects blobs that nothing needs any more, or reports them only.
    pub async fn gc(&self, run: &GcBody) -> Result<Answered<GcAnswer>, Error> {
        self.0.post(Path::new("/v1/blobs/gc"), run).idempotent().waits(LONG).answer().await
    }

    /// Compares the storage backends with the records.
    pub async fn orphans(&self, scan: &OrphansBody) -> Result<Answered<OrphansAnswer>, Error> {
        self.0.post(Path::new("/v1/blobs/orphans"), scan).idempotent().waits(LONG).answer().await
    }

    /// Moves the bytes of some blobs to another backend.
    pub async fn relocate(&self, step: &RelocateBody) -> Result<Answered<RelocateAnswer>, Error> {
        self.0.post(Path::new("/v1/blobs/move"), step).idempotent().waits(LONG).answer().await
    }

    /// Returns a page of blobs, in the order in which they were created. It may have fewer than the limit although a next page follows.
    pub async fn list(&self, query: &BlobQuery) -> Result<Answered<Page<BlobAnswer>>, Error> {
        let path = Path::new("/v1/blobs")
            .query("namespace", query.namespace.as_ref())
            .query("state", Some(query.state.as_str()).filter(|_| query.state != BlobListWord::default()))
            .query("order", query.newest_first.then_some("newest"))
            .query("cursor", query.cursor.as_ref())
            .query("limit", query.limit);
        self.0.get(path).answer().await
    }

    /// Returns what is known about a blob, without its bytes.
    pub async fn meta(&self, id: BlobId) -> Result<Answered<BlobAnswer>, Error> {
        self.0.get(at(id).then("meta")).answer().await
    }

    /// Returns what is known about a blob, as it was at a moment: a time in RFC 3339, or a position of the journal. `None` is now.
    pub async fn meta_at(&self, id: BlobId, moment: Option<&str>) -> Result<Answered<BlobAnswer>, Error> {
        self.0.get(at(id).then("meta").query("at", moment)).answer().await
    }

    /// Deletes a blob. It can be restored for the grace period of its namespace.
    pub async fn delete(&self, id: BlobId, reason: Option<&str>) -> Result<Answered<()>, Error> {
        self.0.delete(at(id).query("reason", reason)).done().await
    }

    /// Restores a deleted blob.
    pub async fn restore(&self, id: BlobId, reason: Option<&str>) -> Result<Answered<BlobAnswer>, Error> {
        self.0.post(at(id).then("restore"), &reason_body(reason)).answer().await
    }

    /// Keeps a blob for something of the application, under a name.
    pub async fn reference(&self, id: BlobId, by: &Referrer, reason: Option<&str>) -> Result<Answered<()>, Error> {
        self.0.put(at(id).then("references").part(by), &reason_body(reason)).done().await
    }

    /// Ends a reference of the application.
    pub async fn release(&self, id: BlobId, by: &Referrer, reason: Option<&str>) -> Result<Answered<()>, Error> {
        self.0.delete(at(id).then("references").part(by).query("reason", reason)).done().await
    }
}

impl Namespaces<'_> {
    /// Returns a page of the namespaces that were configured, by name.
    pub async fn list(&self, cursor: Option<&str>, limit: usize) -> Result<Answered<Page<NamespaceAnswer>>, Error> {
        let path = Path::new("/v1/namespaces").query("cursor", cursor).query("limit", Some(limit));
        self.0.get(path).answer().await
    }

    /// Returns the rules of a namespace; the default ones if it was never configured.
    pub async fn show(&self, name: &Namespace) -> Result<Answered<NamespaceAnswer>, Error> {
        self.0.get(Path::new("/v1/namespaces").part(name)).answer().await
    }

    /// Returns the rules of a namespace as it was at a moment: a time in RFC 3339, or a position of the journal. `None` is now.
    pub async fn show_at(&self, name: &Namespace, moment: Option<&str>) -> Result<Answered<NamespaceAnswer>, Error> {
        self.0.get(Path::new("/v1/namespaces").part(name).query("at", moment)).answer().await
    }

    /// Replaces the rules of a namespace.
    pub async fn define(&self, name: &Namespace, rules: &NamespaceBody) -> Result<Answered<NamespaceAnswer>, Error> {
        self.0.put(Path::new("/v1/namespaces").part(name), rules).answer().await
    }
}
