//! The responses to requests that the meter rejects.

use bursar_core::refusal::Violation;
use bursar_core::time::Span;
use bursar_core::window::Window;
use bursar_signatures::{ACCEPT_SIGNATURE, ACCEPT_SIGNATURE_VALUE, SignatureError};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::meter::caller::{BadCaller, Caller};
use crate::meter::headers::seconds;
use crate::meter::standing::QuotaExceeded;

/// Why the meter rejects a request.
pub(crate) enum Rejection {
    /// The headers that identify the caller are malformed.
    BadCaller(BadCaller),
    /// The request does not identify its caller.
    Anonymous,
    /// The caller's quota is exceeded.
    Exceeded(Box<QuotaExceeded>),
    /// The quota could not be checked.
    Unavailable,
    /// The signature of the request is missing or refused.
    Signature(SignatureError),
    /// The body of a signed request is larger than this many bytes.
    BodyTooLarge(u64),
    /// The body of a signed request did not arrive within this many milliseconds.
    BodySlow(u64),
    /// The body of a signed request ended early.
    BodyIncomplete,
}

impl From<SignatureError> for Rejection {
    fn from(error: SignatureError) -> Rejection {
        Rejection::Signature(error)
    }
}

impl Rejection {
    /// Returns the response: a problem document, or a gRPC status if the request is gRPC.
    pub(crate) fn respond(&self, request_headers: &HeaderMap) -> Response<Bytes> {
        let (status, grpc_status, problem) = match self {
            Rejection::BadCaller(bad) => {
                let mut problem = document("invalid", "Invalid request", 400, bad.to_string());
                problem.insert("field".into(), bad.field.as_str().into());
                (StatusCode::BAD_REQUEST, "3", problem)
            }
            Rejection::Anonymous => {
                let title = "Unauthorized: the request has no valid token";
                let detail =
                    "the request was not executed; retry with the header that identifies the caller".to_owned();
                (StatusCode::UNAUTHORIZED, "16", document("unauthorized", title, 401, detail))
            }
            Rejection::Exceeded(exceeded) => (StatusCode::TOO_MANY_REQUESTS, "8", exceeded_problem(exceeded)),
            Rejection::Unavailable => {
                let detail = "the caller's quota could not be checked; the request was not executed; retry".to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, "14", document("unavailable", "Quota unavailable", 503, detail))
            }
            Rejection::Signature(error) => {
                let title = "Unauthorized: the signature of the request is missing or refused";
                let detail = format!("{error}; nothing was charged");
                let mut problem = document("signature-refused", title, 401, detail);
                problem.insert("reason".into(), error.reason().into());
                (StatusCode::UNAUTHORIZED, "16", problem)
            }
            Rejection::BodyTooLarge(bytes_max) => {
                let detail = format!("the body of a signed request may have {bytes_max} bytes; nothing was charged");
                (StatusCode::PAYLOAD_TOO_LARGE, "8", document("too-large", "Request too large", 413, detail))
            }
            Rejection::BodySlow(millis) => {
                let title = "Timeout: the request took too long to arrive";
                let detail = format!("the body did not arrive within {millis} ms; nothing was charged");
                (StatusCode::REQUEST_TIMEOUT, "4", document("timeout", title, 408, detail))
            }
            Rejection::BodyIncomplete => {
                let detail = "the body ended before it was complete; nothing was charged".to_owned();
                (StatusCode::BAD_REQUEST, "3", document("invalid", "Invalid request", 400, detail))
            }
        };
        let is_grpc = is_grpc(request_headers);
        let mut response = if is_grpc { grpc_response(grpc_status, &problem) } else { json_response(status, &problem) };
        let headers = response.headers_mut();
        match self {
            Rejection::Exceeded(exceeded) => {
                exceeded.standing.tell(headers);
                if let Some(wait) = exceeded.retry_after {
                    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds(wait).max(1)));
                }
            }
            Rejection::Unavailable => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(1));
            }
            Rejection::Anonymous => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Agent"));
            }
            Rejection::Signature(_) => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Agent"));
                headers.insert(ACCEPT_SIGNATURE, HeaderValue::from_static(ACCEPT_SIGNATURE_VALUE));
            }
            Rejection::BadCaller(_)
            | Rejection::BodyTooLarge(_)
            | Rejection::BodySlow(_)
            | Rejection::BodyIncomplete => {}
        }
        response
    }
}

