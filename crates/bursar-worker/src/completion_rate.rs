//! How many jobs to lease ahead of those that run.

use std::time::Duration;

use tokio::time::Instant;

/// The worker leases as many jobs ahead as it completes in this time. That hides the latency of the lease call for short jobs, and
/// leaves long jobs to other workers.
const WINDOW: Duration = Duration::from_millis(100);

/// The number of jobs that ended in the current and in the previous window.
pub(crate) struct CompletionRate {
    window_start: Instant,
    current: usize,
    previous: usize,
}

impl CompletionRate {
    pub(crate) fn new(now: Instant) -> CompletionRate {
        CompletionRate { window_start: now, current: 0, previous: 0 }
    }

    /// Counts a job that ended.
    pub(crate) fn job_ended(&mut self, now: Instant) {
        self.advance(now);
        self.current += 1;
    }

    /// Returns how many jobs to lease ahead of those that run.
    pub(crate) fn jobs_ahead(&mut self, now: Instant) -> usize {
        self.advance(now);
        self.current.max(self.previous)
    }

    fn advance(&mut self, now: Instant) {
        let elapsed = now.duration_since(self.window_start);
        if elapsed >= WINDOW {
            self.previous = if elapsed < 2 * WINDOW { self.current } else { 0 };
            (self.window_start, self.current) = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn short_jobs_are_leased_ahead_and_long_ones_are_not() {
        let start = Instant::now();
        let mut rate = CompletionRate::new(start);
        assert_eq!(rate.jobs_ahead(start), 0);
        for millis in 0..WINDOW.as_millis() as u64 {
            rate.job_ended(start + Duration::from_millis(millis));
        }
        assert_eq!(rate.jobs_ahead(start + WINDOW), 100);
        assert_eq!(rate.jobs_ahead(start + 3 * WINDOW), 0);
        for second in 1..10 {
            let now = start + Duration::from_secs(second);
            rate.job_ended(now);
            assert!(rate.jobs_ahead(now) <= 1, "after {second} s");
        }
    }
}
