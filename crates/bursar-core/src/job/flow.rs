//! Flow control: the concurrency and rate limits of a queue, as limits on internal scopes.
//!
//! # Slots and rates
//!
//! A queue with limits has scopes of its own, `bursar:slots:QUEUE` and `bursar:rate:QUEUE`, and the same for each flow
//! key. Callers cannot name them. A lease is a hold of one unit on the slot scope: its `held` grows with the lease and
//! shrinks with its end. A rate is a token bucket. A queue without limits touches no scope.
//!
//! # Lines
//!
//! The waiting jobs of one flow key and kind form a *line*, in order of rank. Workers can find only the head of a line
//! ([`Place::First`]), so many waiting jobs of one key do not slow down the search for others. While the key is at its
//! concurrency limit the head is barred; while its rate is used up the head waits until an instant. When the head
//! leaves, the next job becomes the head and ranks behind the jobs that are ready already: keys take turns
//! (round-robin).
//!
//! The slot scope of the key is the lock of its lines. A transaction that finds, under this lock, that the jobs it read
//! have changed is decided again. Positions and lines follow from the jobs and are not in the journal; a rebuild
//! computes them with [`compute_lines`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::{Job, JobState, QueueConfig};
use crate::name::{FlowKey, Queue, Scope};
use crate::scope::Line;
use crate::state::{LineKey, ScopeKey};
use crate::time::Time;

/// The position of a job in the line of its flow key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Place {
    /// In no line: the job has no flow key, or is not waiting.
    #[default]
    Out,
    /// The head of its line.
    First,
    /// The head of its line, while the key is at its concurrency limit.
    Barred,
    /// The head of its line, which the rate of its key admits from this instant on.
    Until(Time),
    /// Behind the head of its line.
    Behind,
}

/// The scopes that a lease from a queue is charged to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowScopes {
    /// The scope that limits concurrent leases.
    pub slots: Scope,
    /// The scope that limits leases per time.
    pub rate: Scope,
}

impl FlowScopes {
    /// Returns the scopes of a queue as a whole.
    pub fn of_queue(queue: &Queue) -> FlowScopes {
        FlowScopes {
            slots: Scope::internal(format!("bursar:slots:{queue}")),
            rate: Scope::internal(format!("bursar:rate:{queue}")),
        }
    }

    /// Returns the scopes of one flow key of a queue. A tab, which no name contains, separates the two names.
    pub fn of_key(queue: &Queue, key: &FlowKey) -> FlowScopes {
        FlowScopes {
            slots: Scope::internal(format!("bursar:slots:{queue}\t{key}")),
            rate: Scope::internal(format!("bursar:rate:{queue}\t{key}")),
        }
    }
}

impl Job {
    /// Returns the slot scope of its flow key, whose row keeps the line.
    pub fn line(&self) -> Option<Scope> {
        self.key.as_ref().map(|key| FlowScopes::of_key(&self.queue, key).slots)
    }

    /// Returns the line that it waits in.
    pub fn line_key(&self) -> Option<LineKey> {
        let key = self.key.clone().filter(|_| self.life.place != Place::Out)?;
        Some((self.tenant.clone(), self.queue.clone(), key, self.kind.clone()))
    }

    /// Returns the line that it is the head of.
    pub fn headed_line(&self) -> Option<LineKey> {
        self.line_key().filter(|_| self.life.place != Place::Behind)
    }

    /// Returns whether workers can lease it.
    pub fn is_ready(&self) -> bool {
        self.life.state == JobState::Queued && matches!(self.life.place, Place::Out | Place::First)
    }

    /// Returns when it becomes ready, if it waits only for time: it is scheduled, or the rate of its key is used up.
    pub fn comes_due(&self) -> Option<Time> {
        match (self.life.state, self.life.place) {
            (JobState::Scheduled, _) => Some(self.life.run_at),
            (JobState::Queued, Place::Until(at)) => Some(at),
            _ => None,
        }
    }
}

/// Computes the positions of all waiting jobs with a flow key, and returns the lines by their slot scopes.
pub fn compute_lines<'a>(jobs: impl Iterator<Item = &'a mut Job>) -> BTreeMap<ScopeKey, Line> {
    let mut waiting: Vec<&mut Job> = jobs.filter(|job| job.key.is_some()).collect();
    for job in &mut waiting {
        job.life.place = Place::Out;
    }
    waiting.retain(|job| job.life.state == JobState::Queued);
    waiting.sort_by_key(|job| (job.life.rank, job.id));
    let mut lines: BTreeMap<ScopeKey, Line> = BTreeMap::new();
    for job in waiting {
        let scope = job.line().expect("all these jobs have a flow key");
        let line = lines.entry((job.tenant.clone(), scope)).or_default();
        job.life.place = if line.len(&job.kind) == 0 { Place::First } else { Place::Behind };
        line.add(&job.kind);
    }
    lines
}

impl QueueConfig {
    /// Returns whether leases are charged to a scope of the whole queue.
    pub fn limits_queue(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }
}
