//! Jobs by the model: what operators and the upkeep do to them.

use bursar_core::answer::Finished;
use bursar_core::event::Event;
use bursar_core::id::JobId;
use bursar_core::job::{JobState, LeaseEnd, QueueConfig};
use bursar_core::name::Queue;
use bursar_core::refusal::Refusal;
use bursar_core::request::Act;
use bursar_core::time::{Span, Time};

use super::expect::{Case, Check, is};
use super::jobs::{JobModel, Story, same_state, unknown};
use super::model::Model;
use super::settle::Failure;

type Said<'a> = &'a Result<Finished, Refusal>;

impl Model {
    /// One after the other. The upkeep may pass over some that somebody had locked.
    pub(super) fn act(
        &mut self,
        case: &Case<'_>,
        act: &Act,
        asked: &[JobId],
        said: &[Result<Finished, Refusal>],
        story: &mut Story<'_>,
    ) -> Check {
        let mut asked = asked.iter();
        let upkeep = matches!(act, Act::Rescue | Act::Resume | Act::Forget | Act::Unbar);
        if !upkeep {
            is("jobs acted on", &said.len(), &asked.len())?;
        }
        for said in said {
            let id = job_of(said)?;
            if !asked.any(|asked| *asked == id) {
                return Err(format!("{id} was not asked for, or not there"));
            }
            let Some(job) = self.job(case, id).cloned() else {
                unknown(id, said)?;
                continue;
            };
            match act {
                Act::Cancel => self.cancel(case, id, &job, said, story)?,
                Act::Retry => self.retry(case, id, &job, said, story)?,
                Act::Discard => self.discard(case, id, &job, said, story)?,
                Act::Move { queue } => self.move_to(case, id, &job, queue, said, story)?,
                Act::Edit { priority, delay } => {
                    self.edit(case, id, &job, (*priority, *delay), said, story)?;
                }
                Act::Rescue => self.rescue(case, id, &job, said, story)?,
                Act::Resume => self.resume(case, id, &job, said, story)?,
                Act::Forget => self.forget(case, id, &job, said, story)?,
                // Places are no part of what the model keeps.
                Act::Unbar => {}
            }
        }
        Ok(())
    }

    fn cancel(&mut self, case: &Case<'_>, id: JobId, job: &JobModel, said: Said<'_>, story: &mut Story<'_>) -> Check {
        match job.state {
            JobState::Cancelled => {}
            JobState::Succeeded | JobState::Dead => return wrong(id, job, said),
            JobState::Leased if job.cancelling => {}
            JobState::Leased => {
                is("an order to cancel", story.next("an order to cancel")?, &Event::JobCancelling { job: id })?;
                self.jobs.get_mut(&id).expect("it was found").cancelling = true;
            }
            _ if is_held_up(job, said) => return Ok(()),
            _ => self.cancel_now(case, id, story)?,
        }
        self.told(id, said)
    }

    fn retry(&mut self, case: &Case<'_>, id: JobId, job: &JobModel, said: Said<'_>, story: &mut Story<'_>) -> Check {
        match job.state {
            JobState::Dead | JobState::Cancelled => self.anew(case, id, story)?,
            JobState::AwaitingBudget => return self.resume(case, id, job, said, story),
            JobState::Leased | JobState::Succeeded => return wrong(id, job, said),
            _ if is_held_up(job, said) => return Ok(()),
            _ if matches!(story.peek(), Some(Event::JobEdited { job, .. }) if *job == id) => {
                return self.edit(case, id, job, (None, Some(Span::ZERO)), said, story);
            }
            // Its time has come, whoever has noticed.
            _ if job.run_at <= case.now.max(self.high) => {}
            _ => return Err(format!("{id} is not tried at once: {job:?}")),
        }
        self.told(id, said)
    }

    /// A job that was given up begins anew, with a hold like the one it had.
    fn anew(&mut self, case: &Case<'_>, id: JobId, story: &mut Story<'_>) -> Check {
        let old = self.jobs[&id].hold.and_then(|hold| self.holds.get(&hold)).cloned();
        let lacks = old.is_some_and(|old| {
            let charges = self.again(case, &old);
            self.lack(case, &charges).is_some()
        });
        let hold = if lacks { None } else { self.fund(case, id, story)? };
        is("a job tried anew", story.next("a job tried anew")?, &Event::JobRetried { job: id, hold })?;
        let job = self.jobs.get_mut(&id).expect("it was found");
        (job.attempts, job.cancelling) = (0, false);
        job.wait(case.now, case.commits);
        self.unended.insert(id);
        if lacks { self.park(case, id, story) } else { Ok(()) }
    }

    fn discard(&mut self, case: &Case<'_>, id: JobId, job: &JobModel, said: Said<'_>, story: &mut Story<'_>) -> Check {
        if job.state != JobState::Dead {
            return wrong(id, job, said);
        }
        is("a discarded job", story.next("a discarded job")?, &Event::JobDiscarded { job: id })?;
        self.end(case, id, JobState::Cancelled);
        self.told(id, said)
    }

