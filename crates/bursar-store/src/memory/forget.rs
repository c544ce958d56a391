//! Deletion of expired rows, and of payloads on request.

use std::collections::BTreeSet;

use bursar_core::id::GrantId;
use bursar_core::payload::Payload;
use bursar_core::state::{IdempotencyRowKey, QueueKey, ScopeKey};
use bursar_core::time::Time;

use super::Tables;
use crate::figures::first_minute_kept;

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

    pub(super) fn forget_flows(&mut self, after: Option<&ScopeKey>, limit: usize, now: Time) -> Option<ScopeKey> {
        let page = self.scopes.keys().filter(|key| after.is_none_or(|after| *key > after)).take(limit);
        let page: Vec<ScopeKey> = page.cloned().collect();
        for key in &page {
            if self.scopes.get(key).is_some_and(|row| row.is_unused_flow(&key.1, now)) {
                self.scopes.remove(key);
                self.postings.remove(key);
                self.rollups.remove(key);
            }
        }
        page.last().filter(|_| page.len() == limit).cloned()
    }

    pub(super) fn erase_payload(&mut self, id: u128) -> bool {
        for job in self.jobs.values_mut() {
            if job.id.0 == id {
                job.payload = Payload::default();
            }
            if job.id.result_key() == id {
                job.life.result = Payload::default();
            }
        }
        if let Some(grant) = self.grants.get_mut(&GrantId(id)) {
            grant.payload = Payload::default();
        }
        self.payloads.remove(&id).is_some()
    }
}
