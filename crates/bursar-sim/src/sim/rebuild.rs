//! The end of a run: all stored rows compared with the model, and with a rebuild from the journal.

use std::collections::BTreeMap;

use bursar_core::hold::HoldState;
use bursar_core::id::JobId;
use bursar_core::job::{Job, JobError, JobState};
use bursar_core::live::LiveCharge;
use bursar_core::scope::ScopeState;
use bursar_core::state::{DeadGroupKey, IdempotencyRowKey, ScopeKey};
use bursar_core::time::{Span, Time};
use bursar_store::Moment;
use bursar_store::memory::Tables;

use super::jobs::promise;
use super::judge::{Judge, blob_promise};
use super::model::{Micros, Model};
use super::past;

impl Model {
    /// Returns the dead jobs of each group: the first and the last time that one died, and their number.
    pub(crate) fn dead_groups(&self) -> BTreeMap<DeadGroupKey, (Micros, Micros, i64)> {
        let mut groups = BTreeMap::new();
        for job in self.jobs.values().filter(|job| job.state == JobState::Dead) {
            let fingerprint = job.error.as_ref().map(JobError::fingerprint).unwrap_or_default();
            let key = (job.tenant.clone(), job.queue.clone(), job.kind.clone(), fingerprint);
            let (first, last, count) = groups.entry(key).or_insert((job.run_at, job.run_at, 0));
            (*first, *last, *count) = (job.run_at.min(*first), job.run_at.max(*last), *count + 1);
        }
        groups
    }
}

/// Compares all stored rows with the model.
pub(crate) fn compare_all(judge: &mut Judge, tables: &Tables) -> Result<(), (&'static str, String)> {
    for (key, row) in &tables.scopes {
        judge.compare_row(key, row, None).map_err(|what| ("I2 conservation", what))?;
        judge.compare_chain(key, row).map_err(|what| ("the model", what))?;
    }
    let journaled: usize = tables.journal.rows().iter().map(|row| row.batch.entries.len()).sum();
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
            for (scope, amount) in known.totals() {
                let units = (amount, known.charged_by_expiry(&scope));
                live.push(((known.tenant.clone(), scope), known.expires_at, *id, units));
            }
        }
    }
    live.sort();
    let stored = tables.live_charges();
    let units = |charge: &LiveCharge| (charge.amount, charge.on_expiry);
    let mut stored: Vec<_> =
        stored.map(|(key, charge)| (key.clone(), charge.expires_at.micros(), charge.hold, units(charge))).collect();
    stored.sort();
    if live != stored {
        let what = format!("the charges of live holds are {stored:?}, expected {live:?}");
        return Err(("I2 conservation", what));
    }
    for (id, row) in &tables.jobs {
        model.compare_job(*id, Some(row)).map_err(|what| (promise(&what), what))?;
    }
    compare_blobs(model, tables).map_err(|what| (blob_promise(&what), what))?;
    let dead: BTreeMap<_, _> = model.dead_groups().into_iter().map(|(key, (.., count))| (key, count)).collect();
    if *tables.dead_groups() != dead {
        let what = format!("errors: dead jobs are counted as {:?}, expected {dead:?}", tables.dead_groups());
        return Err((promise(&what), what));
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

/// Compares the stored blobs, and the digests by which uploads find them.
fn compare_blobs(model: &Model, tables: &Tables) -> Result<(), String> {
    for (id, row) in &tables.blobs {
        model.compare_blob(*id, Some(row))?;
    }
    if tables.blobs.len() != model.blobs.len() {
        return Err(format!("{} blobs, expected {}", tables.blobs.len(), model.blobs.len()));
    }
    let listed: BTreeMap<_, _> = model.listed_digests().map(|(key, id)| (key.clone(), id)).collect();
    if tables.blob_digests != listed {
        return Err(format!("dedup: {:?} are found by their digests, expected {listed:?}", tables.blob_digests));
    }
    Ok(())
}

/// Checks that a rebuild from the journal restores every row.
pub(crate) fn rebuild(tables: &Tables) -> Result<(), (&'static str, String)> {
    let failed = |what: String| ("I9 the journal is complete", what);
    let mut rebuilt = tables.before_replay();
    let rows = tables.journal.rows();
    // One moment of each run, which differs from run to run.
    let middle = rows.len() / 8 * (1 + rows.len() % 7);
    for (index, row) in rows.iter().enumerate() {
        let replayed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rebuilt.replay(&row.batch)));
        match replayed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(failed(format!("{} cannot be replayed: {error}", row.batch.id))),
            Err(_) => return Err(failed(format!("{} cannot be replayed: the replay panics", row.batch.id))),
        }
        if index == middle {
            let last = row.position + row.batch.count() as u64 - 1;
            past::compare(tables, &rebuilt, Moment::After(last), row.batch.at).map_err(failed)?;
        }
    }
    let seen = tables.scopes.values().map(|row| row.seen).max();
    let newest = seen.max(tables.journal.newest()).unwrap_or(Time::MIN);
    let end = newest.after(Span::from_micros(1));
    let (before, after) = (at_one_time(tables, end), at_one_time(&rebuilt, end));
    for (key, row) in &before {
        if after.get(key) != Some(row) {
            return Err(failed(format!("{key:?} is {row:?}, but rebuilt {:?}", after.get(key))));
        }
    }
    if before.len() != after.len() {
        return Err(failed(format!("{} scopes, rebuilt {}", before.len(), after.len())));
    }
    // Ended holds may have been deleted.
    rebuilt.holds.retain(|id, hold| hold.state == HoldState::Held || tables.holds.contains_key(id));
    same("holds", &tables.holds, &rebuilt.holds).map_err(failed)?;
    same("grants", &tables.grants, &rebuilt.grants).map_err(failed)?;
    same("jobs", &timeless(&tables.jobs), &timeless(&rebuilt.jobs)).map_err(failed)?;
    same("blobs", &tables.blobs, &rebuilt.blobs).map_err(failed)?;
    same("digests", &tables.blob_digests, &rebuilt.blob_digests).map_err(failed)?;
    same("namespaces", &tables.namespaces, &rebuilt.namespaces).map_err(failed)?;
    same("queues", &tables.queues, &rebuilt.queues).map_err(failed)?;
    same("schedules", &tables.schedules, &rebuilt.schedules).map_err(failed)?;
    same("dead jobs by error", tables.dead_groups(), rebuilt.dead_groups()).map_err(failed)?;
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
fn at_one_time(tables: &Tables, end: Time) -> BTreeMap<ScopeKey, ScopeState> {
    let advanced = tables
        .scopes
        .iter()
        .filter(|(_, row)| row.version > 0)
        .filter_map(|(key, _)| Some((key.clone(), without_folds(tables.scope_at(key, end).ok()??))));
    advanced.collect()
}

/// Returns a scope without how far it was folded, and without its line.
pub(super) fn without_folds(mut row: ScopeState) -> ScopeState {
    let fresh = ScopeState::default();
    (row.folded, row.next_expiry) = (fresh.folded, fresh.next_expiry);
    row.line = fresh.line.clone();
    row.expiry_postings.clear();
    for balance in &mut row.balances {
        (balance.evicted, balance.next_eviction) = (fresh.balances[0].evicted, fresh.balances[0].next_eviction);
    }
    row
}
