//! Committers: tasks that each take a batch from the queue, commit it, answer its callers, and take the next.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bursar_core::answer::{Answer, Outcome};
use bursar_core::mutant::Mutant;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{CheckedRequest, Request};
use bursar_store::{LockPolicy, RequestOutcome, Store, StoreError};
use futures_util::FutureExt;
use futures_util::future::join;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::Instant;

use super::EngineOptions;
use super::lock_waiters::WAITS_MAX;
use super::metrics::{Metrics, count};
use super::queue::{Pending, Queue};
use crate::error::Error;
use crate::observed::Observed;
use crate::wakeup::Feed;

/// The state that the committers and the lock waiters share.
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    feed: Feed,
    observed: Arc<Observed>,
    pub(super) options: EngineOptions,
    queue: Mutex<Queue>,
    /// Notified when a request is queued, or when a committer releases the keys of its batch.
    pub(super) wake: Notify,
    /// Bounds the rows that are waited for at the same time.
    pub(super) lock_waits: Semaphore,
    pub(super) metrics: Metrics,
}

/// Up to this many callers are answered before the next batch is taken, because they usually send their next request at once. A batch that
/// was taken without them would split the callers into two groups that alternate, and every request would wait for two commits.
const ANSWERED_FIRST_MAX: usize = 64;
/// How often a committer yields to the callers it has answered.
const YIELDS_MAX: usize = 3;

/// A request with its answer.
type Answered = (Pending, Result<Outcome, Error>);

/// The result of a batch.
#[derive(Default)]
pub(super) struct BatchResult {
    /// Requests that are durable, refused or failed.
    pub(super) answers: Vec<Answered>,
    /// Requests that must be submitted to the store again.
    pub(super) again: Vec<Pending>,
}

impl BatchResult {
    /// Adds a failed request. If its outcome is unknown and it has an idempotency key, it is retried until its deadline.
    fn fail(&mut self, mut pending: Pending, error: Error) {
        let unknown = matches!(&error, Error::Store(error) if matches!(**error, StoreError::UnknownOutcome(_)));
        let safe_to_retry = pending.request.idempotency_key.is_some() || Mutant::RetryWithoutKey.on();
        if unknown && safe_to_retry && Instant::now() < pending.deadline {
            pending.unknown = Some(error);
            self.again.push(pending);
        } else {
            self.answers.push((pending, Err(error)));
        }
    }
}

/// Commits batch after batch until the engine is closed and its queue empty.
pub(super) async fn commit_batches(shared: Arc<Shared>) {
    let mut answers = Vec::new();
    loop {
        let woken = shared.wake.notified();
        tokio::pin!(woken);
        // Enabled before the queue is read: otherwise a request queued in between would wake no committer.
        woken.as_mut().enable();
        let batch = shared.queue().take(shared.options.batch, shared.options.committers > 1);
        let unanswered = std::mem::take(&mut answers);
        if batch.is_empty() {
            if !unanswered.is_empty() {
                shared.answer_all(unanswered);
                continue;
            }
            if shared.queue().is_finished() {
                shared.wake.notify_waiters();
                return;
            }
            woken.await;
            continue;
        }
        let keys: Vec<u64> = batch.iter().flat_map(|pending| pending.keys.iter().copied()).collect();
        // The callers of the previous batch are answered while this one commits.
        let (result, ()) = join(shared.commit(batch, LockPolicy::Skip), async { shared.answer_all(unanswered) }).await;
        answers = result.answers;
        if answers.len() <= ANSWERED_FIRST_MAX {
            shared.answer_first(std::mem::take(&mut answers)).await;
        }
        let more = {
            let mut queue = shared.queue();
            queue.release_keys(&keys);
            queue.put_back(result.again);
            queue.has_waiting()
        };
        // This committer takes the next batch itself. Another one may take requests with other keys.
        if more && shared.options.committers > 1 {
            shared.wake.notify_one();
        }
    }
}

