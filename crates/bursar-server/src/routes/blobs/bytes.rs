//! Routes that carry the bytes of blobs: uploads and downloads.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use bursar::{Blob, BlobId, Namespace, Payload, Sha256Digest};
use bursar_blobs::serve::{Conditions, Served, entity_tag, serve};
use bursar_blobs::{BlobError, BodyStream, NewBlob, Stored, disposition};
use bytes::Bytes;
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{reach, storage};
use crate::call::{Call, NoFields, Streamed};
use crate::convert::blob_problem;
use crate::principal::forbidden;
use crate::principal::permissions::{Action, Role};
use crate::reply::{BlobBytes, Created};
use crate::route::{RetrySafety, Route};
use crate::wire::blob::BlobAnswer;
use crate::wire::problem::{Kind, Problem};

const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
/// The most bytes of a form before its file: text fields, and the heads of its parts.
const FORM_TEXT_MAX: usize = 64 << 10;
/// The most bytes that the parser of forms is given at once while it looks for the file.
const FORM_PIECE: usize = 8 << 10;
/// How long the address is valid that a download is redirected to.
const REDIRECT_TTL: Duration = Duration::from_secs(60);

pub(super) fn routes() -> Vec<Route> {
    let (read, write) = (Action::BlobsRead, Action::BlobsWrite);
    let any = "application/octet-stream";
    vec![
        Route::streaming(
            Method::POST,
            "/v1/blobs",
            write,
            "Upload a blob: raw bytes or a form with a file",
            any,
            upload,
        )
        .retry_safety(RetrySafety::Bytes),
        Route::streaming(Method::GET, "/v1/blobs/{id}", read, "Download a blob, or a range of it", any, download)
            .problems(&[412, 416]),
    ]
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UploadQuery {
    /// The namespace of the blob. Default: `default`.
    #[serde(default)]
    namespace: Option<Namespace>,
    /// The file name to offer it under.
    #[serde(default)]
    filename: Option<String>,
    /// JSON to store with the blob.
    #[serde(default)]
    metadata: Option<String>,
}

/// Returns the namespace of an upload, which the caller must be allowed to write.
pub(super) fn writable(call: &Call, namespace: Option<Namespace>) -> Result<Namespace, Problem> {
    let namespace = match namespace {
        Some(namespace) => namespace,
        None => Namespace::new("default")?,
    };
    if !call.principal.writes_blobs_of(&namespace) {
        let detail = format!("this worker's capabilities do not include writing the namespace {namespace}");
        return Err(forbidden(detail));
    }
    Ok(namespace)
}

/// Parses JSON that is stored with a blob.
pub(super) fn metadata(text: Option<&str>) -> Result<Payload, Problem> {
    let Some(text) = text else { return Ok(Payload::default()) };
    Payload::new(text).map_err(|_| Problem::invalid("metadata".into(), "metadata must be JSON"))
}

async fn upload(input: Streamed<(), UploadQuery>) -> Result<Created<BlobAnswer>, Problem> {
    let Streamed { call, query, headers, body, .. } = input;
    let blobs = storage(&call)?;
    let media = headers.get(header::CONTENT_TYPE).map(|media| media.to_str().unwrap_or_default());
    let boundary = boundary(media)?;
    let digest = repr_digest(&headers)?;
    let stream = Streamed::<()>::stream(body, &headers, &call);
    let (new, stream) = match boundary {
        Some(boundary) => form(&call, query, digest, &boundary, stream).await?,
        None => {
            let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
            let new = NewBlob {
                namespace: writable(&call, query.namespace)?,
                filename: query.filename,
                content_type: media.map(str::to_owned),
                metadata: metadata(query.metadata.as_deref())?,
                size: length,
                digest,
            };
            (new, stream)
        }
    };
    let stored = blobs.put(&call.bursar(), new, stream).await.map_err(blob_problem)?;
    call.app.metrics.blobs.uploaded(stored.found);
    Ok(created(&stored))
}

/// Returns the boundary of a form; `None` if the body is the bytes of the blob.
fn boundary(media: Option<&str>) -> Result<Option<String>, Problem> {
    let Some(media) = media.filter(|media| media.to_ascii_lowercase().starts_with("multipart/form-data")) else {
        return Ok(None);
    };
    let invalid = |_| Problem::invalid("content-type".into(), "the content type of a form must name its boundary");
    multer::parse_boundary(media).map(Some).map_err(invalid)
}

/// Returns the answer to an upload.
pub(super) fn created(stored: &Stored) -> Created<BlobAnswer> {
    let answer = BlobAnswer::from(&stored.blob);
    let location = (!stored.found).then(|| format!("/v1/blobs/{}", answer.id));
    Created { answer, location, replayed: false }
}

/// How many bytes of a form may still come before its file begins; `None` once it has.
type FormText = Arc<Mutex<Option<usize>>>;

/// The text fields of a form are too long.
#[derive(Debug, thiserror::Error)]
#[error("the form has more than {FORM_TEXT_MAX} bytes before its part `file`")]
struct FormTextTooLong;

/// Returns the bytes of a form, one piece a poll. The parser of forms reads its stream until there is nothing to read, and keeps all of
/// that in memory; it also keeps the head of a part until it is complete, and takes a short body for incomplete if the last bytes and the
/// end arrive between two polls of its own.
fn form_pieces(mut body: BodyStream, text: FormText) -> BodyStream {
    let mut rest = Bytes::new();
    let mut given = false;
    let next = move |context: &mut std::task::Context<'_>| {
        if std::mem::take(&mut given) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if rest.is_empty() {
            match std::task::ready!(body.poll_next_unpin(context)) {
                Some(Ok(bytes)) => rest = bytes,
                ended => return Poll::Ready(ended),
            }
        }
        given = true;
        let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = text.as_mut() else { return Poll::Ready(Some(Ok(std::mem::take(&mut rest)))) };
        let piece = rest.split_to(rest.len().min(FORM_PIECE));
        if piece.len() > *left {
            return Poll::Ready(Some(Err(FormTextTooLong.into())));
        }
        *left -= piece.len();
        Poll::Ready(Some(Ok(piece)))
    };
    futures_util::stream::poll_fn(next).boxed()
}

