//! Workers that wait for jobs, and how they are woken. No background task runs while no worker waits.
//!
//! Waiting workers form one line for each queue and list of kinds. A commit of this process that makes jobs ready wakes as many workers
//! as there are jobs. A worker that gets as many jobs as it requested wakes the next one, because there may be more. The [`Watcher`]
//! wakes workers for commits of other processes and for jobs that become due.

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
/// The longest time that a line ignores changes after a change that brought it no job. The change counter moves with every commit, also
/// with those that concern no waiting worker.
const IGNORE_MAX: Duration = Duration::from_millis(50);

/// All workers of this process that wait for jobs.
pub(crate) struct LeaseWaiters {
    pub(super) store: Arc<dyn Store>,
    pub(super) poll_every: Duration,
    /// Whether to listen for notifications. Cleared if they turn out to be unsupported.
    pub(super) listens: AtomicBool,
    lines: Mutex<Lines>,
    /// Wakes the watcher when the lines have changed.
    pub(super) changed: Notify,
    sender: Option<Arc<NotificationSender>>,
    pub(super) polls: AtomicU64,
    pub(super) received: AtomicU64,
}

/// The lines of all queues.
#[derive(Default)]
pub(super) struct Lines {
    next_id: u64,
    waiters: usize,
    lines: HashMap<QueueKey, Line>,
    watched: bool,
    watcher: Option<JoinHandle<()>>,
    closed: bool,
}

/// The workers that wait for jobs of one queue.
#[derive(Default)]
struct Line {
    by_kinds: HashMap<Arc<[JobKind]>, VecDeque<Waiter>>,
    /// When the next job is due, if known.
    due: Option<Instant>,
    /// Until when changes are ignored.
    ignore_until: Option<Instant>,
    /// How long changes are ignored after the last one that woke a worker. It doubles while changes bring no job.
    ignore_for: Duration,
    /// Whether a change was ignored.
    changed: bool,
}

struct Waiter {
    id: u64,
    wake: Arc<Notify>,
}

/// One waiting worker, in the lines of all queues it wants jobs from. It leaves them when dropped.
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
            lines: Mutex::default(),
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
        self.lines().waiters
    }

    /// Adds a worker. It must join before it first tries to lease jobs: otherwise it would miss a wake-up in between.
    pub(crate) fn join(self: &Arc<Self>, tenant: &Tenant, ask: &LeaseRequest) -> Result<LeaseWaiter, Error> {
        let mut kinds = ask.kinds.clone();
        kinds.sort();
        let (kinds, wake): (Arc<[JobKind]>, _) = (kinds.into(), Arc::new(Notify::new()));
        let queues: Vec<QueueKey> = ask.queues.iter().map(|queue| (tenant.clone(), queue.clone())).collect();
        let mut lines = self.lines();
        if lines.waiters >= WAITERS_MAX {
            return Err(Error::Overloaded { waiting: lines.waiters });
        }
        lines.waiters += 1;
        lines.next_id += 1;
        let id = lines.next_id;
        drop(lines);
        let waiter = LeaseWaiter { waiters: self.clone(), id, queues, kinds, wake };
        waiter.queue_up();
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
        let mut lines = self.lines();
        if lines.waiters == 0 {
            return;
        }
        let mut due_later = false;
        for Ready { queue, kind, count, due_in } in &entry.wakes.queues {
            let Some(line) = lines.lines.get_mut(&(entry.context.tenant.clone(), queue.clone())) else { continue };
            if let Some(due_in) = due_in {
                line.note_due(Instant::now() + Duration::from(*due_in));
                due_later = true;
            }
            line.wake(kind.as_ref(), *count);
        }
        drop(lines);
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
        if let Some(line) = self.lines().lines.get_mut(queue) {
            line.wake(None, 1);
        }
    }

    /// Starts the watcher, or wakes it if it is running.
    fn watch(self: &Arc<Self>) {
        let mut lines = self.lines();
        if lines.watched || lines.closed {
            self.changed.notify_one();
            return;
        }
        lines.watched = true;
        lines.watcher = Some(tokio::spawn(Watcher::new(self.clone()).run()));
    }

    /// Stops the watcher.
    pub(crate) fn stop(&self) {
        self.lines().closed = true;
        self.changed.notify_one();
    }

    /// Stops the watcher, and returns when all notifications are sent and the watcher has ended.
    pub(crate) async fn close(&self) {
        self.stop();
        if let Some(sender) = &self.sender {
            sender.flush().await;
        }
        let watcher = self.lines().watcher.take();
        if let Some(watcher) = watcher {
            let _ = watcher.await;
        }
    }

    pub(super) fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    /// Handles a change of the change counter: some process has committed.
    pub(super) fn note_change(&mut self, now: Instant) {
        self.lines.values_mut().for_each(|line| line.note_change(now));
    }

    /// Wakes one worker of each line that a notification concerns.
    pub(super) fn wake_for(&mut self, notification: &Notification) {
        let concerned = self.lines.iter_mut().filter(|(key, _)| notification.concerns(key));
        concerned.for_each(|(_, line)| line.wake(None, 1));
    }

    /// Wakes one worker of each line.
    pub(super) fn wake_one_each(&mut self) {
        self.lines.values_mut().for_each(|line| line.wake(None, 1));
    }

    /// Wakes workers for jobs that are due now, and returns what the watcher does next. `lingers` is whether the watcher stays when no
    /// worker waits.
    pub(super) fn wake_due(&mut self, now: Instant, lingers: bool) -> Next {
        if self.closed || (self.waiters == 0 && !lingers) {
            self.watched = false;
            return Next::Stop;
        }
        if self.waiters == 0 {
            return Next::Idle;
        }
        let mut next = now + BACKSTOP;
        for line in self.lines.values_mut() {
            if line.changed {
                line.note_change(now);
            }
            if let Some(until) = line.ignore_until.filter(|_| line.changed) {
                next = next.min(until);
            }
            match line.due {
                Some(due) if due <= now => {
                    line.due = None;
                    line.wake(None, 1);
                }
                Some(due) => next = next.min(due),
                None => {}
            }
        }
        Next::At(next)
    }
}

