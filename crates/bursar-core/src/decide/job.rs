//! Work on jobs that are there: leases, and what operators and the upkeep do to jobs.

use crate::answer::{Answer, Enqueued, Finished, Submitted};
use crate::decide::deed::Deed;
use crate::decide::finish::{finish, finished, fund, line_unknown, look_later, park, release, rescue};
use crate::decide::lease::{beat, lease};
use crate::decide::schedule;
use crate::event::Event;
use crate::id::JobId;
use crate::job::{Finish, Job, JobState};
use crate::mutant::Mutant;
use crate::name::Queue;
use crate::refusal::Refusal;
use crate::request::{Act, Op};
use crate::time::Span;

/// What was done, or `None` when rows are lacking: load again. A refusal comes before anything has happened.
pub(super) fn work(deed: &mut Deed<'_>, op: &Op) -> Option<Result<Answer, Refusal>> {
    let answer = match op {
        Op::Lease(ask) => Answer::Leased(lease(deed, ask)?),
        Op::Heartbeat { beats } => Answer::Beaten(beats.iter().map(|one| beat(deed, one)).collect()),
        Op::Finish { items } => {
            let sound = items.iter().filter(|item| item.check().is_ok());
            if line_unknown(deed, sound.map(|item| item.job)) {
                return None;
            }
            let end = |item: &Finish| item.check().map_err(Refusal::from).and_then(|()| finish(deed, item));
            Answer::Finished(items.iter().map(end).collect())
        }
        Op::Act { act, jobs } => {
            if line_unknown(deed, jobs.iter().copied()) {
                return None;
            }
            Answer::Acted { each: jobs.iter().map(|job| act_on(deed, act, *job)).collect(), more: false }
        }
        Op::DefineSchedule { schedule, spec } => {
            return Some(schedule::define(deed, schedule, spec).map(|()| Answer::Done));
        }
        Op::PauseSchedule { schedule, paused } => {
            return Some(schedule::pause(deed, schedule, *paused).map(|()| Answer::Done));
        }
        Op::RemoveSchedule { schedule } => return Some(schedule::remove(deed, schedule).map(|()| Answer::Done)),
        Op::RunSchedule { schedule } => return Some(schedule::run(deed, schedule).map(enqueued)),
        Op::Tick { schedule } => return Some(schedule::tick(deed, schedule).map(|()| Answer::Done)),
        other => unreachable!("{other:?} is no work on jobs"),
    };
    Some(Ok(answer))
}

fn enqueued(id: JobId) -> Answer {
    Answer::Submitted(Submitted { jobs: vec![Enqueued { id, created: true }], ..Submitted::default() })
}

fn act_on(deed: &mut Deed<'_>, act: &Act, id: JobId) -> Result<Finished, Refusal> {
    match act {
        Act::Cancel => cancel(deed, id)?,
        Act::Retry => retry(deed, id)?,
        Act::Discard => discard(deed, id)?,
        Act::Move { queue } => move_to(deed, id, queue)?,
        Act::Edit { priority, delay } => edit(deed, id, *priority, *delay)?,
        Act::Rescue => return rescue(deed, id),
        Act::Resume => resume(deed, id)?,
        Act::Forget => return forget(deed, id),
        Act::Unbar => unbar(deed, id)?,
    }
    Ok(finished(deed.job(id)?))
}

fn wrong(job: &Job, problem: &'static str) -> Refusal {
    Refusal::WrongState { job: job.id, state: job.life.state, problem: problem.into() }
}

pub(super) fn cancel(deed: &mut Deed<'_>, id: JobId) -> Result<(), Refusal> {
    let job = deed.job(id)?;
    match job.life.state {
        JobState::Cancelled => Ok(()),
        JobState::Succeeded | JobState::Dead => Err(wrong(job, "it has ended")),
        JobState::Leased if job.life.cancelling => Ok(()),
        JobState::Leased => {
            deed.emit(Event::JobCancelling { job: id });
            Ok(())
        }
        JobState::Queued | JobState::Scheduled | JobState::AwaitingBudget => {
            let line = deed.leaving(job)?;
            release(deed, id)?;
            deed.emit(Event::JobCancelled { job: id });
            line.and_then(|line| deed.next_in(&line));
            Ok(())
        }
    }
}

fn retry(deed: &mut Deed<'_>, id: JobId) -> Result<(), Refusal> {
    let job = deed.job(id)?.clone();
    match job.life.state {
        JobState::Dead | JobState::Cancelled => {
            again(deed, &job);
            Ok(())
        }
        JobState::Scheduled => edit(deed, id, None, Some(Span::ZERO)),
        JobState::Queued => Ok(()),
        JobState::AwaitingBudget => resume(deed, id),
        JobState::Leased => Err(wrong(&job, "it runs")),
        JobState::Succeeded => Err(wrong(&job, "it has ended well")),
    }
}

