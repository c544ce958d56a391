//! A parser for server-sent events.

use bytes::Bytes;

/// The maximum size of one event, in bytes. An event may contain several payloads of one mebibyte, which grow when they are escaped.
const EVENT_BYTES_MAX: usize = 16 << 20;

/// One event of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) kind: String,
    pub(crate) data: String,
}

/// An event exceeds the maximum size.
#[derive(Debug, thiserror::Error)]
#[error("an event has more than {EVENT_BYTES_MAX} bytes")]
pub(crate) struct TooLong;

/// Splits a stream of bytes into events.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    event: Frame,
    bytes: usize,
}

impl Parser {
    /// Adds bytes and returns the events that they complete.
    pub(crate) fn feed(&mut self, bytes: &Bytes) -> Result<Vec<Frame>, TooLong> {
        let mut events = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.bytes += part.len();
            if self.bytes > EVENT_BYTES_MAX {
                return Err(TooLong);
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                events.extend(self.end_line(&String::from_utf8_lossy(&line)));
            }
        }
        Ok(events)
    }

    fn end_line(&mut self, line: &str) -> Option<Frame> {
        let line = line.trim_end_matches(['\n', '\r']);
        if line.is_empty() {
            self.bytes = 0;
            let event = std::mem::take(&mut self.event);
            return (!event.data.is_empty()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = Some(value.to_owned()),
            "event" => self.event.kind = value.to_owned(),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // A comment, which keeps the connection alive, or an unknown field.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_parsed_wherever_the_bytes_are_split() {
        let text =
            "id: 7\nevent: job.succeeded\ndata: {\"a\":\ndata: 1}\n\n: \n\nevent: progress\r\ndata: {}\r\n\r\nid: 9\n";
        let first = Frame { id: Some("7".into()), kind: "job.succeeded".into(), data: "{\"a\":\n1}".into() };
        let second = Frame { id: None, kind: "progress".into(), data: "{}".into() };
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let parts = text.as_bytes().chunks(size).map(Bytes::copy_from_slice);
            let events: Vec<Frame> = parts.flat_map(|part| parser.feed(&part).unwrap()).collect();
            assert_eq!(events, [first.clone(), second.clone()], "in parts of {size}");
        }
    }

    #[test]
    fn an_event_above_the_maximum_size_is_refused() {
        let mut parser = Parser::default();
        let part = Bytes::from(vec![b'x'; 1 << 20]);
        let refused = (0..=EVENT_BYTES_MAX / part.len()).find(|_| parser.feed(&part).is_err());
        assert_eq!(refused, Some(EVENT_BYTES_MAX / part.len()));
    }
}
