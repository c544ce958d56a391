//! Jobs in the model: actions of operators and of maintenance.

use bursar_core::answer::Finished;
use bursar_core::blob::Reference;
use bursar_core::event::Event;
use bursar_core::id::JobId;
use bursar_core::job::{JobState, LeaseEnd, QueueConfig};
use bursar_core::name::Queue;
use bursar_core::refusal::Refusal;
use bursar_core::request::Act;
use bursar_core::time::{Span, Time};

use super::event_cursor::EventCursor;
use super::expect::{Case, Check, is};
use super::jobs::{JobModel, same_state, unknown};
use super::model::Model;
use super::reports::ReportsModel;
use super::settle::Failure;

type Answered<'a> = &'a Result<Finished, Refusal>;

impl Model {
    /// Judges an action job by job. Maintenance may skip jobs that another transaction had locked.
    pub(super) fn act(
        &mut self,
        case: &Case<'_>,
        act: &Act,
        requested: &[JobId],
        answered: &[Result<Finished, Refusal>],
        events: &mut EventCursor<'_>,
    ) -> Check {
        let mut requested = requested.iter();
        let maintenance = matches!(act, Act::Rescue | Act::Resume | Act::Forget | Act::Unbar);
        if !maintenance {
            is("jobs acted on", &answered.len(), &requested.len())?;
        }
        for answered in answered {
            let id = job_of(answered)?;
            if !requested.any(|requested| *requested == id) {
                return Err(format!("{id} was not requested, or is out of order"));
            }
            let Some(job) = self.job(case, id).cloned() else {
                unknown(id, answered)?;
                continue;
            };
            match act {
                Act::Cancel => self.cancel(case, id, &job, answered, events)?,
                Act::Retry => self.retry(case, id, &job, answered, events)?,
                Act::Discard => self.discard(case, id, &job, answered, events)?,
                Act::Erase => self.erase(id, &job, answered, events)?,
                Act::Move { queue } => self.move_to(case, id, &job, queue, answered, events)?,
                Act::Edit { priority, delay } => {
                    self.edit(case, id, &job, (*priority, *delay), answered, events)?;
                }
                Act::Rescue => self.rescue(case, id, &job, answered, events)?,
                Act::Resume => self.resume(case, id, &job, answered, events)?,
                Act::Forget => self.forget(case, id, &job, answered, events)?,
                // The model does not track places in lines.
                Act::Unbar => {}
            }
        }
        Ok(())
    }

    fn cancel(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        job: &JobModel,
        answered: Answered<'_>,
        events: &mut EventCursor<'_>,
    ) -> Check {
        match job.state {
            JobState::Cancelled => {}
            JobState::Succeeded | JobState::Dead => return wrong(id, job, answered),
            JobState::Leased if job.cancelling => {}
            JobState::Leased => {
                is(
                    "a cancellation request",
                    events.next("a cancellation request")?,
                    &Event::JobCancelling { job: id },
                )?;
                self.jobs.get_mut(&id).expect("the job was found above").cancelling = true;
            }
            _ if is_line_locked(job, answered) => return Ok(()),
            _ => self.cancel_now(case, id, events)?,
        }
        self.check_finished(id, answered)
    }

    fn retry(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        job: &JobModel,
        answered: Answered<'_>,
        events: &mut EventCursor<'_>,
    ) -> Check {
        match job.state {
            JobState::Dead | JobState::Cancelled if job.erased => return wrong(id, job, answered),
            JobState::Dead | JobState::Cancelled => self.restart(case, id, events)?,
            JobState::AwaitingBudget => return self.resume(case, id, job, answered, events),
            JobState::Leased | JobState::Succeeded => return wrong(id, job, answered),
            _ if is_line_locked(job, answered) => return Ok(()),
            _ if matches!(events.peek(), Some(Event::JobEdited { job, .. }) if *job == id) => {
                return self.edit(case, id, job, (None, Some(Span::ZERO)), answered, events);
            }
            // The job is due already.
            _ if job.run_at <= case.now.max(self.high) => {}
            _ => return Err(format!("{id} is not retried at once: {job:?}")),
        }
        self.check_finished(id, answered)
    }

