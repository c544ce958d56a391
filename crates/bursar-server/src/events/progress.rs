//! Progress of jobs for listeners.
//!
//! A report reaches the listeners of its node at once ([`forward`]). The job keeps the last report, so the other nodes read it
//! ([`poll`]): one query per tenant and interval, for the jobs that listeners name, and none if there is no such listener.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, Weak};

use bursar::{Bursar, JobId};
use tokio::sync::watch;
use tokio::time::timeout;

use super::tail::{POLL_INTERVAL, StreamEvent, Tail};

/// Maximum number of jobs that one query reads.
const JOBS_MAX: usize = 500;

/// A report: the fence of its lease, and its number under that lease. Later reports are greater.
type Mark = (u64, u64);

/// The jobs whose progress is listened to.
#[derive(Default)]
pub(super) struct WatchedJobs(Mutex<HashMap<JobId, Watched>>);

#[derive(Default)]
struct Watched {
    listeners: usize,
    /// The last report that was passed on.
    last: Option<Mark>,
    /// A later report that was read and that this node may still hear by itself.
    read: Option<Mark>,
    /// Whether the worker reports to another node.
    is_far: bool,
}

impl WatchedJobs {
    /// Adds a listener of a job. The last report is passed on again, for the new listener.
    pub(super) fn add(&self, job: JobId) {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = jobs.entry(job).or_default();
        *watched = Watched { listeners: watched.listeners + 1, ..Watched::default() };
    }

    pub(super) fn remove(&self, job: JobId) {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = jobs.get_mut(&job) {
            watched.listeners -= 1;
            if watched.listeners == 0 {
                jobs.remove(&job);
            }
        }
    }

    fn ids(&self) -> Vec<JobId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Returns whether a report to this node is passed on: once, and in order. Without a listener it always is.
    fn is_new(&self, job: JobId, mark: Mark) -> bool {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = jobs.get_mut(&job) else { return true };
        watched.is_far = false;
        watched.pass_on(mark)
    }

    /// Returns whether a report that was read is passed on. The first is not before it was read twice: this node hears of one that was made to
    /// it in the meantime, so that its listeners get every report.
    fn is_from_elsewhere(&self, job: JobId, mark: Mark) -> bool {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = jobs.get_mut(&job) else { return false };
        watched.is_far |= watched.read > watched.last;
        watched.read = Some(mark);
        watched.is_far && watched.pass_on(mark)
    }
}

impl Watched {
    fn pass_on(&mut self, mark: Mark) -> bool {
        let is_new = self.last < Some(mark);
        self.last = self.last.max(Some(mark));
        is_new
    }
}

/// Passes on what is reported to this node, as long as the tail exists.
pub(super) async fn forward(bursar: Bursar, tail: Weak<Tail>) {
    let mut reports = bursar.jobs().listen_progress();
    loop {
        // The timeout ends this task soon after the tail, even if no progress is reported.
        let report = timeout(POLL_INTERVAL, reports.next()).await;
        let Some(tail) = tail.upgrade() else { return };
        match report {
            Ok(Some(Ok(report))) if tail.watched.is_new(report.job, (report.fence, report.number)) => {
                tail.push(StreamEvent::of_progress(report.job, report.fence, &report.progress));
            }
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(_))) | Err(_) => {}
            Ok(None) => return,
        }
    }
}

/// Passes on what is reported to other nodes, as long as the tail exists.
pub(super) async fn poll(bursar: Bursar, tail: Weak<Tail>, mut stop: watch::Receiver<bool>) {
    loop {
        if timeout(POLL_INTERVAL, stop.wait_for(|stop| *stop)).await.is_ok() {
            return;
        }
        let Some(tail) = tail.upgrade() else { return };
        for jobs in tail.watched.ids().chunks(JOBS_MAX) {
            match bursar.jobs().last_reports(jobs).await {
                Ok(reports) => {
                    for (job, report) in reports {
                        if tail.watched.is_from_elsewhere(job, (report.fence, report.number)) {
                            tail.push(StreamEvent::of_progress(job, report.fence, &report.progress()));
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "reading the progress of jobs for event streams failed, retrying"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_report_is_passed_on_once_and_the_last_again_for_a_new_listener() {
        let (jobs, job) = (WatchedJobs::default(), JobId(7));
        assert!(!jobs.is_from_elsewhere(job, (1, 1)), "there is no listener");
        jobs.add(job);
        assert!(jobs.is_new(job, (1, 2)) && !jobs.is_new(job, (1, 2)), "once");
        assert!(!jobs.is_new(job, (1, 1)), "an earlier report arrives late");
        assert!(jobs.is_new(job, (2, 1)), "the next lease counts from 1");
        jobs.add(job);
        let read = [(); 3].map(|()| jobs.is_from_elsewhere(job, (2, 1)));
        assert_eq!(read, [false, true, false], "for the second listener");
        jobs.remove(job);
        assert_eq!(jobs.ids(), [job]);
        jobs.remove(job);
        assert_eq!(jobs.ids(), [], "without listeners nothing is read");
    }

    #[test]
    fn a_report_that_is_read_first_does_not_replace_those_that_are_heard() {
        let (jobs, job) = (WatchedJobs::default(), JobId(7));
        jobs.add(job);
        assert!(!jobs.is_from_elsewhere(job, (1, 3)));
        assert_eq!([1, 2, 3].map(|number| jobs.is_new(job, (1, number))), [true; 3], "all are heard");
        assert!(!jobs.is_from_elsewhere(job, (1, 4)));
        assert!(
            jobs.is_from_elsewhere(job, (1, 6)),
            "no report since the last read was heard: the worker reports elsewhere"
        );
        assert!(jobs.is_from_elsewhere(job, (1, 7)), "at once from then on");
        assert!(jobs.is_new(job, (2, 1)) && !jobs.is_from_elsewhere(job, (2, 2)), "until a report is heard");
    }
}
