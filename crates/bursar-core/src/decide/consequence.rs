//! Follow-up events of a changed scope: thresholds crossed and cleared, trip limits, freezes that end.
//!
//! After the events of a request are applied, `decide` computes these for every scope it touched and appends them to
//! the same journal entry.

use crate::event::Event;
use crate::mutant::Mutant;
use crate::scope::{Balance, ScopeState};
use crate::state::{ScopeKey, Workspace};
use crate::time::Time;

/// Returns the follow-up events of a scope's current state. Applying an event removes its cause, so each occurs once.
pub(super) fn of(ws: &Workspace, key: &ScopeKey) -> Vec<Event> {
    let Some(row) = ws.scopes.get(key) else { return Vec::new() };
    let mut events = Vec::new();
    if row.frozen.is_some() && row.frozen_at(ws.now).is_none() {
        events.push(Event::BudgetUnfrozen { scope: key.1.clone(), turned: true });
    }
    thresholds(key, row, &mut events);
    trip(key, row, &mut events);
    events
}

/// Adds events for the thresholds that posted spend has reached, or fallen below, since the last event.
fn thresholds(key: &ScopeKey, row: &ScopeState, events: &mut Vec<Event>) {
    let Some(budget) = &row.budget else { return };
    for limit in &budget.limits {
        let Some(balance) = row.balance(&limit.window) else { continue };
        let spent = balance.spent();
        let reached = |percent: u32| {
            limit.amount > 0 && i128::from(spent) * 100 >= i128::from(limit.amount) * i128::from(percent)
        };
        for percent in budget
            .thresholds
            .iter()
            .copied()
            .filter(|p| reached(*p) && (!balance.crossed.contains(p) || Mutant::CrossTwice.on()))
        {
            events.push(Event::BudgetCrossed {
                scope: key.1.clone(),
                window: limit.window.clone(),
                percent,
                limit: limit.amount,
                spent,
            });
        }
        let kept = |percent: &u32| budget.thresholds.contains(percent) && reached(*percent);
        for percent in balance.crossed.iter().copied().filter(|p| !kept(p)) {
            events.push(Event::BudgetCleared { scope: key.1.clone(), window: limit.window.clone(), percent });
        }
    }
}

/// Adds an event if posted spend has passed the trip limit.
fn trip(key: &ScopeKey, row: &ScopeState, events: &mut Vec<Event>) {
    let Some(trip) = row.budget.as_ref().and_then(|budget| budget.trip.as_ref()) else { return };
    let Some(balance) = row.balance(&trip.window) else { return };
    if balance.tripped || balance.spent() <= trip.amount || Mutant::NeverTrip.on() {
        return;
    }
    events.push(Event::BudgetTripped {
        scope: key.1.clone(),
        window: trip.window.clone(),
        limit: trip.amount,
        spent: Balance::spent(balance),
        until: (balance.until < Time::NEVER).then_some(balance.until),
    });
}
