//! Work on jobs that are there: leases, and what operators and the upkeep do to jobs.

use crate::answer::{Answer, Enqueued, Finished, Submitted};
use crate::decide::decision::Decision;
use crate::decide::decision::Stop;
use crate::decide::finish::{self, finished, fund, line_unknown, look_later, park, release, rescue};
use crate::decide::lease;
use crate::event::Event;
use crate::id::JobId;
use crate::job::{Beat, Finish, Job, JobState, LeaseAsk};
use crate::mutant::Mutant;
use crate::name::Queue;
use crate::refusal::Refusal;
use crate::request::Act;
use crate::time::Span;

/// Leases jobs.
pub(super) fn lease(decision: &mut Decision<'_>, ask: &LeaseAsk) -> Result<Answer, Stop> {
    lease::lease(decision, ask).map(Answer::Leased).ok_or(Stop::Reload)
}

/// Renews leases, each for itself.
pub(super) fn heartbeat(decision: &mut Decision<'_>, beats: &[Beat]) -> Answer {
    Answer::Beaten(beats.iter().map(|beat| lease::beat(decision, beat)).collect())
}

/// Ends leases, each for itself.
pub(super) fn finish(decision: &mut Decision<'_>, items: &[Finish]) -> Result<Answer, Stop> {
    let valid = items.iter().filter(|item| item.check().is_ok());
    if line_unknown(decision, valid.map(|item| item.job)) {
        return Err(Stop::Reload);
    }
    let end = |item: &Finish| item.check().map_err(Refusal::from).and_then(|()| finish::finish(decision, item));
    Ok(Answer::Finished(items.iter().map(end).collect()))
}

/// Does something to jobs, each for itself.
pub(super) fn act(decision: &mut Decision<'_>, act: &Act, jobs: &[JobId]) -> Result<Answer, Stop> {
    if line_unknown(decision, jobs.iter().copied()) {
        return Err(Stop::Reload);
    }
    Ok(Answer::Acted { each: jobs.iter().map(|job| act_on(decision, act, *job)).collect(), more: false })
}

/// The answer to a request that enqueued one job.
pub(super) fn enqueued(id: JobId) -> Answer {
    Answer::Submitted(Submitted { jobs: vec![Enqueued { id, created: true }], ..Submitted::default() })
}

fn act_on(decision: &mut Decision<'_>, act: &Act, id: JobId) -> Result<Finished, Refusal> {
    match act {
        Act::Cancel => cancel(decision, id)?,
        Act::Retry => retry(decision, id)?,
        Act::Discard => discard(decision, id)?,
        Act::Move { queue } => move_to(decision, id, queue)?,
        Act::Edit { priority, delay } => edit(decision, id, *priority, *delay)?,
        Act::Rescue => return rescue(decision, id),
        Act::Resume => resume(decision, id)?,
        Act::Forget => return forget(decision, id),
        Act::Unbar => unbar(decision, id)?,
    }
    Ok(finished(decision.job(id)?))
}

fn wrong(job: &Job, problem: &'static str) -> Refusal {
    Refusal::WrongState { job: job.id, state: job.life.state, problem: problem.into() }
}

pub(super) fn cancel(decision: &mut Decision<'_>, id: JobId) -> Result<(), Refusal> {
    let job = decision.job(id)?;
    match job.life.state {
        JobState::Cancelled => Ok(()),
        JobState::Succeeded | JobState::Dead => Err(wrong(job, "it has ended")),
        JobState::Leased if job.life.cancelling => Ok(()),
        JobState::Leased => {
            decision.emit(Event::JobCancelling { job: id });
            Ok(())
        }
        JobState::Queued | JobState::Scheduled | JobState::AwaitingBudget => {
            let line = decision.leaving(job)?;
            release(decision, id)?;
            decision.emit(Event::JobCancelled { job: id });
            line.and_then(|line| decision.next_in(&line));
            Ok(())
        }
    }
}

fn retry(decision: &mut Decision<'_>, id: JobId) -> Result<(), Refusal> {
    let job = decision.job(id)?.clone();
    match job.life.state {
        JobState::Dead | JobState::Cancelled => {
            again(decision, &job);
            Ok(())
        }
        JobState::Scheduled => edit(decision, id, None, Some(Span::ZERO)),
        JobState::Queued => Ok(()),
        JobState::AwaitingBudget => resume(decision, id),
        JobState::Leased => Err(wrong(&job, "it runs")),
        JobState::Succeeded => Err(wrong(&job, "it has ended well")),
    }
}

