//! Answers: what a handler returns, as a response and as a part of the document.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bursar::Fingerprint;
use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use crate::wire::problem::{Kind, Problem};

/// What a route answers when all is well, for the document.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) media: &'static str,
    pub(crate) schema: Option<Schema>,
}

/// What a handler returns.
pub(crate) trait Answers: Send {
    /// As a response.
    fn respond(self) -> Response;
    /// As a part of the document.
    fn answered(schemas: &mut SchemaGenerator) -> Answered;
}

const JSON: &str = "application/json";

/// Tells that an answer is that of an earlier request with the same key.
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

    /// With the digest of what is defined.
    pub(crate) fn tagged(self, etag: Option<Fingerprint>) -> Reply<T> {
        Reply { etag, ..self }
    }

    /// It may be the answer of an earlier request.
    pub(crate) fn replayed(self, replayed: bool) -> Reply<T> {
        Reply { replayed, ..self }
    }
}

impl<T: Serialize + JsonSchema + Send> Answers for Reply<T> {
    fn respond(self) -> Response {
        let mut response = json(StatusCode::OK, &self.answer);
        if let Some(Fingerprint(digest)) = self.etag
            && let Ok(tag) = HeaderValue::from_str(&format!("\"{digest:032x}\""))
        {
            response.headers_mut().insert(header::ETAG, tag);
        }
        mark(&mut response, self.replayed);
        response
    }

    fn answered(schemas: &mut SchemaGenerator) -> Answered {
        Answered { status: StatusCode::OK, media: JSON, schema: Some(schemas.subschema_for::<T>()) }
    }
}

/// JSON about what was made, with status 201 and where it is; 200 where nothing was made.
pub(crate) struct Created<T> {
    pub(crate) answer: T,
    pub(crate) location: Option<String>,
    pub(crate) replayed: bool,
}

impl<T: Serialize + JsonSchema + Send> Answers for Created<T> {
    fn respond(self) -> Response {
        let status = if self.location.is_some() { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = json(status, &self.answer);
        if let Some(Ok(location)) = self.location.as_deref().map(HeaderValue::from_str) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        mark(&mut response, self.replayed);
        response
    }

    fn answered(schemas: &mut SchemaGenerator) -> Answered {
        Answered { status: StatusCode::CREATED, media: JSON, schema: Some(schemas.subschema_for::<T>()) }
    }
}

/// Nothing to tell, with status 204.
pub(crate) struct Done {
    pub(crate) replayed: bool,
}

impl Answers for Done {
    fn respond(self) -> Response {
        let mut response = StatusCode::NO_CONTENT.into_response();
        mark(&mut response, self.replayed);
        response
    }

    fn answered(_: &mut SchemaGenerator) -> Answered {
        Answered { status: StatusCode::NO_CONTENT, media: "", schema: None }
    }
}

/// Text of a kind that is known when it is compiled.
pub(crate) struct Text<const MEDIA: char>(pub(crate) Bytes);

/// Marks an answer that is not counted among the bytes in flight: all that get it share it, or it is small.
#[derive(Clone, Copy)]
pub(crate) struct Uncounted;

/// Plain text, as Prometheus reads it.
pub(crate) const PLAIN: char = 'p';
/// A page.
pub(crate) const HTML: char = 'h';
/// JSON that is text already.
pub(crate) const DOCUMENT: char = 'j';

fn media(kind: char) -> &'static str {
    match kind {
        HTML => "text/html; charset=utf-8",
        DOCUMENT => JSON,
        _ => "text/plain; version=0.0.4; charset=utf-8",
    }
}

impl<const MEDIA: char> Answers for Text<MEDIA> {
    fn respond(self) -> Response {
        let mut response = ([(header::CONTENT_TYPE, media(MEDIA))], self.0).into_response();
        response.extensions_mut().insert(Uncounted);
        response
    }

    fn answered(_: &mut SchemaGenerator) -> Answered {
        Answered { status: StatusCode::OK, media: media(MEDIA), schema: None }
    }
}

/// A response that was made elsewhere: a stream of events.
pub(crate) struct EventStream(pub(crate) Body);

impl Answers for EventStream {
    fn respond(self) -> Response {
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        (headers, self.0).into_response()
    }

    fn answered(_: &mut SchemaGenerator) -> Answered {
        Answered { status: StatusCode::OK, media: "text/event-stream", schema: None }
    }
}

/// A problem as a response; the id of the request is told with it.
pub(crate) fn problem(problem: Problem, request_id: &str) -> Response {
    whole_problem(&problem.redacted().of_request(request_id))
}

/// A problem in all its words.
pub(crate) fn whole_problem(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, problem);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(wait) = problem.retry_after_ms() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from((wait.max(1) as u64).div_ceil(1_000)));
    }
    if problem.kind == Kind::Unauthorized {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"bursar\""));
    }
    response
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => (status, [(header::CONTENT_TYPE, JSON)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn mark(response: &mut Response, replayed: bool) {
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
}
