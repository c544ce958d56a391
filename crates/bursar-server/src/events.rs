//! Event streams: the events of selected channels, as server-sent events or over a WebSocket. A client can resume after a disconnect.
//!
//! All listeners of a tenant share one [`tail`] of the journal. A listener that reconnects with the last position it has seen gets
//! the events it missed from the journal, then the live ones from the tail.

mod progress;
pub(crate) mod socket;
mod tail;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use axum::body::Body;
use bursar::{Bursar, JobId, Queue, Scope};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Interval, MissedTickBehavior, interval};

pub(crate) use self::tail::Tails;
use self::tail::{FollowError, Follower, PAGE, StreamEvent, frame, queue_of};
use crate::call::Call;
use crate::in_flight::Reservation;
use crate::limits::PAGE_ANSWER_BYTES;
use crate::principal::authorize;
use crate::principal::permissions::{Action, Role};
use crate::principal::revocation::is_denied;
use crate::reply::EventStream;
use crate::wire::problem::{Kind, Problem};

/// Maximum number of journal positions replayed to a listener that reconnects. One that missed more gets `resync`.
const REPLAY_MAX: u64 = 100_000;
/// The digits of the largest journal position.
pub(crate) const POSITION_DIGITS_MAX: usize = 19;
/// Maximum number of channels of one stream.
const CHANNELS_MAX: usize = 100;

/// The hint for a caller that may not read the default channel.
const NAME_CHANNELS: &str = "the default channel is the whole journal, which this role may not read; name the channels to listen to, such as \
    ?channels=budget:SCOPE,queue:NAME,job:ID";

/// The frame of a heartbeat: a comment.
const HEARTBEAT: &[u8] = b": \n\n";

/// The query of `GET /v1/events`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// Channels, separated by commas: `job:{id}`, `queue:{name}`, `budget:{scope}`, `journal`. A comma in a name must be
    /// percent-encoded. Default: `journal`, which needs the action `journal.read`.
    #[serde(default)]
    channels: Option<String>,
    /// The last journal position that was received, if the request has no `Last-Event-ID` header.
    #[serde(default)]
    after: Option<u64>,
}

/// A channel of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    Job(JobId),
    Queue(Queue),
    Budget(Scope),
    Journal,
}

impl Channel {
    pub(crate) fn read(text: &str) -> Result<Channel, Problem> {
        let plain = percent_decode(text).ok_or_else(|| invalid("a channel is not percent-encoded UTF-8"))?;
        match plain.split_once(':') {
            Some(("job", id)) => Ok(Channel::Job(id.parse()?)),
            Some(("queue", name)) => Ok(Channel::Queue(Queue::new(name)?)),
            Some(("budget", scope)) => Ok(Channel::Budget(Scope::new(scope)?)),
            None if plain == "journal" => Ok(Channel::Journal),
            _ => Err(invalid("a channel must be job:{id}, queue:{name}, budget:{scope} or journal")),
        }
    }

    /// Fails if the caller may not read the channel.
    async fn authorize(&self, call: &Call) -> Result<(), Problem> {
        let principal = &call.principal;
        // A worker may listen to the queues and jobs that its capabilities include.
        let worker = principal.role == Some(Role::Worker);
        match self {
            Channel::Queue(queue) if worker => principal.may_lease_from(queue),
            Channel::Job(id) if worker => match call.bursar().jobs().find(*id).await? {
                Some(job) => principal.may_work_on(&job.queue, &job.kind),
                None => Err(Problem::not_found(format_args!("job {id}"))),
            },
            Channel::Job(id) => {
                authorize(principal, Action::JobsRead)?;
                let found = call.bursar().jobs().find(*id).await?;
                found.map(drop).ok_or_else(|| Problem::not_found(format_args!("job {id}")))
            }
            Channel::Queue(_) => authorize(principal, Action::QueuesRead),
            Channel::Budget(_) => authorize(principal, Action::BudgetsRead),
            Channel::Journal => authorize(principal, Action::JournalRead),
        }
    }

    fn includes(&self, event: &StreamEvent) -> bool {
        match self {
            // Progress is not a journal event; only the channel of its job includes it.
            Channel::Journal => event.position.is_some(),
            Channel::Job(id) => event.job == Some(*id),
            Channel::Queue(queue) => event.queue.as_ref() == Some(queue),
            Channel::Budget(scope) => event.scopes.contains(scope),
        }
    }
}

fn invalid(detail: &str) -> Problem {
    Problem::invalid("channels".into(), detail)
}

