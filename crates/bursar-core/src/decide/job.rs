//! Decides operations on existing jobs: leases, and the actions of callers and of maintenance.

use crate::answer::{Answer, Enqueued, Finished, Submitted};
use crate::decide::decision::{Decision, Stop};
use crate::decide::finish::{self, barred_heads_not_loaded, finished, fund, park, release, rescue, retry_budget_later};
use crate::decide::{blob, lease};
use crate::event::Event;
use crate::id::JobId;
use crate::job::{Effect, Finish, HeartbeatItem, Job, JobAct, JobState, LeaseRequest};
use crate::mutant::Mutant;
use crate::name::Queue;
use crate::refusal::Refusal;
use crate::request::Act;
use crate::time::Span;

/// Leases jobs.
pub(super) fn lease(decision: &mut Decision<'_>, request: &LeaseRequest) -> Result<Answer, Stop> {
    lease::lease(decision, request).map(Answer::Leased).ok_or(Stop::Reload)
}

/// Renews leases. Each is answered by itself.
pub(super) fn heartbeat(decision: &mut Decision<'_>, beats: &[HeartbeatItem]) -> Answer {
    Answer::Renewed(beats.iter().map(|beat| lease::beat(decision, beat)).collect())
}

/// Ends leases. Each is answered by itself.
pub(super) fn finish(decision: &mut Decision<'_>, items: &[Finish]) -> Result<Answer, Stop> {
    let valid = items.iter().filter(|item| item.check().is_ok());
    if barred_heads_not_loaded(decision, valid.map(|item| item.job)) {
        return Err(Stop::Reload);
    }
    let end = |item: &Finish| item.check().map_err(Refusal::from).and_then(|()| finish::finish(decision, item));
    Ok(Answer::Finished(items.iter().map(end).collect()))
}

/// Executes an action on jobs. Each is answered by itself.
pub(super) fn act(decision: &mut Decision<'_>, act: &Act, jobs: &[JobId]) -> Result<Answer, Stop> {
    if barred_heads_not_loaded(decision, jobs.iter().copied()) {
        return Err(Stop::Reload);
    }
    Ok(Answer::Acted { each: jobs.iter().map(|job| act_on(decision, act, *job)).collect(), more: false })
}

/// Returns the answer to a request that enqueued one job.
pub(super) fn answer_enqueued(id: JobId) -> Answer {
    Answer::Submitted(Submitted { jobs: vec![Enqueued { id, created: true }], ..Submitted::default() })
}

fn act_on(decision: &mut Decision<'_>, act: &Act, id: JobId) -> Result<Finished, Refusal> {
    match act {
        Act::Cancel => cancel(decision, id)?,
        Act::Retry => retry(decision, id)?,
        Act::Discard => discard(decision, id)?,
        Act::Erase => erase(decision, id)?,
        Act::Move { queue } => move_to(decision, id, queue)?,
        Act::Edit { priority, delay } => edit(decision, id, *priority, *delay)?,
        Act::Rescue => return rescue(decision, id),
        Act::Resume => resume(decision, id)?,
        Act::Forget => return forget(decision, id),
        Act::Unbar => unbar(decision, id)?,
    }
    Ok(finished(decision.job(id)?))
}

/// Returns whether an action changes a job; refuses it if the job's state does not admit it.
fn changes(job: &Job, act: JobAct) -> Result<bool, Refusal> {
    match act.effect(job, job.life.state) {
        Effect::Changes => Ok(true),
        Effect::Nothing => Ok(false),
        Effect::Refused(problem) => Err(wrong_state(job, problem)),
    }
}

fn wrong_state(job: &Job, problem: &'static str) -> Refusal {
    Refusal::WrongState { job: job.id, state: job.life.state, problem: problem.into() }
}

/// Cancels a job. A leased job is only marked: its worker learns it from its next heartbeat.
pub(super) fn cancel(decision: &mut Decision<'_>, id: JobId) -> Result<(), Refusal> {
    let job = decision.job(id)?;
    if !changes(job, JobAct::Cancel)? {
        return Ok(());
    }
    if job.life.state == JobState::Leased {
        decision.emit(Event::JobCancelling { job: id });
        return Ok(());
    }
    let line = decision.line_to_leave(job)?;
    release(decision, id)?;
    decision.emit(Event::JobCancelled { job: id });
    line.and_then(|line| decision.promote_next(&line));
    Ok(())
}

fn retry(decision: &mut Decision<'_>, id: JobId) -> Result<(), Refusal> {
    let job = decision.job(id)?.clone();
    if !changes(&job, JobAct::Retry)? {
        return Ok(());
    }
    match job.life.state {
        JobState::Scheduled => edit(decision, id, None, Some(Span::ZERO)),
        JobState::AwaitingBudget => resume(decision, id),
        _ => {
            restart(decision, &job);
            Ok(())
        }
    }
}

