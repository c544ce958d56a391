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
use tokio::net::TcpListener;

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
