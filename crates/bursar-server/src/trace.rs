//! What a request is known by: an id of its own, and its place in a trace.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bursar::TraceParent;

/// The id of a request, in and out.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The place in a trace, as W3C says it.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// What a request is known by.
#[derive(Clone, Debug)]
pub(crate) struct Trace(Arc<Known>);

#[derive(Debug)]
struct Known {
    request_id: String,
    trace_id: String,
    /// What the caller said.
    parent: Option<TraceParent>,
    /// What the caller is told.
    own: TraceParent,
}

/// Characters of an id that a caller gives.
const ID_MAX: usize = 128;

impl Trace {
    /// What the caller says, where it makes sense; else something new.
    pub(crate) fn of(headers: &HeaderMap) -> Trace {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let given = text(&REQUEST_ID)
            .filter(|id| !id.is_empty() && id.len() <= ID_MAX && id.bytes().all(|byte| byte.is_ascii_graphic()));
        let parent = text(&TRACEPARENT).and_then(|text| text.parse::<TraceParent>().ok());
        // The system is asked once for all of them.
        let mut random = [[0; 16]; 3];
        getrandom::fill(random.as_flattened_mut()).expect("the system has randomness");
        let [request_id, trace, span] = random.map(u128::from_be_bytes);
        let own = parent.map_or_else(|| TraceParent::new(trace, span as u64), |parent| parent.at(span as u64));
        Trace(Arc::new(Known {
            request_id: given.map_or_else(|| format!("{request_id:032x}"), str::to_owned),
            trace_id: own.trace_id(),
            parent,
            own,
        }))
    }

    pub(crate) fn request_id(&self) -> &str {
        &self.0.request_id
    }

    pub(crate) fn trace_id(&self) -> &str {
        &self.0.trace_id
    }

    /// The place in a trace that the caller said.
    pub(crate) fn parent(&self) -> Option<TraceParent> {
        self.0.parent
    }

    /// Ties what is written in the journal to the trace, or to the request.
    pub(crate) fn correlation_id(&self) -> String {
        if self.0.parent.is_some() { self.0.trace_id.clone() } else { self.0.request_id.clone() }
    }

    /// Tells both with the answer.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let parent = self.0.own.to_string();
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
    fn what_the_caller_says_is_taken_where_it_makes_sense() {
        let mut headers = HeaderMap::new();
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        headers.insert(REQUEST_ID, HeaderValue::from_static("abc-1"));
        headers.insert(TRACEPARENT, HeaderValue::from_static(trace));
        let taken = Trace::of(&headers);
        assert_eq!((taken.request_id(), taken.parent().is_some()), ("abc-1", true));
        assert_eq!(taken.correlation_id(), "0af7651916cd43dd8448eb211c80319c");
        let mut out = HeaderMap::new();
        taken.tell(&mut out);
        let told = out[TRACEPARENT].to_str().unwrap();
        assert!(told.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && told.ends_with("-01") && told != trace);
        headers.insert(TRACEPARENT, HeaderValue::from_static("00-0-0-0"));
        assert!(Trace::of(&headers).parent().is_none());
        headers.insert(REQUEST_ID, HeaderValue::from_str(&"x".repeat(200)).unwrap());
        assert_eq!(Trace::of(&headers).request_id().len(), 32);
    }
}
