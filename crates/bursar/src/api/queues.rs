//! Queues: their settings and figures.

use std::collections::BTreeMap;

use bursar_core::job::{JobState, QueueConfig};
use bursar_core::name::{Name, Queue};
use bursar_core::refusal::Invalid;
use bursar_core::request::Op;
use bursar_core::state::Counted;
use bursar_core::time::Time;
use bursar_store::Figures;

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
    /// The first minute since 1970 that the figures cover.
    first_minute: i64,
    /// The counts by minute that are not zero.
    by_minute: Vec<(Counted, i64)>,
}

/// What happened in a queue, minute by minute. All lists have the same length. From [`QueueFigures::series`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSeries {
    /// When the first minute began. The last one is the current minute.
    pub from: Time,
    /// Jobs enqueued in each minute.
    pub enqueued: Vec<i64>,
    /// Jobs that succeeded in each minute.
    pub succeeded: Vec<i64>,
    /// Jobs cancelled in each minute.
    pub cancelled: Vec<i64>,
    /// Jobs that became dead in each minute.
    pub dead: Vec<i64>,
    /// Attempts that failed in each minute.
    pub failed_attempts: Vec<i64>,
}

/// The microseconds of a minute.
const MINUTE: i64 = 60_000_000;

/// Returns the first of the last `minutes`, the current one included.
pub(crate) fn first_minute(now: Time, minutes: u32) -> i64 {
    now.micros().div_euclid(MINUTE) - i64::from(minutes) + 1
}

impl QueueFigures {
    fn new(found: Figures, first_minute: i64, minutes: u32) -> QueueFigures {
        let (by_minute, now): (Vec<_>, Vec<_>) =
            found.counts.into_iter().partition(|(counted, _)| counted.minute().is_some());
        let mut figures = QueueFigures {
            minutes,
            oldest_waiting: found.oldest_waiting,
            oldest_lease: found.oldest_lease,
            first_minute,
            ..QueueFigures::default()
        };
        for (counted, count) in now.iter().chain(&by_minute) {
            *match *counted {
                Counted::In(state) => figures.states.entry(state).or_insert(0),
                Counted::Enqueued(_) => &mut figures.enqueued,
                Counted::Ended(JobState::Succeeded, _) => &mut figures.succeeded,
                Counted::Ended(JobState::Cancelled, _) => &mut figures.cancelled,
                Counted::Ended(_, _) => &mut figures.dead,
                Counted::Failed(_) => &mut figures.failed_attempts,
            } += count;
        }
        QueueFigures { by_minute, ..figures }
    }

    /// Returns the counts of each minute, oldest first, with zeros for minutes in which nothing happened.
    pub fn series(&self) -> QueueSeries {
        let zeros = vec![0; self.minutes as usize];
        let mut series = QueueSeries {
            from: Time::from_micros(self.first_minute.saturating_mul(MINUTE)),
            enqueued: zeros.clone(),
            succeeded: zeros.clone(),
            cancelled: zeros.clone(),
            dead: zeros.clone(),
            failed_attempts: zeros,
        };
        for (counted, count) in &self.by_minute {
            let counts = match counted {
                Counted::In(_) => continue,
                Counted::Enqueued(_) => &mut series.enqueued,
                Counted::Ended(JobState::Succeeded, _) => &mut series.succeeded,
                Counted::Ended(JobState::Cancelled, _) => &mut series.cancelled,
                Counted::Ended(_, _) => &mut series.dead,
                Counted::Failed(_) => &mut series.failed_attempts,
            };
            // A minute may have begun since the period was chosen.
            let place = counted.minute().map_or(0, |minute| minute - self.first_minute);
            let place = usize::try_from(place).unwrap_or(0).min(counts.len().saturating_sub(1));
            if let Some(sum) = counts.get_mut(place) {
                *sum += count;
            }
        }
        series
    }

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

    /// Returns the settings of a queue; `None` if it does not exist: it has no settings, and no job was ever enqueued in it.
    pub async fn find(&self, queue: impl TryInto<Queue, Error = Invalid>) -> Result<Option<QueueConfig>, Error> {
        let queue = queue.try_into()?;
        let key = (self.0.context.tenant.clone(), queue.clone());
        if let Some(defined) = self.0.inner.store.queue(&key).await? {
            return Ok(Some(defined.config));
        }
        // The name without its last character comes before it in the list, and few names are in between.
        let name = queue.as_str();
        let last = name.char_indices().next_back().map_or(0, |(last, _)| last);
        let mut after = Queue::stored(&name[..last]).ok();
        loop {
            let listed = self.list(after.as_ref(), LIST_MAX).await?;
            if listed.iter().any(|(listed, _)| *listed == queue) {
                return Ok(Some(QueueConfig::default()));
            }
            match listed.last() {
                Some((last, _)) if listed.len() == LIST_MAX && *last < queue => after = Some(last.clone()),
                _ => return Ok(None),
            }
        }
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

    /// Lists the queues as [`Queues::list`] does, with their figures, in as many reads as for one queue.
    pub async fn list_with_figures(
        &self,
        after: Option<&Queue>,
        limit: usize,
        minutes: u32,
    ) -> Result<Vec<(Queue, QueueConfig, QueueFigures)>, Error> {
        let listed = self.list(after, limit).await?;
        let (names, configs): (Vec<Queue>, Vec<QueueConfig>) = listed.into_iter().unzip();
        let figures = self.figures_of(&names, minutes).await?;
        Ok(names
            .into_iter()
            .zip(configs)
            .zip(figures)
            .map(|((name, config), figures)| (name, config, figures))
            .collect())
    }

    /// Returns the figures of a queue: its jobs now, and what happened in the last `minutes`, which are kept for seven
    /// days.
    pub async fn figures(
        &self,
        queue: impl TryInto<Queue, Error = Invalid>,
        minutes: u32,
    ) -> Result<QueueFigures, Error> {
        let figures = self.figures_of(&[queue.try_into()?], minutes).await?.pop();
        figures.ok_or_else(|| Error::Internal("a queue has no figures".into()))
    }

    async fn figures_of(&self, queues: &[Queue], minutes: u32) -> Result<Vec<QueueFigures>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        let minutes = minutes.max(1);
        let first_minute = first_minute(self.0.now().await?, minutes);
        let keys: Vec<_> = queues.iter().map(|queue| (tenant.clone(), queue.clone())).collect();
        let found = store.figures(&keys, first_minute).await?;
        Ok(found.into_iter().map(|found| QueueFigures::new(found, first_minute, minutes)).collect())
    }
}
