//! The task that wakes waiting workers for commits of other processes and for due jobs: it listens for notifications, polls the change
//! counter as the fallback, and sets a timer for the next due job.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bursar_store::wakeup::Notification;
use tokio::time::{Instant, sleep_until};

use super::lease_waiters::{LeaseWaiters, Next};
use super::listener::NotificationListener;

/// The default interval of polls without notifications.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(3);
/// The interval of polls while this process listens for notifications.
const POLL_EVERY_NOTIFIED: Duration = Duration::from_secs(1);
/// The shortest interval of polls while polling fails.
const POLL_EVERY_FAILED: Duration = Duration::from_millis(250);
/// How long to poll often after another process has begun to write. The watcher cannot know when that write is committed.
const AFTER_WRITE: Duration = Duration::from_secs(1);
/// How long the listener stays open after the last worker stopped waiting.
const LINGER: Duration = Duration::from_secs(10);
/// The interval at which one worker of each queue is woken without a notification, in case one was lost.
pub(super) const BACKSTOP: Duration = Duration::from_secs(1);

pub(super) struct Watcher {
    waiters: Arc<LeaseWaiters>,
    listener: NotificationListener,
    /// The change counter at the last poll; `None` before the first, which counts as a change.
    counter: Option<u64>,
    poll_at: Instant,
    /// Until when it polls often instead of listening, after another process began to write.
    writing_until: Instant,
    backstop_at: Instant,
    /// When the watcher ends, unless a worker waits again; `None` while workers wait.
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
                self.waiters.state().wake_one_each();
            }
            let lingers = self.listener.is_open() && self.idle_until.is_none_or(|until| now < until);
            let next = self.waiters.state().wake_due(now, lingers);
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
            self.waiters.state().wake_for(notification);
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
                self.waiters.state().note_change(Instant::now());
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
