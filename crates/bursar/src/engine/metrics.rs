//! Counters and histograms of the engine.

use std::sync::atomic::{AtomicU64, Ordering};

use super::histogram::{Distribution, Histogram};

/// Counts of what the engine has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were executed.
    pub done: u64,
    /// Requests that the rules refused.
    pub refused: u64,
    /// Requests that failed for other reasons.
    pub failed: u64,
    /// Batches that were committed or tried.
    pub batches: u64,
    /// Polls of the database's change counter while workers waited for jobs.
    pub polls: u64,
    /// Notifications received from other processes while workers waited for jobs.
    pub notifications_received: u64,
    /// Notifications prepared for other processes; they are sent only if one listens.
    pub notifications_sent: u64,
}

/// The current load of the engine, and the distribution of its batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Vitals {
    /// Requests that wait for a committer or for a locked row.
    pub waiting: usize,
    /// Workers that wait for jobs.
    pub lease_waiters: usize,
    /// Requests per batch.
    pub batch_size: Distribution,
    /// Duration of commits, in seconds.
    pub commit_seconds: Distribution,
}

const SIZE_BOUNDS: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0];
const SECONDS_BOUNDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];

pub(super) struct Metrics {
    pub(super) done: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) batch_size: Histogram,
    pub(super) commit_seconds: Histogram,
}

impl Metrics {
    pub(super) fn new() -> Metrics {
        Metrics {
            done: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            batch_size: Histogram::new(&SIZE_BOUNDS),
            commit_seconds: Histogram::new(&SECONDS_BOUNDS),
        }
    }

    pub(super) fn counters(&self) -> Counters {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counters {
            done: read(&self.done),
            refused: read(&self.refused),
            failed: read(&self.failed),
            batches: read(&self.batches),
            ..Counters::default()
        }
    }

    pub(super) fn vitals(&self, waiting: usize, lease_waiters: usize) -> Vitals {
        let (batch_size, commit_seconds) = (self.batch_size.read(), self.commit_seconds.read());
        Vitals { waiting, lease_waiters, batch_size, commit_seconds }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
