//! Schedules: which ticks enqueue a job.

use crate::bounds::TICKS_MAX;
use crate::decide::deed::Deed;
use crate::decide::job::cancel;
use crate::event::Event;
use crate::id::JobId;
use crate::job::{Missed, ON_TIME, Overlap, Schedule, ScheduleSpec};
use crate::mutant::Mutant;
use crate::name::ScheduleName;
use crate::refusal::{Invalid, Refusal};
use crate::time::{Span, Time};

/// Registers or changes a schedule.
pub(super) fn define(deed: &mut Deed<'_>, name: &ScheduleName, spec: &ScheduleSpec) -> Result<(), Refusal> {
    let known = schedule(deed, name);
    // A schedule whose times stay the same keeps the ticks that are due; one that was paused begins anew.
    let same = known.as_ref().filter(|known| {
        (&known.spec.cron, &known.spec.zone) == (&spec.cron, &spec.zone) && !known.spec.paused && !spec.paused
    });
    let next_at = same.map_or_else(|| spec.next_after(deed.now()), |known| known.next_at);
    if next_at == Time::NEVER && !spec.paused {
        return Err(Invalid::new("cron", "never comes due any more").into());
    }
    deed.emit(Event::ScheduleDefined { schedule: name.clone(), spec: Box::new(spec.clone()), next_at });
    Ok(())
}

/// Removes a schedule; its jobs stay.
pub(super) fn remove(deed: &mut Deed<'_>, name: &ScheduleName) -> Result<(), Refusal> {
    known(deed, name)?;
    deed.emit(Event::ScheduleRemoved { schedule: name.clone() });
    Ok(())
}

/// Enqueues the job of a schedule now, whatever its ticks say.
pub(super) fn run(deed: &mut Deed<'_>, name: &ScheduleName) -> Result<Vec<JobId>, Refusal> {
    let schedule = known(deed, name)?;
    let tick = deed.now();
    enqueue(deed, name, &schedule, tick, schedule.next_at);
    Ok(schedule_jobs(deed))
}

/// Enqueues what is due. Nothing when somebody else was first.
pub(super) fn tick(deed: &mut Deed<'_>, name: &ScheduleName) -> Result<(), Refusal> {
    let Some(schedule) = schedule(deed, name) else { return Ok(()) };
    let (spec, now) = (&schedule.spec, deed.now());
    if spec.paused || (schedule.next_at > now && !Mutant::TickTwice.on()) {
        return Ok(());
    }
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
    let mut emitted = false;
    for tick in &wanted {
        let schedule = known(deed, name)?;
        emitted |= enqueue(deed, name, &schedule, *tick, next_at);
    }
    if !emitted {
        deed.emit(Event::ScheduleSkipped { schedule: name.clone(), tick: last, next_at });
    }
    Ok(())
}

/// Enqueues one job, unless the last one must end first. Whether it did.
fn enqueue(deed: &mut Deed<'_>, name: &ScheduleName, schedule: &Schedule, tick: Time, next_at: Time) -> bool {
    let running = schedule.last_job.filter(|id| {
        // One that was loaded is there; one that is not has ended long ago, or was enqueued by this very request.
        deed.ws.jobs.is_loaded(id) && deed.ws.jobs.get(id).is_some_and(|job| !job.life.state.is_final())
    });
    match (schedule.spec.overlap, running) {
        (Overlap::Skip, Some(_)) => return false,
        (Overlap::Cancel, Some(running)) => drop(cancel(deed, running)),
        _ => {}
    }
    let job = JobId(deed.ids.next_id(deed.ws.now));
    let spec = schedule.spec.job.clone();
    let run_at = deed.now().after(spec.delay.max(Span::ZERO));
    deed.emit(Event::JobEnqueued { job, spec: Box::new(spec), run_at, hold: None });
    deed.emit(Event::ScheduleTicked { schedule: name.clone(), tick, job, next_at });
    true
}

fn schedule_jobs(deed: &Deed<'_>) -> Vec<JobId> {
    let ticked = deed.events.iter().filter_map(|recorded| match &recorded.e {
        Event::ScheduleTicked { job, .. } => Some(*job),
        _ => None,
    });
    ticked.collect()
}

fn schedule(deed: &Deed<'_>, name: &ScheduleName) -> Option<Schedule> {
    deed.ws.schedules.get(&(deed.context.tenant.clone(), name.clone())).cloned()
}

fn known(deed: &Deed<'_>, name: &ScheduleName) -> Result<Schedule, Refusal> {
    schedule(deed, name).ok_or_else(|| Refusal::UnknownSchedule { schedule: name.clone() })
}
