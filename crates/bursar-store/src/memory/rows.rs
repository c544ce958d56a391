//! [`Rows`] on the maps. The caller holds the lock on all tables, so a transaction reads and writes them directly.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_core::bounds::FOLD_STEP;
use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{BatchId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::name::FlowKey;
use bursar_core::scope::{Balance, Due, DueQuery, DueStep, Posting, ScopeState, WindowHistory};
use bursar_core::state::{
    Change, IdempotencyRowKey, JobKey, KeyRow, LineKey, QueueKey, ScheduleKey, ScopeKey, Workspace,
};
use bursar_core::time::Time;

use super::{ROLL_UP_STEP, Tables};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::transaction::rows::{ClaimQuery, Claimed, Found, HistoryQuery, Rows};

/// The tables and the clock of one transaction.
pub(super) struct MemoryRows<'a> {
    pub(super) tables: &'a mut Tables,
    pub(super) clock: &'a dyn Clock,
}

fn pick<K: Ord + Clone, V: Clone>(map: &BTreeMap<K, V>, keys: &[K]) -> Vec<(K, V)> {
    keys.iter().filter_map(|key| Some((key.clone(), map.get(key)?.clone()))).collect()
}

impl Rows for MemoryRows<'_> {
    async fn keys(&mut self, keys: &[IdempotencyRowKey]) -> Result<Vec<(IdempotencyRowKey, KeyRow)>, StoreError> {
        Ok(pick(&self.tables.keys, keys))
    }

    async fn entries(&mut self, wanted: &[(BatchId, CommandId)]) -> Result<Vec<Arc<Entry>>, StoreError> {
        let entries = wanted.iter().filter_map(|(batch, command)| {
            let batch = self.tables.journal.get(&(batch.0 as u64))?;
            batch.entries.iter().find(|entry| entry.id == *command).cloned()
        });
        Ok(entries.collect())
    }

    async fn job_keys(&mut self, keys: &[JobKey]) -> Result<Vec<(JobKey, JobId)>, StoreError> {
        Ok(pick(&self.tables.job_keys, keys))
    }

    async fn jobs(&mut self, ids: &[JobId], _: bool) -> Result<Found<JobId, Job>, StoreError> {
        Ok(Found::all(pick(&self.tables.jobs, ids)))
    }

    async fn queues(&mut self, keys: &[QueueKey], _: bool) -> Result<Vec<(QueueKey, QueueState)>, StoreError> {
        Ok(pick(&self.tables.queues, keys))
    }

    async fn schedules(&mut self, keys: &[ScheduleKey]) -> Result<Found<ScheduleKey, Schedule>, StoreError> {
        Ok(Found::all(pick(&self.tables.schedules, keys)))
    }

    async fn claim(&mut self, queries: &[ClaimQuery], now: Time) -> Result<Vec<Claimed>, StoreError> {
        Ok(queries.iter().map(|query| self.tables.claim(query, now)).collect())
    }

    async fn behind(&mut self, lines: &[(LineKey, usize)]) -> Result<Vec<Job>, StoreError> {
        Ok(lines.iter().flat_map(|(line, count)| self.tables.behind(line, *count)).collect())
    }

    async fn barred(&mut self, keys: &[(QueueKey, FlowKey)]) -> Result<Vec<Job>, StoreError> {
        Ok(self.tables.barred(keys))
    }

    async fn holds(&mut self, ids: &[HoldId]) -> Result<Found<HoldId, Hold>, StoreError> {
        Ok(Found::all(pick(&self.tables.holds, ids)))
    }

    async fn grants(&mut self, ids: &[GrantId]) -> Result<Found<GrantId, Grant>, StoreError> {
        Ok(Found::all(pick(&self.tables.grants, ids)))
    }

    async fn scopes(&mut self, keys: &[(ScopeKey, bool)]) -> Result<Found<ScopeKey, ScopeState>, StoreError> {
        let rows = keys.iter().filter_map(|(key, create)| {
            let row = self.tables.scopes.get(key).cloned();
            Some((key.clone(), row.or_else(|| create.then(ScopeState::default))?))
        });
        Ok(Found::all(rows.collect()))
    }

    async fn now(&mut self) -> Result<Time, StoreError> {
        Ok(self.clock.now())
    }

    async fn due(&mut self, queries: &[(ScopeKey, DueQuery)], now: Time) -> Result<Vec<Due>, StoreError> {
        let due = queries.iter().map(|(key, query)| {
            let mut due = Due::default();
            if let Some(mark) = query.charges_after {
                let all = self
                    .tables
                    .live
                    .range((key.clone(), mark.0, mark.1)..=(key.clone(), Time::NEVER, HoldId(u128::MAX)));
                let all = all.map(|(_, charge)| charge).filter(|charge| (charge.expires_at, charge.hold) > mark);
                due.charges = step(all.cloned(), |charge| charge.expires_at, now);
            }
            for (place, mark, until) in &query.postings {
                let all =
                    self.tables.postings.range((key.clone(), mark.0, mark.1)..=(key.clone(), Time::NEVER, u64::MAX));
                let all = all.map(|(_, posting)| posting).filter(|posting| (posting.at, posting.seq) > *mark);
                due.postings.push((*place, step(all.cloned(), |posting| posting.at, *until)));
            }
            due
        });
        Ok(due.collect())
    }

    async fn window_histories(&mut self, queries: &[HistoryQuery]) -> Result<Vec<WindowHistory>, StoreError> {
        let histories = queries.iter().map(|query| {
            let key = &query.scope;
            let postings = self.tables.postings.range((key.clone(), query.after.0, 0)..(key.clone(), query.until, 0));
            let postings: Vec<&Posting> = postings.map(|(_, p)| p).filter(|p| (p.at, p.seq) > query.after).collect();
            let live = self.tables.live.range(
                (key.clone(), query.unfolded.0, query.unfolded.1)..=(key.clone(), Time::NEVER, HoldId(u128::MAX)),
            );
            let live = live
                .map(|(_, c)| c)
                .filter(|c| (c.expires_at, c.hold) > query.unfolded && c.placed_at >= query.placed_from);
            WindowHistory {
                posted: postings.iter().map(|posting| posting.amount).sum(),
                held: live.map(|charge| charge.amount).sum(),
                oldest: postings.iter().map(|posting| posting.at).min(),
            }
        });
        Ok(histories.collect())
    }

    async fn roll_up(&mut self, scopes: &[(ScopeKey, Time)]) -> Result<(), StoreError> {
        let mut left = ROLL_UP_STEP;
        for (key, before) in scopes {
            let range = (key.clone(), Time::MIN, 0)..(key.clone(), *before, 0);
            let old = self.tables.postings.range(range).take(left);
            let old: Vec<_> = old.map(|(k, p)| (k.clone(), p.amount)).collect();
            left -= old.len();
            for (place, amount) in old {
                self.tables.postings.remove(&place);
                *self.tables.rollups.entry(key.clone()).or_insert(0) += amount;
            }
        }
        Ok(())
    }

    async fn store(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError> {
        fn write<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, change: &Change<'_, V>) {
            match change {
                Change::Insert(row) | Change::Update(row) => drop(map.insert(key.clone(), (*row).clone())),
                Change::Delete => drop(map.remove(key)),
            }
        }
        let tables = &mut *self.tables;
        ws.scopes.changes().for_each(|(key, change)| write(&mut tables.scopes, key, &change));
        for (key, _) in ws.scopes.changes() {
            if let Some(row) = tables.scopes.get_mut(key) {
                row.balances.retain(Balance::is_stored);
                row.redefined = false;
            }
        }
        ws.holds.changes().for_each(|(key, change)| write(&mut tables.holds, key, &change));
        ws.grants.changes().for_each(|(key, change)| write(&mut tables.grants, key, &change));
        for (grant, change) in ws.grants.changes() {
            if change == Change::Delete {
                tables.payloads.remove(&grant.0);
            }
        }
        ws.keys.changes().for_each(|(key, change)| write(&mut tables.keys, key, &change));
        ws.job_keys.changes().for_each(|(key, change)| write(&mut tables.job_keys, key, &change));
        ws.jobs.changes().for_each(|(key, change)| write(&mut tables.jobs, key, &change));
        for (job, change) in ws.jobs.changes() {
            if change == Change::Delete {
                tables.payloads.remove(&job.0);
                tables.payloads.remove(&job.result_key());
            }
        }
        ws.queues.changes().for_each(|(key, change)| write(&mut tables.queues, key, &change));
        ws.schedules.changes().for_each(|(key, change)| write(&mut tables.schedules, key, &change));
        for (tally, by) in &ws.tallies {
            *tables.tallies.entry(tally.clone()).or_insert(0) += by;
        }
        for (key, by) in &ws.costs {
            *tables.costs.entry(key.clone()).or_insert(0) += by;
        }
        for (key, by) in &ws.held {
            *tables.held.entry(key.clone()).or_insert(0) += by;
        }
        for (key, change) in &ws.live {
            match change {
                Some(charge) => drop(tables.live.insert(key.clone(), charge.clone())),
                None => drop(tables.live.remove(key)),
            }
        }
        for (key, posting) in &ws.postings {
            tables.postings.insert((key.clone(), posting.at, posting.seq), posting.clone());
        }
        if let Some(mut batch) = batch {
            tables.payloads.extend(batch.detach_payloads());
            let position = tables.next_position();
            tables.journal.insert(position, batch);
        }
        Ok(true)
    }
}

/// Takes the items up to `until`, at most [`FOLD_STEP`] of them. The items are ordered by `at`.
fn step<T>(mut all: impl Iterator<Item = T>, at: impl Fn(&T) -> Time, until: Time) -> DueStep<T> {
    let mut step = DueStep::default();
    for item in all.by_ref() {
        if at(&item) > until {
            step.next = at(&item);
            break;
        }
        if step.items.len() == FOLD_STEP {
            step.more = true;
            break;
        }
        step.items.push(item);
    }
    step
}
