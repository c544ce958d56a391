//! How defining a budget changes a scope's row.
//!
//! Admission uses this code as well as `apply`: a charge with a default budget is admitted on a copy of the row with
//! the budget defined, so that the definition and the charge are one command and a refused charge defines nothing. A
//! budget that came with a charge is marked ([`Budget::by_default`]). A charge that brings a different default replaces
//! a marked budget, but never one that a caller defined.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::budget::Budget;
use crate::mutant::Mutant;
use crate::scope::{Balance, ScopeState};
use crate::time::Time;
use crate::window::Window;

impl ScopeState {
    /// Defines a budget and returns the one it replaces.
    pub(crate) fn define(&mut self, budget: &Arc<Budget>, now: Time) -> Option<Arc<Budget>> {
        self.make_room_for(budget, now);
        let before = self.budget.replace(budget.clone());
        self.redefined = true;
        for window in budget.windows() {
            self.name_window(window, now);
        }
        carry_buckets(self, before.as_deref(), budget);
        // The trip limit may have been raised above the current spend.
        self.rearm_trip();
        before
    }

    /// Closes windows that the budget does not name until its own windows fit, so that a definition is never refused for
    /// too many windows. Windows that can be summed again from postings are closed before buckets, and among each those
    /// that were named longest ago.
    fn make_room_for(&mut self, budget: &Budget, now: Time) {
        let replaced = self.budget.as_ref().map(|old| old.replaced_buckets(budget)).unwrap_or_default();
        let replaced: BTreeSet<&Window> = replaced.into_iter().map(|(old, _)| old).collect();
        let lacking = self.windows_too_many(budget.windows(), replaced.len(), now);
        let named: BTreeSet<&Window> = budget.windows().collect();
        let is_bucket = |balance: &Balance| matches!(balance.window, Window::Bucket { .. });
        let mut closable: Vec<(bool, Time, usize)> = Vec::new();
        for (place, balance) in self.balances.iter().enumerate() {
            let stays = balance.prospective
                || balance.window == Window::Lifetime
                || balance.is_idle(now)
                || named.contains(&balance.window)
                || replaced.contains(&balance.window);
            if !stays {
                closable.push((is_bucket(balance), balance.named, place));
            }
        }
        closable.sort();
        for (_, _, place) in closable.into_iter().take(lacking) {
            self.balances[place].prospective = true;
        }
    }

    /// Returns whether a charge's default budget applies: the scope has no budget, or one that a charge brought.
    pub fn takes_default(&self) -> bool {
        self.budget.as_ref().is_none_or(|budget| budget.by_default || Mutant::DefaultReplacesDefined.on())
    }
}

/// Carries what was taken out of a replaced bucket over to the one that replaces it.
fn carry_buckets(row: &mut ScopeState, before: Option<&Budget>, after: &Budget) {
    let replaced = before.map(|before| before.replaced_buckets(after)).unwrap_or_default();
    for (old, new) in &replaced {
        let Some(old) = row.balance(old).cloned() else { continue };
        if let Some(balance) = row.balances.iter_mut().find(|balance| balance.window == **new) {
            balance.carry(&old);
        }
    }
    // The old bucket is kept up to date until the end of the batch, because another request of the batch may name it.
    for balance in row.balances.iter_mut().filter(|b| replaced.iter().any(|(old, _)| b.window == **old)) {
        balance.prospective = true;
    }
}
