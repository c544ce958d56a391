//! What workers were told of their leases, and what the journal and the rows say of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bursar::{Bursar, Error, Event, HoldId, JobId, JobState, JournalEvent};

use super::book::Verdict;
use super::diary::Line;
use super::hand::COMPLETED;

/// A lease: the job and the fence.
pub(crate) type LeaseId = (JobId, u64);

/// Leases of the dead that are handed on at most.
const DEAD_MAX: usize = 200;

/// What workers were told.
#[derive(Default)]
pub(crate) struct Leases {
    leased: BTreeSet<LeaseId>,
    ended: BTreeSet<(LeaseId, String)>,
    /// Lost; and whether it was told that what was spent is charged.
    lost: BTreeMap<LeaseId, bool>,
}

/// What the journal says of the leases.
#[derive(Default)]
struct Said {
    began: BTreeSet<LeaseId>,
    ended: BTreeSet<(LeaseId, String)>,
    lapsed: BTreeSet<LeaseId>,
    billed: BTreeSet<LeaseId>,
    /// The last lease of each job, and whether it runs.
    last: HashMap<JobId, (u64, bool)>,
}

impl Leases {
    /// Takes in a line of a diary, if it is a worker's.
    pub(crate) fn enter(&mut self, line: &Line) {
        match line {
            Line::Leased { job, fence } => drop(self.leased.insert((*job, *fence))),
            Line::Ended { job, fence, end } => drop(self.ended.insert(((*job, *fence), end.clone()))),
            Line::Lost { job, fence, billed } => *self.lost.entry((*job, *fence)).or_default() |= billed,
            Line::Asks { .. } | Line::Told { .. } => {}
        }
    }

    /// Leases whose end nobody was told: their workers are dead, or never heard of it.
    pub(crate) fn open(&self) -> Vec<LeaseId> {
        let over = |lease: &LeaseId| {
            self.lost.contains_key(lease)
                || self.ended.range((*lease, String::new())..).next().is_some_and(|(of, _)| of == lease)
        };
        self.leased.iter().rev().filter(|lease| !over(lease)).take(DEAD_MAX).copied().collect()
    }

    /// A job has one worker at a time, fences only grow, each lease ends once, a lost one changes nothing but the bill, and that
    /// once; and what a worker was told is there.
    pub(crate) fn compare(&self, journal: &[JournalEvent], verdict: &mut Verdict) {
        let mut said = Said::default();
        for JournalEvent { event, position, .. } in journal {
            said.take(event, *position, verdict);
        }
        for (job, fence) in self.leased.difference(&said.began) {
            verdict.find(format!("a worker was told that it has lease {fence} of {job}, and it is lost"));
        }
        for ((job, fence), end) in self.ended.difference(&said.ended) {
            verdict.find(format!("a worker was told that lease {fence} of {job} {end}, and that is lost"));
        }
        for (lease @ (job, fence), billed) in &self.lost {
            if said.last.get(job) == Some(&(*fence, true)) {
                verdict.find(format!("a worker was told that lease {fence} of {job} is lost, and it runs"));
            }
            if *billed && !said.billed.contains(lease) {
                verdict.find(format!(
                    "a worker was told that the spend of lease {fence} of {job} is charged, and it is not"
                ));
            }
        }
    }
}

impl Said {
    fn take(&mut self, event: &Event, position: u64, verdict: &mut Verdict) {
        let (job, by, end) = match event {
            Event::JobLeased { job, fence, .. } => (*job, *fence, None),
            Event::JobSucceeded { job, fence, .. } => (*job, *fence, Some(COMPLETED)),
            Event::JobFailed { job, fence, .. } => (*job, *fence, Some("failed")),
            Event::JobRescued { job, fence, .. } => (*job, *fence, Some("lapsed")),
            Event::JobSnoozed { job, fence, .. } => (*job, *fence, Some("snoozed")),
            Event::JobReturned { job, fence } => (*job, *fence, Some("returned")),
            Event::JobBilled { job, fence, lost, .. } => return self.bill(*job, *fence, *lost, position, verdict),
            _ => return,
        };
        let (fence, runs) = self.last.get(&job).copied().unwrap_or_default();
        if end.is_some() && (fence, runs) != (by, true) {
            verdict.find(format!("lease {by} of {job} ends at {position}, and {fence} is the last: it runs {runs}"));
        }
        if end.is_none() && (runs || by <= fence) {
            verdict.find(format!("{job} is leased at {position} as {by} after {fence}, which runs: {runs}"));
        }
        self.last.insert(job, (by, end.is_none()));
        match end {
            None => drop(self.began.insert((job, by))),
            Some(end) => {
                self.ended.insert(((job, by), end.to_owned()));
                if end == "lapsed" {
                    self.lapsed.insert((job, by));
                }
            }
        }
    }

    /// Spend beside a hold is charged by the lease that runs, or once by one that lapsed.
    fn bill(&mut self, job: JobId, fence: u64, lost: bool, position: u64, verdict: &mut Verdict) {
        let runs = self.last.get(&job) == Some(&(fence, true));
        if lost && (!self.lapsed.contains(&(job, fence)) || !self.billed.insert((job, fence))) {
            verdict.find(format!(
                "lease {fence} of {job} is billed at {position}, and did not lapse or was billed before"
            ));
        }
        if !lost && !runs {
            verdict.find(format!("lease {fence} of {job} is billed at {position}, and does not run"));
        }
    }
}

