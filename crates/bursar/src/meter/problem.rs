//! What a caller is told that is not served.

use bursar_core::refusal::Violation;
use bursar_core::time::Span;
use bursar_core::window::Window;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::meter::caller::{BadCaller, Caller};
use crate::meter::headers::seconds;
use crate::meter::standing::QuotaExceeded;

/// Why a request is not served.
pub(crate) enum Unserved {
    /// It says something of its caller that makes no sense.
    Bad(BadCaller),
    /// It does not say whose it is.
    Nobody,
    /// The quota leaves too little.
    Exceeded(Box<QuotaExceeded>),
    /// The quota could not be asked.
    Unavailable,
}

impl Unserved {
    /// As an answer: a problem document, or to who speaks gRPC a status.
    pub(crate) fn respond(&self, asked: &HeaderMap) -> Response<Bytes> {
        let (status, grpc_status, problem) = match self {
            Unserved::Bad(bad) => {
                let mut problem = document("invalid", "The request is wrong", 400, bad.to_string());
                problem.insert("field".into(), bad.field.as_str().into());
                (StatusCode::BAD_REQUEST, "3", problem)
            }
            Unserved::Nobody => {
                let detail = "say whose request it is".to_owned();
                (StatusCode::UNAUTHORIZED, "16", document("unauthorized", "Nobody knows who asks", 401, detail))
            }
            Unserved::Exceeded(exceeded) => (StatusCode::TOO_MANY_REQUESTS, "8", over(exceeded)),
            Unserved::Unavailable => {
                let detail = "the quota of the caller could not be asked; try again".to_owned();
                (
                    StatusCode::SERVICE_UNAVAILABLE,
                    "14",
                    document("unavailable", "The quota cannot be asked", 503, detail),
                )
            }
        };
        let mut response = if is_grpc(asked) { grpc(grpc_status, &problem) } else { plain(status, &problem) };
        let headers = response.headers_mut();
        match self {
            Unserved::Exceeded(exceeded) => {
                exceeded.standing.tell(headers);
                if let Some(wait) = exceeded.retry_after {
                    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds(wait).max(1)));
                }
            }
            Unserved::Unavailable => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(1));
            }
            Unserved::Nobody => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Agent"));
            }
            Unserved::Bad(_) => {}
        }
        response
    }
}

/// The problem of a quota that leaves too little.
fn over(exceeded: &QuotaExceeded) -> Map<String, Value> {
    let QuotaExceeded { standing, violations, retry_after } = exceeded;
    let mut problem = document("quota-exceeded", "The quota leaves too little", 429, exceeded.to_string());
    problem.insert("violations".into(), violations.iter().map(|violation| told(&standing.caller, violation)).collect());
    if let Some(wait) = retry_after {
        problem.insert("retry_after_ms".into(), wait.millis().into());
    }
    problem
}

impl std::fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the quota leaves too little")?;
        for violation in &self.violations {
            match violation {
                Violation::Limit { window, limit, requested, available, .. } => {
                    write!(f, "; {available} of {limit} ({window}) are left, the request costs {requested}")?;
                }
                Violation::Frozen { .. } => f.write_str("; it is frozen")?,
                Violation::Grant { .. } => {}
            }
        }
        match self.retry_after {
            Some(wait) => write!(f, "; try again in {} s", seconds(wait).max(1)),
            None => f.write_str("; waiting alone will not help"),
        }
    }
}

impl std::error::Error for QuotaExceeded {}

/// A violation as it is told everywhere, but for the names of budgets that are not the caller's own.
fn told(caller: &Caller, violation: &Violation) -> Value {
    let own = |scope: &bursar_core::name::Scope| (scope == caller.scope()).then(|| scope.as_str().to_owned());
    match violation {
        Violation::Limit { scope, window, limit, requested, available, retry_after, possible } => json!({
            "kind": "limit", "scope": own(scope), "window": word(window), "limit": limit, "requested": requested,
            "available": available, "retry_after_ms": retry_after.map(Span::millis), "possible": possible,
        }),
        Violation::Frozen { scope } => json!({ "kind": "frozen", "scope": own(scope) }),
        Violation::Grant { purpose, .. } => json!({ "kind": "grant", "purpose": purpose.as_str() }),
    }
}

/// The first word of a window: `hour`, `rolling`.
fn word(window: &Window) -> String {
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

fn plain(status: StatusCode, problem: &Map<String, Value>) -> Response<Bytes> {
    let text = serde_json::to_vec(problem).expect("it is plain data");
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

fn is_grpc(asked: &HeaderMap) -> bool {
    asked.get(header::CONTENT_TYPE).is_some_and(|media| media.as_bytes().starts_with(b"application/grpc"))
}

/// A response of trailers only, as gRPC has it: with status 200, and its own in a header.
fn grpc(status: &'static str, problem: &Map<String, Value>) -> Response<Bytes> {
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
