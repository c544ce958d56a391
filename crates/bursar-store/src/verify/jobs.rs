//! Checks of scopes, queues and holds against the jobs.

use std::collections::BTreeMap;

use bursar_core::hold::{Hold, HoldState};
use bursar_core::id::BlobId;
use bursar_core::job::{Job, JobState, Place};
use bursar_core::name::JobKind;
use bursar_core::scope::ScopeState;
use bursar_core::state::{Counted, DeadGroupKey, HeldKey, QueueKey, ScopeKey, Tally};

use super::Report;

/// Counts over all jobs. Its size depends on the number of leases, lines, queues and referenced blobs, not on the number of jobs.
#[derive(Default)]
pub(crate) struct JobCounts {
    /// The number of leases that take a slot of each scope.
    pub(super) slots: BTreeMap<ScopeKey, i64>,
    lines: BTreeMap<ScopeKey, LineCount>,
    awaited: BTreeMap<ScopeKey, u64>,
    states: BTreeMap<(QueueKey, JobState), i64>,
    held: BTreeMap<HeldKey, i128>,
    dead: BTreeMap<DeadGroupKey, i64>,
    /// The number of jobs that refer to each blob.
    pub(super) blobs: BTreeMap<BlobId, u64>,
}

#[derive(Default)]
struct LineCount {
    waiting: BTreeMap<JobKind, u64>,
    heads: BTreeMap<JobKind, u64>,
    barred: u64,
}

impl JobCounts {
    pub(crate) fn of<'a>(jobs: impl Iterator<Item = &'a Job>) -> JobCounts {
        let mut counts = JobCounts::default();
        jobs.for_each(|job| counts.add(job));
        counts
    }

    /// Returns the scopes that jobs await units of.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = &ScopeKey> {
        self.awaited.keys()
    }

    pub(crate) fn add(&mut self, job: &Job) {
        let tenant = &job.tenant;
        self.add_states((tenant.clone(), job.queue.clone()), job.life.state, 1);
        for (unit, amount) in &job.life.held {
            let key = (tenant.clone(), job.queue.clone(), job.kind.clone(), unit.clone());
            *self.held.entry(key).or_default() += amount;
        }
        if let Some(group) = job.dead_group() {
            *self.dead.entry(group).or_default() += 1;
        }
        for blob in &job.life.blobs {
            *self.blobs.entry(*blob).or_default() += 1;
        }
        for scope in job.life.lease.iter().flat_map(|lease| &lease.slots) {
            *self.slots.entry((tenant.clone(), scope.clone())).or_default() += 1;
        }
        if let Some(scope) = &job.life.awaits {
            *self.awaited.entry((tenant.clone(), scope.clone())).or_default() += 1;
        }
        let (Some(scope), true) = (job.line(), job.life.place != Place::Out) else { return };
        let line = self.lines.entry((tenant.clone(), scope)).or_default();
        *line.waiting.entry(job.kind.clone()).or_default() += 1;
        line.barred += u64::from(job.life.place == Place::Barred);
        if job.life.place != Place::Behind {
            *line.heads.entry(job.kind.clone()).or_default() += 1;
        }
    }

    /// Adds `count` jobs of a queue in a state.
    pub(crate) fn add_states(&mut self, queue: QueueKey, state: JobState, count: i64) {
        *self.states.entry((queue, state)).or_default() += count;
    }
}

