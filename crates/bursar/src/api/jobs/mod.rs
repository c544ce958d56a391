//! Jobs: enqueueing, listing, history and costs here; leases, ends and bulk actions in the submodules.

mod act;
mod attempt;
mod finish;
mod lease;
mod lost;

use std::ops::RangeInclusive;

use bursar_core::answer::Enqueued;
use bursar_core::bounds::JOBS_MAX;
use bursar_core::event::Stream;
use bursar_core::id::JobId;
use bursar_core::job::{Job, JobSpec};
use bursar_core::name::Queue;
use bursar_store::{Cost, CostMark, DeadGroup, DeadGroupMark, HeldMark, HeldSum, JobFilter};
use futures_util::{StreamExt, TryStreamExt, stream};
use sqlx::PgConnection;

pub use self::act::{Acted, JobCount};
pub use self::attempt::{Attempt, AttemptEnd};
pub use self::finish::Failure;
pub(crate) use self::finish::finished_in_transaction;
pub use self::lost::LostLease;
use crate::api::command::Receipt;
use crate::api::instance::Bursar;
use crate::api::journal::JournalEvent;
use crate::error::Error;

/// Durable jobs of one tenant. From [`Bursar::jobs`].
#[derive(Clone, Copy)]
pub struct Jobs<'a>(pub(crate) &'a Bursar);

/// The commands of [`Jobs::enqueue_all`] that are in flight at once. Enough that the engine always has a batch to collect
/// while its committers are busy.
const IN_FLIGHT: usize = 8;
/// The most bytes of payloads in one command of [`commands_of`], unless a single payload is larger.
const BYTES: usize = 4 << 20;
/// The most items that one call lists.
const LIST_MAX: usize = 1_000;

impl Jobs<'_> {
    /// Enqueues a job. If a job with the same idempotency key exists, it is returned instead, with
    /// [`Enqueued::created`] false.
    pub async fn enqueue(&self, job: JobSpec) -> Result<Enqueued, Error> {
        only_job(&self.0.command().job(job).submit().await?)
    }

    /// Enqueues any number of jobs, in commands of at most a thousand, up to eight of them at once. Returns one answer for
    /// each job, in order. This is not one transaction: after an error, some jobs are enqueued and others are not. If the
    /// jobs have idempotency keys, the whole call can be retried.
    pub async fn enqueue_all<I>(&self, jobs: I) -> Result<Vec<Enqueued>, Error>
    where
        I: IntoIterator<Item = JobSpec>,
    {
        let submit = |jobs: Vec<JobSpec>| {
            let command = jobs.into_iter().fold(self.0.command(), |command, job| command.job(job));
            async move { Ok::<_, Error>(command.submit().await?.done.jobs) }
        };
        let enqueued = stream::iter(commands_of(jobs)).map(submit).buffered(IN_FLIGHT);
        enqueued
            .try_fold(Vec::new(), async |mut all, some| {
                all.extend(some);
                Ok(all)
            })
            .await
    }

    /// Enqueues a job in the caller's own PostgreSQL transaction (READ COMMITTED). The caller commits it and then passes
    /// the receipt to [`Bursar::announce`].
    pub async fn enqueue_in(&self, conn: &mut PgConnection, job: JobSpec) -> Result<(Enqueued, Receipt), Error> {
        let receipt = self.0.command().job(job).submit_in(conn).await?;
        Ok((only_job(&receipt)?, receipt))
    }

    /// Returns a job of this tenant, live or finished.
    pub async fn find(&self, id: JobId) -> Result<Option<Job>, Error> {
        Ok(self.0.inner.store.job(&self.0.context.tenant, id).await?)
    }

    /// Lists the jobs that match a filter, after an id, at most `limit` (from 1 to 1,000). Ids are in the order of
    /// enqueueing.
    pub async fn list(&self, filter: &JobFilter, after: Option<JobId>, limit: usize) -> Result<Vec<Job>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        Ok(store.list_jobs(tenant, filter, after, limit.clamp(1, LIST_MAX)).await?)
    }

    /// Returns the events of a job, newest first, at most `limit` (from 1 to 1,000). Empty if this tenant has no such job.
    pub async fn history(&self, id: JobId, limit: usize) -> Result<Vec<JournalEvent>, Error> {
        self.0.journal().history(&Stream::Job(id), limit.clamp(1, LIST_MAX)).await
    }

    /// Returns the attempts of a job with the error of each, oldest first. Only the last thousand events are read.
    pub async fn attempts(&self, id: JobId) -> Result<Vec<Attempt>, Error> {
        let mut events = self.history(id, LIST_MAX).await?;
        events.reverse();
        Ok(attempt::from_events(&events))
    }

    /// Lists what jobs cost on some days, by day, queue, kind and scope, at most `limit` (from 1 to 1,000). Days are
    /// numbered from 1970-01-01 in UTC. For the next page, pass the mark of the last item as `after`.
    pub async fn costs(
        &self,
        days: RangeInclusive<i64>,
        after: Option<&CostMark>,
        limit: usize,
    ) -> Result<Vec<Cost>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        Ok(store.list_costs(tenant, days, after, limit.clamp(1, LIST_MAX)).await?)
    }

    /// Lists the units that the holds of jobs set aside now, by queue, kind and unit, for one queue or all, at most `limit`
    /// (from 1 to 1,000). A hold on several scopes of one unit counts once for each. For the next page, pass the mark of
    /// the last item as `after`.
    pub async fn held(
        &self,
        queue: Option<&Queue>,
        after: Option<&HeldMark>,
        limit: usize,
    ) -> Result<Vec<HeldSum>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        Ok(store.list_held(tenant, queue, after, limit.clamp(1, LIST_MAX)).await?)
    }

    /// Lists the dead jobs grouped by queue, kind and error, for one queue or all, at most `limit` groups (from 1 to 1,000).
    /// Errors of a kind whose messages have the same words have the same fingerprint. A [`JobFilter`] with the queue, kind
    /// and fingerprint of a group selects its jobs. For the next page, pass the mark of the last group as `after`;
    /// [`page::is_full`](bursar_core::page::is_full) tells whether there may be one.
    pub async fn dead_groups(
        &self,
        queue: Option<&Queue>,
        after: Option<&DeadGroupMark>,
        limit: usize,
    ) -> Result<Vec<DeadGroup>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        Ok(store.list_dead_groups(tenant, queue, after, limit.clamp(1, LIST_MAX)).await?)
    }
}

