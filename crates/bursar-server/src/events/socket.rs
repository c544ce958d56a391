//! Event streams over a WebSocket: the events of a [`Listener`], one text message for each.
//!
//! The browser's `WebSocket` cannot set headers, so the token may be one of the subprotocols that it offers: `bearer.TOKEN`, beside
//! [`PROTOCOL`], which the server selects. A token is never part of the address, which logs and histories keep.

mod frames;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use self::frames::{FrameReader, Incoming, Opcode, control, put_head};
use super::{HEARTBEAT, Listener, StreamEnd};
use crate::connection::OpenConnection;
use crate::pipeline::headers::header_text;
use crate::wire::problem::Problem;

/// The subprotocol: text messages with one event each.
pub(crate) const PROTOCOL: &str = "bursar.events";
/// What precedes a token among the subprotocols.
const BEARER: &str = "bearer.";
/// What a server appends to the key of a handshake.
const HANDSHAKE: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Pings that a client may leave unanswered.
const UNANSWERED_MAX: usize = 2;
/// How long the server waits for the client to close after it did.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const VERSION: HeaderName = HeaderName::from_static("sec-websocket-version");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
const PROTOCOLS: HeaderName = HeaderName::from_static("sec-websocket-protocol");

/// A request to continue as a WebSocket.
#[derive(Clone)]
pub(crate) struct Upgrade {
    on: OnUpgrade,
    connection: Arc<OpenConnection>,
    accept: HeaderValue,
    /// Whether the client has offered subprotocols.
    named: bool,
}

/// Returns whether a request asks for a WebSocket.
pub(crate) fn is_asked(headers: &HeaderMap) -> bool {
    let has = |name: HeaderName, word: &str| words(headers, &name).any(|found| found.eq_ignore_ascii_case(word));
    has(header::UPGRADE, "websocket") && has(header::CONNECTION, "upgrade")
}

/// Returns the words of a header that is a list.
fn words<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> + use<'h> {
    let texts = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// Returns the tokens among the subprotocols of a request for a WebSocket.
pub(crate) fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let asked = is_asked(headers);
    words(headers, &PROTOCOLS).filter(move |_| asked).filter_map(|word| word.strip_prefix(BEARER))
}

