//! A connection that is kept, with no more of HTTP than the bench needs: what asks shares the cores with what is measured.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::BenchError;
use crate::jobs::PATIENCE;

/// How long the books may take to be checked.
const PATIENCE_BOOKS: Duration = Duration::from_secs(300);

/// A request as it is written.
pub(super) fn request(method: &str, path: &str, token: &str, body: &str) -> String {
    let media = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{media}Content-Length: {length}\r\n\r\n{body}"
    )
}

/// A connection that is kept.
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

    /// Asks, and waits for the whole answer, which must be a good one.
    pub(super) async fn ask(&mut self, request: &str) -> Result<Answer<'_>, BenchError> {
        self.ask_within(request, PATIENCE).await
    }

    /// The same, where it may take long.
    pub(super) async fn ask_patiently(&mut self, request: &str) -> Result<Answer<'_>, BenchError> {
        self.ask_within(request, PATIENCE_BOOKS).await
    }

    async fn ask_within(&mut self, request: &str, patience: Duration) -> Result<Answer<'_>, BenchError> {
        self.stream.write_all(request.as_bytes()).await?;
        self.buffer.clear();
        let (mut body, mut whole) = (0, usize::MAX);
        while self.buffer.len() < whole {
            let read = timeout(patience, self.stream.read_buf(&mut self.buffer)).await;
            if read.map_err(|_| BenchError::Failed("an answer takes too long".into()))?? == 0 {
                return Err(BenchError::Failed("the server hung up".into()));
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
        Err(BenchError::Failed(format!("it was answered {}", String::from_utf8_lossy(&self.buffer))))
    }
}

impl Answer<'_> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn text(&self) -> Result<&str, BenchError> {
        std::str::from_utf8(self.0).map_err(|_| BenchError::Failed("an answer is not UTF-8".into()))
    }

    /// What stands between these words and the end of the value.
    pub(super) fn word(&self, after: &str) -> Result<&str, BenchError> {
        let rest = self.text()?.split_once(after).map(|(_, rest)| rest);
        let end = |rest: &&str| rest.find(['"', ',', '}']);
        let word = rest.and_then(|rest| end(&rest).map(|end| &rest[..end]));
        word.ok_or_else(|| BenchError::Failed(format!("an answer has no {after}")))
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Bytes of the body that follows a head.
fn length(head: &[u8]) -> Result<usize, BenchError> {
    const NAME: &[u8] = b"content-length:";
    let line = head
        .split(|byte| *byte == b'\n')
        .find(|line| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)));
    let digits = line.and_then(|line| std::str::from_utf8(&line[NAME.len()..]).ok());
    let length = digits.and_then(|digits| digits.trim().parse().ok());
    length.ok_or_else(|| BenchError::Failed("an answer does not say how long it is".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_say_how_long_the_body_is() {
        assert_eq!(length(b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 12\r\n").unwrap(), 12);
        assert_eq!(length(b"HTTP/1.1 200 OK\r\ncontent-length:0").unwrap(), 0);
        assert!(length(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked").is_err());
    }

    #[test]
    fn words_end_where_their_value_ends() {
        let answer = Answer(br#"{"jobs":[{"id":"job_1","lease":{"fence":17}}]}"#);
        assert_eq!((answer.word("\"id\":\"").unwrap(), answer.word("\"fence\":").unwrap()), ("job_1", "17"));
        assert!(answer.word("\"token\":\"").is_err());
    }
}
