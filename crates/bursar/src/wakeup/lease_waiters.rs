//! Workers that wait for jobs, and how they are woken. No background task runs while no worker waits.
//!
//! For each queue and each list of kinds there is a first-in, first-out list of waiting workers. A commit of this process that makes jobs
//! ready wakes as many workers as there are jobs. A worker that gets as many jobs as it requested wakes the next one, because there may be
//! more. The [`Watcher`] wakes workers for commits of other processes and for jobs that become due.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::event::Entry;
use bursar_core::job::{LeaseRequest, wants};
use bursar_core::name::{JobKind, Tenant};
use bursar_core::state::QueueKey;
use bursar_core::wakes::Ready;
use bursar_store::Store;
use bursar_store::wakeup::Notification;
use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::sender::NotificationSender;
use super::watcher::{BACKSTOP, POLL_EVERY, Watcher};
use crate::engine::Counters;
use crate::error::Error;

/// The most workers that wait. One more fails with `overloaded`.
const WAITERS_MAX: usize = 10_000;
/// The longest time for which a queue ignores changes of the change counter after one that brought no job. The counter changes with every
/// commit, also with those that make no job ready.
const IGNORE_MAX: Duration = Duration::from_millis(50);

/// All workers of this process that wait for jobs.
pub(crate) struct LeaseWaiters {
    pub(super) store: Arc<dyn Store>,
    pub(super) poll_every: Duration,
    /// Whether to listen for notifications. Cleared if they turn out to be unsupported.
    pub(super) listens: AtomicBool,
    state: Mutex<State>,
    /// Wakes the watcher when workers have joined or a job becomes due.
    pub(super) changed: Notify,
    sender: Option<Arc<NotificationSender>>,
    pub(super) polls: AtomicU64,
    pub(super) received: AtomicU64,
}

/// The waiting workers of all queues, and the watcher.
#[derive(Default)]
pub(super) struct State {
    next_id: u64,
    /// The number of waiting workers.
    count: usize,
    queues: HashMap<QueueKey, QueueWaiters>,
    /// Whether a watcher is running.
    watched: bool,
    watcher: Option<JoinHandle<()>>,
    closed: bool,
}

/// The workers that wait for jobs of one queue.
#[derive(Default)]
struct QueueWaiters {
    by_kinds: HashMap<Arc<[JobKind]>, VecDeque<Waiter>>,
    /// When the next job is due, if known.
    due: Option<Instant>,
    /// Until when changes of the change counter are ignored.
    ignore_until: Option<Instant>,
    /// How long changes are ignored after one that woke a worker. Doubles while changes bring no job.
    ignore_for: Duration,
    /// Whether a change was ignored. It wakes a worker when the time is over.
    change_ignored: bool,
}

struct Waiter {
    id: u64,
    wake: Arc<Notify>,
}

/// One waiting worker, in the lists of all queues it wants jobs from. Dropping it removes it from them.
pub(crate) struct LeaseWaiter {
    waiters: Arc<LeaseWaiters>,
    id: u64,
    queues: Vec<QueueKey>,
    kinds: Arc<[JobKind]>,
    wake: Arc<Notify>,
}

/// What the watcher does next.
pub(super) enum Next {
    /// It wakes up at this time at the latest.
    At(Instant),
    /// It keeps listening for a while, although no worker waits.
    Idle,
    /// It ends.
    Stop,
}

impl LeaseWaiters {
    pub(crate) fn new(store: Arc<dyn Store>, poll_every: Duration, listens: bool) -> Arc<LeaseWaiters> {
        let sender = store.notifier().filter(|notifier| notifier.needs_sending()).map(NotificationSender::new);
        Arc::new(LeaseWaiters {
            store,
            poll_every,
            listens: listens.into(),
            state: Mutex::default(),
            changed: Notify::new(),
            sender,
            polls: AtomicU64::new(0),
            received: AtomicU64::new(0),
        })
    }

    /// Returns the counters of the engine, with those of polls and notifications added.
    pub(crate) fn counters(&self, engine: Counters) -> Counters {
        Counters {
            polls: self.polls.load(Ordering::Relaxed),
            notifications_received: self.received.load(Ordering::Relaxed),
            notifications_sent: self.sender.as_ref().map_or(0, |sender| sender.sent()),
            ..engine
        }
    }

    /// Returns the number of workers that wait for jobs.
    pub(crate) fn count(&self) -> usize {
        self.state().count
    }

