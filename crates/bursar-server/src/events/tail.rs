//! Tails: one task for each tenant that somebody listens to reads the journal and keeps the last events for all its listeners.
//!
//! An event is written as a frame once. What is kept is bounded by bytes and by events, for a tenant and for the whole server; a listener
//! that falls behind what is kept is dropped, and comes back with the position it has seen.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar::{Bursar, Event, JobId, JournalEvent, Progressed, Queue, Scope, Stream, Tenant};
use bytes::Bytes;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use crate::convert;
use crate::in_flight::{Account, InFlight};
use crate::wire::problem::{Kind, Problem};

/// How often the journal is looked at for what other processes did.
const LOOK: Duration = Duration::from_millis(250);
/// Events that a listener may be behind …
const BEHIND_MAX: usize = 4_096;
/// … and bytes of them.
const BEHIND_BYTES_MAX: usize = 4 << 20;
/// Queues of jobs that are remembered.
const QUEUES_KEPT: usize = 10_000;
/// Events that are read at once.
pub(super) const PAGE: usize = 500;

/// An event on its way to listeners, with what channels go by.
pub(super) struct Told {
    /// Its position in the journal; none for progress, which is kept nowhere.
    pub(super) position: Option<u64>,
    pub(super) frame: Bytes,
    pub(super) job: Option<JobId>,
    pub(super) queue: Option<Queue>,
    /// The scopes it moved.
    pub(super) scopes: Vec<Scope>,
}

impl Told {
    /// An event of the journal.
    pub(super) fn event(event: &JournalEvent, queue: Option<Queue>) -> Told {
        let answer = convert::event_answer(event);
        let data = serde_json::to_value(&answer).unwrap_or_default();
        let (mut queue, mut scopes) = (queue, event.event.scopes().into_iter().cloned().collect::<Vec<_>>());
        match &event.stream {
            Stream::Queue(_, of) => queue = Some(of.clone()),
            Stream::Scope(_, of) => scopes.push(of.clone()),
            _ => {}
        }
        let frame = frame(Some(event.position), &answer.kind, &data);
        Told { position: Some(event.position), frame, job: event.event.job(), queue, scopes }
    }

    fn progress(told: &Progressed) -> Told {
        let bursar::Progress { percent, message, data } = &told.progress;
        let data =
            json!({ "job": told.job, "fence": told.fence, "percent": percent, "message": message, "data": data });
        let frame = frame(None, "progress", &data);
        Told { position: None, frame, job: Some(told.job), queue: None, scopes: Vec::new() }
    }
}

/// A frame of server-sent events.
pub(super) fn frame(id: Option<u64>, kind: &str, data: &serde_json::Value) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {kind}\ndata: {data}\n\n").into()
}

/// What is kept for the listeners of a tenant.
pub(super) struct Tail {
    ring: Mutex<Ring>,
    /// The number of the next event; whoever waits for it hears of it here.
    end: watch::Sender<u64>,
    bytes: InFlight,
    account: Account,
}

#[derive(Default)]
struct Ring {
    kept: VecDeque<Arc<Told>>,
    /// The number of the first that is kept.
    first: u64,
    bytes: usize,
}

impl Tail {
    fn new(tenant: &Tenant, bytes: InFlight) -> Tail {
        let account = format!("events of {tenant}").into();
        Tail { ring: Mutex::default(), end: watch::Sender::new(0), bytes, account }
    }

    fn push(&self, told: Told) {
        let size = told.frame.len();
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        while ring.kept.len() >= BEHIND_MAX || (ring.bytes + size > BEHIND_BYTES_MAX && !ring.kept.is_empty()) {
            ring.forget_first();
        }
        // What slow listeners still have is counted too: where that is too much, those who are behind lose this one.
        match self.bytes.reserve(&self.account, size) {
            Ok(reserved) => {
                let told = Told { frame: reserved.bind(told.frame), ..told };
                ring.bytes += size;
                ring.kept.push_back(Arc::new(told));
            }
            Err(_) => {
                while !ring.kept.is_empty() {
                    ring.forget_first();
                }
                ring.first += 1;
            }
        }
        let end = ring.first + ring.kept.len() as u64;
        drop(ring);
        self.end.send_replace(end);
    }
}

impl Ring {
    fn forget_first(&mut self) {
        if let Some(told) = self.kept.pop_front() {
            self.bytes -= told.frame.len();
            self.first += 1;
        }
    }
}

/// A listener's place in a tail.
pub(super) struct Follower {
    tail: Arc<Tail>,
    end: watch::Receiver<u64>,
    next: u64,
}

/// Why there is no next event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The listener was too slow: what comes next is not kept any more.
    Behind,
    /// The tail is over.
    Over,
}

impl Follower {
    fn new(tail: &Arc<Tail>) -> Follower {
        let end = tail.end.subscribe();
        let next = *end.borrow();
        Follower { tail: tail.clone(), end, next }
    }

    /// The next event.
    pub(super) async fn next(&mut self) -> Result<Arc<Told>, Lost> {
        loop {
            {
                let ring = self.tail.ring.lock().unwrap_or_else(PoisonError::into_inner);
                if self.next < ring.first {
                    return Err(Lost::Behind);
                }
                if let Some(told) = ring.kept.get((self.next - ring.first) as usize) {
                    self.next += 1;
                    return Ok(told.clone());
                }
            }
            self.end.changed().await.map_err(|_| Lost::Over)?;
        }
    }
}