    /// Restarts a dead or cancelled job, with a hold like its last one.
    fn restart(&mut self, case: &Case<'_>, id: JobId, events: &mut EventCursor<'_>) -> Check {
        let old = self.jobs[&id].hold.and_then(|hold| self.holds.get(&hold)).cloned();
        let lacks = old.is_some_and(|old| {
            let charges = self.charges_now(case, &old);
            self.refusing_scope(case, &charges).is_some()
        });
        let hold = if lacks { None } else { self.fund(case, id, events)? };
        is("a restarted job", events.next("a restarted job")?, &Event::JobRetried { job: id, hold })?;
        let job = self.jobs.get_mut(&id).expect("the job was found above");
        (job.attempts, job.cancelling) = (0, false);
        job.wait(case.now, case.commits);
        self.unended.insert(id);
        if lacks { self.park(case, id, events) } else { Ok(()) }
    }

    fn discard(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        job: &JobModel,
        answered: Answered<'_>,
        events: &mut EventCursor<'_>,
    ) -> Check {
        if job.state != JobState::Dead {
            return wrong(id, job, answered);
        }
        is("a discarded job", events.next("a discarded job")?, &Event::JobDiscarded { job: id })?;
        self.end(case, id, JobState::Cancelled);
        self.check_finished(id, answered)
    }

    /// Judges an erasure. What the journal had of them is not compared.
    fn erase(&mut self, id: JobId, job: &JobModel, answered: Answered<'_>, events: &mut EventCursor<'_>) -> Check {
        if !job.state.is_final() {
            return wrong(id, job, answered);
        }
        if !job.erased {
            is("an erased job", events.next("an erased job")?, &Event::JobErased { job: id })?;
            let row = self.jobs.get_mut(&id).expect("the job was found above");
            (row.erased, row.reports) = (true, ReportsModel::default());
        }
        self.check_finished(id, answered)
    }

    fn move_to(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        job: &JobModel,
        queue: &Queue,
        answered: Answered<'_>,
        events: &mut EventCursor<'_>,
    ) -> Check {
        match job.state {
            _ if job.queue == *queue => return self.check_finished(id, answered),
            JobState::Leased | JobState::Succeeded | JobState::Cancelled => return wrong(id, job, answered),
            JobState::Queued if is_line_locked(job, answered) => return Ok(()),
            JobState::Dead if job.erased => return wrong(id, job, answered),
            _ => {}
        }
        let moved = Event::JobMoved { job: id, queue: queue.clone() };
        is("a moved job", events.next("a moved job")?, &moved)?;
        let row = self.jobs.get_mut(&id).expect("the job was found above");
        row.queue = queue.clone();
        row.waits_since = case.commits;
        if job.state == JobState::Dead {
            self.restart(case, id, events)?;
        }
        self.check_finished(id, answered)
    }

    fn edit(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        job: &JobModel,
        (priority, delay): (Option<i16>, Option<Span>),
        answered: Answered<'_>,
        events: &mut EventCursor<'_>,
    ) -> Check {
        if job.state != JobState::Queued {
            return wrong(id, job, answered);
        }
        if is_line_locked(job, answered) {
            return Ok(());
        }
        let event = events.next("an edited job")?;
        let Event::JobEdited { job: edited, priority: now, run_at } = event else {
            return Err(format!("{event:?} is not an edit of {id}"));
        };
        is("an edited job", &(*edited, *now), &(id, priority.unwrap_or(job.priority)))?;
        let expected = delay.map_or(job.run_at, |delay| case.now + delay.micros());
        is("the run time of an edited job", &run_at.micros(), &expected)?;
        let row = self.jobs.get_mut(&id).expect("the job was found above");
        row.priority = *now;
        row.wait(run_at.micros(), case.commits);
        self.check_finished(id, answered)
    }

