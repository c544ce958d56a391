//! Events as they happen, which go on where they broke off.

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

use crate::call::{problem, seconds};
use crate::chance;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;
use crate::sse::{Parser, Sent};
use crate::transport::Body;

/// The server says something every quarter of a minute: who hears nothing for so long has lost the connection.
const SILENCE: Duration = Duration::from_secs(45);
/// How long opening a stream may take.
const OPEN: Duration = Duration::from_secs(15);
/// Bytes of a problem that are read.
const PROBLEM_BYTES_MAX: usize = 1 << 20;

impl Client {
    /// Listens to channels: `job:{id}`, `queue:{name}`, `budget:{scope}`, `journal`. Nothing is asked before the first event is.
    pub fn events<S: AsRef<str>>(&self, channels: impl IntoIterator<Item = S>) -> Events {
        // A comma would end a channel, so that each is escaped for itself.
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

/// What is told on a stream of events.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Told {
    /// From this position on everything is told.
    Ready {
        /// The position.
        position: u64,
    },
    /// Something was missed that is not told any more: read anew what matters.
    Resync,
    /// Something happened.
    Happened(Box<EventAnswer>),
    /// How far a job is. It is told as it happens and kept nowhere.
    Progress {
        /// The job.
        job: JobId,
        /// By which lease.
        fence: u64,
        /// How much of it is done, from 0 to 100.
        percent: Option<f64>,
        /// In words.
        message: Option<String>,
        /// Anything else.
        data: Payload,
    },
}

/// A stream of events. When its connection breaks it is opened again, and goes on after the last event that was seen.
pub struct Events {
    client: Client,
    channels: String,
    seen: Option<u64>,
    open: Option<Body>,
    parser: Parser,
    ready: VecDeque<Told>,
}

impl Events {
    /// Goes on after this position, as of a stream that ended before.
    pub fn after(mut self, position: u64) -> Events {
        self.seen = Some(position);
        self
    }

    /// The last position that was seen.
    pub fn position(&self) -> Option<u64> {
        self.seen
    }

    /// The next event. An error says that nobody could be asked for as long as the client's patience lasts, or that the server does
    /// not want to tell; what was missed is told when it is asked again.
    pub async fn next(&mut self) -> Result<Told, Error> {
        let mut patience = Patience { most: self.client.options.patience, tried: 0, failing: None };
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Ok(told);
            }
            if self.open.is_none() {
                match Events::connect(self.client.clone(), self.request()?).await {
                    Ok(body) => self.open = Some(body),
                    Err((error, wait)) => {
                        patience.over(wait, error)?.await;
                        continue;
                    }
                }
                self.parser = Parser::default();
            }
            match self.read().await? {
                // As long as something is heard nobody has to be patient.
                true => (patience.tried, patience.failing) = (0, None),
                false => {
                    self.open = None;
                    let over = Error::Unreachable { source: "the stream breaks off again and again".into() };
                    patience.over(None, over)?.await;
                }
            }
        }
    }

    /// The events as a stream of `futures`; it never ends, and goes on after an error when it is polled again.
    pub fn into_stream(self) -> impl Stream<Item = Result<Told, Error>> + Send {
        futures_util::stream::unfold(self, |mut events| async move {
            let next = events.next().await;
            Some((next, events))
        })
    }

    async fn connect(client: Client, request: Request<Bytes>) -> Result<Body, (Error, Option<Duration>)> {
        let unreachable = |source| (Error::Unreachable { source }, None);
        let response = match timeout(OPEN, client.shared.transport.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(unreachable(error.source)),
            Err(elapsed) => return Err(unreachable(elapsed.into())),
        };
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let wait = head.headers.get(RETRY_AFTER).and_then(seconds);
        let said = timeout(OPEN, Limited::new(body, PROBLEM_BYTES_MAX).collect()).await;
        let said = said.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Err((problem(head.status, &said).into(), wait))
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

    /// Reads what comes next; `false` if nothing more comes on this connection.
    async fn read(&mut self) -> Result<bool, Error> {
        let Some(body) = &mut self.open else { return Ok(false) };
        let Ok(Some(Ok(frame))) = timeout(SILENCE, body.frame()).await else { return Ok(false) };
        let Ok(bytes) = frame.into_data() else { return Ok(true) };
        let unreadable = |detail: String| Error::Unreadable { status: 200, detail };
        let sent = match self.parser.take(&bytes) {
            Ok(sent) => sent,
            Err(too_long) => {
                self.open = None;
                return Err(unreadable(too_long.to_string()));
            }
        };
        for one in sent {
            // First what is read, then where it stands: what cannot be read is not passed over unseen, and is told again.
            let told = match told(&one) {
                Ok(told) => told,
                Err(error) => {
                    self.open = None;
                    return Err(unreadable(format!("{}: {error}", one.kind)));
                }
            };
            if let Some(Ok(position)) = one.id.as_deref().map(str::parse) {
                self.seen = Some(position);
            }
            self.ready.extend(told);
        }
        Ok(true)
    }
}

/// How long nothing was heard.
struct Patience {
    most: Duration,
    tried: u32,
    failing: Option<Instant>,
}

impl Patience {
    /// The pause before the next try, unless that does not help or patience is over.
    fn over(&mut self, wait: Option<Duration>, error: Error) -> Result<Sleep, Error> {
        self.tried += 1;
        let pause = wait.unwrap_or_default().max(chance::pause(self.tried));
        let since = *self.failing.get_or_insert_with(Instant::now);
        match error.is_transient() && since.elapsed() + pause < self.most {
            true => Ok(sleep(pause)),
            false => Err(error),
        }
    }
}

fn told(sent: &Sent) -> serde_json::Result<Option<Told>> {
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
    Ok(Some(match sent.kind.as_str() {
        "ready" => {
            let Ready { position } = serde_json::from_str(&sent.data)?;
            Told::Ready { position }
        }
        "resync" => Told::Resync,
        "progress" => {
            let Progress { job, fence, percent, message, data } = serde_json::from_str(&sent.data)?;
            Told::Progress { job, fence, percent, message, data }
        }
        // What stands in the journal has a position; what is told otherwise is of tomorrow.
        _ if sent.id.is_none() => return Ok(None),
        _ => Told::Happened(serde_json::from_str(&sent.data)?),
    }))
}