    /// Adds a worker. It must join before it first tries to lease jobs. Otherwise it would miss a job that becomes ready in between.
    pub(crate) fn join(self: &Arc<Self>, tenant: &Tenant, request: &LeaseRequest) -> Result<LeaseWaiter, Error> {
        let mut kinds = request.kinds.clone();
        kinds.sort();
        let (kinds, wake): (Arc<[JobKind]>, _) = (kinds.into(), Arc::new(Notify::new()));
        let queues: Vec<QueueKey> = request.queues.iter().map(|queue| (tenant.clone(), queue.clone())).collect();
        let mut state = self.state();
        if state.count >= WAITERS_MAX {
            return Err(Error::Overloaded { waiting: state.count });
        }
        state.count += 1;
        state.next_id += 1;
        let id = state.next_id;
        drop(state);
        let waiter = LeaseWaiter { waiters: self.clone(), id, queues, kinds, wake };
        waiter.rejoin();
        Ok(waiter)
    }

    /// Wakes workers of this process, and notifies other processes, for the queues that an entry made ready.
    pub(crate) fn wake_for(&self, entry: &Entry) {
        if let Some(sender) = &self.sender {
            sender.send_entry(entry);
        }
        if entry.wakes.queues.is_empty() {
            return;
        }
        let mut state = self.state();
        if state.count == 0 {
            return;
        }
        let mut due_later = false;
        for Ready { queue, kind, count, due_in } in &entry.wakes.queues {
            let Some(queue_waiters) = state.queues.get_mut(&(entry.context.tenant.clone(), queue.clone())) else {
                continue;
            };
            if let Some(due_in) = due_in {
                queue_waiters.note_due(Instant::now() + Duration::from(*due_in));
                due_later = true;
            }
            queue_waiters.wake(kind.as_ref(), *count);
        }
        drop(state);
        if due_later {
            self.changed.notify_one();
        }
    }

    /// Wakes one worker of a queue, here and in other processes, for a change that has no entry. If that worker gets as many jobs as it
    /// requested, it wakes the next one.
    pub(crate) fn wake_queue(&self, queue: &QueueKey) {
        if let Some(sender) = &self.sender {
            sender.send_queue(queue);
        }
        if let Some(queue_waiters) = self.state().queues.get_mut(queue) {
            queue_waiters.wake(None, 1);
        }
    }

    /// Starts the watcher, or wakes it if it is running.
    fn watch(self: &Arc<Self>) {
        let mut state = self.state();
        if state.watched || state.closed {
            self.changed.notify_one();
            return;
        }
        state.watched = true;
        state.watcher = Some(tokio::spawn(Watcher::new(self.clone()).run()));
    }

    /// Stops the watcher.
    pub(crate) fn stop(&self) {
        self.state().closed = true;
        self.changed.notify_one();
    }

    /// Stops the watcher, and returns when all notifications are sent and the watcher has ended.
    pub(crate) async fn close(&self) {
        self.stop();
        if let Some(sender) = &self.sender {
            sender.flush().await;
        }
        let watcher = self.state().watcher.take();
        if let Some(watcher) = watcher {
            let _ = watcher.await;
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Handles a change of the change counter, which means that a process has committed.
    pub(super) fn note_change(&mut self, now: Instant) {
        self.queues.values_mut().for_each(|queue_waiters| queue_waiters.note_change(now));
    }

    /// Wakes one worker of each queue that a notification names.
    pub(super) fn wake_for(&mut self, notification: &Notification) {
        let concerned = self.queues.iter_mut().filter(|(key, _)| notification.concerns(key));
        concerned.for_each(|(_, queue_waiters)| queue_waiters.wake(None, 1));
    }

    /// Wakes one worker of each queue and list of kinds.
    pub(super) fn wake_one_each(&mut self) {
        self.queues.values_mut().for_each(|queue_waiters| queue_waiters.wake(None, 1));
    }

    /// Wakes workers for jobs that are due now, and returns what the watcher does next. If `lingers`, the watcher keeps listening although
    /// no worker waits.
    pub(super) fn wake_due(&mut self, now: Instant, lingers: bool) -> Next {
        if self.closed || (self.count == 0 && !lingers) {
            self.watched = false;
            return Next::Stop;
        }
        if self.count == 0 {
            return Next::Idle;
        }
        let mut next = now + BACKSTOP;
        for queue_waiters in self.queues.values_mut() {
            if queue_waiters.change_ignored {
                queue_waiters.note_change(now);
            }
            if let Some(until) = queue_waiters.ignore_until.filter(|_| queue_waiters.change_ignored) {
                next = next.min(until);
            }
            match queue_waiters.due {
                Some(due) if due <= now => {
                    queue_waiters.due = None;
                    queue_waiters.wake(None, 1);
                }
                Some(due) => next = next.min(due),
                None => {}
            }
        }
        Next::At(next)
    }
}

impl QueueWaiters {
    fn note_due(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |known| known.min(at)));
    }

