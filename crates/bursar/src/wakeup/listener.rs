//! Listens for notifications from other processes, and reconnects with backoff. While it cannot listen, the watcher polls more often.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bursar_store::StoreError;
use bursar_store::wakeup::{LISTENERS_CACHED, Listener, Notification, Notifier};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// The pause after the first failure. It doubles with each further failure.
const BACKOFF: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

pub(super) struct NotificationListener {
    notifier: Option<Arc<dyn Notifier>>,
    state: State,
    backoff: Duration,
    unsupported: bool,
}

enum State {
    /// It pauses until this time, then connects.
    Paused(Instant),
    /// It connects in a task of its own, so that a cancelled call of `next` does not drop a half-open connection.
    Connecting(JoinHandle<Result<Box<dyn Listener>, StoreError>>),
    Listening {
        listener: Box<dyn Listener>,
        since: Instant,
    },
}

impl NotificationListener {
    pub(super) fn new(notifier: Option<Arc<dyn Notifier>>) -> NotificationListener {
        let state = State::Paused(Instant::now());
        NotificationListener { notifier, state, backoff: BACKOFF, unsupported: false }
    }

    /// Waits for the next notification. If the store does not support notifications, it waits for ever. Cancelling loses no notification.
    pub(super) async fn next(&mut self) -> Notification {
        let Some(notifier) = self.notifier.clone() else { return pending().await };
        loop {
            match &mut self.state {
                State::Paused(until) => {
                    sleep_until(*until).await;
                    let notifier = notifier.clone();
                    self.state = State::Connecting(tokio::spawn(async move { notifier.listen().await }));
                }
                State::Connecting(connecting) => match connecting.await {
                    Ok(Ok(listener)) => self.state = State::Listening { listener, since: Instant::now() },
                    Ok(Err(error)) => self.fail(&error),
                    // The task panicked, as on a runtime without I/O.
                    Err(panic) => {
                        tracing::debug!(%panic, "notifications are not supported here, polling instead");
                        self.state = State::Paused(Instant::now());
                        (self.notifier, self.unsupported) = (None, true);
                        return pending().await;
                    }
                },
                State::Listening { listener, .. } => match listener.next().await {
                    Ok(notification) => {
                        self.backoff = BACKOFF;
                        return notification;
                    }
                    Err(error) => self.fail(&error),
                },
            }
        }
    }

    /// Returns whether all other processes notify this one, so that it need not poll often. For [`LISTENERS_CACHED`] after it began to
    /// listen, another process may still have cached that there is no listener.
    pub(super) fn is_reliable(&self) -> bool {
        matches!(&self.state, State::Listening { since, .. } if Instant::now() >= *since + LISTENERS_CACHED)
    }

    /// Returns whether listening has turned out to be unsupported.
    pub(super) fn is_unsupported(&self) -> bool {
        self.unsupported
    }

    /// Returns whether it is listening or connecting.
    pub(super) fn is_open(&self) -> bool {
        self.notifier.is_some() && !matches!(self.state, State::Paused(_))
    }

    pub(super) async fn close(self) {
        match self.state {
            State::Listening { listener, .. } => listener.close().await,
            State::Connecting(connecting) => {
                connecting.abort();
                if let Ok(Ok(listener)) = connecting.await {
                    listener.close().await;
                }
            }
            State::Paused(_) => {}
        }
    }

    fn fail(&mut self, error: &StoreError) {
        tracing::debug!(%error, "listening for notifications failed, polling instead");
        self.state = State::Paused(Instant::now() + self.backoff);
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
    }
}
