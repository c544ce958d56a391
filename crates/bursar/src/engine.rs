//! The engine: requests gather while a batch commits, and share the next one. No timers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::answer::Outcome;
use bursar_core::needs::Needs;
use bursar_core::request::Request;
use bursar_store::{Patience, Store, StoreError, Verdict};
use futures_util::FutureExt;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::error::Error;
use crate::feed::Feed;

/// What the engine may take on.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Requests that may wait; one more is `overloaded`.
    pub(crate) queue: usize,
    /// Requests that share a commit.
    pub(crate) batch: usize,
    /// Batches at once.
    pub(crate) lanes: usize,
    /// How long a request waits for rows that somebody else has locked, before it is `busy`.
    pub(crate) patience: Duration,
}

/// Keys that are detoured at once.
const DETOURS: usize = 4;

pub(crate) struct Engine {
    shared: Arc<Shared>,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

struct Shared {
    store: Arc<dyn Store>,
    feed: Feed,
    load: Load,
    queue: Mutex<Queue>,
    /// Something was queued, or keys became free.
    wake: Notify,
    detours: Semaphore,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Pending>,
    /// Keys of batches that are being committed.
    in_flight: HashSet<u64>,
    /// Requests that wait for rows a stranger has locked, first in, first out for each key.
    detoured: HashMap<u64, VecDeque<Pending>>,
    /// How many are detoured.
    detoured_count: usize,
    closed: bool,
}

struct Pending {
    request: Arc<Request>,
    keys: Vec<u64>,
    until: Instant,
    answer: oneshot::Sender<Result<Outcome, Error>>,
}

impl Engine {
    pub(crate) fn start(store: Arc<dyn Store>, feed: Feed, load: Load) -> Engine {
        let lanes = load.lanes.max(1);
        let shared = Arc::new(Shared {
            store,
            feed,
            load,
            queue: Mutex::default(),
            wake: Notify::new(),
            detours: Semaphore::new(DETOURS),
        });
        let mut tasks = JoinSet::new();
        for _ in 0..lanes {
            tasks.spawn(lane(shared.clone()));
        }
        Engine { shared, tasks: tokio::sync::Mutex::new(tasks) }
    }

    /// Does a request; returns when what it did is durable.
    pub(crate) async fn submit(&self, request: Request) -> Result<Outcome, Error> {
        request.check()?;
        let (answer, answered) = oneshot::channel();
        let pending = Pending {
            // One lane has nobody to make way for.
            keys: if self.shared.load.lanes > 1 { keys(&request) } else { Vec::new() },
            request: Arc::new(request),
            until: Instant::now() + self.shared.load.patience,
            answer,
        };
        self.shared.accept(pending)?;
        answered.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    /// Takes nothing more, does what was accepted, and stops.
    pub(crate) async fn close(&self) {
        self.shared.queue().closed = true;
        self.shared.wake.notify_waiters();
        let mut tasks = self.tasks.lock().await;
        while tasks.join_next().await.is_some() {}
        // What is detoured still holds a permit each.
        let _ = self.shared.detours.acquire_many(DETOURS as u32).await;
    }
}

/// What a request is known to touch, before anything is loaded. Two that share a key do not run at once.
fn keys(request: &Request) -> Vec<u64> {
    let needs = Needs::of(request);
    let hash = |value: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        value(&mut hasher);
        hasher.finish()
    };
    let mut keys: Vec<u64> = needs.scopes.keys().map(|key| hash(&|h| (0u8, key).hash(h))).collect();
    keys.extend(needs.holds.iter().map(|id| hash(&|h| (1u8, id).hash(h))));
    keys.extend(needs.grants.iter().map(|id| hash(&|h| (2u8, id).hash(h))));
    keys.extend(needs.keys.iter().map(|key| hash(&|h| (3u8, key).hash(h))));
    keys.extend(needs.job_keys.iter().map(|key| hash(&|h| (4u8, key).hash(h))));
    keys
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, pending: Pending) -> Result<(), Error> {
        let mut queue = self.queue();
        if queue.closed {
            return Err(StoreError::Closed.into());
        }
        let waiting = queue.waiting.len() + queue.detoured_count;
        if waiting >= self.load.queue {
            return Err(Error::Overloaded { waiting });
        }
        // Behind those who wait for the same rows already, so that nobody overtakes them.
        if let Some(key) = pending.keys.iter().find(|key| queue.detoured.contains_key(key)).copied() {
            queue.detoured_count += 1;
            queue.detoured.entry(key).or_default().push_back(pending);
            return Ok(());
        }
        queue.waiting.push_back(pending);
        drop(queue);
        self.wake.notify_one();
        Ok(())
    }

    /// The next batch: in order, but for requests whose keys another lane is working on.
    fn take(&self) -> Vec<Pending> {
        let mut queue = self.queue();
        let queue = &mut *queue;
        let mut batch = Vec::new();
        if self.load.lanes <= 1 {
            let count = queue.waiting.len().min(self.load.batch);
            batch.extend(queue.waiting.drain(..count));
            return batch;
        }
        let mut taken = HashSet::new();
        let mut left = VecDeque::with_capacity(queue.waiting.len());
        // Keys of what is left waiting are not overtaken either.
        let mut passed: HashSet<u64> = HashSet::new();
        while let Some(pending) = queue.waiting.pop_front() {
            let free = pending.keys.iter().all(|key| !queue.in_flight.contains(key) && !passed.contains(key));
            if free && batch.len() < self.load.batch {
                taken.extend(pending.keys.iter().copied());
                batch.push(pending);
            } else {
                passed.extend(pending.keys.iter().copied());
                left.push_back(pending);
            }
        }
        queue.waiting = left;
        queue.in_flight.extend(taken);
        batch
    }

