//! What workers were told of their leases, and what the journal says of them.

use std::collections::{BTreeSet, HashMap};

use bursar::{Event, JobId, JournalEvent};

use super::book::Verdict;
use super::diary::Line;

/// What workers were told.
#[derive(Default)]
pub(crate) struct Leases {
    leased: BTreeSet<(JobId, u64)>,
    completed: BTreeSet<(JobId, u64)>,
}

impl Leases {
    /// Takes in a line of a diary, if it is a worker's.
    pub(crate) fn enter(&mut self, line: &Line) {
        match line {
            Line::Leased { job, fence } => self.leased.extend([(*job, *fence)]),
            Line::Completed { job, fence } => self.completed.extend([(*job, *fence)]),
            Line::Asks { .. } | Line::Told { .. } => {}
        }
    }

    /// A job has one worker at a time, fences only grow, each lease ends once, and what a worker was told is there.
    pub(crate) fn compare(&self, journal: &[JournalEvent], verdict: &mut Verdict) {
        let mut leases: HashMap<JobId, (u64, bool)> = HashMap::new();
        let (mut began, mut succeeded) = (BTreeSet::<(JobId, u64)>::new(), BTreeSet::<(JobId, u64)>::new());
        for JournalEvent { event, position, .. } in journal {
            let (job, by, ends) = match event {
                Event::JobLeased { job, fence, .. } => (*job, *fence, false),
                Event::JobSucceeded { job, fence, .. }
                | Event::JobFailed { job, fence, .. }
                | Event::JobRescued { job, fence, .. }
                | Event::JobSnoozed { job, fence, .. }
                | Event::JobReturned { job, fence } => (*job, *fence, true),
                _ => continue,
            };
            let (fence, runs) = leases.get(&job).copied().unwrap_or_default();
            if ends && (fence, runs) != (by, true) {
                verdict
                    .find(format!("lease {by} of {job} ends at {position}, and {fence} is the last: it runs {runs}"));
            }
            if !ends && (runs || by <= fence) {
                verdict.find(format!("{job} is leased at {position} as {by} after {fence}, which runs: {runs}"));
            }
            leases.insert(job, (by, !ends));
            match event {
                Event::JobLeased { .. } => began.extend([(job, by)]),
                Event::JobSucceeded { .. } => succeeded.extend([(job, by)]),
                _ => {}
            }
        }
        for (job, fence) in self.leased.difference(&began) {
            verdict.find(format!("a worker was told that it has lease {fence} of {job}, and it is lost"));
        }
        for (job, fence) in self.completed.difference(&succeeded) {
            verdict.find(format!("a worker was told that lease {fence} completed {job}, and it is lost"));
        }
    }
}
