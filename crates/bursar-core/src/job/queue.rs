//! Queues: how the jobs in them are leased, tried again and kept.

use serde::{Deserialize, Serialize};

use crate::bounds::{LEASE_MAX, LEASE_MIN, LENGTH_MAX, LENGTH_MIN};
use crate::budget::Limit;
use crate::id::BatchId;
use crate::job::spec::check_deadline;
use crate::job::{JobState, Retry};
use crate::refusal::Invalid;
use crate::time::Span;
use crate::window::Window;

/// What is set for a queue. A queue that nobody has set anything for has the defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueConfig {
    /// Nothing is leased from it.
    pub paused: bool,
    /// Jobs that are leased at once, at most.
    pub concurrency: Option<u32>,
    /// Leases in a time, at most.
    pub rate: Option<Rate>,
    /// Jobs of one flow key that are leased at once, at most.
    pub key_concurrency: Option<u32>,
    /// Leases of one flow key in a time, at most.
    pub key_rate: Option<Rate>,
    /// How its jobs are tried again.
    pub retry: Retry,
    /// How long a lease lasts without a heartbeat.
    pub lease: Span,
    /// How long one run may take.
    pub deadline: Option<Span>,
    /// How long finished jobs are kept.
    pub retention: Retention,
}

impl Default for QueueConfig {
    fn default() -> QueueConfig {
        QueueConfig {
            paused: false,
            concurrency: None,
            rate: None,
            key_concurrency: None,
            key_rate: None,
            retry: Retry::default(),
            lease: Span::from_secs(30),
            deadline: None,
            retention: Retention::default(),
        }
    }
}

/// So many leases in a time; as many at once when it has been quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// So many …
    pub amount: u32,
    /// … in so long.
    pub per: Span,
}

impl Rate {
    /// The limit it is: a bucket of that size that refills in that time.
    pub fn limit(self) -> Limit {
        let amount = i64::from(self.amount);
        Limit { amount, window: Window::Bucket { capacity: amount, refill: amount, length: self.per } }
    }

    fn check(self, field: &'static str) -> Result<(), Invalid> {
        if self.amount == 0 {
            return Err(Invalid::new(field, "amount must be at least 1: pause the queue instead"));
        }
        if !(LENGTH_MIN..=LENGTH_MAX).contains(&self.per) {
            let problem = format!("per_ms must be from {} to {}", LENGTH_MIN.millis(), LENGTH_MAX.millis());
            return Err(Invalid::new(field, problem));
        }
        Ok(())
    }
}

/// How long finished jobs are kept; `None` is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Those that succeeded.
    pub succeeded: Option<Span>,
    /// Those that were cancelled.
    pub cancelled: Option<Span>,
    /// Those that are dead.
    pub dead: Option<Span>,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            succeeded: Some(Span::from_days(1)),
            cancelled: Some(Span::from_days(1)),
            dead: Some(Span::from_days(30)),
        }
    }
}

impl QueueConfig {
    /// Refuses what no state of the world would make right.
    pub fn check(&self) -> Result<(), Invalid> {
        self.retry.check("retry")?;
        if !(LEASE_MIN..=LEASE_MAX).contains(&self.lease) {
            let problem = format!("must be from {} to {}", LEASE_MIN.millis(), LEASE_MAX.millis());
            return Err(Invalid::new("lease_ms", problem));
        }
        check_deadline("deadline_ms", self.deadline)?;
        for (field, most) in [("concurrency", self.concurrency), ("key_concurrency", self.key_concurrency)] {
            if most == Some(0) {
                return Err(Invalid::new(field, "must be at least 1: pause the queue instead"));
            }
        }
        for (field, rate) in [("rate", self.rate), ("key_rate", self.key_rate)] {
            rate.map_or(Ok(()), |rate| rate.check(field))?;
        }
        Ok(())
    }
}

impl QueueConfig {
    /// How long a job that ended so is kept; `None` while it has not ended, and for ever.
    pub fn kept(&self, state: JobState) -> Option<Span> {
        match state {
            JobState::Succeeded => self.retention.succeeded,
            JobState::Cancelled => self.retention.cancelled,
            JobState::Dead => self.retention.dead,
            _ => None,
        }
    }
}

/// A queue that something was set for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueState {
    /// What is set.
    pub config: QueueConfig,
    /// Events of this queue so far.
    pub version: u64,
    /// The last transaction with an event of this queue.
    pub last: Option<BatchId>,
}