impl Report {
    pub(crate) fn check_jobs_of_scope(&mut self, key: &ScopeKey, row: &ScopeState, jobs: &JobCounts) {
        let (tenant, scope) = key;
        let awaited = jobs.awaited.get(key).copied().unwrap_or(0);
        if awaited != row.awaited {
            let stored = row.awaited;
            self.violation(format!(
                "{tenant}/{scope}: its row counts {stored} jobs that await it, there are {awaited}"
            ));
        }
        let none = LineCount::default();
        let line = jobs.lines.get(key).unwrap_or(&none);
        let stored: BTreeMap<JobKind, u64> = row.line.waiting.iter().cloned().collect();
        if stored != line.waiting || row.line.barred != line.barred {
            let (stored, stored_barred) = (stored.values().sum::<u64>(), row.line.barred);
            let (actual, barred) = (line.waiting.values().sum::<u64>(), line.barred);
            self.violation(format!(
                "{tenant}/{scope}: its row counts {stored} jobs in line ({stored_barred} barred), there are {actual} ({barred} barred)"
            ));
        }
        for kind in line.waiting.keys() {
            let heads = line.heads.get(kind).copied().unwrap_or(0);
            if heads != 1 {
                self.violation(format!("{tenant}/{scope}: its line has {heads} heads of the kind {kind}, not one"));
            }
        }
    }

    /// Checks that the job of a live hold refers to the hold.
    pub(crate) fn check_owner(&mut self, hold: &Hold, job: Option<&Job>) {
        let Some(id) = hold.job.filter(|_| hold.state == HoldState::Held) else { return };
        match job {
            None => self.violation(format!("{}: its job {id} does not exist", hold.id)),
            Some(job) if job.hold != Some(hold.id) => {
                self.violation(format!("{}: its job {id} has another hold", hold.id));
            }
            Some(_) => {}
        }
    }

    /// Checks the stored numbers of jobs by queue and state.
    pub(crate) fn check_tallies(&mut self, jobs: &JobCounts, stored: impl Iterator<Item = (Tally, i64)>) {
        let mut states = jobs.states.clone();
        for (Tally { tenant, queue, what }, stored) in stored {
            let Counted::In(state) = what else { continue };
            let actual = states.remove(&((tenant.clone(), queue.clone()), state)).unwrap_or(0);
            if actual != stored {
                self.violation(format!("{tenant}/{queue}: {stored} jobs are counted as {state}, there are {actual}"));
            }
        }
        for (((tenant, queue), state), actual) in states {
            if actual != 0 {
                self.violation(format!("{tenant}/{queue}: no job is counted as {state}, there are {actual}"));
            }
        }
    }

    /// Checks the stored sums of units held for jobs, by queue, kind and unit.
    pub(crate) fn check_held(&mut self, jobs: &JobCounts, stored: impl Iterator<Item = (HeldKey, i128)>) {
        let mut sums = jobs.held.clone();
        for (key, stored) in stored {
            let actual = sums.remove(&key).unwrap_or(0);
            if actual != stored {
                let (tenant, queue, kind, unit) = key;
                let text = format!("the stored sum held for {kind} in {unit:?} is {stored}, its jobs hold {actual}");
                self.violation(format!("{tenant}/{queue}: {text}"));
            }
        }
        for ((tenant, queue, kind, unit), actual) in sums.into_iter().filter(|(_, actual)| *actual != 0) {
            let text = format!("no stored sum held for {kind} in {unit:?}, its jobs hold {actual}");
            self.violation(format!("{tenant}/{queue}: {text}"));
        }
    }

    /// Checks the stored fingerprint of a finished job, by which the jobs of a group are found.
    pub(crate) fn check_fingerprint(&mut self, job: &Job, stored: Option<&str>) {
        if job.dead_fingerprint().as_deref() != stored {
            self.violation(format!("{}: it would not be found by the fingerprint of its error", job.id));
        }
    }

    /// Checks the stored numbers of dead jobs by group.
    pub(crate) fn check_dead(&mut self, jobs: &JobCounts, stored: impl Iterator<Item = (DeadGroupKey, i64)>) {
        let mut groups: BTreeMap<DeadGroupKey, (i64, i64)> =
            jobs.dead.iter().map(|(key, actual)| (key.clone(), (*actual, 0))).collect();
        stored.for_each(|(key, stored)| groups.entry(key).or_default().1 += stored);
        for ((tenant, queue, kind, fingerprint), (actual, stored)) in groups {
            if actual != stored {
                let text = format!("{stored} dead jobs of {kind} are counted with the error {fingerprint}");
                self.violation(format!("{tenant}/{queue}: {text}, there are {actual}"));
            }
        }
    }
}
