//! The bytes of blobs over HTTP: uploads, downloads, links, collection. Time is virtual.

mod bounds;
mod downloads;
mod links;
mod reach;
mod resumable;
mod signed;
mod upkeep;
mod uploads;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bursar::{ManualClock, Span, Time};
use bursar_blobs::{Backend, Backends, Blobs};
use bursar_server::{Limits, Settings};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Connection, Response};
use crate::s3;
use crate::schema_check;
use crate::test_server::{Engine, OPERATOR, TestServer};

/// The tenant of most tests.
const TENANT: &str = "acme";
const DAY: Duration = Duration::from_secs(86_400);
/// Longer than a test takes.
const NEVER: Duration = Duration::from_secs(1_000_000_000);

/// Runs test functions on both engines.
macro_rules! on_engines {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::blob_bytes::Site::new(crate::test_server::Engine::Sqlite).await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::blob_bytes::Site::new(crate::test_server::Engine::Postgres).await).await;
            })*
        }
    };
}
use on_engines;

/// A server with storage for blobs, whose time a test sets.
pub(crate) struct Site {
    server: TestServer,
    clock: Arc<ManualClock>,
    /// Keys of [`TENANT`].
    admin: String,
    user: String,
}

/// Returns settings with a directory for blobs, which no background task collects.
fn local(folder: &Path) -> Settings {
    let backends = Backends::local(folder.join("blobs")).unwrap();
    let limits = Limits { collection: NEVER, ..Limits::default() };
    Settings { blobs: Some(Blobs::new(backends)), limits, ..Settings::default() }
}

impl Site {
    pub(crate) async fn new(engine: Engine) -> Site {
        Site::with(engine, local).await
    }

    /// A directory and a bucket. New blobs go to the bucket, and downloads are redirected to it if asked.
    async fn with_bucket(engine: Engine, redirect_downloads: bool) -> Site {
        Site::with_bucket_and(engine, redirect_downloads, |blobs| blobs).await
    }

    async fn with_bucket_and(engine: Engine, redirect_downloads: bool, set: impl FnOnce(Blobs) -> Blobs) -> Site {
        let place = tempfile::tempdir().unwrap();
        let bucket = Backend::s3(&s3::settings(place.path()).await).unwrap();
        let site = Site::with(engine, |folder| {
            let backends = Backends::of(bucket).and(Backend::local(folder.join("blobs")).unwrap());
            Settings { blobs: Some(set(Blobs::new(backends))), redirect_downloads, ..local(folder) }
        })
        .await;
        // The service keeps its files until the test ends.
        std::mem::forget(place);
        site
    }

    async fn with(engine: Engine, settings: impl FnOnce(&Path) -> Settings) -> Site {
        let clock = Arc::new(ManualClock::at(Time::from_micros(4_000_000_000_000_000)));
        let server = TestServer::of(engine, Some(clock.clone()), settings).await;
        let (admin, user) = (server.key(TENANT, "admin").await, server.key(TENANT, "user").await);
        Site { server, clock, admin, user }
    }

    async fn stop(self) {
        self.server.stop().await;
    }

    fn wait(&self, time: Duration) {
        self.clock.advance(Span::from(time));
    }

    /// Sends JSON as the user.
    async fn call(&self, method: &str, path: &str, body: Value) -> Response {
        self.server.call_as(&self.user, method, path, body).await
    }

    /// Sends bytes and headers as the user.
    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Got {
        self.send_as(Some(&self.user), method, path, headers, body).await
    }

    async fn send_as(
        &self,
        token: Option<&str>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Got {
        let mut stream = TcpStream::connect(self.server.address).await.unwrap();
        let mut head = head(method, path, token, headers);
        if method != "GET" && method != "HEAD" {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        // The server may answer and close the connection before it has read everything.
        let _ = stream.write_all(body).await;
        let got = got(stream, method).await;
        schema_check::check(method, path, &got.head);
        got
    }

    /// Uploads bytes as the user; returns the blob.
    async fn upload(&self, query: &str, media: &str, bytes: &[u8]) -> Value {
        let path = format!("/v1/blobs?{query}");
        self.send("POST", &path, &[("Content-Type", media)], bytes).await.is(201).head.json()
    }

    /// Downloads a blob as the user.
    async fn download(&self, id: &str) -> Vec<u8> {
        self.send("GET", &format!("/v1/blobs/{id}"), &[], b"").await.is(200).bytes
    }

    /// Collects as the operator, of all tenants.
    async fn collect(&self, dry_run: bool) -> Value {
        let body = json!({ "dry_run": dry_run });
        self.server.call_as(OPERATOR, "POST", "/v1/blobs/gc", body).await.is(200).json()
    }

    /// Asserts that no record is live or pending, and that no bytes are left.
    async fn assert_nothing_stored(&self) {
        let page = self.call("GET", "/v1/blobs?state=all", Value::Null).await.is(200).json();
        let states: Vec<&Value> = page["items"].as_array().unwrap().iter().map(|blob| &blob["state"]).collect();
        assert!(states.iter().all(|state| **state == "doomed"), "{states:?}");
        assert_eq!(self.files(), [""; 0], "no bytes are left");
    }

    /// Returns the names of all files in the directory for blobs.
    fn files(&self) -> Vec<String> {
        fn walk(at: &Path, files: &mut Vec<String>) {
            for entry in std::fs::read_dir(at).into_iter().flatten() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => walk(&path, files),
                    false => files.push(path.display().to_string()),
                }
            }
        }
        let mut files = Vec::new();
        walk(&self.server.folder().join("blobs"), &mut files);
        files
    }
}

/// Returns the head of a request, without the empty line at its end.
fn head(method: &str, path: &str, token: Option<&str>, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: bursar.example\r\nConnection: close\r\n");
    if let Some(token) = token {
        head += &format!("Authorization: Bearer {token}\r\n");
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head
}

/// A response whose body may be any bytes.
#[derive(Debug)]
struct Got {
    /// Its text is the body, if that is JSON.
    head: Response,
    bytes: Vec<u8>,
}

impl Got {
    fn is(self, status: u16) -> Got {
        assert_eq!(self.head.status, status, "{self:?}");
        self
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    fn problem(&self) -> String {
        self.head.problem()
    }

    /// Returns the kind of the problem, and the field that it names.
    fn fault(&self) -> (String, String) {
        (self.problem(), self.head.json()["field"].as_str().unwrap_or_default().to_owned())
    }
}

/// Reads a response.
async fn got(stream: TcpStream, method: &str) -> Got {
    let mut connection = Connection::of(stream);
    let mut head = connection.head().await;
    let bytes = if method == "HEAD" { Vec::new() } else { connection.rest_bytes(&head).await };
    if head.header("content-type").is_some_and(|media| media.ends_with("json")) {
        head.text = String::from_utf8(bytes.clone()).unwrap();
    }
    Got { head, bytes }
}

/// Returns the text of a field.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// Bytes that differ by seed.
fn bytes(seed: u8, count: usize) -> Vec<u8> {
    (0..count).map(|place| (place as u8).wrapping_mul(31).wrapping_add((place >> 8) as u8) ^ seed).collect()
}

/// Returns the SHA-256 of bytes.
fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the value of `Repr-Digest`.
fn repr_digest(bytes: &[u8]) -> String {
    use base64::Engine;
    format!("sha-256=:{}:", base64::prelude::BASE64_STANDARD.encode(sha256(bytes)))
}