    /// Gives the keys of a batch back and takes in again what must be asked again.
    fn give_back(&self, keys: &[u64], again: Vec<Pending>) {
        let mut queue = self.queue();
        for key in keys {
            queue.in_flight.remove(key);
        }
        for pending in again.into_iter().rev() {
            queue.waiting.push_front(pending);
        }
        drop(queue);
        if self.load.lanes > 1 {
            self.wake.notify_waiters();
        }
    }

    /// Commits a batch and answers all that can be answered; returns what must be asked again and what is blocked.
    async fn commit(&self, batch: Vec<Pending>, patience: Patience) -> (Vec<Pending>, Vec<Pending>) {
        let requests: Vec<Arc<Request>> = batch.iter().map(|pending| pending.request.clone()).collect();
        let work = AssertUnwindSafe(self.store.commit(&requests, patience)).catch_unwind().await;
        let verdicts = match work {
            Ok(Ok(verdicts)) => verdicts,
            Ok(Err(error)) => return self.failed(batch, patience, error.into()).await,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                let error = Error::Internal(text.unwrap_or_else(|| "panic".into()));
                return self.failed(batch, patience, error).await;
            }
        };
        let (mut again, mut blocked) = (Vec::new(), Vec::new());
        for (pending, verdict) in batch.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Answered(answer) => {
                    if let Ok(Outcome { entry: Some(entry), .. }) = &answer {
                        self.feed.tell(entry);
                    }
                    // A caller that went away has its effect all the same.
                    let _ = pending.answer.send(answer.map_err(Error::from));
                }
                Verdict::Again => again.push(pending),
                Verdict::Blocked => blocked.push(pending),
            }
        }
        (again, blocked)
    }

    /// A batch that failed as a whole. One row that cannot be read must not fail its neighbours for ever, so that
    /// such a batch is run again in halves.
    async fn failed(&self, mut batch: Vec<Pending>, patience: Patience, error: Error) -> (Vec<Pending>, Vec<Pending>) {
        let splits = match &error {
            Error::Internal(_) => true,
            Error::Store(error) => matches!(**error, StoreError::Corrupt { .. }),
            _ => false,
        };
        if !splits || batch.len() == 1 {
            tracing::error!(%error, requests = batch.len(), "a batch failed");
            for pending in batch {
                let _ = pending.answer.send(Err(error.clone()));
            }
            return Default::default();
        }
        let second = batch.split_off(batch.len() / 2);
        let (mut again, mut blocked) = Box::pin(self.commit(batch, patience)).await;
        let (more_again, more_blocked) = Box::pin(self.commit(second, patience)).await;
        again.extend(more_again);
        blocked.extend(more_blocked);
        (again, blocked)
    }

    /// Moves requests out of the lanes, to wait for what a stranger has locked.
    fn detour(self: &Arc<Self>, blocked: Vec<Pending>) {
        for pending in blocked {
            let mut queue = self.queue();
            let known = pending.keys.iter().find(|key| queue.detoured.contains_key(key)).copied();
            let key = known.or_else(|| pending.keys.first().copied()).unwrap_or(0);
            queue.detoured_count += 1;
            queue.detoured.entry(key).or_default().push_back(pending);
            drop(queue);
            if known.is_none() {
                tokio::spawn(detour(self.clone(), key));
            }
        }
    }
}

/// Commits batch after batch.
async fn lane(shared: Arc<Shared>) {
    loop {
        let woken = shared.wake.notified();
        tokio::pin!(woken);
        // Registered before looking, so that nothing queued meanwhile is missed.
        woken.as_mut().enable();
        let batch = shared.take();
        if batch.is_empty() {
            {
                let queue = shared.queue();
                if queue.closed && queue.waiting.is_empty() {
                    return;
                }
            }
            woken.await;
            continue;
        }
        let keys: Vec<u64> = batch.iter().flat_map(|pending| pending.keys.iter().copied()).collect();
        let (again, blocked) = shared.commit(batch, Patience::Skip).await;
        shared.detour(blocked);
        shared.give_back(&keys, again);
    }
}

/// Waits for one key, batch after batch, until nobody wants it any more.
async fn detour(shared: Arc<Shared>, key: u64) {
    let Ok(_permit) = shared.detours.acquire().await else { return };
    loop {
        let batch: Vec<Pending> = {
            let mut queue = shared.queue();
            let Some(waiting) = queue.detoured.get_mut(&key) else { return };
            let count = waiting.len().min(shared.load.batch);
            let batch: Vec<Pending> = waiting.drain(..count).collect();
            if batch.is_empty() {
                queue.detoured.remove(&key);
                return;
            }
            batch
        };
        let taken = batch.len();
        let now = Instant::now();
        let (over, batch): (Vec<_>, Vec<_>) = batch.into_iter().partition(|pending| pending.until <= now);
        for pending in over {
            let busy = StoreError::Busy("somebody else has locked what the request needs".into());
            let _ = pending.answer.send(Err(busy.into()));
        }
        let wait = batch.iter().map(|pending| pending.until - now).min();
        let again = match wait {
            Some(wait) => {
                let (mut again, blocked) = shared.commit(batch, Patience::Wait(wait)).await;
                again.extend(blocked);
                again
            }
            None => Vec::new(),
        };
        let mut queue = shared.queue();
        queue.detoured_count -= taken - again.len();
        let waiting = queue.detoured.entry(key).or_default();
        for pending in again.into_iter().rev() {
            waiting.push_front(pending);
        }
    }
}
