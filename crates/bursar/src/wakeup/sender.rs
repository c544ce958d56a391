//! Notifies other processes after a commit: at once if no notification was sent in the last few milliseconds, else together with later
//! ones when that time is over.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::event::Entry;
use bursar_core::state::QueueKey;
use bursar_store::wakeup::{Notification, Notifier};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The shortest time between two notifications.
const INTERVAL: Duration = Duration::from_millis(5);

pub(super) struct NotificationSender {
    notifier: Arc<dyn Notifier>,
    runtime: Handle,
    unsent: Mutex<Unsent>,
    sent: AtomicU64,
}

#[derive(Default)]
struct Unsent {
    notification: Notification,
    /// The task that sends; it ends when nothing is left to send.
    task: Option<JoinHandle<()>>,
    sending: bool,
}

impl NotificationSender {
    pub(super) fn new(notifier: Arc<dyn Notifier>) -> Arc<NotificationSender> {
        let (runtime, unsent, sent) = (Handle::current(), Mutex::default(), AtomicU64::new(0));
        Arc::new(NotificationSender { notifier, runtime, unsent, sent })
    }

    /// Notifies other processes of the queues that an entry made ready.
    pub(super) fn send_entry(self: &Arc<Self>, entry: &Entry) {
        if entry.wakes.queues.is_empty() {
            return;
        }
        let queues = entry.wakes.queues.iter().map(|ready| (entry.context.tenant.clone(), ready.queue.clone()));
        self.send_queues(queues);
    }

    /// Notifies other processes that a queue has jobs.
    pub(super) fn send_queue(self: &Arc<Self>, queue: &QueueKey) {
        self.send_queues([queue.clone()]);
    }

    fn send_queues(self: &Arc<Self>, queues: impl IntoIterator<Item = QueueKey>) {
        let mut unsent = self.unsent();
        queues.into_iter().for_each(|queue| unsent.notification.add_queue(&queue));
        if !std::mem::replace(&mut unsent.sending, true) {
            let sender = self.clone();
            unsent.task = Some(self.runtime.spawn(async move { sender.send_all().await }));
        }
    }

    async fn send_all(&self) {
        loop {
            let notification = {
                let mut unsent = self.unsent();
                let notification = std::mem::take(&mut unsent.notification);
                unsent.sending = !notification.is_empty();
                notification
            };
            if notification.is_empty() {
                return;
            }
            if let Err(error) = self.notifier.send(&notification).await {
                tracing::debug!(%error, "notification not sent; other processes find the jobs when they poll");
            }
            self.sent.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Returns the number of notifications handed to the store, which skips them if no process listens.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Waits until everything is sent.
    pub(super) async fn flush(&self) {
        let task = self.unsent().task.take();
        if let Some(task) = task {
            let _ = task.await;
        }
    }

    fn unsent(&self) -> MutexGuard<'_, Unsent> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