/// Tells why a form cannot be read.
fn broken_form(error: multer::Error) -> Problem {
    match error {
        multer::Error::StreamReadFailed(source) if source.is::<FormTextTooLong>() => {
            Problem::new(Kind::TooLarge, source.to_string())
        }
        error => Problem::invalid("body".into(), format!("the form cannot be read: {error}")),
    }
}

/// Reads the text fields of a form, up to the file.
async fn form(
    call: &Call,
    mut query: UploadQuery,
    digest: Option<Sha256Digest>,
    boundary: &str,
    body: BodyStream,
) -> Result<(NewBlob, BodyStream), Problem> {
    // What is read ahead of the file counts too.
    let text = FormText::new(Mutex::new(Some(FORM_TEXT_MAX + FORM_PIECE)));
    let mut form = multer::Multipart::new(form_pieces(body, text.clone()), boundary);
    let mut texts = 0;
    loop {
        let Some(mut field) = form.next_field().await.map_err(broken_form)? else {
            return Err(Problem::invalid("file".into(), "the form has no part `file`"));
        };
        let name = field.name().unwrap_or_default().to_owned();
        if name == "file" {
            *text.lock().unwrap_or_else(PoisonError::into_inner) = None;
            let content_type = field.content_type().map(ToString::to_string);
            let filename = query.filename.take().or_else(|| field.file_name().map(str::to_owned));
            let new = NewBlob {
                namespace: writable(call, query.namespace.take())?,
                filename: filename.filter(|name| !name.is_empty()),
                content_type,
                metadata: metadata(query.metadata.as_deref())?,
                size: None,
                digest,
            };
            return Ok((new, field.map(|bytes| bytes.map_err(Into::into)).boxed()));
        }
        let mut value = Vec::new();
        while let Some(bytes) = field.chunk().await.map_err(broken_form)? {
            value.extend_from_slice(&bytes);
            texts += bytes.len();
            if texts > FORM_TEXT_MAX {
                return Err(Problem::new(Kind::TooLarge, FormTextTooLong.to_string()));
            }
        }
        let value = String::from_utf8(value).map_err(|_| Problem::invalid(name.clone(), "the field is not UTF-8"))?;
        match name.as_str() {
            "namespace" => query.namespace = Some(Namespace::new(value)?),
            "filename" => query.filename = Some(value),
            "metadata" => query.metadata = Some(value),
            _ => {
                let detail = format!("unknown field `{name}`; a form has namespace, filename and metadata, then file");
                return Err(Problem::invalid(name, detail));
            }
        }
    }
}

