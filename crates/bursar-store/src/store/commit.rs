//! What commits.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::answer::Outcome;
use bursar_core::refusal::Refusal;
use bursar_core::request::CheckedRequest;

use crate::error::StoreError;
use crate::transaction::lock_order::Lock;

/// The part of an engine that commits. Every change of Bursar's tables by a request goes through it.
#[async_trait]
pub trait Commit: Send + Sync + 'static {
    /// Executes the requests in one transaction, each completely or not at all, and returns when it is durable. Returns one
    /// outcome for each request, in order.
    async fn commit(
        &self,
        requests: &[Arc<CheckedRequest>],
        policy: LockPolicy,
    ) -> Result<Vec<RequestOutcome>, StoreError>;
}

/// The outcome of one request of a batch.
#[derive(Clone, Debug)]
pub enum RequestOutcome {
    /// It was done, and is durable; or it was refused.
    Answered(Result<Outcome, Refusal>),
    /// It must be submitted again: rows were missing, or more is due on its scopes than one transaction folds.
    Again,
    /// Another transaction has locked rows it needs: wait for these and submit it again.
    Blocked(Vec<Lock>),
    /// The transaction it was in failed, while transactions of other requests of the batch succeeded.
    Failed(Arc<StoreError>),
}

/// What to do about rows that another transaction has locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockPolicy {
    /// Skip them, and report the requests that need one as blocked.
    Skip,
    /// Wait up to this long for one row before anything else is locked; `Busy` when the time is over. Then wait a moment for rows that
    /// come later in the lock order, and skip those that come before it.
    WaitFor(Lock, Duration),
}
