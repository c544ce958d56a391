//! What a worker asks for: jobs, and signs of life.

use std::time::Duration;

use bursar_core::answer::{Answer, Beaten, Leased};
use bursar_core::bounds::{ITEMS_MAX, WAIT_MAX};
use bursar_core::job::{Beat, LeaseAsk};
use bursar_core::request::Op;
use bursar_worker::Progress;
use tokio::time::{Instant, timeout_at};

use super::{Jobs, only_answer};
use crate::error::Error;
use crate::feed::{ProgressNotices, Progressed};

impl Jobs<'_> {
    /// Takes jobs to work on, as many as there are now. Each is the caller's until its lease lapses; a heartbeat puts that off.
    pub async fn lease(&self, ask: LeaseAsk) -> Result<Leased, Error> {
        match self.0.ask(Op::Lease(ask)).await? {
            Answer::Leased(leased) => Ok(leased),
            other => Err(unexpected(&other)),
        }
    }

    /// The same, and waits up to `wait` (a minute at most) for some if there are none. Whoever stops waiting loses no job: what
    /// was leased for it meanwhile is handed back.
    pub async fn lease_wait(&self, ask: LeaseAsk, wait: Duration) -> Result<Leased, Error> {
        let until = Instant::now() + wait.min(WAIT_MAX.into());
        // Before it asks: who makes jobs ready after that finds it in line.
        let place = self.0.inner.hub.join(&self.0.context.tenant, &ask)?;
        loop {
            let leased = self.lease(ask.clone()).await?;
            if leased.jobs.len() >= ask.capacity as usize {
                place.pass_on();
            }
            if !leased.jobs.is_empty() {
                place.found();
                return Ok(leased);
            }
            if Instant::now() >= until {
                return Ok(leased);
            }
            if let Some(next_at) = leased.next_at {
                place.due_in(next_at.since(leased.at).into());
            }
            if timeout_at(until, place.woken()).await.is_err() {
                return Ok(leased);
            }
            place.stand();
        }
    }

    /// Says that a job is still worked on; told what to do about it, and until when it is the caller's now.
    pub async fn heartbeat(&self, beat: Beat) -> Result<Beaten, Error> {
        only_answer(self.heartbeats(vec![beat]).await?)
    }

    /// The same for many, a thousand in a transaction; one answer for each, in order.
    pub async fn heartbeats(&self, beats: Vec<Beat>) -> Result<Vec<Result<Beaten, Error>>, Error> {
        let mut answers = Vec::with_capacity(beats.len());
        for beats in beats.chunks(ITEMS_MAX) {
            match self.0.ask(Op::Heartbeat { beats: beats.to_vec() }).await? {
                Answer::Beaten(some) => answers.extend(some.into_iter().map(|answer| answer.map_err(Error::from))),
                other => return Err(unexpected(&other)),
            }
        }
        Ok(answers)
    }

    /// Tells listeners in this process how far a job is ([`Jobs::listen_progress`]), and renews its lease. It is kept nowhere.
    pub async fn progress(&self, beat: Beat, progress: Progress) -> Result<Beaten, Error> {
        progress.check()?;
        let beaten = self.heartbeat(beat.clone()).await?;
        self.tell_progress(&beat, progress);
        Ok(beaten)
    }

    /// The part of [`Jobs::progress`] that is told, for who has renewed the lease already.
    pub fn tell_progress(&self, beat: &Beat, progress: Progress) {
        let (job, fence, tenant) = (beat.job, beat.fence, self.0.context.tenant.clone());
        self.0.inner.feed.tell_progress(Progressed { tenant, job, fence, progress });
    }

    /// Listens to what workers of this process say of this tenant's jobs from now on.
    pub fn listen_progress(&self) -> ProgressNotices {
        self.0.inner.feed.listen_progress(self.0.context.tenant.clone())
    }
}

pub(super) fn unexpected(answer: &Answer) -> Error {
    Error::Internal(format!("work on jobs was answered with {answer:?}"))
}