/// Parses `Repr-Digest` (RFC 9530). Algorithms other than SHA-256 are ignored.
fn repr_digest(headers: &HeaderMap) -> Result<Option<Sha256Digest>, Problem> {
    let invalid = || Problem::invalid("repr-digest".into(), "Repr-Digest must be sha-256=:BASE64: with 32 bytes");
    for value in headers.get_all(REPR_DIGEST) {
        let text = value.to_str().map_err(|_| invalid())?;
        for member in text.split(',') {
            let Some((name, value)) = member.trim().split_once('=') else { return Err(invalid()) };
            if name != "sha-256" {
                continue;
            }
            let base64 = value.strip_prefix(':').and_then(|value| value.strip_suffix(':')).ok_or_else(invalid)?;
            let bytes = BASE64_STANDARD.decode(base64).map_err(|_| invalid())?;
            return bytes.try_into().map(|bytes| Some(Sha256Digest(bytes))).map_err(|_| invalid());
        }
    }
    Ok(None)
}

async fn download(input: Streamed<BlobId, NoFields>) -> Result<BlobBytes, Problem> {
    let blob = reach::readable(&input.call, input.parameter).await?;
    // A job that uses a blob can read it although it was deleted meanwhile.
    let kept = input.call.principal.role == Some(Role::Worker) && blob.is_kept_by_jobs();
    if !blob.is_available() && !kept {
        return Err(Problem::unknown_blob(blob.id));
    }
    answer(&input.call, &input.method, &input.headers, blob).await
}

/// Answers with the bytes of a blob, as the conditions and ranges of the request say.
pub(super) async fn answer(
    call: &Call,
    method: &Method,
    headers: &HeaderMap,
    blob: Blob,
) -> Result<BlobBytes, Problem> {
    let blobs = storage(call)?;
    let (Some(size), Some(digest)) = (blob.size, blob.digest) else { return Err(Problem::unknown_blob(blob.id)) };
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let head = method == Method::HEAD;
    let conditions = Conditions {
        head,
        if_match: text(header::IF_MATCH),
        if_none_match: text(header::IF_NONE_MATCH),
        range: text(header::RANGE),
        if_range: text(header::IF_RANGE),
    };
    let served = serve(&conditions, digest, size);
    match served {
        Served::PreconditionFailed => {
            return Err(Problem::new(Kind::Changed, "the blob has other bytes than If-Match names"));
        }
        Served::Unsatisfiable => return Err(Problem::range_not_satisfiable(size)),
        Served::Whole | Served::Part { .. } | Served::NotModified => {}
    }
    let status = StatusCode::from_u16(served.status()).unwrap_or(StatusCode::OK);
    let mut response = match served {
        Served::Whole | Served::Part { .. } if call.app.redirect_downloads && !head => {
            match blobs.sign_download(&blob, REDIRECT_TTL).await.map_err(blob_problem)? {
                Some(url) => return Ok(BlobBytes(redirect(&url))),
                None => bytes(call, &blob, served, size).await?,
            }
        }
        Served::Whole if head => Response::new(Body::empty()),
        Served::Whole | Served::Part { .. } => bytes(call, &blob, served, size).await?,
        Served::NotModified => Response::new(Body::empty()),
        Served::PreconditionFailed | Served::Unsatisfiable => unreachable!("answered above"),
    };
    *response.status_mut() = status;
    let fields = response.headers_mut();
    let mut insert = |name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            fields.insert(name, value);
        }
    };
    insert(header::ETAG, &entity_tag(digest));
    insert(header::ACCEPT_RANGES, "bytes");
    insert(header::CACHE_CONTROL, "private, no-cache");
    for (name, value) in disposition::SAFE_HEADERS {
        insert(HeaderName::from_static(name), value);
    }
    if let Some(range) = served.content_range(size) {
        insert(header::CONTENT_RANGE, &range);
    }
    if matches!(served, Served::Whole | Served::Part { .. }) {
        insert(header::CONTENT_TYPE, &blob.content_type);
        insert(header::CONTENT_LENGTH, &served.length(size).to_string());
        insert(REPR_DIGEST, &format!("sha-256=:{}:", BASE64_STANDARD.encode(digest.0)));
        let disposition = disposition::content_disposition(&blob.content_type, blob.filename.as_deref());
        insert(header::CONTENT_DISPOSITION, &disposition);
    }
    Ok(BlobBytes(response))
}