type Listened = Mutex<HashMap<Tenant, Arc<Tail>>>;

/// The tails of all tenants that somebody listens to.
pub(crate) struct Tails {
    bursar: Bursar,
    tails: Arc<Listened>,
    stop: watch::Sender<bool>,
    listeners: Arc<Semaphore>,
    bytes: InFlight,
}

impl Tails {
    pub(crate) fn new(bursar: Bursar, listeners: usize, bytes: InFlight) -> Tails {
        Tails {
            bursar,
            tails: Arc::default(),
            stop: watch::Sender::new(false),
            listeners: Arc::new(Semaphore::new(listeners)),
            bytes,
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

    /// A place for one more listener.
    pub(super) fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.listeners.clone().try_acquire_owned().map_err(|_| {
            Problem::new(Kind::Overloaded, "as many listen as can be served").retry_after(Duration::from_secs(5))
        })
    }

    /// Listens to a tenant's events from now on, wherever now is.
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
        tokio::spawn(tell_progress(bursar.clone(), Arc::downgrade(&tail)));
        tokio::spawn(read_on(bursar, tenant.clone(), from, tail, self.tails.clone(), self.stop.subscribe()));
        Ok(follower)
    }
}

/// Reads a tenant's part of the journal as it grows, for as long as somebody listens.
async fn read_on(
    bursar: Bursar,
    tenant: Tenant,
    from: u64,
    tail: Arc<Tail>,
    tails: Arc<Listened>,
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
                    tail.push(Told::event(&event, queue));
                }
                if now_at > at {
                    at = now_at;
                    continue;
                }
            }
            Err(error) => tracing::warn!(%error, "the journal cannot be read for listeners; trying again"),
        }
        {
            let mut tails = tails.lock().unwrap_or_else(PoisonError::into_inner);
            if tail.end.receiver_count() == 0 {
                tails.remove(&tenant);
                return;
            }
        }
        tokio::select! {
            _ = timeout(LOOK, commits.changed()) => {}
            _ = stop.wait_for(|stop| *stop) => {
                tails.lock().unwrap_or_else(PoisonError::into_inner).remove(&tenant);
                return;
            }
        }
    }
}

/// Passes progress of a tenant's jobs on, as long as its tail is there.
async fn tell_progress(bursar: Bursar, tail: std::sync::Weak<Tail>) {
    let mut notices = bursar.jobs().listen_progress();
    loop {
        // A tail that is gone is noticed within a moment, also where no progress comes.
        let told = timeout(LOOK, notices.next()).await;
        let Some(tail) = tail.upgrade() else { return };
        match told {
            Ok(Some(Ok(told))) => tail.push(Told::progress(&told)),
            Ok(Some(Err(_))) | Err(_) => {}
            Ok(None) => return,
        }
    }
}

/// The queue that the job of an event is in.
pub(super) async fn queue_of(
    bursar: &Bursar,
    known: &mut HashMap<JobId, Queue>,
    event: &JournalEvent,
) -> Option<Queue> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(position: u64, size: usize) -> Told {
        let frame = Bytes::from(vec![b'x'; size]);
        Told { position: Some(position), frame, job: None, queue: None, scopes: Vec::new() }
    }

    fn tail(total: usize) -> Arc<Tail> {
        Arc::new(Tail::new(&Tenant::built_in(), InFlight::new(total, total)))
    }

    #[tokio::test]
    async fn listeners_share_what_is_kept_and_who_falls_behind_is_told_so() {
        let tail = tail(1 << 30);
        let (mut quick, mut slow) = (Follower::new(&tail), Follower::new(&tail));
        let size = BEHIND_BYTES_MAX / 4;
        for position in 0..3 {
            tail.push(told(position, size));
        }
        let first = quick.next().await.unwrap();
        assert!(Arc::ptr_eq(&first, &slow.next().await.unwrap()), "one frame for all of them");
        for position in 3..20 {
            tail.push(told(position, size));
            assert_eq!(quick.next().await.unwrap().position, Some(position - 2));
        }
        assert_eq!(slow.next().await.err(), Some(Lost::Behind));
        drop(first);
        assert_eq!(tail.bytes.total(), 4 * size, "what nobody can get any more is not kept");
        drop((quick, slow));
        drop(tail);
    }

    #[tokio::test]
    async fn many_small_events_are_bounded_too() {
        let tail = tail(1 << 30);
        let mut slow = Follower::new(&tail);
        for position in 0..=BEHIND_MAX as u64 {
            tail.push(told(position, 10));
        }
        assert_eq!(slow.next().await.err(), Some(Lost::Behind));
    }

    #[tokio::test]
    async fn where_the_server_is_full_listeners_lose_events_and_nothing_more_is_kept() {
        let tail = tail(200_000);
        let mut follower = Follower::new(&tail);
        tail.push(told(1, 100_000));
        let kept = follower.next().await.unwrap();
        tail.push(told(2, 150_000));
        assert_eq!(follower.next().await.err(), Some(Lost::Behind));
        assert_eq!(tail.bytes.total(), 100_000, "only what a listener still has");
        drop(kept);
        assert_eq!(tail.bytes.total(), 0);
        let mut again = Follower::new(&tail);
        tail.push(told(3, 150_000));
        assert_eq!(again.next().await.unwrap().position, Some(3), "and then it goes on");
    }
}
