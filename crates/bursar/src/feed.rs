//! The feed: what happened, told to listeners in this process once it is durable.

use std::sync::Arc;

use bursar_core::context::Context;
use bursar_core::event::{Entry, Event};
use bursar_core::id::{CommandId, JobId};
use bursar_core::name::Tenant;
use bursar_worker::Progress;
use tokio::sync::{broadcast, watch};

use crate::hub::Hub;
use crate::resumer::Resumer;

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

/// Progress of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Progressed {
    /// Whose job it is.
    pub tenant: Tenant,
    /// Which job.
    pub job: JobId,
    /// By which lease.
    pub fence: u64,
    /// What its worker says.
    pub progress: Progress,
}

/// Progress of one tenant's jobs, as workers of this process tell it. A listener that lags loses the oldest.
#[derive(Debug)]
pub struct ProgressNotices {
    tenant: Tenant,
    incoming: broadcast::Receiver<Arc<Progressed>>,
}

impl ProgressNotices {
    /// The next; `None` when Bursar was closed.
    pub async fn next(&mut self) -> Option<Result<Arc<Progressed>, Missed>> {
        loop {
            match self.incoming.recv().await {
                Ok(progressed) if progressed.tenant == self.tenant => return Some(Ok(progressed)),
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(commands)) => return Some(Err(Missed { commands })),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// Where what is durable is told: to listeners, to who waits for jobs, and to who looks after jobs that wait for units.
#[derive(Clone)]
pub(crate) struct Feed {
    entries: broadcast::Sender<Arc<Entry>>,
    progress: broadcast::Sender<Arc<Progressed>>,
    commits: watch::Sender<u64>,
    hub: Arc<Hub>,
    resumer: Arc<Resumer>,
}

impl Feed {
    pub(crate) fn new(hub: Arc<Hub>, resumer: Arc<Resumer>) -> Feed {
        let (entries, progress) = (broadcast::Sender::new(4_096), broadcast::Sender::new(256));
        Feed { entries, progress, commits: watch::Sender::new(0), hub, resumer }
    }

    pub(crate) fn tell(&self, entry: &Arc<Entry>) {
        self.hub.tell(entry);
        self.resumer.tell(entry);
        // Without a listener there is nobody to tell.
        let _ = self.entries.send(entry.clone());
        if self.commits.receiver_count() > 0 {
            self.commits.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    pub(crate) fn watch_commits(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }

    pub(crate) fn tell_progress(&self, progressed: Progressed) {
        if self.progress.receiver_count() > 0 {
            let _ = self.progress.send(Arc::new(progressed));
        }
    }

    pub(crate) fn listen(&self) -> Notices {
        Notices { incoming: self.entries.subscribe(), current: None }
    }

    pub(crate) fn listen_progress(&self, tenant: Tenant) -> ProgressNotices {
        ProgressNotices { tenant, incoming: self.progress.subscribe() }
    }
}
