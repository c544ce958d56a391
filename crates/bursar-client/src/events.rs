//! The event stream, which reconnects and continues after the last event.

use std::collections::VecDeque;
use std::time::Duration;

use bursar_core::id::JobId;
use bursar_core::payload::Payload;
use bursar_core::refusal::Invalid;
use bursar_wire::event::EventAnswer;
use bytes::Bytes;
use futures_util::Stream;
use http_body_util::{BodyExt, Limited};
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION, RETRY_AFTER};
use serde::Deserialize;
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::call::{NOT_A_PROBLEM, problem, seconds};
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;
use crate::random;
use crate::sse::{Frame, Parser};
use crate::transport::Body;

/// The connection is considered lost after this time without data. The server sends a comment every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The timeout for opening a stream.
const OPEN_TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum size of a problem, in bytes.
const PROBLEM_BYTES_MAX: usize = 1 << 20;

impl Client {
    /// Subscribes to channels: `job:{id}`, `queue:{name}`, `budget:{scope}`, `journal`. The first call of [`Events::next`] connects.
    pub fn events<S: AsRef<str>>(&self, channels: impl IntoIterator<Item = S>) -> Events {
        // Commas separate channels, so each channel is escaped on its own.
        let channels: Vec<String> =
            channels.into_iter().map(|channel| channel.as_ref().replace('%', "%25").replace(',', "%2C")).collect();
        Events {
            client: self.clone(),
            channels: channels.join(","),
            seen: None,
            open: None,
            parser: Parser::default(),
            ready: VecDeque::new(),
        }
    }
}

/// A message of an event stream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Told {
    /// The subscription is active: all events after this position will follow.
    Ready {
        /// The position in the journal.
        position: u64,
    },
    /// Events were lost. Read the current state again.
    Resync,
    /// An event of the journal.
    Happened(Box<EventAnswer>),
    /// The progress of a job: first its last report, then each further one. It has no position in the journal.
    Progress {
        /// The job.
        job: JobId,
        /// The fence of its lease.
        fence: u64,
        /// How much is done, from 0 to 100.
        percent: Option<f64>,
        /// A text for people.
        message: Option<String>,
        /// JSON for programs.
        data: Payload,
    },
}

/// A stream of events. It reconnects when the connection is lost, and continues after the last event.
pub struct Events {
    client: Client,
    channels: String,
    /// The position of the last event.
    seen: Option<u64>,
    open: Option<Body>,
    parser: Parser,
    ready: VecDeque<Told>,
}

impl Events {
    /// Continues after a position, such as that of an earlier stream.
    pub fn after(mut self, position: u64) -> Events {
        self.seen = Some(position);
        self
    }

    /// Returns the position of the last event.
    pub fn position(&self) -> Option<u64> {
        self.seen
    }

