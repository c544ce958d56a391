//! The writes of a transaction.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;

use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::event::Batch;
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BlobId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::live::{ChargeMark, LiveCharge};
use bursar_core::payload::Payload;
use bursar_core::scope::{Balance, Posting, PostingMark, ScopeState};
use bursar_core::state::{
    BlobDigestKey, Change, CostKey, DeadGroupKey, HeldKey, IdempotencyRowKey, JobKey, KeyRow, NamespaceKey, QueueKey,
    ScheduleKey, ScopeKey, Table, Tally, Workspace,
};
use bursar_core::time::Time;

use super::{ROLL_UP_STEP, Tables, View};

/// Written rows by their keys. `None` is a deleted row.
pub type Changes<K, V> = BTreeMap<K, Option<V>>;

/// The writes of one transaction that has not committed.
#[derive(Debug, Default)]
pub struct Writes {
    /// Scopes.
    pub scopes: Changes<ScopeKey, ScopeState>,
    /// Holds.
    pub holds: Changes<HoldId, Hold>,
    /// Grants.
    pub grants: Changes<GrantId, Grant>,
    /// Idempotency keys of requests.
    pub keys: Changes<IdempotencyRowKey, KeyRow>,
    /// Jobs by their idempotency keys.
    pub job_keys: Changes<JobKey, JobId>,
    /// Jobs.
    pub jobs: Changes<JobId, Job>,
    /// Blobs.
    pub blobs: Changes<BlobId, Blob>,
    /// Live blobs by their digests.
    pub blob_digests: Changes<BlobDigestKey, BlobId>,
    /// Namespaces.
    pub namespaces: Changes<NamespaceKey, NamespaceState>,
    /// Queues.
    pub queues: Changes<QueueKey, QueueState>,
    /// Schedules.
    pub schedules: Changes<ScheduleKey, Schedule>,
    /// Rows of the journal. Their large payloads are in a table of their own.
    pub journal: Vec<Batch>,
    pub(super) tallies: BTreeMap<Tally, i64>,
    pub(super) costs: BTreeMap<CostKey, i64>,
    pub(super) held: BTreeMap<HeldKey, i128>,
    pub(super) dead: BTreeMap<DeadGroupKey, i64>,
    pub(super) live: BTreeMap<ScopeKey, Changes<ChargeMark, LiveCharge>>,
    pub(super) postings: BTreeMap<ScopeKey, Changes<PostingMark, Posting>>,
    pub(super) rollups: BTreeMap<ScopeKey, i64>,
    pub(super) payloads: Changes<u128, Payload>,
    /// The time of the latest decision.
    pub(super) latest: Time,
}

impl Writes {
    /// Adds the changes of a workspace, and the row of the journal.
    pub fn take(&mut self, ws: &Workspace, batch: Option<Batch>) {
        copy(&ws.scopes, &mut self.scopes);
        for (key, _) in ws.scopes.changes() {
            if let Some(Some(row)) = self.scopes.get_mut(key) {
                row.balances.retain(Balance::is_stored);
                row.redefined = false;
            }
        }
        copy(&ws.holds, &mut self.holds);
        copy(&ws.grants, &mut self.grants);
        copy(&ws.keys, &mut self.keys);
        copy(&ws.job_keys, &mut self.job_keys);
        copy(&ws.jobs, &mut self.jobs);
        copy(&ws.blobs, &mut self.blobs);
        copy(&ws.blob_digests, &mut self.blob_digests);
        copy(&ws.namespaces, &mut self.namespaces);
        copy(&ws.queues, &mut self.queues);
        copy(&ws.schedules, &mut self.schedules);
        for (grant, _) in ws.grants.changes().filter(|(_, change)| *change == Change::Delete) {
            self.payloads.insert(grant.0, None);
        }
        for (job, _) in ws.jobs.changes().filter(|(_, change)| *change == Change::Delete) {
            self.payloads.insert(job.0, None);
            self.payloads.insert(job.result_key(), None);
        }
        ws.tallies.iter().for_each(|(key, by)| *self.tallies.entry(key.clone()).or_default() += by);
        ws.costs.iter().for_each(|(key, by)| *self.costs.entry(key.clone()).or_default() += by);
        ws.held.iter().for_each(|(key, by)| *self.held.entry(key.clone()).or_default() += by);
        ws.dead.iter().for_each(|(key, by)| *self.dead.entry(key.clone()).or_default() += by);
        for ((scope, at, hold), charge) in &ws.live {
            self.live.entry(scope.clone()).or_default().insert((*at, *hold), charge.clone());
        }
        for (scope, posting) in &ws.postings {
            let mark = (posting.at, posting.seq);
            self.postings.entry(scope.clone()).or_default().insert(mark, Some(posting.clone()));
        }
        if let Some(mut batch) = batch {
            self.payloads.extend(batch.detach_payloads().into_iter().map(|(id, payload)| (id, Some(payload))));
            self.journal.push(batch);
        }
        self.latest = self.latest.max(ws.now);
    }

    /// Replaces the postings of each scope before a time by their sum, at most as many as one transaction may.
    pub fn roll_up(&mut self, tables: &Tables, scopes: &[(ScopeKey, Time)]) {
        let mut left = ROLL_UP_STEP;
        for (key, before) in scopes {
            let view = View { tables, writes: self };
            let old = view.postings(key, ..(*before, 0)).take(left);
            let old: Vec<_> = old.map(|posting| ((posting.at, posting.seq), posting.amount)).collect();
            left -= old.len();
            for (mark, amount) in old {
                self.postings.entry(key.clone()).or_default().insert(mark, None);
                *self.rollups.entry(key.clone()).or_default() += amount;
            }
        }
    }
}

fn copy<K: Ord + Hash + Clone + Debug, V: Clone>(from: &Table<K, V>, to: &mut Changes<K, V>) {
    for (key, change) in from.changes() {
        let row = match change {
            Change::Insert(row) | Change::Update(row) => Some(row.clone()),
            Change::Delete => None,
        };
        to.insert(key.clone(), row);
    }
}