/// Starts a dead or cancelled job over, with a hold like the one it had. If its budget refuses the hold, the job is parked.
fn restart(decision: &mut Decision<'_>, job: &Job) {
    match fund(decision, job) {
        Ok(Some(funding)) => {
            let hold = Some(funding.place(decision));
            decision.emit(Event::JobRetried { job: job.id, hold });
        }
        Ok(None) => decision.emit(Event::JobRetried { job: job.id, hold: None }),
        Err(shortage) => {
            decision.emit(Event::JobRetried { job: job.id, hold: None });
            park(decision, job.id, shortage);
        }
    }
}

fn discard(decision: &mut Decision<'_>, id: JobId) -> Result<(), Refusal> {
    if changes(decision.job(id)?, JobAct::Discard)? {
        decision.emit(Event::JobDiscarded { job: id });
    }
    Ok(())
}

fn erase(decision: &mut Decision<'_>, id: JobId) -> Result<(), Refusal> {
    if changes(decision.job(id)?, JobAct::Erase)? {
        decision.emit(Event::JobErased { job: id });
    }
    Ok(())
}

fn move_to(decision: &mut Decision<'_>, id: JobId, queue: &Queue) -> Result<(), Refusal> {
    let job = decision.job(id)?.clone();
    match job.life.state {
        _ if job.queue == *queue => Ok(()),
        JobState::Leased => Err(wrong_state(&job, "it is running")),
        JobState::Succeeded | JobState::Cancelled => Err(wrong_state(&job, "it has ended")),
        JobState::Dead => {
            changes(&job, JobAct::Retry)?;
            decision.emit(Event::JobMoved { job: id, queue: queue.clone() });
            restart(decision, &job);
            Ok(())
        }
        JobState::Scheduled | JobState::Queued | JobState::AwaitingBudget => {
            let line = decision.line_to_leave(&job)?;
            decision.emit(Event::JobMoved { job: id, queue: queue.clone() });
            line.and_then(|line| decision.promote_next(&line));
            Ok(())
        }
    }
}

fn edit(decision: &mut Decision<'_>, id: JobId, priority: Option<i16>, delay: Option<Span>) -> Result<(), Refusal> {
    let job = decision.job(id)?;
    if !matches!(job.life.state, JobState::Queued | JobState::Scheduled) {
        return Err(wrong_state(job, "only queued and scheduled jobs can be edited"));
    }
    let line = decision.line_to_leave(job)?;
    let run_at = delay.map_or(job.life.run_at, |delay| decision.now().after(delay));
    let priority = priority.unwrap_or(job.priority);
    decision.emit(Event::JobEdited { job: id, priority, run_at });
    // If the job still waits, it has joined the end of its line again, so the job behind it becomes the head.
    line.and_then(|line| decision.promote_next(&line));
    Ok(())
}

fn resume(decision: &mut Decision<'_>, id: JobId) -> Result<(), Refusal> {
    let job = decision.job(id)?.clone();
    if job.life.state != JobState::AwaitingBudget {
        return Ok(());
    }
    match fund(decision, &job) {
        Err(shortage) if job.life.awaits.as_ref() == Some(&shortage.scope) => {
            retry_budget_later(decision, id, &shortage);
        }
        // Another scope refuses the hold now, so the job waits for that one.
        Err(shortage) => park(decision, id, shortage),
        Ok(funding) => {
            let hold = match funding {
                Some(funding) => funding.place(decision),
                None => job.hold.expect("only a job with a hold waits for a budget"),
            };
            let scope = job.life.awaits.clone().expect("a parked job waits for a scope");
            decision.emit(Event::JobResumed { job: id, scope, hold });
        }
    }
    Ok(())
}

/// Makes a barred job ready. The next lease bars it again if its flow key is still at its limit. It has no event.
fn unbar(decision: &mut Decision<'_>, id: JobId) -> Result<(), Refusal> {
    decision.job(id)?;
    decision.ws.unbar(id);
    Ok(())
}

/// Removes a finished job, if the retention of its queue is over.
fn forget(decision: &mut Decision<'_>, id: JobId) -> Result<Finished, Refusal> {
    let job = decision.job(id)?;
    if !job.life.state.is_final() {
        return Err(wrong_state(job, "it has not ended"));
    }
    let kept = decision.config(&job.queue).kept(job.life.state);
    let due = kept.is_some_and(|kept| job.life.run_at.after(kept) <= decision.now()) || Mutant::ForgetTooSoon.on();
    let answer = finished(job);
    if due {
        let blobs = decision.job(id)?.life.blobs.clone();
        blob::release_job(decision, id, &blobs);
        decision.emit(Event::JobForgotten { job: id });
    }
    Ok(answer)
}
