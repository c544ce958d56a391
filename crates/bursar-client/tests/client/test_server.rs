//! A real server for one test, on loopback.

use std::net::SocketAddr;
use std::time::Duration;

use bursar::{BlobId, BlobSpec, Bursar, Sha256Digest};
use bursar_client::Client;
use bursar_server::{Server, Settings, StartError};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The operator token of every test.
const OPERATOR: &str = "operator-token-for-tests-0123456789abcdef";

/// A database, and a server that can be restarted.
pub(crate) struct TestServer {
    url: String,
    pub(crate) address: SocketAddr,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    _folder: Option<TempDir>,
}

impl TestServer {
    pub(crate) async fn sqlite() -> TestServer {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
        TestServer { _folder: Some(folder), ..TestServer::on(url).await }
    }

    pub(crate) async fn on(url: String) -> TestServer {
        let mut test_server = TestServer { url, address: "127.0.0.1:0".parse().unwrap(), running: None, _folder: None };
        test_server.start().await;
        test_server
    }

    /// Starts the server at its last address.
    pub(crate) async fn start(&mut self) {
        let bursar = Bursar::open(&self.url).await.unwrap();
        // Another process may use the port for a moment while the server is down.
        let mut tries = 0..100;
        let server = loop {
            let settings = Settings { operator_token: Some(OPERATOR.into()), ..Settings::default() };
            match Server::bind(bursar.clone(), self.address, settings).await {
                Ok(server) => break server,
                Err(StartError::Listen(..)) if tries.next().is_some() => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => panic!("{error}"),
            }
        };
        self.address = server.address();
        let (stop, stopped) = oneshot::channel();
        let run = async move {
            server.run(async move { drop(stopped.await) }).await;
            bursar.close().await;
        };
        self.running = Some((stop, tokio::spawn(run)));
    }

    /// Stops the server and closes the database.
    pub(crate) async fn stop(&mut self) {
        let (stop, running) = self.running.take().unwrap();
        drop(stop);
        running.await.unwrap();
    }

    /// Records a blob whose bytes are stored.
    pub(crate) async fn stored_blob(&self, namespace: &str, byte: u8) -> BlobId {
        let bursar = Bursar::open(&self.url).await.unwrap();
        let spec = BlobSpec::new(namespace.try_into().unwrap(), "local".try_into().unwrap());
        let started = bursar.blob_records().start(spec, Duration::from_secs(3_600), None).await.unwrap();
        let stored = bursar.blob_records().store(started.blob, 10, Sha256Digest([byte; 32])).await.unwrap();
        bursar.close().await;
        stored.blob
    }

    /// Returns a client of the operator.
    pub(crate) fn client(&self) -> Client {
        self.with(OPERATOR)
    }

    /// Returns a client with a token.
    pub(crate) fn with(&self, token: &str) -> Client {
        Client::new(&format!("http://{}", self.address)).unwrap().token(token)
    }
}
