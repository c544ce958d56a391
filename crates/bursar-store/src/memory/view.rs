//! What a transaction reads.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::RangeBounds;
use std::sync::Arc;

use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::bounds::FOLD_STEP;
use bursar_core::event::Entry;
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, BlobId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, JobState, QueueState, Schedule};
use bursar_core::live::{ChargeMark, LiveCharge};
use bursar_core::scope::{Due, DueQuery, DueStep, Posting, PostingMark, ScopeState, WindowHistory};
use bursar_core::state::{
    BlobDigestKey, IdempotencyRowKey, JobKey, KeyRow, NamespaceKey, QueueKey, ScheduleKey, ScopeKey,
};
use bursar_core::time::Time;

use super::{Changes, Tables, Writes};
use crate::transaction::rows::HistoryQuery;

/// The rows that a transaction sees: the committed ones, overlaid with its own writes.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The committed rows.
    pub tables: &'a Tables,
    /// The transaction's own writes.
    pub writes: &'a Writes,
}

impl<'a> View<'a> {
    /// Returns a scope.
    pub fn scope(&self, key: &ScopeKey) -> Option<&'a ScopeState> {
        find(&self.tables.scopes, &self.writes.scopes, key)
    }

    /// Returns a hold.
    pub fn hold(&self, id: &HoldId) -> Option<&'a Hold> {
        find(&self.tables.holds, &self.writes.holds, id)
    }

    /// Returns a grant.
    pub fn grant(&self, id: &GrantId) -> Option<&'a Grant> {
        find(&self.tables.grants, &self.writes.grants, id)
    }

    /// Returns the row of a request's idempotency key.
    pub fn key(&self, key: &IdempotencyRowKey) -> Option<&'a KeyRow> {
        find(&self.tables.keys, &self.writes.keys, key)
    }

    /// Returns the job that has an idempotency key.
    pub fn job_key(&self, key: &JobKey) -> Option<&'a JobId> {
        find(&self.tables.job_keys, &self.writes.job_keys, key)
    }

    /// Returns a job.
    pub fn job(&self, id: &JobId) -> Option<&'a Job> {
        find(&self.tables.jobs, &self.writes.jobs, id)
    }

    /// Returns a blob.
    pub fn blob(&self, id: &BlobId) -> Option<&'a Blob> {
        find(&self.tables.blobs, &self.writes.blobs, id)
    }

    /// Returns the blob that is found by a digest.
    pub fn blob_digest(&self, key: &BlobDigestKey) -> Option<&'a BlobId> {
        find(&self.tables.blob_digests, &self.writes.blob_digests, key)
    }

    /// Returns a namespace, if it has rules.
    pub fn namespace(&self, key: &NamespaceKey) -> Option<&'a NamespaceState> {
        find(&self.tables.namespaces, &self.writes.namespaces, key)
    }

    /// Returns a queue, if it has settings.
    pub fn queue(&self, key: &QueueKey) -> Option<&'a QueueState> {
        find(&self.tables.queues, &self.writes.queues, key)
    }

    /// Returns a schedule.
    pub fn schedule(&self, key: &ScheduleKey) -> Option<&'a Schedule> {
        find(&self.tables.schedules, &self.writes.schedules, key)
    }

    /// Returns the jobs that wait for a worker or for their time: first those that this transaction has not written.
    pub fn waiting_jobs(&self) -> impl Iterator<Item = &'a Job> {
        let View { tables, writes } = *self;
        let stored = tables.jobs.values().filter(|job| !writes.jobs.contains_key(&job.id));
        let all = stored.chain(writes.jobs.values().flatten());
        all.filter(|job| matches!(job.life.state, JobState::Queued | JobState::Scheduled))
    }

    /// Returns an entry of the journal, without its large payloads.
    pub fn entry(&self, batch: BatchId, command: CommandId) -> Option<Arc<Entry>> {
        let own = self.writes.journal.iter().find(|own| own.id == batch);
        let batch = own.or_else(|| Some(&self.tables.journal.get(batch)?.batch))?;
        batch.entries.iter().find(|entry| entry.id == command).cloned()
    }

    /// Returns what is due on a scope, a bounded number of charges and postings.
    pub fn due(&self, key: &ScopeKey, query: &DueQuery, now: Time) -> Due {
        let mut due = Due::default();
        if let Some(mark) = query.charges_after {
            due.charges = step(self.charges_after(key, mark), |charge| charge.expires_at, now);
        }
        for (place, mark, until) in &query.postings {
            let postings = self.postings(key, (Excluded(*mark), Unbounded));
            due.postings.push((*place, step(postings, |posting| posting.at, *until)));
        }
        due
    }

    /// Returns the sums for a window to open.
    pub fn window_history(&self, query: &HistoryQuery) -> WindowHistory {
        let postings = || {
            let after = self.postings(&query.scope, (Excluded(query.after), Unbounded));
            after.take_while(|posting| posting.at < query.until)
        };
        let charges = self.charges_after(&query.scope, query.unfolded);
        let charges = charges.filter(|charge| charge.placed_at >= query.placed_from);
        WindowHistory {
            posted: postings().map(|posting| posting.amount).sum(),
            held: charges.map(|charge| charge.amount).sum(),
            oldest: postings().next().map(|posting| posting.at),
        }
    }

    /// Returns the postings on a scope in a range, in order.
    pub(super) fn postings(
        &self,
        key: &ScopeKey,
        range: impl RangeBounds<PostingMark> + Clone,
    ) -> impl Iterator<Item = &'a Posting> {
        overlay(self.tables.postings.get(key), self.writes.postings.get(key), range)
    }

    /// Returns the charges of live holds on a scope after a mark, in order.
    fn charges_after(&self, key: &ScopeKey, mark: ChargeMark) -> impl Iterator<Item = &'a LiveCharge> {
        overlay(self.tables.live.get(key), self.writes.live.get(key), (Excluded(mark), Unbounded))
    }
}

