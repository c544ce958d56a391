//! The parsers of the client do not panic on any input, and escaped text is decoded to the same text.

use bytes::Bytes;

use crate::path::Path;
use crate::sse::{Frame, Parser};

/// Parses a stream that arrives in parts of `size` bytes.
fn events(bytes: &[u8], size: usize) -> Vec<Frame> {
    let mut parser = Parser::default();
    let parts = bytes.chunks(size.max(1)).map(Bytes::copy_from_slice);
    parts.flat_map(|part| parser.feed(&part).unwrap()).collect()
}

#[test]
fn any_stream_gives_the_same_events_wherever_it_is_split() {
    let samples: [&[u8]; 4] = [
        b"id: 7\nevent: job.succeeded\ndata: {\"a\":1}\n\n: \n\nevent: progress\r\ndata: {}\r\n\r\n",
        b"data: a\ndata: b\n\nid\nevent\ndata\n\n",
        b"\xef\xbb\xbfdata: \xff\xfe\n\n",
        b"data:\n\ndata: \r\r\n\n",
    ];
    bursar_fuzz::bytes(&samples, |bytes| {
        let whole = events(bytes, bytes.len());
        for size in [1, 2, 3, 7] {
            assert_eq!(events(bytes, size), whole, "in parts of {size}");
        }
        assert!(whole.iter().all(|event| !event.data.is_empty()));
    });
}

#[test]
fn the_data_of_an_event_is_unchanged() {
    bursar_fuzz::values(&[serde_json::json!({ "position": 7, "data": { "payload": "a\nb\r\u{2028}" } })], |value| {
        let data = value.to_string();
        let frame = format!("id: 7\nevent: job.succeeded\ndata: {data}\n\n");
        let expected = Frame { id: Some("7".into()), kind: "job.succeeded".into(), data };
        assert_eq!(events(frame.as_bytes(), 5), [expected]);
    });
}

#[test]
fn escaped_parts_of_a_url_decode_to_the_same_text() {
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            let mut digit = || char::from(rest.next().unwrap()).to_digit(16).unwrap() as u8;
            bytes.push(if byte == b'%' { digit() << 4 | digit() } else { byte });
        }
        String::from_utf8(bytes).unwrap()
    };
    bursar_fuzz::texts(&["show:42/row A?", "ä&b=c#d", "..", "%2F"], |text| {
        let path = Path::new("/v1/budgets").part(text).then("history").query("prefix", Some(text));
        let path = path.as_str();
        assert!(path.bytes().all(|byte| byte.is_ascii_graphic()) && !path.contains('#'), "{path}");
        let (path, query) = path.split_once('?').unwrap();
        assert_eq!(path.matches('/').count(), 4, "{path}");
        assert_eq!(decode(path.split('/').nth(3).unwrap()), text);
        assert_eq!(decode(query.strip_prefix("prefix=").unwrap()), text);
    });
}
