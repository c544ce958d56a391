//! What came of jobs, reported together: while one call is on its way, the next one gathers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bursar_core::bounds::ITEMS_MAX;
use bursar_core::job::{End, Finish, JobError, LeaseEnd};
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use crate::leases::Leases;
use crate::source::{NotTaken, Source, SourceError};

/// Calls that are on their way at once.
pub(crate) const CALLS: usize = 2;
/// Reports that wait; then handlers wait.
const WAITING_MAX: usize = 2 * ITEMS_MAX;
/// How long a report is tried again: money that was spent is to reach the books also after a long outage.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// The shortest and the longest pause between tries of a call.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerReport {
    /// Jobs that were completed.
    pub completed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Jobs that were put off.
    pub snoozed: u64,
    /// Jobs that were handed back.
    pub returned: u64,
    /// Ends that came to nothing, because the lease was lost or nobody could be told.
    pub lost: u64,
}

/// Where reports are sent.
#[derive(Clone)]
pub(crate) struct Reports {
    outgoing: mpsc::Sender<Finish>,
}

/// The same, for who does not keep it open.
pub(crate) struct WeakReports(mpsc::WeakSender<Finish>);

impl WeakReports {
    /// Sends a report while the worker works.
    pub(crate) async fn send(&self, item: Finish) {
        if let Some(outgoing) = self.0.upgrade() {
            Reports { outgoing }.send(item).await;
        }
    }
}

/// Where they go on.
pub(crate) struct Reporter {
    source: Arc<dyn Source>,
    leases: Arc<Leases>,
    incoming: Mutex<mpsc::Receiver<Finish>>,
    counts: [AtomicU64; 5],
    /// The worker drains: what cannot be reported soon is left.
    draining: AtomicBool,
    grace: Duration,
}

impl Reports {
    pub(crate) fn new(source: Arc<dyn Source>, leases: Arc<Leases>, grace: Duration) -> (Reports, Arc<Reporter>) {
        let (outgoing, incoming) = mpsc::channel(WAITING_MAX);
        let reporter = Reporter {
            source,
            leases,
            incoming: Mutex::new(incoming),
            counts: Default::default(),
            draining: AtomicBool::new(false),
            grace,
        };
        (Reports { outgoing }, Arc::new(reporter))
    }

    pub(crate) fn downgrade(&self) -> WeakReports {
        WeakReports(self.outgoing.downgrade())
    }

    /// Sends a report; waits where too many wait already.
    pub(crate) async fn send(&self, item: Finish) {
        // Whoever would take it has ended with the worker.
        let _ = self.outgoing.send(item).await;
    }
}

impl Reporter {
    /// Reports until the last who could send one is gone.
    pub(crate) async fn work(&self) {
        loop {
            let mut items = Vec::new();
            let gathered = self.incoming.lock().await.recv_many(&mut items, ITEMS_MAX).await;
            if gathered == 0 {
                return;
            }
            self.report(items).await;
        }
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self) -> WorkerReport {
        let [completed, failed, snoozed, returned, lost] =
            std::array::from_fn(|place| self.counts[place].load(Ordering::Relaxed));
        WorkerReport { completed, failed, snoozed, returned, lost }
    }

    async fn report(&self, items: Vec<Finish>) {
        match self.call(&items).await {
            Ok(answers) => self.take(items, answers).await,
            // One item that is wrong in itself must not keep the others from being told.
            Err(SourceError::Refused(_) | SourceError::Denied(_) | SourceError::Failed(_)) if items.len() > 1 => {
                for item in items {
                    Box::pin(self.report(vec![item])).await;
                }
            }
            Err(SourceError::Refused(refusal)) => self.take(items, vec![Err(refusal.into())]).await,
            Err(error) => {
                tracing::error!(%error, jobs = items.len(), "what came of jobs could not be reported; their leases lapse");
                items.iter().for_each(|item| self.end(item, 4));
            }
        }
    }

    async fn take(&self, items: Vec<Finish>, answers: Vec<Result<(), NotTaken>>) {
        for (item, answer) in items.into_iter().zip(answers) {
            match answer {
                Ok(()) => {
                    let place = match item.end.as_lease_end() {
                        LeaseEnd::Completed => 0,
                        LeaseEnd::Failed => 1,
                        LeaseEnd::Snoozed => 2,
                        _ => 3,
                    };
                    self.end(&item, place);
                }
                Err(NotTaken::Lost(why)) => {
                    tracing::info!(job = %item.job, why, "what came of a job was not taken");
                    self.end(&item, 4);
                }
                Err(NotTaken::Refused(why)) => self.refused(item, why).await,
            }
        }
    }

    /// The rules do not take the report as it is, for the usage in it. A person has to look at it: the job dies of it.
    async fn refused(&self, item: Finish, why: String) {
        tracing::error!(job = %item.job, why, "the report of a job was refused");
        let error = JobError::new("report refused", why);
        let end = End::Fail { error, retryable: false, retry_after: None, usage: None };
        let dead = Finish { end, ..item };
        match self.call(std::slice::from_ref(&dead)).await.map(|mut answers| answers.pop()) {
            Ok(Some(Ok(()))) => self.end(&dead, 1),
            _ => self.end(&dead, 4),
        }
    }

    fn end(&self, item: &Finish, place: usize) {
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.leases.end(item.job, item.fence);
    }

    async fn call(&self, items: &[Finish]) -> Result<Vec<Result<(), NotTaken>>, SourceError> {
        let began = Instant::now();
        let mut pause = Pause::default();
        loop {
            match self.source.finish(items.to_vec()).await {
                Err(SourceError::Transient(error)) => {
                    let patience = if self.draining.load(Ordering::Relaxed) { self.grace } else { PATIENCE };
                    if began.elapsed() >= patience {
                        return Err(SourceError::Failed(error));
                    }
                    tracing::warn!(%error, jobs = items.len(), "a report was not taken; it is tried again");
                    pause.wait().await;
                }
                answer => return answer,
            }
        }
    }
}

/// Pauses that get longer.
pub(crate) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Pause {
        Pause(PAUSE_MIN)
    }
}

impl Pause {
    pub(crate) async fn wait(&mut self) {
        let pause = self.0;
        self.0 = (pause * 2).min(PAUSE_MAX);
        tokio::time::sleep(pause).await;
    }
}
