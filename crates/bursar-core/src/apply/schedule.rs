//! Applies the events of schedules.

use crate::event::{Event, Stream};
use crate::job::Schedule;
use crate::name::{ScheduleName, Tenant};
use crate::state::Workspace;

/// Applies an event of a schedule.
pub(super) fn apply(ws: &mut Workspace, tenant: &Tenant, event: &Event) -> u64 {
    match event {
        Event::ScheduleDefined { schedule, spec, next_at } => {
            let fresh = || Schedule {
                spec: (**spec).clone(),
                next_at: *next_at,
                last_tick: None,
                last_job: None,
                version: 0,
                last: None,
            };
            change_schedule(ws, tenant, schedule, |known| {
                let known = known.unwrap_or_else(fresh);
                Some(Schedule { spec: (**spec).clone(), next_at: *next_at, ..known })
            })
        }
        Event::ScheduleRemoved { schedule } => change_schedule(ws, tenant, schedule, |_| None),
        Event::ScheduleTicked { schedule, tick, job, next_at } => change_schedule(ws, tenant, schedule, |known| {
            Some(Schedule { next_at: *next_at, last_tick: Some(*tick), last_job: Some(*job), ..known? })
        }),
        Event::ScheduleSkipped { schedule, next_at, .. } => {
            change_schedule(ws, tenant, schedule, |known| Some(Schedule { next_at: *next_at, ..known? }))
        }
        other => unreachable!("{} is not an event of a schedule", other.kind()),
    }
}

/// Changes the row of a schedule, or removes it where `with` returns `None`. Returns the new version.
fn change_schedule(
    ws: &mut Workspace,
    tenant: &Tenant,
    name: &ScheduleName,
    with: impl FnOnce(Option<Schedule>) -> Option<Schedule>,
) -> u64 {
    let key = (tenant.clone(), name.clone());
    let known = ws.schedules.get(&key).cloned();
    let (version, last) = known.as_ref().map_or((1, None), |known| (known.version + 1, known.last));
    ws.link(|| Stream::Schedule(tenant.clone(), name.clone()), last);
    match with(known) {
        Some(row) => ws.schedules.put(key, Schedule { version, last: Some(ws.batch), ..row }),
        None => ws.schedules.remove(&key),
    }
    version
}
