//! What operators do to jobs: one, some, or all that match.

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

/// What a page of an act on all jobs that match came to.
#[derive(Clone, Debug, Default)]
pub struct Acted {
    /// What each became, or why nothing was done to it.
    pub answers: Vec<(JobId, Result<Finished, Error>)>,
    /// Go on after this one; `None` at the end.
    pub next: Option<JobId>,
    /// It had been done before, under the same key.
    pub replayed: bool,
}

impl Acted {
    /// To how many it was done.
    pub fn done(&self) -> usize {
        self.answers.iter().filter(|(_, answer)| answer.is_ok()).count()
    }
}

/// How many jobs match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// So many were found …
    pub found: usize,
    /// … and there are more than were looked for.
    pub more: bool,
}

/// Jobs that are listed together to count them or to act on them.
const PAGE: usize = 500;

impl Jobs<'_> {
    /// Gives a job up. One that runs is told, and ends as cancelled when its worker lets go of it.
    pub async fn cancel(&self, id: JobId) -> Result<Finished, Error> {
        self.act_on_one(Act::Cancel, id).await
    }

    /// Tries a dead or cancelled job again from the first attempt; one between attempts at once.
    pub async fn retry(&self, id: JobId) -> Result<Finished, Error> {
        self.act_on_one(Act::Retry, id).await
    }

    /// A dead job is not wanted any more.
    pub async fn discard(&self, id: JobId) -> Result<Finished, Error> {
        self.act_on_one(Act::Discard, id).await
    }

    /// Puts a job in another queue; a dead one is tried again there.
    pub async fn move_to<Q>(&self, id: JobId, queue: Q) -> Result<Finished, Error>
    where
        Q: TryInto<Queue, Error = Invalid>,
    {
        self.act_on_one(Act::Move { queue: queue.try_into()? }, id).await
    }

    /// Changes the priority of a waiting job, or how long from now it is to run.
    pub async fn edit(&self, id: JobId, priority: Option<i16>, delay: Option<Duration>) -> Result<Finished, Error> {
        self.act_on_one(Act::Edit { priority, delay: delay.map(Into::into) }, id).await
    }

    /// Does something to jobs, a thousand in a transaction; one answer for each, in order.
    pub async fn act(&self, act: Act, jobs: &[JobId]) -> Result<Vec<Result<Finished, Error>>, Error> {
        let mut answers = Vec::with_capacity(jobs.len());
        for jobs in jobs.chunks(ITEMS_MAX) {
            match self.0.execute(Op::Act { act: act.clone(), jobs: jobs.to_vec() }).await? {
                Answer::Acted { each: some, .. } => {
                    answers.extend(some.into_iter().map(|answer| answer.map_err(Error::from)));
                }
                other => return Err(unexpected(&other)),
            }
        }
        Ok(answers)
    }

    /// Does something to the jobs that match, a page of them, after an id. Go on with what it says, until it says `None`.
    pub async fn act_on_page(&self, act: Act, filter: &JobFilter, after: Option<JobId>) -> Result<Acted, Error> {
        let found = self.list(filter, after, PAGE).await?;
        let next = found.last().filter(|_| is_full(&found, PAGE)).map(|job| job.id);
        let jobs: Vec<JobId> = found.into_iter().map(|job| job.id).collect();
        let answers = self.act(act, &jobs).await?;
        Ok(Acted { answers: jobs.into_iter().zip(answers).collect(), next, replayed: false })
    }

    /// The same as a part, by its number, of something larger that was asked under a key, with the digest of the whole: what was done
    /// is told again, whatever matches by now.
    pub async fn act_on_page_once(
        &self,
        act: Act,
        filter: &JobFilter,
        after: Option<JobId>,
        (key, number, whole): (IdempotencyKey, u32, Fingerprint),
    ) -> Result<Acted, Error> {
        let found = self.list(filter, after, PAGE + 1).await?;
        // That nothing follows is remembered: who comes later is not meant.
        let more = is_full(&found, PAGE + 1);
        let jobs: Vec<JobId> = found.into_iter().take(PAGE).map(|job| job.id).collect();
        let part = Some(Part { number, whole, more });
        let request = Request::from(Op::Act { act, jobs }).with_key(key).in_context(self.0.context.clone());
        let Outcome { answer, replayed, .. } = self.0.request(Request { part, ..request }).await?;
        let Answer::Acted { each, more } = answer else { return Err(unexpected(&answer)) };
        // What is told again is about the jobs of then, which are the ones to go on after.
        let answers = each.into_iter().map(|answer| Ok((job_of(&answer)?, answer.map_err(Error::from))));
        let answers = answers.collect::<Result<Vec<_>, Error>>()?;
        let next = answers.last().filter(|_| more).map(|(job, _)| *job);
        Ok(Acted { answers, next, replayed })
    }

    /// Counts the jobs that match, up to `most`: what an act on them would come to.
    pub async fn count(&self, filter: &JobFilter, most: usize) -> Result<Count, Error> {
        let (mut found, mut after) = (0, None);
        loop {
            let page = self.list(filter, after, PAGE).await?;
            found += page.len();
            if found > most {
                return Ok(Count { found: most, more: true });
            }
            if !is_full(&page, PAGE) {
                return Ok(Count { found, more: false });
            }
            after = page.last().map(|job| job.id);
        }
    }

    async fn act_on_one(&self, act: Act, id: JobId) -> Result<Finished, Error> {
        only_answer(self.act(act, &[id]).await?)
    }
}

/// The job that an answer to an act is about.
fn job_of(answer: &Result<Finished, Refusal>) -> Result<JobId, Error> {
    match answer {
        Ok(done) => Ok(done.job),
        Err(Refusal::UnknownJob { job } | Refusal::WrongState { job, .. }) => Ok(*job),
        Err(other) => Err(other.clone().into()),
    }
}