fn find<'a, K: Ord, V>(stored: &'a BTreeMap<K, V>, own: &'a Changes<K, V>, key: &K) -> Option<&'a V> {
    match own.get(key) {
        Some(own) => own.as_ref(),
        None => stored.get(key),
    }
}

/// Returns the rows of a range in order: the stored ones, with a transaction's own writes in their places.
fn overlay<'a, M: Ord, V>(
    stored: Option<&'a BTreeMap<M, V>>,
    own: Option<&'a Changes<M, V>>,
    range: impl RangeBounds<M> + Clone,
) -> impl Iterator<Item = &'a V> {
    let in_range = range.clone();
    let mut stored = stored.into_iter().flat_map(move |rows| rows.range(in_range.clone())).peekable();
    let mut own = own.into_iter().flat_map(move |rows| rows.range(range.clone())).peekable();
    std::iter::from_fn(move || {
        loop {
            let Some((next, _)) = own.peek() else { return stored.next().map(|(_, row)| row) };
            if let Some((_, row)) = stored.next_if(|(mark, _)| mark < next) {
                return Some(row);
            }
            stored.next_if(|(mark, _)| mark == next);
            if let Some((_, Some(row))) = own.next() {
                return Some(row);
            }
        }
    })
}

/// Takes the rows up to `until`, at most [`FOLD_STEP`] of them. The rows are ordered by `at`.
fn step<'a, T: Clone + 'a>(rows: impl Iterator<Item = &'a T>, at: impl Fn(&T) -> Time, until: Time) -> DueStep<T> {
    let mut step = DueStep::default();
    for row in rows {
        if at(row) > until {
            step.next = at(row);
            break;
        }
        if step.items.len() == FOLD_STEP {
            step.more = true;
            break;
        }
        step.items.push(row.clone());
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_writes_replace_and_delete_stored_rows_in_order() {
        let stored = BTreeMap::from([(1, "a"), (2, "b"), (3, "c"), (5, "e")]);
        let own =
            BTreeMap::from([(0, Some("z")), (2, None), (3, Some("C")), (4, Some("d")), (6, None), (7, Some("g"))]);
        let rows = |range: (std::ops::Bound<i32>, std::ops::Bound<i32>)| {
            overlay(Some(&stored), Some(&own), range).copied().collect::<String>()
        };
        assert_eq!(rows((Unbounded, Unbounded)), "zaCdeg");
        assert_eq!(rows((Excluded(1), Excluded(5))), "Cd");
        assert_eq!(overlay(Some(&stored), None, 2..).copied().collect::<String>(), "bce");
        assert_eq!(overlay(None, Some(&own), 2..).copied().collect::<String>(), "Cdg");
    }
}
