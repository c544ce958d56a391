//! One call: attempts until the server answers, a retry is not safe, or the timeout is over.

use std::time::Duration;

use bursar_core::name::IdempotencyKey;
use bursar_core::refusal::Invalid;
use bursar_wire::problem::{Kind, Problem};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;
use crate::random;
use crate::transport::{Body, TransportError};

/// The maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The timeout of one attempt; the time that the server may wait for jobs is added.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);

/// A call to the server.
pub(crate) struct Call {
    client: Client,
    method: Method,
    path: Path,
    body: Result<Option<Bytes>, Invalid>,
    /// How long the server may wait before it answers.
    waits: Duration,
    retry_safety: RetrySafety,
}

/// What makes it safe to retry a call that the server may have executed.
#[derive(Clone, Copy, PartialEq)]
enum RetrySafety {
    /// The call is idempotent.
    Idempotent,
    /// Every attempt carries the same idempotency key.
    Key,
}

impl Client {
    pub(crate) fn get(&self, path: Path) -> Call {
        self.call(Method::GET, path, Ok(None), RetrySafety::Idempotent)
    }

    pub(crate) fn post(&self, path: Path, body: &impl Serialize) -> Call {
        self.call(Method::POST, path, json(body), RetrySafety::Key)
    }

    pub(crate) fn put(&self, path: Path, body: &impl Serialize) -> Call {
        self.call(Method::PUT, path, json(body), RetrySafety::Key)
    }

    pub(crate) fn patch(&self, path: Path, body: &impl Serialize) -> Call {
        self.call(Method::PATCH, path, json(body), RetrySafety::Key)
    }

    pub(crate) fn delete(&self, path: Path) -> Call {
        self.call(Method::DELETE, path, Ok(None), RetrySafety::Key)
    }

    fn call(
        &self,
        method: Method,
        path: Path,
        body: Result<Option<Bytes>, Invalid>,
        retry_safety: RetrySafety,
    ) -> Call {
        Call { client: self.clone(), method, path, body, waits: Duration::ZERO, retry_safety }
    }
}

fn json(body: &impl Serialize) -> Result<Option<Bytes>, Invalid> {
    let text = serde_json::to_vec(body);
    text.map(|text| Some(text.into()))
        .map_err(|error| Invalid::new("body", format!("cannot be written as JSON: {error}")))
}

/// The future of an answer.
type Answer<T> = BoxFuture<'static, Result<Answered<T>, Error>>;

/// Parses the bytes of an answer.
type Parse<T> = fn(&[u8]) -> Result<T, String>;

/// Why an attempt failed.
enum AttemptError {
    /// The server answered with a problem.
    Problem { problem: Box<Problem>, wait: Option<Duration> },
    /// No answer came.
    Transport(TransportError),
    /// The answer cannot be read.
    Unreadable { status: u16, detail: String },
}

impl Call {
    /// Sets how long the server may wait before it answers.
    pub(crate) fn waits(self, waits: Duration) -> Self {
        Call { waits, ..self }
    }

    /// Declares that the call is idempotent and needs no key.
    pub(crate) fn idempotent(self) -> Self {
        Call { retry_safety: RetrySafety::Idempotent, ..self }
    }

    /// Makes the call and ignores the body of the answer.
    pub(crate) fn done(self) -> Answer<()> {
        self.send(|_| Ok(())).boxed()
    }

