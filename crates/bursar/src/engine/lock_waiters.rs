//! Requests that wait for a row which another transaction has locked.
//!
//! One task waits for each such row, with nothing else locked. When it gets the row, it commits all requests that wait for it,
//! batch after batch, until none is left. A request waits for the first of its locked rows in the lock order, so that requests
//! that need the same rows wait for the same one.

use std::sync::Arc;

use bursar_store::{Lock, LockPolicy, StoreError};
use tokio::time::{Instant, timeout_at};

use super::committer::Shared;
use super::queue::Pending;

/// The most rows that are waited for at the same time. Each wait uses a connection.
pub(super) const WAITS_MAX: usize = 4;

impl Shared {
    /// Lets a request wait for the first of its locked rows. Starts a task for the row if there is none.
    pub(super) fn wait_for_lock(self: &Arc<Self>, pending: Pending, locks: &[Lock]) {
        let Some(lock) = locks.iter().min() else {
            self.queue().put_back(vec![pending]);
            return;
        };
        if self.queue().add_lock_waiter(pending, locks) {
            tokio::spawn(commit_when_unlocked(self.clone(), lock.clone()));
        }
    }
}

/// Commits the requests that wait for a row when it is unlocked, and fails those whose deadline has passed.
async fn commit_when_unlocked(shared: Arc<Shared>, lock: Lock) {
    loop {
        let Some(deadline) = shared.queue().lock_deadline(&lock) else { break };
        if let Ok(Ok(_permit)) = timeout_at(deadline, shared.lock_waits.acquire()).await {
            let timeout = deadline.saturating_duration_since(Instant::now());
            let batch = shared.queue().take_lock_waiters(&lock, shared.options.batch);
            let result = shared.commit(batch, LockPolicy::WaitFor(lock.clone(), timeout)).await;
            shared.queue().put_back_lock_waiters(&lock, result.again);
            shared.answer_all(result.answers);
        }
        for pending in shared.queue().overdue_lock_waiters(&lock, Instant::now()) {
            let busy = StoreError::Busy("another transaction has locked rows that the request needs".into());
            shared.answer(pending, Err(busy.into()));
        }
    }
    shared.wake.notify_waiters();
}
