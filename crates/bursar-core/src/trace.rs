//! Trace contexts, which jobs carry from the caller that enqueued them to their events.
//!
//! A `traceparent` is part of the request's context and not of the request itself, so a repeated request from another
//! trace is still the same request. The rules pass it on unchanged. Spans are the business of `bursar-server`, which gives the context
//! of a request the span that its jobs belong to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::refusal::Invalid;

/// The flag of a sampled trace.
const SAMPLED: u8 = 1;

/// A W3C `traceparent`: `00-TRACE-SPAN-FLAGS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent {
    trace: u128,
    span: u64,
    flags: u8,
}

impl TraceParent {
    /// Creates the start of a trace that is not sampled. Zero ids are invalid and become 1.
    pub fn new(trace: u128, span: u64) -> TraceParent {
        TraceParent { trace: trace.max(1), span: span.max(1), flags: 0 }
    }

    /// Returns the same trace with another span.
    pub fn at(self, span: u64) -> TraceParent {
        TraceParent { span: span.max(1), ..self }
    }

    /// Returns the same span of a trace that is sampled: its spans are exported.
    pub fn sampled(self) -> TraceParent {
        TraceParent { flags: self.flags | SAMPLED, ..self }
    }

    /// Returns whether the trace is sampled: its spans are exported.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the trace id.
    pub fn trace(&self) -> u128 {
        self.trace
    }

    /// Returns the span id.
    pub fn span(&self) -> u64 {
        self.span
    }

    /// Returns the trace id as 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }

    /// Returns the flags of the sender; the lowest bit means that the trace is sampled.
    pub fn flags(&self) -> u8 {
        self.flags
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl FromStr for TraceParent {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<TraceParent, Invalid> {
        read(text)
            .ok_or_else(|| Invalid::new("traceparent", "must be 00-TRACE-SPAN-FLAGS in lower-case hexadecimal digits"))
    }
}

fn read(text: &str) -> Option<TraceParent> {
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    if version != "00" || parts.next().is_some() || !hex(trace, 32) || !hex(span, 16) || !hex(flags, 2) {
        return None;
    }
    let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
    let flags = u8::from_str_radix(flags, 16).ok()?;
    // Ids of zero are invalid.
    (trace != 0 && span != 0).then_some(TraceParent { trace, span, flags })
}

/// Writes text in readable formats, and numbers in compact encodings.
impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
        match ser.is_human_readable() {
            true => ser.collect_str(self),
            false => (self.trace, self.span, self.flags).serialize(ser),
        }
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<TraceParent, D::Error> {
        if de.is_human_readable() {
            let text = String::deserialize(de)?;
            return text.parse().map_err(serde::de::Error::custom);
        }
        let (trace, span, flags) = Deserialize::deserialize(de)?;
        Ok(TraceParent { trace, span, flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_parsed_strictly_and_written_unchanged() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-00ad6b7169203331-01";
        let parsed: TraceParent = text.parse().unwrap();
        assert_eq!((parsed.to_string().as_str(), parsed.flags()), (text, 1));
        assert_eq!(parsed.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(parsed.at(5).to_string(), text.replace("00ad6b7169203331", "0000000000000005"));
        assert!(parsed.is_sampled() && !TraceParent::new(7, 7).is_sampled());
        assert_eq!(TraceParent::new(7, 7).sampled().to_string(), format!("00-{:032x}-{:016x}-01", 7, 7));
        assert_eq!(TraceParent::new(0, 0).to_string().parse(), Ok(TraceParent::new(1, 1)));
        let json = serde_json::to_string(&parsed).unwrap();
        assert_eq!(serde_json::from_str::<TraceParent>(&json).unwrap(), parsed);
        for bad in [
            "",
            "00-0-0-0",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-1",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert!(bad.parse::<TraceParent>().is_err(), "{bad}");
        }
    }
}
