//! A small HTTP client that sends exactly the bytes of a test.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than any response takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts the status and returns the response.
    pub(crate) fn is(self, status: u16) -> Response {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Asserts that the response is a problem; returns the last part of its type.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{self:?}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{self:?}");
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"), "{self:?}");
        problem["type"].as_str().unwrap().strip_prefix("/problems/").unwrap().to_owned()
    }
}

/// Formats a request.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = body {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text + "Connection: close\r\n\r\n" + body.unwrap_or_default()
}

/// Sends bytes and reads the response.
pub(crate) async fn send(address: SocketAddr, bytes: &[u8]) -> Response {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may respond and close the connection before it has read everything.
    let _ = stream.write_all(bytes).await;
    Connection::of(stream).response().await
}

/// A connection whose response is read in parts.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn of(stream: TcpStream) -> Connection {
        Connection { stream: BufReader::new(stream) }
    }

    /// Connects, sends a request and reads the head of the response.
    pub(crate) async fn open(address: SocketAddr, text: &str) -> (Connection, Response) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut connection = Connection::of(stream);
        let head = connection.head().await;
        (connection, head)
    }

    /// Sends a request and reads the response on a kept-alive connection.
    pub(crate) async fn exchange(&mut self, text: &str) -> Response {
        self.write(text).await;
        self.response().await
    }

    /// Sends a request.
    pub(crate) async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads a response.
    pub(crate) async fn response(&mut self) -> Response {
        let mut answer = self.head().await;
        answer.text = self.rest(&answer).await;
        answer
    }

    pub(crate) async fn head(&mut self) -> Response {
        let status = self.line().await;
        let status = status.split(' ').nth(1).unwrap_or_else(|| panic!("no response: {status:?}")).parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_owned(), value.to_owned()));
        }
        Response { status, headers, text: String::new() }
    }

    /// Reads a line without its line break; an empty one at the end of the stream.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            match timeout(PATIENCE, self.stream.read(&mut byte)).await.expect("a response in time") {
                Ok(1) if byte[0] != b'\n' => line.push(byte[0]),
                _ => break,
            }
        }
        String::from_utf8(line).unwrap().trim_end_matches('\r').to_owned()
    }

    pub(crate) async fn rest(&mut self, head: &Response) -> String {
        String::from_utf8(self.rest_bytes(head).await).unwrap()
    }

    /// Reads the body of a response.
    pub(crate) async fn rest_bytes(&mut self, head: &Response) -> Vec<u8> {
        if head.header("transfer-encoding") == Some("chunked") {
            let mut text = String::new();
            while let Some(part) = self.chunk().await {
                text.push_str(&part);
            }
            return text.into_bytes();
        }
        let length = head.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut bytes = vec![0; length];
        timeout(PATIENCE, self.stream.read_exact(&mut bytes)).await.expect("a response in time").unwrap();
        bytes
    }

    /// Reads the next chunk of a chunked response; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Option<String> {
        let length = usize::from_str_radix(self.line().await.trim(), 16).ok().filter(|length| *length > 0)?;
        let mut bytes = vec![0; length];
        timeout(PATIENCE, self.stream.read_exact(&mut bytes)).await.expect("a chunk in time").ok()?;
        self.line().await;
        String::from_utf8(bytes).ok()
    }
}
