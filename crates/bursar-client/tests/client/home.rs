//! A real server of a test's own, on loopback.

use std::net::SocketAddr;
use std::time::Duration;

use bursar::Bursar;
use bursar_client::Client;
use bursar_server::{Server, Settings, StartError};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The operator's token of every test.
const OPERATOR: &str = "operator-token-for-tests-0123456789abcdef";

/// A database, and a server that can be stopped and started again.
pub(crate) struct Home {
    url: String,
    pub(crate) address: SocketAddr,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    _folder: Option<TempDir>,
}

impl Home {
    pub(crate) async fn sqlite() -> Home {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
        Home { _folder: Some(folder), ..Home::on(url).await }
    }

    pub(crate) async fn on(url: String) -> Home {
        let mut home = Home { url, address: "127.0.0.1:0".parse().unwrap(), running: None, _folder: None };
        home.start().await;
        home
    }

    /// Starts it where it was.
    pub(crate) async fn start(&mut self) {
        let bursar = Bursar::open(&self.url).await.unwrap();
        // Somebody else may have been given the port while it was free, for a moment.
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

    /// Stops it, and closes the database.
    pub(crate) async fn stop(&mut self) {
        let (stop, running) = self.running.take().unwrap();
        drop(stop);
        running.await.unwrap();
    }

    /// The operator.
    pub(crate) fn client(&self) -> Client {
        self.with(OPERATOR)
    }

    /// Who has a token.
    pub(crate) fn with(&self, token: &str) -> Client {
        Client::new(&format!("http://{}", self.address)).unwrap().token(token)
    }
}