/// Splits jobs into commands of at most a thousand jobs and 4 MiB of payloads, unless a single payload is larger. The same
/// jobs are always split at the same places.
pub fn commands_of<I>(jobs: I) -> impl Iterator<Item = Vec<JobSpec>>
where
    I: IntoIterator<Item = JobSpec>,
{
    let mut jobs = jobs.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut command: Vec<JobSpec> = Vec::new();
        let mut bytes = 0;
        while command.len() < JOBS_MAX
            && let Some(job) = jobs.next_if(|job| command.is_empty() || bytes + job.payload.as_str().len() <= BYTES)
        {
            bytes += job.payload.as_str().len();
            command.push(job);
        }
        (!command.is_empty()).then_some(command)
    })
}

fn only_job(receipt: &Receipt) -> Result<Enqueued, Error> {
    receipt.done.jobs.first().copied().ok_or_else(|| Error::Internal("a job command enqueued no job".into()))
}

/// Returns the answer to a request with one item.
fn only_answer<T, E: Into<Error>>(answers: Vec<Result<T, E>>) -> Result<T, Error> {
    let answer = answers
        .into_iter()
        .next()
        .ok_or_else(|| Error::Internal("a request with one item returned no answer".into()))?;
    answer.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use bursar_core::name::{JobKind, Queue};
    use bursar_core::payload::Payload;

    use super::*;

    #[test]
    fn jobs_are_split_by_number_and_by_bytes() {
        let (queue, kind) = ("q".parse().expect("a queue"), "k".parse().expect("a kind"));
        let job = |bytes: usize| JobSpec::new(Queue::clone(&queue), JobKind::clone(&kind), payload(bytes));
        let sizes = |jobs: Vec<JobSpec>| commands_of(jobs).map(|command| command.len()).collect::<Vec<_>>();
        assert!(sizes(Vec::new()).is_empty());
        assert_eq!(sizes(vec![job(2); 2_001]), [1_000, 1_000, 1]);
        assert_eq!(sizes(vec![job(BYTES / 4); 9]), [4, 4, 1]);
        assert_eq!(sizes([vec![job(BYTES / 4); 3], vec![job(3), job(BYTES / 4)]].concat()), [4, 1]);
    }

    fn payload(bytes: usize) -> Payload {
        Payload::of(&"x".repeat(bytes - 2)).expect("a payload")
    }

    #[test]
    fn guides_state_how_many_commands_are_in_flight() {
        assert_eq!(IN_FLIGHT, 8, "the guides say eight");
        let limits = include_str!("../../../../../docs/limits.md");
        assert!(limits.contains("`enqueue_all` has eight commands of at most a thousand jobs on their way"));
        assert_eq!(JOBS_MAX, 1_000, "the guide says a thousand");
        let performance = include_str!("../../../../../docs/performance.md");
        assert!(performance.contains("in commands of a thousand, eight at once"));
    }
}
