//! The charges of live holds on a scope, ordered by expiry.
//!
//! The latest charges are kept in the scope's own row, which every charge rewrites anyway. When the row already has
//! [`RECENT_MAX`], all of them move together to the table `live_charges`, so that they share a page there. A hold that
//! is settled soon never reaches the table.

use serde::{Deserialize, Serialize};

use crate::id::HoldId;
use crate::mutant::Mutant;
use crate::scope::{DueStep, ScopeState};
use crate::time::Time;

/// The number of charges kept in a scope's row.
pub const RECENT_MAX: usize = 16;

/// A position in the order of live charges on a scope: expiry, then hold.
pub type ChargeMark = (Time, HoldId);

/// The units that one live hold sets aside on a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCharge {
    /// When the hold expires; `NEVER` while a job owns it.
    pub expires_at: Time,
    /// The hold.
    pub hold: HoldId,
    /// When it was placed.
    pub placed_at: Time,
    /// The units it holds on this scope.
    pub amount: i64,
    /// The units that its expiry posts on this scope. Stored apart from the fields above, which are version 1 of the row.
    #[serde(skip)]
    pub on_expiry: i64,
}

impl LiveCharge {
    /// Returns its position in the order.
    pub fn mark(&self) -> ChargeMark {
        (self.expires_at, self.hold)
    }
}

impl ScopeState {
    /// Adds a charge to the row, and returns the charges that must move to the table.
    pub(crate) fn add_live(&mut self, charge: LiveCharge) -> Vec<LiveCharge> {
        let spilled = if self.recent.len() < RECENT_MAX { Vec::new() } else { std::mem::take(&mut self.recent) };
        self.recent.push(charge);
        spilled
    }

    /// Removes a charge from the row; returns false if it is in the table instead.
    pub(crate) fn remove_live(&mut self, hold: HoldId) -> bool {
        let place = self.recent.iter().position(|charge| charge.hold == hold);
        place.map(|place| self.recent.remove(place)).is_some()
    }

    /// Merges the due charges of the table with those of the row, in order, for one step of folding.
    pub(crate) fn due_charges(&self, table: &DueStep<LiveCharge>, now: Time) -> DueStep<LiveCharge> {
        // If more is due in the table, only charges before the next unread one may be folded.
        let until = match table.items.last() {
            Some(last) if table.more => last.mark(),
            _ => (now, HoldId(u128::MAX)),
        };
        let forgotten = Mutant::ForgetRecent.on();
        let due = |charge: &&LiveCharge| charge.mark() > self.folded && charge.mark() <= until && !forgotten;
        let mut items: Vec<LiveCharge> = table.items.iter().chain(self.recent.iter().filter(due)).cloned().collect();
        items.sort_by_key(LiveCharge::mark);
        let later = self.recent.iter().map(|charge| charge.expires_at).filter(|at| *at > now);
        DueStep { items, more: table.more, next: later.min().unwrap_or(Time::NEVER).min(table.next) }
    }

    /// Returns the units of the row's live charges that are not folded and were placed at or after an instant.
    pub fn recently_held(&self, placed_from: Time) -> i64 {
        let counted =
            self.recent.iter().filter(|charge| charge.mark() > self.folded && charge.placed_at >= placed_from);
        counted.map(|charge| charge.amount).sum()
    }

    /// Returns the first `limit` live holds after a position, given those of the table after it.
    pub fn live_after(&self, after: Option<ChargeMark>, table: Vec<ChargeMark>, limit: usize) -> Vec<HoldId> {
        let recent = self.recent.iter().map(LiveCharge::mark).filter(|mark| after.is_none_or(|after| *mark > after));
        let mut marks: Vec<ChargeMark> = table.into_iter().chain(recent).collect();
        marks.sort_unstable();
        // The row and the table may have been read at different times, so a hold can appear in both.
        marks.dedup();
        marks.into_iter().map(|(_, hold)| hold).take(limit).collect()
    }
}
