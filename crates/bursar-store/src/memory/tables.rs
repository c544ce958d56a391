//! The committed rows.

use std::collections::BTreeMap;

use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::event::{Batch, Stream};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BlobId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule, compute_lines};
use bursar_core::live::{ChargeMark, LiveCharge};
use bursar_core::payload::Payload;
use bursar_core::scope::{Posting, PostingMark, ScopeState};
use bursar_core::state::{
    BlobDigestKey, CostKey, DeadGroupKey, HeldKey, IdempotencyRowKey, JobKey, KeyRow, NamespaceKey, QueueKey,
    ScheduleKey, ScopeKey, Tally,
};
use bursar_core::time::Time;
use futures_util::FutureExt;

use super::rows::MemoryRows;
use super::{Changes, Journal, Writes};
use crate::error::StoreError;
use crate::segment::Segment;
use crate::store::Journaled;
use crate::transaction;
use crate::transaction::rows::Rows;

/// The committed rows, one map for each table.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Scopes.
    pub scopes: BTreeMap<ScopeKey, ScopeState>,
    /// Holds.
    pub holds: BTreeMap<HoldId, Hold>,
    /// Grants.
    pub grants: BTreeMap<GrantId, Grant>,
    /// Idempotency keys of requests.
    pub keys: BTreeMap<IdempotencyRowKey, KeyRow>,
    /// Jobs by their idempotency keys.
    pub job_keys: BTreeMap<JobKey, JobId>,
    /// Jobs.
    pub jobs: BTreeMap<JobId, Job>,
    /// Blobs.
    pub blobs: BTreeMap<BlobId, Blob>,
    /// Live blobs by their digests.
    pub blob_digests: BTreeMap<BlobDigestKey, BlobId>,
    /// Namespaces.
    pub namespaces: BTreeMap<NamespaceKey, NamespaceState>,
    /// Queues with settings.
    pub queues: BTreeMap<QueueKey, QueueState>,
    /// Schedules.
    pub schedules: BTreeMap<ScheduleKey, Schedule>,
    /// The journal.
    pub journal: Journal,
    /// The segments of the archived journal.
    pub(super) segments: Vec<Segment>,
    /// The identity of the database, which its segments name.
    pub(super) database: Option<u128>,
    pub(super) tallies: BTreeMap<Tally, i64>,
    pub(super) costs: BTreeMap<CostKey, i64>,
    pub(super) held: BTreeMap<HeldKey, i128>,
    pub(super) dead: BTreeMap<DeadGroupKey, i64>,
    /// Charges of live holds that are not in the rows of their scopes.
    pub(super) live: BTreeMap<ScopeKey, BTreeMap<ChargeMark, LiveCharge>>,
    pub(super) postings: BTreeMap<ScopeKey, BTreeMap<PostingMark, Posting>>,
    /// The sums of the postings that were rolled up.
    pub(super) rollups: BTreeMap<ScopeKey, i64>,
    /// Payloads too large for the journal, by the id of their job, result or grant.
    pub(super) payloads: BTreeMap<u128, Payload>,
    /// The time of the latest decision. Later decisions are never dated before it.
    pub(super) latest: Time,
}

impl Tables {
    /// Commits the writes of a transaction.
    pub fn apply(&mut self, writes: Writes) {
        put(&mut self.scopes, writes.scopes);
        put(&mut self.holds, writes.holds);
        put(&mut self.grants, writes.grants);
        put(&mut self.keys, writes.keys);
        put(&mut self.job_keys, writes.job_keys);
        put(&mut self.jobs, writes.jobs);
        put(&mut self.blobs, writes.blobs);
        put(&mut self.blob_digests, writes.blob_digests);
        put(&mut self.namespaces, writes.namespaces);
        put(&mut self.queues, writes.queues);
        put(&mut self.schedules, writes.schedules);
        put(&mut self.payloads, writes.payloads);
        for (scope, rows) in writes.live {
            put(self.live.entry(scope).or_default(), rows);
        }
        for (scope, rows) in writes.postings {
            put(self.postings.entry(scope).or_default(), rows);
        }
        add(&mut self.tallies, writes.tallies);
        add(&mut self.costs, writes.costs);
        add(&mut self.held, writes.held);
        add(&mut self.dead, writes.dead);
        self.dead.retain(|_, count| *count != 0);
        add(&mut self.rollups, writes.rollups);
        writes.journal.into_iter().for_each(|batch| self.journal.push(batch));
        self.latest = self.latest.max(writes.latest);
    }