    /// Returns the next message. It fails if the server could not be reached within the client's timeout, or if the server refused the
    /// subscription. A later call reconnects and misses no event.
    pub async fn next(&mut self) -> Result<Told, Error> {
        let mut retry = Retry { timeout: self.client.options.timeout, attempts: 0, failing_since: None };
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(message);
            }
            if self.open.is_none() {
                match Events::connect(self.client.clone(), self.request()?).await {
                    Ok(body) => self.open = Some(body),
                    Err((error, wait)) => {
                        retry.after(wait, error)?.await;
                        continue;
                    }
                }
                self.parser = Parser::default();
            }
            match self.read().await? {
                true => (retry.attempts, retry.failing_since) = (0, None),
                false => {
                    self.open = None;
                    let (url, source) = (self.client.shared.base.clone(), "the connection is lost repeatedly".into());
                    let lost = Error::Unreachable { url, source };
                    retry.after(None, lost)?.await;
                }
            }
        }
    }

    /// Converts to a [`Stream`]. It never ends; polling it after an error reconnects.
    pub fn into_stream(self) -> impl Stream<Item = Result<Told, Error>> + Send {
        futures_util::stream::unfold(self, |mut events| async move {
            let next = events.next().await;
            Some((next, events))
        })
    }

    async fn connect(client: Client, request: Request<Bytes>) -> Result<Body, (Error, Option<Duration>)> {
        let unreachable = |source| (Error::Unreachable { url: client.shared.base.clone(), source }, None);
        let response = match timeout(OPEN_TIMEOUT, client.shared.transport.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(unreachable(error.source)),
            Err(_) => return Err(unreachable("the event stream did not open within the timeout".into())),
        };
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let wait = head.headers.get(RETRY_AFTER).and_then(seconds);
        let body = timeout(OPEN_TIMEOUT, Limited::new(body, PROBLEM_BYTES_MAX).collect()).await;
        let body = body.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let unreadable = || {
            let (url, status) = (client.shared.base.clone(), head.status.as_u16());
            Error::Unreadable { url, status, detail: NOT_A_PROBLEM.to_owned() }
        };
        Err((problem(head.status, &body).map_or_else(unreadable, Error::from), wait))
    }

    fn request(&self) -> Result<Request<Bytes>, Invalid> {
        let path = Path::new("/v1/events").query("channels", Some(&self.channels));
        let mut request = Request::get(format!("{}{}", self.client.shared.base, path.as_str()));
        request = request.header(ACCEPT, "text/event-stream");
        if let Some(bearer) = self.client.bearer()? {
            request = request.header(AUTHORIZATION, bearer);
        }
        if let Some(tenant) = &self.client.options.tenant {
            request = request.header("bursar-tenant", tenant.as_str());
        }
        if let Some(seen) = self.seen {
            request = request.header("last-event-id", seen.to_string());
        }
        request.body(Bytes::new()).map_err(|error| Invalid::new("request", format!("cannot be sent: {error}")))
    }

    /// Reads the next part of the stream; returns `false` if the connection is lost.
    async fn read(&mut self) -> Result<bool, Error> {
        let Some(body) = &mut self.open else { return Ok(false) };
        let Ok(Some(Ok(frame))) = timeout(SILENCE_MAX, body.frame()).await else { return Ok(false) };
        let Ok(bytes) = frame.into_data() else { return Ok(true) };
        let url = self.client.shared.base.clone();
        let unreadable = |detail: String| Error::Unreadable { url: url.clone(), status: 200, detail };
        let frames = match self.parser.feed(&bytes) {
            Ok(frames) => frames,
            Err(too_long) => {
                self.open = None;
                return Err(unreadable(too_long.to_string()));
            }
        };
        for frame in frames {
            // The position advances after parsing, so that an event that cannot be parsed is not skipped silently.
            let message = match parse_message(&frame) {
                Ok(message) => message,
                Err(error) => {
                    self.open = None;
                    return Err(unreadable(format!("{}: {error}", frame.kind)));
                }
            };
            if let Some(Ok(position)) = frame.id.as_deref().map(str::parse) {
                self.seen = Some(position);
            }
            self.ready.extend(message);
        }
        Ok(true)
    }
}

/// The state of reconnecting.
struct Retry {
    timeout: Duration,
    attempts: u32,
    failing_since: Option<Instant>,
}

impl Retry {
    /// Returns the delay before the next attempt, or the error if a retry is useless or the timeout is over.
    fn after(&mut self, wait: Option<Duration>, error: Error) -> Result<Sleep, Error> {
        self.attempts += 1;
        let delay = wait.unwrap_or_default().max(random::backoff(self.attempts));
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        match error.is_transient() && since.elapsed() + delay < self.timeout {
            true => Ok(sleep(delay)),
            false => Err(error),
        }
    }
}

/// Parses a message; returns `None` for a type that this version does not know.
fn parse_message(frame: &Frame) -> serde_json::Result<Option<Told>> {
    #[derive(Deserialize)]
    struct Ready {
        position: u64,
    }
    #[derive(Deserialize)]
    struct Progress {
        job: JobId,
        fence: u64,
        percent: Option<f64>,
        message: Option<String>,
        #[serde(default)]
        data: Payload,
    }
    Ok(Some(match frame.kind.as_str() {
        "ready" => {
            let Ready { position } = serde_json::from_str(&frame.data)?;
            Told::Ready { position }
        }
        "resync" => Told::Resync,
        "progress" => {
            let Progress { job, fence, percent, message, data } = serde_json::from_str(&frame.data)?;
            Told::Progress { job, fence, percent, message, data }
        }
        // Events of the journal have a position; anything else comes from a newer server.
        _ if frame.id.is_none() => return Ok(None),
        _ => Told::Happened(serde_json::from_str(&frame.data)?),
    }))
}
