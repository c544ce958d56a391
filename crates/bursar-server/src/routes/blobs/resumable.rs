//! Resumable uploads by the tus protocol, version 1.0.0, which has the most clients.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use bursar::{BlobId, Namespace, bounds::BLOB_BYTES_MAX};
use bursar_blobs::{NewBlob, Progress};

use super::{bytes, reach, storage};
use crate::call::{NoFields, Streamed};
use crate::convert::blob_problem;
use crate::principal::permissions::Action;
use crate::reply::Headers;
use crate::route::{RetrySafety, Route};
use crate::wire::problem::{Kind, Problem};

const VERSION: &str = "1.0.0";
/// The headers of every answer, also of problems.
const EVERY: &[(&str, &str)] = &[("tus-resumable", VERSION), ("tus-version", VERSION)];
const RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
const OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const LENGTH: HeaderName = HeaderName::from_static("upload-length");
const METADATA: HeaderName = HeaderName::from_static("upload-metadata");
/// The blob of a completed upload. It is another one if the namespace had the same bytes already.
const BLOB: HeaderName = HeaderName::from_static("bursar-blob");
/// The type of the body of a `PATCH`.
const PART: &str = "application/offset+octet-stream";

pub(super) fn routes() -> Vec<Route> {
    let write = Action::BlobsWrite;
    let (uploads, upload) = ("/v1/blobs/uploads", "/v1/blobs/uploads/{id}");
    let about = Route::streaming(
        Method::OPTIONS,
        uploads,
        Action::Public,
        "Tell what resumable uploads support (tus)",
        "",
        about,
    );
    let progress =
        Route::streaming(Method::GET, upload, write, "Tell how far a resumable upload has come (tus)", "", progress)
            .problems(&[409, 412]);
    let writes = [
        Route::streaming(Method::POST, uploads, write, "Begin a resumable upload (tus)", PART, begin)
            .retry_safety(RetrySafety::Bytes),
        Route::streaming(Method::PATCH, upload, write, "Continue a resumable upload (tus)", PART, resume)
            .retry_safety(RetrySafety::Bytes),
        Route::streaming(Method::DELETE, upload, write, "Cancel a resumable upload (tus)", "", cancel)
            .retry_safety(RetrySafety::Repeatable),
    ];
    let writes = writes.into_iter().map(|route| route.problems(&[412]));
    [about, progress].into_iter().chain(writes).map(|route| route.headers(EVERY)).collect()
}

type Fields = Vec<(HeaderName, HeaderValue)>;

async fn about(_: Streamed) -> Result<Headers<204>, Problem> {
    let most = HeaderValue::from(BLOB_BYTES_MAX);
    let extensions = HeaderValue::from_static("creation,termination");
    Ok(Headers(vec![
        (HeaderName::from_static("tus-extension"), extensions),
        (HeaderName::from_static("tus-max-size"), most),
    ]))
}

fn check_version(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(RESUMABLE) {
        Some(version) if version == VERSION => Ok(()),
        _ => Err(Problem::new(Kind::Changed, format!("send the header Tus-Resumable: {VERSION}"))
            .with_hint("OPTIONS /v1/blobs/uploads tells what is supported")),
    }
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Result<u64, Problem> {
    let number = headers.get(name).and_then(|value| value.to_str().ok()?.parse().ok());
    number.ok_or_else(|| Problem::invalid(name.to_string(), format!("the header {name} must be a number of bytes")))
}

async fn begin(input: Streamed) -> Result<Headers<201>, Problem> {
    let Streamed { call, headers, .. } = input;
    check_version(&headers)?;
    let size = number(&headers, &LENGTH)?;
    let (mut namespace, mut filename, mut content_type, mut metadata) = (None, None, None, None);
    let text = headers.get(METADATA).map(|value| value.to_str().unwrap_or_default()).unwrap_or_default();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once(' ').unwrap_or((pair, ""));
        let invalid =
            || Problem::invalid(METADATA.to_string(), format!("the value of `{name}` is not base 64 of UTF-8"));
        let value = BASE64_STANDARD.decode(value.trim()).map_err(|_| invalid())?;
        let value = String::from_utf8(value).map_err(|_| invalid())?;
        match name {
            "namespace" => namespace = Some(Namespace::new(value)?),
            "filename" => filename = Some(value),
            "filetype" => content_type = Some(value).filter(|value| !value.is_empty()),
            "metadata" => metadata = Some(value),
            // Clients add names of their own.
            _ => {}
        }
    }
    let new = NewBlob {
        namespace: bytes::writable(&call, namespace)?,
        filename,
        content_type,
        metadata: bytes::metadata(metadata.as_deref())?,
        size: Some(size),
        digest: None,
    };
    let id = storage(&call)?.begin(&call.bursar(), new).await.map_err(blob_problem)?;
    let mut fields = Fields::new();
    let origin = call.origin.as_deref().unwrap_or_default();
    if let Ok(location) = HeaderValue::from_str(&format!("{origin}/v1/blobs/uploads/{id}")) {
        fields.push((header::LOCATION, location));
    }
    if size == 0 {
        let progress = storage(&call)?.progress(&call.bursar(), id).await.map_err(blob_problem)?;
        fields.extend(told(&progress));
    }
    Ok(Headers(fields))
}

/// Returns the headers that tell how far an upload has come.
fn told(progress: &Progress) -> Fields {
    let mut fields = vec![(OFFSET, HeaderValue::from(progress.offset)), (LENGTH, HeaderValue::from(progress.size))];
    let id = progress.stored.as_ref().map(|stored| HeaderValue::from_str(&stored.blob.id.to_string()));
    if let Some(Ok(id)) = id {
        fields.push((BLOB, id));
    }
    fields
}

async fn progress(input: Streamed<BlobId, NoFields>) -> Result<Headers<200>, Problem> {
    check_version(&input.headers)?;
    reach::check_writable(&input.call, input.parameter).await?;
    let progress = storage(&input.call)?.progress(&input.call.bursar(), input.parameter).await;
    Ok(Headers(told(&progress.map_err(blob_problem)?)))
}

async fn resume(input: Streamed<BlobId, NoFields>) -> Result<Headers<204>, Problem> {
    let Streamed { call, parameter: id, headers, body, .. } = input;
    check_version(&headers)?;
    if headers.get(header::CONTENT_TYPE).is_none_or(|media| media != PART) {
        return Err(Problem::new(Kind::UnsupportedMediaType, format!("send the bytes with Content-Type: {PART}")));
    }
    let offset = number(&headers, &OFFSET)?;
    reach::check_writable(&call, id).await?;
    let stream = Streamed::<()>::stream(body, &headers, &call);
    let resumed = storage(&call)?.resume(&call.bursar(), id, offset, stream).await.map_err(blob_problem)?;
    if let Some(stored) = &resumed.stored {
        call.app.metrics.blobs.uploaded(stored.found);
    }
    Ok(Headers(told(&resumed)))
}

async fn cancel(input: Streamed<BlobId, NoFields>) -> Result<Headers<204>, Problem> {
    check_version(&input.headers)?;
    reach::check_writable(&input.call, input.parameter).await?;
    storage(&input.call)?.cancel(&input.call.bursar(), input.parameter).await.map_err(blob_problem)?;
    Ok(Headers(Fields::new()))
}
