//! The number of jobs passed to handlers, and when.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::Notify;

/// A counter that handlers increment and the measurement waits for.
#[derive(Debug)]
pub struct Progress {
    handed: AtomicU64,
    goal: AtomicU64,
    first: Mutex<Option<Instant>>,
    last: Mutex<Option<Instant>>,
    reached: Notify,
}

impl Progress {
    /// Creates a counter with a goal.
    pub fn new(goal: u64) -> Progress {
        Progress {
            handed: AtomicU64::new(0),
            goal: AtomicU64::new(goal),
            first: Mutex::new(None),
            last: Mutex::new(None),
            reached: Notify::new(),
        }
    }

    /// Resets the counter.
    pub fn again(&self, goal: u64) {
        *self.first.lock().expect("the lock is not poisoned") = None;
        *self.last.lock().expect("the lock is not poisoned") = None;
        self.goal.store(goal, Ordering::SeqCst);
        self.handed.store(0, Ordering::SeqCst);
    }

    /// Records that a handler received this many jobs.
    pub fn handed(&self, jobs: u64) {
        if jobs == 0 {
            return;
        }
        let before = self.handed.fetch_add(jobs, Ordering::SeqCst);
        if before == 0 {
            *self.first.lock().expect("the lock is not poisoned") = Some(Instant::now());
        }
        let goal = self.goal.load(Ordering::SeqCst);
        if before < goal && before + jobs >= goal {
            *self.last.lock().expect("the lock is not poisoned") = Some(Instant::now());
            self.reached.notify_one();
        }
    }

    /// Waits for the goal and returns when the first and the last job were passed to a handler.
    pub async fn reached(&self) -> (Instant, Instant) {
        loop {
            let first = *self.first.lock().expect("the lock is not poisoned");
            let last = *self.last.lock().expect("the lock is not poisoned");
            if let (Some(first), Some(last)) = (first, last) {
                return (first, last);
            }
            self.reached.notified().await;
        }
    }
}
