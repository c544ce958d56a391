//! The end of a run: all stored rows compared with the model, and with a rebuild from the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Grant;
use bursar_core::hold::{Hold, HoldState};
use bursar_core::id::{BatchId, CommandId, GrantId, HoldId, JobId};
use bursar_core::job::{Job, QueueState, Schedule};
use bursar_core::name::FlowKey;
use bursar_core::scope::{Due, DueQuery, ScopeState, WindowHistory};
use bursar_core::state::{IdempotencyRowKey, JobKey, KeyRow, LineKey, QueueKey, ScheduleKey, ScopeKey, Workspace};
use bursar_core::time::{Span, Time};
use bursar_store::transaction::rows::{ClaimQuery, Claimed, Found, HistoryQuery, Rows};
use bursar_store::{StoreError, claims, transaction};
use futures_util::FutureExt;

use super::jobs::promise;
use super::judge::Judge;
use super::tables::{Tables, View, Writes};

/// Tables without concurrent transactions.
struct ExclusiveRows<'a> {
    tables: &'a mut Tables,
    none: Writes,
}

impl<'a> ExclusiveRows<'a> {
    fn new(tables: &'a mut Tables) -> ExclusiveRows<'a> {
        ExclusiveRows { tables, none: Writes::default() }
    }

    fn view(&self) -> View<'_> {
        View { tables: self.tables, writes: &self.none }
    }
}

impl Rows for ExclusiveRows<'_> {
    async fn keys(&mut self, keys: &[IdempotencyRowKey]) -> Result<Vec<(IdempotencyRowKey, KeyRow)>, StoreError> {
        Ok(keys.iter().filter_map(|key| Some((key.clone(), self.tables.keys.get(key)?.clone()))).collect())
    }

    async fn entries(&mut self, _: &[(BatchId, CommandId)]) -> Result<Vec<Arc<Entry>>, StoreError> {
        Ok(Vec::new())
    }

    async fn job_keys(&mut self, keys: &[JobKey]) -> Result<Vec<(JobKey, JobId)>, StoreError> {
        Ok(keys.iter().filter_map(|key| Some((key.clone(), *self.tables.job_keys.get(key)?))).collect())
    }

    async fn jobs(&mut self, ids: &[JobId], _: bool) -> Result<Found<JobId, Job>, StoreError> {
        Ok(Found::all(ids.iter().filter_map(|id| Some((*id, self.tables.jobs.get(id)?.clone()))).collect()))
    }

    async fn queues(&mut self, keys: &[QueueKey], _: bool) -> Result<Vec<(QueueKey, QueueState)>, StoreError> {
        Ok(keys.iter().filter_map(|key| Some((key.clone(), self.tables.queues.get(key)?.clone()))).collect())
    }

    async fn schedules(&mut self, keys: &[ScheduleKey]) -> Result<Found<ScheduleKey, Schedule>, StoreError> {
        let found = keys.iter().filter_map(|key| Some((key.clone(), self.tables.schedules.get(key)?.clone())));
        Ok(Found::all(found.collect()))
    }

    async fn claim(&mut self, asks: &[ClaimQuery], now: Time) -> Result<Vec<Claimed>, StoreError> {
        Ok(asks.iter().map(|ask| claims::claim(self.tables.jobs.values(), ask, now)).collect())
    }

    async fn behind(&mut self, lines: &[(LineKey, usize)]) -> Result<Vec<Job>, StoreError> {
        Ok(lines.iter().flat_map(|(line, count)| claims::behind(self.tables.jobs.values(), line, *count)).collect())
    }

    async fn barred(&mut self, keys: &[(QueueKey, FlowKey)]) -> Result<Vec<Job>, StoreError> {
        Ok(self.tables.jobs.values().filter(|job| claims::is_barred(job, keys)).cloned().collect())
    }

    async fn holds(&mut self, ids: &[HoldId]) -> Result<Found<HoldId, Hold>, StoreError> {
        Ok(Found::all(ids.iter().filter_map(|id| Some((*id, self.tables.holds.get(id)?.clone()))).collect()))
    }

    async fn grants(&mut self, ids: &[GrantId]) -> Result<Found<GrantId, Grant>, StoreError> {
        Ok(Found::all(ids.iter().filter_map(|id| Some((*id, self.tables.grants.get(id)?.clone()))).collect()))
    }

    async fn scopes(&mut self, keys: &[(ScopeKey, bool)]) -> Result<Found<ScopeKey, ScopeState>, StoreError> {
        let rows = keys.iter().filter_map(|(key, create)| {
            let known = self.tables.scopes.get(key).cloned();
            Some((key.clone(), known.or_else(|| create.then(ScopeState::default))?))
        });
        Ok(Found::all(rows.collect()))
    }

    async fn now(&mut self) -> Result<Time, StoreError> {
        Ok(Time::MIN)
    }

    async fn due(&mut self, asks: &[(ScopeKey, DueQuery)], now: Time) -> Result<Vec<Due>, StoreError> {
        Ok(asks.iter().map(|(key, ask)| self.view().due(key, ask, now)).collect())
    }

    async fn window_histories(&mut self, asks: &[HistoryQuery]) -> Result<Vec<WindowHistory>, StoreError> {
        Ok(asks.iter().map(|ask| self.view().past(ask)).collect())
    }

    async fn roll_up(&mut self, _: &[(ScopeKey, Time)]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn store(&mut self, ws: &Workspace, batch: Option<Batch>) -> Result<bool, StoreError> {
        let mut writes = Writes::default();
        writes.take(ws, batch);
        self.tables.apply(writes);
        Ok(true)
    }
}

