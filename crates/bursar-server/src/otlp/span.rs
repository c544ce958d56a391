//! A span, and the JSON that OTLP has for spans.

use bursar::{Time, TraceParent};
use serde_json::{Value, json};

/// The most bytes of the text of an attribute; the rest is cut off.
const TEXT_BYTES_MAX: usize = 256;
/// The status code of a span that failed.
const FAILED: u8 = 2;

/// The role of a span in its trace, with its number in OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    Server = 2,
    Producer = 4,
    Consumer = 5,
}

/// A span that has ended.
#[derive(Debug)]
pub(super) struct Span {
    /// Its trace and its id.
    pub(super) context: TraceParent,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    pub(super) kind: SpanKind,
    pub(super) began: Time,
    pub(super) ended: Time,
    pub(super) attributes: Attributes,
    /// A span of another trace that is related to this one.
    pub(super) link: Option<TraceParent>,
    /// The kind of error, if it failed.
    pub(super) error: Option<String>,
}

/// The attributes of a span.
#[derive(Debug, Default)]
pub(super) struct Attributes(Vec<(&'static str, Value)>);

impl Attributes {
    pub(super) fn text(mut self, key: &'static str, text: &str) -> Attributes {
        self.0.push((key, json!({ "stringValue": shortened(text) })));
        self
    }

    /// Adds a number. JSON numbers have 53 bits, so OTLP writes integers as text.
    pub(super) fn number(mut self, key: &'static str, number: u64) -> Attributes {
        self.0.push((key, json!({ "intValue": number.to_string() })));
        self
    }

    pub(super) fn json(&self) -> Vec<Value> {
        self.0.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect()
    }
}

impl Span {
    pub(super) fn json(&self) -> Value {
        let Span { context, parent, name, kind, began, ended, attributes, link, error } = self;
        let mut json = json!({
            "traceId": context.trace_id(),
            "spanId": id(context.span()),
            "flags": context.flags(),
            "name": shortened(name),
            "kind": *kind as u8,
            "startTimeUnixNano": nanos(*began),
            // Clocks of several machines may disagree. A span does not end before it began.
            "endTimeUnixNano": nanos(*(ended.max(began))),
            "attributes": attributes.json(),
        });
        if let Some(parent) = parent {
            json["parentSpanId"] = id(*parent).into();
        }
        if let Some(link) = link {
            let link = json!({ "traceId": link.trace_id(), "spanId": id(link.span()), "flags": link.flags() });
            json["links"] = json!([link]);
        }
        if let Some(error) = error {
            json["status"] = json!({ "code": FAILED, "message": shortened(error) });
        }
        json
    }
}

fn id(span: u64) -> String {
    format!("{span:016x}")
}

fn nanos(time: Time) -> String {
    (i128::from(time.micros()) * 1_000).max(0).to_string()
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}
