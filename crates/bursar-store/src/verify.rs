//! Verification: that balances are what holds and postings say.

use bursar_core::scope::{Balance, LiveCharge, Posting, ScopeState};
use bursar_core::state::ScopeKey;
use bursar_core::window::Window;

/// What was checked and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Scopes checked.
    pub scopes: u64,
    /// Holds checked.
    pub holds: u64,
    /// Jobs checked.
    pub jobs: u64,
    /// What is not as it should be; at most 100.
    pub violations: Vec<String>,
}

impl Report {
    /// Nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.violations.is_empty()
    }

    pub(crate) fn violation(&mut self, text: String) {
        if self.violations.len() < 100 {
            self.violations.push(text);
        }
    }

    /// Checks one scope against all its live charges and postings. `rolled` is the sum of postings rolled up.
    pub(crate) fn check_scope(
        &mut self,
        key: &ScopeKey,
        row: &ScopeState,
        live: &[LiveCharge],
        postings: &[Posting],
        rolled: i64,
    ) {
        self.scopes += 1;
        for balance in &row.balances {
            let unfolded = live.iter().filter(|charge| !row.has_folded(charge.expires_at, charge.hold));
            let held: i64 = unfolded.filter(|charge| belongs(balance, charge)).map(|charge| charge.amount).sum();
            if held != balance.held {
                let text = format!(
                    "{}/{} {}: held is {}, its live holds come to {held}",
                    key.0, key.1, balance.window, balance.held
                );
                self.violation(text);
            }
            let posted: i64 = match balance.window {
                Window::Bucket { .. } => continue,
                Window::Lifetime => rolled + postings.iter().map(|posting| posting.amount).sum::<i64>(),
                Window::Rolling { .. } => {
                    let counted = postings.iter().filter(|posting| (posting.at, posting.seq) > balance.evicted);
                    counted.map(|posting| posting.amount).sum()
                }
                Window::Calendar { .. } => {
                    let counted = postings.iter().filter(|p| balance.since <= p.at && p.at < balance.until);
                    counted.map(|posting| posting.amount).sum()
                }
            };
            if posted != balance.posted {
                let text = format!(
                    "{}/{} {}: posted is {}, its postings come to {posted}",
                    key.0, key.1, balance.window, balance.posted
                );
                self.violation(text);
            }
        }
    }
}

fn belongs(balance: &Balance, charge: &LiveCharge) -> bool {
    match balance.window {
        Window::Lifetime | Window::Rolling { .. } => true,
        Window::Bucket { .. } | Window::Calendar { .. } => {
            balance.since <= charge.placed_at && charge.placed_at < balance.until
        }
    }
}
