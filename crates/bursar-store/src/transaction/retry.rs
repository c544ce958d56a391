//! Retries of batches on engines with several writers. A batch that conflicts with another transaction is retried if that is safe. If
//! another transaction is about to insert a name that some of its requests need, the batch is split to find these requests.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bursar_core::mutant::Mutant;
use bursar_core::request::CheckedRequest;
use bursar_core::time::Time;

use super::lock_order::Lock;
use crate::error::StoreError;
use crate::store::{LockPolicy, RequestOutcome};

/// The most attempts to commit a batch or a part of it.
const ATTEMPTS_MAX: u32 = 6;
/// The most times that a batch is split in halves.
const SPLITS_MAX: usize = 16;

/// An engine with several writers, whose transactions can conflict.
#[expect(
    async_fn_in_trait,
    reason = "callers use concrete types, so the compiler can infer whether their futures are Send"
)]
pub trait Engine {
    /// An open transaction.
    type Tx;

    /// Returns how long a batch waits for a name that another transaction has inserted and not committed.
    fn name_timeout(&self) -> Duration;

    /// Loads, decides and writes a batch in a transaction, without committing it. Locks the row `first` before any other and waits for it up
    /// to its own timeout. Waits up to `wait` for anything else.
    async fn prepare(
        &self,
        requests: &[&CheckedRequest],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<Prepared<Self::Tx>, AttemptError>;

    /// Commits a transaction. Returns when it is durable.
    async fn finish(&self, tx: Self::Tx) -> Result<(), AttemptError>;

    /// Waits until no other open transaction has locked the row, or inserted the name, of `lock`, which the requests need.
    async fn wait_for_row(
        &self,
        requests: &[&CheckedRequest],
        lock: &Lock,
        timeout: Duration,
    ) -> Result<(), StoreError>;

    /// Records that this node has decided at an instant. Its later batches are not decided at an earlier one.
    fn note_decided_at(&self, now: Time);
}

/// A transaction that is written and not yet committed.
#[derive(Debug)]
pub struct Prepared<T> {
    /// The transaction.
    pub tx: T,
    /// The outcomes of its requests.
    pub outcomes: Vec<RequestOutcome>,
    /// The instant it was decided at.
    pub now: Time,
}

/// Why an attempt failed. The attempt has changed nothing, unless the error is `UnknownOutcome`.
#[derive(Debug)]
pub enum AttemptError {
    /// Another transaction has inserted one of the names since it was looked up: the decisions are out of date.
    Outdated,
    /// Another transaction has inserted a name that the batch inserts, or locked a queue that it changes, and did not end in time.
    NameLocked,
    /// The batch got the row that it waited for, but another row that it needs is locked.
    Contended,
    /// A retry may succeed.
    Transient(StoreError),
    /// A retry would fail too, or may not be safe.
    Final(StoreError),
}

/// Commits the requests in one transaction, or in several if another transaction has locked a name that some of them need.
pub async fn commit_all<A: Engine>(
    engine: &A,
    requests: &[&CheckedRequest],
    policy: LockPolicy,
) -> Result<Vec<RequestOutcome>, StoreError> {
    let mut outcomes: Vec<Option<RequestOutcome>> = vec![None; requests.len()];
    let mut parts: Vec<Range<usize>> = Vec::new();
    parts.push(0..requests.len());
    let mut splits = 0;
    while let Some(part) = parts.pop() {
        let error = match commit_part(engine, &requests[part.clone()], &policy, splits > 0).await {
            Ok(part_outcomes) => {
                outcomes[part].iter_mut().zip(part_outcomes).for_each(|(slot, outcome)| *slot = Some(outcome));
                continue;
            }
            Err(AttemptError::NameLocked) if part.len() > 1 && splits < SPLITS_MAX => {
                splits += 1;
                let middle = part.start + part.len() / 2;
                parts.extend([middle..part.end, part.start..middle]);
                continue;
            }
            Err(AttemptError::NameLocked) => {
                for index in part {
                    let names = names(requests[index]);
                    let busy = || {
                        RequestOutcome::Failed(Arc::new(StoreError::Busy(
                            "another transaction is changing the same rows".into(),
                        )))
                    };
                    outcomes[index] = Some(if names.is_empty() { busy() } else { RequestOutcome::Blocked(names) });
                }
                continue;
            }
            Err(AttemptError::Outdated | AttemptError::Contended) => {
                StoreError::Busy("other transactions kept changing the same rows".into())
            }
            Err(AttemptError::Transient(error) | AttemptError::Final(error)) => error,
        };
        if part.len() == requests.len() {
            return Err(error);
        }
        // Other parts of the batch may be committed, so only the requests of this part fail.
        let error = Arc::new(error);
        outcomes[part].iter_mut().for_each(|slot| *slot = Some(RequestOutcome::Failed(error.clone())));
    }
    Ok(outcomes.into_iter().map(|outcome| outcome.expect("every request is in one part")).collect())
}

async fn commit_part<A: Engine>(
    engine: &A,
    requests: &[&CheckedRequest],
    policy: &LockPolicy,
    split: bool,
) -> Result<Vec<RequestOutcome>, AttemptError> {
    // A batch is split after it has waited for the full timeout. Its parts only find out which requests need the locked name.
    let wait = if split { engine.name_timeout() / 20 } else { engine.name_timeout() };
    let mut first = match policy {
        LockPolicy::Skip => None,
        LockPolicy::WaitFor(lock @ (Lock::Key(_) | Lock::JobKey(_)), wait) => {
            engine.wait_for_row(requests, lock, *wait).await.map_err(AttemptError::Final)?;
            None
        }
        // The row of a namespace that is defined comes before the row in the lock order, and is waited for.
        LockPolicy::WaitFor(lock, wait) if requests.iter().any(|it| !it.needs().namespaces_defined.is_empty()) => {
            engine.wait_for_row(requests, lock, *wait).await.map_err(AttemptError::Final)?;
            None
        }
        LockPolicy::WaitFor(lock, wait) => Some((lock, *wait)),
    };
    let mut attempt = 1;
    loop {
        match attempt_once(engine, requests, first, wait).await {
            // Waiting for a second row would make other transactions wait for the first. Without `first`, the attempt skips locked rows and
            // reports them all.
            Err(AttemptError::Contended) => first = None,
            Err(AttemptError::Outdated) if attempt < ATTEMPTS_MAX => {}
            Err(AttemptError::Transient(error)) if attempt < ATTEMPTS_MAX => {
                tracing::debug!(%error, attempt, "batch failed, retrying");
                tokio::time::sleep(Duration::from_millis(5 << attempt)).await;
            }
            end => return end,
        }
        attempt += 1;
    }
}

async fn attempt_once<A: Engine>(
    engine: &A,
    requests: &[&CheckedRequest],
    first: Option<(&Lock, Duration)>,
    wait: Duration,
) -> Result<Vec<RequestOutcome>, AttemptError> {
    let Prepared { tx, outcomes, now } = engine.prepare(requests, first, wait).await?;
    let done = engine.finish(tx).await;
    if !Mutant::AnswerBeforeCommit.on() {
        done?;
    }
    // Needed even if nothing was written: a hold that this node has reported as expired must stay expired.
    engine.note_decided_at(now);
    Ok(outcomes)
}

/// Returns the names of a request, one of which another transaction has inserted.
fn names(request: &CheckedRequest) -> Vec<Lock> {
    let needs = request.needs();
    let keys = needs.keys.iter().cloned().map(Lock::Key);
    keys.chain(needs.job_keys.iter().cloned().map(Lock::JobKey)).collect()
}
