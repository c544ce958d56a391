//! Progress of jobs for listeners.
//!
//! A report reaches the listeners of its node at once ([`forward`]). The job keeps the last report, so the other nodes read it
//! ([`poll`]): one query per tenant and interval, for the jobs that listeners name, and none if there is no such listener.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, Weak};

use bursar::{Bursar, JobId, Progress};
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
}

impl WatchedJobs {
    /// Adds a listener of a job. The last report is passed on again, for the new listener.
    pub(super) fn add(&self, job: JobId) {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = jobs.entry(job).or_default();
        watched.listeners += 1;
        watched.last = None;
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

    /// Returns whether a report is to be passed on: to listeners that name the job once, in order.
    fn is_new(&self, job: JobId, mark: Mark) -> bool {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = jobs.get_mut(&job) else { return true };
        let is_new = watched.last < Some(mark);
        watched.last = watched.last.max(Some(mark));
        is_new
    }
}

impl Tail {
    fn push_report(&self, job: JobId, mark: Mark, progress: &Progress) {
        if self.watched.is_new(job, mark) {
            self.push(StreamEvent::of_progress(job, mark.0, progress));
        }
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
            Ok(Some(Ok(report))) => tail.push_report(report.job, (report.fence, report.number), &report.progress),
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
                Ok(reports) => reports.iter().for_each(|(job, report)| {
                    tail.push_report(*job, (report.fence, report.number), &report.progress());
                }),
                Err(error) => tracing::warn!(%error, "reading the progress of jobs for event streams failed, retrying"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_passed_on_once_and_again_for_a_new_listener() {
        let (jobs, job) = (WatchedJobs::default(), JobId(7));
        jobs.add(job);
        assert!(jobs.is_new(job, (1, 2)) && !jobs.is_new(job, (1, 2)), "once");
        assert!(!jobs.is_new(job, (1, 1)), "an earlier report arrives late");
        assert!(jobs.is_new(job, (2, 1)), "the next lease counts from 1");
        jobs.add(job);
        assert!(jobs.is_new(job, (2, 1)), "for the second listener");
        jobs.remove(job);
        assert_eq!(jobs.ids(), [job]);
        jobs.remove(job);
        assert_eq!(jobs.ids(), [], "without listeners nothing is read");
    }
}