/// Returns the selected bytes. A blob that was moved to another backend meanwhile is looked up again.
async fn bytes(call: &Call, blob: &Blob, served: Served, size: u64) -> Result<Response, Problem> {
    let range = match served {
        Served::Part { first, last } => Some(first..last + 1),
        _ => None,
    };
    if size == 0 {
        return Ok(Response::new(Body::empty()));
    }
    let blobs = storage(call)?;
    let stream = match blobs.get(blob, range.clone()).await {
        Err(BlobError::Missing { .. }) => {
            let now = call.app.bursar.blob_records().find_any(blob.id).await?;
            let now = now.filter(|now| now.backend != blob.backend).unwrap_or_else(|| blob.clone());
            blobs.get(&now, range).await
        }
        got => got,
    };
    let app = call.app.clone();
    let stream = stream.map_err(blob_problem)?.inspect(move |bytes| {
        if let Ok(bytes) = bytes {
            app.metrics.blobs.sent(bytes.len());
        }
    });
    Ok(Response::new(Body::from_stream(stream)))
}

fn redirect(url: &str) -> Response {
    let mut response = StatusCode::FOUND.into_response();
    if let Ok(url) = HeaderValue::from_str(url) {
        response.headers_mut().insert(header::LOCATION, url);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn text(left: usize) -> FormText {
        FormText::new(Mutex::new(Some(left)))
    }

    #[tokio::test]
    async fn a_short_form_that_arrives_late_is_complete() {
        let form = b"--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nbytes\r\n--XX--\r\n";
        // The body is not there at first. Then it is there as a whole, with its end.
        let mut polls = 0;
        let late: BodyStream = Box::pin(futures_util::stream::poll_fn(move |context| {
            polls += 1;
            match polls {
                1 => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                2 => Poll::Ready(Some(Ok(Bytes::from_static(form)))),
                _ => Poll::Ready(None),
            }
        }));
        let mut form = multer::Multipart::new(form_pieces(late, text(FORM_TEXT_MAX)), "XX");
        let field = form.next_field().await.unwrap().unwrap();
        assert_eq!(field.bytes().await.unwrap(), "bytes");
        assert!(form.next_field().await.unwrap().is_none());
    }

    /// Returns a body that begins with some bytes and never ends, and the count of bytes that were read from it.
    fn endless(begin: &'static str) -> (BodyStream, Arc<AtomicUsize>) {
        const PIECE: Bytes = Bytes::from_static(&[b'x'; 100_000]);
        let read = Arc::new(AtomicUsize::new(0));
        let counted = read.clone();
        let pieces = std::iter::once(Bytes::from_static(begin.as_bytes())).chain(std::iter::repeat(PIECE));
        let pieces = pieces.inspect(move |piece| {
            counted.fetch_add(piece.len(), Ordering::SeqCst);
        });
        (futures_util::stream::iter(pieces.map(Ok)).boxed(), read)
    }

    #[tokio::test]
    async fn the_parser_of_forms_reads_no_further_than_it_must() {
        let heads = ["", "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"", "--XX\r\nX-Note: "];
        for begin in heads {
            let (body, read) = endless(begin);
            let mut form = multer::Multipart::new(form_pieces(body, text(FORM_TEXT_MAX)), "XX");
            let problem = broken_form(form.next_field().await.unwrap_err());
            assert_eq!(problem.kind, Kind::TooLarge, "{begin:?}: {}", problem.detail);
            assert!(read.load(Ordering::SeqCst) < FORM_TEXT_MAX + 200_000, "{begin:?}");
        }
        let (body, read) = endless("--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n");
        let left = text(FORM_TEXT_MAX);
        let mut form = multer::Multipart::new(form_pieces(body, left.clone()), "XX");
        let mut field = form.next_field().await.unwrap().unwrap();
        *left.lock().unwrap() = None;
        for _ in 0..100 {
            let before = read.load(Ordering::SeqCst);
            assert!(!field.chunk().await.unwrap().unwrap().is_empty());
            assert!(read.load(Ordering::SeqCst) - before <= 200_000, "much of the body is in memory");
        }
    }

    #[test]
    fn fuzz_digests_are_parsed_or_refused() {
        let right = format!("md5=:AAAA:, sha-256=:{}:", BASE64_STANDARD.encode([7; 32]));
        bursar_fuzz::texts(&[&right, "sha-256=:AAAA:", "sha-512=x", "=,:"], |text| {
            let Ok(value) = HeaderValue::from_str(text) else { return };
            let headers = HeaderMap::from_iter([(REPR_DIGEST, value)]);
            match repr_digest(&headers) {
                Ok(Some(digest)) => assert!(text.contains(&BASE64_STANDARD.encode(digest.0)), "{text}"),
                Ok(None) => {}
                Err(problem) => assert_eq!((problem.status, problem.field.as_deref()), (400, Some("repr-digest"))),
            }
        });
    }
}
