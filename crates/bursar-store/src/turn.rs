//! The one order of locks, as a batch keeps it that waits.

use bursar_core::mutant::Mutant;

use crate::store::Lock;

/// How far a batch has come in the one order of locks.
///
/// Whoever waits for a row has none that comes after it. Of two batches that wait, the one that has the later row never
/// waits for the other: so no two wait for each other, and no lock is held until somebody's patience is over.
#[derive(Clone, Debug)]
pub struct Turn {
    reached: Lock,
}

impl Turn {
    /// A batch that has one row, which it has waited for.
    pub fn from(first: &Lock) -> Turn {
        Turn { reached: first.clone() }
    }

    /// Whether a row may be waited for. One that comes before what is had already may only be taken where it is free.
    pub fn may_wait(&self, lock: &Lock) -> bool {
        self.reached < *lock || Mutant::WaitOutOfTurn.on()
    }

    /// A row was asked for.
    pub fn reach(&mut self, lock: Lock) {
        if self.reached < lock {
            self.reached = lock;
        }
    }
}

#[cfg(test)]
mod tests {
    use bursar_core::id::{GrantId, HoldId, JobId};

    use super::*;

    #[test]
    fn a_row_before_what_is_had_is_not_waited_for() {
        let mut turn = Turn::from(&Lock::Hold(HoldId(5)));
        for before in [Lock::Job(JobId(9)), Lock::Hold(HoldId(4)), Lock::Hold(HoldId(5))] {
            assert!(!turn.may_wait(&before), "{before:?}");
        }
        assert!(turn.may_wait(&Lock::Hold(HoldId(6))));
        assert!(turn.may_wait(&Lock::Grant(GrantId(1))));
        turn.reach(Lock::Grant(GrantId(7)));
        turn.reach(Lock::Hold(HoldId(6)));
        assert!(!turn.may_wait(&Lock::Grant(GrantId(6))), "what was reached is not forgotten");
    }
}
