//! What workers call: leases, heartbeats and progress.

use std::collections::HashMap;
use std::time::Duration;

use bursar_core::answer::{Answer, Leased, Renewed};
use bursar_core::bounds::{ITEMS_MAX, WAIT_MAX};
use bursar_core::id::{HoldId, JobId};
use bursar_core::job::{Emit, HeartbeatItem, Job, LastReport, LeaseRequest, Progress};
use bursar_core::name::Scope;
use bursar_core::refusal::Refusal;
use bursar_core::request::Op;
use tokio::time::{Instant, timeout_at};

use super::{Jobs, only_answer};
use crate::api::instance::Bursar;
use crate::error::Error;
use crate::wakeup::feed::{ProgressNotices, Progressed};

impl Jobs<'_> {
    /// Leases jobs that are ready now. Each belongs to the caller until its lease expires; a heartbeat renews it.
    pub async fn lease(&self, request: LeaseRequest) -> Result<Leased, Error> {
        let _asks = self.0.inner.observed.asks(&self.0.context.tenant, &request);
        self.try_lease(request).await
    }

    async fn try_lease(&self, request: LeaseRequest) -> Result<Leased, Error> {
        match self.0.execute(Op::Lease(request)).await? {
            Answer::Leased(leased) => Ok(leased),
            other => Err(unexpected(&other)),
        }
    }

    /// Leases jobs, and waits up to `wait` (a minute at most) if none is ready. If the call is cancelled, jobs that were leased for it
    /// are returned to their queue.
    pub async fn lease_wait(&self, request: LeaseRequest, wait: Duration) -> Result<Leased, Error> {
        self.ready_or_later(request, wait).await.map(|(leased, _)| leased)
    }

    /// Leases jobs like [`Jobs::lease_wait`], for a worker that may lose its permission while it waits. Jobs that it waited for are leased only
    /// if `allowed` says so then; else they are returned to their queue, and the answer is `None`.
    pub async fn lease_wait_while(
        &self,
        request: LeaseRequest,
        wait: Duration,
        allowed: impl AsyncFnOnce() -> bool,
    ) -> Result<Option<Leased>, Error> {
        let (leased, has_waited) = self.ready_or_later(request, wait).await?;
        if !has_waited || leased.jobs.is_empty() {
            return Ok(Some(leased));
        }
        let mut pending = PendingJobs { bursar: self.0, jobs: &leased.jobs };
        if !allowed().await {
            return Ok(None);
        }
        pending.jobs = &[];
        drop(pending);
        Ok(Some(leased))
    }

    /// Leases jobs, and waits if none is ready. Returns whether it waited.
    async fn ready_or_later(&self, request: LeaseRequest, wait: Duration) -> Result<(Leased, bool), Error> {
        let deadline = Instant::now() + wait.min(WAIT_MAX.into());
        let _waits = self.0.inner.observed.asks(&self.0.context.tenant, &request);
        // The worker joins before it tries to lease, so that it misses no job that becomes ready in between.
        let waiter = self.0.inner.lease_waiters.join(&self.0.context.tenant, &request)?;
        let mut has_waited = false;
        loop {
            let leased = self.try_lease(request.clone()).await?;
            if leased.jobs.len() >= request.capacity as usize {
                waiter.wake_next();
            }
            if !leased.jobs.is_empty() {
                waiter.note_found();
                return Ok((leased, has_waited));
            }
            if Instant::now() >= deadline {
                return Ok((leased, has_waited));
            }
            if let Some(next_at) = leased.next_at {
                waiter.note_due_in(next_at.since(leased.at).into());
            }
            if timeout_at(deadline, waiter.woken()).await.is_err() {
                return Ok((leased, has_waited));
            }
            waiter.rejoin();
            has_waited = true;
        }
    }

    /// Returns the units that the hold of each of these leased jobs sets aside, by scope. The list of a job without a hold is empty. Jobs
    /// whose hold could not be read, or does not fit in one page, are left out. If the call is cancelled, the jobs are returned to their queue.
    pub async fn held_for(&self, leased: &[Job]) -> HashMap<JobId, Vec<(Scope, i64)>> {
        let ids: Vec<HoldId> = leased.iter().filter_map(|job| job.hold).collect();
        let mut found = HashMap::new();
        if !ids.is_empty() {
            let mut pending = PendingJobs { bursar: self.0, jobs: leased };
            let holds = self.0.inner.store.holds(&self.0.context.tenant, &ids).await;
            pending.jobs = &[];
            // The worker gets its jobs all the same, because they are leased.
            let holds = holds.inspect_err(|error| tracing::warn!(%error, "reading the holds of leased jobs failed"));
            found.extend(holds.unwrap_or_default().into_iter().map(|hold| (hold.id, hold.charges)));
        }
        let held = leased.iter().filter_map(|job| {
            let charges = job.hold.map_or(Some(Vec::new()), |hold| found.remove(&hold))?;
            Some((job.id, charges.into_iter().map(|charge| (charge.scope, charge.amount)).collect()))
        });
        held.collect()
    }

    /// Renews the lease of a job. Returns when it expires now, and whether the worker should stop.
    pub async fn heartbeat(&self, beat: HeartbeatItem) -> Result<Renewed, Error> {
        only_answer(self.heartbeats(vec![beat]).await?)
    }

    /// Renews many leases, a thousand in one transaction; returns one answer for each, in order. Progress that heartbeats carry is stored
    /// and published as by [`Jobs::progress`].
    pub async fn heartbeats(&self, beats: Vec<HeartbeatItem>) -> Result<Vec<Result<Renewed, Error>>, Error> {
        let mut answers = Vec::with_capacity(beats.len());
        for beats in beats.chunks(ITEMS_MAX) {
            match self.0.execute(Op::Heartbeat { beats: beats.to_vec() }).await? {
                Answer::Renewed(some) => {
                    self.publish_progress(beats, &some);
                    answers.extend(some.into_iter().map(|answer| answer.map_err(Error::from)));
                }
                other => return Err(unexpected(&other)),
            }
        }
        Ok(answers)
    }

    /// Reports the progress of a job, and renews its lease. The job keeps the last report, and listeners in this process hear each
    /// ([`Jobs::listen_progress`]). A report costs what a heartbeat costs: it writes the row of the job, and no row of the journal. A
    /// [checkpoint](Progress::checkpoint()) is also an event of the journal, and the next lease of the job carries it.
    pub async fn progress(&self, beat: HeartbeatItem, progress: Progress) -> Result<Renewed, Error> {
        progress.check()?;
        self.heartbeat(beat.with_progress(progress)).await
    }

    /// Records an event of the application about a job that is leased. Listeners to the journal, the job and its queue hear it
    /// (`job.emitted`). Refused if the lease was lost.
    pub async fn emit(&self, emit: Emit) -> Result<(), Error> {
        self.0.execute(Op::Emit(emit)).await.map(drop)
    }

    /// Publishes the progress that accepted heartbeats carried.
    fn publish_progress(&self, beats: &[HeartbeatItem], answers: &[Result<Renewed, Refusal>]) {
        for (beat, answer) in beats.iter().zip(answers) {
            if let (Some(progress), Ok(renewed)) = (&beat.progress, answer) {
                let (tenant, progress) = (self.0.context.tenant.clone(), progress.clone());
                let (job, fence, number) = (beat.job, beat.fence, renewed.reports);
                self.0.inner.feed.publish_progress(Progressed { tenant, job, fence, number, progress });
            }
        }
    }

    /// Returns the last progress reports of jobs, without jobs that have none. They may have been reported to any process.
    pub async fn last_reports(&self, jobs: &[JobId]) -> Result<Vec<(JobId, LastReport)>, Error> {
        Ok(self.0.inner.store.last_reports(&self.0.context.tenant, jobs).await?)
    }

    /// Listens to the progress of this tenant's jobs from now on, as reported to this process. What is reported to other processes is in
    /// [`Jobs::last_reports`].
    pub fn listen_progress(&self) -> ProgressNotices {
        self.0.inner.feed.listen_progress(self.0.context.tenant.clone())
    }
}

/// Leased jobs that their worker does not have yet. Dropping them returns the jobs to their queue.
struct PendingJobs<'a> {
    bursar: &'a Bursar,
    jobs: &'a [Job],
}

impl Drop for PendingJobs<'_> {
    fn drop(&mut self) {
        self.bursar.inner.engine.return_jobs(self.bursar.context.clone(), self.jobs);
    }
}

pub(super) fn unexpected(answer: &Answer) -> Error {
    Error::Internal(format!("unexpected answer to a request for jobs: {answer:?}"))
}
