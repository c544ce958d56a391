//! Decides how holds end: commit, release, extend, expire; and credits.
//!
//! A commit posts the actual units, which may differ from those held. Units above the held ones (an overrun) and a
//! commit after expiry are charged in full and flagged, unless the hold's policy refuses them; no limit refuses them,
//! because they have been spent. If the expiry has posted units, a late commit posts or credits the difference. A hold that a job owns is settled by the end of the job only. Which instant each part
//! counts for is documented at [`Balance`](crate::scope::Balance).

use std::collections::{BTreeMap, BTreeSet};

use crate::apply::late_parts;
use crate::budget::Cover;
use crate::context::Context;
use crate::decide::admit::{self, Objections};
use crate::event::{Charged, Event};
use crate::hold::{ClampedTtl, HeldCharge, Hold, HoldState, Uncovered, sums};
use crate::id::HoldId;
use crate::mutant::Mutant;
use crate::name::{Scope, Tenant};
use crate::refusal::Refusal;
use crate::request::Actual;
use crate::scope::{Posting, ScopeState};
use crate::state::Workspace;
use crate::time::{Span, Time};
use crate::window::Window;

/// Commits a hold with its actual units.
pub(super) fn commit(ws: &Workspace, context: &Context, id: HoldId, actual: &Actual) -> Result<Vec<Event>, Refusal> {
    let hold = find_settleable(ws, context, id)?;
    let late = match hold.state_at(ws.now) {
        HoldState::Held => false,
        HoldState::Expired if hold.late == Cover::Refuse && !Mutant::ChargeLateAnyway.on() => {
            return Err(Refusal::LateRefused { hold: id, at: hold.expires_at });
        }
        HoldState::Expired => true,
        state => return Err(Refusal::AlreadySettled { hold: id, state }),
    };
    let charges = with_actuals(hold, actual)?;
    let over = charges.iter().find(|charge| charge.actual.is_some_and(|actual| actual > charge.amount));
    if let Some(charge) = over.filter(|_| hold.overrun == Cover::Refuse && !Mutant::AdmitOverrun.on()) {
        return Err(Refusal::OverrunRefused {
            hold: id,
            scope: charge.scope.clone(),
            held: charge.amount,
            actual: charge.actual.unwrap_or(charge.amount),
        });
    }
    Ok(vec![commit_event(ws, &context.tenant, hold, charges, late)?])
}

/// Commits the hold of a job with its actual units. They have been spent, so no policy refuses them.
pub(super) fn commit_owned(
    ws: &Workspace,
    tenant: &Tenant,
    hold: &Hold,
    charges: Vec<HeldCharge>,
) -> Result<Event, Refusal> {
    commit_event(ws, tenant, hold, charges, false)
}

/// Builds the event that commits a hold with the actual units of each charge.
fn commit_event(
    ws: &Workspace,
    tenant: &Tenant,
    hold: &Hold,
    charges: Vec<HeldCharge>,
    late: bool,
) -> Result<Event, Refusal> {
    let mut overrun = 0i64;
    for charge in &charges {
        let spent = charge.actual.expect("every charge has its actual units");
        overrun = overrun.saturating_add((spent - charge.amount).max(0));
        overrun *= i64::from(!Mutant::HideOverrun.on());
    }
    let spent = sums(charges.iter(), |charge| charge.actual.unwrap_or(0))?;
    let held = if late { BTreeMap::new() } else { hold.totals() };
    let charged = if late { hold.expiry_totals() } else { BTreeMap::new() };
    let scopes = spent.keys().cloned().collect();
    let change = |scope: &Scope| {
        let (held, spent) = (held.get(scope).copied().unwrap_or(0), spent[scope]);
        if late {
            return (0, late_parts(hold, ws.now, charged.get(scope).copied().unwrap_or(0), spent));
        }
        let covered = spent.min(held);
        (held, [(hold.placed_at, covered), (ws.now, spent - covered)])
    };
    let charges = charges_after(ws, tenant, hold.placed_at, charges, &scopes, change)?;
    Ok(Event::HoldCommitted { hold: hold.id, charges, late, overrun })
}

/// Charges spend that has happened and that no hold covers, and computes what the limits leave after it.
pub(super) fn charge_spent(ws: &Workspace, tenant: &Tenant, spent: Vec<HeldCharge>) -> Result<Vec<Charged>, Refusal> {
    let sums = sums(spent.iter(), |charge| charge.amount)?;
    let scopes = sums.keys().cloned().collect();
    charges_after(ws, tenant, Time::MIN, spent, &scopes, |scope| (0, [(ws.now, sums[scope]), (ws.now, 0)]))
}

