//! What a request is known by: an id of its own, and its place in a trace.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bursar::TraceParent;

/// The id of a request, in and out.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The place in a trace, as W3C says it.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// What a request is known by.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) request_id: String,
    pub(crate) trace_id: String,
    span_id: String,
    flags: u8,
    /// The place in a trace that the caller said.
    pub(crate) parent: Option<TraceParent>,
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
        let random = random_hex();
        let (request_id, rest) = random.split_at(32);
        let (trace_id, span_id) = rest.split_at(32);
        Trace {
            request_id: given.unwrap_or(request_id).to_owned(),
            trace_id: parent.map_or_else(|| trace_id.to_owned(), |parent| parent.trace_id()),
            span_id: span_id.to_owned(),
            flags: parent.map_or(0, |parent| parent.flags()),
            parent,
        }
    }

    /// Ties what is written in the journal to the trace, or to the request.
    pub(crate) fn correlation_id(&self) -> String {
        if self.parent.is_some() { self.trace_id.clone() } else { self.request_id.clone() }
    }

    /// Tells both with the answer.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let parent = format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags);
        for (name, value) in [(REQUEST_ID, self.request_id.as_str()), (TRACEPARENT, &parent)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
    }
}

/// Digits for an id, a trace and a span: the system is asked once for all of them.
fn random_hex() -> String {
    let mut bytes = [0u8; 16 + 16 + 8];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
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
        assert_eq!((taken.request_id.as_str(), taken.parent.is_some()), ("abc-1", true));
        assert_eq!(taken.correlation_id(), "0af7651916cd43dd8448eb211c80319c");
        let mut out = HeaderMap::new();
        taken.tell(&mut out);
        let told = out[TRACEPARENT].to_str().unwrap();
        assert!(told.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && told.ends_with("-01") && told != trace);
        headers.insert(TRACEPARENT, HeaderValue::from_static("00-0-0-0"));
        assert!(Trace::of(&headers).parent.is_none());
        headers.insert(REQUEST_ID, HeaderValue::from_str(&"x".repeat(200)).unwrap());
        assert_eq!(Trace::of(&headers).request_id.len(), 32);
    }
}
