//! Listens for notifications of other processes, and reconnects with backoff. While it cannot listen, waiting workers poll more often.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bursar_store::StoreError;
use bursar_store::wakeup::{LISTENERS_CACHED, Listener, Notification, Notifier};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// The first pause after a failure; each is twice as long as the one before.
const BACKOFF: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

pub(super) struct NotificationListener {
    notifier: Option<Arc<dyn Notifier>>,
    state: State,
    backoff: Duration,
    unsupported: bool,
}

enum State {
    /// Until the next attempt.
    Paused(Instant),
    /// A task of its own, so that cancelling a wait for notifications does not drop a connection half-way.
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

    /// Waits for the next notification, for ever where there are none. Cancelling loses nothing.
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
                    // The runtime does not support it, such as one without I/O.
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

    /// Whether other processes notify this one, so that it need not poll often. A process that found no listener shortly before this one
    /// began to listen does not notify it yet.
    pub(super) fn is_reliable(&self) -> bool {
        matches!(&self.state, State::Listening { since, .. } if Instant::now() >= *since + LISTENERS_CACHED)
    }

    /// Whether it has turned out that notifications are not supported here.
    pub(super) fn is_unsupported(&self) -> bool {
        self.unsupported
    }

    /// Whether it listens or is connecting.
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
        tracing::debug!(%error, "cannot listen for notifications, polling instead");
        self.state = State::Paused(Instant::now() + self.backoff);
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
    }
}
