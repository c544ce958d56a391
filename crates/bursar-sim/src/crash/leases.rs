//! Leases: the logs of workers, compared with the journal and the rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bursar::{Bursar, Error, Event, HoldId, JobId, JobState, JournalEvent};

use super::checker::CheckReport;
use super::client_log::LogLine;
use super::crash_worker::COMPLETED;

/// A lease: its job and its fence.
pub(crate) type LeaseId = (JobId, u64);

/// Open leases of killed workers that are passed on to the next round.
const OPEN_MAX: usize = 200;

/// The leases in the workers' logs.
#[derive(Default)]
pub(crate) struct LoggedLeases {
    leased: BTreeSet<LeaseId>,
    ended: BTreeSet<(LeaseId, String)>,
    /// Lost leases, and whether the response said that the spend is charged.
    lost: BTreeMap<LeaseId, bool>,
}

/// The leases in the journal.
#[derive(Default)]
struct JournaledLeases {
    began: BTreeSet<LeaseId>,
    ended: BTreeSet<(LeaseId, String)>,
    expired: BTreeSet<LeaseId>,
    billed: BTreeSet<LeaseId>,
    /// The last fence of each job, and whether that lease is running.
    last: HashMap<JobId, (u64, bool)>,
}

impl LoggedLeases {
    /// Adds a log line if it is about a lease.
    pub(crate) fn add(&mut self, line: &LogLine) {
        match line {
            LogLine::Leased { job, fence } => drop(self.leased.insert((*job, *fence))),
            LogLine::Ended { job, fence, end } => drop(self.ended.insert(((*job, *fence), end.clone()))),
            LogLine::Lost { job, fence, billed } => *self.lost.entry((*job, *fence)).or_default() |= billed,
            LogLine::Sent { .. } | LogLine::Received { .. } | LogLine::Archived { .. } => {}
        }
    }

    /// Returns the leases without a logged end: their workers were killed or abandoned them.
    pub(crate) fn open(&self) -> Vec<LeaseId> {
        let over = |lease: &LeaseId| {
            self.lost.contains_key(lease)
                || self.ended.range((*lease, String::new())..).next().is_some_and(|(of, _)| of == lease)
        };
        self.leased.iter().rev().filter(|lease| !over(lease)).take(OPEN_MAX).copied().collect()
    }

    /// Checks that a job has one running lease at a time, fences only increase, each lease ends once, a lost lease is billed at
    /// most once and changes nothing else; and that the journal has everything that was acknowledged to workers.
    pub(crate) fn compare(&self, journal: &[JournalEvent], report: &mut CheckReport) {
        let mut journaled = JournaledLeases::default();
        for JournalEvent { event, position, .. } in journal {
            journaled.apply(event, *position, report);
        }
        for (job, fence) in self.leased.difference(&journaled.began) {
            report.add(format!("a worker received lease {fence} of {job}, but it is lost"));
        }
        for ((job, fence), end) in self.ended.difference(&journaled.ended) {
            report.add(format!("a worker was told that lease {fence} of {job} {end}, but that is lost"));
        }
        for (lease @ (job, fence), billed) in &self.lost {
            if journaled.last.get(job) == Some(&(*fence, true)) {
                report.add(format!("lease {fence} of {job} was refused as lost, but it is running"));
            }
            if *billed && !journaled.billed.contains(lease) {
                report.add(format!("the spend of lease {fence} of {job} was reported as charged, but it is not"));
            }
        }
    }
}

impl JournaledLeases {
    fn apply(&mut self, event: &Event, position: u64, report: &mut CheckReport) {
        let (job, by, end) = match event {
            Event::JobLeased(leased) => (leased.job, leased.fence, None),
            Event::JobSucceeded { job, fence, .. } => (*job, *fence, Some(COMPLETED)),
            Event::JobFailed { job, fence, .. } => (*job, *fence, Some("failed")),
            Event::JobRescued { job, fence, .. } => (*job, *fence, Some("expired")),
            Event::JobSnoozed { job, fence, .. } => (*job, *fence, Some("snoozed")),
            Event::JobReturned { job, fence } => (*job, *fence, Some("returned")),
            Event::JobBilled { job, fence, lost, .. } => return self.bill(*job, *fence, *lost, position, report),
            _ => return,
        };
        let (fence, running) = self.last.get(&job).copied().unwrap_or_default();
        if end.is_some() && (fence, running) != (by, true) {
            report.add(format!("lease {by} of {job} ends at {position}, but the last is {fence}, running: {running}"));
        }
        if end.is_none() && (running || by <= fence) {
            report.add(format!("{job} is leased at {position} as {by} after {fence}, running: {running}"));
        }
        self.last.insert(job, (by, end.is_none()));
        match end {
            None => drop(self.began.insert((job, by))),
            Some(end) => {
                self.ended.insert(((job, by), end.to_owned()));
                if end == "expired" {
                    self.expired.insert((job, by));
                }
            }
        }
    }

