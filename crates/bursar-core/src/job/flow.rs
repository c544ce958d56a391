//! Flow control: a queue's limits are limits on scopes, and a lease is the hold of them.

use serde::{Deserialize, Serialize};

use crate::job::{Job, QueueConfig};
use crate::name::{FlowKey, Queue, Scope};

/// What a job is in the line of its flow key. Of each line and kind only the first is looked at by who wants work, so
/// that a hundred thousand jobs of one key cost the others nothing. Follows from the rest, and is not in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Place {
    /// It is in no line: it has no key, or it does not wait.
    #[default]
    Out,
    /// It is the next of its line.
    First,
    /// It is the next of its line, and its key is at its limit.
    Barred,
    /// It stands behind another.
    Behind,
}

/// The scopes that a lease from a queue is charged to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowScopes {
    /// Of the queue: leases at once.
    pub slots: Scope,
    /// Of the queue: leases in a time.
    pub rate: Scope,
}

impl FlowScopes {
    /// Those of a queue as a whole.
    pub fn of_queue(queue: &Queue) -> FlowScopes {
        FlowScopes {
            slots: Scope::internal(format!("bursar:slots:{queue}")),
            rate: Scope::internal(format!("bursar:rate:{queue}")),
        }
    }

    /// Those of one flow key of a queue. A tab is in no name, so that no two share one.
    pub fn of_key(queue: &Queue, key: &FlowKey) -> FlowScopes {
        FlowScopes {
            slots: Scope::internal(format!("bursar:slots:{queue}\t{key}")),
            rate: Scope::internal(format!("bursar:rate:{queue}\t{key}")),
        }
    }
}

impl Job {
    /// The scope that keeps the line of its flow key.
    pub fn line(&self) -> Option<Scope> {
        self.key.as_ref().map(|key| FlowScopes::of_key(&self.queue, key).slots)
    }
}

impl QueueConfig {
    /// Whether a lease of a job is charged to a scope of the whole queue.
    pub fn limits_queue(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }
}
