//! The task that watches other processes and the clock while workers wait: it listens for notifications, polls the change counter as the
//! fallback, and sets a timer for due jobs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bursar_store::wakeup::Notification;
use tokio::time::{Instant, sleep_until};

use super::lease_waiters::{LeaseWaiters, Next};
use super::listener::NotificationListener;

/// How often the change counter is polled without notifications, by default.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(3);
/// How often it is polled at least while notifications arrive.
const POLL_EVERY_NOTIFIED: Duration = Duration::from_secs(1);
/// How often it is polled at most while polling fails.
const POLL_EVERY_FAILED: Duration = Duration::from_millis(250);
/// How long it is polled often after another process was seen to write: a write can be seen only once it is committed.
const AFTER_WRITE: Duration = Duration::from_secs(1);
/// How long the listener stays open when no worker waits any more.
const LINGER: Duration = Duration::from_secs(10);
/// How often one worker of each line looks for jobs without a reason.
pub(super) const BACKSTOP: Duration = Duration::from_secs(1);

pub(super) struct Watcher {
    waiters: Arc<LeaseWaiters>,
    listener: NotificationListener,
    /// The change counter at the last poll. Before the first poll anything may have changed.
    counter: Option<u64>,
    poll_at: Instant,
    /// Another process was seen to write: until then it polls often and does not listen.
    writing_until: Instant,
    backstop_at: Instant,
    /// No worker waits. If that does not change until then, the watcher ends.
    idle_until: Option<Instant>,
}

impl Watcher {
    pub(super) fn new(waiters: Arc<LeaseWaiters>) -> Watcher {
        let notifier = waiters.store.notifier().filter(|_| waiters.listens.load(Ordering::Relaxed));
        let now = Instant::now();
        Watcher {
            waiters,
            listener: NotificationListener::new(notifier),
            counter: None,
            poll_at: now,
            writing_until: now,
            backstop_at: now + BACKSTOP,
            idle_until: None,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            if Instant::now() >= self.poll_at && self.idle_until.is_none() {
                self.poll().await;
            }
            let now = Instant::now();
            if now >= self.backstop_at {
                self.backstop_at = now + BACKSTOP;
                self.waiters.lines().wake_one_each();
            }
            let lingers = self.listener.is_open() && self.idle_until.is_none_or(|until| now < until);
            let next = self.waiters.lines().wake_due(now, lingers);
            let wake_at = match next {
                Next::At(at) => {
                    self.idle_until = None;
                    at.min(self.poll_at)
                }
                Next::Idle => *self.idle_until.get_or_insert(now + LINGER),
                Next::Stop => return self.listener.close().await,
            };
            tokio::select! {
                biased;
                notification = self.listener.next(), if now >= self.writing_until => self.receive(&notification),
                () = self.waiters.changed.notified() => {}
                () = sleep_until(wake_at) => {}
            }
        }
    }

    fn receive(&mut self, notification: &Notification) {
        if notification.is_of_a_write() {
            self.poll_at = Instant::now();
            self.writing_until = self.poll_at + AFTER_WRITE;
        } else {
            self.waiters.received.fetch_add(1, Ordering::Relaxed);
            self.waiters.lines().wake_for(notification);
        }
    }

    async fn poll(&mut self) {
        if self.listener.is_unsupported() {
            self.waiters.listens.store(false, Ordering::Relaxed);
        }
        let notified = self.listener.is_reliable() && Instant::now() >= self.writing_until;
        let poll_every = self.waiters.poll_every;
        let mut pause = if notified { POLL_EVERY_NOTIFIED.max(poll_every) } else { poll_every };
        match self.waiters.store.change_counter().await {
            Ok(counter) if self.counter == Some(counter) => {}
            Ok(counter) => {
                self.counter = Some(counter);
                self.waiters.lines().note_change(Instant::now());
            }
            Err(error) => {
                tracing::debug!(%error, "polling for changes failed, retrying");
                pause = pause.max(POLL_EVERY_FAILED);
            }
        }
        self.waiters.polls.fetch_add(1, Ordering::Relaxed);
        self.poll_at = Instant::now() + pause;
    }
}