/// A job that was given up begins anew, with a hold like the one it had.
fn again(decision: &mut Decision<'_>, job: &Job) {
    match fund(decision, job) {
        Ok(Some(placed)) => {
            let Event::HoldPlaced { hold, .. } = &placed else { unreachable!("it is a hold that funds") };
            let hold = Some(*hold);
            decision.emit(placed);
            decision.emit(Event::JobRetried { job: job.id, hold });
        }
        Ok(None) => decision.emit(Event::JobRetried { job: job.id, hold: None }),
        Err(lacking) => {
            decision.emit(Event::JobRetried { job: job.id, hold: None });
            park(decision, job.id, lacking);
        }
    }
}

fn discard(decision: &mut Decision<'_>, id: JobId) -> Result<(), Refusal> {
    let job = decision.job(id)?;
    if job.life.state != JobState::Dead {
        return Err(wrong(job, "only dead ones can be discarded"));
    }
    decision.emit(Event::JobDiscarded { job: id });
    Ok(())
}

fn move_to(decision: &mut Decision<'_>, id: JobId, queue: &Queue) -> Result<(), Refusal> {
    let job = decision.job(id)?.clone();
    match job.life.state {
        _ if job.queue == *queue => Ok(()),
        JobState::Leased => Err(wrong(&job, "it runs")),
        JobState::Succeeded | JobState::Cancelled => Err(wrong(&job, "it has ended")),
        JobState::Dead => {
            decision.emit(Event::JobMoved { job: id, queue: queue.clone() });
            again(decision, &job);
            Ok(())
        }
        JobState::Scheduled | JobState::Queued | JobState::AwaitingBudget => {
            let line = decision.leaving(&job)?;
            decision.emit(Event::JobMoved { job: id, queue: queue.clone() });
            line.and_then(|line| decision.next_in(&line));
            Ok(())
        }
    }
}

fn edit(decision: &mut Decision<'_>, id: JobId, priority: Option<i16>, delay: Option<Span>) -> Result<(), Refusal> {
    let job = decision.job(id)?;
    if !matches!(job.life.state, JobState::Queued | JobState::Scheduled) {
        return Err(wrong(job, "only those that wait can be edited"));
    }
    let line = decision.leaving(job)?;
    let run_at = delay.map_or(job.life.run_at, |delay| decision.now().after(delay));
    let priority = priority.unwrap_or(job.priority);
    decision.emit(Event::JobEdited { job: id, priority, run_at });
    // It has joined the line again at its end, if it still waits in it; the next was waiting before.
    line.and_then(|line| decision.next_in(&line));
    Ok(())
}

fn resume(decision: &mut Decision<'_>, id: JobId) -> Result<(), Refusal> {
    let job = decision.job(id)?.clone();
    if job.life.state != JobState::AwaitingBudget {
        return Ok(());
    }
    match fund(decision, &job) {
        Err(lacking) if job.life.awaits.as_ref() == Some(&lacking.scope) => look_later(decision, id, &lacking),
        // Another scope says no by now: that is the one to wait for.
        Err(lacking) => park(decision, id, lacking),
        Ok(placed) => {
            let hold = match &placed {
                Some(Event::HoldPlaced { hold, .. }) => *hold,
                _ => job.hold.expect("only a job with a hold waits for a budget"),
            };
            placed.into_iter().for_each(|placed| decision.emit(placed));
            let scope = job.life.awaits.clone().expect("it waits for one");
            decision.emit(Event::JobResumed { job: id, scope, hold });
        }
    }
    Ok(())
}

/// Whoever wants work finds it again, and bars it again where its key is still at its limit. Nothing has happened.
fn unbar(decision: &mut Decision<'_>, id: JobId) -> Result<(), Refusal> {
    decision.job(id)?;
    decision.ws.unbar(id);
    Ok(())
}

fn forget(decision: &mut Decision<'_>, id: JobId) -> Result<Finished, Refusal> {
    let job = decision.job(id)?;
    if !job.life.state.is_final() {
        return Err(wrong(job, "it has not ended"));
    }
    let kept = decision.config(&job.queue).kept(job.life.state);
    let due = kept.is_some_and(|kept| job.life.run_at.after(kept) <= decision.now()) || Mutant::ForgetTooSoon.on();
    let told = finished(job);
    if due {
        decision.emit(Event::JobForgotten { job: id });
    }
    Ok(told)
}
