//! What other processes tell at once, where the engine has a way for it. It is listened for while it can be, and tried again while
//! it cannot: who waits looks at the bell more often then.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bursar_store::StoreError;
use bursar_store::hint::{Ear, Hint, Hints, UNHEARD};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// The first rest after it could not be listened; each is twice as long as the last …
const REST: Duration = Duration::from_secs(1);
/// … up to this one.
const REST_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Hearing {
    hints: Option<Arc<dyn Hints>>,
    state: State,
    rest: Duration,
    deaf: bool,
}

enum State {
    Resting(Instant),
    /// A task of its own: what it has of the store, as the connection it is heard on, must not wait for whoever waits for hints.
    Opening(JoinHandle<Result<Box<dyn Ear>, StoreError>>),
    Listening {
        ear: Box<dyn Ear>,
        since: Instant,
    },
}

impl Hearing {
    pub(crate) fn new(hints: Option<Arc<dyn Hints>>) -> Hearing {
        Hearing { hints, state: State::Resting(Instant::now()), rest: REST, deaf: false }
    }

    /// The next hint. Waits for ever where there is none; nothing is lost by who stops waiting.
    pub(crate) async fn next(&mut self) -> Hint {
        let Some(hints) = self.hints.clone() else { return pending().await };
        loop {
            match &mut self.state {
                State::Resting(until) => {
                    sleep_until(*until).await;
                    let hints = hints.clone();
                    self.state = State::Opening(tokio::spawn(async move { hints.listen().await }));
                }
                State::Opening(opening) => match opening.await {
                    Ok(Ok(ear)) => self.state = State::Listening { ear, since: Instant::now() },
                    Ok(Err(error)) => self.fail(&error),
                    // It cannot be listened here at all, as on a runtime without I/O.
                    Err(panic) => {
                        tracing::debug!(%panic, "nothing will be heard of other processes; they are looked at instead");
                        self.state = State::Resting(Instant::now());
                        (self.hints, self.deaf) = (None, true);
                        return pending().await;
                    }
                },
                State::Listening { ear, .. } => match ear.next().await {
                    Ok(hint) => {
                        self.rest = REST;
                        return hint;
                    }
                    Err(error) => self.fail(&error),
                },
            }
        }
    }

    /// Whether others tell what they do, so that looking often would be in vain. Those who went by what they knew when it began
    /// to listen do not tell at once.
    pub(crate) fn is_told(&self) -> bool {
        matches!(&self.state, State::Listening { since, .. } if Instant::now() >= *since + UNHEARD)
    }

    /// Whether it has turned out that it cannot be listened at all.
    pub(crate) fn is_deaf(&self) -> bool {
        self.deaf
    }

    /// Whether there is something that listens, or is about to.
    pub(crate) fn is_open(&self) -> bool {
        self.hints.is_some() && !matches!(self.state, State::Resting(_))
    }

    pub(crate) async fn close(self) {
        match self.state {
            State::Listening { ear, .. } => ear.close().await,
            State::Opening(opening) => {
                opening.abort();
                if let Ok(Ok(ear)) = opening.await {
                    ear.close().await;
                }
            }
            State::Resting(_) => {}
        }
    }

    fn fail(&mut self, error: &StoreError) {
        tracing::debug!(%error, "nothing is heard of other processes; they are looked at instead");
        self.state = State::Resting(Instant::now() + self.rest);
        self.rest = (self.rest * 2).min(REST_MAX);
    }
}