/// Compares all stored rows with the model.
pub(crate) fn compare_all(judge: &mut Judge, tables: &Tables) -> Result<(), (&'static str, String)> {
    for (key, row) in &tables.scopes {
        judge.compare_row(key, row, None).map_err(|what| ("I2 conservation", what))?;
        judge.compare_chain(key, row).map_err(|what| ("the model", what))?;
    }
    let journaled: usize = tables.journal.iter().map(|batch| batch.entries.len()).sum();
    let lost = judge.done.len() != journaled;
    if lost {
        let what = format!("{} commands were committed, the journal has {journaled}", judge.done.len());
        return Err(("I5 nothing acknowledged is lost", what));
    }
    let model = &judge.model;
    let mut live = Vec::new();
    for (id, hold) in &tables.holds {
        let Some(known) = model.holds.get(id) else {
            return Err(("I2 conservation", format!("the model does not know {id}")));
        };
        if (known.state, known.expires_at) != (hold.state, hold.expires_at.micros()) {
            return Err(("I2 conservation", format!("{hold:?}, expected {known:?}")));
        }
        if known.state == HoldState::Held {
            let charges = known.totals().into_iter();
            live.extend(charges.map(|(scope, n)| ((known.tenant.clone(), scope), known.expires_at, *id, n)));
        }
    }
    live.sort();
    if live != tables.live_charges() {
        let what = format!("the charges of live holds are {:?}, expected {live:?}", tables.live_charges());
        return Err(("I2 conservation", what));
    }
    for (id, row) in &tables.jobs {
        model.compare_job(*id, Some(row)).map_err(|what| (promise(&what), what))?;
    }
    let counts = (tables.holds.len(), tables.grants.len(), tables.jobs.len(), tables.job_keys.len());
    let known = (model.holds.len(), model.grants.len(), model.jobs.len(), model.job_keys.len());
    if counts != known {
        return Err((
            "I2 conservation",
            format!("numbers of holds, grants, jobs and job keys: {counts:?}, expected {known:?}"),
        ));
    }
    let wrong = tables.grants.values().find(|grant| model.grants.get(&grant.id).is_none_or(|g| g.state != grant.state));
    match wrong {
        Some(grant) => Err(("I4 once (grants)", format!("{grant:?} differs from the model"))),
        None => Ok(()),
    }
}

