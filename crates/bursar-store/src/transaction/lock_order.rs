//! The one order in which rows are locked, so that no two transactions wait for each other.
//!
//! A batch locks its rows kind by kind in the order of [`Lock`], each kind sorted, and skips rows that are locked. A batch that has
//! waited for one row may wait for rows after it, and must skip rows before it: [`LockOrder`] tells which.

use bursar_core::id::{GrantId, HoldId, JobId};
use bursar_core::mutant::Mutant;
use bursar_core::state::{JobKey, KeyKey, ScheduleKey, ScopeKey};

/// A row that can be locked. The order of the variants is the lock order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lock {
    /// An idempotency key.
    Key(KeyKey),
    /// A key of a job.
    JobKey(JobKey),
    /// A schedule.
    Schedule(ScheduleKey),
    /// A job.
    Job(JobId),
    /// A hold.
    Hold(HoldId),
    /// A grant.
    Grant(GrantId),
    /// A scope.
    Scope(ScopeKey),
}

/// How far a transaction that waits for locks has come in the lock order.
#[derive(Clone, Debug)]
pub struct LockOrder {
    reached: Lock,
}

impl LockOrder {
    /// A transaction that has locked one row, after waiting for it.
    pub fn from(first: &Lock) -> LockOrder {
        LockOrder { reached: first.clone() }
    }

    /// Whether the transaction may wait for a row. It must skip a locked row that comes before one it has locked.
    pub fn may_wait(&self, lock: &Lock) -> bool {
        self.reached < *lock || Mutant::WaitOutOfTurn.on()
    }

    /// Records that a row was requested.
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
        assert!(!order.may_wait(&Lock::Grant(GrantId(6))), "the furthest row counts");
    }
}