/// Where jobs are, as the journal tells it: the state, as far as time plays no part in it, and the hold.
#[derive(Default)]
pub(crate) struct Whereabouts(HashMap<JobId, (JobState, Option<HoldId>)>);

impl Whereabouts {
    pub(crate) fn take(&mut self, event: &Event) {
        if let Event::JobEnqueued { job, hold, .. } = event {
            self.0.insert(*job, (JobState::Queued, *hold));
        }
        let Some((state, hold)) = event.job().and_then(|job| self.0.get_mut(&job)) else { return };
        match event {
            Event::JobLeased { .. } => *state = JobState::Leased,
            Event::JobSucceeded { .. } => *state = JobState::Succeeded,
            Event::JobDied { .. } => *state = JobState::Dead,
            Event::JobParked { .. } => *state = JobState::AwaitingBudget,
            Event::JobResumed { hold: placed, .. } => (*state, *hold) = (JobState::Queued, Some(*placed)),
            Event::JobFunded { hold: placed, .. } => *hold = Some(*placed),
            Event::JobFailed { .. }
            | Event::JobRescued { .. }
            | Event::JobSnoozed { .. }
            | Event::JobReturned { .. } => *state = JobState::Queued,
            _ => {}
        }
    }

    /// No job has disappeared, and each is where the journal says.
    pub(crate) async fn check(
        &self,
        jobs: impl IntoIterator<Item = JobId>,
        bursar: &Bursar,
        verdict: &mut Verdict,
    ) -> Result<(), Error> {
        for job in jobs {
            let found = bursar.jobs().find(job).await?;
            // Whether the time of one that waits has come is no event.
            let found = found.map(|row| match row.life.state {
                JobState::Scheduled => (JobState::Queued, row.hold),
                state => (state, row.hold),
            });
            let said = self.0.get(&job).copied();
            if found != said {
                verdict.find(format!("{job} is {found:?}, and the journal says {said:?}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bursar_core::job::JobError;
    use bursar_core::name::WorkerName;
    use bursar_core::time::Time;

    use super::*;

    const JOB: JobId = JobId(7);

    fn leased(fence: u64) -> Event {
        let (worker, slots) = (WorkerName::new("w").expect("a name"), Vec::new());
        let (lease, deadline, attempt) = (bursar_core::time::Span::from_secs(1), Time::NEVER, 1);
        Event::JobLeased { job: JOB, fence, attempt, worker, lease, deadline, slots, owner: None }
    }

    fn rescued(fence: u64) -> Event {
        let (worker, error) = (WorkerName::new("w").expect("a name"), JobError::new("lease expired", ""));
        Event::JobRescued { job: JOB, fence, attempt: 1, worker, error, run_at: None }
    }

    fn billed(fence: u64, lost: bool) -> Event {
        Event::JobBilled { job: JOB, fence, charges: Vec::new(), lost }
    }

    fn returned(fence: u64) -> Event {
        Event::JobReturned { job: JOB, fence }
    }

    /// What is found in a journal of these events.
    fn found(events: &[Event]) -> Vec<String> {
        let (mut said, mut verdict) = (Said::default(), Verdict::default());
        (1..).zip(events).for_each(|(position, event)| said.take(event, position, &mut verdict));
        verdict.findings
    }

    #[test]
    fn a_lease_ends_once_and_a_lost_one_changes_nothing_but_the_bill() {
        let right = [
            leased(1),
            rescued(1),
            leased(2),
            billed(1, true),
            billed(2, false),
            returned(2),
            leased(3),
            rescued(3),
            billed(3, true),
        ];
        assert_eq!(found(&right), Vec::<String>::new());
        for (wrong, word) in [
            (&[leased(1), leased(2)][..], "which runs: true"),
            (&[leased(2), rescued(2), leased(2)], "after 2"),
            (&[leased(1), rescued(1), leased(2), returned(1)], "2 is the last"),
            (&[leased(1), rescued(1), returned(1)], "it runs false"),
            (&[leased(1), billed(1, true)], "did not lapse"),
            (&[leased(1), returned(1), billed(1, true)], "did not lapse"),
            (&[leased(1), rescued(1), billed(1, true), billed(1, true)], "billed before"),
            (&[leased(1), rescued(1), billed(1, false)], "does not run"),
        ] {
            let found = found(wrong);
            assert!(found.len() == 1 && found[0].contains(word), "{word}: {found:?}");
        }
    }

    #[test]
    fn what_a_worker_was_told_must_be_in_the_journal() {
        for (told, word) in [
            (Line::Leased { job: JOB, fence: 1 }, "it has lease 1"),
            (Line::Ended { job: JOB, fence: 1, end: COMPLETED.to_owned() }, "completed, and that is lost"),
            (Line::Lost { job: JOB, fence: 1, billed: true }, "is charged, and it is not"),
        ] {
            let (mut leases, mut verdict) = (Leases::default(), Verdict::default());
            leases.enter(&told);
            leases.compare(&[], &mut verdict);
            assert!(verdict.findings.len() == 1 && verdict.findings[0].contains(word), "{:?}", verdict.findings);
        }
        let mut leases = Leases::default();
        for fence in 1..=3 {
            leases.enter(&Line::Leased { job: JOB, fence });
        }
        leases.enter(&Line::Ended { job: JOB, fence: 1, end: "failed".to_owned() });
        leases.enter(&Line::Lost { job: JOB, fence: 2, billed: false });
        assert_eq!(leases.open(), [(JOB, 3)], "the others were told what became of theirs");
    }
}
