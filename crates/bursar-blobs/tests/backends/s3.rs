//! An S3-compatible service: in this process, or a real one.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bursar_blobs::S3Settings;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const KEY: &str = "test-access-key";
const SECRET: &str = "test-secret-key";
const BUCKET: &str = "blobs";

static PREFIXES: AtomicU64 = AtomicU64::new(0);

/// Returns the settings of a service with an empty bucket, or with an empty prefix in the bucket of a real service.
pub(crate) async fn settings(directory: &Path) -> S3Settings {
    if let Ok(given) = std::env::var("BURSAR_TEST_S3") {
        let mut words = given.split_whitespace().map(str::to_owned);
        let mut next = || words.next().unwrap();
        let (endpoint, bucket, access_key_id, secret_access_key) = (next(), next(), next(), next());
        let prefix = format!("{}-{}", std::process::id(), PREFIXES.fetch_add(1, Ordering::Relaxed));
        let region = Some(words.next().unwrap_or_else(|| "us-east-1".to_owned()));
        let (endpoint, prefix) = (Some(endpoint), Some(prefix));
        return S3Settings { bucket, region, endpoint, access_key_id, secret_access_key, prefix };
    }
    let address = start(directory).await;
    S3Settings {
        bucket: BUCKET.to_owned(),
        region: None,
        endpoint: Some(format!("http://{address}")),
        access_key_id: KEY.to_owned(),
        secret_access_key: SECRET.to_owned(),
        prefix: None,
    }
}

/// Starts a service in this process, which ends with the test.
async fn start(directory: &Path) -> SocketAddr {
    std::fs::create_dir_all(directory.join(BUCKET)).unwrap();
    let mut builder = S3ServiceBuilder::new(FileSystem::new(directory).unwrap());
    builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
    let service: S3Service = builder.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service.clone();
            tokio::spawn(async move {
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// What a faulty proxy does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It answers every request with this status.
    Status(u16),
    /// It closes the connection after this many bytes from the client.
    CutAfter(u64),
    /// It passes everything on.
    None,
}

/// A proxy in front of a service, whose fault can be changed.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    fault: tokio::sync::watch::Sender<Fault>,
}

impl Proxy {
    pub(crate) async fn start(to: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (fault, seen) = tokio::sync::watch::channel(Fault::None);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (mut seen, to) = (seen.clone(), to.clone());
                let fault = *seen.borrow_and_update();
                tokio::spawn(async move {
                    // A change of the fault closes the connections that are open.
                    tokio::select! {
                        () = pass(stream, to, fault) => {}
                        _ = seen.changed() => {}
                    }
                });
            }
        });
        Proxy { address, fault }
    }

    pub(crate) fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }
}

async fn pass(mut client: TcpStream, to: String, fault: Fault) {
    match fault {
        Fault::None => {
            let mut server = TcpStream::connect(to).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        }
        Fault::CutAfter(bytes) => {
            let mut server = TcpStream::connect(to).await.unwrap();
            let (mut from_client, mut to_client) = client.split();
            let (mut from_server, mut to_server) = server.split();
            let mut request = (&mut from_client).take(bytes);
            tokio::select! {
                _ = tokio::io::copy(&mut request, &mut to_server) => {}
                _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
            }
        }
        Fault::Status(status) => {
            let mut buffer = [0; 4096];
            let _ = client.read(&mut buffer).await;
            let answer = format!("HTTP/1.1 {status} Fault\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = client.write_all(answer.as_bytes()).await;
            // The rest of the request is read, so that the answer is not lost with the connection.
            while client.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
        }
    }
}
