//! Counts of refusals by reason, and of events that an operator wants to know about.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

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
    /// Limits and freezes of budgets in shadow mode that would have refused a request.
    pub shadow_refusals: u64,
}

impl Incidents {
    fn add(&mut self, event: &Event) {
        match event {
            Event::HoldCommitted { late, overrun, .. } => {
                self.late_commits += u64::from(*late);
                self.overruns += u64::from(*overrun > 0);
            }
            Event::BudgetTripped { .. } => self.trips += 1,
            Event::BudgetFrozen { .. } => self.freezes += 1,
            Event::BudgetWouldRefuse(_) => self.shadow_refusals += 1,
            _ => {}
        }
    }
}

pub(crate) struct Counts {
    reasons: Vec<AtomicU64>,
    incidents: Mutex<Incidents>,
}

impl Default for Counts {
    fn default() -> Counts {
        let reasons = RefusalReason::ALL.iter().map(|_| AtomicU64::new(0)).collect();
        Counts { reasons, incidents: Mutex::default() }
    }
}

impl Counts {
    pub(crate) fn refused(&self, reason: RefusalReason) {
        self.reasons[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the events of an entry that was committed.
    pub(crate) fn committed(&self, entry: &Entry) {
        let mut found = self.incidents.lock().unwrap_or_else(PoisonError::into_inner);
        entry.events.iter().for_each(|recorded| found.add(&recorded.e));
    }

    pub(crate) fn reasons(&self) -> Vec<(RefusalReason, u64)> {
        let counts = self.reasons.iter().map(|count| count.load(Ordering::Relaxed));
        RefusalReason::ALL.iter().copied().zip(counts).collect()
    }

    pub(crate) fn incidents(&self) -> Incidents {
        *self.incidents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
