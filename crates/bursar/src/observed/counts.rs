//! Counts of refusals by reason, and of events that an operator wants to know about.

use std::sync::atomic::{AtomicU64, Ordering};

use bursar_core::event::{Entry, Event};
use bursar_core::refusal::RefusalReason;

/// How often something happened that an operator wants to know about, by commits of this process since it opened the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incidents {
    /// Holds committed with more units than they held.
    pub overruns: u64,
    /// Holds committed after their expiry.
    pub late_commits: u64,
    /// Budgets frozen because their spend passed a trip limit.
    pub trips: u64,
    /// Budgets frozen by a caller.
    pub freezes: u64,
}

pub(crate) struct Counts {
    reasons: Vec<AtomicU64>,
    overruns: AtomicU64,
    late_commits: AtomicU64,
    trips: AtomicU64,
    freezes: AtomicU64,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            reasons: RefusalReason::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            overruns: AtomicU64::new(0),
            late_commits: AtomicU64::new(0),
            trips: AtomicU64::new(0),
            freezes: AtomicU64::new(0),
        }
    }
}

impl Counts {
    pub(crate) fn refused(&self, reason: RefusalReason) {
        count(&self.reasons[reason as usize]);
    }

    /// Counts the events of an entry that was committed.
    pub(crate) fn committed(&self, entry: &Entry) {
        for recorded in &entry.events {
            match &recorded.e {
                Event::HoldCommitted { late, overrun, .. } => {
                    if *late {
                        count(&self.late_commits);
                    }
                    if *overrun > 0 {
                        count(&self.overruns);
                    }
                }
                Event::BudgetTripped { .. } => count(&self.trips),
                Event::BudgetFrozen { .. } => count(&self.freezes),
                _ => {}
            }
        }
    }

    pub(crate) fn reasons(&self) -> Vec<(RefusalReason, u64)> {
        RefusalReason::ALL.iter().copied().zip(self.reasons.iter().map(read)).collect()
    }

    pub(crate) fn incidents(&self) -> Incidents {
        Incidents {
            overruns: read(&self.overruns),
            late_commits: read(&self.late_commits),
            trips: read(&self.trips),
            freezes: read(&self.freezes),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
