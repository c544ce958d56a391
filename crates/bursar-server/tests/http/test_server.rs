//! A server for one test, on either engine.

use std::net::SocketAddr;
use std::time::Duration;

use bursar::Bursar;
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

/// A running server.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) bursar: Bursar,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
    _folder: Option<TempDir>,
}

impl TestServer {
    pub(crate) async fn sqlite() -> TestServer {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
        TestServer { _folder: Some(folder), ..TestServer::on(&url, Settings::default()).await }
    }

    pub(crate) async fn postgres() -> TestServer {
        TestServer::on(&bursar_testkit::fresh_database(), Settings::default()).await
    }

    /// Starts a server in memory with these limits.
    pub(crate) async fn limited(limits: Limits) -> TestServer {
        TestServer::on("sqlite::memory:", Settings { limits, ..Settings::default() }).await
    }

    /// Starts a server on a database with these settings.
    pub(crate) async fn on(url: &str, settings: Settings) -> TestServer {
        let bursar = Bursar::open(url).await.unwrap();
        let settings = Settings {
            operator_token: Some(OPERATOR.into()),
            jwt_keys: vec![JwtKey::secret(SECRET).unwrap()],
            ..settings
        };
        let server = Server::bind(bursar.clone(), "127.0.0.1:0".parse().unwrap(), settings).await.unwrap();
        let address = server.address();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(server.run(async move { drop(stopped.await) }));
        TestServer { address, bursar, stop: Some(stop), running: Some(running), _folder: None }
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
        let bearer = format!("Bearer {token}");
        let mut all = vec![("Authorization", bearer.as_str())];
        all.extend(headers);
        let text = (!body.is_null()).then(|| body.to_string());
        if text.is_some() {
            all.push(("Content-Type", "application/json"));
        }
        let answer = send(self.address, request(method, path, &all, text.as_deref()).as_bytes()).await;
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