    /// Makes the call and parses the answer.
    pub(crate) fn answer<T: DeserializeOwned + Send + 'static>(self) -> Answer<T> {
        self.send(|bytes| serde_json::from_slice(bytes).map_err(|error| error.to_string())).boxed()
    }

    async fn send<T>(self, parse: Parse<T>) -> Result<Answered<T>, Error> {
        let options = &self.client.options;
        let key = match self.retry_safety {
            RetrySafety::Key => options.key.clone().or_else(|| (options.attempts_max > 1).then(random::key)),
            RetrySafety::Idempotent => None,
        };
        let request = self.request(key.as_ref())?;
        let deadline = Instant::now() + options.timeout + self.waits;
        let mut attempts = 0;
        loop {
            let until = deadline.min(Instant::now() + ATTEMPT_TIMEOUT + self.waits);
            let error = match timeout_at(until, self.attempt(request.clone(), parse)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => {
                    let source = "no answer arrived within the timeout".into();
                    AttemptError::Transport(TransportError { sent: true, source })
                }
            };
            attempts += 1;
            let delay = self.retry_delay(&error, attempts, key.is_some());
            match delay.filter(|delay| attempts < options.attempts_max && Instant::now() + *delay < deadline) {
                Some(delay) => {
                    tracing::debug!(path = self.path.as_str(), attempts, ?delay, "call failed, retrying");
                    sleep(delay).await;
                }
                None => return Err(self.final_error(error, key)),
            }
        }
    }

    /// Returns how long to wait before the next attempt; `None` if a retry is useless or not safe.
    fn retry_delay(&self, error: &AttemptError, attempts: u32, has_key: bool) -> Option<Duration> {
        let repeatable = has_key || self.retry_safety == RetrySafety::Idempotent;
        match error {
            AttemptError::Problem { problem, wait } => {
                let safe = repeatable || problem.kind != Kind::UnknownOutcome;
                (problem.kind.is_transient() && safe).then(|| wait.unwrap_or_default().max(random::backoff(attempts)))
            }
            AttemptError::Transport(error) => (repeatable || !error.sent).then(|| random::backoff(attempts)),
            AttemptError::Unreadable { .. } => None,
        }
    }

    fn request(&self, key: Option<&IdempotencyKey>) -> Result<Request<Bytes>, Error> {
        let Client { shared, options } = &self.client;
        let mut request = Request::builder().method(&self.method).uri(format!("{}{}", shared.base, self.path.as_str()));
        if let Some(bearer) = self.client.bearer()? {
            request = request.header(AUTHORIZATION, bearer);
        }
        if let Some(tenant) = &options.tenant {
            request = request.header("bursar-tenant", tenant.as_str());
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key.as_str());
        }
        if let Some(etag) = options.if_match.as_deref().filter(|_| self.method != Method::GET) {
            request = request.header(IF_MATCH, etag);
        }
        let body = self.body.clone()?;
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.header(ACCEPT, "application/json").body(body.unwrap_or_default());
        // A tenant or a key with characters outside of ASCII cannot be sent in a header.
        request.map_err(|error| Invalid::new("request", format!("cannot be sent: {error}")).into())
    }

    async fn attempt<T>(&self, request: Request<Bytes>, parse: Parse<T>) -> Result<Answered<T>, AttemptError> {
        let response = self.client.shared.transport.send(request).await.map_err(AttemptError::Transport)?;
        let (head, bytes) = read_body(response).await?;
        let status = head.status;
        if !status.is_success() {
            let wait = head.headers.get(RETRY_AFTER).and_then(seconds);
            return Err(match problem(status, &bytes) {
                Some(problem) => AttemptError::Problem { problem: Box::new(problem), wait },
                None => AttemptError::Unreadable { status: status.as_u16(), detail: NOT_A_PROBLEM.to_owned() },
            });
        }
        let answer = parse(&bytes).map_err(|detail| AttemptError::Unreadable { status: status.as_u16(), detail })?;
        let etag = head.headers.get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
        Ok(Answered::new(answer, etag, head.headers.contains_key("idempotent-replayed")))
    }
}

