//! Applying events to rows. New events and replayed ones go through the same code.
//!
//! Applying cannot fail: `decide` has checked everything, and a replayed event was decided before. Each event adds one
//! to the version of its stream and links the batch to the one that touched the stream before, so that history can be
//! read backwards. The journal records the version, and replay asserts that it comes out the same.
//!
//! # Rebuild
//!
//! Replaying the journal into empty tables gives the same rows, except for what follows from time and has no event:
//!
//! - of scopes: how far they are folded (`folded`, `evicted`, `seen`, the next due instants) and prospective windows,
//! - of jobs: whether a scheduled one was found due, the end of a lease (heartbeats), progress reported since the last
//!   checkpoint, when a parked one is tried again, and position and rank under a flow key, which
//!   [`compute_lines`](crate::job::compute_lines) computes again,
//! - what maintenance deletes: expired idempotency keys, rolled-up postings, old figures and unused flow scopes.

mod blob;
mod hold;
mod job;
mod past;
mod schedule;
mod scope;

pub(crate) use self::hold::late_parts;
pub use self::past::{Gap, reapply_for};
use crate::budget::WouldRefuse;
use crate::context::Context;
use crate::event::{Charged, Event, Stream};
use crate::grant::{Grant, GrantState};
use crate::hold::{Hold, HoldState};
use crate::id::GrantId;
use crate::payload::Payload;
use crate::scope::Freeze;
use crate::state::{ScopeKeyRef, Workspace};

/// Applies an event and returns the new version of its stream.
pub(crate) fn apply(ws: &mut Workspace, context: &Context, event: &Event) -> u64 {
    let tenant = &context.tenant;
    match event {
        Event::HoldPlaced { hold, charges, expires_at, life_until, late, overrun, job, on_expiry, .. } => {
            let placed = Hold {
                id: *hold,
                tenant: tenant.clone(),
                state: HoldState::Held,
                placed_at: ws.now,
                expires_at: *expires_at,
                life_until: *life_until,
                late: *late,
                overrun: *overrun,
                job: *job,
                charges: charges.iter().map(Charged::charge).collect(),
                version: 1,
                last: Some(ws.batch),
                beyond: None,
                on_expiry: *on_expiry,
                ended_at: None,
                blob: None,
            };
            hold::placed(ws, placed, charges)
        }
        Event::HoldCommitted { hold, charges, late, .. } => hold::committed(ws, tenant, *hold, charges, *late),
        Event::HoldReleased { hold, charges } => hold::released(ws, tenant, *hold, charges),
        Event::HoldExpired { hold, .. } => hold::expired(ws, tenant, *hold),
        Event::HoldExtended { hold, expires_at, .. } => hold::extended(ws, tenant, *hold, *expires_at),
        Event::Posted { charges } => {
            scope::name_windows(ws, tenant, charges);
            scope::post(ws, tenant, charges);
            1
        }
        Event::Credited { charge, at, hold, beyond, .. } => {
            scope::credit(ws, tenant, *at, charge, *hold, beyond.as_ref());
            ws.scopes.get(&ScopeKeyRef(tenant, &charge.scope)).expect("the scope was just credited").version
        }
        Event::BudgetDefined { scope, budget } => scope::defined(ws, tenant, scope, budget),
        Event::BudgetRemoved { scope } => scope::removed(ws, tenant, scope),
        Event::BudgetFrozen { scope } => {
            let order = Freeze::Order { actor: context.actor.clone(), reason: context.reason.clone() };
            scope::frozen(ws, tenant, scope, Some(order))
        }
        Event::BudgetTripped { scope, window, until, .. } => scope::tripped(ws, tenant, scope, window, *until),
        Event::BudgetUnfrozen { scope, .. } => scope::frozen(ws, tenant, scope, None),
        Event::BudgetCrossed { scope, window, percent, .. } => scope::mark(ws, tenant, scope, window, |crossed| {
            crossed.push(*percent);
            crossed.sort_unstable();
        }),
        Event::BudgetCleared { scope, window, percent } => {
            scope::mark(ws, tenant, scope, window, |crossed| crossed.retain(|known| known != percent))
        }
        Event::BudgetWouldRefuse(WouldRefuse { scope, .. }) => {
            scope::touch_scope(ws, &(tenant.clone(), scope.clone())).version
        }
        Event::GrantMinted { grant, digest, purpose, subject, payload, expires_at } => {
            let minted = Grant {
                id: *grant,
                tenant: tenant.clone(),
                digest: *digest,
                purpose: purpose.clone(),
                subject: subject.clone(),
                payload: payload.clone(),
                expires_at: *expires_at,
                state: GrantState::Open,
                version: 1,
                last: Some(ws.batch),
            };
            ws.grants.put(*grant, minted);
            1
        }
        Event::GrantRedeemed { grant, .. } => end_grant(ws, *grant, GrantState::Redeemed),
        Event::GrantRevoked { grant } => end_grant(ws, *grant, GrantState::Revoked),
        Event::GrantCurtailed { grant, expires_at } => change_grant(ws, *grant, |row| row.expires_at = *expires_at),
        Event::GrantErased { grant } => change_grant(ws, *grant, |row| row.payload = Payload::erased()),
        // The journal has the instant of use; the row only gets a new version.
        Event::GrantUsed { grant } => change_grant(ws, *grant, |_| {}),
        Event::GrantPurged { grant } => {
            let version = end_grant(ws, *grant, GrantState::Revoked);
            ws.grants.remove(grant);
            version
        }
        Event::ScheduleDefined { .. }
        | Event::ScheduleRemoved { .. }
        | Event::ScheduleTicked { .. }
        | Event::ScheduleSkipped { .. } => schedule::apply(ws, tenant, event),
        Event::NamespaceDefined { .. } => blob::apply(ws, context, event),
        _ if event.blob().is_some() => blob::apply(ws, context, event),
        _ => job::apply(ws, context, event),
    }
}

fn end_grant(ws: &mut Workspace, grant: GrantId, state: GrantState) -> u64 {
    change_grant(ws, grant, |row| row.state = state)
}

fn change_grant(ws: &mut Workspace, grant: GrantId, change: impl FnOnce(&mut Grant)) -> u64 {
    let batch = ws.batch;
    let row = ws.grants.get_mut(&grant).expect("a grant is minted before its other events");
    change(row);
    row.version += 1;
    let version = row.version;
    let last = row.last.replace(batch);
    ws.link(|| Stream::Grant(grant), last);
    version
}
