//! Reports of ended jobs, sent in batches: while one call is in flight, the next batch collects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bursar_core::bounds::ITEMS_MAX;
use bursar_core::job::{End, Finish, JobError, LeaseEnd, Usage};
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use crate::leases::Leases;
use crate::source::{NotTaken, Source, SourceError};

/// The number of report calls in flight.
pub(crate) const CALLS: usize = 2;
/// The maximum number of waiting reports; handlers wait when it is reached.
const WAITING_MAX: usize = 2 * ITEMS_MAX;
/// How long a report is retried. It is long, because a report that is given up may lose spent units.
const RETRY_TIME_MAX: Duration = Duration::from_secs(15 * 60);
/// The first delay between retries of a call.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// The longest delay between retries of a call.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// The counts of ended jobs of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerReport {
    /// Jobs that were completed.
    pub completed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Jobs that were snoozed.
    pub snoozed: u64,
    /// Jobs that were returned without a result.
    pub returned: u64,
    /// Jobs whose end was not accepted, because the lease was lost or the report could not be delivered.
    pub lost: u64,
}

/// A field of [`WorkerReport`].
#[derive(Clone, Copy)]
enum Count {
    Completed,
    Failed,
    Snoozed,
    Returned,
    Lost,
}

/// The sending side of the report queue.
#[derive(Clone)]
pub(crate) struct Reports {
    outgoing: mpsc::Sender<Finish>,
}

/// A sender that does not keep the report queue open.
pub(crate) struct WeakReports(mpsc::WeakSender<Finish>);

impl WeakReports {
    /// Sends a report, unless the worker has ended.
    pub(crate) async fn send(&self, item: Finish) {
        if let Some(outgoing) = self.0.upgrade() {
            Reports { outgoing }.send(item).await;
        }
    }
}

/// The receiving side of the report queue.
pub(crate) struct Reporter {
    source: Arc<dyn Source>,
    leases: Arc<Leases>,
    incoming: Mutex<mpsc::Receiver<Finish>>,
    counts: [AtomicU64; 5],
    /// The worker drains, so that reports are retried for the grace period only.
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

    /// Sends a report; waits while the queue is full.
    pub(crate) async fn send(&self, item: Finish) {
        // Sending fails only after the worker has ended.
        let _ = self.outgoing.send(item).await;
    }
}

impl Reporter {
    /// Sends reports until all senders are dropped.
    pub(crate) async fn run(&self) {
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

    pub(crate) fn counts(&self) -> WorkerReport {
        let count = |count: Count| self.counts[count as usize].load(Ordering::Relaxed);
        WorkerReport {
            completed: count(Count::Completed),
            failed: count(Count::Failed),
            snoozed: count(Count::Snoozed),
            returned: count(Count::Returned),
            lost: count(Count::Lost),
        }
    }

    async fn report(&self, items: Vec<Finish>) {
        match self.call(&items).await {
            Ok(answers) => self.apply_answers(items, answers).await,
            // The call may have failed because of a single item: report each one alone.
            Err(SourceError::Refused(_) | SourceError::Denied(_) | SourceError::Failed(_)) if items.len() > 1 => {
                for item in items {
                    Box::pin(self.report(vec![item])).await;
                }
            }
            Err(SourceError::Refused(refusal)) => self.apply_answers(items, vec![Err(refusal.into())]).await,
            Err(error) => {
                tracing::error!(%error, jobs = items.len(), "reporting ended jobs failed; their leases will expire");
                items.iter().for_each(|item| self.end(item, Count::Lost));
            }
        }
    }

    async fn apply_answers(&self, items: Vec<Finish>, answers: Vec<Result<(), NotTaken>>) {
        for (item, answer) in items.into_iter().zip(answers) {
            match answer {
                Ok(()) => {
                    let count = match item.end.as_lease_end() {
                        LeaseEnd::Completed => Count::Completed,
                        LeaseEnd::Failed => Count::Failed,
                        LeaseEnd::Snoozed => Count::Snoozed,
                        _ => Count::Returned,
                    };
                    self.end(&item, count);
                }
                Err(NotTaken::Lost(why)) => {
                    tracing::info!(job = %item.job, why, "report rejected, lease lost");
                    self.end(&item, Count::Lost);
                }
                Err(NotTaken::Refused(why)) => self.report_refused(item, why).await,
            }
        }
    }

    /// Reports the job as failed after a rule has refused its report. If the report named blobs, one of them may be gone, and another
    /// attempt can make it again. Otherwise the usage is wrong, and the job is dead: a retry would be refused again.
    async fn report_refused(&self, item: Finish, why: String) {
        let Finish { job, fence, end } = item;
        tracing::error!(%job, why, "report refused, the job is reported as failed");
        let error = JobError::new("report refused", why);
        let failed = |retryable: bool, usage: Option<Vec<Usage>>| {
            let end = End::Fail { error: error.clone(), retryable, retry_after: None, usage };
            Finish { job, fence, end }
        };
        let mut ends = vec![failed(false, None)];
        if let End::Complete { usage, blobs, .. } = end
            && !blobs.is_empty()
        {
            ends.insert(0, failed(true, usage));
        }
        for end in &ends {
            match self.call(std::slice::from_ref(end)).await.map(|mut answers| answers.pop()) {
                Ok(Some(Ok(()))) => return self.end(end, Count::Failed),
                Ok(Some(Err(NotTaken::Refused(_)))) => {}
                _ => break,
            }
        }
        self.end(&ends[0], Count::Lost);
    }

    fn end(&self, item: &Finish, count: Count) {
        self.counts[count as usize].fetch_add(1, Ordering::Relaxed);
        self.leases.end(item.job, item.fence);
    }

    async fn call(&self, items: &[Finish]) -> Result<Vec<Result<(), NotTaken>>, SourceError> {
        let began = Instant::now();
        let mut backoff = Backoff::default();
        loop {
            match self.source.finish(items.to_vec()).await {
                Err(SourceError::Transient(error)) => {
                    let retry_time = if self.draining.load(Ordering::Relaxed) { self.grace } else { RETRY_TIME_MAX };
                    if began.elapsed() >= retry_time {
                        return Err(SourceError::Failed(error));
                    }
                    tracing::warn!(%error, jobs = items.len(), "reporting ended jobs failed, retrying");
                    backoff.wait().await;
                }
                answer => return answer,
            }
        }
    }
}

/// The delays between retries of a call; each is twice as long as the one before.
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff(BACKOFF_MIN)
    }
}

impl Backoff {
    pub(crate) async fn wait(&mut self) {
        let delay = self.0;
        self.0 = (delay * 2).min(BACKOFF_MAX);
        tokio::time::sleep(delay).await;
    }
}