impl Call {
    fn final_error(&self, error: AttemptError, key: Option<IdempotencyKey>) -> Error {
        match error {
            AttemptError::Problem { problem, .. } => Error::Problem(problem),
            AttemptError::Transport(TransportError { sent, source }) if sent && self.method != Method::GET => {
                Error::UnknownOutcome { key, source }
            }
            AttemptError::Transport(TransportError { source, .. }) => {
                Error::Unreachable { url: self.client.shared.base.clone(), source }
            }
            AttemptError::Unreadable { status, detail } => {
                Error::Unreadable { url: self.client.shared.base.clone(), status, detail }
            }
        }
    }
}

impl Client {
    /// Starts a request that is sent once, with the token and the tenant.
    pub(crate) fn stream_request(&self, method: Method, path: &Path) -> Result<hyper::http::request::Builder, Error> {
        let uri = format!("{}{}", self.shared.base, path.as_str());
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(bearer) = self.bearer()? {
            request = request.header(AUTHORIZATION, bearer);
        }
        if let Some(tenant) = &self.options.tenant {
            request = request.header("bursar-tenant", tenant.as_str());
        }
        Ok(request)
    }

    /// Sends a request with a stream, and returns the answer if it is a success.
    pub(crate) async fn send_stream(&self, request: Request<Body>) -> Result<Response<Body>, Error> {
        let reading = request.method() == Method::GET;
        let url = || self.shared.base.clone();
        let response =
            self.shared.transport.send_stream(request).await.map_err(|error| match error.sent && !reading {
                true => Error::UnknownOutcome { key: None, source: error.source },
                false => Error::Unreachable { url: url(), source: error.source },
            })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let (_, bytes) = read_body(response).await.map_err(|_| self.not_a_problem(status))?;
        Err(problem(status, &bytes).map_or_else(|| self.not_a_problem(status), Error::from))
    }

    fn not_a_problem(&self, status: StatusCode) -> Error {
        let (url, status) = (self.shared.base.clone(), status.as_u16());
        Error::Unreadable { url, status, detail: NOT_A_PROBLEM.to_owned() }
    }

    /// Reads the whole answer to a request with a stream.
    pub(crate) async fn read_answer<T: DeserializeOwned>(&self, response: Response<Body>) -> Result<T, Error> {
        let status = response.status();
        let (_, bytes) = read_body(response).await.map_err(|_| self.not_a_problem(status))?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let (url, status) = (self.shared.base.clone(), status.as_u16());
            Error::Unreadable { url, status, detail: error.to_string() }
        })
    }
}

/// Reads the whole body of an answer.
async fn read_body(response: Response<Body>) -> Result<(hyper::http::response::Parts, Bytes), AttemptError> {
    let (head, body) = response.into_parts();
    match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
        Ok(body) => Ok((head, body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => {
            let detail = format!("it has more than {ANSWER_BYTES_MAX} bytes");
            Err(AttemptError::Unreadable { status: head.status.as_u16(), detail })
        }
        Err(source) => Err(AttemptError::Transport(TransportError { sent: true, source })),
    }
}

/// What is wrong with an answer that reports an error in a form that Bursar does not use.
pub(crate) const NOT_A_PROBLEM: &str = "the answer is not a problem document";

/// Parses a problem. If the body is none, a proxy may have answered: its status determines the kind, except for a status that any web
/// server gives for a path it does not know, which returns `None`.
pub(crate) fn problem(status: StatusCode, bytes: &[u8]) -> Option<Problem> {
    if let Ok(problem) = serde_json::from_slice(bytes) {
        return Some(problem);
    }
    let kind = Kind::of_status(status.as_u16());
    if matches!(kind, Kind::NotFound | Kind::MethodNotAllowed) || status.is_redirection() {
        return None;
    }
    let mut problem = Problem::new(kind, format!("the server, or a proxy before it, answered with status {status}"));
    problem.status = status.as_u16();
    Some(problem)
}

/// Parses `Retry-After` in seconds. A date is ignored, because the clocks of client and server may differ.
pub(crate) fn seconds(header: &HeaderValue) -> Option<Duration> {
    header.to_str().ok()?.parse().ok().map(Duration::from_secs)
}
