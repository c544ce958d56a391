//! Schedules: which ticks enqueue a job.

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

/// Registers or changes a schedule.
pub(super) fn define(decision: &mut Decision<'_>, name: &ScheduleName, spec: &ScheduleSpec) -> Result<(), Refusal> {
    let known = schedule(decision, name);
    // A schedule whose times stay the same keeps the ticks that are due; one that was paused begins anew.
    let same = known.as_ref().filter(|known| {
        (&known.spec.cron, &known.spec.zone) == (&spec.cron, &spec.zone) && !known.spec.paused && !spec.paused
    });
    let next_at = same.map_or_else(|| spec.next_after(decision.now()), |known| known.next_at);
    if next_at == Time::NEVER && !spec.paused {
        return Err(Invalid::new("cron", "never comes due any more").into());
    }
    decision.emit(Event::ScheduleDefined { schedule: name.clone(), spec: Box::new(spec.clone()), next_at });
    Ok(())
}

/// Stops a schedule or lets it begin anew.
pub(super) fn pause(decision: &mut Decision<'_>, name: &ScheduleName, paused: bool) -> Result<(), Refusal> {
    let Schedule { spec, .. } = known(decision, name)?;
    if spec.paused == paused {
        return Ok(());
    }
    spec.zone.check()?;
    define(decision, name, &ScheduleSpec { paused, ..spec })
}

/// Removes a schedule; its jobs stay.
pub(super) fn remove(decision: &mut Decision<'_>, name: &ScheduleName) -> Result<(), Refusal> {
    known(decision, name)?;
    decision.emit(Event::ScheduleRemoved { schedule: name.clone() });
    Ok(())
}

/// Enqueues the job of a schedule now, whatever its ticks say.
pub(super) fn run(decision: &mut Decision<'_>, name: &ScheduleName) -> Result<JobId, Refusal> {
    let schedule = known(decision, name)?;
    can_cancel(decision, &schedule)?;
    let (tick, next_at) = (decision.now(), schedule.next_at);
    enqueue(decision, name, &schedule, tick, next_at).map_err(|running| Refusal::WrongState {
        job: running.id,
        state: running.life.state,
        problem: "the schedule leaves out what comes before it has ended".into(),
    })
}

/// Enqueues what is due. Nothing when somebody else was first.
pub(super) fn tick(decision: &mut Decision<'_>, name: &ScheduleName) -> Result<(), Refusal> {
    let Some(schedule) = schedule(decision, name) else { return Ok(()) };
    let (spec, now) = (&schedule.spec, decision.now());
    if spec.paused || (schedule.next_at > now && !Mutant::TickTwice.on()) {
        return Ok(());
    }
    // In a zone that this build does not know no tick would follow: a build that knows it goes on from here.
    spec.zone.check()?;
    can_cancel(decision, &schedule)?;
    let first = schedule.next_at;
    let mut due = vec![first];
    due.extend(spec.cron.ticks(&spec.zone, first, now, TICKS_MAX - 1));
    let last = *due.last().expect("the first is among them");
    let next_at = spec.next_after(last);
    let more = next_at <= now;
    let on_time = |tick: &Time| *tick == last && !more && now.since(*tick) <= ON_TIME;
    let wanted: Vec<Time> = match spec.missed {
        Missed::All => due,
        Missed::Skip => due.into_iter().filter(on_time).collect(),
        // Where even more are due than one step takes, the last of them speaks for all.
        Missed::One if more => Vec::new(),
        Missed::One => vec![last],
    };
    let mut ticked = false;
    for tick in &wanted {
        let schedule = known(decision, name)?;
        ticked |= enqueue(decision, name, &schedule, *tick, next_at).is_ok();
    }
    if !ticked {
        decision.emit(Event::ScheduleSkipped { schedule: name.clone(), tick: last, next_at });
    }
    Ok(())
}

/// Enqueues one job, unless the last one must end first: that one then.
fn enqueue(
    decision: &mut Decision<'_>,
    name: &ScheduleName,
    schedule: &Schedule,
    tick: Time,
    next_at: Time,
) -> Result<JobId, Box<Job>> {
    match (schedule.spec.overlap, running(decision, schedule)) {
        (Overlap::Skip, Some(running)) => return Err(Box::new(running.clone())),
        (Overlap::Cancel, Some(running)) => {
            let id = running.id;
            cancel(decision, id).expect("it has not ended, and can leave its line");
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

/// The job of the last tick, while it has not ended. One that is not there any more ended long ago.
fn running<'a>(decision: &'a Decision<'_>, schedule: &Schedule) -> Option<&'a Job> {
    decision.ws.jobs.get(&schedule.last_job?).filter(|job| !job.life.state.is_final())
}

/// Refuses, before anything has happened, what would have to cancel a job that cannot be cancelled now.
fn can_cancel(decision: &Decision<'_>, schedule: &Schedule) -> Result<(), Refusal> {
    match running(decision, schedule) {
        Some(job) if schedule.spec.overlap == Overlap::Cancel && job.life.state != JobState::Leased => {
            decision.leaving(job).map(drop)
        }
        _ => Ok(()),
    }
}

fn schedule(decision: &Decision<'_>, name: &ScheduleName) -> Option<Schedule> {
    decision.ws.schedules.get(&(decision.context.tenant.clone(), name.clone())).cloned()
}

fn known(decision: &Decision<'_>, name: &ScheduleName) -> Result<Schedule, Refusal> {
    schedule(decision, name).ok_or_else(|| Refusal::UnknownSchedule { schedule: name.clone() })
}
