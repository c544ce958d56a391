//! Rows as they were at an earlier moment, compared with a replay of everything until then.

use std::collections::BTreeMap;
use std::fmt::Debug;

use bursar_core::event::Stream;
use bursar_core::hold::Hold;
use bursar_core::id::BatchId;
use bursar_core::job::Job;
use bursar_core::scope::ScopeState;
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use bursar_store::memory::Tables;
use bursar_store::{Moment, Past, Wanted};

use super::rebuild::without_folds;

/// The most rows of each kind that are compared.
const ROWS: usize = 12;

/// Compares rows of each kind at a moment with the tables that the journal gives until then. `now` has the rows of today.
pub(super) fn compare(now: &Tables, then: &Tables, moment: Moment, at: Time) -> Result<(), String> {
    let reader = Reader { now, moment };
    for (key, row) in some(now.scopes.iter().filter(|(key, _)| !key.1.is_internal())) {
        let stream = Stream::Scope(key.0.clone(), key.1.clone());
        let found = reader.read(&stream, row.last)?.and_then(|tables| scope(&tables, key, at));
        same(&stream, found.as_ref(), scope(then, key, at).as_ref())?;
    }
    for (id, row) in some(now.holds.iter()) {
        let found = reader.read(&Stream::Hold(*id), row.last)?.and_then(|tables| tables.holds.get(id).map(hold));
        same(&Stream::Hold(*id), found.as_ref(), then.holds.get(id).map(hold).as_ref())?;
    }
    for (id, row) in some(now.jobs.iter()) {
        let found = reader.read(&Stream::Job(*id), row.last)?.and_then(|tables| tables.jobs.get(id).map(job));
        same(&Stream::Job(*id), found.as_ref(), then.jobs.get(id).map(job).as_ref())?;
    }
    reader.compare(&now.grants, |tables| &tables.grants, then, |id| Stream::Grant(*id), |row| row.last)?;
    reader.compare(&now.blobs, |tables| &tables.blobs, then, |id| Stream::Blob(*id), |row| row.last)?;
    let queue = |(tenant, queue): &(_, _)| Stream::Queue(Clone::clone(tenant), Clone::clone(queue));
    reader.compare(&now.queues, |tables| &tables.queues, then, queue, |row| row.last)?;
    let schedule = |(tenant, name): &(_, _)| Stream::Schedule(Clone::clone(tenant), Clone::clone(name));
    reader.compare(&now.schedules, |tables| &tables.schedules, then, schedule, |row| row.last)?;
    let namespace = |(tenant, name): &(_, _)| Stream::Namespace(Clone::clone(tenant), Clone::clone(name));
    reader.compare(&now.namespaces, |tables| &tables.namespaces, then, namespace, |row| row.last)
}

struct Reader<'a> {
    now: &'a Tables,
    moment: Moment,
}

impl Reader<'_> {
    /// Reads the events of a stream up to the moment, and applies them.
    fn read(&self, stream: &Stream, last: Option<BatchId>) -> Result<Option<Tables>, String> {
        let Some(last) = last else { return Ok(None) };
        let mut past = Past::new(stream.clone(), last, self.moment);
        while let Some(wanted) = past.wanted() {
            match wanted {
                Wanted::Batch(id) => {
                    let row =
                        self.now.journal.get(id).ok_or_else(|| format!("{stream}: {id} is not in the journal"))?;
                    past.add(row);
                }
                Wanted::Hold(hold) => past.follow(self.now.holds.get(&hold).and_then(|row| row.last)),
            }
        }
        past.replay().map_err(|error| format!("{stream}: {error}"))
    }

    /// Returns whether the first event of a stream, of those that are linked, came after the moment.
    fn began_later(&self, stream: &Stream, last: Option<BatchId>) -> bool {
        let rows = std::iter::successors(last.and_then(|last| self.now.journal.get(last)), |row| {
            self.now.journal.get(row.batch.prev.get(stream)?)
        });
        match (rows.last(), self.moment) {
            (Some(first), Moment::After(position)) => first.position > position,
            _ => false,
        }
    }

    fn compare<K: Ord, V: PartialEq + Debug>(
        &self,
        now: &BTreeMap<K, V>,
        table: impl Fn(&Tables) -> &BTreeMap<K, V>,
        then: &Tables,
        stream: impl Fn(&K) -> Stream,
        last: impl Fn(&V) -> Option<BatchId>,
    ) -> Result<(), String> {
        for (key, row) in some(now.iter()) {
            let stream = stream(key);
            // Requests of a world may mint a grant with an id that an old grant had, which was deleted since.
            if self.began_later(&stream, last(row)) {
                continue;
            }
            let found = self.read(&stream, last(row))?;
            same(&stream, found.as_ref().and_then(|tables| table(tables).get(key)), table(then).get(key))?;
        }
        Ok(())
    }
}

/// Returns rows from the beginning, the middle and the end.
fn some<T>(rows: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let rows: Vec<T> = rows.collect();
    let step = rows.len().div_ceil(ROWS).max(1);
    rows.into_iter().step_by(step)
}

fn same<V: PartialEq + Debug>(stream: &Stream, found: Option<&V>, expected: Option<&V>) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{stream} was {expected:?}, but its events give {found:?}")) }
}

/// Returns a scope without what its own events do not tell: what other scopes and jobs count in it.
fn scope(tables: &Tables, key: &ScopeKey, at: Time) -> Option<ScopeState> {
    let row = tables.scope_at(key, at).ok()?.filter(|row| row.version > 0)?;
    let fresh = ScopeState::default();
    Some(ScopeState { below: fresh.below, awaited: fresh.awaited, ..without_folds(row) })
}

/// Returns a hold without the credits of what it was charged beyond its units, which are events of its scopes, and without its blob.
fn hold(row: &Hold) -> Hold {
    Hold { beyond: None, blob: None, ..row.clone() }
}

/// Returns a job without what its own events do not tell: the time of its lease, its line and the units of its budgets.
fn job(row: &Job) -> Job {
    let mut row = row.clone().lasting(Time::NEVER);
    row.life.held.clear();
    row
}
