//! Limits, recomputed from the journal without Bursar's own arithmetic.

use std::collections::HashMap;

use bursar::{Bursar, Error, Event, HoldId, JournalEvent, Window};

use super::checker::CheckReport;
use super::client_process::SHORT_LIVED;

/// The sums of each scope at a position of the journal.
#[derive(Default)]
pub(crate) struct LimitCheck {
    scopes: HashMap<String, Scope>,
    /// The scopes and amounts of each live hold.
    holds: HashMap<HoldId, Vec<(String, i64)>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Scope {
    limit: Option<i64>,
    posted: i64,
    held: i64,
}

impl LimitCheck {
    /// Checks that no hold or posting passed a limit, and that each scope's balance is the sum of its events.
    pub(crate) async fn check(
        journal: &[JournalEvent],
        bursar: &Bursar,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let mut limits = LimitCheck::default();
        for event in journal {
            limits.count(event, report);
        }
        for (name, scope) in limits.scopes.iter().filter(|(name, _)| *name != SHORT_LIVED) {
            let found = bursar.ledger().budget(name.as_str()).await?;
            let found = found.iter().flat_map(|view| &view.balances).find(|own| own.window == Window::Lifetime);
            let found = found.map(|balance| (balance.posted, balance.held));
            if found != Some((scope.posted, scope.held)) {
                report.add(format!(
                    "{name}: posted and held are {found:?}, the events add up to ({}, {})",
                    scope.posted, scope.held
                ));
            }
        }
        Ok(())
    }

    fn count(&mut self, event: &JournalEvent, report: &mut CheckReport) {
        match &event.event {
            Event::BudgetDefined { scope, budget } => {
                let limit = budget.limits.iter().find(|limit| limit.window == Window::Lifetime);
                self.of(scope.as_str()).limit = limit.map(|limit| limit.amount);
            }
            Event::HoldPlaced { hold, charges, .. } => {
                let amounts = charges
                    .iter()
                    .flat_map(|charge| charge.scopes().map(|scope| (scope.as_str().to_owned(), charge.amount)));
                let amounts: Vec<_> = amounts.collect();
                for (name, amount) in &amounts {
                    self.of(name).held += amount;
                    self.check_admitted(name, event.position, report);
                }
                self.holds.insert(*hold, amounts);
            }
            Event::Posted { charges } => {
                for charge in charges {
                    for scope in charge.scopes() {
                        self.of(scope.as_str()).posted += charge.amount;
                        self.check_admitted(scope.as_str(), event.position, report);
                    }
                }
            }
            Event::HoldCommitted { hold, charges, .. } => {
                self.free(*hold);
                for charge in charges {
                    for scope in charge.scopes() {
                        self.of(scope.as_str()).posted += charge.actual.unwrap_or(charge.amount);
                    }
                }
            }
            Event::HoldReleased { hold, .. } | Event::HoldExpired { hold, .. } => self.free(*hold),
            // Real spend is recorded even above the limit.
            Event::JobBilled { charges, .. } => {
                for charge in charges {
                    for scope in charge.scopes() {
                        self.of(scope.as_str()).posted += charge.amount;
                    }
                }
            }
            _ => {}
        }
    }

    fn of(&mut self, name: &str) -> &mut Scope {
        self.scopes.entry(name.to_owned()).or_default()
    }

    fn free(&mut self, hold: HoldId) {
        for (name, amount) in self.holds.remove(&hold).unwrap_or_default() {
            self.of(&name).held -= amount;
        }
    }

    fn check_admitted(&mut self, name: &str, position: u64, report: &mut CheckReport) {
        let scope = *self.of(name);
        // Holds of the short-lived scope stop counting without an event, so that its live holds are unknown here.
        let exceeded = scope.limit.is_none_or(|limit| scope.posted + scope.held > limit);
        if exceeded && name != SHORT_LIVED {
            report.add(format!("{name} is above its limit at position {position}: {scope:?}"));
        }
    }
}
