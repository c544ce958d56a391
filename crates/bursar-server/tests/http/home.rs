//! A server of a test's own, on either engine.

use std::net::SocketAddr;
use std::time::Duration;

use bursar::Bursar;
use bursar_server::{JwtKey, Limits, Server, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Answer, request, send};
use crate::shape;

/// The operator's token of every test.
pub(crate) const OPERATOR: &str = "operator-token-for-tests-0123456789abcdef";
/// What tokens of users are signed with.
pub(crate) const SECRET: &[u8] = b"a secret of more than thirty-two bytes, for tests only";

/// A running server.
pub(crate) struct Home {
    pub(crate) address: SocketAddr,
    pub(crate) bursar: Bursar,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
    _folder: Option<TempDir>,
}

impl Home {
    pub(crate) async fn sqlite() -> Home {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
        Home { _folder: Some(folder), ..Home::on(&url, Settings::default()).await }
    }

    pub(crate) async fn postgres() -> Home {
        Home::on(&bursar_testkit::fresh_database(), Settings::default()).await
    }

    /// With other limits than the default ones.
    pub(crate) async fn limited(limits: Limits) -> Home {
        Home::on("sqlite::memory:", Settings { limits, ..Settings::default() }).await
    }

    /// On a database, with other settings than the default ones.
    pub(crate) async fn on(url: &str, settings: Settings) -> Home {
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
        Home { address, bursar, stop: Some(stop), running: Some(running), _folder: None }
    }

    /// Stops it; what is under way is answered.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        tokio::time::timeout(Duration::from_secs(60), self.running.take().unwrap()).await.expect("it ends").unwrap();
        self.bursar.clone().close().await;
    }

    /// Tells it to stop, and does not wait.
    pub(crate) fn stop_soon(&mut self) -> JoinHandle<()> {
        drop(self.stop.take());
        self.running.take().unwrap()
    }

    /// Asks as the operator, for the built-in tenant.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        self.ask_as(OPERATOR, method, path, body).await
    }

    /// Asks with a token.
    pub(crate) async fn ask_as(&self, token: &str, method: &str, path: &str, body: Value) -> Answer {
        self.ask_with(token, &[], method, path, body).await
    }

    /// Asks with a token and further headers. `null` is no body.
    pub(crate) async fn ask_with(
        &self,
        token: &str,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: Value,
    ) -> Answer {
        let bearer = format!("Bearer {token}");
        let mut all = vec![("Authorization", bearer.as_str())];
        all.extend(headers);
        let text = (!body.is_null()).then(|| body.to_string());
        if text.is_some() {
            all.push(("Content-Type", "application/json"));
        }
        let answer = send(self.address, request(method, path, &all, text.as_deref()).as_bytes()).await;
        shape::check(method, path, &answer);
        answer
    }

    /// A new API key of a tenant.
    pub(crate) async fn key(&self, tenant: &str, role: &str) -> String {
        let body = json!({ "name": format!("{role} of {tenant}"), "role": role });
        let made = self.ask_with(OPERATOR, &[("Bursar-Tenant", tenant)], "POST", "/v1/keys", body).await.is(201);
        made.json()["token"].as_str().unwrap().to_owned()
    }

    /// A new worker's token of a tenant.
    pub(crate) async fn worker(&self, tenant: &str, capabilities: Value) -> String {
        let body = json!({ "name": "encoder", "capabilities": capabilities });
        let made = self.ask_with(OPERATOR, &[("Bursar-Tenant", tenant)], "POST", "/v1/workers", body).await.is(201);
        made.json()["token"].as_str().unwrap().to_owned()
    }
}

/// Runs stories on both engines.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::home::Home::sqlite().await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::home::Home::postgres().await).await;
            })*
        }
    };
}
pub(crate) use on_both;
