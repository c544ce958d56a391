//! The model: everything in maps. What the other engines must do, in the plainest form.

mod check;
mod forget;
mod jobs;
#[cfg(test)]
mod zones;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bursar_core::bounds::FOLD_STEP;
use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::{Hold, HoldState};
use bursar_core::id::{BatchId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, JobState, QueueState, Schedule};
use bursar_core::live::{ChargeMark, LiveCharge};
use bursar_core::name::{FlowKey, Queue, ScheduleName, Scope, Tenant};
use bursar_core::page;
use bursar_core::payload::Payload;
use bursar_core::request::Request;
use bursar_core::scope::{Balance, Batchwise, Due, DueAsk, Past, Posting, ScopeState};
use bursar_core::state::{
    Change, CostKey, HeldKey, JobKey, KeyKey, KeyRow, LineKey, QueueKey, ScheduleKey, ScopeKey, Tally, Workspace,
};
use bursar_core::time::Time;
use futures_util::FutureExt;

use crate::claims;
use crate::clock::{Clock, SystemClock};
use crate::error::StoreError;
use crate::figures::{Cost, CostMark, DueJobs, Figures, HeldMark, HeldSum, JobFilter};
use crate::rows::{ClaimAsk, Claimed, Found, PastAsk, Rows};
use crate::store::{Health, Journaled, Patience, Setup, Store, Verdict};
use crate::verify::Report;
use crate::work::{self, When};

/// Postings that are rolled up at most in one transaction, oldest first; the same on every engine.
pub(crate) const ROLL_UP_STEP: usize = 10_000;

/// A store that forgets everything when it is dropped.
pub struct MemoryStore {
    setup: Setup,
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
}

/// The tables.
#[derive(Clone, Default, Debug, PartialEq)]
pub(crate) struct Tables {
    pub(crate) scopes: BTreeMap<ScopeKey, ScopeState>,
    pub(crate) holds: BTreeMap<HoldId, Hold>,
    pub(crate) grants: BTreeMap<GrantId, Grant>,
    pub(crate) keys: BTreeMap<KeyKey, KeyRow>,
    pub(crate) job_keys: BTreeMap<JobKey, JobId>,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) queues: BTreeMap<QueueKey, QueueState>,
    pub(crate) schedules: BTreeMap<ScheduleKey, Schedule>,
    pub(crate) tallies: BTreeMap<Tally, i64>,
    pub(crate) costs: BTreeMap<CostKey, i64>,
    pub(crate) held: BTreeMap<HeldKey, i128>,
    pub(crate) live: BTreeMap<(ScopeKey, Time, HoldId), LiveCharge>,
    pub(crate) postings: BTreeMap<(ScopeKey, Time, u64), Posting>,
    pub(crate) rollups: BTreeMap<ScopeKey, i64>,
    pub(crate) payloads: BTreeMap<u128, Payload>,
    pub(crate) journal: BTreeMap<u64, Batch>,
    /// The instant of the latest decision: time does not go below it.
    pub(crate) high: Time,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(setup: Setup) -> MemoryStore {
        let clock = setup.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
        MemoryStore { setup, clock, tables: Mutex::default() }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Tables {
    fn next_position(&self) -> u64 {
        self.journal.last_key_value().map_or(1, |(position, batch)| position + batch.count() as u64)
    }

    fn last_event_at(&self) -> Option<Time> {
        self.journal.last_key_value().map(|(_, batch)| batch.at)
    }

    fn read(&mut self, batch: &Batch) -> Batch {
        let mut batch = batch.clone();
        let payloads = &self.payloads;
        batch.attach_payloads(|id| payloads.get(&id).cloned());
        batch
    }
}

/// The tables within a transaction, with the clock.
struct MemoryRows<'a> {
    tables: &'a mut Tables,
    clock: &'a dyn Clock,
}

fn pick<K: Ord + Clone, V: Clone>(map: &BTreeMap<K, V>, keys: &[K]) -> Vec<(K, V)> {
    keys.iter().filter_map(|key| Some((key.clone(), map.get(key)?.clone()))).collect()
}

