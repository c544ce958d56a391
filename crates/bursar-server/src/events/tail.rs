//! The tail of a tenant's journal. One task per tenant with listeners reads new events and keeps the latest ones for all of them.
//!
//! Each event is encoded as a frame once. The number and size of kept events are bounded per tenant, and their size for the whole
//! server. A listener that falls behind them is disconnected, and can reconnect with the last position it has seen.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar::{Bursar, Event, JobId, JournalEvent, Progress, Queue, RefusalCount, Scope, Stream, Tenant, Time};
use bytes::Bytes;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::progress::{self, WatchedJobs};
use crate::convert;
use crate::in_flight::{Account, BytesInFlight};
use crate::wire::problem::{Kind, Problem};

/// How often the journal is polled for commits of other processes.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How often followers are told of refusals.
const REFUSALS_EVERY: Duration = Duration::from_secs(1);
/// Limits that followers are told of at once.
const REFUSALS_TOLD_MAX: usize = 100;
/// Maximum number of events kept per tenant.
const KEPT_MAX: usize = 4_096;
/// Maximum size of the events kept per tenant, in bytes.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Maximum number of cached queues of jobs.
const QUEUES_MAX: usize = 10_000;
/// Number of events read from the journal at once.
pub(super) const PAGE: usize = 500;

/// An event encoded for listeners, with the properties that channels select by.
pub(super) struct StreamEvent {
    /// Its position in the journal; `None` for progress and refusals, which are not stored.
    pub(super) position: Option<u64>,
    /// The server-sent event.
    pub(super) frame: Bytes,
    pub(super) job: Option<JobId>,
    pub(super) queue: Option<Queue>,
    /// The scopes whose balances it changed.
    pub(super) scopes: Vec<Scope>,
}

impl StreamEvent {
    /// Encodes an event of the journal.
    pub(super) fn of_journal(event: &JournalEvent, queue: Option<Queue>) -> StreamEvent {
        let answer = convert::event_answer(event);
        let data = serde_json::to_value(&answer).unwrap_or_default();
        let (mut queue, mut scopes) = (queue, event.event.scopes().into_iter().cloned().collect::<Vec<_>>());
        match &event.stream {
            Stream::Queue(_, of) => queue = Some(of.clone()),
            Stream::Scope(_, of) => scopes.push(of.clone()),
            _ => {}
        }
        let frame = frame(Some(event.position), &answer.kind, &data);
        StreamEvent { position: Some(event.position), frame, job: event.event.job(), queue, scopes }
    }

    /// Encodes a progress report.
    pub(super) fn of_progress(job: JobId, fence: u64, progress: &Progress) -> StreamEvent {
        let Progress { percent, message, data, .. } = progress;
        let data = json!({ "job": job, "fence": fence, "percent": percent, "message": message, "data": data });
        let frame = frame(None, "progress", &data);
        StreamEvent { position: None, frame, job: Some(job), queue: None, scopes: Vec::new() }
    }

    /// Encodes how often a limit has refused.
    fn of_refusals(count: &RefusalCount, now: Time) -> StreamEvent {
        let data = serde_json::to_value(convert::refusals_answer(count, now)).unwrap_or_default();
        let frame = frame(None, "refused", &data);
        StreamEvent { position: None, frame, job: None, queue: None, scopes: vec![count.scope.clone()] }
    }
}

/// Encodes a server-sent event.
pub(super) fn frame(id: Option<u64>, kind: &str, data: &serde_json::Value) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {kind}\ndata: {data}\n\n").into()
}

/// The latest events of a tenant, for all its listeners. Events are numbered in the order they are added.
pub(super) struct Tail {
    ring: Mutex<Ring>,
    /// The number of the next event; waiting followers watch it.
    end: watch::Sender<u64>,
    bytes: BytesInFlight,
    account: Account,
    /// The jobs whose progress followers listen to.
    pub(super) watched: WatchedJobs,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<Arc<StreamEvent>>,
    /// The number of the first event in `events`.
    first: u64,
    /// The size of all frames in `events`.
    bytes: usize,
}

impl Tail {
    fn new(tenant: &Tenant, bytes: BytesInFlight) -> Tail {
        let account = format!("events of {tenant}").into();
        Tail { ring: Mutex::default(), end: watch::Sender::new(0), bytes, account, watched: WatchedJobs::default() }
    }

