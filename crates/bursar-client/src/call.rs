//! One call: tried until it is answered, it is not safe to try again, or patience is over.

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
use crate::chance;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;
use crate::transport::{Body, TransportError};

/// Bytes of an answer that are read at most.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How long one try may take; waiting for jobs comes on top.
const TRY: Duration = Duration::from_secs(15);

/// A call to be made.
pub(crate) struct Call {
    client: Client,
    method: Method,
    path: Path,
    body: Result<Option<Bytes>, Invalid>,
    /// How long the server may wait before it answers.
    waits: Duration,
    repeats: Repeats,
}

/// What makes a second try of a call safe that may have had an effect.
#[derive(Clone, Copy, PartialEq)]
enum Repeats {
    /// It has none, or the same one again.
    ByNature,
    /// The same idempotency key.
    ByKey,
}

impl Client {
    pub(crate) fn get(&self, path: Path) -> Call {
        self.call(Method::GET, path, Ok(None), Repeats::ByNature)
    }

    pub(crate) fn post(&self, path: Path, body: &impl Serialize) -> Call {
        self.call(Method::POST, path, json(body), Repeats::ByKey)
    }

    pub(crate) fn put(&self, path: Path, body: &impl Serialize) -> Call {
        self.call(Method::PUT, path, json(body), Repeats::ByKey)
    }

    pub(crate) fn patch(&self, path: Path, body: &impl Serialize) -> Call {
        self.call(Method::PATCH, path, json(body), Repeats::ByKey)
    }

    pub(crate) fn delete(&self, path: Path) -> Call {
        self.call(Method::DELETE, path, Ok(None), Repeats::ByKey)
    }

    fn call(&self, method: Method, path: Path, body: Result<Option<Bytes>, Invalid>, repeats: Repeats) -> Call {
        Call { client: self.clone(), method, path, body, waits: Duration::ZERO, repeats }
    }
}

fn json(body: &impl Serialize) -> Result<Option<Bytes>, Invalid> {
    let text = serde_json::to_vec(body);
    text.map(|text| Some(text.into()))
        .map_err(|error| Invalid::new("body", format!("cannot be written as JSON: {error}")))
}

/// An answer that is on its way.
type Answer<T> = BoxFuture<'static, Result<Answered<T>, Error>>;

/// Reads the bytes of an answer.
type Read<T> = fn(&[u8]) -> Result<T, String>;

/// Why a try came to nothing.
enum Failed {
    /// The server says no.
    Problem { problem: Box<Problem>, wait: Option<Duration> },
    /// No answer came.
    Transport(TransportError),
    /// The answer cannot be read.
    Unreadable { status: u16, detail: String },
}

impl Call {
    /// The server may wait so long before it answers.
    pub(crate) fn waits(self, waits: Duration) -> Self {
        Call { waits, ..self }
    }

    /// The same again has the same effect, without a key.
    pub(crate) fn by_nature(self) -> Self {
        Call { repeats: Repeats::ByNature, ..self }
    }

    /// Makes the call; there is nothing to read in the answer.
    pub(crate) fn done(self) -> Answer<()> {
        self.ask(|_| Ok(())).boxed()
    }

    /// Makes the call and reads the answer.
    pub(crate) fn answer<T: DeserializeOwned + Send + 'static>(self) -> Answer<T> {
        self.ask(|bytes| serde_json::from_slice(bytes).map_err(|error| error.to_string())).boxed()
    }

    async fn ask<T>(self, read: Read<T>) -> Result<Answered<T>, Error> {
        let options = &self.client.options;
        let key = match self.repeats {
            Repeats::ByKey => options.key.clone().or_else(|| (options.tries > 1).then(chance::key)),
            Repeats::ByNature => None,
        };
        let request = self.request(key.as_ref())?;
        let deadline = Instant::now() + options.patience + self.waits;
        let mut tried = 0;
        loop {
            let until = deadline.min(Instant::now() + TRY + self.waits);
            let failed = match timeout_at(until, self.attempt(request.clone(), read)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(failed)) => failed,
                Err(elapsed) => Failed::Transport(TransportError { sent: true, source: elapsed.into() }),
            };
            tried += 1;
            let pause = self.pause(&failed, tried, key.is_some());
            match pause.filter(|pause| tried < options.tries && Instant::now() + *pause < deadline) {
                Some(pause) => {
                    tracing::debug!(path = self.path.as_str(), tried, ?pause, "a call is tried again");
                    sleep(pause).await;
                }
                None => return Err(self.told(failed, key)),
            }
        }
    }

    /// How long to wait before the next try; `None` if there must be none.
    fn pause(&self, failed: &Failed, tried: u32, keyed: bool) -> Option<Duration> {
        let repeats = keyed || self.repeats == Repeats::ByNature;
        match failed {
            Failed::Problem { problem, wait } => {
                let safe = repeats || problem.kind != Kind::UnknownOutcome;
                (problem.kind.is_transient() && safe).then(|| wait.unwrap_or_default().max(chance::pause(tried)))
            }
            Failed::Transport(error) => (repeats || !error.sent).then(|| chance::pause(tried)),
            Failed::Unreadable { .. } => None,
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
        // What is in a header must be ASCII, which names of tenants and keys need not be.
        request.map_err(|error| Invalid::new("request", format!("cannot be sent: {error}")).into())
    }

    async fn attempt<T>(&self, request: Request<Bytes>, read: Read<T>) -> Result<Answered<T>, Failed> {
        let (head, bytes) = whole(self.client.shared.transport.send(request).await.map_err(Failed::Transport)?).await?;
        let status = head.status;
        if !status.is_success() {
            let wait = head.headers.get(RETRY_AFTER).and_then(seconds);
            return Err(Failed::Problem { problem: Box::new(problem(status, &bytes)), wait });
        }
        let answer = read(&bytes).map_err(|detail| Failed::Unreadable { status: status.as_u16(), detail })?;
        let etag = head.headers.get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
        Ok(Answered::new(answer, etag, head.headers.contains_key("idempotent-replayed")))
    }
}

impl Call {
    fn told(&self, failed: Failed, key: Option<IdempotencyKey>) -> Error {
        match failed {
            Failed::Problem { problem, .. } => Error::Problem(problem),
            Failed::Transport(TransportError { sent, source }) if sent && self.method != Method::GET => {
                Error::UnknownOutcome { key, source }
            }
            Failed::Transport(TransportError { source, .. }) => Error::Unreachable { source },
            Failed::Unreadable { status, detail } => Error::Unreadable { status, detail },
        }
    }
}

/// An answer with its whole body.
async fn whole(response: Response<Body>) -> Result<(hyper::http::response::Parts, Bytes), Failed> {
    let (head, body) = response.into_parts();
    match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
        Ok(body) => Ok((head, body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => {
            let detail = format!("it has more than {ANSWER_BYTES_MAX} bytes");
            Err(Failed::Unreadable { status: head.status.as_u16(), detail })
        }
        Err(source) => Err(Failed::Transport(TransportError { sent: true, source })),
    }
}

/// What the server says is wrong; from its status alone if somebody else answered.
pub(crate) fn problem(status: StatusCode, bytes: &[u8]) -> Problem {
    serde_json::from_slice(bytes).unwrap_or_else(|_| {
        let mut problem = Problem::new(Kind::of_status(status.as_u16()), format!("the answer is {status}"));
        problem.status = status.as_u16();
        problem
    })
}

/// So many seconds; a date is not heeded, as clocks differ.
pub(crate) fn seconds(header: &HeaderValue) -> Option<Duration> {
    header.to_str().ok()?.parse().ok().map(Duration::from_secs)
}
