//! Actions of operators on one job, several jobs, or all jobs that match a filter.

use std::time::Duration;

use bursar_core::answer::{Answer, Finished, Outcome};
use bursar_core::bounds::ITEMS_MAX;
use bursar_core::id::JobId;
use bursar_core::name::{IdempotencyKey, Queue};
use bursar_core::page::is_full;
use bursar_core::refusal::{Invalid, Refusal};
use bursar_core::request::{Act, Fingerprint, Op, Part, Request};
use bursar_store::JobFilter;

use super::lease::unexpected;
use super::{Jobs, only_answer};
use crate::error::Error;

/// The result of an action on one page of matching jobs.
#[derive(Clone, Debug, Default)]
pub struct Acted {
    /// For each job its new state, or why it is unchanged.
    pub answers: Vec<(JobId, Result<Finished, Error>)>,
    /// The id to pass as `after` for the next page; `None` at the end.
    pub next: Option<JobId>,
    /// Whether this is the stored answer to an earlier call with the same key.
    pub replayed: bool,
}

impl Acted {
    /// Returns the number of jobs that the action succeeded for.
    pub fn done(&self) -> usize {
        self.answers.iter().filter(|(_, answer)| answer.is_ok()).count()
    }
}

/// A number of matching jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobCount {
    /// The jobs found, at most the number requested.
    pub found: usize,
    /// Whether more jobs match than `found`.
    pub more: bool,
}

/// The most jobs that are listed at once to count them or to act on them.
const PAGE: usize = 500;

impl Jobs<'_> {
    /// Cancels a job that has not ended, and releases its hold. A running job is only marked: its worker learns it with the
    /// next heartbeat. The job ends as cancelled when the lease expires, or when the worker ends it other than by
    /// completing the job.
    pub async fn cancel(&self, id: JobId) -> Result<Finished, Error> {
        self.act_on_one(Act::Cancel, id).await
    }

    /// Retries a job. A dead or cancelled job starts again at its first attempt; a job that waits for its next attempt runs
    /// at once. Refused if the job is running or has succeeded.
    pub async fn retry(&self, id: JobId) -> Result<Finished, Error> {
        self.act_on_one(Act::Retry, id).await
    }

    /// Discards a dead job, which ends as cancelled. Refused if the job is not dead.
    pub async fn discard(&self, id: JobId) -> Result<Finished, Error> {
        self.act_on_one(Act::Discard, id).await
    }

    /// Erases the payload, the result, the checkpoint and the last progress report of a job that has ended, for privacy, also in
    /// the journal. From then on they read as `{"$bursar":"payload erased"}` or are absent, and the job cannot be retried. Refused if
    /// the job has not ended. If the call fails, call it again: it goes on where it was. Its tags, metadata and errors stay.
    pub async fn erase(&self, id: JobId) -> Result<Finished, Error> {
        self.act_on_one(Act::Erase, id).await
    }

    /// Moves a job to another queue. A dead job is also retried. Refused if the job is running, succeeded or was
    /// cancelled.
    pub async fn move_to<Q>(&self, id: JobId, queue: Q) -> Result<Finished, Error>
    where
        Q: TryInto<Queue, Error = Invalid>,
    {
        self.act_on_one(Act::Move { queue: queue.try_into()? }, id).await
    }

    /// Changes the priority of a waiting job, or sets it to run after `delay` from now. `None` leaves a value unchanged.
    /// Refused if the job is not queued or scheduled.
    pub async fn edit(&self, id: JobId, priority: Option<i16>, delay: Option<Duration>) -> Result<Finished, Error> {
        self.act_on_one(Act::Edit { priority, delay: delay.map(Into::into) }, id).await
    }

    /// Applies an action to jobs, at most a thousand in one transaction. Returns one answer for each, in order. An error of
    /// one job does not affect the others.
    pub async fn act(&self, act: Act, jobs: &[JobId]) -> Result<Vec<Result<Finished, Error>>, Error> {
        let mut answers = Vec::with_capacity(jobs.len());
        for jobs in jobs.chunks(ITEMS_MAX) {
            match self.0.execute(Op::Act { act: act.clone(), jobs: jobs.to_vec() }).await? {
                Answer::Acted { each, .. } => {
                    answers.extend(each.into_iter().map(|answer| answer.map_err(Error::from)));
                }
                other => return Err(unexpected(&other)),
            }
        }
        Ok(answers)
    }

    /// Applies an action to one page of the jobs that match a filter, after an id. Call it again with [`Acted::next`] as
    /// `after`, until that is `None`.
    pub async fn act_on_page(&self, act: Act, filter: &JobFilter, after: Option<JobId>) -> Result<Acted, Error> {
        let found = self.list(filter, after, PAGE).await?;
        let next = found.last().filter(|_| is_full(&found, PAGE)).map(|job| job.id);
        let jobs: Vec<JobId> = found.into_iter().map(|job| job.id).collect();
        let answers = self.act(act, &jobs).await?;
        Ok(Acted { answers: jobs.into_iter().zip(answers).collect(), next, replayed: false })
    }

    /// Applies an action to one page of matching jobs, once. All pages of one bulk action share the idempotency key and the
    /// fingerprint of the whole action; `number` is the page. A retry returns the first answer for that page, whichever
    /// jobs match by then.
    pub async fn act_on_page_once(
        &self,
        act: Act,
        filter: &JobFilter,
        after: Option<JobId>,
        (key, number, whole): (IdempotencyKey, u32, Fingerprint),
    ) -> Result<Acted, Error> {
        let found = self.list(filter, after, PAGE + 1).await?;
        // Whether more pages follow is stored with the answer: jobs enqueued later are not part of the action.
        let more = is_full(&found, PAGE + 1);
        let jobs: Vec<JobId> = found.into_iter().take(PAGE).map(|job| job.id).collect();
        let part = Some(Part { number, whole, more });
        let request = Request::from(Op::Act { act, jobs }).with_key(key).in_context(self.0.context.clone());
        let Outcome { answer, replayed, .. } = self.0.request(Request { part, ..request }).await?;
        let Answer::Acted { each, more } = answer else { return Err(unexpected(&answer)) };
        // A replayed answer names the jobs of the first call; the next page continues after those.
        let answers = each.into_iter().map(|answer| Ok((job_of(&answer)?, answer.map_err(Error::from))));
        let answers = answers.collect::<Result<Vec<_>, Error>>()?;
        let next = answers.last().filter(|_| more).map(|(job, _)| *job);
        Ok(Acted { answers, next, replayed })
    }

    /// Counts the jobs that match a filter, up to `limit`.
    pub async fn count(&self, filter: &JobFilter, limit: usize) -> Result<JobCount, Error> {
        let (mut found, mut after) = (0, None);
        loop {
            let page = self.list(filter, after, PAGE).await?;
            found += page.len();
            if found > limit {
                return Ok(JobCount { found: limit, more: true });
            }
            if !is_full(&page, PAGE) {
                return Ok(JobCount { found, more: false });
            }
            after = page.last().map(|job| job.id);
        }
    }

    async fn act_on_one(&self, act: Act, id: JobId) -> Result<Finished, Error> {
        only_answer(self.act(act, &[id]).await?)
    }
}

/// Returns the job that an answer is about.
fn job_of(answer: &Result<Finished, Refusal>) -> Result<JobId, Error> {
    match answer {
        Ok(done) => Ok(done.job),
        Err(Refusal::UnknownJob { job } | Refusal::WrongState { job, .. }) => Ok(*job),
        Err(other) => Err(other.clone().into()),
    }
}
