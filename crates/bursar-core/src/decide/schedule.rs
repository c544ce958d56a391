//! Decides operations on schedules: which ticks enqueue a job.

use crate::bounds::TICKS_MAX;
use crate::decide::decision::Decision;
use crate::decide::job::cancel;
use crate::event::Event;
use crate::id::JobId;
use crate::job::{Job, JobState, Missed, ON_TIME, Overlap, Schedule, ScheduleSpec};
use crate::mutant::Mutant;
use crate::name::ScheduleName;
use crate::refusal::{Invalid, Refusal};
use crate::time::{Span, Time};

/// Defines or changes a schedule.
pub(super) fn define(decision: &mut Decision<'_>, name: &ScheduleName, spec: &ScheduleSpec) -> Result<(), Refusal> {
    let old = schedule(decision, name);
    // If cron and zone stay the same, ticks that are due stay due. After a pause, the next tick is in the future.
    let same_ticks = old
        .as_ref()
        .filter(|old| (&old.spec.cron, &old.spec.zone) == (&spec.cron, &spec.zone) && !old.spec.paused && !spec.paused);
    let next_at = same_ticks.map_or_else(|| spec.next_after(decision.now()), |old| old.next_at);
    if next_at == Time::NEVER && !spec.paused {
        return Err(Invalid::new("cron", "has no tick in the future").into());
    }
    decision.emit(Event::ScheduleDefined { schedule: name.clone(), spec: Box::new(spec.clone()), next_at });
    Ok(())
}

/// Pauses or resumes a schedule.
pub(super) fn pause(decision: &mut Decision<'_>, name: &ScheduleName, paused: bool) -> Result<(), Refusal> {
    let Schedule { spec, .. } = existing(decision, name)?;
    if spec.paused == paused {
        return Ok(());
    }
    spec.zone.check()?;
    define(decision, name, &ScheduleSpec { paused, ..spec })
}

/// Removes a schedule. Its jobs stay.
pub(super) fn remove(decision: &mut Decision<'_>, name: &ScheduleName) -> Result<(), Refusal> {
    existing(decision, name)?;
    decision.emit(Event::ScheduleRemoved { schedule: name.clone() });
    Ok(())
}

/// Enqueues the job of a schedule now, independent of its ticks.
pub(super) fn run(decision: &mut Decision<'_>, name: &ScheduleName) -> Result<JobId, Refusal> {
    let schedule = existing(decision, name)?;
    check_can_cancel(decision, &schedule)?;
    let (tick, next_at) = (decision.now(), schedule.next_at);
    enqueue(decision, name, &schedule, tick, next_at).map_err(|last| Refusal::WrongState {
        job: last.id,
        state: last.life.state,
        problem: "the schedule skips runs until this job has ended".into(),
    })
}

/// Enqueues the jobs of due ticks. Does nothing if another process has done it already.
pub(super) fn tick(decision: &mut Decision<'_>, name: &ScheduleName) -> Result<(), Refusal> {
    let Some(schedule) = schedule(decision, name) else { return Ok(()) };
    let (spec, now) = (&schedule.spec, decision.now());
    if spec.paused || (schedule.next_at > now && !Mutant::TickTwice.on()) {
        return Ok(());
    }
    // This build cannot compute the ticks of an unknown zone. A build with newer zone data continues from here.
    spec.zone.check()?;
    check_can_cancel(decision, &schedule)?;
    let first = schedule.next_at;
    let mut due = vec![first];
    due.extend(spec.cron.ticks(&spec.zone, first, now, TICKS_MAX - 1));
    let last = *due.last().expect("the first tick is due");
    let next_at = spec.next_after(last);
    let more = next_at <= now;
    let on_time = |tick: &Time| *tick == last && !more && now.since(*tick) <= ON_TIME;
    let wanted: Vec<Time> = match spec.missed {
        Missed::All => due,
        Missed::Skip => due.into_iter().filter(on_time).collect(),
        // If more ticks are due than one request handles, the job is enqueued for the last of them, by a later request.
        Missed::One if more => Vec::new(),
        Missed::One => vec![last],
    };
    let mut ticked = false;
    for tick in &wanted {
        let schedule = existing(decision, name)?;
        ticked |= enqueue(decision, name, &schedule, *tick, next_at).is_ok();
    }
    if !ticked {
        decision.emit(Event::ScheduleSkipped { schedule: name.clone(), tick: last, next_at });
    }
    Ok(())
}

/// Enqueues one job. Fails with the last job if that must end first.
fn enqueue(
    decision: &mut Decision<'_>,
    name: &ScheduleName,
    schedule: &Schedule,
    tick: Time,
    next_at: Time,
) -> Result<JobId, Box<Job>> {
    match (schedule.spec.overlap, unfinished_job(decision, schedule)) {
        (Overlap::Skip, Some(last)) => return Err(Box::new(last.clone())),
        (Overlap::Cancel, Some(last)) => {
            let id = last.id;
            cancel(decision, id).expect("`check_can_cancel` has passed");
        }
        _ => {}
    }
    let job = JobId(decision.ids.next_id(decision.ws.now));
    let spec = schedule.spec.job.clone();
    let run_at = decision.now().after(spec.delay.max(Span::ZERO));
    decision.emit(Event::JobEnqueued { job, spec: Box::new(spec), run_at, hold: None });
    decision.emit(Event::ScheduleTicked { schedule: name.clone(), tick, job, next_at });
    Ok(job)
}

/// Returns the last job of a schedule if it has not ended. A job without a row has ended and was removed.
fn unfinished_job<'a>(decision: &'a Decision<'_>, schedule: &Schedule) -> Option<&'a Job> {
    decision.ws.jobs.get(&schedule.last_job?).filter(|job| !job.life.state.is_final())
}

/// Refuses if the schedule would have to cancel its last job and that job cannot leave its line now. It is called before
/// the first event is applied, because an applied event cannot be undone.
fn check_can_cancel(decision: &Decision<'_>, schedule: &Schedule) -> Result<(), Refusal> {
    match unfinished_job(decision, schedule) {
        Some(job) if schedule.spec.overlap == Overlap::Cancel && job.life.state != JobState::Leased => {
            decision.line_to_leave(job).map(drop)
        }
        _ => Ok(()),
    }
}

fn schedule(decision: &Decision<'_>, name: &ScheduleName) -> Option<Schedule> {
    decision.ws.schedules.get(&(decision.context.tenant.clone(), name.clone())).cloned()
}

fn existing(decision: &Decision<'_>, name: &ScheduleName) -> Result<Schedule, Refusal> {
    schedule(decision, name).ok_or_else(|| Refusal::UnknownSchedule { schedule: name.clone() })
}
