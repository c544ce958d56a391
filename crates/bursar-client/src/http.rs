//! The default transport: HTTP/1.1 with a connection pool.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::transport::{Body, Transport, TransportError};

/// The timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept. The server keeps it longer, so that it does not close it while a request is sent.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum number of idle connections.
const IDLE_MAX: usize = 32;

#[cfg(feature = "tls")]
type Connector = hyper_rustls::HttpsConnector<HttpConnector>;
#[cfg(not(feature = "tls"))]
type Connector = HttpConnector;

/// A transport over the network.
#[derive(Clone, Debug)]
pub struct Http(Client<Connector, Body>);

impl Http {
    /// A transport with its own connection pool.
    pub fn new() -> Http {
        let mut http = HttpConnector::new();
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        http.set_nodelay(true);
        http.enforce_http(!cfg!(feature = "tls"));
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIMEOUT).pool_max_idle_per_host(IDLE_MAX);
        Http(client.build(connector(http)))
    }
}

impl Default for Http {
    fn default() -> Http {
        Http::new()
    }
}

#[cfg(feature = "tls")]
fn connector(http: HttpConnector) -> Connector {
    hyper_rustls::HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_http1().wrap_connector(http)
}

#[cfg(not(feature = "tls"))]
fn connector(http: HttpConnector) -> Connector {
    http
}

impl Transport for Http {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        self.send_stream(request.map(|bytes| Full::new(bytes).map_err(|never| match never {}).boxed_unsync()))
    }

    fn send_stream(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        let answer = self.0.request(request);
        async move {
            match answer.await {
                Ok(response) => Ok(response.map(|body| {
                    body.map_err(|error| TransportError { sent: true, source: error.into() }).boxed_unsync()
                })),
                Err(error) => Err(TransportError { sent: !error.is_connect(), source: error.into() }),
            }
        }
        .boxed()
    }
}