    pub(super) fn push(&self, event: StreamEvent) {
        let size = event.frame.len();
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        while ring.events.len() >= KEPT_MAX || (ring.bytes + size > KEPT_BYTES_MAX && !ring.events.is_empty()) {
            ring.remove_first();
        }
        // Frames that slow listeners still hold count too. If there is no room, the event is skipped and every follower is behind.
        match self.bytes.reserve(&self.account, size) {
            Ok(reservation) => {
                let event = StreamEvent { frame: reservation.bind(event.frame), ..event };
                ring.bytes += size;
                ring.events.push_back(Arc::new(event));
            }
            Err(_) => {
                while !ring.events.is_empty() {
                    ring.remove_first();
                }
                ring.first += 1;
            }
        }
        let end = ring.first + ring.events.len() as u64;
        drop(ring);
        self.end.send_replace(end);
    }
}

impl Ring {
    fn remove_first(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.frame.len();
            self.first += 1;
        }
    }
}

/// A listener's position in a tail.
pub(super) struct Follower {
    tail: Arc<Tail>,
    end: watch::Receiver<u64>,
    /// The number of the next event to return.
    next: u64,
    /// The jobs whose progress it listens to.
    jobs: Vec<JobId>,
}

/// Why there is no next event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FollowError {
    /// The listener was too slow, and the next event is no longer kept.
    Behind,
    /// The tail has ended.
    Ended,
}

impl Follower {
    fn new(tail: &Arc<Tail>) -> Follower {
        let end = tail.end.subscribe();
        let next = *end.borrow();
        Follower { tail: tail.clone(), end, next, jobs: Vec::new() }
    }

    /// Listens to the progress of a job, whichever node its worker reports to. It begins with the last report, if there is one.
    pub(super) fn watch(&mut self, job: JobId) {
        self.tail.watched.add(job);
        self.jobs.push(job);
    }

    /// Returns the next event, waiting for it if necessary.
    pub(super) async fn next(&mut self) -> Result<Arc<StreamEvent>, FollowError> {
        loop {
            {
                let ring = self.tail.ring.lock().unwrap_or_else(PoisonError::into_inner);
                if self.next < ring.first {
                    return Err(FollowError::Behind);
                }
                if let Some(event) = ring.events.get((self.next - ring.first) as usize) {
                    self.next += 1;
                    return Ok(event.clone());
                }
            }
            self.end.changed().await.map_err(|_| FollowError::Ended)?;
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.jobs.iter().for_each(|job| self.tail.watched.remove(*job));
    }
}

type TailMap = Mutex<HashMap<Tenant, Arc<Tail>>>;

/// The tails of all tenants with listeners.
pub(crate) struct Tails {
    bursar: Bursar,
    tails: Arc<TailMap>,
    stop: watch::Sender<bool>,
    listeners: Arc<Semaphore>,
    bytes: BytesInFlight,
}

impl Tails {
    pub(crate) fn new(bursar: Bursar, listeners: usize, bytes: BytesInFlight) -> Tails {
        Tails {
            bursar,
            tails: Arc::default(),
            stop: watch::Sender::new(false),
            listeners: Arc::new(Semaphore::new(listeners)),
            bytes,
        }
    }

    /// Ends all streams, because the server shuts down.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Completes when the server shuts down.
    pub(crate) async fn stopped(&self) {
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }

    /// Takes a slot for a listener, or fails with `overloaded`.
    pub(super) fn listener_slot(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.listeners.clone().try_acquire_owned().map_err(|_| {
            let detail =
                "the server has reached its limit on event streams (limits.waiting); nothing was changed; retry later";
            Problem::new(Kind::Overloaded, detail).retry_after(Duration::from_secs(5))
        })
    }