    /// Returns a scope brought to a time, without writing it.
    ///
    /// # Errors
    /// When the row cannot be advanced.
    pub fn scope_at(&self, key: &ScopeKey, time: Time) -> Result<Option<ScopeState>, StoreError> {
        let Some(row) = self.scopes.get(key).cloned() else { return Ok(None) };
        let mut rows = MemoryRows::new(self, time);
        let advanced = transaction::view(&mut rows, key, row, time).now_or_never();
        advanced.expect("memory never waits").map(Some)
    }

    /// Returns the charges of live holds, from the table and from the rows of the scopes.
    pub fn live_charges(&self) -> impl Iterator<Item = (&ScopeKey, &LiveCharge)> {
        let spilled = self.live.iter().flat_map(|(key, rows)| rows.values().map(move |charge| (key, charge)));
        let recent = self.scopes.iter().flat_map(|(key, row)| row.recent.iter().map(move |charge| (key, charge)));
        spilled.chain(recent)
    }

    /// Returns a copy without the rows that [`replay`](Tables::replay) restores.
    #[must_use]
    pub fn before_replay(&self) -> Tables {
        Tables {
            journal: self.journal.clone(),
            segments: self.segments.clone(),
            database: self.database,
            payloads: self.payloads.clone(),
            latest: self.latest,
            ..Tables::default()
        }
    }

    /// Applies a batch of the journal again.
    ///
    /// # Errors
    /// When the batch has a window in a time zone that this build does not know.
    pub fn replay(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let batch = self.with_payloads(batch);
        self.replay_with(&batch, None)
    }

    /// Applies again what the row of one stream follows from. The rows of other things come out incomplete.
    ///
    /// # Errors
    /// When the batches applied before do not have all earlier events of the stream.
    pub fn replay_for(&mut self, batch: &Batch, of: &Stream) -> Result<(), StoreError> {
        self.replay_with(batch, Some(of))
    }

    fn replay_with(&mut self, batch: &Batch, of: Option<&Stream>) -> Result<(), StoreError> {
        let mut rows = MemoryRows::new(self, batch.at);
        let work = async {
            let ws = match of {
                Some(of) => transaction::replay_for(&mut rows, batch, of).await?,
                None => transaction::replay(&mut rows, batch).await?,
            };
            rows.store(&ws, None).await
        };
        work.now_or_never().expect("memory never waits")?;
        let writes = rows.into_writes();
        self.apply(writes);
        Ok(())
    }

    /// Computes all lines from the jobs. The journal does not record them, so a rebuild needs this.
    pub(super) fn rebuild_lines(&mut self) {
        let lines = compute_lines(self.jobs.values_mut());
        self.scopes.values_mut().for_each(|row| row.line = Default::default());
        for (scope, line) in lines {
            self.scopes.entry(scope).or_default().line = line;
        }
    }

    /// Lists rows of the journal with an event after a position.
    pub fn list_journal(&self, after: u64, limit: usize) -> impl Iterator<Item = Journaled> {
        self.journal.after(after).iter().take(limit).map(|row| self.journaled(row))
    }

    /// Returns a copy of a row of the journal with its large payloads.
    pub(super) fn journaled(&self, row: &Journaled) -> Journaled {
        Journaled { position: row.position, batch: self.with_payloads(&row.batch) }
    }

    fn with_payloads(&self, batch: &Batch) -> Batch {
        let mut batch = batch.clone();
        batch.attach_payloads(|id| self.payloads.get(&id).cloned());
        batch
    }
}

fn put<K: Ord, V>(table: &mut BTreeMap<K, V>, changes: Changes<K, V>) {
    for (key, row) in changes {
        match row {
            Some(row) => drop(table.insert(key, row)),
            None => drop(table.remove(&key)),
        }
    }
}

fn add<K: Ord, N: Default + std::ops::AddAssign>(sums: &mut BTreeMap<K, N>, changes: BTreeMap<K, N>) {
    for (key, by) in changes {
        *sums.entry(key).or_default() += by;
    }
}
