//! Retries: a batch on an engine with several writers is tried again where that is safe, and split where another transaction
//! holds a name that some of its requests need.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bursar_core::mutant::Mutant;
use bursar_core::request::CheckedRequest;
use bursar_core::time::Time;

use super::lock_order::Lock;
use crate::error::StoreError;
use crate::store::{LockPolicy, RequestOutcome};

/// How often a batch is tried.
const ATTEMPTS_MAX: u32 = 6;
/// How often a batch is split in halves because another transaction holds a name it needs.
const SPLITS_MAX: usize = 16;

/// An engine on which a transaction can lose a race.
#[expect(
    async_fn_in_trait,
    reason = "an engine is named where it is used, so that the compiler sees what its futures are"
)]
pub trait Engine {
    /// An open transaction.
    type Tx;

    /// How long a batch waits for a name that another transaction is about to take.
    fn name_timeout(&self) -> Duration;

    /// Loads, decides and writes a batch in a transaction that is not yet committed. Waits for `first` if there is one, and up to
    /// `wait` for any other row.
    async fn prepare(
        &self,
        requests: &[&CheckedRequest],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<Prepared<Self::Tx>, AttemptError>;

    /// Commits; returns when the transaction is durable.
    async fn finish(&self, tx: Self::Tx) -> Result<(), AttemptError>;

    /// Waits until no transaction is about to take a name.
    async fn wait_for_name(&self, lock: &Lock, timeout: Duration) -> Result<(), StoreError>;

    /// Records that this node has decided at an instant, so that its time never goes back before it.
    fn note_decided_at(&self, now: Time);
}

/// A transaction that only needs to be committed.
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
    /// A name that was free has been taken since, or a grant has changed: the decisions are out of date.
    Outdated,
    /// Another transaction holds a name, a queue or a grant that the batch needs, and did not end in time.
    NameLocked,
    /// Beside the row that the batch waited for, others are locked.
    Contended,
    /// The same attempt may succeed the next time.
    Transient(StoreError),
    /// A retry would not help, or is not known to be safe.
    Final(StoreError),
}

/// Commits the requests in one transaction, or in several where some of them need a name that another transaction holds.
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
            Ok(some) => {
                outcomes[part].iter_mut().zip(some).for_each(|(slot, outcome)| *slot = Some(outcome));
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
                StoreError::Busy("other transactions kept taking the same names".into())
            }
            Err(AttemptError::Transient(error) | AttemptError::Final(error)) => error,
        };
        if part.len() == requests.len() {
            return Err(error);
        }
        // Other parts of the batch are committed already: their outcomes are returned.
        let error = Arc::new(error);
        outcomes[part].iter_mut().for_each(|slot| *slot = Some(RequestOutcome::Failed(error.clone())));
    }
    Ok(outcomes.into_iter().map(|outcome| outcome.expect("every part has its outcomes")).collect())
}

async fn commit_part<A: Engine>(
    engine: &A,
    requests: &[&CheckedRequest],
    policy: &LockPolicy,
    split: bool,
) -> Result<Vec<RequestOutcome>, AttemptError> {
    // A slow transaction is known to hold a name. The parts only find out which requests need it.
    let wait = if split { engine.name_timeout() / 20 } else { engine.name_timeout() };
    let mut first = match policy {
        LockPolicy::Skip => None,
        LockPolicy::WaitFor(lock @ (Lock::Key(_) | Lock::JobKey(_)), wait) => {
            engine.wait_for_name(lock, *wait).await.map_err(AttemptError::Final)?;
            None
        }
        LockPolicy::WaitFor(lock, wait) => Some((lock, *wait)),
    };
    let mut attempt = 1;
    loop {
        match once(engine, requests, first, wait).await {
            // Waiting longer would block others on the rows locked so far. Without waiting, the locked rows are reported.
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

async fn once<A: Engine>(
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
    // Also where nothing was written: a hold that was refused as expired must stay expired.
    engine.note_decided_at(now);
    Ok(outcomes)
}

/// The names and grants of a request, one of which another transaction holds.
fn names(request: &CheckedRequest) -> Vec<Lock> {
    let needs = request.needs();
    let keys = needs.keys.iter().cloned().map(Lock::Key);
    let job_keys = needs.job_keys.iter().cloned().map(Lock::JobKey);
    keys.chain(job_keys).chain(needs.grants.iter().copied().map(Lock::Grant)).collect()
}
