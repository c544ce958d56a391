//! Events as they happen: one stream of chosen channels, which goes on where it broke off.
//!
//! One task for each tenant that somebody listens to reads the journal and tells all its listeners, so that it costs the same
//! however many they are. The journal is the truth: who comes back with the position it has seen gets what it missed from there.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use bursar::{
    Bursar, Clock, CredentialToken, Event, JobId, JournalEvent, ProgressNotices, Queue, Scope, Stream, Tenant,
};
use bytes::Bytes;
use futures_util::FutureExt;
use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::call::Call;
use crate::principal::table::{Action, Role};
use crate::principal::{Principal, authorize};
use crate::reply::EventStream;
use crate::wire::event::EventAnswer;
use crate::wire::problem::{Kind, Problem};

/// How often the journal is looked at for what other processes did.
const LOOK: Duration = Duration::from_millis(250);
/// Events that a listener may be behind.
const BEHIND_MAX: usize = 4_096;
/// Events on their way to one connection.
const UNDER_WAY: usize = 64;
/// Positions that are replayed to who comes back; who missed more begins anew.
const REPLAY_MAX: u64 = 100_000;
/// Channels of one stream.
const CHANNELS_MAX: usize = 100;
/// Queues of jobs that are remembered.
const QUEUES_KEPT: usize = 10_000;
/// Events that are read at once.
const PAGE: usize = 500;

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

    fn takes(&self, seen: &Seen) -> bool {
        match self {
            Channel::Journal => true,
            Channel::Job(id) => seen.event.event.job() == Some(*id),
            Channel::Queue(queue) => {
                seen.queue.as_ref() == Some(queue) || matches!(&seen.event.stream, Stream::Queue(_, of) if of == queue)
            }
            Channel::Budget(scope) => {
                let of = matches!(&seen.event.stream, Stream::Scope(_, of) if of == scope);
                of || seen.event.event.scopes().contains(&scope)
            }
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

/// An event, with the queue of its job.
struct Seen {
    event: JournalEvent,
    queue: Option<Queue>,
}

impl Seen {
    fn frame(&self) -> Bytes {
        let answer = EventAnswer::from(&self.event);
        frame(Some(self.event.position), &answer.kind, &serde_json::to_value(&answer).unwrap_or_default())
    }
}

fn frame(id: Option<u64>, kind: &str, data: &serde_json::Value) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {kind}\ndata: {data}\n\n").into()
}

/// Who reads the journal for listeners.
pub(crate) struct Tails {
    bursar: Bursar,
    tails: Arc<Mutex<HashMap<Tenant, broadcast::Sender<Arc<Seen>>>>>,
    stop: watch::Sender<bool>,
    listeners: Arc<Semaphore>,
}

impl Tails {
    pub(crate) fn new(bursar: Bursar, listeners: usize) -> Tails {
        Tails {
            bursar,
            tails: Arc::default(),
            stop: watch::Sender::new(false),
            listeners: Arc::new(Semaphore::new(listeners)),
        }
    }

    /// The server ends: streams end, and who waits is answered.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Until the server ends.
    pub(crate) async fn stopped(&self) {
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }

    /// Listens to a tenant's events from now on, wherever now is.
    async fn subscribe(&self, tenant: &Tenant) -> Result<broadcast::Receiver<Arc<Seen>>, Problem> {
        let known =
            |tails: &HashMap<Tenant, broadcast::Sender<Arc<Seen>>>| tails.get(tenant).map(broadcast::Sender::subscribe);
        if let Some(events) = known(&self.tails.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(events);
        }
        let from = self.bursar.health().await?.position;
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(events) = known(&tails) {
            return Ok(events);
        }
        let (told, events) = broadcast::channel(BEHIND_MAX);
        tails.insert(tenant.clone(), told.clone());
        let bursar = self.bursar.tenant(tenant)?;
        tokio::spawn(follow(bursar, tenant.clone(), from, told, self.tails.clone(), self.stop.subscribe()));
        Ok(events)
    }
}

type Listened = Mutex<HashMap<Tenant, broadcast::Sender<Arc<Seen>>>>;

/// Reads a tenant's part of the journal as it grows, for as long as somebody listens.
async fn follow(
    bursar: Bursar,
    tenant: Tenant,
    from: u64,
    told: broadcast::Sender<Arc<Seen>>,
    tails: Arc<Listened>,
    mut stop: watch::Receiver<bool>,
) {
    let mut at = from;
    let mut notices = bursar.listen();
    let mut queues = HashMap::new();
    loop {
        match bursar.journal().read(at, PAGE).await {
            Ok((events, now_at)) => {
                for event in events {
                    let queue = queue_of(&bursar, &mut queues, &event).await;
                    // Who came and went again is told nothing.
                    let _ = told.send(Arc::new(Seen { event, queue }));
                }
                if now_at > at {
                    at = now_at;
                    continue;
                }
            }
            Err(error) => tracing::warn!(%error, "the journal cannot be read for those who listen"),
        }
        {
            let mut tails = tails.lock().unwrap_or_else(PoisonError::into_inner);
            if told.receiver_count() == 0 {
                tails.remove(&tenant);
                return;
            }
        }
        tokio::select! {
            _ = timeout(LOOK, notices.next()) => while notices.next().now_or_never().flatten().is_some() {},
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

/// The queue that the job of an event is in.
async fn queue_of(bursar: &Bursar, known: &mut HashMap<JobId, Queue>, event: &JournalEvent) -> Option<Queue> {
    let job = event.event.job()?;
    if known.len() >= QUEUES_KEPT {
        known.clear();
    }
    match &event.event {
        Event::JobEnqueued { spec, .. } => drop(known.insert(job, spec.queue.clone())),
        Event::JobMoved { queue, .. } => drop(known.insert(job, queue.clone())),
        _ if known.contains_key(&job) => {}
        _ => {
            let found = bursar.jobs().find(job).await.ok().flatten()?;
            known.insert(job, found.queue);
        }
    }
    known.get(&job).cloned()
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
    let place = call.app.tails.listeners.clone().try_acquire_owned().map_err(|_| {
        Problem::new(Kind::Overloaded, "as many listen as can be served").retry_after(Duration::from_secs(5))
    })?;
    let seen = match &call.last_event {
        Some(text) => {
            let wrong = || Problem::invalid("last-event-id".into(), "Last-Event-ID is not a position");
            Some(text.parse().map_err(|_| wrong())?)
        }
        None => query.after,
    };
    // Before the end is read: what happens after that is heard.
    let live = call.app.tails.subscribe(&call.context.tenant).await?;
    let end = call.app.bursar.health().await?.position;
    let (from, resync) = begun_at(seen, end);
    let bursar = call.bursar();
    let told_progress = channels.iter().any(|channel| matches!(channel, Channel::Job(_)));
    let progress = told_progress.then(|| bursar.jobs().listen_progress());
    let (told, mut frames) = mpsc::channel(UNDER_WAY);
    tokio::spawn(Pump { call, bursar, channels, told, place }.run(from, resync, live, progress));
    let frames = futures_util::stream::poll_fn(move |context| {
        frames.poll_recv(context).map(|frame| frame.map(Ok::<_, std::convert::Infallible>))
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

/// What feeds one connection.
struct Pump {
    call: Call,
    bursar: Bursar,
    channels: Vec<Channel>,
    told: mpsc::Sender<Bytes>,
    #[expect(dead_code, reason = "it is given back with the rest")]
    place: OwnedSemaphorePermit,
}

/// The stream is over.
struct Over;

impl Pump {
    async fn run(
        self,
        from: u64,
        resync: bool,
        live: broadcast::Receiver<Arc<Seen>>,
        progress: Option<ProgressNotices>,
    ) {
        let app = self.call.app.clone();
        app.metrics.listening(true);
        // Whoever is dropped comes back with the position it has seen.
        let _: Result<(), Over> = async {
            let greeting = match resync {
                true => frame(Some(from), "resync", &json!({ "reason": "what was missed is not replayed: read anew" })),
                false => frame(Some(from), "ready", &json!({ "position": from })),
            };
            self.tell(greeting).await?;
            let from = self.replay(from).await?;
            self.follow(from, live, progress).await
        }
        .await;
        app.metrics.listening(false);
    }

    /// What was missed, from the journal.
    async fn replay(&self, from: u64) -> Result<u64, Over> {
        let mut at = from;
        let mut queues = HashMap::new();
        loop {
            let (events, now_at) = self.bursar.journal().read(at, PAGE).await.map_err(|_| Over)?;
            for event in events {
                let queue = queue_of(&self.bursar, &mut queues, &event).await;
                self.tell_seen(&Seen { event, queue }).await?;
            }
            if now_at == at {
                return Ok(at);
            }
            at = now_at;
        }
    }

    async fn follow(
        &self,
        from: u64,
        mut live: broadcast::Receiver<Arc<Seen>>,
        mut progress: Option<ProgressNotices>,
    ) -> Result<(), Over> {
        let mut beat = interval(self.call.app.limits.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        loop {
            tokio::select! {
                seen = live.recv() => match seen {
                    Ok(seen) if seen.event.position > from => self.tell_seen(&seen).await?,
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Lagged(_)) => return Err(self.dropped()),
                    Err(broadcast::error::RecvError::Closed) => return Err(Over),
                },
                told = next(&mut progress) => self.tell_progress(told).await?,
                _ = beat.tick() => {
                    self.still_allowed().await?;
                    self.tell(Bytes::from_static(b": \n\n")).await?;
                }
                () = self.call.app.tails.stopped() => return Err(Over),
                () = self.told.closed() => return Err(Over),
            }
        }
    }

    async fn tell_seen(&self, seen: &Seen) -> Result<(), Over> {
        match self.channels.iter().any(|channel| channel.takes(seen)) {
            true => self.tell(seen.frame()).await,
            false => Ok(()),
        }
    }

    async fn tell_progress(&self, told: Arc<bursar::Progressed>) -> Result<(), Over> {
        if !self.channels.contains(&Channel::Job(told.job)) {
            return Ok(());
        }
        let bursar::Progress { percent, message, data } = &told.progress;
        let data =
            json!({ "job": told.job, "fence": told.fence, "percent": percent, "message": message, "data": data });
        // It is kept nowhere, so that it has no position to come back to.
        self.tell(frame(None, "progress", &data)).await
    }

    async fn tell(&self, frame: Bytes) -> Result<(), Over> {
        match timeout(self.call.app.limits.listener, self.told.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Over),
            Err(_) => Err(self.dropped()),
        }
    }

    /// Nobody waits for who is too slow.
    fn dropped(&self) -> Over {
        self.call.app.metrics.dropped();
        tracing::info!(tenant = %self.call.context.tenant, "a listener was too slow");
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

async fn next(progress: &mut Option<ProgressNotices>) -> Arc<bursar::Progressed> {
    loop {
        match progress {
            Some(notices) => match notices.next().await {
                Some(Ok(told)) => return told,
                Some(Err(_)) => {}
                None => *progress = None,
            },
            None => std::future::pending().await,
        }
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
