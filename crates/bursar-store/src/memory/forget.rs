//! Deletion of expired rows, and of payloads on request.

use std::collections::BTreeSet;
use std::ops::Bound;

use bursar_core::decide::Rules;
use bursar_core::event::Stream;
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, GrantId, HoldId};
use bursar_core::name::Tenant;
use bursar_core::state::{IdempotencyRowKey, QueueKey, ScopeKey};
use bursar_core::time::Time;

use super::Tables;
use crate::figures::{first_day_kept, first_minute_kept};
use crate::store::{Forgotten, Overdue};

/// A page of holds.
pub struct HoldPage {
    /// Those that can be deleted.
    pub forgettable: Vec<HoldId>,
    /// The last one, if the page is full.
    pub last: Option<HoldId>,
}

/// Returns the range of ids after one.
fn after_id<K: Copy>(after: Option<K>, first: K) -> (Bound<K>, Bound<K>) {
    (after.map_or(Bound::Included(first), Bound::Excluded), Bound::Unbounded)
}

impl Tables {
    /// Deletes expired idempotency keys, and returns them.
    pub fn forget_keys(&mut self, limit: usize, now: Time) -> Vec<IdempotencyRowKey> {
        let expired = self.keys.iter().filter(|(_, row)| row.until <= now).map(|(key, _)| key.clone());
        let expired: Vec<_> = expired.take(limit).collect();
        for key in &expired {
            self.keys.remove(key);
        }
        expired
    }

    pub(super) fn forget_figures(&mut self, after: Option<&QueueKey>, limit: usize, now: Time) -> Option<QueueKey> {
        let first = first_minute_kept(now);
        let queues = self.tallies.keys().map(|tally| (tally.tenant.clone(), tally.queue.clone()));
        let queues: BTreeSet<QueueKey> = queues.filter(|key| after.is_none_or(|after| key > after)).collect();
        let queues: BTreeSet<QueueKey> = queues.into_iter().take(limit).collect();
        self.tallies.retain(|tally, _| {
            let old = tally.what.minute().is_some_and(|minute| minute < first);
            !(old && queues.contains(&(tally.tenant.clone(), tally.queue.clone())))
        });
        queues.last().filter(|_| queues.len() == limit).cloned()
    }

    pub(super) fn forget_scopes(&mut self, after: Option<&ScopeKey>, limit: usize, now: Time) -> Forgotten<ScopeKey> {
        let page = self.scopes.keys().filter(|key| after.is_none_or(|after| *key > after)).take(limit);
        let page: Vec<ScopeKey> = page.cloned().collect();
        let mut count = 0;
        for key in &page {
            if self.scopes.get(key).is_some_and(|row| row.is_unused(&key.1, now)) {
                self.scopes.remove(key);
                self.postings.remove(key);
                self.rollups.remove(key);
                count += 1;
            }
        }
        Forgotten { count, last: page.last().filter(|_| page.len() == limit).cloned() }
    }

    /// Returns the holds that can be deleted, among at most `limit` holds after `after`.
    pub fn forgettable_holds(&self, after: Option<HoldId>, limit: usize, rules: &Rules, now: Time) -> HoldPage {
        let page: Vec<&Hold> = self.holds.range(after_id(after, HoldId(0))).map(|(_, row)| row).take(limit).collect();
        let last = page.last().filter(|_| page.len() == limit).map(|hold| hold.id);
        let forgettable = page.into_iter().filter(|hold| {
            let has_job = hold.job.is_some_and(|job| self.jobs.contains_key(&job));
            let has_blob = hold.blob.is_some_and(|blob| self.blobs.contains_key(&blob));
            hold.is_forgettable(has_job, has_blob, rules.holds_kept(&hold.tenant), now)
        });
        HoldPage { forgettable: forgettable.map(|hold| hold.id).collect(), last }
    }

    /// Deletes a hold.
    pub fn forget_hold(&mut self, hold: HoldId) {
        self.holds.remove(&hold);
    }

    /// Counts rows that should have been deleted before an instant.
    pub(super) fn overdue(&self, before: Time, limit: usize, rules: &Rules) -> Overdue {
        let is_overdue = |row: &&Hold| row.is_overdue(rules.holds_kept(&row.tenant), before);
        let is_old = |row: &&Grant| Grant::is_forgettable(row.expires_at, rules.grants_kept(&row.tenant), before);
        Overdue {
            keys: self.keys.values().filter(|row| row.until <= before).take(limit).count(),
            holds: self.holds.values().take(limit).filter(is_overdue).count(),
            grants: self.grants.values().take(limit).filter(is_old).count(),
            jobs: self.due_jobs(limit, before).ended.len(),
        }
    }

    pub(super) fn forget_grants(
        &mut self,
        after: Option<GrantId>,
        limit: usize,
        rules: &Rules,
        now: Time,
    ) -> Forgotten<GrantId> {
        let page: Vec<GrantId> =
            self.grants.range(after_id(after, GrantId(0))).map(|(id, _)| *id).take(limit).collect();
        let before = self.grants.len();
        for id in &page {
            let is_old = |row: &Grant| Grant::is_forgettable(row.expires_at, rules.grants_kept(&row.tenant), now);
            if self.grants.get(id).is_some_and(is_old) {
                self.grants.remove(id);
                self.payloads.remove(&id.0);
            }
        }
        Forgotten { count: before - self.grants.len(), last: page.last().filter(|_| page.len() == limit).copied() }
    }

    pub(super) fn forget_costs(
        &mut self,
        after: Option<&Tenant>,
        limit: usize,
        rules: &Rules,
        now: Time,
    ) -> Forgotten<Tenant> {
        let tenant = self.costs.keys().map(|key| &key.0).find(|tenant| after.is_none_or(|after| *tenant > after));
        let Some(tenant) = tenant.cloned() else { return Forgotten { count: 0, last: None } };
        let first_day = first_day_kept(rules.costs_kept(&tenant), now);
        let old = self.costs.keys().filter(|key| key.0 == tenant && key.1 < first_day).take(limit);
        let old: Vec<_> = old.cloned().collect();
        for key in &old {
            self.costs.remove(key);
        }
        Forgotten { count: old.len(), last: Some(tenant) }
    }

    /// Deletes the payloads of jobs and grants, and overwrites those in rows of the journal. Returns whether there was anything.
    pub fn erase_payloads(&mut self, of: &[Stream], rows: &[BatchId]) -> bool {
        let keys: Vec<u128> = of.iter().flat_map(Stream::payload_keys).collect();
        let deleted = keys.iter().filter(|key| self.payloads.remove(key).is_some()).count() > 0;
        rows.iter().fold(deleted, |erased, row| self.journal.erase(*row, of) || erased)
    }
}