/// Checks that a rebuild from the journal restores every row.
pub(crate) fn rebuild(tables: &Tables) -> Result<(), (&'static str, String)> {
    let failed = |what: String| ("I9 the journal is complete", what);
    let mut rebuilt = Tables::default();
    for batch in &tables.journal {
        let mut rows = ExclusiveRows::new(&mut rebuilt);
        let work = async {
            let ws = transaction::replay(&mut rows, batch).await?;
            rows.store(&ws, None).await
        };
        let replayed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work.now_or_never()));
        match replayed {
            Ok(Some(Ok(true))) => {}
            other => return Err(failed(format!("{} cannot be replayed: {:?}", batch.id, other.map(|_| ())))),
        }
    }
    let newest = tables.scopes.values().map(|row| row.seen).max().unwrap_or(Time::MIN).max(tables.newest());
    let end = newest.after(Span::from_micros(1));
    let mut stored = tables.clone();
    let (before, after) = (at_one_time(&mut stored, end), at_one_time(&mut rebuilt, end));
    for (key, row) in &before {
        if after.get(key) != Some(row) {
            return Err(failed(format!("{key:?} is {row:?}, but rebuilt {:?}", after.get(key))));
        }
    }
    if before.len() != after.len() {
        return Err(failed(format!("{} scopes, rebuilt {}", before.len(), after.len())));
    }
    same("holds", &tables.holds, &rebuilt.holds).map_err(failed)?;
    same("grants", &tables.grants, &rebuilt.grants).map_err(failed)?;
    same("jobs", &timeless(&tables.jobs), &timeless(&rebuilt.jobs)).map_err(failed)?;
    same("queues", &tables.queues, &rebuilt.queues).map_err(failed)?;
    same("schedules", &tables.schedules, &rebuilt.schedules).map_err(failed)?;
    same("job keys", &tables.job_keys, &rebuilt.job_keys).map_err(failed)?;
    // Expired keys may have been removed.
    let removed = |key: &&IdempotencyRowKey| !tables.keys.contains_key(*key);
    let kept: BTreeMap<_, _> = rebuilt.keys.iter().filter(|(key, _)| !removed(key)).collect();
    if kept == tables.keys.iter().collect() { Ok(()) } else { Err(failed("keys are not rebuilt".into())) }
}

fn same<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    what: &str,
    stored: &BTreeMap<K, V>,
    rebuilt: &BTreeMap<K, V>,
) -> Result<(), String> {
    for (key, row) in stored {
        if rebuilt.get(key) != Some(row) {
            return Err(format!("{what}: {key:?} is {row:?}, but rebuilt {:?}", rebuilt.get(key)));
        }
    }
    if stored.len() == rebuilt.len() {
        Ok(())
    } else {
        Err(format!("{what}: {}, rebuilt {}", stored.len(), rebuilt.len()))
    }
}

/// Returns the jobs without fields that depend on time or on the reader.
fn timeless(jobs: &BTreeMap<JobId, Job>) -> BTreeMap<JobId, Job> {
    jobs.iter().map(|(id, job)| (*id, job.clone().lasting(Time::NEVER))).collect()
}

/// Returns every scope with events, advanced to one time. How far a scope was folded before depends on earlier reads.
fn at_one_time(tables: &mut Tables, end: Time) -> BTreeMap<ScopeKey, ScopeState> {
    let rows: Vec<_> =
        tables.scopes.iter().filter(|(_, row)| row.version > 0).map(|(k, r)| (k.clone(), r.clone())).collect();
    let fresh = ScopeState::default();
    let advanced = rows.into_iter().filter_map(|(key, row)| {
        let mut rows = ExclusiveRows::new(tables);
        let mut row = transaction::view(&mut rows, &key, row, end).now_or_never()?.ok()?;
        (row.folded, row.next_expiry) = (fresh.folded, fresh.next_expiry);
        row.line = fresh.line.clone();
        for balance in &mut row.balances {
            (balance.evicted, balance.next_eviction) = (fresh.balances[0].evicted, fresh.balances[0].next_eviction);
        }
        Some((key, row))
    });
    advanced.collect()
}
