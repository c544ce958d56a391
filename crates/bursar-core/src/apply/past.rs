//! Applies the events that one row follows from, to compute how the row was at an earlier time.
//!
//! The events of a stream are few, and the journal links them; the events of everything that they touch may be the whole
//! journal. So only what the row follows from is applied: rows of other things come out incomplete and must not be read.

use crate::blob::Reference;
use crate::event::{Entry, Event, Stream};
use crate::hold::Hold;
use crate::id::{CommandId, HoldId};
use crate::name::Tenant;
use crate::state::Workspace;

use super::{apply, blob, scope};

/// An event cannot be applied, because the journal does not link everything that the row follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The command whose event cannot be applied.
    pub command: CommandId,
    /// The kind of the event.
    pub kind: &'static str,
}

impl Event {
    /// Returns whether the row of a stream follows from the event.
    pub fn shapes(&self, of: &Stream, tenant: &Tenant, command: CommandId) -> bool {
        if self.stream(tenant, command) == *of {
            return true;
        }
        match of {
            Stream::Scope(owner, scope) => owner == tenant && self.scopes().contains(&scope),
            // What a job's hold has set aside and cost is in the row of the job.
            Stream::Job(job) => match self {
                Event::HoldPlaced { job: owner, .. } => *owner == Some(*job),
                Event::BlobReferenced { by, .. } => *by == Reference::Job(*job),
                _ => self.settles().is_some(),
            },
            Stream::Blob(_) => matches!(self, Event::HoldPlaced { .. }),
            _ => false,
        }
    }

    /// Returns the hold that the event places, changes or settles.
    fn settles(&self) -> Option<HoldId> {
        match self {
            Event::HoldPlaced { hold, .. }
            | Event::HoldCommitted { hold, .. }
            | Event::HoldReleased { hold, .. }
            | Event::HoldExpired { hold, .. }
            | Event::HoldExtended { hold, .. } => Some(*hold),
            _ => None,
        }
    }
}

/// Applies what the row of one stream follows from. The rows that it needs must be loaded.
///
/// # Errors
/// When an event needs a row that no earlier event created, or leads to another version of the stream than the recorded
/// one: the events of the stream are not complete.
pub fn reapply_for(ws: &mut Workspace, entry: &Entry, of: &Stream) -> Result<(), Gap> {
    let tenant = &entry.context.tenant;
    for recorded in &entry.events {
        let event = &recorded.e;
        if !event.shapes(of, tenant, entry.id) {
            continue;
        }
        let gap = || Gap { command: entry.id, kind: event.kind() };
        let own = event.stream(tenant, entry.id) == *of;
        let version = match event {
            // Its parents are other rows.
            Event::BudgetDefined { scope, budget } => scope::define(ws, tenant, scope, budget).0,
            Event::BudgetRemoved { scope } => scope::remove(ws, tenant, scope).0,
            Event::BlobReferenced { blob, by } if own => {
                known(ws.blobs.get(blob), gap)?;
                blob::count_reference(ws, *blob, by)
            }
            Event::BlobReferenced { blob, by: Reference::Job(job) } => {
                known(ws.jobs.get(job), gap)?;
                blob::add_to_job(ws, *job, *blob);
                continue;
            }
            Event::JobBilled { charges, .. } if !own => {
                scope::post(ws, tenant, charges);
                continue;
            }
            // The slots of queues are not reconstructed: their scopes do not record which events free them.
            Event::JobLeased(_) if !own => return Err(gap()),
            Event::Credited { hold: Some(hold), beyond: Some(_), .. } if !is_known(ws, *hold) => return Err(gap()),
            _ => {
                if let Some(hold) = event.settles().filter(|_| !matches!(event, Event::HoldPlaced { .. })) {
                    match is_known(ws, hold) {
                        true => load_job(ws, hold),
                        false if matches!(of, Stream::Scope(..)) => return Err(gap()),
                        false => continue,
                    }
                }
                if let Some(job) = event.job().filter(|_| !matches!(event, Event::JobEnqueued { .. })) {
                    known(ws.jobs.get(&job), gap)?;
                }
                apply(ws, &entry.context, event)
            }
        };
        if own && version != recorded.v {
            return Err(gap());
        }
    }
    Ok(())
}

fn known<R>(row: Option<&R>, gap: impl FnOnce() -> Gap) -> Result<(), Gap> {
    row.map(drop).ok_or_else(gap)
}

fn is_known(ws: &Workspace, hold: HoldId) -> bool {
    ws.holds.is_loaded(&hold) && ws.holds.get(&hold).is_some()
}

/// Settling a hold changes the row of its job, if there is one.
fn load_job(ws: &mut Workspace, hold: HoldId) {
    if let Some(job) = ws.holds.get(&hold).and_then(|row: &Hold| row.job) {
        ws.jobs.load(job, None);
    }
}
