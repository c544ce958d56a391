//! Events as they happen: one stream of chosen channels, which goes on where it broke off.
//!
//! Listeners of a tenant share one [`tail`] of the journal. The journal is the truth: a listener that comes back with the position it
//! has seen gets what it missed from there.

mod tail;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use axum::body::Body;
use bursar::{Bursar, Clock, CredentialToken, JobId, Queue, Scope};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Interval, MissedTickBehavior, interval};

pub(crate) use self::tail::Tails;
use self::tail::{Follower, Lost, PAGE, Told, frame, queue_of};
use crate::call::Call;
use crate::in_flight::Reserved;
use crate::limits::PAGE_ANSWER_BYTES;
use crate::principal::table::{Action, Role};
use crate::principal::{Principal, authorize};
use crate::reply::EventStream;
use crate::wire::problem::Problem;

/// Positions that are replayed to a listener that comes back; one that missed more begins anew.
const REPLAY_MAX: u64 = 100_000;
/// Channels of one stream.
const CHANNELS_MAX: usize = 100;

/// Which events are wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// One or more, with commas between: `job:{id}`, `queue:{name}`, `budget:{scope}`, `journal`; each percent-encoded where it
    /// has a comma in its name. The journal unless it is said.
    #[serde(default)]
    channels: Option<String>,
    /// The last position that was seen, where it is not said by `Last-Event-ID`.
    #[serde(default)]
    after: Option<u64>,
}

/// What can be listened to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    Job(JobId),
    Queue(Queue),
    Budget(Scope),
    Journal,
}

impl Channel {
    pub(crate) fn read(text: &str) -> Result<Channel, Problem> {
        let plain = percent_decode(text).ok_or_else(|| wrong("a channel is not UTF-8 in percent-encoding"))?;
        match plain.split_once(':') {
            Some(("job", id)) => Ok(Channel::Job(id.parse()?)),
            Some(("queue", name)) => Ok(Channel::Queue(Queue::new(name)?)),
            Some(("budget", scope)) => Ok(Channel::Budget(Scope::new(scope)?)),
            None if plain == "journal" => Ok(Channel::Journal),
            _ => Err(wrong("a channel is job:{id}, queue:{name}, budget:{scope} or journal")),
        }
    }

    /// Refuses a channel that the caller may not read.
    async fn allow(&self, call: &Call) -> Result<(), Problem> {
        let principal = &call.principal;
        // A worker hears of what it may work on.
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

    fn takes(&self, told: &Told) -> bool {
        match self {
            // Progress is no event of the journal: only who listens to its job hears of it.
            Channel::Journal => told.position.is_some(),
            Channel::Job(id) => told.job == Some(*id),
            Channel::Queue(queue) => told.queue.as_ref() == Some(queue),
            Channel::Budget(scope) => told.scopes.contains(scope),
        }
    }
}

fn wrong(detail: &str) -> Problem {
    Problem::invalid("channels".into(), detail)
}

/// The text that stands for this one in percent-encoding, where each sign of percent is one of it.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let encodes = |part: &str| part.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let plain = text.split('%').skip(1).all(encodes).then(|| percent_decode_str(text).decode_utf8())?;
    plain.ok().map(Cow::into_owned)
}

/// Opens a stream.
pub(crate) async fn listen(call: Call, query: EventsQuery) -> Result<EventStream, Problem> {
    let channels = match query.channels.as_deref() {
        Some(channels) => channels.split(',').map(Channel::read).collect::<Result<Vec<_>, _>>()?,
        None => vec![Channel::Journal],
    };
    if channels.len() > CHANNELS_MAX {
        return Err(wrong("at most 100 channels are listened to at once"));
    }
    for channel in &channels {
        channel.allow(&call).await?;
    }
    let place = call.app.tails.place()?;
    let seen = match &call.last_event {
        Some(text) => {
            let wrong = || Problem::invalid("last-event-id".into(), "Last-Event-ID is not a position");
            Some(text.parse().map_err(|_| wrong())?)
        }
        None => query.after,
    };
    // Before the end is read: what happens after that is heard.
    let live = call.app.tails.follow(&call.context.tenant).await?;
    let end = call.app.bursar.health().await?.position;
    let (from, resync) = begun_at(seen, end);
    let greeting = match resync {
        true => frame(Some(from), "resync", &json!({ "reason": "what was missed is not replayed: read anew" })),
        false => frame(Some(from), "ready", &json!({ "position": from })),
    };
    let listener = Listener::new(call, channels, live, place, from, greeting);
    let frames = futures_util::stream::unfold(listener, |mut listener| async move {
        let frame = listener.next().await.ok()?;
        Some((Ok::<_, std::convert::Infallible>(frame), listener))
    });
    Ok(EventStream(Body::from_stream(frames)))
}

/// Where a stream begins for who has seen a position, and whether more was missed than is replayed.
fn begun_at(seen: Option<u64>, end: u64) -> (u64, bool) {
    match seen {
        Some(seen) if seen <= end && end - seen <= REPLAY_MAX => (seen, false),
        Some(_) => (end, true),
        None => (end, false),
    }
}

