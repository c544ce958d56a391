//! How many jobs to lease ahead of those that run.

use std::time::Duration;

use tokio::time::Instant;

/// As many as this takes are leased ahead: enough that no handler waits for a call, and few enough that jobs which take long
/// do not wait here while others have nothing to do.
const WINDOW: Duration = Duration::from_millis(100);

/// Counts how many jobs ended lately.
pub(crate) struct Pace {
    began: Instant,
    ended: usize,
    before: usize,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Pace {
        Pace { began: now, ended: 0, before: 0 }
    }

    /// A job has ended.
    pub(crate) fn ended(&mut self, now: Instant) {
        self.turn(now);
        self.ended += 1;
    }

    /// As many as ended in a window of late.
    pub(crate) fn ahead(&mut self, now: Instant) -> usize {
        self.turn(now);
        self.ended.max(self.before)
    }

    fn turn(&mut self, now: Instant) {
        let past = now.duration_since(self.began);
        if past >= WINDOW {
            self.before = if past < 2 * WINDOW { self.ended } else { 0 };
            (self.began, self.ended) = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slow_jobs_are_not_leased_ahead_and_fast_ones_are() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert_eq!(pace.ahead(start), 0);
        for millis in 0..WINDOW.as_millis() as u64 {
            pace.ended(start + Duration::from_millis(millis));
        }
        assert_eq!(pace.ahead(start + WINDOW), 100);
        assert_eq!(pace.ahead(start + 3 * WINDOW), 0);
        for second in 1..10 {
            let now = start + Duration::from_secs(second);
            pace.ended(now);
            assert!(pace.ahead(now) <= 1, "after {second} s");
        }
    }
}
