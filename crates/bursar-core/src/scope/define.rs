//! What a definition does to a scope's row.

use std::sync::Arc;

use crate::budget::Budget;
use crate::mutant::Mutant;
use crate::scope::ScopeState;
use crate::time::Time;

impl ScopeState {
    /// Registers a budget; returns the one it takes the place of.
    pub(crate) fn define(&mut self, budget: &Arc<Budget>, now: Time) -> Option<Arc<Budget>> {
        let before = self.budget.replace(budget.clone());
        self.redefined = true;
        for window in budget.windows() {
            self.name_window(window, now);
        }
        carry_buckets(self, before.as_deref(), budget);
        // A trip limit that was raised above what is spent holds nobody up from now on.
        self.rearm_trip();
        before
    }

    /// Whether a charge's own default counts here: nobody has defined a budget.
    pub fn takes_default(&self) -> bool {
        self.budget.as_ref().is_none_or(|budget| budget.by_default || Mutant::DefaultReplacesDefined.on())
    }
}

/// A bucket that is made larger or smaller keeps what has been taken out of it.
fn carry_buckets(row: &mut ScopeState, before: Option<&Budget>, after: &Budget) {
    let replaced = before.map(|before| before.replaced_buckets(after)).unwrap_or_default();
    for (old, new) in &replaced {
        let Some(old) = row.balance(old).cloned() else { continue };
        if let Some(balance) = row.balances.iter_mut().find(|balance| balance.window == **new) {
            balance.carry(&old);
        }
    }
    // Right until the end of the batch, in case that a neighbour names it again: a hold of this very instant counts in it.
    for balance in row.balances.iter_mut().filter(|b| replaced.iter().any(|(old, _)| b.window == **old)) {
        balance.prospective = true;
    }
}
