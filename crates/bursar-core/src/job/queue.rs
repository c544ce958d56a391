//! Queues: how their jobs are leased, retried and retained.

use serde::{Deserialize, Serialize};

use crate::bounds::{LEASE_MAX, LEASE_MIN, LENGTH_MAX, LENGTH_MIN};
use crate::budget::Limit;
use crate::id::BatchId;
use crate::job::spec::check_deadline;
use crate::job::{JobState, Retry};
use crate::refusal::Invalid;
use crate::time::Span;
use crate::window::Window;

/// The configuration of a queue. A queue that was never configured has the defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueConfig {
    /// Whether leasing is paused.
    pub paused: bool,
    /// The most concurrent leases.
    pub concurrency: Option<u32>,
    /// The most leases per time.
    pub rate: Option<Rate>,
    /// The most concurrent leases of one flow key.
    pub key_concurrency: Option<u32>,
    /// The most leases of one flow key per time.
    pub key_rate: Option<Rate>,
    /// The retry policy of its jobs.
    pub retry: Retry,
    /// How long a lease lasts without a heartbeat.
    pub lease: Span,
    /// How long one attempt may take.
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

/// A number of leases per time. After a quiet period all of them may start at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// The number of leases.
    pub amount: u32,
    /// The time in which they may start.
    pub per: Span,
}

impl Rate {
    /// Returns the rate as a limit: a bucket of `amount` tokens that refills in `per`.
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

/// How long finished jobs are kept; `None` keeps them forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Succeeded jobs.
    pub succeeded: Option<Span>,
    /// Cancelled jobs.
    pub cancelled: Option<Span>,
    /// Dead jobs.
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
    /// Refuses values out of range.
    pub fn check(&self) -> Result<(), Invalid> {
        self.retry.check("retry")?;
        if !(LEASE_MIN..=LEASE_MAX).contains(&self.lease) {
            let problem = format!("must be from {} to {}", LEASE_MIN.millis(), LEASE_MAX.millis());
            return Err(Invalid::new("lease_ms", problem));
        }
        check_deadline("deadline_ms", self.deadline)?;
        for (field, limit) in [("concurrency", self.concurrency), ("key_concurrency", self.key_concurrency)] {
            if limit == Some(0) {
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
    /// Returns how long a job in this state is kept; `None` if it has not ended or is kept forever.
    pub fn kept(&self, state: JobState) -> Option<Span> {
        match state {
            JobState::Succeeded => self.retention.succeeded,
            JobState::Cancelled => self.retention.cancelled,
            JobState::Dead => self.retention.dead,
            _ => None,
        }
    }
}

/// The row of a configured queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueState {
    /// Its configuration.
    pub config: QueueConfig,
    /// The number of its events so far.
    pub version: u64,
    /// The last transaction with an event of the queue.
    pub last: Option<BatchId>,
}
