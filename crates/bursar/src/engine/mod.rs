//! The engine: executes requests in batches. Requests that arrive while a batch commits share the next batch.
//!
//! A request is checked when it enters ([`Engine::submit`]), and waits in the [`queue`]. A [`committer`] takes a batch, has the
//! store commit it, and answers its callers. SQLite has one committer. PostgreSQL has several, and the queue never gives requests
//! that are known to touch the same rows to two committers at the same time. A request whose rows another transaction has locked
//! waits for one of these rows outside of any batch ([`lock_waiters`]), so that it delays no other request.
//!
//! No timer delays a batch: a request that arrives alone is committed at once, and under load batches grow by themselves.

mod committer;
mod histogram;
mod lock_waiters;
mod metrics;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use bursar_core::answer::{Answer, Outcome};
use bursar_core::context::Context;
use bursar_core::job::{End, Finish, Job};
use bursar_core::request::{CheckedRequest, Op, Request};
use bursar_store::{Store, StoreError};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use self::committer::{Shared, commit_batches};
pub use self::histogram::{Distribution, Histogram};
pub use self::metrics::{Counters, Vitals};
use crate::error::Error;
use crate::observed::Observed;
use crate::wakeup::Feed;

/// The bounds of the engine.
#[derive(Clone, Debug)]
pub(crate) struct EngineOptions {
    /// The most requests that wait. One more fails with `overloaded`.
    pub(crate) queue: usize,
    /// The most requests in a batch.
    pub(crate) batch: usize,
    /// The number of batches that commit at the same time.
    pub(crate) committers: usize,
    /// How long a request waits for rows that another transaction has locked before it fails with `busy`.
    pub(crate) lock_timeout: Duration,
}

pub(crate) struct Engine {
    shared: Arc<Shared>,
    committers: tokio::sync::Mutex<JoinSet<()>>,
}

impl Engine {
    pub(crate) fn start(store: Arc<dyn Store>, feed: Feed, observed: Arc<Observed>, options: EngineOptions) -> Engine {
        let count = options.committers.max(1);
        let shared = Arc::new(Shared::new(store, feed, observed, options));
        let mut committers = JoinSet::new();
        for _ in 0..count {
            committers.spawn(commit_batches(shared.clone()));
        }
        Engine { shared, committers: tokio::sync::Mutex::new(committers) }
    }

    /// Executes a request; returns when it is durable or refused.
    pub(crate) async fn submit(&self, request: Request) -> Result<Outcome, Error> {
        let request = CheckedRequest::new(request)?;
        let context = matches!(request.op, Op::Lease(_)).then(|| request.context.clone());
        let (sender, receiver) = oneshot::channel();
        let mut answer = PendingAnswer { shared: &self.shared, receiver, context };
        self.shared.accept(request, sender)?;
        // A committer that panics drops the sender, and the outcome of the request is unknown.
        (&mut answer.receiver).await.unwrap_or_else(|lost| Err(StoreError::UnknownOutcome(Box::new(lost)).into()))
    }

    /// Returns leased jobs whose caller is gone to their queue, without waiting for it.
    pub(crate) fn return_jobs(&self, context: Context, jobs: &[Job]) {
        self.shared.return_jobs(context, jobs);
    }

    /// Returns the counts of what the engine has done so far.
    pub(crate) fn counters(&self) -> Counters {
        self.shared.metrics.counters()
    }

    /// Returns the current load of the engine and the distribution of its batches.
    pub(crate) fn vitals(&self, lease_waiters: usize) -> Vitals {
        let waiting = self.shared.queue().waiting();
        self.shared.metrics.vitals(waiting, lease_waiters)
    }

    /// Refuses new requests, executes those it has accepted, and stops the committers.
    pub(crate) async fn close(&self) {
        self.shared.queue().close();
        self.shared.wake.notify_waiters();
        let mut committers = self.committers.lock().await;
        while committers.join_next().await.is_some() {}
    }
}

/// An answer that a caller waits for. If the caller of a lease stops waiting (its future is dropped), the leased jobs are returned to
/// their queue at once. Otherwise they would stay leased until the lease expires, which counts as a failed attempt.
struct PendingAnswer<'a> {
    shared: &'a Arc<Shared>,
    receiver: oneshot::Receiver<Result<Outcome, Error>>,
    /// The context of the request if it is a lease.
    context: Option<Context>,
}

impl Drop for PendingAnswer<'_> {
    fn drop(&mut self) {
        let Some(context) = self.context.take() else { return };
        self.receiver.close();
        if let Ok(Ok(Outcome { answer: Answer::Leased(leased), .. })) = self.receiver.try_recv() {
            self.shared.return_jobs(context, &leased.jobs);
        }
    }
}

impl Shared {
    /// Returns the jobs of a lease whose caller is gone to their queue. If the engine cannot accept the request, the leases expire instead.
    fn return_jobs(&self, context: Context, jobs: &[Job]) {
        let finish = |job: &Job| Finish { job: job.id, fence: job.life.fence, end: End::Return };
        let items: Vec<Finish> = jobs.iter().map(finish).collect();
        if items.is_empty() {
            return;
        }
        let request = Request::from(Op::Finish { items }).in_context(context);
        if let Ok(request) = CheckedRequest::new(request) {
            let _ = self.accept(request, oneshot::channel().0);
        }
    }
}