/// A job that was given up begins anew, with a hold like the one it had.
fn again(deed: &mut Deed<'_>, job: &Job) {
    match fund(deed, job) {
        Ok(Some(placed)) => {
            let Event::HoldPlaced { hold, .. } = &placed else { unreachable!("it is a hold that funds") };
            let hold = Some(*hold);
            deed.emit(placed);
            deed.emit(Event::JobRetried { job: job.id, hold });
        }
        Ok(None) => deed.emit(Event::JobRetried { job: job.id, hold: None }),
        Err(lacking) => {
            deed.emit(Event::JobRetried { job: job.id, hold: None });
            park(deed, job.id, lacking);
        }
    }
}

fn discard(deed: &mut Deed<'_>, id: JobId) -> Result<(), Refusal> {
    let job = deed.job(id)?;
    if job.life.state != JobState::Dead {
        return Err(wrong(job, "only dead ones can be discarded"));
    }
    deed.emit(Event::JobDiscarded { job: id });
    Ok(())
}

fn move_to(deed: &mut Deed<'_>, id: JobId, queue: &Queue) -> Result<(), Refusal> {
    let job = deed.job(id)?.clone();
    match job.life.state {
        _ if job.queue == *queue => Ok(()),
        JobState::Leased => Err(wrong(&job, "it runs")),
        JobState::Succeeded | JobState::Cancelled => Err(wrong(&job, "it has ended")),
        JobState::Dead => {
            deed.emit(Event::JobMoved { job: id, queue: queue.clone() });
            again(deed, &job);
            Ok(())
        }
        JobState::Scheduled | JobState::Queued | JobState::AwaitingBudget => {
            let line = deed.leaving(&job)?;
            deed.emit(Event::JobMoved { job: id, queue: queue.clone() });
            line.and_then(|line| deed.next_in(&line));
            Ok(())
        }
    }
}

fn edit(deed: &mut Deed<'_>, id: JobId, priority: Option<i16>, delay: Option<Span>) -> Result<(), Refusal> {
    let job = deed.job(id)?;
    if !matches!(job.life.state, JobState::Queued | JobState::Scheduled) {
        return Err(wrong(job, "only those that wait can be edited"));
    }
    let line = deed.leaving(job)?;
    let run_at = delay.map_or(job.life.run_at, |delay| deed.now().after(delay));
    let priority = priority.unwrap_or(job.priority);
    deed.emit(Event::JobEdited { job: id, priority, run_at });
    // It has joined the line again at its end, if it still waits in it; the next was waiting before.
    line.and_then(|line| deed.next_in(&line));
    Ok(())
}

fn resume(deed: &mut Deed<'_>, id: JobId) -> Result<(), Refusal> {
    let job = deed.job(id)?.clone();
    if job.life.state != JobState::AwaitingBudget {
        return Ok(());
    }
    match fund(deed, &job) {
        Err(lacking) if job.life.awaits.as_ref() == Some(&lacking.scope) => look_later(deed, id, &lacking),
        // Another scope says no by now: that is the one to wait for.
        Err(lacking) => park(deed, id, lacking),
        Ok(placed) => {
            let hold = match &placed {
                Some(Event::HoldPlaced { hold, .. }) => *hold,
                _ => job.hold.expect("only a job with a hold waits for a budget"),
            };
            placed.into_iter().for_each(|placed| deed.emit(placed));
            let scope = job.life.awaits.clone().expect("it waits for one");
            deed.emit(Event::JobResumed { job: id, scope, hold });
        }
    }
    Ok(())
}

/// Whoever wants work finds it again, and bars it again where its key is still at its limit. Nothing has happened.
fn unbar(deed: &mut Deed<'_>, id: JobId) -> Result<(), Refusal> {
    deed.job(id)?;
    deed.ws.unbar(id);
    Ok(())
}

fn forget(deed: &mut Deed<'_>, id: JobId) -> Result<Finished, Refusal> {
    let job = deed.job(id)?;
    if !job.life.state.is_final() {
        return Err(wrong(job, "it has not ended"));
    }
    let kept = deed.config(&job.queue).kept(job.life.state);
    let due = kept.is_some_and(|kept| job.life.run_at.after(kept) <= deed.now()) || Mutant::ForgetTooSoon.on();
    let told = finished(job);
    if due {
        deed.emit(Event::JobForgotten { job: id });
    }
    Ok(told)
}
