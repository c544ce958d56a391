//! What a request is known by: an id of its own, and its place in a trace.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The id of a request, in and out.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The place in a trace, as W3C says it.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// What a request is known by.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) request_id: String,
    trace_id: String,
    span_id: String,
    flags: String,
    /// The caller said which trace it belongs to.
    pub(crate) given: bool,
}

/// Characters of an id that a caller gives.
const ID_MAX: usize = 128;

impl Trace {
    /// What the caller says, where it makes sense; else something new.
    pub(crate) fn of(headers: &HeaderMap) -> Trace {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let given = text(&REQUEST_ID)
            .filter(|id| !id.is_empty() && id.len() <= ID_MAX && id.bytes().all(|byte| byte.is_ascii_graphic()));
        let parent = text(&TRACEPARENT).and_then(parse);
        let random = random_hex();
        let (request_id, rest) = random.split_at(32);
        let (trace_id, span_id) = rest.split_at(32);
        let (trace_id, flags) = parent.unwrap_or((trace_id, "00"));
        Trace {
            request_id: given.unwrap_or(request_id).to_owned(),
            trace_id: trace_id.to_owned(),
            span_id: span_id.to_owned(),
            flags: flags.to_owned(),
            given: parent.is_some(),
        }
    }

    /// Ties what is written in the journal to the trace, or to the request.
    pub(crate) fn correlation_id(&self) -> String {
        if self.given { self.trace_id.clone() } else { self.request_id.clone() }
    }

    /// Tells both with the answer.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let parent = format!("00-{}-{}-{}", self.trace_id, self.span_id, self.flags);
        for (name, value) in [(REQUEST_ID, self.request_id.as_str()), (TRACEPARENT, &parent)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
    }
}

/// The trace and the flags of a `traceparent` of version 00.
fn parse(text: &str) -> Option<(&str, &str)> {
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    let good = version == "00" && parts.next().is_none() && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
    (good && !zero(trace) && !zero(span)).then_some((trace, flags))
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
        assert_eq!((taken.request_id.as_str(), taken.given), ("abc-1", true));
        assert_eq!(taken.correlation_id(), "0af7651916cd43dd8448eb211c80319c");
        let mut out = HeaderMap::new();
        taken.tell(&mut out);
        let told = out[TRACEPARENT].to_str().unwrap();
        assert!(told.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && told.ends_with("-01") && told != trace);
        for bad in
            ["", "00-0-0-0", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "01-x", &format!("{trace}-1")]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
        headers.insert(REQUEST_ID, HeaderValue::from_str(&"x".repeat(200)).unwrap());
        assert_eq!(Trace::of(&headers).request_id.len(), 32);
    }
}
