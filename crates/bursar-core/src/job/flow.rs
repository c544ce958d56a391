//! Flow control: a queue's limits are limits on scopes, and a lease is the hold of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bounds::FLOW_KEPT;
use crate::job::{Job, JobState, QueueConfig};
use crate::name::{FlowKey, Queue, Scope};
use crate::scope::{Line, ScopeState};
use crate::state::{LineKey, ScopeKey};
use crate::time::Time;

/// What a job is in the line of its flow key. Of each line and kind only the first is looked at by who wants work, so
/// that a hundred thousand jobs of one key cost the others nothing. Follows from the rest, and is not in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Place {
    /// It is in no line: it has no key, or it does not wait.
    #[default]
    Out,
    /// It is the next of its line.
    First,
    /// It is the next of its line, and as many of its key are leased as may be at once.
    Barred,
    /// It is the next of its line, and the rate of its key admits it from then on.
    Until(Time),
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

impl ScopeState {
    /// Whether the scope of a flow key is as if nobody had ever used it: nobody waits or runs, its rate is all there again, and that
    /// for a while. Then its row may go, and the next who uses it makes it anew.
    pub fn is_unused_flow(&self, scope: &Scope, now: Time) -> bool {
        let of_key = scope.is_internal() && scope.as_str().contains('\t');
        // No event has touched it: it only kept a line.
        let rested = self.version == 0 || self.seen.after(FLOW_KEPT) <= now;
        of_key && rested && self.line == Line::default() && self.awaited == 0 && self.is_at_rest(now)
    }
}

impl Job {
    /// The scope that keeps the line of its flow key.
    pub fn line(&self) -> Option<Scope> {
        self.key.as_ref().map(|key| FlowScopes::of_key(&self.queue, key).slots)
    }

    /// The line it stands in.
    pub fn line_key(&self) -> Option<LineKey> {
        let key = self.key.clone().filter(|_| self.life.place != Place::Out)?;
        Some((self.tenant.clone(), self.queue.clone(), key, self.kind.clone()))
    }

    /// The line it stands in, if it is the first there.
    pub fn line_led(&self) -> Option<LineKey> {
        self.line_key().filter(|_| self.life.place != Place::Behind)
    }

    /// Whether who wants work can find it.
    pub fn is_ready(&self) -> bool {
        self.life.state == JobState::Queued && matches!(self.life.place, Place::Out | Place::First)
    }

    /// When it can be found, where time alone keeps it: it is scheduled, or the rate of its key is used up.
    pub fn comes_due(&self) -> Option<Time> {
        match (self.life.state, self.life.place) {
            (JobState::Scheduled, _) => Some(self.life.run_at),
            (JobState::Queued, Place::Until(at)) => Some(at),
            _ => None,
        }
    }
}

/// Gives every job that waits with a flow key its place anew: the best of each line is the first. The lines, by the scopes
/// that keep them.
pub fn line_up<'a>(jobs: impl Iterator<Item = &'a mut Job>) -> BTreeMap<ScopeKey, Line> {
    let mut waiting: Vec<&mut Job> = jobs.filter(|job| job.key.is_some()).collect();
    for job in &mut waiting {
        job.life.place = Place::Out;
    }
    waiting.retain(|job| job.life.state == JobState::Queued);
    waiting.sort_by_key(|job| (job.life.rank, job.id));
    let mut lines: BTreeMap<ScopeKey, Line> = BTreeMap::new();
    for job in waiting {
        let scope = job.line().expect("only those with a key are here");
        let line = lines.entry((job.tenant.clone(), scope)).or_default();
        job.life.place = if line.len(&job.kind) == 0 { Place::First } else { Place::Behind };
        line.add(&job.kind);
    }
    lines
}

impl QueueConfig {
    /// Whether a lease of a job is charged to a scope of the whole queue.
    pub fn limits_queue(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }
}
