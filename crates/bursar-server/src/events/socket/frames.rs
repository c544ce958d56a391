//! Frames of a WebSocket (RFC 6455), as far as a server needs them that only sends text.
//!
//! Written here because a library would copy every event into buffers of its own, per listener and uncounted. A client has nothing to say
//! but control frames, which have at most 125 bytes.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The most bytes of the payload of a control frame.
const CONTROL_MAX: usize = 125;
/// How many bytes are read at once: a few control frames.
const READ_BYTES: usize = 512;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;

/// The kind of a frame that the server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Text = 0x1,
    Close = 0x8,
    Ping = 0x9,
    Pong = 0xA,
}

/// What a client has sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// It asks for a pong with this payload.
    Ping(Bytes),
    /// It has answered a ping.
    Pong,
    /// It closes the connection.
    Close,
    /// It sends data, which the server does not read.
    Data,
    /// It breaks the protocol.
    Invalid,
}

/// Appends the head of a frame that the server sends.
pub(super) fn put_head(opcode: Opcode, length: usize, into: &mut Vec<u8>) {
    into.push(FINAL | opcode as u8);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ ..=125), _) => into.push(short),
        (_, Ok(medium)) => {
            into.push(126);
            into.extend(medium.to_be_bytes());
        }
        _ => {
            into.push(127);
            into.extend((length as u64).to_be_bytes());
        }
    }
}

/// Returns a control frame. A longer payload is cut.
pub(super) fn control(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(CONTROL_MAX)];
    let mut frame = Vec::with_capacity(2 + payload.len());
    put_head(opcode, payload.len(), &mut frame);
    frame.extend(payload);
    frame
}

/// Reads the frames of a client.
pub(super) struct FrameReader<R> {
    stream: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(super) fn new(stream: R) -> FrameReader<R> {
        FrameReader { stream, buffer: BytesMut::new() }
    }

    /// Returns the next frame; fails if the connection ends. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> io::Result<Incoming> {
        loop {
            if let Some(frame) = parse(&mut self.buffer) {
                return Ok(frame);
            }
            let mut bytes = [0; READ_BYTES];
            match self.stream.read(&mut bytes).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.buffer.extend_from_slice(&bytes[..length]),
            }
        }
    }

    /// Reads to the end of the connection, whatever comes.
    pub(super) async fn discard(mut self) -> io::Result<()> {
        let mut bytes = [0; READ_BYTES];
        while self.stream.read(&mut bytes).await? > 0 {}
        Ok(())
    }
}

/// Removes a control frame from the buffer; `None` if it is not complete. Anything else stays, because the connection ends with it.
fn parse(buffer: &mut BytesMut) -> Option<Incoming> {
    let (&first, &second) = (buffer.first()?, buffer.get(1)?);
    let (opcode, length) = (first & 0x0F, usize::from(second & !MASKED));
    // A frame of a client is masked, and no extension was agreed on that uses the reserved bits.
    if second & MASKED == 0 || first & 0x70 != 0 {
        return Some(Incoming::Invalid);
    }
    match opcode {
        0x0..=0x2 => return Some(Incoming::Data),
        0x8..=0xA if first & FINAL != 0 && length <= CONTROL_MAX => {}
        _ => return Some(Incoming::Invalid),
    }
    if buffer.len() < 6 + length {
        return None;
    }
    let mut frame = buffer.split_to(6 + length);
    let mask = [frame[2], frame[3], frame[4], frame[5]];
    let mut payload = frame.split_off(6);
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Some(match opcode {
        0x8 => Incoming::Close,
        0x9 => Incoming::Ping(payload.freeze()),
        _ => Incoming::Pong,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [7, 11, 13, 17];
        let mut frame = vec![first, MASKED | payload.len() as u8];
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    fn parsed(bytes: &[u8]) -> (Option<Incoming>, usize) {
        let mut buffer = BytesMut::from(bytes);
        (parse(&mut buffer), buffer.len())
    }

    #[test]
    fn frames_of_clients_are_read() {
        let ping = masked(0x89, b"hello");
        assert_eq!(parsed(&ping), (Some(Incoming::Ping(Bytes::from_static(b"hello"))), 0));
        for end in 0..ping.len() {
            assert_eq!(parsed(&ping[..end]), (None, end), "an incomplete frame stays");
        }
        let two = [masked(0x8A, b""), masked(0x88, &[3, 232])].concat();
        assert_eq!(parsed(&two), (Some(Incoming::Pong), 8));
        assert_eq!(parsed(&two[6..]), (Some(Incoming::Close), 0));
        assert_eq!(parsed(&masked(0x8A, &[b'x'; 125])), (Some(Incoming::Pong), 0));
        for data in [masked(0x81, b"text"), masked(0x02, b"part"), vec![0x81, 0xFF, 0, 0]] {
            assert_eq!(parsed(&data).0, Some(Incoming::Data), "{data:?}");
        }
    }

    #[test]
    fn what_breaks_the_protocol_is_refused_before_its_payload() {
        let unmasked = vec![0x89, 0];
        let reserved_bit = masked(0xC9, b"");
        let fragment_of_a_ping = masked(0x09, b"");
        let unknown_opcode = masked(0x83, b"");
        let long_control_frames = [vec![0x89, 0xFE, 0, 200], vec![0x88, 0xFF, 0x7F, 0xFF]].concat();
        for bad in [unmasked, reserved_bit, fragment_of_a_ping, unknown_opcode, long_control_frames] {
            assert_eq!(parsed(&bad).0, Some(Incoming::Invalid), "{bad:?}");
        }
    }

    #[test]
    fn heads_have_the_shortest_length() {
        let head = |length| {
            let mut head = Vec::new();
            put_head(Opcode::Text, length, &mut head);
            head
        };
        assert_eq!(head(0), [0x81, 0]);
        assert_eq!(head(125), [0x81, 125]);
        assert_eq!(head(126), [0x81, 126, 0, 126]);
        assert_eq!(head(65_535), [0x81, 126, 255, 255]);
        assert_eq!(head(65_536), [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(control(Opcode::Pong, b"x"), [0x8A, 1, b'x']);
        assert_eq!(control(Opcode::Close, &[1; 200]).len(), 127);
    }

    #[tokio::test]
    async fn no_bytes_make_the_reader_panic_or_grow() {
        let mut state = 1_u64;
        for _ in 0..2_000 {
            let bytes: Vec<u8> = (0..300)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 56) as u8
                })
                .collect();
            let mut reader = FrameReader::new(bytes.as_slice());
            while let Ok(Incoming::Ping(_) | Incoming::Pong | Incoming::Close) = reader.next().await {}
            assert!(reader.buffer.len() <= READ_BYTES + 6 + CONTROL_MAX);
        }
    }
}