impl Rows for MemoryRows<'_> {
    async fn keys(&mut self, keys: &[KeyKey]) -> Result<Vec<(KeyKey, KeyRow)>, StoreError> {
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

    async fn claim(&mut self, asks: &[ClaimAsk], now: Time) -> Result<Vec<Claimed>, StoreError> {
        Ok(asks.iter().map(|ask| self.tables.claim(ask, now)).collect())
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
            let known = self.tables.scopes.get(key).cloned();
            Some((key.clone(), known.or_else(|| create.then(ScopeState::default))?))
        });
        Ok(Found::all(rows.collect()))
    }

    async fn now(&mut self) -> Result<Time, StoreError> {
        Ok(self.clock.now())
    }

    async fn due(&mut self, asks: &[(ScopeKey, DueAsk)], now: Time) -> Result<Vec<Due>, StoreError> {
        let due = asks.iter().map(|(key, ask)| {
            let mut due = Due::default();
            if let Some(mark) = ask.charges_after {
                let all = self
                    .tables
                    .live
                    .range((key.clone(), mark.0, mark.1)..=(key.clone(), Time::NEVER, HoldId(u128::MAX)));
                let all = all.map(|(_, charge)| charge).filter(|charge| (charge.expires_at, charge.hold) > mark);
                due.charges = step(all.cloned(), |charge| charge.expires_at, now);
            }
            for (place, mark, until) in &ask.postings {
                let all =
                    self.tables.postings.range((key.clone(), mark.0, mark.1)..=(key.clone(), Time::NEVER, u64::MAX));
                let all = all.map(|(_, posting)| posting).filter(|posting| (posting.at, posting.seq) > *mark);
                due.postings.push((*place, step(all.cloned(), |posting| posting.at, *until)));
            }
            due
        });
        Ok(due.collect())
    }

    async fn past(&mut self, asks: &[PastAsk]) -> Result<Vec<Past>, StoreError> {
        let pasts = asks.iter().map(|ask| {
            let key = &ask.scope;
            let postings = self.tables.postings.range((key.clone(), ask.after.0, 0)..(key.clone(), ask.until, 0));
            let postings: Vec<&Posting> = postings.map(|(_, p)| p).filter(|p| (p.at, p.seq) > ask.after).collect();
            let live = self
                .tables
                .live
                .range((key.clone(), ask.unfolded.0, ask.unfolded.1)..=(key.clone(), Time::NEVER, HoldId(u128::MAX)));
            let live = live
                .map(|(_, c)| c)
                .filter(|c| (c.expires_at, c.hold) > ask.unfolded && c.placed_at >= ask.placed_from);
            Past {
                posted: postings.iter().map(|posting| posting.amount).sum(),
                held: live.map(|charge| charge.amount).sum(),
                oldest: postings.iter().map(|posting| posting.at).min(),
            }
        });
        Ok(pasts.collect())
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
                row.balances.retain(Balance::lasts);
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

/// One bounded step through what is ordered by `at`, up to `until`.
fn step<T>(mut all: impl Iterator<Item = T>, at: impl Fn(&T) -> Time, until: Time) -> Batchwise<T> {
    let mut step = Batchwise::default();
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

#[async_trait]
impl Store for MemoryStore {
    async fn commit(&self, requests: &[Arc<Request>], _: Patience) -> Result<Vec<Verdict>, StoreError> {
        let mut tables = self.tables();
        let when = When { floor: tables.high, batch: BatchId(u128::from(tables.next_position())) };
        let mut ids = self.setup.ids.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut rows = MemoryRows { tables: &mut tables, clock: &*self.clock };
        let requests: Vec<&Request> = requests.iter().map(|request| &**request).collect();
        let work = async {
            let (mut ws, verdicts) = work::run(&mut rows, &requests, &self.setup.rules, when, &mut *ids).await?;
            let batch = ws.take_batch();
            rows.store(&ws, batch).await?;
            rows.tables.high = ws.now;
            Ok(verdicts)
        };
        work.now_or_never().expect("memory never waits")
    }

    async fn scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
        let mut tables = self.tables();
        let Some(row) = tables.scopes.get(key).cloned() else { return Ok(None) };
        let mut rows = MemoryRows { tables: &mut tables, clock: &*self.clock };
        let view = work::view(&mut rows, key, row, self.clock.now()).now_or_never();
        view.expect("memory never waits").map(Some)
    }

    async fn scopes(
        &self,
        tenant: &Tenant,
        prefix: &str,
        after: Option<&Scope>,
        limit: usize,
    ) -> Result<Vec<(Scope, ScopeState)>, StoreError> {
        let names: Vec<Scope> = {
            let tables = self.tables();
            let of_tenant = tables
                .scopes
                .iter()
                .filter(|((t, s), row)| t == tenant && row.version > 0 && s.as_str().starts_with(prefix));
            of_tenant.map(|((_, s), _)| s.clone()).filter(|s| after.is_none_or(|after| s > after)).take(limit).collect()
        };
        let mut found = Vec::new();
        for name in names {
            if let Some(row) = self.scope(&(tenant.clone(), name.clone())).await? {
                found.push((name, row));
            }
        }
        Ok(found)
    }

    async fn spent(&self, key: &ScopeKey, from: Time, to: Time) -> Result<i64, StoreError> {
        let tables = self.tables();
        let range = tables.postings.range((key.clone(), from, 0)..(key.clone(), to.max(from), 0));
        Ok(range.map(|(_, posting)| posting.amount).sum())
    }

    async fn hold(&self, id: HoldId) -> Result<Option<Hold>, StoreError> {
        Ok(self.tables().holds.get(&id).cloned())
    }

    async fn live_holds(
        &self,
        key: &ScopeKey,
        after: Option<ChargeMark>,
        limit: usize,
    ) -> Result<Vec<Hold>, StoreError> {
        let tables = self.tables();
        let (at, id) = after.unwrap_or((Time::MIN, HoldId(0)));
        let range = tables.live.range((key.clone(), at, id)..=(key.clone(), Time::NEVER, HoldId(u128::MAX)));
        let range = range.filter(|((_, at, id), _)| after.is_none_or(|after| (*at, *id) > after));
        let table = range.map(|((_, at, id), _)| (*at, *id)).take(limit).collect();
        let row = tables.scopes.get(key).cloned().unwrap_or_default();
        let ids = row.live_after(after, table, limit);
        Ok(page::cut(ids.iter().filter_map(|id| tables.holds.get(id).cloned()).collect(), limit))
    }

    async fn grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        Ok(self.tables().grants.get(&id).cloned())
    }

    async fn grants(&self, tenant: &Tenant, after: Option<GrantId>, limit: usize) -> Result<Vec<Grant>, StoreError> {
        let tables = self.tables();
        let all = tables
            .grants
            .values()
            .filter(|grant| grant.tenant == *tenant && after.is_none_or(|after| grant.id > after));
        Ok(page::cut(all.take(limit).cloned().collect(), limit))
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.tables().jobs.get(&id).cloned())
    }

    async fn list_jobs(
        &self,
        tenant: &Tenant,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError> {
        Ok(page::cut(self.tables().list_jobs(tenant, filter, after, limit, self.clock.now()), limit))
    }

    async fn queue(&self, key: &QueueKey) -> Result<Option<QueueState>, StoreError> {
        Ok(self.tables().queues.get(key).cloned())
    }

    async fn list_queues(
        &self,
        tenant: &Tenant,
        after: Option<&Queue>,
        limit: usize,
    ) -> Result<Vec<(Queue, QueueState)>, StoreError> {
        Ok(self.tables().list_queues(tenant, after, limit))
    }

    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        Ok(self.tables().schedules.get(key).cloned())
    }

    async fn list_schedules(
        &self,
        tenant: &Tenant,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, StoreError> {
        let tables = self.tables();
        let all =
            tables.schedules.iter().filter(|((of, name), _)| of == tenant && after.is_none_or(|after| name > after));
        Ok(page::cut(all.take(limit).map(|((_, name), row)| (name.clone(), row.clone())).collect(), limit))
    }

    async fn due_schedules(&self, limit: usize) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError> {
        let (tables, now) = (self.tables(), self.clock.now());
        let mut all: Vec<_> = tables.schedules.iter().map(|(key, row)| (row.next_at, key)).collect();
        all.retain(|(at, _)| *at < Time::NEVER);
        all.sort();
        let next = all.iter().map(|(at, _)| *at).find(|at| *at > now);
        Ok((all.into_iter().filter(|(at, _)| *at <= now).take(limit).map(|(_, key)| key.clone()).collect(), next))
    }

    async fn figures(&self, key: &QueueKey, since_minute: i64) -> Result<Figures, StoreError> {
        Ok(self.tables().figures(key, since_minute, self.clock.now()))
    }

    async fn costs(
        &self,
        tenant: &Tenant,
        days: RangeInclusive<i64>,
        after: Option<&CostMark>,
        limit: usize,
    ) -> Result<Vec<Cost>, StoreError> {
        Ok(self.tables().costs(tenant, &days, after, limit))
    }

    async fn held(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&HeldMark>,
        limit: usize,
    ) -> Result<Vec<HeldSum>, StoreError> {
        Ok(self.tables().held(tenant, queue, after, limit))
    }

    async fn job_counts(&self) -> Result<Vec<(JobState, i64)>, StoreError> {
        Ok(self.tables().job_counts())
    }

    async fn due_jobs(&self, limit: usize) -> Result<DueJobs, StoreError> {
        Ok(self.tables().due_jobs(limit, self.clock.now()))
    }

    async fn awaiting(&self, scope: &ScopeKey, limit: usize) -> Result<Vec<JobId>, StoreError> {
        Ok(self.tables().awaiting(scope, limit))
    }

    async fn barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError> {
        let tables = self.tables();
        Ok(claims::barred(|| tables.jobs.values(), queue, after, limit))
    }

    async fn awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError> {
        Ok(self.tables().awaited(limit))
    }

    async fn bell(&self) -> Result<u64, StoreError> {
        Ok(self.tables().next_position())
    }

    async fn journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        let mut tables = self.tables();
        // A reader may ask from the middle of a row.
        let first = tables
            .journal
            .range(..=after)
            .next_back()
            .filter(|(p, b)| **p + b.count() as u64 > after + 1)
            .map_or(after + 1, |(p, _)| *p);
        let batches: Vec<_> = tables.journal.range(first..).take(limit).map(|(p, b)| (*p, b.clone())).collect();
        let read = |(position, batch)| Journaled { position, batch: tables.read(&batch) };
        Ok(page::cut(batches.into_iter().map(read).collect(), limit))
    }

    async fn batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError> {
        let mut tables = self.tables();
        let position = id.0 as u64;
        let batch = tables.journal.get(&position).cloned();
        Ok(batch.map(|batch| Journaled { position, batch: tables.read(&batch) }))
    }

    async fn erase_payload(&self, id: u128) -> Result<bool, StoreError> {
        Ok(self.tables().erase_payload(id))
    }

    async fn due_holds(&self, limit: usize) -> Result<(Vec<(Tenant, HoldId)>, Time), StoreError> {
        let now = self.clock.now();
        let tables = self.tables();
        let mut due: Vec<&Hold> =
            tables.holds.values().filter(|h| h.state == HoldState::Held && h.expires_at <= now).collect();
        due.sort_by_key(|hold| (hold.expires_at, hold.id));
        Ok((due.into_iter().take(limit).map(|hold| (hold.tenant.clone(), hold.id)).collect(), now))
    }

    async fn page_scopes(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError> {
        let tables = self.tables();
        Ok(tables.scopes.keys().filter(|key| after.is_none_or(|after| *key > after)).take(limit).cloned().collect())
    }

    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError> {
        Ok(self.tables().forget_keys(limit, self.clock.now()))
    }

    async fn forget_figures(&self, after: Option<&QueueKey>, limit: usize) -> Result<Option<QueueKey>, StoreError> {
        Ok(self.tables().forget_figures(after, limit, self.clock.now()))
    }

    async fn forget_flows(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Option<ScopeKey>, StoreError> {
        Ok(self.tables().forget_flows(after, limit, self.clock.now()))
    }

    async fn verify(&self) -> Result<Report, StoreError> {
        self.check()
    }

    async fn rebuild(&self) -> Result<u64, StoreError> {
        let mut tables = self.tables();
        let mut anew = Tables {
            journal: tables.journal.clone(),
            payloads: tables.payloads.clone(),
            high: tables.high,
            ..Tables::default()
        };
        let mut events = 0;
        for batch in tables.journal.values() {
            events += batch.count() as u64;
            let batch = anew.read(batch);
            let mut rows = MemoryRows { tables: &mut anew, clock: &*self.clock };
            let work = async {
                let ws = work::replay(&mut rows, &batch).await?;
                rows.store(&ws, None).await
            };
            work.now_or_never().expect("memory never waits")?;
        }
        anew.line_up();
        *tables = anew;
        Ok(events)
    }

    async fn health(&self) -> Result<Health, StoreError> {
        let tables = self.tables();
        Ok(Health {
            engine: "memory".into(),
            schema: 0,
            place: "this process".into(),
            problems: Vec::new(),
            position: tables.next_position() - 1,
            last_event_at: tables.last_event_at(),
            now: self.clock.now(),
        })
    }

    async fn close(&self) {}
}
