//! Jobs: durable work, from its enqueueing to its end.

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
use bursar_store::{Cost, CostMark, HeldMark, HeldSum, JobFilter};
use futures_util::{StreamExt, TryStreamExt, stream};
use sqlx::PgConnection;

pub use self::act::{Acted, Count};
pub use self::attempt::{Attempt, AttemptEnd};
pub use self::finish::Failure;
pub(crate) use self::finish::one_of;
pub use self::lost::LostLease;
use crate::api::command::Receipt;
use crate::api::instance::Bursar;
use crate::api::journal::JournalEvent;
use crate::error::Error;

/// Durable work. From [`Bursar::jobs`].
#[derive(Clone, Copy)]
pub struct Jobs<'a>(pub(crate) &'a Bursar);

/// Commands of [`Jobs::enqueue_all`] that are on their way at once: enough that each lane of the engine has some to gather while
/// both commit.
const IN_FLIGHT: usize = 8;
/// Bytes of payloads in one command of [`commands_of`], unless one payload alone has more.
const BYTES: usize = 4 << 20;
/// Jobs that one call lists at most.
const LIST_MAX: usize = 1_000;

impl Jobs<'_> {
    /// Enqueues a job; one with the same key is returned instead of a second one.
    pub async fn enqueue(&self, job: JobSpec) -> Result<Enqueued, Error> {
        only(&self.0.command().job(job).submit().await?)
    }

    /// Enqueues any number of jobs, in commands of at most a thousand, a few of them at once; answers in the order of the jobs.
    /// It is not one transaction: after an error some are enqueued and some are not. With idempotency keys the whole call can
    /// be repeated.
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

    /// Enqueues a job within the caller's own PostgreSQL transaction.
    pub async fn enqueue_in(&self, conn: &mut PgConnection, job: JobSpec) -> Result<(Enqueued, Receipt), Error> {
        let receipt = self.0.command().job(job).submit_in(conn).await?;
        Ok((only(&receipt)?, receipt))
    }

    /// A job as it stands, live or finished.
    pub async fn find(&self, id: JobId) -> Result<Option<Job>, Error> {
        let found = self.0.inner.store.job(id).await?;
        Ok(found.filter(|job| job.tenant == self.0.context.tenant))
    }

    /// Jobs after an id, in the order of their ids, which is that of their enqueueing; at most `limit` (from 1 to 1,000).
    pub async fn list(&self, filter: &JobFilter, after: Option<JobId>, limit: usize) -> Result<Vec<Job>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        Ok(store.list_jobs(tenant, filter, after, limit.clamp(1, LIST_MAX)).await?)
    }

    /// What happened to a job, newest first, at most `limit` (from 1 to 1,000). Empty for a job that is not there.
    pub async fn history(&self, id: JobId, limit: usize) -> Result<Vec<JournalEvent>, Error> {
        self.0.journal().history(&Stream::Job(id), limit.clamp(1, LIST_MAX)).await
    }

    /// The last attempts of a job with what went wrong in each, the first first, as far as the last thousand events tell.
    pub async fn attempts(&self, id: JobId) -> Result<Vec<Attempt>, Error> {
        let mut events = self.history(id, LIST_MAX).await?;
        events.reverse();
        Ok(attempt::attempts(&events))
    }

    /// What jobs cost on some days (since 1970, in UTC), by day, queue, kind and scope; at most `limit` (from 1 to 1,000) after what was
    /// told last.
    pub async fn costs(
        &self,
        days: RangeInclusive<i64>,
        after: Option<&CostMark>,
        limit: usize,
    ) -> Result<Vec<Cost>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        Ok(store.list_costs(tenant, days, after, limit.clamp(1, LIST_MAX)).await?)
    }

    /// What the holds of jobs set aside now, by queue, kind and unit, of one queue or of all; at most `limit` (from 1 to 1,000) after
    /// what was told last. A job that is charged on several scopes of one unit counts with each of them.
    pub async fn held(
        &self,
        queue: Option<&Queue>,
        after: Option<&HeldMark>,
        limit: usize,
    ) -> Result<Vec<HeldSum>, Error> {
        let (store, tenant) = (&self.0.inner.store, &self.0.context.tenant);
        Ok(store.list_held(tenant, queue, after, limit.clamp(1, LIST_MAX)).await?)
    }
}

/// Jobs as they are cut into commands: a thousand at most, and 4 MiB of payloads, unless one payload alone has more. The same jobs
/// are always cut in the same places.
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

fn only(receipt: &Receipt) -> Result<Enqueued, Error> {
    receipt.done.jobs.first().copied().ok_or_else(|| Error::Internal("a job command enqueued no job".into()))
}

/// The only one of a list of answers.
fn only_answer<T, E: Into<Error>>(answers: Vec<Result<T, E>>) -> Result<T, Error> {
    let answer = answers.into_iter().next().ok_or_else(|| Error::Internal("a request was not answered".into()))?;
    answer.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use bursar_core::name::{JobKind, Queue};
    use bursar_core::payload::Payload;

    use super::*;

    #[test]
    fn jobs_are_cut_by_their_number_and_by_their_bytes() {
        let (queue, kind) = ("q".parse().expect("a queue"), "k".parse().expect("a kind"));
        let job = |bytes: usize| JobSpec::new(Queue::clone(&queue), JobKind::clone(&kind), payload(bytes));
        let cut = |jobs: Vec<JobSpec>| commands_of(jobs).map(|command| command.len()).collect::<Vec<_>>();
        assert!(cut(Vec::new()).is_empty());
        assert_eq!(cut(vec![job(2); 2_001]), [1_000, 1_000, 1]);
        assert_eq!(cut(vec![job(BYTES / 4); 9]), [4, 4, 1]);
        assert_eq!(cut([vec![job(BYTES / 4); 3], vec![job(3), job(BYTES / 4)]].concat()), [4, 1]);
    }

    fn payload(bytes: usize) -> Payload {
        Payload::of(&"x".repeat(bytes - 2)).expect("a payload")
    }

    #[test]
    fn guides_tell_how_many_commands_are_on_their_way() {
        assert_eq!(IN_FLIGHT, 8, "the guides say eight");
        let limits = include_str!("../../../../../docs/limits.md");
        assert!(limits.contains("`enqueue_all` has eight commands of at most a thousand jobs on their way"));
        assert_eq!(JOBS_MAX, 1_000, "the guide says a thousand");
        let performance = include_str!("../../../../../docs/performance.md");
        assert!(performance.contains("in commands of a thousand, eight at once"));
    }
}