/// What feeds one connection. It is asked for a frame only when the connection has room for one, so that it has no queue of its own.
struct Listener {
    call: Call,
    bursar: Bursar,
    channels: Vec<Channel>,
    live: Follower,
    beat: Interval,
    /// Frames to be sent first: the greeting, then what was missed, a page of it at a time.
    missed: VecDeque<Bytes>,
    /// What they are counted with.
    room: Option<Reserved>,
    /// Up to which position the journal was read.
    at: u64,
    /// Whether there may be more to read before the live events.
    behind: bool,
    queues: HashMap<JobId, Queue>,
    _place: OwnedSemaphorePermit,
}

/// The stream is over.
struct Over;

impl Listener {
    fn new(
        call: Call,
        channels: Vec<Channel>,
        live: Follower,
        place: OwnedSemaphorePermit,
        from: u64,
        greeting: Bytes,
    ) -> Listener {
        let mut beat = interval(call.app.limits.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        call.app.metrics.listening(true);
        let (bursar, missed) = (call.bursar(), VecDeque::from([greeting]));
        let queues = HashMap::new();
        let room = None;
        Listener { call, bursar, channels, live, beat, missed, room, at: from, behind: true, queues, _place: place }
    }

    /// The next frame.
    async fn next(&mut self) -> Result<Bytes, Over> {
        loop {
            if let Some(frame) = self.missed.pop_front() {
                return Ok(frame);
            }
            if self.behind {
                self.read_missed().await?;
                continue;
            }
            self.room = None;
            let app = self.call.app.clone();
            tokio::select! {
                told = self.live.next() => match told {
                    Ok(told) if self.takes(&told) => return Ok(told.frame.clone()),
                    Ok(_) => {}
                    Err(Lost::Behind) => return Err(self.dropped()),
                    Err(Lost::Over) => return Err(Over),
                },
                _ = self.beat.tick() => {
                    self.still_allowed().await?;
                    return Ok(Bytes::from_static(b": \n\n"));
                }
                () = app.tails.stopped() => return Err(Over),
            }
        }
    }

    /// A page of what was missed, from the journal.
    async fn read_missed(&mut self) -> Result<(), Over> {
        // Who reads no page that it is sent reads no further one: its bytes in flight are used up.
        let (bytes, account) = (&self.call.app.bytes, self.call.principal.account());
        self.room = None;
        let mut room = bytes.reserve_soon(&account, PAGE_ANSWER_BYTES).await.map_err(|_| self.dropped())?;
        let (events, at) = self.bursar.journal().read(self.at, PAGE).await.map_err(|_| Over)?;
        for event in events {
            let queue = queue_of(&self.bursar, &mut self.queues, &event).await;
            let told = Told::event(&event, queue);
            if self.channels.iter().any(|channel| channel.takes(&told)) {
                self.missed.push_back(told.frame);
            }
        }
        // Until the last of them is sent, all of them are counted.
        room.resize(self.missed.iter().map(Bytes::len).sum());
        self.room = Some(room);
        self.behind = at > self.at;
        self.at = at;
        if !self.behind {
            self.queues = HashMap::new();
        }
        Ok(())
    }

    fn takes(&self, told: &Told) -> bool {
        let seen = told.position.is_some_and(|position| position <= self.at);
        !seen && self.channels.iter().any(|channel| channel.takes(told))
    }

    /// A listener that is too slow is dropped, and comes back with the position it has seen.
    fn dropped(&self) -> Over {
        self.call.app.metrics.dropped();
        tracing::info!(tenant = %self.call.context.tenant, "a listener was too slow and was dropped");
        Over
    }

    /// A token that was revoked or has expired ends the stream.
    async fn still_allowed(&self) -> Result<(), Over> {
        let Principal { credential, good_until, .. } = &self.call.principal;
        let now = self.call.app.clock.now().micros() / 1_000_000;
        if good_until.is_some_and(|until| until <= now) {
            return Err(Over);
        }
        let admitted = async |token: &CredentialToken| self.bursar.credentials().admit(token).await;
        match credential {
            Some(token) if matches!(admitted(token).await, Ok(Err(_))) => Err(Over),
            _ => Ok(()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.call.app.metrics.listening(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_missed_too_much_begins_anew() {
        let end = 3 * REPLAY_MAX;
        assert_eq!(begun_at(None, end), (end, false), "who has seen nothing has missed nothing");
        assert_eq!(begun_at(Some(end), end), (end, false));
        assert_eq!(begun_at(Some(end - REPLAY_MAX), end), (end - REPLAY_MAX, false));
        assert_eq!(begun_at(Some(end - REPLAY_MAX - 1), end), (end, true));
        assert_eq!(begun_at(Some(0), end), (end, true));
        assert_eq!(begun_at(Some(end + 1), end), (end, true), "a position that was never told");
        assert_eq!(begun_at(Some(u64::MAX), 0), (0, true));
    }

    #[test]
    fn channels_are_read() {
        assert_eq!(Channel::read("journal").unwrap(), Channel::Journal);
        assert_eq!(Channel::read("queue:media").unwrap(), Channel::Queue(Queue::new("media").unwrap()));
        let scope = Scope::new("show:42/row,A").unwrap();
        assert_eq!(Channel::read("budget:show:42%2Frow%2CA").unwrap(), Channel::Budget(scope));
        for bad in ["", "job", "job:x", "queue:", "journal:x", "blob:1", "budget:%ff", "budget:%4", "budget:%+4"] {
            assert!(Channel::read(bad).is_err(), "{bad}");
        }
    }
}
