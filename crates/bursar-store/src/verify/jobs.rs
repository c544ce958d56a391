//! What jobs say of scopes, queues and holds, held against what is kept there.

use std::collections::BTreeMap;

use bursar_core::hold::{Hold, HoldState};
use bursar_core::job::{Job, JobState, Place};
use bursar_core::name::JobKind;
use bursar_core::scope::ScopeState;
use bursar_core::state::{Counted, HeldKey, QueueKey, ScopeKey, Tally};

use super::Report;

/// What all jobs come to. Grows with the leases, the lines and the queues there are, not with the jobs.
#[derive(Default)]
pub(crate) struct JobCounts {
    /// Leases that take a slot of a scope.
    pub(super) slots: BTreeMap<ScopeKey, i64>,
    lines: BTreeMap<ScopeKey, LineCount>,
    awaited: BTreeMap<ScopeKey, u64>,
    states: BTreeMap<(QueueKey, JobState), i64>,
    held: BTreeMap<HeldKey, i128>,
}

#[derive(Default)]
struct LineCount {
    waiting: BTreeMap<JobKind, u64>,
    firsts: BTreeMap<JobKind, u64>,
    barred: u64,
}

impl JobCounts {
    pub(crate) fn of<'a>(jobs: impl Iterator<Item = &'a Job>) -> JobCounts {
        let mut counts = JobCounts::default();
        jobs.for_each(|job| counts.add(job));
        counts
    }

    /// The scopes that jobs wait for.
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
            *line.firsts.entry(job.kind.clone()).or_default() += 1;
        }
    }

    /// So many more jobs of a queue in a state.
    pub(crate) fn add_states(&mut self, queue: QueueKey, state: JobState, count: i64) {
        *self.states.entry((queue, state)).or_default() += count;
    }
}

impl Report {
    pub(crate) fn check_jobs_of_scope(&mut self, key: &ScopeKey, row: &ScopeState, jobs: &JobCounts) {
        let (tenant, scope) = key;
        let awaited = jobs.awaited.get(key).copied().unwrap_or(0);
        if awaited != row.awaited {
            let kept = row.awaited;
            self.violation(format!("{tenant}/{scope}: {kept} jobs are said to wait for it, and {awaited} do"));
        }
        let none = LineCount::default();
        let line = jobs.lines.get(key).unwrap_or(&none);
        let kept: BTreeMap<JobKind, u64> = row.line.waiting.iter().cloned().collect();
        if kept != line.waiting || row.line.barred != line.barred {
            let (kept, barred) = (kept.values().sum::<u64>(), row.line.barred);
            let real = line.waiting.values().sum::<u64>();
            let text =
                format!("its line has {kept} jobs with {barred} barred, and {real} with {} stand in it", line.barred);
            self.violation(format!("{tenant}/{scope}: {text}"));
        }
        for kind in line.waiting.keys() {
            let firsts = line.firsts.get(kind).copied().unwrap_or(0);
            if firsts != 1 {
                self.violation(format!("{tenant}/{scope}: {firsts} jobs of the kind {kind} are the first of its line"));
            }
        }
    }

    /// Checks a hold that a job owns against the job.
    pub(crate) fn check_owner(&mut self, hold: &Hold, job: Option<&Job>) {
        let Some(id) = hold.job.filter(|_| hold.state == HoldState::Held) else { return };
        match job {
            None => self.violation(format!("{}: its job {id} is not there", hold.id)),
            Some(job) if job.hold != Some(hold.id) => {
                self.violation(format!("{}: it is held for {id}, which has another", hold.id));
            }
            Some(_) => {}
        }
    }

    /// Checks what is counted of queues now.
    pub(crate) fn check_tallies(&mut self, jobs: &JobCounts, kept: impl Iterator<Item = (Tally, i64)>) {
        let mut real = jobs.states.clone();
        for (Tally { tenant, queue, what }, kept) in kept {
            let Counted::In(state) = what else { continue };
            let real = real.remove(&((tenant.clone(), queue.clone()), state)).unwrap_or(0);
            if real != kept {
                self.violation(format!("{tenant}/{queue}: {kept} jobs are counted as {state}, and {real} are"));
            }
        }
        for (((tenant, queue), state), real) in real {
            if real != 0 {
                self.violation(format!("{tenant}/{queue}: no job is counted as {state}, and {real} are"));
            }
        }
    }

    /// Checks what is said to be held for jobs, by queue, kind and unit.
    pub(crate) fn check_held(&mut self, jobs: &JobCounts, kept: impl Iterator<Item = (HeldKey, i128)>) {
        let mut real = jobs.held.clone();
        for (key, kept) in kept {
            let real = real.remove(&key).unwrap_or(0);
            if real != kept {
                let (tenant, queue, kind, unit) = key;
                let text = format!("{kept} {unit:?} are said to be held for {kind}, and {real} are");
                self.violation(format!("{tenant}/{queue}: {text}"));
            }
        }
        for ((tenant, queue, kind, unit), real) in real.into_iter().filter(|(_, real)| *real != 0) {
            self.violation(format!("{tenant}/{queue}: nothing is said to be held for {kind}, and {real} {unit:?} are"));
        }
    }
}