/// Decodes percent-encoding; `None` if a `%` is not followed by two hexadecimal digits, or the result is not UTF-8.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let encodes = |part: &str| part.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let plain = text.split('%').skip(1).all(encodes).then(|| percent_decode_str(text).decode_utf8())?;
    plain.ok().map(Cow::into_owned)
}

/// Opens an event stream, over a WebSocket if the caller asks for one.
pub(crate) async fn listen(mut call: Call, query: EventsQuery) -> Result<EventStream, Problem> {
    let upgrade = call.upgrade.take();
    let listener = Listener::open(call, query).await?;
    if let Some(upgrade) = upgrade {
        return Ok(EventStream(upgrade.answer(listener)));
    }
    let frames = futures_util::stream::unfold(listener, |mut listener| async move {
        let frame = listener.next().await.ok()?;
        Some((Ok::<_, std::convert::Infallible>(frame), listener))
    });
    Ok(EventStream::of_frames(Body::from_stream(frames)))
}

/// Returns the position at which a stream starts, and whether the client must resynchronize because the missed events are not
/// replayed.
fn start_position(seen: Option<u64>, end: u64) -> (u64, bool) {
    match seen {
        Some(seen) if seen <= end && end - seen <= REPLAY_MAX => (seen, false),
        Some(_) => (end, true),
        None => (end, false),
    }
}

/// The source of one event stream. It produces a frame only when the connection can send one, so it needs no queue of its own.
struct Listener {
    call: Call,
    bursar: Bursar,
    channels: Vec<Channel>,
    live: Follower,
    heartbeat: Interval,
    /// Frames to send first: the greeting, then the missed events, one page at a time.
    missed: VecDeque<Bytes>,
    /// The memory of `missed`.
    reservation: Option<Reservation>,
    /// The position up to which the journal was read.
    at: u64,
    /// Whether there may be more missed events in the journal before the live ones.
    behind: bool,
    /// Queues of jobs, as far as known while missed events are read.
    queues: HashMap<JobId, Queue>,
    _slot: OwnedSemaphorePermit,
}

/// Why a stream ends.
#[derive(Clone, Copy, Debug)]
enum StreamEnd {
    /// The server stops.
    Stopping,
    /// The token was revoked or has expired.
    Denied,
    /// The client reads too slowly.
    Slow,
    /// The client does not answer pings.
    Silent,
    /// The journal cannot be read.
    Failed,
}

