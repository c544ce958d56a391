//! Applies the events of holds.

use std::collections::BTreeMap;

use crate::event::Charged;
use crate::event::Stream;
use crate::hold::{Hold, HoldState, Uncovered, sums};
use crate::id::HoldId;
use crate::live::LiveCharge;
use crate::mutant::Mutant;
use crate::name::Tenant;
use crate::state::Workspace;
use crate::time::Time;

use super::scope::{name_windows, touch_scope};

/// Stores a new hold and sets its units aside on every scope it charges.
pub(super) fn placed(ws: &mut Workspace, placed: Hold, charges: &[Charged]) -> u64 {
    let (now, tenant) = (ws.now, placed.tenant.clone());
    let (hold, expires_at) = (placed.id, placed.expires_at);
    name_windows(ws, &tenant, charges);
    let posted = placed.expiry_totals();
    for (scope, amount) in placed.totals() {
        let on_expiry = posted.get(&scope).copied().unwrap_or(0);
        let key = (tenant.clone(), scope);
        let row = touch_scope(ws, &key);
        row.hold(now, expires_at, amount);
        let spilled = row.add_live(LiveCharge { expires_at, hold, placed_at: now, amount, on_expiry });
        ws.spill(&key, spilled);
    }
    ws.holds.put(hold, placed);
    1
}

/// Posts the actual units of a hold and frees what it held.
///
/// The covered part is posted for the instant the hold was placed; an overrun, or all of a late commit, is posted for
/// now. If the expiry has posted units, a late commit posts only the difference. See [`crate::scope::Balance`].
pub(super) fn committed(ws: &mut Workspace, tenant: &Tenant, hold: HoldId, charges: &[Charged], late: bool) -> u64 {
    let mut settled = end_hold(ws, hold, HoldState::Committed, charges);
    for charge in settled.charges.iter_mut().filter(|_| Mutant::SettlePresentChain.on()) {
        charge.ancestors = ws.ancestors(tenant, &charge.scope);
    }
    let held = settled.totals();
    let actual = sums(settled.charges.iter(), |charge| charge.actual.unwrap_or(charge.amount));
    let actual = actual.expect("the sums were checked when the commit was decided");
    let now = ws.now;
    // What is posted already, or covered by held units.
    let covered = if late { settled.expiry_totals() } else { held.clone() };
    let over = covered.iter().map(|(scope, covered)| (scope.clone(), actual[scope] - covered));
    let left: BTreeMap<_, _> = over.filter(|(_, over)| *over > 0).collect();
    if late || !left.is_empty() {
        ws.holds.get_mut(&hold).expect("the hold was just ended").beyond = Some(Uncovered { at: now, left });
    }
    for (scope, held) in held {
        let spent = actual[&scope];
        let parts = if late {
            late_parts(&settled, now, covered.get(&scope).copied().unwrap_or(0), spent)
        } else {
            [(settled.placed_at, spent.min(held)), (now, (spent - held).max(0))]
        };
        let key = (tenant.clone(), scope);
        let row = touch_scope(ws, &key);
        let postings: Vec<_> = parts
            .into_iter()
            .filter(|(_, amount)| *amount != 0 && !(late && Mutant::ForgetLateCommit.on()))
            .map(|(at, amount)| row.next_posting(at, amount, Some(hold)))
            .collect();
        let back = if Mutant::KeepTheRest.on() { held.min(spent) } else { held };
        row.settle(settled.placed_at, if late { 0 } else { back }, &postings);
        row.rearm_trip();
        ws.postings.extend(postings.into_iter().map(|posting| (key.clone(), posting)));
        ws.remove_live(key, settled.expires_at, hold);
    }
    if let Some(job) = settled.job {
        super::job::charge_committed(ws, job, charges);
        super::job::set_aside(ws, job, None);
    }
    settled.version
}

/// Returns the postings of a late commit of `spent` units on a scope, on which the expiry has posted `charged`. Units that
/// are added count for now; units that are given back count for the expiry, like those they reverse.
pub(crate) fn late_parts(hold: &Hold, now: Time, charged: i64, spent: i64) -> [(Time, i64); 2] {
    let charged = if Mutant::ChargeExpiryTwice.on() { 0 } else { charged };
    [(hold.expires_at, (spent - charged).min(0)), (now, (spent - charged).max(0))]
}

/// Frees the units of a hold.
pub(super) fn released(ws: &mut Workspace, tenant: &Tenant, hold: HoldId, charges: &[Charged]) -> u64 {
    let settled = end_hold(ws, hold, HoldState::Released, charges);
    for (scope, held) in settled.totals() {
        let key = (tenant.clone(), scope);
        touch_scope(ws, &key).release(settled.placed_at, held);
        ws.remove_live(key, settled.expires_at, hold);
    }
    if let Some(job) = settled.job {
        super::job::set_aside(ws, job, None);
    }
    settled.version
}

/// Records that a hold has expired.
pub(super) fn expired(ws: &mut Workspace, tenant: &Tenant, hold: HoldId) -> u64 {
    // Its units were freed, or posted, when the scopes were brought to this instant.
    let settled = end_hold(ws, hold, HoldState::Expired, &[]);
    for scope in settled.totals().into_keys() {
        let key = (tenant.clone(), scope);
        touch_scope(ws, &key);
        ws.remove_live(key, settled.expires_at, hold);
    }
    settled.version
}

/// Moves the expiry of a hold.
pub(super) fn extended(ws: &mut Workspace, tenant: &Tenant, hold: HoldId, expires_at: Time) -> u64 {
    let row = touch_hold(ws, hold);
    let before = std::mem::replace(&mut row.expires_at, expires_at);
    let (placed_at, totals, posted, version) = (row.placed_at, row.totals(), row.expiry_totals(), row.version);
    for (scope, amount) in totals {
        let on_expiry = posted.get(&scope).copied().unwrap_or(0);
        let key = (tenant.clone(), scope);
        let row = touch_scope(ws, &key);
        row.next_expiry = row.next_expiry.min(expires_at);
        ws.remove_live(key.clone(), before, hold);
        ws.add_live(&key, LiveCharge { expires_at, hold, placed_at, amount, on_expiry });
    }
    version
}

/// Returns the row of a hold, counted as touched by an event of this batch.
fn touch_hold(ws: &mut Workspace, hold: HoldId) -> &mut Hold {
    let batch = ws.batch;
    let row = ws.holds.get_mut(&hold).expect("a hold is placed before its other events");
    row.version += 1;
    let last = row.last.replace(batch);
    ws.link(|| Stream::Hold(hold), last);
    ws.holds.get_mut(&hold).expect("the row was just read")
}

/// Records the end of a hold and returns the hold.
fn end_hold(ws: &mut Workspace, hold: HoldId, state: HoldState, charges: &[Charged]) -> Hold {
    let now = ws.now;
    let row = touch_hold(ws, hold);
    (row.state, row.ended_at) = (state, Some(now));
    for (held, charged) in row.charges.iter_mut().zip(charges) {
        held.actual = charged.actual;
    }
    row.clone()
}