    /// Wakes one worker of each list of kinds, which finds out whether the change made jobs ready. The pauses between such wake-ups grow
    /// while changes bring no job.
    fn note_change(&mut self, now: Instant) {
        if self.ignore_until.is_some_and(|until| now < until) {
            self.change_ignored = true;
            return;
        }
        let quiet = self.ignore_until.is_none_or(|until| now > until + IGNORE_MAX);
        self.ignore_for = if quiet { POLL_EVERY } else { (self.ignore_for * 2).min(IGNORE_MAX) };
        self.ignore_until = Some(now + self.ignore_for);
        self.change_ignored = false;
        self.wake(None, 1);
    }

    /// Wakes `count` workers that want a kind. Without a kind, wakes `count` workers for each list of kinds.
    fn wake(&mut self, kind: Option<&JobKind>, count: usize) {
        let mut left = count;
        for (kinds, waiters) in &mut self.by_kinds {
            if kind.is_some_and(|kind| !wants(kinds, kind)) {
                continue;
            }
            let some = if kind.is_some() { left } else { count };
            for waiter in waiters.drain(..some.min(waiters.len())) {
                waiter.wake.notify_one();
                left -= usize::from(kind.is_some());
            }
        }
    }
}

impl LeaseWaiter {
    /// Appends the worker to the lists of its queues that it is not in. A wake-up removes it from the list that it came from.
    pub(crate) fn rejoin(&self) {
        let mut state = self.waiters.state();
        for queue in &self.queues {
            let queue_waiters = state.queues.entry(queue.clone()).or_default();
            let waiters = queue_waiters.by_kinds.entry(self.kinds.clone()).or_default();
            if !waiters.iter().any(|waiter| waiter.id == self.id) {
                waiters.push_back(Waiter { id: self.id, wake: self.wake.clone() });
            }
        }
    }

    /// Records that the worker got jobs. Its queues stop ignoring changes.
    pub(crate) fn note_found(&self) {
        let mut state = self.waiters.state();
        for queue in &self.queues {
            if let Some(queue_waiters) = state.queues.get_mut(queue) {
                (queue_waiters.ignore_until, queue_waiters.change_ignored) = (None, false);
            }
        }
    }

    /// Waits until it is woken.
    pub(crate) async fn woken(&self) {
        self.waiters.watch();
        self.wake.notified().await;
    }

    /// Records that the next job is due after a span.
    pub(crate) fn note_due_in(&self, span: Duration) {
        let at = Instant::now() + span;
        let mut state = self.waiters.state();
        for queue in &self.queues {
            if let Some(queue_waiters) = state.queues.get_mut(queue) {
                queue_waiters.note_due(at);
            }
        }
        drop(state);
        self.waiters.changed.notify_one();
    }

    /// Wakes the next worker with the same kinds, because there may be more jobs than this one took.
    pub(crate) fn wake_next(&self) {
        let mut state = self.waiters.state();
        for queue in &self.queues {
            let queue_waiters = state.queues.get_mut(queue);
            let next = queue_waiters.and_then(|queue_waiters| {
                let waiters = queue_waiters.by_kinds.get_mut(&self.kinds)?;
                let index = waiters.iter().position(|waiter| waiter.id != self.id)?;
                waiters.remove(index)
            });
            if let Some(waiter) = next {
                waiter.wake.notify_one();
                return;
            }
        }
    }
}

impl Drop for LeaseWaiter {
    fn drop(&mut self) {
        // A worker that was woken but leaves without leasing passes the wake-up on.
        if self.wake.notified().now_or_never().is_some() {
            self.wake_next();
        }
        let mut state = self.waiters.state();
        state.count -= 1;
        for queue in &self.queues {
            let Some(queue_waiters) = state.queues.get_mut(queue) else { continue };
            if let Some(waiters) = queue_waiters.by_kinds.get_mut(&self.kinds) {
                waiters.retain(|waiter| waiter.id != self.id);
                if waiters.is_empty() {
                    queue_waiters.by_kinds.remove(&self.kinds);
                }
            }
            if queue_waiters.by_kinds.is_empty() {
                state.queues.remove(queue);
            }
        }
    }
}