/// Releases a hold.
pub(super) fn release(ws: &Workspace, context: &Context, id: HoldId) -> Result<Vec<Event>, Refusal> {
    let hold = find_settleable(ws, context, id)?;
    match hold.state_at(ws.now) {
        HoldState::Held => {}
        state => return Err(Refusal::AlreadySettled { hold: id, state }),
    }
    Ok(vec![release_owned(ws, &context.tenant, hold)?])
}

/// Releases a hold, also one that a job owns.
pub(super) fn release_owned(ws: &Workspace, tenant: &Tenant, hold: &Hold) -> Result<Event, Refusal> {
    let held = hold.totals();
    let scopes = held.keys().cloned().collect();
    let change = |scope: &Scope| (held[scope], [(ws.now, 0), (ws.now, 0)]);
    let charges = charges_after(ws, tenant, hold.placed_at, hold.charges.clone(), &scopes, change)?;
    Ok(Event::HoldReleased { hold: hold.id, charges })
}

/// Extends a hold that has not expired, up to the longest life that its budgets allow.
pub(super) fn extend(ws: &Workspace, context: &Context, id: HoldId, by: Span) -> Result<Vec<Event>, Refusal> {
    let hold = find_settleable(ws, context, id)?;
    match hold.state_at(ws.now) {
        HoldState::Held => {}
        HoldState::Expired if Mutant::SkipExpiryCheck.on() => {}
        HoldState::Expired => return Err(Refusal::HoldExpired { hold: id, at: hold.expires_at }),
        state => return Err(Refusal::AlreadySettled { hold: id, state }),
    }
    let scopes: Vec<Scope> = hold.totals().into_keys().collect();
    let mut objections = Objections::default();
    for scope in &scopes {
        if let Some(row) = admit::row(ws, &context.tenant, scope) {
            objections.check_freeze(ws, scope, row, 0);
        }
    }
    let mut events = objections.into_events()?;
    let expires_at = hold.extended(by);
    if expires_at <= hold.expires_at {
        return Err(Refusal::LifeExceeded { hold: id, until: hold.life_until });
    }
    let clamped = ClampedTtl::of(by, expires_at.since(hold.expires_at));
    events.push(Event::HoldExtended { hold: id, expires_at, scopes, clamped });
    Ok(events)
}

/// Credits units to a scope and its ancestors. A credit that names a hold goes to the ancestors that the hold was
/// placed on, and counts for the instants of the spend it reverses.
pub(super) fn credit(
    ws: &Workspace,
    context: &Context,
    scope: &Scope,
    amount: i64,
    hold: Option<HoldId>,
) -> Result<Vec<Event>, Refusal> {
    let tenant = &context.tenant;
    let row = admit::row(ws, tenant, scope).filter(|row| row.version > 0);
    let row = row.ok_or_else(|| Refusal::UnknownScope { scope: scope.clone() })?;
    let spent = row.balance(&Window::Lifetime).map_or(0, |balance| balance.posted);
    // What earlier credits have given back beyond all spend is not counted again.
    let excess = amount.saturating_sub(spent.max(0)).max(0);
    let named = hold.map(|id| find(ws, context, id)).transpose()?;
    let charge = match named {
        None => HeldCharge {
            scope: scope.clone(),
            amount,
            actual: None,
            ancestors: ws.ancestors(tenant, scope),
            limits: Vec::new(),
        },
        Some(hold) => {
            let charge = hold.charges.iter().find(|charge| charge.scope == *scope);
            let charge = charge.ok_or_else(|| Refusal::NoSuchCharge { hold: hold.id, scope: scope.clone() })?;
            HeldCharge { amount, actual: None, ..charge.clone() }
        }
    };
    let parts = |scope: &Scope| match named {
        None => [(ws.now, amount), (ws.now, 0)],
        Some(hold) => hold.credited(scope, amount, ws.now),
    };
    let (at, beyond) = match named.map(|hold| (hold, &hold.beyond)) {
        None => (ws.now, None),
        Some((hold, None)) => (hold.covered_at(ws.now), None),
        Some((hold, Some(beyond))) if hold.is_beyond() => (beyond.at, None),
        Some((hold, Some(beyond))) => {
            let taken = charge.scopes().map(|scope| (scope.clone(), parts(scope)[0].1));
            let left: BTreeMap<_, _> = taken.filter(|(_, amount)| *amount > 0).collect();
            (hold.covered_at(ws.now), (!left.is_empty()).then_some(Uncovered { at: beyond.at, left }))
        }
    };
    let scopes = charge.scopes().cloned().collect();
    let change = |scope: &Scope| (0, parts(scope).map(|(at, amount)| (at, -amount)));
    let mut charges = charges_after(ws, tenant, Time::MIN, vec![charge], &scopes, change)?;
    Ok(vec![Event::Credited { charge: charges.remove(0), at, hold, beyond, excess }])
}

