//! The feed: what happened, told to listeners in this process once it is durable.

use std::sync::Arc;

use bursar_core::context::Context;
use bursar_core::event::{Entry, Event};
use bursar_core::id::CommandId;
use tokio::sync::broadcast;

/// Something that happened and is durable.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    entry: Arc<Entry>,
    place: usize,
}

impl Notice {
    /// What happened.
    pub fn event(&self) -> &Event {
        &self.entry.events[self.place].e
    }

    /// Its version in its stream.
    pub fn version(&self) -> u64 {
        self.entry.events[self.place].v
    }

    /// Who asked for it, for whom, and why.
    pub fn context(&self) -> &Context {
        &self.entry.context
    }

    /// The command that did it.
    pub fn command(&self) -> CommandId {
        self.entry.id
    }
}

/// Notices, in the order of commits of this process. A listener that lags loses the oldest and is told so; nobody
/// waits for it. Whoever must not miss anything reads the journal.
#[derive(Debug)]
pub struct Notices {
    incoming: broadcast::Receiver<Arc<Entry>>,
    current: Option<(Arc<Entry>, usize)>,
}

/// What a listener missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("missed what {commands} commands did: read the journal")]
pub struct Missed {
    /// How many commands.
    pub commands: u64,
}

impl Notices {
    /// The next notice; `None` when Bursar was closed.
    pub async fn next(&mut self) -> Option<Result<Notice, Missed>> {
        loop {
            if let Some((entry, place)) = self.current.take().filter(|(entry, place)| *place < entry.events.len()) {
                self.current = Some((entry.clone(), place + 1));
                return Some(Ok(Notice { entry, place }));
            }
            match self.incoming.recv().await {
                Ok(entry) => self.current = Some((entry, 0)),
                Err(broadcast::error::RecvError::Lagged(commands)) => return Some(Err(Missed { commands })),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

#[derive(Clone)]
pub(crate) struct Feed(broadcast::Sender<Arc<Entry>>);

impl Feed {
    pub(crate) fn new() -> Feed {
        Feed(broadcast::Sender::new(4_096))
    }

    pub(crate) fn tell(&self, entry: &Arc<Entry>) {
        // Without a listener there is nobody to tell.
        let _ = self.0.send(entry.clone());
    }

    pub(crate) fn listen(&self) -> Notices {
        Notices { incoming: self.0.subscribe(), current: None }
    }
}
