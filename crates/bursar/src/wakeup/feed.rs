//! The feed: publishes durable entries to listeners in this process and to the waiting workers and jobs.

use std::sync::Arc;

use bursar_core::context::Context;
use bursar_core::event::{Entry, Event};
use bursar_core::id::{CommandId, JobId};
use bursar_core::job::EndedAttempt;
use bursar_core::name::Tenant;
use bursar_worker::Progress;
use tokio::sync::{broadcast, watch};

use super::{BudgetWaiters, LeaseWaiters};
use crate::observed::Observed;

/// A durable event, as listeners get it.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    entry: Arc<Entry>,
    index: usize,
}

impl Notice {
    /// Returns the event.
    pub fn event(&self) -> &Event {
        &self.entry.events[self.index].e
    }

    /// Returns the attempt that the event ends, if its job belongs to a sampled trace.
    pub fn ended_attempt(&self) -> Option<&EndedAttempt> {
        let attempts = &self.entry.attempts;
        let place = attempts.binary_search_by_key(&self.index, |attempt| attempt.event).ok()?;
        attempts.get(place)
    }

    /// Returns its version in its stream.
    pub fn version(&self) -> u64 {
        self.entry.events[self.index].v
    }

    /// Returns the context of the request that caused it.
    pub fn context(&self) -> &Context {
        &self.entry.context
    }

    /// Returns the id of the command that caused it.
    pub fn command(&self) -> CommandId {
        self.entry.id
    }
}

/// Events committed by this process, in the order of commits. A listener that lags behind loses the oldest events and gets [`Missed`].
/// To miss nothing, read the journal.
#[derive(Debug)]
pub struct Notices {
    incoming: broadcast::Receiver<Arc<Entry>>,
    current: Option<(Arc<Entry>, usize)>,
}

/// The error of a listener that lagged behind and lost events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("missed the events of {commands} commands: read the journal")]
pub struct Missed {
    /// The number of commands whose events were lost. For progress: the number of reports.
    pub commands: u64,
}

impl Notices {
    /// Waits for the next event. Returns `None` when Bursar was closed.
    pub async fn next(&mut self) -> Option<Result<Notice, Missed>> {
        loop {
            if let Some((entry, index)) = self.current.take().filter(|(entry, index)| *index < entry.events.len()) {
                self.current = Some((entry.clone(), index + 1));
                return Some(Ok(Notice { entry, index }));
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
    /// The tenant of the job.
    pub tenant: Tenant,
    /// The job.
    pub job: JobId,
    /// The fence of the lease.
    pub fence: u64,
    /// The number of the report among those of the lease, from 1.
    pub number: u64,
    /// The reported progress.
    pub progress: Progress,
}

/// Progress of one tenant's jobs, reported by workers of this process. A listener that lags behind loses the oldest reports.
#[derive(Debug)]
pub struct ProgressNotices {
    tenant: Tenant,
    incoming: broadcast::Receiver<Arc<Progressed>>,
}

impl ProgressNotices {
    /// Waits for the next report. Returns `None` when Bursar was closed.
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

/// Publishes entries to listeners, wakes workers that wait for jobs, and resumes jobs that wait for units.
#[derive(Clone)]
pub(crate) struct Feed {
    entries: broadcast::Sender<Arc<Entry>>,
    progress: broadcast::Sender<Arc<Progressed>>,
    commits: watch::Sender<u64>,
    lease_waiters: Arc<LeaseWaiters>,
    budget_waiters: Arc<BudgetWaiters>,
    observed: Arc<Observed>,
}

impl Feed {
    pub(crate) fn new(
        lease_waiters: Arc<LeaseWaiters>,
        budget_waiters: Arc<BudgetWaiters>,
        observed: Arc<Observed>,
    ) -> Feed {
        let (entries, progress) = (broadcast::Sender::new(4_096), broadcast::Sender::new(256));
        Feed { entries, progress, commits: watch::Sender::new(0), lease_waiters, budget_waiters, observed }
    }

    pub(crate) fn publish(&self, entry: &Arc<Entry>) {
        self.observed.committed(entry);
        self.lease_waiters.wake_for(entry);
        self.budget_waiters.wake_for(entry);
        // Sending fails only if there is no listener.
        let _ = self.entries.send(entry.clone());
        if self.commits.receiver_count() > 0 {
            self.commits.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    pub(crate) fn watch_commits(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }

    pub(crate) fn publish_progress(&self, progressed: Progressed) {
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
