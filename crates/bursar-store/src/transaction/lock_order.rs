//! The order in which all transactions lock rows, so that no two of them wait for each other (deadlock).
//!
//! A batch locks its rows kind by kind in the order of [`Lock`], each kind sorted, and skips rows that another transaction has locked. A
//! batch that has waited for one row may also wait for rows after it in the order, but must skip rows before it; see [`LockOrder`].

use bursar_core::id::{BlobId, GrantId, HoldId, JobId};
use bursar_core::mutant::Mutant;
use bursar_core::state::{IdempotencyRowKey, JobKey, ScheduleKey, ScopeKey};

/// A row that can be locked. The order of the variants is the lock order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lock {
    /// An idempotency key.
    Key(IdempotencyRowKey),
    /// An idempotency key of a job.
    JobKey(JobKey),
    /// A schedule.
    Schedule(ScheduleKey),
    /// A job.
    Job(JobId),
    /// A blob.
    Blob(BlobId),
    /// A hold.
    Hold(HoldId),
    /// A grant.
    Grant(GrantId),
    /// A scope.
    Scope(ScopeKey),
}

/// The position in the lock order of a transaction that waits for locks.
#[derive(Clone, Debug)]
pub struct LockOrder {
    reached: Lock,
}

impl LockOrder {
    /// Returns the position of a transaction that has waited for one row and locked it.
    pub fn from(first: &Lock) -> LockOrder {
        LockOrder { reached: first.clone() }
    }

    /// Returns whether the transaction may wait for a row. It may not if it has reached a later row: waiting could deadlock.
    pub fn may_wait(&self, lock: &Lock) -> bool {
        self.reached < *lock || Mutant::WaitOutOfTurn.on()
    }

    /// Records that the transaction locks a row, or tries to.
    pub fn reach(&mut self, lock: Lock) {
        if self.reached < lock {
            self.reached = lock;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_before_a_locked_row_are_not_waited_for() {
        let mut order = LockOrder::from(&Lock::Hold(HoldId(5)));
        for before in [Lock::Job(JobId(9)), Lock::Hold(HoldId(4)), Lock::Hold(HoldId(5))] {
            assert!(!order.may_wait(&before), "{before:?}");
        }
        assert!(order.may_wait(&Lock::Hold(HoldId(6))));
        assert!(order.may_wait(&Lock::Grant(GrantId(1))));
        order.reach(Lock::Grant(GrantId(7)));
        order.reach(Lock::Hold(HoldId(6)));
        assert!(!order.may_wait(&Lock::Grant(GrantId(6))), "the last row in the order counts");
    }
}
