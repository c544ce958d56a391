//! Checks that the tables agree with each other: balances with holds and postings, holds with charges and jobs.
//!
//! The engines read the tables in pages and compute the sums in SQL, so a check does not load a table into memory.

mod blobs;
mod jobs;

use bursar_core::hold::{Hold, HoldState};
use bursar_core::id::HoldId;
use bursar_core::job::{Job, JobState, Place};
use bursar_core::live::LiveCharge;
use bursar_core::name::Scope;
use bursar_core::scope::{ScopeState, WindowHistory};
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use bursar_core::window::Window;

pub(crate) use self::jobs::JobCounts;
use crate::codec::hold_state;
use crate::transaction::rows::HistoryQuery;

/// The most rows that a check reads at once.
pub(crate) const PAGE: usize = 200;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Scopes checked.
    pub scopes: u64,
    /// Holds checked.
    pub holds: u64,
    /// Jobs checked.
    pub jobs: u64,
    /// Blobs checked.
    pub blobs: u64,
    /// The violations found, as sentences; at most the first 100.
    pub violations: Vec<String>,
}

impl Report {
    /// Returns whether no violation was found.
    pub fn is_ok(&self) -> bool {
        self.violations.is_empty()
    }

    pub(crate) fn violation(&mut self, text: String) {
        if self.violations.len() < 100 {
            self.violations.push(text);
        }
    }

    /// Checks one scope against the sums of its [`history_queries`]. `rolled` is the sum of its rolled-up postings. `jobs` has the counts of
    /// all jobs, if they were counted.
    pub(crate) fn check_scope(
        &mut self,
        key: &ScopeKey,
        row: &ScopeState,
        rolled: i64,
        sums: &[WindowHistory],
        jobs: Option<&JobCounts>,
    ) {
        jobs.iter().for_each(|jobs| self.check_jobs_of_scope(key, row, jobs));
        let leased = jobs.and_then(|jobs| jobs.slots.get(key)).copied().unwrap_or(0);
        self.scopes += 1;
        let (tenant, scope) = key;
        for (balance, WindowHistory { posted, held, .. }) in row.balances.iter().zip(sums) {
            let window = &balance.window;
            let held = held.saturating_add(row.recently_held(balance.bounds().placed_from)).saturating_add(leased);
            if held != balance.held {
                let stored = balance.held;
                self.violation(format!("{tenant}/{scope} {window}: held is {stored}, its live holds add up to {held}"));
            }
            let posted = match window {
                // A bucket keeps a level instead of a sum.
                Window::Bucket { .. } => continue,
                Window::Lifetime => posted.saturating_add(rolled),
                Window::Rolling { .. } | Window::Calendar { .. } => *posted,
            };
            if posted != balance.posted {
                let stored = balance.posted;
                self.violation(format!(
                    "{tenant}/{scope} {window}: posted is {stored}, its postings add up to {posted}"
                ));
            }
        }
    }

    /// Checks one live charge against the hold it names.
    pub(crate) fn check_charge(&mut self, key: &ScopeKey, charge: &LiveCharge, hold: Option<&Hold>) {
        let problem = match hold {
            None => "which does not exist".to_owned(),
            Some(hold) if hold.state != HoldState::Held => format!("which is {}", hold.state),
            Some(hold) => {
                let same = hold.tenant == key.0
                    && hold.expires_at == charge.expires_at
                    && hold.placed_at == charge.placed_at
                    && hold.totals().get(&key.1) == Some(&charge.amount)
                    && hold.expiry_totals().get(&key.1).copied().unwrap_or(0) == charge.on_expiry;
                if same {
                    return;
                }
                "which has another amount, scope or time".to_owned()
            }
        };
        let (tenant, scope) = key;
        self.violation(format!(
            "{tenant}/{scope}: a live charge of {} belongs to {}, {problem}",
            charge.amount, charge.hold
        ));
    }

    /// Checks one hold: that its columns have its state and expiry, and that none of its live charges is `missing`.
    pub(crate) fn check_hold(&mut self, hold: &Hold, columns: (i16, Time), missing: &[Scope]) {
        self.holds += 1;
        if columns != (hold_state(hold.state), hold.expires_at) {
            self.violation(format!("{}: the columns for its state or expiry are wrong", hold.id));
        }
        for scope in missing {
            self.violation(format!("{}: it is held, but has no live charge on {}/{scope}", hold.id, hold.tenant));
        }
    }

    /// Checks one job against the hold that its end settles.
    pub(crate) fn check_job(&mut self, job: &Job, hold: Option<&Hold>) {
        self.jobs += 1;
        let (life, queued) = (&job.life, job.life.state == JobState::Queued);
        let parts = [
            ("lease", life.lease.is_some(), life.state == JobState::Leased),
            ("budget to wait for", life.awaits.is_some(), life.state == JobState::AwaitingBudget),
            ("place in a line", life.place != Place::Out, queued && job.key.is_some()),
        ];
        for (part, has, should) in parts {
            if has != should {
                let has = if has { "has a" } else { "has no" };
                self.violation(format!("{} is {}, but {has} {part}", job.id, life.state));
            }
        }
        let set_aside = hold.filter(|hold| hold.state == HoldState::Held && hold.job == Some(job.id));
        let set_aside: i128 =
            set_aside.iter().flat_map(|hold| &hold.charges).map(|charge| i128::from(charge.amount)).sum();
        let held: i128 = life.held.iter().map(|(_, amount)| amount).sum();
        if held != set_aside {
            self.violation(format!("{}: it records {held} held units, its hold has {set_aside}", job.id));
        }
        let Some(id) = job.hold else { return };
        match hold {
            None => self.violation(format!("{}: its hold {id} does not exist", job.id)),
            Some(hold) if hold.job != Some(job.id) || hold.tenant != job.tenant => {
                self.violation(format!("{}: its hold {id} does not belong to it", job.id));
            }
            // The hold of a job is held exactly while the job can run.
            Some(hold) => {
                let can_run = !job.life.state.is_final() && job.life.state != JobState::AwaitingBudget;
                if can_run != (hold.state == HoldState::Held) {
                    self.violation(format!("{} is {}, but its hold {id} is {}", job.id, job.life.state, hold.state));
                }
            }
        }
    }
}

/// Returns the queries for the sums of a scope's balances, in their order. The sums include holds placed after the end of a calendar window,
/// so that a window which should have been reset is reported.
pub(crate) fn history_queries(key: &ScopeKey, row: &ScopeState) -> impl Iterator<Item = HistoryQuery> {
    row.balances.iter().map(|balance| HistoryQuery::of(key, row, balance))
}

/// Returns whether the row of a scope contains a live charge of a hold.
pub(crate) fn has_recent_charge(row: Option<&ScopeState>, at: Time, hold: HoldId) -> bool {
    row.is_some_and(|row| row.recent.iter().any(|charge| charge.mark() == (at, hold)))
}

/// Returns the keys of the live charges that a hold must have: scope, expiry and hold.
pub(crate) fn required_charges(hold: &Hold) -> Vec<(ScopeKey, Time, HoldId)> {
    if hold.state != HoldState::Held {
        return Vec::new();
    }
    let scopes = hold.totals().into_keys();
    scopes.map(|scope| ((hold.tenant.clone(), scope), hold.expires_at, hold.id)).collect()
}
