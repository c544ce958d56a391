//! A server for one test, on either engine.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bursar::{Bursar, ManualClock};
use bursar_blobs::{Backends, Blobs};
use bursar_server::{JwtKey, Limits, Server, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Response, request, send};
use crate::schema_check;

/// The operator token.
pub(crate) const OPERATOR: &str = "operator-token-for-tests-0123456789abcdef";
/// The secret that JWTs are signed with.
pub(crate) const SECRET: &[u8] = b"a secret of more than thirty-two bytes, for tests only";

/// Where the data of a server is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
    Memory,
}

/// Returns settings with a folder for the bytes of blobs.
pub(crate) fn with_storage(folder: &Path) -> Settings {
    let backends = Backends::local(folder.join("blobs")).unwrap();
    Settings { blobs: Some(Blobs::new(backends)), ..Settings::default() }
}

/// A running server.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) bursar: Bursar,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
    folder: Option<TempDir>,
}

impl TestServer {
    pub(crate) async fn sqlite() -> TestServer {
        TestServer::of(Engine::Sqlite, None, with_storage).await
    }

    pub(crate) async fn postgres() -> TestServer {
        TestServer::of(Engine::Postgres, None, with_storage).await
    }

    /// Starts a server in memory with these limits.
    pub(crate) async fn limited(limits: Limits) -> TestServer {
        let settings = |folder: &Path| Settings { limits, ..with_storage(folder) };
        TestServer::of(Engine::Memory, None, settings).await
    }

    /// Starts a server on an empty database. The settings may use the folder of the test.
    pub(crate) async fn of(
        engine: Engine,
        clock: Option<Arc<ManualClock>>,
        settings: impl FnOnce(&Path) -> Settings,
    ) -> TestServer {
        let folder = tempfile::tempdir().unwrap();
        let url = match engine {
            Engine::Sqlite => format!("sqlite://{}", folder.path().join("bursar.db").display()),
            Engine::Postgres => bursar_testkit::fresh_database(),
            Engine::Memory => "sqlite::memory:".to_owned(),
        };
        let mut options = Bursar::options(&url);
        if let Some(clock) = clock {
            options = options.clock(clock).upkeep(None);
        }
        let server = TestServer::serve(options.open().await.unwrap(), settings(folder.path())).await;
        TestServer { folder: Some(folder), ..server }
    }

    /// Starts a server on a database with these settings.
    pub(crate) async fn on(url: &str, settings: Settings) -> TestServer {
        TestServer::serve(Bursar::open(url).await.unwrap(), settings).await
    }

    /// Starts a server on an open database with these settings.
    pub(crate) async fn serve(bursar: Bursar, settings: Settings) -> TestServer {
        let settings = Settings {
            operator_token: Some(OPERATOR.into()),
            jwt_keys: vec![JwtKey::secret(SECRET).unwrap()],
            ..settings
        };
        let server = Server::bind(bursar.clone(), "127.0.0.1:0".parse().unwrap(), settings).await.unwrap();
        let address = server.address();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(server.run(async move { drop(stopped.await) }));
        TestServer { address, bursar, stop: Some(stop), running: Some(running), folder: None }
    }

    /// Returns the folder of the test.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.as_ref().unwrap().path()
    }

    /// Stops the server after it has answered running requests.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        tokio::time::timeout(Duration::from_secs(60), self.running.take().unwrap())
            .await
            .expect("the server stops")
            .unwrap();
        self.bursar.clone().close().await;
    }

    /// Begins the shutdown; returns the task of the server.
    pub(crate) fn stop_soon(&mut self) -> JoinHandle<()> {
        drop(self.stop.take());
        self.running.take().unwrap()
    }

    /// Sends a request as the operator, for the built-in tenant.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Value) -> Response {
        self.call_as(OPERATOR, method, path, body).await
    }

    /// Sends a request with a token.
    pub(crate) async fn call_as(&self, token: &str, method: &str, path: &str, body: Value) -> Response {
        self.call_with(token, &[], method, path, body).await
    }

    /// Sends a request with a token and further headers; a `null` body is left out. Checks the response against the OpenAPI document.
    pub(crate) async fn call_with(
        &self,
        token: &str,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: Value,
    ) -> Response {
        let text = (!body.is_null()).then(|| body.to_string());
        let mut all = headers.to_vec();
        if text.is_some() {
            all.push(("Content-Type", "application/json"));
        }
        self.send_as(token, &all, method, path, text.as_deref()).await
    }

    /// Sends a request with a token, headers and any body. Checks the response against the OpenAPI document.
    pub(crate) async fn send_as(
        &self,
        token: &str,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> Response {
        let bearer = format!("Bearer {token}");
        let mut all = vec![("Authorization", bearer.as_str())];
        all.extend(headers);
        let answer = send(self.address, request(method, path, &all, body).as_bytes()).await;
        schema_check::check(method, path, &answer);
        answer
    }

    /// Creates an API key of a tenant.
    pub(crate) async fn key(&self, tenant: &str, role: &str) -> String {
        let body = json!({ "name": format!("{role} of {tenant}"), "role": role });
        let made = self.call_with(OPERATOR, &[("Bursar-Tenant", tenant)], "POST", "/v1/keys", body).await.is(201);
        made.json()["token"].as_str().unwrap().to_owned()
    }

    /// Creates a worker token of a tenant.
    pub(crate) async fn worker(&self, tenant: &str, capabilities: Value) -> String {
        let body = json!({ "name": "encoder", "capabilities": capabilities });
        let made = self.call_with(OPERATOR, &[("Bursar-Tenant", tenant)], "POST", "/v1/workers", body).await.is(201);
        made.json()["token"].as_str().unwrap().to_owned()
    }
}

/// Runs test functions on both engines.
macro_rules! on_both_engines {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::test_server::TestServer::sqlite().await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::test_server::TestServer::postgres().await).await;
            })*
        }
    };
}
pub(crate) use on_both_engines;