/// Returns the problem document of an exceeded quota.
fn exceeded_problem(exceeded: &QuotaExceeded) -> Map<String, Value> {
    let QuotaExceeded { standing, violations, retry_after } = exceeded;
    let mut problem = document("quota-exceeded", "Quota exceeded", 429, exceeded.to_string());
    let violations = violations.iter().map(|violation| violation_json(&standing.caller, violation));
    problem.insert("violations".into(), violations.collect());
    if let Some(wait) = retry_after {
        problem.insert("retry_after_ms".into(), wait.millis().into());
    }
    problem
}

impl std::fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("quota exceeded; nothing was charged")?;
        for violation in &self.violations {
            match violation {
                Violation::Limit { window, limit, requested, available, .. } => {
                    write!(f, "; {available} of {limit} ({window}) are left, the request costs {requested}")?;
                }
                Violation::Frozen { .. } => f.write_str("; the quota is frozen")?,
                Violation::Grant { .. } => {}
            }
        }
        match self.retry_after {
            Some(wait) => write!(f, "; retry in about {} s (an estimate)", seconds(wait).max(1)),
            None => f.write_str("; waiting alone does not help"),
        }
    }
}

impl std::error::Error for QuotaExceeded {}

/// Renders a violation as on the wire, without the names of scopes that are not the caller's own.
fn violation_json(caller: &Caller, violation: &Violation) -> Value {
    let own = |scope: &bursar_core::name::Scope| (scope == caller.scope()).then(|| scope.as_str().to_owned());
    match violation {
        Violation::Limit { scope, window, limit, requested, available, retry_after, possible, unit } => json!({
            "kind": "limit", "scope": own(scope), "window": window_kind(window), "limit": limit, "requested": requested,
            "available": available, "retry_after_ms": retry_after.map(Span::millis), "possible": possible, "unit": unit,
        }),
        Violation::Frozen { scope } => json!({ "kind": "frozen", "scope": own(scope) }),
        Violation::Grant { purpose, .. } => json!({ "kind": "grant", "purpose": purpose.as_str() }),
    }
}

/// Returns the kind of a window: `hour`, `rolling`.
fn window_kind(window: &Window) -> String {
    let text = window.to_string();
    text.split(['@', ':']).next().unwrap_or_default().to_owned()
}

fn document(kind: &str, title: &str, status: u16, detail: String) -> Map<String, Value> {
    let mut problem = Map::new();
    problem.insert("type".into(), format!("/problems/{kind}").into());
    problem.insert("title".into(), title.into());
    problem.insert("status".into(), status.into());
    problem.insert("detail".into(), detail.into());
    problem
}

fn json_response(status: StatusCode, problem: &Map<String, Value>) -> Response<Bytes> {
    let text = serde_json::to_vec(problem).expect("a JSON map can be serialized");
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

fn is_grpc(request_headers: &HeaderMap) -> bool {
    request_headers.get(header::CONTENT_TYPE).is_some_and(|media| media.as_bytes().starts_with(b"application/grpc"))
}

/// Returns a gRPC response with trailers only: HTTP status 200, and the gRPC status in a header.
fn grpc_response(status: &'static str, problem: &Map<String, Value>) -> Response<Bytes> {
    let detail = problem.get("detail").and_then(Value::as_str).unwrap_or_default();
    let message: String = detail.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(GRPC_STATUS, HeaderValue::from_static(status));
    if let Ok(message) = HeaderValue::from_str(&message.replace('%', "%25")) {
        headers.insert(GRPC_MESSAGE, message);
    }
    response
}