    fn rescue(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        job: &JobModel,
        answered: Answered<'_>,
        events: &mut EventCursor<'_>,
    ) -> Check {
        if job.lease.as_ref().is_some_and(|lease| lease.lapses_at() <= case.now) {
            let failure =
                Failure { how: LeaseEnd::Lapsed, error: None, retryable: true, retry_after: None, usage: None };
            self.fail(case, id, &failure, events)?.map_err(|refusal| format!("a rescue was refused: {refusal}"))?;
        }
        self.check_finished(id, answered)
    }

    fn resume(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        job: &JobModel,
        answered: Answered<'_>,
        events: &mut EventCursor<'_>,
    ) -> Check {
        let Some(scope) = job.awaits.clone().filter(|_| job.state == JobState::AwaitingBudget) else {
            return self.check_finished(id, answered);
        };
        let old = job.hold.and_then(|hold| self.holds.get(&hold)).cloned().ok_or("the job has no hold")?;
        let charges = self.charges_now(case, &old);
        let lacking = self.refusing_scope(case, &charges);
        // Another scope refuses now: the job waits for that one.
        if lacking.as_ref().is_some_and(|lacking| *lacking != scope) {
            self.park(case, id, events)?;
        }
        if lacking.is_none() {
            let hold = self.fund(case, id, events)?.ok_or("the job has no hold")?;
            is("a resumed job", events.next("a resumed job")?, &Event::JobResumed { job: id, scope, hold })?;
            let row = self.jobs.get_mut(&id).expect("the job was found above");
            row.awaits = None;
            row.wait(case.now, case.commits);
        }
        self.check_finished(id, answered)
    }

    /// Judges the removal of a job: only finished jobs, and only after their retention.
    fn forget(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        job: &JobModel,
        answered: Answered<'_>,
        events: &mut EventCursor<'_>,
    ) -> Check {
        if !job.state.is_final() {
            return wrong(id, job, answered);
        }
        self.check_finished(id, answered)?;
        let over = |config: &QueueConfig| {
            let kept = match job.state {
                JobState::Succeeded => config.retention.succeeded,
                JobState::Cancelled => config.retention.cancelled,
                _ => config.retention.dead,
            };
            kept.is_some_and(|kept| Time::from_micros(job.run_at).after(kept).micros() <= case.now)
        };
        let forgotten = match events.peek() {
            Some(Event::JobForgotten { job } | Event::BlobReleased { by: Reference::Job(job), .. }) => *job == id,
            _ => false,
        };
        if !self.configs(case, &job.queue).iter().any(|config| over(config) == forgotten) {
            return Err(format!("gone: {id} is removed: {forgotten}, at {}: {job:?}", case.now));
        }
        if !forgotten {
            return Ok(());
        }
        self.release_job(case, id, events)?;
        is("a forgotten job", events.next("a forgotten job")?, &Event::JobForgotten { job: id })?;
        self.jobs.remove(&id);
        if let Some(key) = job.idempotency_key.clone() {
            let key = (job.tenant.clone(), job.home.clone(), key);
            self.job_keys.remove(&key);
            self.removed_keys.insert(key, (id, case.commits));
        }
        Ok(())
    }
}

fn job_of(answered: Answered<'_>) -> Check<JobId> {
    match answered {
        Ok(done) => Ok(done.job),
        Err(Refusal::UnknownJob { job } | Refusal::WrongState { job, .. }) => Ok(*job),
        Err(other) => Err(format!("{other:?} is not an answer to an action")),
    }
}

/// Returns whether the action was refused because another transaction has locked the job's waiting line.
fn is_line_locked(job: &JobModel, answered: Answered<'_>) -> bool {
    job.key.is_some()
        && matches!(answered, Err(Refusal::WrongState { problem, .. }) if problem.ends_with("flow key: retry"))
}

/// Expects a refusal because of the job's state.
fn wrong(id: JobId, job: &JobModel, answered: Answered<'_>) -> Check {
    match answered {
        Err(Refusal::WrongState { job: refused, state, .. }) if *refused == id && same_state(*state, job.state) => {
            Ok(())
        }
        answered => Err(format!("{id} is {}, but answered {answered:?}", job.state)),
    }
}