/// Records the expiry of those of the holds that have expired.
pub(super) fn expire(ws: &Workspace, context: &Context, holds: &[HoldId]) -> Vec<Event> {
    let holds: BTreeSet<&HoldId> = holds.iter().collect();
    let due = holds
        .into_iter()
        .filter_map(|id| find(ws, context, *id).ok())
        .filter(|hold| hold.state == HoldState::Held && hold.state_at(ws.now) == HoldState::Expired);
    due.map(|hold| Event::HoldExpired {
        hold: hold.id,
        at: hold.expires_at,
        scopes: hold.totals().into_keys().collect(),
        charged: hold.on_expiry.units(),
    })
    .collect()
}

/// Returns a hold of the request's tenant. A hold of another tenant is reported as unknown.
fn find<'a>(ws: &'a Workspace, context: &Context, id: HoldId) -> Result<&'a Hold, Refusal> {
    let is_known = |hold: &&Hold| hold.tenant == context.tenant || Mutant::SettleAcrossTenants.on();
    let hold = ws.holds.get(&id).filter(is_known);
    hold.ok_or(Refusal::UnknownHold { hold: id })
}

/// Returns a hold that callers may settle: no job owns it.
fn find_settleable<'a>(ws: &'a Workspace, context: &Context, id: HoldId) -> Result<&'a Hold, Refusal> {
    let hold = find(ws, context, id)?;
    match hold.job {
        Some(job) if hold.state == HoldState::Held => Err(Refusal::OwnedByJob { hold: id, job }),
        _ => Ok(hold),
    }
}

/// Returns the charges of a hold with the actual units that the caller reports; those held where it reports none.
fn with_actuals(hold: &Hold, actual: &Actual) -> Result<Vec<HeldCharge>, Refusal> {
    let mut charges = hold.charges.clone();
    for charge in &mut charges {
        charge.actual = Some(charge.amount);
    }
    match actual {
        Actual::Held => {}
        Actual::Amount(amount) => match charges.as_mut_slice() {
            [only] => only.actual = Some(*amount),
            several => return Err(Refusal::ActualAmbiguous { hold: hold.id, charges: several.len() }),
        },
        Actual::Each(each) => {
            for (scope, amount) in each {
                let charge = charges.iter_mut().find(|charge| charge.scope == *scope);
                let charge = charge.ok_or_else(|| Refusal::NoSuchCharge { hold: hold.id, scope: scope.clone() })?;
                charge.actual = Some(*amount);
            }
        }
    }
    Ok(charges)
}

/// Computes what the limits of each charge leave after the scopes have changed. For each scope, `change` returns the
/// held units that are freed, and two postings (instant and amount). Refuses only if a balance would overflow.
fn charges_after(
    ws: &Workspace,
    tenant: &Tenant,
    placed_at: Time,
    charges: Vec<HeldCharge>,
    scopes: &BTreeSet<Scope>,
    change: impl Fn(&Scope) -> (i64, [(Time, i64); 2]),
) -> Result<Vec<Charged>, Refusal> {
    let mut after: BTreeMap<&Scope, ScopeState> = BTreeMap::new();
    for scope in scopes {
        let mut row = admit::row(ws, tenant, scope).cloned().unwrap_or_default();
        let (held, parts) = change(scope);
        if !row.can_take(held, parts[0].1 + parts[1].1) {
            return Err(Refusal::Overflow { scope: scope.clone() });
        }
        let postings = parts.map(|(at, amount)| Posting { at, seq: u64::MAX, amount, hold: None });
        row.settle(placed_at, held, &postings);
        after.insert(scope, row);
    }
    let charged = charges.into_iter().map(|charge| {
        let left =
            admit::left(|scope| after.get(scope).or_else(|| admit::row(ws, tenant, scope)), &charge, |_, left| left);
        Charged::new(charge, left)
    });
    Ok(charged.collect())
}
