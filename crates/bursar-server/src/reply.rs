//! The types that handlers return. Each knows its HTTP response and its description in the OpenAPI document.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bursar::Fingerprint;
use bursar_signatures::{ACCEPT_SIGNATURE, ACCEPT_SIGNATURE_VALUE};
use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use crate::wire::problem::{Kind, Problem};

/// The success response of a route, as the OpenAPI document describes it.
pub(crate) struct ResponseSpec {
    pub(crate) status: StatusCode,
    pub(crate) media: &'static str,
    pub(crate) schema: Option<Schema>,
}

/// A type that a handler can return.
pub(crate) trait HandlerReply: Send {
    /// Converts the value into an HTTP response.
    fn respond(self) -> Response;
    /// Describes the response for the OpenAPI document.
    fn spec(schemas: &mut SchemaGenerator) -> ResponseSpec;
}

const JSON: &str = "application/json";
/// The media type of a blob, which can be any.
pub(crate) const ANY: &str = "*/*";

/// Header of a response that repeats the answer of an earlier request with the same idempotency key.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// JSON, with status 200.
pub(crate) struct Reply<T> {
    answer: T,
    etag: Option<Fingerprint>,
    replayed: bool,
}

impl<T> Reply<T> {
    pub(crate) fn new(answer: T) -> Reply<T> {
        Reply { answer, etag: None, replayed: false }
    }

    /// Sets the ETag: a digest of the definition.
    pub(crate) fn tagged(self, etag: Option<Fingerprint>) -> Reply<T> {
        Reply { etag, ..self }
    }

    /// Sets whether the answer is a replay of an earlier request.
    pub(crate) fn replayed(self, replayed: bool) -> Reply<T> {
        Reply { replayed, ..self }
    }
}

impl<T: Serialize + JsonSchema + Send> HandlerReply for Reply<T> {
    fn respond(self) -> Response {
        let mut response = json(StatusCode::OK, &self.answer);
        if let Some(Fingerprint(digest)) = self.etag
            && let Ok(tag) = HeaderValue::from_str(&format!("\"{digest:032x}\""))
        {
            response.headers_mut().insert(header::ETAG, tag);
        }
        mark_replayed(&mut response, self.replayed);
        response
    }

    fn spec(schemas: &mut SchemaGenerator) -> ResponseSpec {
        ResponseSpec { status: StatusCode::OK, media: JSON, schema: Some(schemas.subschema_for::<T>()) }
    }
}

/// JSON with status 201 and a `Location`; status 200 if the request created nothing new.
pub(crate) struct Created<T> {
    pub(crate) answer: T,
    pub(crate) location: Option<String>,
    pub(crate) replayed: bool,
}

impl<T: Serialize + JsonSchema + Send> HandlerReply for Created<T> {
    fn respond(self) -> Response {
        let status = if self.location.is_some() { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = json(status, &self.answer);
        if let Some(Ok(location)) = self.location.as_deref().map(HeaderValue::from_str) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        mark_replayed(&mut response, self.replayed);
        response
    }

    fn spec(schemas: &mut SchemaGenerator) -> ResponseSpec {
        ResponseSpec { status: StatusCode::CREATED, media: JSON, schema: Some(schemas.subschema_for::<T>()) }
    }
}

/// No content, with status 204.
pub(crate) struct NoContent {
    pub(crate) replayed: bool,
}

impl HandlerReply for NoContent {
    fn respond(self) -> Response {
        let mut response = StatusCode::NO_CONTENT.into_response();
        mark_replayed(&mut response, self.replayed);
        response
    }