impl Line {
    fn note_due(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |known| known.min(at)));
    }

    /// Wakes one worker to find out whether a change brought jobs for this queue. As long as changes bring none, this happens less and
    /// less often.
    fn note_change(&mut self, now: Instant) {
        if self.ignore_until.is_some_and(|until| now < until) {
            self.changed = true;
            return;
        }
        let quiet = self.ignore_until.is_none_or(|until| now > until + IGNORE_MAX);
        self.ignore_for = if quiet { POLL_EVERY } else { (self.ignore_for * 2).min(IGNORE_MAX) };
        self.ignore_until = Some(now + self.ignore_for);
        self.changed = false;
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
    /// Joins the end of every line of its queues that it is not in. Being woken removes a worker from a line.
    pub(crate) fn queue_up(&self) {
        let mut lines = self.waiters.lines();
        for queue in &self.queues {
            let line = lines.lines.entry(queue.clone()).or_default();
            let waiters = line.by_kinds.entry(self.kinds.clone()).or_default();
            if !waiters.iter().any(|waiter| waiter.id == self.id) {
                waiters.push_back(Waiter { id: self.id, wake: self.wake.clone() });
            }
        }
    }

    /// Records that the worker got jobs, so that its lines stop ignoring changes.
    pub(crate) fn note_found(&self) {
        let mut lines = self.waiters.lines();
        for queue in &self.queues {
            if let Some(line) = lines.lines.get_mut(queue) {
                (line.ignore_until, line.changed) = (None, false);
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
        let mut lines = self.waiters.lines();
        for queue in &self.queues {
            if let Some(line) = lines.lines.get_mut(queue) {
                line.note_due(at);
            }
        }
        drop(lines);
        self.waiters.changed.notify_one();
    }

    /// Wakes the next worker with the same kinds, because there may be more jobs than this one took.
    pub(crate) fn wake_next(&self) {
        let mut lines = self.waiters.lines();
        for queue in &self.queues {
            let line = lines.lines.get_mut(queue);
            let next = line.and_then(|line| {
                let waiters = line.by_kinds.get_mut(&self.kinds)?;
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
        let mut lines = self.waiters.lines();
        lines.waiters -= 1;
        for queue in &self.queues {
            let Some(line) = lines.lines.get_mut(queue) else { continue };
            if let Some(waiters) = line.by_kinds.get_mut(&self.kinds) {
                waiters.retain(|waiter| waiter.id != self.id);
                if waiters.is_empty() {
                    line.by_kinds.remove(&self.kinds);
                }
            }
            if line.by_kinds.is_empty() {
                lines.lines.remove(queue);
            }
        }
    }
}
