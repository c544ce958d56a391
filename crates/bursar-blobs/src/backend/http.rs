//! How requests to an S3-compatible service are sent: HTTP/1.1 with a connection pool, and TLS.

use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};

/// The timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout for the head of an answer. A part of an upload has to arrive within it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long an answer may stand still.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// How requests that failed are repeated: a few times, so that the caller of an upload learns of a failing backend within half a minute.
pub(super) fn retries() -> RetryConfig {
    let backoff =
        BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(3), base: 2.0 };
    RetryConfig { backoff, max_retries: 4, retry_timeout: Duration::from_secs(30) }
}

/// Creates clients for object storage.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service::new()))
    }
}

/// A client with its own connection pool.
#[derive(Clone, Debug)]
pub(super) struct Service(Client<HttpsConnector<TcpConnector>, HttpRequestBody>);

impl Service {
    pub(super) fn new() -> Service {
        let mut tcp = TcpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let tls = HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_http1().wrap_connector(tcp);
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIMEOUT);
        Service(client.build(tls))
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        match tokio::time::timeout(ANSWER_TIMEOUT, self.0.request(request)).await {
            Ok(Ok(response)) => Ok(response.map(|body| {
                let body = Box::pin(body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error)));
                HttpResponseBody::new(Paced { body, stall: None })
            })),
            Ok(Err(error)) if error.is_connect() => Err(HttpError::new(HttpErrorKind::Connect, error)),
            Ok(Err(error)) => Err(HttpError::new(HttpErrorKind::Interrupted, error)),
            Err(elapsed) => Err(HttpError::new(HttpErrorKind::Timeout, elapsed)),
        }
    }
}

/// A body that fails if it stands still.
struct Paced<B> {
    body: std::pin::Pin<Box<B>>,
    stall: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
}

impl<B> hyper::body::Body for Paced<B>
where
    B: hyper::body::Body<Error = HttpError>,
{
    type Data = B::Data;
    type Error = HttpError;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<B::Data>, HttpError>>> {
        let this = &mut *self;
        if let std::task::Poll::Ready(frame) = this.body.as_mut().poll_frame(cx) {
            this.stall = None;
            return std::task::Poll::Ready(frame);
        }
        let stall = this.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL_TIMEOUT)));
        stall.as_mut().poll(cx).map(|()| {
            let error = std::io::Error::new(std::io::ErrorKind::TimedOut, "the answer stands still");
            Some(Err(HttpError::new(HttpErrorKind::Interrupted, error)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
