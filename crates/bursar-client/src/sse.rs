//! Server-sent events: from bytes as they come to events.

use bytes::Bytes;

/// Bytes of one event at most: the payloads in it have a mebibyte each, and more when they are escaped.
const EVENT_BYTES_MAX: usize = 16 << 20;

/// An event as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) id: Option<String>,
    pub(crate) kind: String,
    pub(crate) data: String,
}

/// More bytes than any event has.
#[derive(Debug, thiserror::Error)]
#[error("an event has more than {EVENT_BYTES_MAX} bytes")]
pub(crate) struct TooLong;

/// Cuts a stream into events.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    event: Sent,
    bytes: usize,
}

impl Parser {
    /// Takes some bytes; the events that are complete with them.
    pub(crate) fn take(&mut self, bytes: &Bytes) -> Result<Vec<Sent>, TooLong> {
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

    fn end_line(&mut self, line: &str) -> Option<Sent> {
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
            // A comment, which says that somebody is there, or a field of tomorrow.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_out_wherever_the_bytes_are_split() {
        let text =
            "id: 7\nevent: job.succeeded\ndata: {\"a\":\ndata: 1}\n\n: \n\nevent: progress\r\ndata: {}\r\n\r\nid: 9\n";
        let first = Sent { id: Some("7".into()), kind: "job.succeeded".into(), data: "{\"a\":\n1}".into() };
        let second = Sent { id: None, kind: "progress".into(), data: "{}".into() };
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let parts = text.as_bytes().chunks(size).map(Bytes::copy_from_slice);
            let events: Vec<Sent> = parts.flat_map(|part| parser.take(&part).unwrap()).collect();
            assert_eq!(events, [first.clone(), second.clone()], "in parts of {size}");
        }
    }

    #[test]
    fn an_event_without_an_end_is_refused() {
        let mut parser = Parser::default();
        let part = Bytes::from(vec![b'x'; 1 << 20]);
        let refused = (0..=EVENT_BYTES_MAX / part.len()).find(|_| parser.take(&part).is_err());
        assert_eq!(refused, Some(EVENT_BYTES_MAX / part.len()));
    }
}