impl Upgrade {
    /// Returns the request for a WebSocket; `None` if it is none, and an error if it cannot be answered.
    pub(crate) fn of(parts: &Parts) -> Result<Option<Upgrade>, Problem> {
        let headers = &parts.headers;
        if !is_asked(headers) {
            return Ok(None);
        }
        let invalid = |name: &HeaderName, detail: &str| Problem::invalid(name.to_string(), detail);
        if header_text(headers, &VERSION)? != Some("13") {
            return Err(invalid(&VERSION, "the version of a WebSocket must be 13"));
        }
        let key = header_text(headers, &KEY)?.unwrap_or_default().trim();
        if !STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16) {
            return Err(invalid(&KEY, "the key of a WebSocket must be 16 bytes in base64"));
        }
        let named = words(headers, &PROTOCOLS).next().is_some();
        if named && !words(headers, &PROTOCOLS).any(|word| word == PROTOCOL) {
            let detail =
                "the subprotocols do not include bursar.events; offer it, and beside it the token as bearer.TOKEN";
            return Err(invalid(&PROTOCOLS, detail));
        }
        let on = parts.extensions.get::<OnUpgrade>().cloned();
        let connection = parts.extensions.get::<Arc<OpenConnection>>().cloned();
        let (Some(on), Some(connection)) = (on, connection) else {
            return Err(invalid(&header::UPGRADE, "this connection cannot become a WebSocket; use server-sent events"));
        };
        let sum = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{HANDSHAKE}").as_bytes());
        let accept = HeaderValue::from_str(&STANDARD.encode(sum)).map_err(|_| invalid(&KEY, "the key is invalid"))?;
        Ok(Some(Upgrade { on, connection, accept, named }))
    }

    /// Answers the request, and sends the events of a listener once the answer is written.
    pub(super) fn answer(self, listener: Listener) -> Response {
        let Upgrade { on, connection, accept, named } = self;
        // What the client sends from now on is no head of a request.
        let running = connection.requests.start();
        tokio::spawn(async move {
            if let Ok(upgraded) = on.await {
                serve(TokioIo::new(upgraded), listener).await;
            }
            drop((running, connection));
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(ACCEPT, accept);
        if named {
            headers.insert(PROTOCOLS, HeaderValue::from_static(PROTOCOL));
        }
        response
    }
}

/// Why the server closes a WebSocket: the code and the reason of its close frame.
#[derive(Clone, Copy)]
struct Closing(u16, &'static str);

impl From<StreamEnd> for Closing {
    fn from(end: StreamEnd) -> Closing {
        match end {
            StreamEnd::Stopping => Closing(1001, "the server stops; connect again, with the last id as `after`"),
            StreamEnd::Denied => Closing(1008, "the token has expired or was revoked"),
            StreamEnd::Slow => Closing(1013, "too many events behind; connect again, with the last id as `after`"),
            StreamEnd::Silent => {
                Closing(1013, "no answer to the last pings; connect again, with the last id as `after`")
            }
            StreamEnd::Failed => {
                Closing(1011, "the journal cannot be read; connect again, with the last id as `after`")
            }
        }
    }
}

/// Sends events until either side closes the connection.
async fn serve(socket: impl AsyncRead + AsyncWrite, mut listener: Listener) {
    let (reader, mut writer) = tokio::io::split(socket);
    let mut reader = FrameReader::new(reader);
    let mut unanswered = 0;
    loop {
        let frame = {
            // It is completed before the next one begins: dropping it could lose a heartbeat, with its check of the token.
            let mut next = pin!(listener.next());
            loop {
                let incoming = tokio::select! {
                    frame = &mut next => break frame.map_err(Closing::from),
                    incoming = reader.next() => incoming,
                };
                let written = match incoming {
                    Ok(Incoming::Pong) => {
                        unanswered = 0;
                        continue;
                    }
                    Ok(Incoming::Ping(payload)) => writer.write_all(&control(Opcode::Pong, &payload)).await,
                    Ok(Incoming::Close) => break Err(Closing(1000, "")),
                    Ok(Incoming::Data) => break Err(Closing(1003, "this stream takes no messages")),
                    Ok(Incoming::Invalid) => break Err(Closing(1002, "the frame is invalid")),
                    Err(_) => return,
                };
                if written.is_err() {
                    return;
                }
            }
        };
        let frame = match frame {
            Ok(frame) if frame == HEARTBEAT && unanswered >= UNANSWERED_MAX => Err(listener.drop_silent().into()),
            frame => frame,
        };
        let written = match frame {
            Ok(frame) => {
                unanswered += usize::from(frame == HEARTBEAT);
                send(&mut writer, &frame).await
            }
            Err(Closing(code, reason)) => {
                let payload = [&code.to_be_bytes(), reason.as_bytes()].concat();
                let _ = writer.write_all(&control(Opcode::Close, &payload)).await;
                let _ = writer.shutdown().await;
                // Closing at once could make the peer's system discard the close frame.
                let _ = timeout(CLOSE_WAIT, reader.discard()).await;
                return;
            }
        };
        if written.is_err() {
            return;
        }
    }
}

/// Sends a frame of server-sent events as a message. The data is not copied, so that it stays counted until it is written.
async fn send(writer: &mut (impl AsyncWrite + Unpin), frame: &Bytes) -> std::io::Result<()> {
    if *frame == HEARTBEAT {
        // The message is for the program, which does not see pings; the ping is for its system, which answers.
        let message = br#"{"event":"heartbeat"}"#;
        let mut both = control(Opcode::Ping, b"");
        put_head(Opcode::Text, message.len(), &mut both);
        both.extend(message);
        return writer.write_all(&both).await;
    }
    let Some((before, data)) = message(frame) else { return Ok(()) };
    let mut head = Vec::with_capacity(10 + before.len());
    put_head(Opcode::Text, before.len() + data.len() + 1, &mut head);
    head.extend(before.into_bytes());
    writer.write_all_buf(&mut Bytes::from(head).chain(data).chain(&b"}"[..])).await
}

/// Returns the parts of an event's message: `{"id":7,"event":"job.enqueued","data":`, and the data. A `}` ends it.
fn message(frame: &Bytes) -> Option<(String, Bytes)> {
    let text = std::str::from_utf8(frame).ok()?;
    let (head, data) = text.split_once("data: ")?;
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let id = field("id: ").map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    let before = format!(r#"{{{id}"event":"{}","data":"#, field("event: ")?);
    Some((before, frame.slice_ref(data.trim_end_matches('\n').as_bytes())))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tail::frame;
    use super::*;

    #[test]
    fn a_message_has_what_the_frame_has() {
        let read = |frame: &Bytes| -> Value {
            let (before, data) = message(frame).unwrap();
            serde_json::from_slice(&[before.as_bytes(), &data, b"}"].concat()).unwrap()
        };
        let data = json!({ "text": "data: \n\nid: 7\nevent: x" });
        let stored = frame(Some(7), "job.enqueued", &data);
        assert_eq!(read(&stored), json!({ "id": 7, "event": "job.enqueued", "data": data }));
        assert_eq!(read(&frame(None, "progress", &json!(null))), json!({ "event": "progress", "data": null }));
    }

    #[test]
    fn the_accept_header_is_that_of_the_specification() {
        let sum = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("dGhlIHNhbXBsZSBub25jZQ=={HANDSHAKE}").as_bytes());
        assert_eq!(STANDARD.encode(sum), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