impl Listener {
    /// Opens a stream for a caller, if it may listen to the channels.
    async fn open(call: Call, query: EventsQuery) -> Result<Listener, Problem> {
        let channels = match query.channels.as_deref() {
            Some(channels) => channels.split(',').map(Channel::read).collect::<Result<Vec<_>, _>>()?,
            None => vec![Channel::Journal],
        };
        if channels.len() > CHANNELS_MAX {
            return Err(invalid("a stream can have at most 100 channels; open another stream for more"));
        }
        for channel in &channels {
            channel.authorize(&call).await.map_err(|problem| match query.channels {
                None if problem.kind == Kind::Forbidden => problem.with_hint(NAME_CHANNELS),
                _ => problem,
            })?;
        }
        let slot = call.app.tails.listener_slot()?;
        let seen = match &call.last_event {
            Some(text) => {
                let is_position = text.len() <= POSITION_DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_digit());
                let position = text.parse().ok().filter(|_| is_position);
                let invalid = || Problem::invalid("last-event-id".into(), "Last-Event-ID is not a journal position");
                Some(position.ok_or_else(invalid)?)
            }
            None => query.after,
        };
        // Following begins before the end of the journal is read, so that no event in between is missed.
        let mut live = call.app.tails.follow(&call.context.tenant).await?;
        for channel in &channels {
            if let Channel::Job(id) = channel {
                live.watch(*id);
            }
        }
        let end = call.app.bursar.health().await?.position;
        let (from, resync) = start_position(seen, end);
        let greeting = match resync {
            true => {
                let reason = "too many events were missed, or the position is unknown; read the current state again";
                frame(Some(from), "resync", &json!({ "reason": reason }))
            }
            false => frame(Some(from), "ready", &json!({ "position": from })),
        };
        let mut heartbeat = interval(call.app.limits.heartbeat);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        call.app.metrics.listener(true);
        Ok(Listener {
            bursar: call.bursar(),
            call,
            channels,
            live,
            heartbeat,
            missed: VecDeque::from([greeting]),
            reservation: None,
            at: from,
            behind: true,
            queues: HashMap::new(),
            _slot: slot,
        })
    }

    /// Returns the next frame.
    async fn next(&mut self) -> Result<Bytes, StreamEnd> {
        loop {
            if let Some(frame) = self.missed.pop_front() {
                return Ok(frame);
            }
            if self.behind {
                self.read_missed().await?;
                continue;
            }
            self.reservation = None;
            let app = self.call.app.clone();
            tokio::select! {
                event = self.live.next() => match event {
                    Ok(event) if self.includes(&event) => return Ok(event.frame.clone()),
                    Ok(_) => {}
                    Err(FollowError::Behind) => return Err(self.drop_slow()),
                    Err(FollowError::Ended) => return Err(StreamEnd::Failed),
                },
                _ = self.heartbeat.tick() => {
                    self.check_token().await?;
                    return Ok(Bytes::from_static(HEARTBEAT));
                }
                () = app.tails.stopped() => return Err(StreamEnd::Stopping),
            }
        }
    }

    /// Reads one page of missed events from the journal.
    async fn read_missed(&mut self) -> Result<(), StreamEnd> {
        // A client that does not read its pages uses up its bytes in flight, and gets no further page.
        let (bytes, account) = (&self.call.app.bytes, self.call.principal.account());
        self.reservation = None;
        let reservation = bytes.reserve_or_wait(&account, PAGE_ANSWER_BYTES).await;
        let mut reservation = reservation.map_err(|_| self.drop_slow())?;
        let (events, at) = self.bursar.journal().read(self.at, PAGE).await.map_err(|_| StreamEnd::Failed)?;
        for event in events {
            let queue = queue_of(&self.bursar, &mut self.queues, &event).await;
            let event = StreamEvent::of_journal(&event, queue);
            if self.channels.iter().any(|channel| channel.includes(&event)) {
                self.missed.push_back(event.frame);
            }
        }
        // The whole page stays counted until its last frame is sent.
        reservation.resize(self.missed.iter().map(Bytes::len).sum());
        self.reservation = Some(reservation);
        self.behind = at > self.at;
        self.at = at;
        if !self.behind {
            self.queues = HashMap::new();
        }
        Ok(())
    }

    /// Returns whether a live event belongs to the stream and was not already read from the journal.
    fn includes(&self, event: &StreamEvent) -> bool {
        let seen = event.position.is_some_and(|position| position <= self.at);
        !seen && self.channels.iter().any(|channel| channel.includes(event))
    }

    /// Ends the stream of a client that reads too slowly. It can reconnect with the last position it has seen.
    fn drop_slow(&self) -> StreamEnd {
        self.call.app.metrics.dropped();
        tracing::info!(tenant = %self.call.context.tenant, "event stream closed: client reads too slowly");
        StreamEnd::Slow
    }

    /// Ends the stream of a client that does not answer.
    fn drop_silent(&self) -> StreamEnd {
        self.call.app.metrics.dropped();
        tracing::info!(tenant = %self.call.context.tenant, "event stream closed: client answers no ping");
        StreamEnd::Silent
    }

    /// Ends the stream if its token has been revoked or has expired.
    async fn check_token(&self) -> Result<(), StreamEnd> {
        if is_denied(&self.call).await { Err(StreamEnd::Denied) } else { Ok(()) }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.call.app.metrics.listener(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_missed_too_much_must_resynchronize() {
        let end = 3 * REPLAY_MAX;
        assert_eq!(start_position(None, end), (end, false), "a new listener starts at the end");
        assert_eq!(start_position(Some(end), end), (end, false));
        assert_eq!(start_position(Some(end - REPLAY_MAX), end), (end - REPLAY_MAX, false));
        assert_eq!(start_position(Some(end - REPLAY_MAX - 1), end), (end, true));
        assert_eq!(start_position(Some(0), end), (end, true));
        assert_eq!(start_position(Some(end + 1), end), (end, true), "an unknown position");
        assert_eq!(start_position(Some(u64::MAX), 0), (0, true));
    }

    #[test]
    fn channels_are_parsed() {
        assert_eq!(Channel::read("journal").unwrap(), Channel::Journal);
        assert_eq!(Channel::read("queue:media").unwrap(), Channel::Queue(Queue::new("media").unwrap()));
        let scope = Scope::new("show:42/row,A").unwrap();
        assert_eq!(Channel::read("budget:show:42%2Frow%2CA").unwrap(), Channel::Budget(scope));
        for bad in ["", "job", "job:x", "queue:", "journal:x", "blob:1", "budget:%ff", "budget:%4", "budget:%+4"] {
            assert!(Channel::read(bad).is_err(), "{bad}");
        }
    }
}
