//! The load of the queues of all tenants, for the metrics of a process.

use std::collections::{BTreeMap, BTreeSet};

use bursar_core::job::JobState;
use bursar_core::name::Queue;
use bursar_core::state::{Counted, QueueKey};
use bursar_core::time::{Span, Time};
use bursar_store::Figures;

use crate::api::instance::Bursar;
use crate::api::queues::first_minute;
use crate::error::Error;

/// The most queues whose ages and failures are read at once.
const FIGURES_MAX: usize = 1_000;
/// The minutes over which failures are counted.
const MINUTES: u32 = 60;

/// The load of queues. Each value is of all tenants that have a queue of the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueLoad {
    /// The number of jobs in each state. A state without jobs may be missing.
    pub states: BTreeMap<JobState, i64>,
    /// Attempts that failed in the last 60 minutes, including the current one.
    pub failed_attempts: i64,
    /// For how long the job that has waited longest has been due, as in [`QueueFigures`](crate::QueueFigures); `None` if none waits.
    pub oldest_waiting: Option<Span>,
    /// The age of the oldest current lease.
    pub oldest_lease: Option<Span>,
}

/// The load of the queues of all tenants. From [`Bursar::all_queues`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllQueues {
    /// The number of jobs in each state, over all queues.
    pub states: BTreeMap<JobState, i64>,
    /// The queues that have an entry of their own, in the order of their names.
    pub named: Vec<(Queue, QueueLoad)>,
    /// All other queues together.
    pub others: QueueLoad,
    /// The number of queues; those of different tenants count separately. At most 10,000 are counted.
    pub count: usize,
    /// The number of these whose ages and failures were not read. They are missing in `others`.
    pub without_figures: usize,
}

impl Bursar {
    /// Returns the load of the queues of all tenants. The first `named` names in order have an entry each, the others share one.
    ///
    /// No job is counted: every commit updates the sums. The ages and failures of the first 1,000 queues are read.
    pub async fn all_queues(&self, named: usize) -> Result<AllQueues, Error> {
        let counts = self.inner.store.queue_counts().await?;
        let names: BTreeSet<&Queue> = counts.iter().map(|((_, queue), ..)| queue).collect();
        let names: Vec<Queue> = names.into_iter().take(named).cloned().collect();
        let is_named = |queue: &Queue| names.binary_search(queue).is_ok();
        let mut keys: Vec<QueueKey> = counts.iter().map(|(key, ..)| key.clone()).collect();
        keys.dedup();
        // Those with an entry of their own come first, so that the others lose their figures if there are too many.
        keys.sort_by_key(|(_, queue)| !is_named(queue));
        let mut loads = AllQueues { count: keys.len(), ..AllQueues::default() };
        loads.without_figures = keys.len().saturating_sub(FIGURES_MAX);
        keys.truncate(FIGURES_MAX);
        let now = self.now().await?;
        let figures = self.inner.store.figures(&keys, first_minute(now, MINUTES)).await?;
        loads.named = names.iter().map(|name| (name.clone(), QueueLoad::default())).collect();
        for ((_, queue), state, count) in &counts {
            *loads.states.entry(*state).or_default() += count;
            *loads.of(queue).states.entry(*state).or_default() += count;
        }
        for ((_, queue), figures) in keys.iter().zip(figures) {
            loads.of(queue).add(&figures, now);
        }
        Ok(loads)
    }
}

impl AllQueues {
    fn of(&mut self, queue: &Queue) -> &mut QueueLoad {
        match self.named.binary_search_by(|(name, _)| name.cmp(queue)) {
            Ok(place) => &mut self.named[place].1,
            Err(_) => &mut self.others,
        }
    }
}

impl QueueLoad {
    fn add(&mut self, figures: &Figures, now: Time) {
        let failed = |(counted, count): &(Counted, i64)| matches!(counted, Counted::Failed(_)).then_some(*count);
        self.failed_attempts += figures.counts.iter().filter_map(failed).sum::<i64>();
        let age = |since: Option<Time>| since.map(|since| now.since(since));
        self.oldest_waiting = self.oldest_waiting.max(age(figures.oldest_waiting));
        self.oldest_lease = self.oldest_lease.max(age(figures.oldest_lease));
    }
}
