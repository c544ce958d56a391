//! Caps, counted anew from the journal: nothing of Bursar's own arithmetic is used.

use std::collections::HashMap;

use bursar::{Bursar, Error, Event, HoldId, JournalEvent, Window};

use super::book::Verdict;
use super::worker::BRIEF;

/// What scopes come to as the journal goes on.
#[derive(Default)]
pub(crate) struct Caps {
    scopes: HashMap<String, Scope>,
    /// Live holds: on which scopes, and how much.
    holds: HashMap<HoldId, Vec<(String, i64)>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Scope {
    cap: Option<i64>,
    posted: i64,
    held: i64,
}

impl Caps {
    /// No hold or posting ever passed a cap, and in the end scopes say what their events come to.
    pub(crate) async fn check(journal: &[JournalEvent], bursar: &Bursar, verdict: &mut Verdict) -> Result<(), Error> {
        let mut caps = Caps::default();
        for event in journal {
            caps.count(event, verdict);
        }
        for (name, scope) in caps.scopes.iter().filter(|(name, _)| *name != BRIEF) {
            let found = bursar.ledger().budget(name.as_str()).await?;
            let found = found.iter().flat_map(|view| &view.balances).find(|own| own.window == Window::Lifetime);
            let found = found.map(|balance| (balance.posted, balance.held));
            if found != Some((scope.posted, scope.held)) {
                verdict.find(format!(
                    "{name}: posted and held are {found:?}, events come to ({}, {})",
                    scope.posted, scope.held
                ));
            }
        }
        Ok(())
    }

    fn count(&mut self, event: &JournalEvent, verdict: &mut Verdict) {
        match &event.event {
            Event::BudgetDefined { scope, budget } => {
                let cap = budget.limits.iter().find(|limit| limit.window == Window::Lifetime);
                self.of(scope.as_str()).cap = cap.map(|limit| limit.amount);
            }
            Event::HoldPlaced { hold, charges, .. } => {
                let parts = charges
                    .iter()
                    .flat_map(|charge| charge.scopes().map(|scope| (scope.as_str().to_owned(), charge.amount)));
                let parts: Vec<_> = parts.collect();
                for (name, amount) in &parts {
                    self.of(name).held += amount;
                    self.admitted(name, event.position, verdict);
                }
                self.holds.insert(*hold, parts);
            }
            Event::Posted { charges } => {
                for charge in charges {
                    for scope in charge.scopes() {
                        self.of(scope.as_str()).posted += charge.amount;
                        self.admitted(scope.as_str(), event.position, verdict);
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
            // It has been spent: no cap keeps it out.
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

    fn admitted(&mut self, name: &str, position: u64, verdict: &mut Verdict) {
        let scope = *self.of(name);
        // Holds of the brief scope stop counting without an event, so that what is live there is not counted here.
        let passed = scope.cap.is_none_or(|cap| scope.posted + scope.held > cap);
        if passed && name != BRIEF {
            verdict.find(format!("{name} is past its cap at {position}: {scope:?}"));
        }
    }
}