    /// Checks that spend without a hold is charged by the running lease, or once by an expired one.
    fn bill(&mut self, job: JobId, fence: u64, lost: bool, position: u64, report: &mut CheckReport) {
        let running = self.last.get(&job) == Some(&(fence, true));
        if lost && (!self.expired.contains(&(job, fence)) || !self.billed.insert((job, fence))) {
            report.add(format!(
                "lease {fence} of {job} is billed at {position}, but did not expire or was billed before"
            ));
        }
        if !lost && !running {
            report.add(format!("lease {fence} of {job} is billed at {position}, but is not running"));
        }
    }
}

/// The state and the hold of each job according to the journal.
#[derive(Default)]
pub(crate) struct JobStates(HashMap<JobId, (JobState, Option<HoldId>)>);

impl JobStates {
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::JobEnqueued { job, hold, .. } => drop(self.0.insert(*job, (JobState::Queued, *hold))),
            Event::JobForgotten { job } => drop(self.0.remove(job)),
            _ => {}
        }
        let Some((state, hold)) = event.job().and_then(|job| self.0.get_mut(&job)) else { return };
        match event {
            Event::JobLeased(_) => *state = JobState::Leased,
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

    /// Checks that each job exists and has the state and hold that the journal says.
    pub(crate) async fn check(
        &self,
        jobs: impl IntoIterator<Item = JobId>,
        bursar: &Bursar,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        for job in jobs {
            let found = bursar.jobs().find(job).await?;
            // A job becomes ready without an event, so that `Scheduled` and `Queued` are the same here.
            let found = found.map(|row| match row.life.state {
                JobState::Scheduled => (JobState::Queued, row.hold),
                state => (state, row.hold),
            });
            let expected = self.0.get(&job).copied();
            if found != expected {
                report.add(format!("{job} is {found:?}, the journal says {expected:?}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bursar_core::event::LeasedJob;
    use bursar_core::job::JobError;
    use bursar_core::name::WorkerName;
    use bursar_core::time::Time;

    use super::*;

    const JOB: JobId = JobId(7);

    fn leased(fence: u64) -> Event {
        let (worker, slots) = (WorkerName::new("w").expect("a name"), Vec::new());
        let (lease, deadline, attempt) = (bursar_core::time::Span::from_secs(1), Time::NEVER, 1);
        Event::JobLeased(LeasedJob { job: JOB, fence, attempt, worker, lease, deadline, slots, owner: None })
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

    /// Returns the findings for a journal of these events.
    fn found(events: &[Event]) -> Vec<String> {
        let (mut journaled, mut report) = (JournaledLeases::default(), CheckReport::default());
        (1..).zip(events).for_each(|(position, event)| journaled.apply(event, position, &mut report));
        report.findings
    }

    #[test]
    fn a_lease_ends_once_and_a_lost_lease_is_billed_once() {
        let valid = [
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
        assert_eq!(found(&valid), Vec::<String>::new());
        for (invalid, text) in [
            (&[leased(1), leased(2)][..], "running: true"),
            (&[leased(2), rescued(2), leased(2)], "after 2"),
            (&[leased(1), rescued(1), leased(2), returned(1)], "the last is 2"),
            (&[leased(1), rescued(1), returned(1)], "running: false"),
            (&[leased(1), billed(1, true)], "did not expire"),
            (&[leased(1), returned(1), billed(1, true)], "did not expire"),
            (&[leased(1), rescued(1), billed(1, true), billed(1, true)], "billed before"),
            (&[leased(1), rescued(1), billed(1, false)], "is not running"),
        ] {
            let found = found(invalid);
            assert!(found.len() == 1 && found[0].contains(text), "{text}: {found:?}");
        }
    }

    #[test]
    fn acknowledged_leases_must_be_in_the_journal() {
        for (line, text) in [
            (LogLine::Leased { job: JOB, fence: 1 }, "received lease 1"),
            (LogLine::Ended { job: JOB, fence: 1, end: COMPLETED.to_owned() }, "completed, but that is lost"),
            (LogLine::Lost { job: JOB, fence: 1, billed: true }, "as charged, but it is not"),
        ] {
            let (mut leases, mut report) = (LoggedLeases::default(), CheckReport::default());
            leases.add(&line);
            leases.compare(&[], &mut report);
            assert!(report.findings.len() == 1 && report.findings[0].contains(text), "{:?}", report.findings);
        }
        let mut leases = LoggedLeases::default();
        for fence in 1..=3 {
            leases.add(&LogLine::Leased { job: JOB, fence });
        }
        leases.add(&LogLine::Ended { job: JOB, fence: 1, end: "failed".to_owned() });
        leases.add(&LogLine::Lost { job: JOB, fence: 2, billed: false });
        assert_eq!(leases.open(), [(JOB, 3)], "the other leases have a logged end");
    }
}
