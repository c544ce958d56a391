//! Listening, and ending.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bursar::meter::{MeterError, MeterSettings};
use bursar::{Bursar, Clock, CredentialClass, Error, Payload, Subject, SystemClock};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::app::App;
use crate::connection::Connection;
use crate::connection::heads::{Heads, Serving};
use crate::entry::{self, Peer, Spare};
use crate::in_flight::Account;
use crate::limits::{HEAD_BYTES_MAX, Limits};
use crate::metering::Metering;
use crate::principal::authenticate::{Keys, OPERATOR_BYTES_MIN};
use crate::principal::jwt::{JwtKey, JwtRules};
use crate::principal::proxies::{Network, Proxies};

/// How to serve.
#[derive(Default)]
pub struct Settings {
    /// The operator's token, where it is set and not made.
    pub operator_token: Option<String>,
    /// What tokens of users are signed with.
    pub jwt_keys: Vec<JwtKey>,
    /// What tokens of users must say.
    pub jwt_rules: JwtRules,
    /// How much at once, and how long.
    pub limits: Limits,
    /// The clock that tokens of users go by; the system's unless it is set.
    pub clock: Option<Arc<dyn Clock>>,
    /// What users, agents and viewers may ask of this server. Unless it is set they may ask as much as they like: a server that turns
    /// its callers away was told to. Who runs it, sets it up or works for it is never metered.
    pub meter: Option<MeterSettings>,
    /// Proxies that are believed when they name the address on whose behalf they ask (`X-Forwarded-For`).
    pub trusted_proxies: Vec<Network>,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Anybody could reach it, and nobody could be told apart.
    #[error(
        "{0} can be reached from outside and there is no operator's token: set BURSAR_OPERATOR_TOKEN or BURSAR_OPERATOR_TOKEN_FILE, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// The operator's token is too easy to guess.
    #[error("the operator's token must have at least {OPERATOR_BYTES_MIN} characters")]
    ShortToken,
    /// The address cannot be listened on.
    #[error("{0} cannot be listened on: {1}")]
    Listen(SocketAddr, std::io::Error),
    /// The database could not be asked.
    #[error(transparent)]
    Bursar(#[from] Error),
    /// What is set for the meter does not go.
    #[error("meter: {0}")]
    Meter(#[from] MeterError),
}

/// A server that listens.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    address: SocketAddr,
    made: Option<String>,
}

impl Server {
    /// Listens on an address. What waits there is answered by [`Server::run`].
    pub async fn bind(bursar: Bursar, address: SocketAddr, settings: Settings) -> Result<Server, StartError> {
        let Settings { operator_token, jwt_keys, jwt_rules, limits, clock, meter, trusted_proxies } = settings;
        if operator_token.as_ref().is_some_and(|token| token.len() < OPERATOR_BYTES_MIN) {
            return Err(StartError::ShortToken);
        }
        let clock: Arc<dyn Clock> = clock.unwrap_or_else(|| Arc::new(SystemClock));
        let metering = Metering::new(bursar.clone(), meter, clock.clone())?;
        let made = match &operator_token {
            Some(_) => None,
            None => first_operator(&bursar, address).await?,
        };
        let listener = TcpListener::bind(address).await.map_err(|error| StartError::Listen(address, error))?;
        let address = listener.local_addr().map_err(|error| StartError::Listen(address, error))?;
        let keys = Keys::new(operator_token.as_deref(), jwt_keys, jwt_rules);
        let mut app = App::new(bursar, keys, limits, clock, metering);
        app.proxies = Proxies(trusted_proxies);
        let app = Arc::new(app);
        Ok(Server { app, listener, address, made })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The operator's token, if this start has made it: it is known nowhere else, and is to be shown once.
    pub fn operator_token(&self) -> Option<&str> {
        self.made.as_deref()
    }

    /// Answers until `stop` ends; then takes nothing more, and returns when what was begun is answered.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Server { app, listener, .. } = self;
        let router = TowerToHyperService::new(entry::router(&app));
        let graceful = GracefulShutdown::new();
        let connections = Arc::new(Semaphore::new(app.limits.connections));
        let spares = Arc::new(Semaphore::new(SPARE_CONNECTIONS));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(app.limits.head).max_buf_size(HEAD_BYTES_MAX);
        let mut brief = http1::Builder::new();
        brief.timer(TokioTimer::new()).header_read_timeout(app.limits.head.min(SPARE_HEAD)).keep_alive(false);
        let heads: Account = "heads of requests".into();
        let mut stop = std::pin::pin!(stop);
        loop {
            let (mut place, mut spare) = tokio::select! {
                biased;
                () = &mut stop => break,
                place = connections.clone().acquire_owned() => (place, false),
                place = spares.clone().acquire_owned() => (place, true),
            };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut stop => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Such as too many open files: it goes away when others leave.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            };
            if let Ok(free) = connections.clone().try_acquire_owned().map(Ok).map_err(drop)
                && spare
            {
                (place, spare) = (free, false);
            }
            // An answer is one small write: it is not to wait for the next.
            let _ = stream.set_nodelay(true);
            let (router, serving) = (router.clone(), Serving::default());
            let counted = Heads::new(serving.clone(), app.bytes.clone(), heads.clone());
            let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let (router, served) = (router.clone(), serving.begin());
                async move {
                    let mut request = request.map(Body::new);
                    if spare {
                        request.extensions_mut().insert(Spare);
                    }
                    let response = entry::handle(&router, request, Peer(peer.ip())).await;
                    drop(served);
                    Ok::<_, Infallible>(response)
                }
            });
            let io = TokioIo::new(Connection::new(stream, app.limits.pace(), counted, reset));
            let http = if spare { &brief } else { &http };
            let connection = graceful.watch(http.serve_connection(io, service));
            let app = app.clone();
            tokio::spawn(async move {
                app.metrics.connected(true);
                // A connection that breaks is its caller's affair.
                let _ = connection.await;
                app.metrics.connected(false);
                drop(place);
            });
        }
        app.stop();
        drop(listener);
        if tokio::time::timeout(app.limits.drain, graceful.shutdown()).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
    }
}

/// Connections beyond the limit, by which only the health of the server can be asked for.
const SPARE_CONNECTIONS: usize = 64;
/// How long the head of a request may take there.
const SPARE_HEAD: Duration = Duration::from_secs(2);

/// Has the system drop a connection at once, with what the peer has not taken of it.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

/// How long to wait after a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// On the machine itself an operator's token is made once; elsewhere one must be there.
async fn first_operator(bursar: &Bursar, address: SocketAddr) -> Result<Option<String>, StartError> {
    let credentials = bursar.credentials();
    let now = bursar.now().await?;
    let known = credentials.list(CredentialClass::Operator, None, 1_000).await?;
    if known.iter().any(|grant| grant.state == bursar::GrantState::Open && grant.expires_at > now) {
        return Ok(None);
    }
    if !address.ip().is_loopback() {
        return Err(StartError::Open(address));
    }
    let subject = Subject::new("operator").map_err(Error::from)?;
    let issued = credentials.issue(CredentialClass::Operator, subject, Payload::default(), None, None).await?;
    Ok(issued.token)
}
