//! The checks of [`verify`] on the maps.

use bursar_core::name::Scope;

use super::{MemoryStore, View, Writes};
use crate::codec::{blob_state, hold_state};
use crate::verify::{self, JobCounts, Report};

impl MemoryStore {
    pub(super) fn check(&self) -> Report {
        let (tables, writes) = (self.tables(), Writes::default());
        let view = View { tables: &tables, writes: &writes };
        let mut report = Report::default();
        let counts = JobCounts::of(tables.jobs.values());
        for (key, row) in &tables.scopes {
            let sums: Vec<_> = verify::history_queries(key, row).map(|query| view.window_history(&query)).collect();
            report.check_scope(key, row, tables.rollups.get(key).copied().unwrap_or(0), &sums, Some(&counts));
        }
        for (key, charge) in tables.live_charges() {
            report.check_charge(key, charge, tables.holds.get(&charge.hold));
        }
        for hold in tables.holds.values() {
            let missing = verify::required_charges(hold).into_iter().filter(|(key, at, hold)| {
                let in_table = tables.live.get(key).is_some_and(|rows| rows.contains_key(&(*at, *hold)));
                !in_table && !verify::has_recent_charge(tables.scopes.get(key), *at, *hold)
            });
            let missing: Vec<Scope> = missing.map(|((_, scope), ..)| scope).collect();
            report.check_hold(hold, (hold_state(hold.state), hold.expires_at), &missing);
            report.check_owner(hold, hold.job.and_then(|job| tables.jobs.get(&job)));
        }
        for job in tables.jobs.values() {
            report.check_job(job, job.hold.and_then(|hold| tables.holds.get(&hold)));
        }
        for blob in tables.blobs.values() {
            let found = blob.digest_key().and_then(|key| tables.blob_digests.get(&key)).copied();
            report.check_blob(blob, (blob_state(blob.state), blob.maintained_at()), found, &counts);
        }
        let missing = tables.blob_digests.values().filter(|id| !tables.blobs.contains_key(id));
        missing.for_each(|id| report.check_missing_blob(*id));
        report.check_tallies(&counts, tables.tallies.iter().map(|(tally, count)| (tally.clone(), *count)));
        report.check_held(&counts, tables.held.iter().map(|(key, sum)| (key.clone(), *sum)));
        report.check_dead(&counts, tables.dead.iter().map(|(key, count)| (key.clone(), *count)));
        report
    }
}
