//! Checks that every request passes before its operation is decided.

use crate::budget::Budget;
use crate::decide::decision::Stop;
use crate::decide::{Rules, blob, queue};
use crate::refusal::{Invalid, Refusal};
use crate::request::{BlobOp, CheckedRequest, Fingerprint, IfMatch, Op};
use crate::state::Workspace;
use crate::window::Window;

/// Checks that all scopes of the request are up to date. One transaction folds a bounded number of due charges and postings;
/// a request that needs a scope with more of them is decided in the next transaction.
pub(super) fn scopes_are_folded(ws: &Workspace, request: &CheckedRequest) -> Result<(), Stop> {
    let folded = ws.unfolded_scopes.is_empty()
        || !request.needs().scopes_in(ws).any(|scope| ws.unfolded_scopes.contains(&scope));
    if folded { Ok(()) } else { Err(Stop::Reload) }
}

/// Checks that no window of the request reaches further back than single postings are kept. Older postings exist only as
/// sums, so such a window could not be counted.
pub(super) fn windows_are_kept(request: &CheckedRequest, rules: &Rules) -> Result<(), Stop> {
    let beyond = |window: &&Window| window.reach() > rules.postings_kept;
    let found = match &request.op {
        Op::Submit(command) => {
            let given = command.charges.iter().flat_map(|charge| &charge.limits).map(|limit| &limit.window);
            let defaults = command.charges.iter().filter_map(|charge| charge.default.as_deref());
            given.chain(defaults.flat_map(Budget::windows)).find(beyond)
        }
        Op::Define { budget, .. } => budget.windows().find(beyond),
        _ => None,
    };
    let Some(window) = found else { return Ok(()) };
    Err(Invalid::new("window", format!("{window} reaches further back than postings are kept")).into())
}

/// Checks `if_match`: the definition is still the one that the caller has read.
pub(super) fn is_unchanged(ws: &Workspace, request: &CheckedRequest) -> Result<(), Stop> {
    let Some(expected) = request.if_match else { return Ok(()) };
    let tenant = &request.context.tenant;
    let (what, found) = match &request.op {
        Op::Define { scope, .. } | Op::RemoveBudget { scope } => {
            let row = ws.scopes.get(&(tenant.clone(), scope.clone()));
            ("budget", row.and_then(|row| row.budget.as_deref()).map(Fingerprint::of))
        }
        Op::DefineQueue { queue, .. } => ("queue", Some(Fingerprint::of(&queue::config(ws, &request.context, queue)))),
        Op::DefineSchedule { schedule, .. } | Op::RemoveSchedule { schedule } => {
            let row = ws.schedules.get(&(tenant.clone(), schedule.clone()));
            ("schedule", row.map(|row| Fingerprint::of(&row.spec)))
        }
        Op::Blob(BlobOp::DefineNamespace { namespace, .. }) => {
            ("namespace", Some(Fingerprint::of(&blob::config(ws, tenant, namespace))))
        }
        // An upload that several requests continue is unchanged if no other request has continued it.
        Op::Blob(BlobOp::Grow { blob, .. }) => {
            let row = ws.blobs.get(blob).filter(|row| row.tenant == *tenant);
            ("upload", row.map(|row| Fingerprint::of(&row.version)))
        }
        // An unknown job is answered as such.
        Op::Act { jobs, .. } => match jobs.first().and_then(|id| ws.jobs.get(id)).filter(|job| job.tenant == *tenant) {
            Some(job) => ("job", Some(job.fingerprint())),
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    let matches = match expected {
        IfMatch::Any => found.is_some(),
        IfMatch::Only(digest) => found == Some(digest),
    };
    if matches { Ok(()) } else { Err(Refusal::Changed { what }.into()) }
}

/// Checks that no calendar window of the request's scopes has ended in a time zone that this build does not know. The start
/// of the next window is never guessed.
pub(super) fn zones_are_known(ws: &Workspace, request: &CheckedRequest) -> Result<(), Stop> {
    if ws.unknown_zones.is_empty() {
        return Ok(());
    }
    let mut needed = request.needs().scopes_in(ws);
    match needed.find_map(|key| ws.unknown_zones.get(&key).map(|zone| (key.1, zone.clone()))) {
        Some((scope, zone)) => Err(Refusal::UnknownZone { scope, zone }.into()),
        None => Ok(()),
    }
}