    fn move_to(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        job: &JobModel,
        queue: &Queue,
        said: Said<'_>,
        story: &mut Story<'_>,
    ) -> Check {
        match job.state {
            _ if job.queue == *queue => return self.told(id, said),
            JobState::Leased | JobState::Succeeded | JobState::Cancelled => return wrong(id, job, said),
            JobState::Queued if is_held_up(job, said) => return Ok(()),
            _ => {}
        }
        let moved = Event::JobMoved { job: id, queue: queue.clone() };
        is("a moved job", story.next("a moved job")?, &moved)?;
        let row = self.jobs.get_mut(&id).expect("it was found");
        row.queue = queue.clone();
        row.waits_since = case.commits;
        if job.state == JobState::Dead {
            self.anew(case, id, story)?;
        }
        self.told(id, said)
    }

    fn edit(
        &mut self,
        case: &Case<'_>,
        id: JobId,
        job: &JobModel,
        (priority, delay): (Option<i16>, Option<Span>),
        said: Said<'_>,
        story: &mut Story<'_>,
    ) -> Check {
        if job.state != JobState::Queued {
            return wrong(id, job, said);
        }
        if is_held_up(job, said) {
            return Ok(());
        }
        let event = story.next("an edited job")?;
        let Event::JobEdited { job: edited, priority: now, run_at } = event else {
            return Err(format!("{event:?} is no edit of {id}"));
        };
        is("an edited job", &(*edited, *now), &(id, priority.unwrap_or(job.priority)))?;
        let asked = delay.map_or(job.run_at, |delay| case.now + delay.micros());
        is("when an edited job is to run", &run_at.micros(), &asked)?;
        let row = self.jobs.get_mut(&id).expect("it was found");
        row.priority = *now;
        row.wait(run_at.micros(), case.commits);
        self.told(id, said)
    }

    fn rescue(&mut self, case: &Case<'_>, id: JobId, job: &JobModel, said: Said<'_>, story: &mut Story<'_>) -> Check {
        if job.lease.as_ref().is_some_and(|lease| lease.lapses_at() <= case.now) {
            let failure = Failure { how: LeaseEnd::Lapsed, retryable: true, retry_after: None, usage: None };
            self.fail(case, id, &failure, story)?.map_err(|refusal| format!("a rescue was refused: {refusal}"))?;
        }
        self.told(id, said)
    }

    fn resume(&mut self, case: &Case<'_>, id: JobId, job: &JobModel, said: Said<'_>, story: &mut Story<'_>) -> Check {
        let Some(scope) = job.awaits.clone().filter(|_| job.state == JobState::AwaitingBudget) else {
            return self.told(id, said);
        };
        let old = job.hold.and_then(|hold| self.holds.get(&hold)).cloned().ok_or("it had a hold")?;
        let charges = self.again(case, &old);
        let lacking = self.lack(case, &charges);
        // Another scope says no by now: that is the one to wait for.
        if lacking.as_ref().is_some_and(|lacking| *lacking != scope) {
            self.park(case, id, story)?;
        }
        if lacking.is_none() {
            let hold = self.fund(case, id, story)?.ok_or("it had a hold")?;
            is("a resumed job", story.next("a resumed job")?, &Event::JobResumed { job: id, scope, hold })?;
            let row = self.jobs.get_mut(&id).expect("it was found");
            row.awaits = None;
            row.wait(case.now, case.commits);
        }
        self.told(id, said)
    }

    /// Only a finished one, and only when its time is over.
    fn forget(&mut self, case: &Case<'_>, id: JobId, job: &JobModel, said: Said<'_>, story: &mut Story<'_>) -> Check {
        if !job.state.is_final() {
            return wrong(id, job, said);
        }
        self.told(id, said)?;
        let over = |config: &QueueConfig| {
            let kept = match job.state {
                JobState::Succeeded => config.retention.succeeded,
                JobState::Cancelled => config.retention.cancelled,
                _ => config.retention.dead,
            };
            kept.is_some_and(|kept| Time::from_micros(job.run_at).after(kept).micros() <= case.now)
        };
        let forgotten = story.peek() == Some(&Event::JobForgotten { job: id });
        if !self.configs(case, &job.queue).iter().any(|config| over(config) == forgotten) {
            return Err(format!("gone: {id} is forgotten, {forgotten}, at {}: {job:?}", case.now));
        }
        if !forgotten {
            return Ok(());
        }
        story.next("a forgotten job")?;
        self.jobs.remove(&id);
        if let Some(key) = job.idempotency_key.clone() {
            let key = (job.tenant.clone(), job.home.clone(), key);
            self.job_keys.remove(&key);
            self.given_up.insert(key, (id, case.commits));
        }
        Ok(())
    }
}

fn job_of(said: Said<'_>) -> Check<JobId> {
    match said {
        Ok(done) => Ok(done.job),
        Err(Refusal::UnknownJob { job } | Refusal::WrongState { job, .. }) => Ok(*job),
        Err(other) => Err(format!("{other:?} is no answer to an act")),
    }
}

/// Somebody else is changing the line of its key.
fn is_held_up(job: &JobModel, said: Said<'_>) -> bool {
    job.key.is_some() && matches!(said, Err(Refusal::WrongState { problem, .. }) if problem.ends_with("ask again"))
}

/// The state does not admit it.
fn wrong(id: JobId, job: &JobModel, said: Said<'_>) -> Check {
    match said {
        Err(Refusal::WrongState { job: refused, state, .. }) if *refused == id && same_state(*state, job.state) => {
            Ok(())
        }
        said => Err(format!("{id} is {}, and answered is {said:?}", job.state)),
    }
}
