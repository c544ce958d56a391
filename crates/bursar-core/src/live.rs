//! Charges of live holds, by when they are due on a scope.
//!
//! The latest stand in the scope's own row, which every charge rewrites anyway. Only when there are too many for it do they
//! go to a table of their own, together, so that they share a page there; a hold that is settled soon never does.

use serde::{Deserialize, Serialize};

use crate::id::HoldId;
use crate::mutant::Mutant;
use crate::scope::{Batchwise, ScopeState};
use crate::time::Time;

/// Charges that stand in a scope's row.
pub const RECENT_MAX: usize = 16;

/// A place in the order in which charges of live holds are due on a scope.
pub type ChargeMark = (Time, HoldId);

/// A charge of a live hold on a scope, by when it is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCharge {
    /// When the hold expires; `NEVER` while a job owns it.
    pub expires_at: Time,
    /// The hold.
    pub hold: HoldId,
    /// When it was placed.
    pub placed_at: Time,
    /// What it holds on this scope.
    pub amount: i64,
}

impl LiveCharge {
    /// Its place in the order.
    pub fn mark(&self) -> ChargeMark {
        (self.expires_at, self.hold)
    }
}

impl ScopeState {
    /// Takes a charge in, and returns those that must go to the table for it.
    pub(crate) fn add_live(&mut self, charge: LiveCharge) -> Vec<LiveCharge> {
        let spilled = if self.recent.len() < RECENT_MAX { Vec::new() } else { std::mem::take(&mut self.recent) };
        self.recent.push(charge);
        spilled
    }

    /// Takes a charge away; false when it is not in the row, but in the table.
    pub(crate) fn remove_live(&mut self, hold: HoldId) -> bool {
        let place = self.recent.iter().position(|charge| charge.hold == hold);
        place.map(|place| self.recent.remove(place)).is_some()
    }

    /// What is due of the charges in the table together with those in the row, in one order, one step.
    pub(crate) fn due_charges(&self, table: &Batchwise<LiveCharge>, now: Time) -> Batchwise<LiveCharge> {
        // As long as more is due in the table, only what comes before that can be folded.
        let until = match table.items.last() {
            Some(last) if table.more => last.mark(),
            _ => (now, HoldId(u128::MAX)),
        };
        let forgotten = Mutant::ForgetRecent.on();
        let due = |charge: &&LiveCharge| charge.mark() > self.folded && charge.mark() <= until && !forgotten;
        let mut items: Vec<LiveCharge> = table.items.iter().chain(self.recent.iter().filter(due)).cloned().collect();
        items.sort_by_key(LiveCharge::mark);
        let later = self.recent.iter().map(|charge| charge.expires_at).filter(|at| *at > now);
        Batchwise { items, more: table.more, next: later.min().unwrap_or(Time::NEVER).min(table.next) }
    }

    /// Units of live holds in the row that are not folded and were placed from an instant on.
    pub fn recently_held(&self, placed_from: Time) -> i64 {
        let counted =
            self.recent.iter().filter(|charge| charge.mark() > self.folded && charge.placed_at >= placed_from);
        counted.map(|charge| charge.amount).sum()
    }

    /// The first `limit` live holds after a place in the order, given those of the table after it.
    pub fn live_after(&self, after: Option<ChargeMark>, table: Vec<ChargeMark>, limit: usize) -> Vec<HoldId> {
        let recent = self.recent.iter().map(LiveCharge::mark).filter(|mark| after.is_none_or(|after| *mark > after));
        let mut marks: Vec<ChargeMark> = table.into_iter().chain(recent).collect();
        marks.sort_unstable();
        // Row and table may have been read one after the other.
        marks.dedup();
        marks.into_iter().map(|(_, hold)| hold).take(limit).collect()
    }
}
