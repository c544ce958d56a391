//! Queues: their settings and figures.

use std::collections::BTreeMap;

use bursar_core::job::{JobState, QueueConfig};
use bursar_core::name::Queue;
use bursar_core::refusal::Invalid;
use bursar_core::request::Op;
use bursar_core::state::Counted;
use bursar_core::time::Time;

use crate::api::instance::Bursar;
use crate::error::Error;

/// The settings and figures of queues. From [`Bursar::queues`].
#[derive(Clone, Copy)]
pub struct Queues<'a>(pub(crate) &'a Bursar);

/// The figures of a queue. Every commit updates the sums, so reading them counts no jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFigures {
    /// The number of jobs in each state.
    pub states: BTreeMap<JobState, i64>,
    /// The number of minutes that the following figures cover, including the current one.
    pub minutes: u32,
    /// Jobs enqueued in these minutes.
    pub enqueued: i64,
    /// Jobs that succeeded in these minutes.
    pub succeeded: i64,
    /// Jobs cancelled in these minutes.
    pub cancelled: i64,
    /// Jobs that became dead in these minutes.
    pub dead: i64,
    /// Attempts that failed in these minutes.
    pub failed_attempts: i64,
    /// When the job that has waited longest for a worker became due. If a thousand jobs of its kind are ahead of it
    /// because of their priority, this may be too early, by at most the waiting time that equals their priority.
    pub oldest_waiting: Option<Time>,
    /// When the oldest current lease started.
    pub oldest_lease: Option<Time>,
}

impl QueueFigures {
    /// Returns the number of jobs in a state.
    pub fn count(&self, state: JobState) -> i64 {
        self.states.get(&state).copied().unwrap_or(0)
    }
}

/// The most queues that one call lists.
const LIST_MAX: usize = 1_000;

impl Queues<'_> {
    /// Returns the settings of a queue; the defaults if none were defined.
    pub async fn get(&self, queue: impl TryInto<Queue, Error = Invalid>) -> Result<QueueConfig, Error> {
        let key = (self.0.context.tenant.clone(), queue.try_into()?);
        Ok(self.0.inner.store.queue(&key).await?.map(|queue| queue.config).unwrap_or_default())
    }

    /// Defines the settings of a queue. Replaces all earlier ones.
    pub async fn define(&self, queue: impl TryInto<Queue, Error = Invalid>, config: QueueConfig) -> Result<(), Error> {
        self.0.execute(Op::DefineQueue { queue: queue.try_into()?, config }).await.map(drop)
    }

    /// Pauses a queue: no job of it is leased until it is resumed. Heartbeats of workers that have jobs of it tell them to
    /// lease no more.
    pub async fn pause(&self, queue: impl TryInto<Queue, Error = Invalid>) -> Result<(), Error> {
        self.0.execute(Op::PauseQueue { queue: queue.try_into()?, paused: true }).await.map(drop)
    }

    /// Resumes a queue.
    pub async fn resume(&self, queue: impl TryInto<Queue, Error = Invalid>) -> Result<(), Error> {
        self.0.execute(Op::PauseQueue { queue: queue.try_into()?, paused: false }).await.map(drop)
    }

    /// Lists the queues after a name, in the order of names, at most `limit` (from 1 to 1,000). These are the queues with
    /// settings and those that a job was ever enqueued in.
    pub async fn list(&self, after: Option<&Queue>, limit: usize) -> Result<Vec<(Queue, QueueConfig)>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        let queues = store.list_queues(tenant, after, limit.clamp(1, LIST_MAX)).await?;
        Ok(queues.into_iter().map(|(name, queue)| (name, queue.config)).collect())
    }

    /// Returns the figures of a queue: its jobs now, and what happened in the last `minutes`, which are kept for seven
    /// days.
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
        for (counted, count) in found.counts {
            match counted {
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
