//! The checks of [`verify`] on the maps.

use bursar_core::name::Scope;
use futures_util::FutureExt;

use super::{MemoryRows, MemoryStore};
use crate::codec::hold_state;
use crate::error::StoreError;
use crate::transaction::rows::Rows;
use crate::verify::{self, JobCounts, Report};

impl MemoryStore {
    pub(super) fn check(&self) -> Result<Report, StoreError> {
        let mut tables = self.tables();
        let mut report = Report::default();
        let counts = JobCounts::of(tables.jobs.values());
        for (key, row) in &tables.scopes.clone() {
            let mut rows = MemoryRows { tables: &mut tables, clock: &*self.clock };
            let history_queries: Vec<_> = verify::history_queries(key, row).collect();
            let sums = rows.window_histories(&history_queries).now_or_never().expect("memory never waits")?;
            report.check_scope(key, row, tables.rollups.get(key).copied().unwrap_or(0), &sums, Some(&counts));
        }
        let recent = tables.scopes.iter().flat_map(|(key, row)| row.recent.iter().map(move |charge| (key, charge)));
        for (key, charge) in tables.live.iter().map(|((key, ..), charge)| (key, charge)).chain(recent) {
            report.check_charge(key, charge, tables.holds.get(&charge.hold));
        }
        for hold in tables.holds.values() {
            let missing = verify::required_charges(hold).into_iter().filter(|place| {
                let row = tables.scopes.get(&place.0);
                !tables.live.contains_key(place) && !verify::has_recent_charge(row, place.1, place.2)
            });
            let missing: Vec<Scope> = missing.map(|((_, scope), ..)| scope).collect();
            report.check_hold(hold, (hold_state(hold.state), hold.expires_at), &missing);
            report.check_owner(hold, hold.job.and_then(|job| tables.jobs.get(&job)));
        }
        for job in tables.jobs.values() {
            report.check_job(job, job.hold.and_then(|hold| tables.holds.get(&hold)));
        }
        report.check_tallies(&counts, tables.tallies.iter().map(|(tally, count)| (tally.clone(), *count)));
        report.check_held(&counts, tables.held.iter().map(|(key, sum)| (key.clone(), *sum)));
        Ok(report)
    }
}
