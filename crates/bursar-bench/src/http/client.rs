//! A minimal HTTP client with a persistent connection. It is small because it shares the cores with the measured server.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::BenchError;
use crate::jobs::TIMEOUT;

/// How long `verify` may take.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(300);

/// Returns a request with a JSON body, or with none, in wire format.
pub(super) fn request(method: &str, path: &str, token: &str, body: &str) -> String {
    let media = if body.is_empty() { "" } else { "application/json" };
    request_head(method, path, token, media, body.len()) + body
}

/// Returns the head of a request whose body has this type and length.
pub(super) fn request_head(method: &str, path: &str, token: &str, media: &str, length: usize) -> String {
    let media = if media.is_empty() { String::new() } else { format!("Content-Type: {media}\r\n") };
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{media}Content-Length: {length}\r\n\r\n"
    )
}

/// A persistent connection.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// The body of an answer.
pub(super) struct Answer<'a>(&'a [u8]);

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Result<Connection, BenchError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(2_048) })
    }

    /// Sends a request and returns the complete answer; fails unless its status is 2xx.
    pub(super) async fn send(&mut self, request: &str) -> Result<Answer<'_>, BenchError> {
        self.send_parts(&[request.as_bytes()]).await
    }

    /// Sends a request in several parts.
    pub(super) async fn send_parts(&mut self, parts: &[&[u8]]) -> Result<Answer<'_>, BenchError> {
        self.send_within(parts, TIMEOUT).await
    }

    /// Sends a request that may take long.
    pub(super) async fn send_slow(&mut self, request: &str) -> Result<Answer<'_>, BenchError> {
        self.send_within(&[request.as_bytes()], VERIFY_TIMEOUT).await
    }

    async fn send_within(&mut self, parts: &[&[u8]], limit: Duration) -> Result<Answer<'_>, BenchError> {
        for part in parts {
            self.stream.write_all(part).await?;
        }
        self.buffer.clear();
        let (mut body, mut whole) = (0, usize::MAX);
        while self.buffer.len() < whole {
            let read = timeout(limit, self.stream.read_buf(&mut self.buffer)).await;
            if read.map_err(|_| BenchError::Failed("the server did not answer in time".into()))?? == 0 {
                return Err(BenchError::Failed("the server closed the connection".into()));
            }
            if body == 0
                && let Some(head) = find(&self.buffer, b"\r\n\r\n")
            {
                body = head + 4;
                whole = body + length(&self.buffer[..head])?;
            }
        }
        if self.buffer.starts_with(b"HTTP/1.1 20") {
            return Ok(Answer(&self.buffer[body..whole]));
        }
        Err(BenchError::Failed(format!("the server answered {}", String::from_utf8_lossy(&self.buffer))))
    }
}

impl Answer<'_> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn text(&self) -> Result<&str, BenchError> {
        std::str::from_utf8(self.0).map_err(|_| BenchError::Failed("the answer is not UTF-8".into()))
    }

    /// Returns the value after this text.
    pub(super) fn value(&self, after: &str) -> Result<&str, BenchError> {
        let rest = self.text()?.split_once(after).map(|(_, rest)| rest);
        let end = |rest: &&str| rest.find(['"', ',', '}']);
        let value = rest.and_then(|rest| end(&rest).map(|end| &rest[..end]));
        value.ok_or_else(|| BenchError::Failed(format!("the answer has no {after}")))
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Returns the length of the body according to the head.
fn length(head: &[u8]) -> Result<usize, BenchError> {
    const NAME: &[u8] = b"content-length:";
    let line = head
        .split(|byte| *byte == b'\n')
        .find(|line| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)));
    let digits = line.and_then(|line| std::str::from_utf8(&line[NAME.len()..]).ok());
    let length = digits.and_then(|digits| digits.trim().parse().ok());
    length.ok_or_else(|| BenchError::Failed("the answer has no content length".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_gives_the_length_of_the_body() {
        assert_eq!(length(b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 12\r\n").unwrap(), 12);
        assert_eq!(length(b"HTTP/1.1 200 OK\r\ncontent-length:0").unwrap(), 0);
        assert!(length(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked").is_err());
    }

    #[test]
    fn a_value_is_found_after_its_name() {
        let answer = Answer(br#"{"jobs":[{"id":"job_1","lease":{"fence":17}}]}"#);
        assert_eq!((answer.value("\"id\":\"").unwrap(), answer.value("\"fence\":").unwrap()), ("job_1", "17"));
        assert!(answer.value("\"token\":\"").is_err());
    }
}
