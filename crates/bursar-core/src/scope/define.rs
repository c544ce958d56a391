//! What a definition does to a scope's row.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::budget::Budget;
use crate::mutant::Mutant;
use crate::scope::{Balance, ScopeState};
use crate::time::Time;
use crate::window::Window;

impl ScopeState {
    /// Registers a budget; returns the one it takes the place of.
    pub(crate) fn define(&mut self, budget: &Arc<Budget>, now: Time) -> Option<Arc<Budget>> {
        self.make_room_for(budget, now);
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

    /// Closes windows that the budget does not name, as many as it needs the places of: a limit that is set always goes. Windows that
    /// postings open again go first, then those that were named longest ago.
    fn make_room_for(&mut self, budget: &Budget, now: Time) {
        let replaced = self.budget.as_ref().map(|old| old.replaced_buckets(budget)).unwrap_or_default();
        let replaced: BTreeSet<&Window> = replaced.into_iter().map(|(old, _)| old).collect();
        let lacking = self.places_lacking(budget.windows(), replaced.len(), now);
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