    /// Follows a tenant's events from the current end of the journal. The first follower of a tenant starts its tail.
    pub(super) async fn follow(&self, tenant: &Tenant) -> Result<Follower, Problem> {
        let known = |tails: &HashMap<Tenant, Arc<Tail>>| tails.get(tenant).map(Follower::new);
        if let Some(follower) = known(&self.tails.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(follower);
        }
        let from = self.bursar.health().await?.position;
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(follower) = known(&tails) {
            return Ok(follower);
        }
        let bursar = self.bursar.tenant(tenant)?;
        let tail = Arc::new(Tail::new(tenant, self.bytes.clone()));
        let follower = Follower::new(&tail);
        tails.insert(tenant.clone(), tail.clone());
        tokio::spawn(progress::forward(bursar.clone(), Arc::downgrade(&tail)));
        tokio::spawn(progress::poll(bursar.clone(), Arc::downgrade(&tail), self.stop.subscribe()));
        tokio::spawn(forward_refusals(bursar.clone(), Arc::downgrade(&tail)));
        tokio::spawn(read_journal(bursar, tenant.clone(), from, tail, self.tails.clone(), self.stop.subscribe()));
        Ok(follower)
    }
}

/// Reads a tenant's new journal events into its tail, as long as the tail has followers.
async fn read_journal(
    bursar: Bursar,
    tenant: Tenant,
    from: u64,
    tail: Arc<Tail>,
    tails: Arc<TailMap>,
    mut stop: watch::Receiver<bool>,
) {
    let mut at = from;
    let mut commits = bursar.watch_commits();
    let mut queues = HashMap::new();
    loop {
        commits.mark_unchanged();
        match bursar.journal().read(at, PAGE).await {
            Ok((events, now_at)) => {
                for event in events {
                    let queue = queue_of(&bursar, &mut queues, &event).await;
                    tail.push(StreamEvent::of_journal(&event, queue));
                }
                if now_at > at {
                    at = now_at;
                    continue;
                }
            }
            Err(error) => tracing::warn!(%error, "reading the journal for event streams failed, retrying"),
        }
        {
            let mut tails = tails.lock().unwrap_or_else(PoisonError::into_inner);
            if tail.end.receiver_count() == 0 {
                tails.remove(&tenant);
                return;
            }
        }
        tokio::select! {
            _ = timeout(POLL_INTERVAL, commits.changed()) => {}
            _ = stop.wait_for(|stop| *stop) => {
                tails.lock().unwrap_or_else(PoisonError::into_inner).remove(&tenant);
                return;
            }
        }
    }
}

/// Forwards to a tenant's tail which limits have refused, as long as the tail exists. A limit that refuses often is told once in
/// [`REFUSALS_EVERY`].
async fn forward_refusals(bursar: Bursar, tail: std::sync::Weak<Tail>) {
    let mut refused = bursar.watch_refusals();
    let mut told = Instant::now();
    loop {
        // The timeout ends this task soon after the tail, even if nothing is refused.
        let changed = timeout(POLL_INTERVAL, refused.changed()).await;
        let Some(tail) = tail.upgrade() else { return };
        match changed {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => continue,
        }
        let Ok(now) = bursar.now().await else { continue };
        let since = told.elapsed();
        told = Instant::now();
        for count in bursar.refusals().iter().take_while(|count| count.last <= since).take(REFUSALS_TOLD_MAX) {
            tail.push(StreamEvent::of_refusals(count, now));
        }
        drop(tail);
        tokio::time::sleep(REFUSALS_EVERY).await;
    }
}

/// Returns the queue of an event's job, from the event, the cache or the database.
pub(super) async fn queue_of(
    bursar: &Bursar,
    known: &mut HashMap<JobId, Queue>,
    event: &JournalEvent,
) -> Option<Queue> {
    let job = event.event.job()?;
    if known.len() >= QUEUES_MAX {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn event(position: u64, size: usize) -> StreamEvent {
        let frame = Bytes::from(vec![b'x'; size]);
        StreamEvent { position: Some(position), frame, job: None, queue: None, scopes: Vec::new() }
    }

    fn tail(total: usize) -> Arc<Tail> {
        Arc::new(Tail::new(&Tenant::built_in(), BytesInFlight::new(total, total)))
    }

    #[tokio::test]
    async fn followers_share_events_and_slow_ones_fall_behind() {
        let tail = tail(1 << 30);
        let (mut quick, mut slow) = (Follower::new(&tail), Follower::new(&tail));
        let size = KEPT_BYTES_MAX / 4;
        for position in 0..3 {
            tail.push(event(position, size));
        }
        let first = quick.next().await.unwrap();
        assert!(Arc::ptr_eq(&first, &slow.next().await.unwrap()), "followers share one frame");
        for position in 3..20 {
            tail.push(event(position, size));
            assert_eq!(quick.next().await.unwrap().position, Some(position - 2));
        }
        assert_eq!(slow.next().await.err(), Some(FollowError::Behind));
        drop(first);
        assert_eq!(tail.bytes.total(), 4 * size, "old events are freed");
    }

    #[tokio::test]
    async fn the_number_of_kept_events_is_bounded() {
        let tail = tail(1 << 30);
        let mut slow = Follower::new(&tail);
        for position in 0..=KEPT_MAX as u64 {
            tail.push(event(position, 10));
        }
        assert_eq!(slow.next().await.err(), Some(FollowError::Behind));
    }

    #[tokio::test]
    async fn a_full_server_skips_events_and_drops_followers() {
        let tail = tail(200_000);
        let mut follower = Follower::new(&tail);
        tail.push(event(1, 100_000));
        let kept = follower.next().await.unwrap();
        tail.push(event(2, 150_000));
        assert_eq!(follower.next().await.err(), Some(FollowError::Behind));
        assert_eq!(tail.bytes.total(), 100_000, "only the frame that a follower still holds counts");
        drop(kept);
        assert_eq!(tail.bytes.total(), 0);
        let mut again = Follower::new(&tail);
        tail.push(event(3, 150_000));
        assert_eq!(again.next().await.unwrap().position, Some(3), "a new follower continues");
    }
}
