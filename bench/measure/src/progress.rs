//! How many jobs were handed to a handler, and when.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::Notify;

/// Told by handlers, waited for by the measurement.
#[derive(Debug)]
pub struct Progress {
    handed: AtomicU64,
    goal: AtomicU64,
    first: Mutex<Option<Instant>>,
    last: Mutex<Option<Instant>>,
    reached: Notify,
}

impl Progress {
    /// Is reached when this many jobs were handed over.
    pub fn new(goal: u64) -> Progress {
        Progress {
            handed: AtomicU64::new(0),
            goal: AtomicU64::new(goal),
            first: Mutex::new(None),
            last: Mutex::new(None),
            reached: Notify::new(),
        }
    }

    /// Begins anew.
    pub fn again(&self, goal: u64) {
        *self.first.lock().expect("nobody panics") = None;
        *self.last.lock().expect("nobody panics") = None;
        self.goal.store(goal, Ordering::SeqCst);
        self.handed.store(0, Ordering::SeqCst);
    }

    /// A handler has this many jobs now.
    pub fn handed(&self, jobs: u64) {
        if jobs == 0 {
            return;
        }
        let before = self.handed.fetch_add(jobs, Ordering::SeqCst);
        if before == 0 {
            *self.first.lock().expect("nobody panics") = Some(Instant::now());
        }
        let goal = self.goal.load(Ordering::SeqCst);
        if before < goal && before + jobs >= goal {
            *self.last.lock().expect("nobody panics") = Some(Instant::now());
            self.reached.notify_one();
        }
    }

    /// Waits for the goal; when the first job and the last one were handed over.
    pub async fn reached(&self) -> (Instant, Instant) {
        loop {
            let first = *self.first.lock().expect("nobody panics");
            let last = *self.last.lock().expect("nobody panics");
            if let (Some(first), Some(last)) = (first, last) {
                return (first, last);
            }
            self.reached.notified().await;
        }
    }
}