impl Shared {
    pub(super) fn new(store: Arc<dyn Store>, feed: Feed, observed: Arc<Observed>, options: EngineOptions) -> Shared {
        Shared {
            store,
            feed,
            observed,
            options,
            queue: Mutex::default(),
            wake: Notify::new(),
            lock_waits: Semaphore::new(WAITS_MAX),
            metrics: Metrics::new(),
        }
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request.
    pub(super) fn accept(
        &self,
        request: CheckedRequest,
        answer: oneshot::Sender<Result<Outcome, Error>>,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + self.options.lock_timeout;
        let pending = Pending::new(request, self.options.committers > 1, deadline, answer);
        if self.queue().accept(pending, self.options.queue)? {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Commits a batch. A panic must not end the committer: every later request would wait for ever.
    pub(super) async fn commit(self: &Arc<Self>, batch: Vec<Pending>, policy: LockPolicy) -> BatchResult {
        AssertUnwindSafe(self.try_commit(batch, policy)).catch_unwind().await.unwrap_or_default()
    }

    async fn try_commit(self: &Arc<Self>, batch: Vec<Pending>, policy: LockPolicy) -> BatchResult {
        count(&self.metrics.batches);
        let requests: Vec<Arc<CheckedRequest>> = batch.iter().map(|pending| pending.request.clone()).collect();
        self.metrics.batch_size.add(requests.len() as f64);
        let began = Instant::now();
        let result = AssertUnwindSafe(self.store.commit(&requests, policy.clone())).catch_unwind().await;
        self.metrics.commit_seconds.add(began.elapsed().as_secs_f64());
        let outcomes = match result {
            Ok(Ok(outcomes)) => outcomes,
            // The row is still locked. The caller, `commit_when_unlocked`, fails the requests that are overdue.
            Ok(Err(StoreError::Busy(_))) if policy != LockPolicy::Skip => {
                return BatchResult { again: batch, ..BatchResult::default() };
            }
            Ok(Err(error)) => return self.fail_batch(batch, policy, error.into()).await,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                let error = Error::Internal(text.unwrap_or_else(|| "panic".into()));
                return self.fail_batch(batch, policy, error).await;
            }
        };
        let mut result = BatchResult::default();
        for (pending, outcome) in batch.into_iter().zip(outcomes) {
            match outcome {
                RequestOutcome::Answered(answer) => result.answers.push((pending, answer.map_err(Error::from))),
                RequestOutcome::Again => result.again.push(pending),
                RequestOutcome::Blocked(locks) => self.wait_for_lock(pending, &locks),
                RequestOutcome::Failed(error) => result.fail(pending, Error::Store(error)),
            }
        }
        result
    }

    /// Handles a batch that failed as a whole. If one request may be the cause, because its row is corrupt or a rule panics
    /// on it, the halves of the batch are committed separately, so that the other requests succeed.
    async fn fail_batch(self: &Arc<Self>, mut batch: Vec<Pending>, policy: LockPolicy, error: Error) -> BatchResult {
        let one_may_be_the_cause = match &error {
            Error::Internal(_) => true,
            Error::Store(error) => {
                matches!(**error, StoreError::Corrupt { .. } | StoreError::Closure(_) | StoreError::Rejected(_))
            }
            _ => false,
        };
        if one_may_be_the_cause && batch.len() > 1 {
            let second = batch.split_off(batch.len() / 2);
            let mut result = Box::pin(self.commit(batch, policy.clone())).await;
            let second = Box::pin(self.commit(second, policy)).await;
            result.answers.extend(second.answers);
            result.again.extend(second.again);
            return result;
        }
        tracing::error!(%error, requests = batch.len(), "batch failed");
        let mut result = BatchResult::default();
        batch.into_iter().for_each(|pending| result.fail(pending, error.clone()));
        result
    }

    /// Publishes entries and answers callers, in the order of commits. A panic must not end the committer.
    pub(super) fn answer_all(&self, answers: Vec<Answered>) {
        for (pending, answer) in answers {
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| self.answer(pending, answer)));
        }
    }

    /// Answers a few callers, and yields until they have sent their next requests or had the time to.
    async fn answer_first(&self, answers: Vec<Answered>) {
        let expected = self.queue().waiting() + answers.len();
        self.answer_all(answers);
        for _ in 0..YIELDS_MAX {
            if self.queue().waiting() >= expected {
                break;
            }
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn answer(&self, mut pending: Pending, answer: Result<Outcome, Error>) {
        // If a retry after an unknown outcome fails too, the first attempt may still have been executed, so the caller gets its error.
        // An answer or a refusal is final, because the store has looked up the idempotency key.
        let answer = match (answer, pending.unknown.take()) {
            (Err(error), Some(unknown)) if error.refusal().is_none() => Err(unknown),
            (answer, _) => answer,
        };
        self.publish(&pending.request, &answer);
        // The commit is final even if the caller has stopped waiting. Jobs that were leased for this caller return to their queue.
        if let Err(Ok(Outcome { answer: Answer::Leased(leased), .. })) = pending.answer.send(answer) {
            self.return_jobs(pending.request.context.clone(), &leased.jobs);
        }
    }

    fn publish(&self, request: &Request, answer: &Result<Outcome, Error>) {
        match answer {
            Ok(Outcome { entry, .. }) => {
                count(&self.metrics.done);
                let Some(entry) = entry else { return };
                if self.options.committers > 1 {
                    self.queue().learn(entry);
                }
                self.feed.publish(entry);
                if Mutant::AnnounceTwice.on() {
                    self.feed.publish(entry);
                }
            }
            Err(Error::Refused(refusal)) => {
                count(&self.metrics.refused);
                self.observed.refused(request, refusal);
                log_refusal(request, refusal);
            }
            Err(_) => drop(self.metrics.failed.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// Logs a refusal, because refusals are not in the journal. The reason why a token was refused is not sent over the network, so operators
/// find it here.
fn log_refusal(request: &Request, refusal: &Refusal) {
    let violations = match refusal {
        Refusal::Refused(violations) => violations.as_slice(),
        _ => &[],
    };
    for violation in violations {
        if let Violation::Grant { purpose, fault } = violation {
            tracing::info!(tenant = %request.context.tenant, %purpose, %fault, "grant token refused");
        }
    }
    tracing::debug!(tenant = %request.context.tenant, %refusal, "request refused");
}