    fn spec(_: &mut SchemaGenerator) -> ResponseSpec {
        ResponseSpec { status: StatusCode::NO_CONTENT, media: "", schema: None }
    }
}

/// Text of a media type that is chosen at compile time: [`PLAIN`], [`HTML`] or [`DOCUMENT`].
pub(crate) struct Text<const MEDIA: char>(pub(crate) Bytes);

/// Marks a response that does not count as bytes in flight, because it is small or its buffer is shared.
#[derive(Clone, Copy)]
pub(crate) struct Uncounted;

/// Plain text in the Prometheus format.
pub(crate) const PLAIN: char = 'p';
/// An HTML page.
pub(crate) const HTML: char = 'h';
/// JSON that is already serialized.
pub(crate) const DOCUMENT: char = 'j';

fn media(kind: char) -> &'static str {
    match kind {
        HTML => "text/html; charset=utf-8",
        DOCUMENT => JSON,
        _ => "text/plain; version=0.0.4; charset=utf-8",
    }
}

impl<const MEDIA: char> HandlerReply for Text<MEDIA> {
    fn respond(self) -> Response {
        let mut response = ([(header::CONTENT_TYPE, media(MEDIA))], self.0).into_response();
        response.extensions_mut().insert(Uncounted);
        response
    }

    fn spec(_: &mut SchemaGenerator) -> ResponseSpec {
        ResponseSpec { status: StatusCode::OK, media: media(MEDIA), schema: None }
    }
}

/// A stream of events: server-sent events, or the answer that a WebSocket follows.
pub(crate) struct EventStream(pub(crate) Response);

impl EventStream {
    /// Returns a stream of server-sent events.
    pub(crate) fn of_frames(frames: Body) -> EventStream {
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        EventStream((headers, frames).into_response())
    }
}

impl HandlerReply for EventStream {
    fn respond(self) -> Response {
        self.0
    }

    fn spec(_: &mut SchemaGenerator) -> ResponseSpec {
        ResponseSpec { status: StatusCode::OK, media: "text/event-stream", schema: None }
    }
}

/// Returns a problem as a response, with the request id and without internal details.
pub(crate) fn problem(problem: Problem, request_id: &str) -> Response {
    full_problem(&problem.redacted().with_http_hint().of_request(request_id))
}

/// Returns a problem as a response, with all its details.
pub(crate) fn full_problem(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, problem);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(wait) = problem.retry_after_ms() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from((wait.max(1) as u64).div_ceil(1_000)));
    }
    if problem.kind == Kind::RangeNotSatisfiable
        && let Some(size) = problem.http.as_ref().and_then(|fields| fields.size)
        && let Ok(range) = HeaderValue::from_str(&format!("bytes */{size}"))
    {
        headers.insert(header::CONTENT_RANGE, range);
    }
    if problem.kind == Kind::Unauthorized {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"bursar\""));
    }
    if problem.kind == Kind::SignatureRefused {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Agent realm=\"bursar\""));
        headers.insert(ACCEPT_SIGNATURE, HeaderValue::from_static(ACCEPT_SIGNATURE_VALUE));
    }
    response
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => (status, [(header::CONTENT_TYPE, JSON)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "response serialization failed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn mark_replayed(response: &mut Response, replayed: bool) {
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
}

/// The bytes of a blob, or the refusal of a condition or range.
pub(crate) struct BlobBytes(pub(crate) Response);

impl HandlerReply for BlobBytes {
    fn respond(mut self) -> Response {
        self.0.extensions_mut().insert(Uncounted);
        self.0
    }

    fn spec(_: &mut SchemaGenerator) -> ResponseSpec {
        let schema = schemars::json_schema!({ "type": "string", "format": "binary" });
        ResponseSpec { status: StatusCode::OK, media: ANY, schema: Some(schema) }
    }
}

/// A response without a body whose headers are the answer, with status 200, 201 or 204.
pub(crate) struct Headers<const STATUS: u16>(pub(crate) Vec<(HeaderName, HeaderValue)>);

impl<const STATUS: u16> HandlerReply for Headers<STATUS> {
    fn respond(self) -> Response {
        let mut response = StatusCode::from_u16(STATUS).unwrap_or(StatusCode::OK).into_response();
        response.headers_mut().extend(self.0);
        response
    }

    fn spec(_: &mut SchemaGenerator) -> ResponseSpec {
        let status = StatusCode::from_u16(STATUS).unwrap_or(StatusCode::OK);
        ResponseSpec { status, media: "", schema: None }
    }
}
