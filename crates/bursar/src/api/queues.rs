//! Queues: what is set for them, and their figures.

use std::collections::BTreeMap;

use bursar_core::job::{JobState, QueueConfig};
use bursar_core::name::Queue;
use bursar_core::refusal::Invalid;
use bursar_core::request::Op;
use bursar_core::state::Counted;
use bursar_core::time::Time;

use crate::api::instance::Bursar;
use crate::error::Error;

/// What is set for queues, and their figures. From [`Bursar::queues`].
#[derive(Clone, Copy)]
pub struct Queues<'a>(pub(crate) &'a Bursar);

/// The figures of a queue. They are kept as sums, never counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFigures {
    /// How many jobs are in each state.
    pub states: BTreeMap<JobState, i64>,
    /// Over the last so many minutes, the current one included:
    pub minutes: u32,
    /// jobs that were enqueued,
    pub enqueued: i64,
    /// jobs that succeeded,
    pub succeeded: i64,
    /// jobs that were cancelled,
    pub cancelled: i64,
    /// jobs that died,
    pub dead: i64,
    /// and attempts that failed.
    pub failed_attempts: i64,
    /// When the job was due that has waited longest for a worker. Where a thousand of its kind stand before it for their priority
    /// it may be told too early, by what that priority is worth.
    pub oldest_waiting: Option<Time>,
    /// When the lease began that has lasted longest.
    pub oldest_lease: Option<Time>,
}

impl QueueFigures {
    /// How many jobs are in a state.
    pub fn count(&self, state: JobState) -> i64 {
        self.states.get(&state).copied().unwrap_or(0)
    }
}

/// Queues that one call lists at most.
const LIST_MAX: usize = 1_000;

impl Queues<'_> {
    /// What is set for a queue; the defaults where nothing is.
    pub async fn get(&self, queue: impl TryInto<Queue, Error = Invalid>) -> Result<QueueConfig, Error> {
        let key = (self.0.context.tenant.clone(), queue.try_into()?);
        Ok(self.0.inner.store.queue(&key).await?.map(|queue| queue.config).unwrap_or_default())
    }

    /// Sets up or changes a queue, as a whole.
    pub async fn define(&self, queue: impl TryInto<Queue, Error = Invalid>, config: QueueConfig) -> Result<(), Error> {
        self.0.execute(Op::DefineQueue { queue: queue.try_into()?, config }).await.map(drop)
    }

    /// Nothing more is leased from a queue. Workers that have jobs of it are told to take no more.
    pub async fn pause(&self, queue: impl TryInto<Queue, Error = Invalid>) -> Result<(), Error> {
        self.0.execute(Op::PauseQueue { queue: queue.try_into()?, paused: true }).await.map(drop)
    }

    /// Jobs are leased from a queue again.
    pub async fn resume(&self, queue: impl TryInto<Queue, Error = Invalid>) -> Result<(), Error> {
        self.0.execute(Op::PauseQueue { queue: queue.try_into()?, paused: false }).await.map(drop)
    }

    /// Queues after a name, by name: those that something is set for and those that jobs were enqueued in; at most `limit`
    /// (from 1 to 1,000).
    pub async fn list(&self, after: Option<&Queue>, limit: usize) -> Result<Vec<(Queue, QueueConfig)>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        let queues = store.list_queues(tenant, after, limit.clamp(1, LIST_MAX)).await?;
        Ok(queues.into_iter().map(|(name, queue)| (name, queue.config)).collect())
    }

    /// The figures of a queue: what is there now, and what happened in the last minutes, which are kept for a week.
    pub async fn figures(
        &self,
        queue: impl TryInto<Queue, Error = Invalid>,
        minutes: u32,
    ) -> Result<QueueFigures, Error> {
        let key = (self.0.context.tenant.clone(), queue.try_into()?);
        let minutes = minutes.max(1);
        let now = self.0.now().await?.micros().div_euclid(60_000_000);
        let found = self.0.inner.store.figures(&key, now - i64::from(minutes) + 1).await?;
        let mut figures = QueueFigures {
            minutes,
            oldest_waiting: found.oldest_waiting,
            oldest_lease: found.oldest_lease,
            ..QueueFigures::default()
        };
        for (what, count) in found.counts {
            match what {
                Counted::In(state) => *figures.states.entry(state).or_insert(0) += count,
                Counted::Enqueued(_) => figures.enqueued += count,
                Counted::Ended(JobState::Succeeded, _) => figures.succeeded += count,
                Counted::Ended(JobState::Cancelled, _) => figures.cancelled += count,
                Counted::Ended(_, _) => figures.dead += count,
                Counted::Failed(_) => figures.failed_attempts += count,
            }
        }
        Ok(figures)
    }
}
