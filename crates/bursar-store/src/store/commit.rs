//! Executing requests.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bursar_core::answer::Outcome;
use bursar_core::refusal::Refusal;
use bursar_core::request::CheckedRequest;

use crate::error::StoreError;
use crate::transaction::lock_order::Lock;

/// The part of a store that executes requests. Every request goes through it.
#[async_trait]
pub trait Commit: Send + Sync + 'static {
    /// Executes the requests, each completely or not at all, in one transaction if possible. Returns when the transaction is durable, with
    /// one outcome for each request, in order.
    async fn commit(
        &self,
        requests: &[Arc<CheckedRequest>],
        policy: LockPolicy,
    ) -> Result<Vec<RequestOutcome>, StoreError>;
}

/// The outcome of one request of a batch.
#[derive(Clone, Debug)]
pub enum RequestOutcome {
    /// It was executed and is durable, or it was refused.
    Answered(Result<Outcome, Refusal>),
    /// It must be submitted again: rows it needs were not loaded, or more is due on its scopes than one transaction folds.
    Again,
    /// It needs these rows, which other transactions have locked. Wait for one of them and submit it again.
    Blocked(Vec<Lock>),
    /// Its transaction failed, while other requests of the batch were committed in a transaction of their own.
    Failed(Arc<StoreError>),
}

/// What to do about rows that another transaction has locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockPolicy {
    /// Skip them, and report the requests that need one as blocked.
    Skip,
    /// Wait up to this long for one row before any other row is locked, and fail with `Busy` when the time is over. With the row locked,
    /// wait a moment for locked rows that come later in the lock order, and skip those that come before it.
    WaitFor(Lock, Duration),
}
