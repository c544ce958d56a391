//! The TCP server: accepting connections, serving them, and shutting down.

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
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use bursar_blobs::Blobs;
use bursar_dashboard::LoginCodes;

use crate::app::App;
use crate::collection;
use crate::connection::heads::HeadCounter;
use crate::connection::{Connection, OpenConnection};
use crate::dashboard::with_dashboard;
use crate::in_flight::Account;
use crate::limits::{HEAD_BYTES_MAX, Limits};
use crate::metering::Metering;
use crate::otlp::{Exporter, Exporting, Otlp, OtlpSettings};
use crate::pipeline::{self, HealthOnly, Peer};
use crate::principal::authenticate::{OPERATOR_BYTES_MIN, TokenKeys};
use crate::principal::jwks::{Jwks, JwksError, JwksSettings};
use crate::principal::jwt::{JwtKey, JwtRules};
use crate::principal::proxies::{Network, Proxies};
use crate::router::router;

/// The settings of a server.
#[derive(Default)]
pub struct Settings {
    /// The operator token. Without it, the server uses the operator tokens in the database, and creates the first one if it listens
    /// on a loopback address.
    pub operator_token: Option<String>,
    /// The keys that JWTs of users are verified with.
    pub jwt_keys: Vec<JwtKey>,
    /// The key set of an identity provider, which verifies JWTs too and may change while the server runs.
    pub jwks: Option<JwksSettings>,
    /// The issuer and audience that JWTs of users must have.
    pub jwt_rules: JwtRules,
    /// Limits on concurrency, sizes and durations.
    pub limits: Limits,
    /// The clock for the expiry of JWTs; default: the system clock.
    pub clock: Option<Arc<dyn Clock>>,
    /// The default quota and the prices of metered callers; default: those of [`MeterSettings`]. If set and `enabled`, calls of
    /// users, agents and viewers to this server are metered too. Operators, admins, workers and monitors never are.
    pub meter: Option<MeterSettings>,
    /// Proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` headers are trusted.
    pub trusted_proxies: Vec<Network>,
    /// Where the bytes of blobs are; without it, routes that need them answer `unavailable`.
    pub blobs: Option<Blobs>,
    /// Whether downloads from a bucket are redirected to it, by signed addresses.
    pub redirect_downloads: bool,
    /// Where spans are sent; without it, none are.
    pub otlp: Option<OtlpSettings>,
    /// One-time codes that sign a browser in to the dashboard.
    pub login_codes: LoginCodes,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is not a loopback address, and there is no operator token.
    #[error(
        "{0} can be reached from other machines and there is no operator token: set BURSAR_OPERATOR_TOKEN or BURSAR_OPERATOR_TOKEN_FILE, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// The operator token is too short to be secure.
    #[error("the operator token must have at least {OPERATOR_BYTES_MIN} characters")]
    ShortToken,
    /// The address could not be bound.
    #[error("cannot listen on {0}: {1}; choose another address or port")]
    Listen(SocketAddr, std::io::Error),
    /// The database failed.
    #[error(transparent)]
    Bursar(#[from] Error),
    /// The key set of the identity provider could not be read.
    #[error("the key set of user tokens (jwt.jwks_path): {0}; nothing was started")]
    Jwks(#[from] JwksError),
    /// The meter settings are invalid.
    #[error("meter: {0}")]
    Meter(#[from] MeterError),
}

/// A server that is bound to its address.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    address: SocketAddr,
    login_codes: LoginCodes,
    exporter: Option<Exporter>,
    /// The operator token that this start created.
    new_token: Option<String>,
}

impl Server {
    /// Binds the address. Connections are accepted by [`Server::run`].
    pub async fn bind(bursar: Bursar, address: SocketAddr, settings: Settings) -> Result<Server, StartError> {
        let Settings { operator_token, jwt_keys, jwt_rules, limits, clock, meter, trusted_proxies, .. } = settings;
        let Settings { jwks, blobs, redirect_downloads, login_codes, otlp, .. } = settings;
        if operator_token.as_ref().is_some_and(|token| token.len() < OPERATOR_BYTES_MIN) {
            return Err(StartError::ShortToken);
        }
        let clock: Arc<dyn Clock> = clock.unwrap_or_else(|| Arc::new(SystemClock));
        let metering = Metering::new(bursar.clone(), meter, clock.clone())?;
        let jwks = match jwks {
            Some(jwks) => Some(Arc::new(Jwks::open(jwks).await?)),
            None => None,
        };
        // An address that cannot be used is an error before a token is created that nobody would see.
        let listener = TcpListener::bind(address).await.map_err(|error| StartError::Listen(address, error))?;
        let address = listener.local_addr().map_err(|error| StartError::Listen(address, error))?;
        let new_token = match &operator_token {
            Some(_) => None,
            None => create_first_token(&bursar, address).await?,
        };
        let mut token_keys = TokenKeys::new(operator_token.as_deref(), jwt_keys, jwt_rules);
        token_keys.jwks = jwks;
        let mut app = App::new(bursar, token_keys, limits, clock, metering);
        app.proxies = Proxies(trusted_proxies);
        app.blobs = blobs;
        app.redirect_downloads = redirect_downloads;
        let (otlp, exporter) = otlp.map(Otlp::new).unzip();
        app.otlp = otlp;
        let app = Arc::new(app);
        Ok(Server { app, listener, address, login_codes, exporter, new_token })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the operator token if this start created it. It is stored nowhere in plain text, so it must be shown now.
    pub fn operator_token(&self) -> Option<&str> {
        self.new_token.as_deref()
    }

    /// Serves until `stop` completes. Then it accepts no more connections, and returns once the running requests are answered or
    /// `limits.drain` has passed.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Server { app, listener, login_codes, exporter, .. } = self;
        let router = TowerToHyperService::new(with_dashboard(&app, router(&app), login_codes));
        let connections = Arc::new(Semaphore::new(app.limits.connections));
        let health_connections = Arc::new(Semaphore::new(HEALTH_CONNECTIONS));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(app.limits.head).max_buf_size(HEAD_BYTES_MAX);
        let mut health_http = http1::Builder::new();
        health_http.timer(TokioTimer::new()).header_read_timeout(app.limits.head.min(HEALTH_HEAD)).keep_alive(false);
        let heads: Account = "heads of requests".into();
        let collection = tokio::spawn(collection::run(app.clone()));
        let jwks = app.token_keys.jwks.clone().map(|jwks| tokio::spawn(async move { jwks.run().await }));
        let exporting = app.otlp.clone().zip(exporter);
        let exporting = exporting.map(|(otlp, exporter)| Exporting::start(otlp, exporter, &app.bursar));
        let mut stop = std::pin::pin!(stop);
        loop {
            let (mut permit, mut health_only) = tokio::select! {
                biased;
                () = &mut stop => break,
                permit = connections.clone().acquire_owned() => (permit, false),
                permit = health_connections.clone().acquire_owned() => (permit, true),
            };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut stop => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // For example too many open files, which ends when other connections close.
                    tracing::warn!(%error, "accepting a connection failed, retrying");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            // A regular connection may have closed while this one was awaited.
            if let Ok(free) = connections.clone().try_acquire_owned().map(Ok).map_err(drop)
                && health_only
            {
                (permit, health_only) = (free, false);
            }
            // A response is one small write, which Nagle's algorithm would delay.
            let _ = stream.set_nodelay(true);
            let open = OpenConnection::new(app.clone(), permit.ok());
            let router = router.clone();
            let head_counter = HeadCounter::new(open.requests.clone(), app.bytes.clone(), heads.clone());
            let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let (router, running, open) = (router.clone(), open.requests.start(), open.clone());
                async move {
                    let mut request = request.map(Body::new);
                    request.extensions_mut().insert(open);
                    if health_only {
                        request.extensions_mut().insert(HealthOnly);
                    }
                    let response = pipeline::handle(&router, request, Peer(peer.ip())).await;
                    drop(running);
                    Ok::<_, Infallible>(response)
                }
            });
            let io = TokioIo::new(Connection::new(stream, app.limits.min_pace(), head_counter, reset));
            let http = if health_only { &health_http } else { &http };
            let connection = http.serve_connection(io, service).with_upgrades();
            let app = app.clone();
            tokio::spawn(async move {
                let mut connection = std::pin::pin!(connection);
                // Errors of one connection concern only its client.
                tokio::select! {
                    _ = connection.as_mut() => return,
                    () = app.tails.stopped() => connection.as_mut().graceful_shutdown(),
                }
                let _ = connection.await;
            });
        }
        app.stop();
        collection.abort();
        jwks.inspect(|jwks| jwks.abort());
        drop(listener);
        // Each connection has a permit until it is closed.
        let closed = async {
            let _ = connections.acquire_many(app.limits.connections as u32).await;
            let _ = health_connections.acquire_many(HEALTH_CONNECTIONS as u32).await;
        };
        if tokio::time::timeout(app.limits.drain, closed).await.is_err() {
            tracing::warn!("shutdown timed out with requests still running (limits.drain_ms)");
        }
        // What this process still held of its callers' quotas would count as spent.
        app.metering.meter.give_back_slices().await;
        if let Some(exporting) = exporting {
            exporting.stop().await;
        }
    }
}

/// Connections accepted beyond the limit, on which only health and metrics routes are served.
const HEALTH_CONNECTIONS: usize = 64;
/// How long receiving a request's head may take on these.
const HEALTH_HEAD: Duration = Duration::from_secs(2);

/// Makes the operating system close a connection at once and discard unsent data.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

/// How long to wait after accepting a connection failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Creates an operator token if the database has no valid one and the address is a loopback address. On any other address a
/// missing token is an error.
async fn create_first_token(bursar: &Bursar, address: SocketAddr) -> Result<Option<String>, StartError> {
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
