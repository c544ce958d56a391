//! The ids of a request: its request id and its W3C trace context.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bursar::TraceParent;

/// The request id, in requests and responses.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The W3C trace context, in requests and responses.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The request id and trace context of one request.
#[derive(Clone, Debug)]
pub(crate) struct Trace(Arc<Ids>);

#[derive(Debug)]
struct Ids {
    request_id: String,
    trace_id: String,
    /// The `traceparent` that the caller sent, if valid.
    parent: Option<TraceParent>,
    /// The `traceparent` of the response.
    own: TraceParent,
    /// Whether a span of the request is exported.
    recorded: AtomicBool,
}

/// Maximum length of a request id that a caller sends.
const ID_MAX: usize = 128;

impl Trace {
    /// Returns the trace that the pipeline attached to a request, or a new one.
    pub(crate) fn of_request(request: &Request) -> Trace {
        request.extensions().get::<Trace>().cloned().unwrap_or_else(|| Trace::of(request.headers()))
    }

    /// Reads the ids from the headers, and generates those that are missing or invalid.
    pub(crate) fn of(headers: &HeaderMap) -> Trace {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let given = text(&REQUEST_ID)
            .filter(|id| !id.is_empty() && id.len() <= ID_MAX && id.bytes().all(|byte| byte.is_ascii_graphic()));
        let parent = text(&TRACEPARENT).and_then(|text| text.parse::<TraceParent>().ok());
        // One system call for all three ids.
        let mut random = [[0; 16]; 3];
        getrandom::fill(random.as_flattened_mut()).expect("the system provides randomness");
        let [request_id, trace, span] = random.map(u128::from_be_bytes);
        let own = parent.map_or_else(|| TraceParent::new(trace, span as u64), |parent| parent.at(span as u64));
        Trace(Arc::new(Ids {
            request_id: given.map_or_else(|| format!("{request_id:032x}"), str::to_owned),
            trace_id: own.trace_id(),
            parent,
            own,
            recorded: AtomicBool::new(false),
        }))
    }

    pub(crate) fn request_id(&self) -> &str {
        &self.0.request_id
    }

    pub(crate) fn trace_id(&self) -> &str {
        &self.0.trace_id
    }

    /// Returns the trace context that the caller sent.
    pub(crate) fn parent(&self) -> Option<TraceParent> {
        self.0.parent
    }

    /// Returns the trace id as a number.
    pub(crate) fn trace(&self) -> u128 {
        self.0.own.trace()
    }

    /// Marks the trace as sampled and returns the context of the request's span, which will be exported.
    pub(crate) fn record(&self) -> TraceParent {
        self.0.recorded.store(true, Ordering::Relaxed);
        self.0.own.sampled()
    }

    /// Returns the context of the request's span, if it will be exported.
    pub(crate) fn recorded(&self) -> Option<TraceParent> {
        self.0.recorded.load(Ordering::Relaxed).then(|| self.0.own.sampled())
    }

    /// Returns the correlation id for the journal: the caller's trace id, or else the request id.
    pub(crate) fn correlation_id(&self) -> String {
        if self.0.parent.is_some() { self.0.trace_id.clone() } else { self.0.request_id.clone() }
    }

    /// Adds the request id and trace context to a response.
    pub(crate) fn write_headers(&self, headers: &mut HeaderMap) {
        let parent = self.recorded().unwrap_or(self.0.own).to_string();
        for (name, value) in [(REQUEST_ID, self.request_id()), (TRACEPARENT, &parent)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_ids_of_the_caller_are_used() {
        let mut headers = HeaderMap::new();
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        headers.insert(REQUEST_ID, HeaderValue::from_static("abc-1"));
        headers.insert(TRACEPARENT, HeaderValue::from_static(trace));
        let taken = Trace::of(&headers);
        assert_eq!((taken.request_id(), taken.parent().is_some()), ("abc-1", true));
        assert_eq!(taken.correlation_id(), "0af7651916cd43dd8448eb211c80319c");
        let mut out = HeaderMap::new();
        taken.write_headers(&mut out);
        let sent = out[TRACEPARENT].to_str().unwrap();
        assert!(sent.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && sent.ends_with("-01") && sent != trace);
        headers.insert(TRACEPARENT, HeaderValue::from_static("00-0-0-0"));
        let started = Trace::of(&headers);
        assert!(started.recorded().is_none());
        assert_eq!(started.record().trace(), started.trace());
        started.write_headers(&mut out);
        assert_eq!(out[TRACEPARENT].to_str().unwrap(), started.recorded().unwrap().to_string());
        assert!(started.recorded().unwrap().is_sampled());
        assert!(Trace::of(&headers).parent().is_none());
        headers.insert(REQUEST_ID, HeaderValue::from_str(&"x".repeat(200)).unwrap());
        assert_eq!(Trace::of(&headers).request_id().len(), 32);
    }
}
