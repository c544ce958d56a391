//! What an event does to the rows. The one place, for new events and for replayed ones.

use std::sync::Arc;

use crate::budget::Budget;
use crate::context::Context;
use crate::event::{Charged, Event, Stream};
use crate::grant::{Grant, GrantState};
use crate::hold::{self, Hold, HoldState};
use crate::id::{GrantId, HoldId};
use crate::job::Job;
use crate::name::{Scope, Tenant};
use crate::scope::{Freeze, LiveCharge, ScopeState};
use crate::state::{ScopeKey, Workspace};
use crate::time::Time;
use crate::window::Window;

/// Applies an event and returns the version of its stream after it.
pub(crate) fn apply(ws: &mut Workspace, context: &Context, event: &Event) -> u64 {
    let tenant = &context.tenant;
    match event {
        Event::HoldPlaced { hold, charges, expires_at, life_until, late, overrun, job } => {
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
            };
            name_windows(ws, tenant, charges);
            for (scope, amount) in placed.totals() {
                let (now, key) = (ws.now, (tenant.clone(), scope));
                touch_scope(ws, &key).hold(now, *expires_at, amount);
                ws.add_live(key, LiveCharge { expires_at: *expires_at, hold: *hold, placed_at: now, amount });
            }
            ws.holds.put(*hold, placed);
            1
        }
        Event::HoldCommitted { hold, charges, late, .. } => {
            let settled = end_hold(ws, *hold, HoldState::Committed, charges);
            let held = settled.totals();
            let actual = hold::sums(settled.charges.iter(), |charge| charge.actual.unwrap_or(charge.amount));
            let actual = actual.expect("it was checked when the commit was decided");
            let now = ws.now;
            for (scope, held) in held {
                let spent = actual[&scope];
                // The held part belongs to the window it was placed in, the rest to this moment; all of it when late.
                let (covered, beyond) = if *late { (0, spent) } else { (spent.min(held), (spent - held).max(0)) };
                let key = (tenant.clone(), scope);
                let row = touch_scope(ws, &key);
                let postings: Vec<_> = [(settled.placed_at, covered), (now, beyond)]
                    .into_iter()
                    .filter(|(_, amount)| *amount != 0)
                    .map(|(at, amount)| row.number(at, amount, Some(*hold)))
                    .collect();
                row.settle(settled.placed_at, if *late { 0 } else { held }, &postings);
                row.rearm_trip();
                ws.postings.extend(postings.into_iter().map(|posting| (key.clone(), posting)));
                ws.remove_live(key, settled.expires_at, *hold);
            }
            settled.version
        }
        Event::HoldReleased { hold, charges } => {
            let settled = end_hold(ws, *hold, HoldState::Released, charges);
            for (scope, held) in settled.totals() {
                let key = (tenant.clone(), scope);
                touch_scope(ws, &key).release(settled.placed_at, held);
                ws.remove_live(key, settled.expires_at, *hold);
            }
            settled.version
        }
        Event::HoldExpired { hold, .. } => {
            // Its units came back when the scopes were brought to this instant.
            let settled = end_hold(ws, *hold, HoldState::Expired, &[]);
            for scope in settled.totals().into_keys() {
                let key = (tenant.clone(), scope);
                touch_scope(ws, &key);
                ws.remove_live(key, settled.expires_at, *hold);
            }
            settled.version
        }
        Event::HoldExtended { hold, expires_at } => {
            let row = touch_hold(ws, *hold);
            let before = std::mem::replace(&mut row.expires_at, *expires_at);
            let (placed_at, totals, version) = (row.placed_at, row.totals(), row.version);
            for (scope, amount) in totals {
                let key = (tenant.clone(), scope);
                let row = touch_scope(ws, &key);
                row.next_expiry = row.next_expiry.min(*expires_at);
                ws.remove_live(key.clone(), before, *hold);
                ws.add_live(key, LiveCharge { expires_at: *expires_at, hold: *hold, placed_at, amount });
            }
            version
        }
        Event::Posted { charges } => {
            name_windows(ws, tenant, charges);
            post(ws, tenant, ws.now, charges, None, 1);
            1
        }
        Event::Credited { charge, at, hold } => {
            let charges = std::slice::from_ref(charge);
            post(ws, tenant, *at, charges, *hold, -1);
            ws.scopes.get(&(tenant.clone(), charge.scope.clone())).expect("it was just credited").version
        }
        Event::BudgetDefined { scope, budget } => {
            let now = ws.now;
            let row = touch_scope(ws, &(tenant.clone(), scope.clone()));
            let before = row.budget.replace(Arc::new((**budget).clone()));
            row.redefined = true;
            for window in budget.windows() {
                row.name_window(window, now);
            }
            carry_bucket(row, before.as_deref(), budget);
            row.version
        }
        Event::BudgetFrozen { scope } => {
            let row = touch_scope(ws, &(tenant.clone(), scope.clone()));
            row.frozen = Some(Freeze::Order { actor: context.actor.clone(), reason: context.reason.clone() });
            row.version
        }
        Event::BudgetTripped { scope, window, until, .. } => {
            let row = touch_scope(ws, &(tenant.clone(), scope.clone()));
            // An order outlasts the window; who lifts it has been told of the trip.
            if !matches!(row.frozen, Some(Freeze::Order { .. })) {
                row.frozen = Some(Freeze::Trip { window: window.clone(), until: *until });
            }
            if let Some(balance) = row.balances.iter_mut().find(|balance| balance.window == *window) {
                balance.tripped = true;
            }
            row.version
        }
        Event::BudgetUnfrozen { scope, .. } => {
            let row = touch_scope(ws, &(tenant.clone(), scope.clone()));
            row.frozen = None;
            row.version
        }
        Event::BudgetCrossed { scope, window, percent, .. } => mark(ws, tenant, scope, window, |crossed| {
            crossed.push(*percent);
            crossed.sort_unstable();
        }),
        Event::BudgetCleared { scope, window, percent } => {
            mark(ws, tenant, scope, window, |crossed| crossed.retain(|known| known != percent))
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
        Event::GrantPurged { grant } => {
            let version = end_grant(ws, *grant, GrantState::Revoked);
            ws.grants.remove(grant);
            version
        }
        Event::JobEnqueued { job, spec, run_at, hold } => {
            let spec = (**spec).clone();
            if let Some(key) = &spec.idempotency_key {
                ws.job_keys.put((tenant.clone(), spec.queue.clone(), key.clone()), *job);
            }
            let enqueued = Job {
                id: *job,
                tenant: tenant.clone(),
                queue: spec.queue,
                kind: spec.kind,
                payload: spec.payload,
                idempotency_key: spec.idempotency_key,
                key: spec.key,
                tags: spec.tags,
                priority: spec.priority,
                run_at: *run_at,
                max_attempts: spec.max_attempts,
                hold: *hold,
                enqueued_at: ws.now,
                version: 1,
                last: Some(ws.batch),
            };
            ws.jobs.put(*job, enqueued);
            1
        }
        Event::JobFound { .. } => 0,
    }
}

/// The scope's row, counted as touched by an event of this batch.
fn touch_scope<'a>(ws: &'a mut Workspace, key: &ScopeKey) -> &'a mut ScopeState {
    let (now, batch) = (ws.now, ws.batch);
    if ws.scopes.get(key).is_none() {
        ws.scopes.put(key.clone(), ScopeState::default());
    }
    let row = ws.scopes.get_mut(key).expect("it was just put");
    row.version += 1;
    row.seen = row.seen.max(now);
    let last = row.last.replace(batch);
    ws.link(&Stream::Scope(key.0.clone(), key.1.clone()), last);
    ws.scopes.get_mut(key).expect("it was just there")
}

fn touch_hold(ws: &mut Workspace, hold: HoldId) -> &mut Hold {
    let batch = ws.batch;
    let row = ws.holds.get_mut(&hold).expect("an event of a hold follows its placing");
    row.version += 1;
    let last = row.last.replace(batch);
    ws.link(&Stream::Hold(hold), last);
    ws.holds.get_mut(&hold).expect("it was just there")
}

/// Writes down how a hold ended, and returns it.
fn end_hold(ws: &mut Workspace, hold: HoldId, state: HoldState, charges: &[Charged]) -> Hold {
    let row = touch_hold(ws, hold);
    row.state = state;
    for (held, charged) in row.charges.iter_mut().zip(charges) {
        held.actual = charged.actual;
    }
    row.clone()
}

fn end_grant(ws: &mut Workspace, grant: GrantId, state: GrantState) -> u64 {
    let batch = ws.batch;
    let row = ws.grants.get_mut(&grant).expect("an event of a grant follows its minting");
    row.state = state;
    row.version += 1;
    let version = row.version;
    let last = row.last.replace(batch);
    ws.link(&Stream::Grant(grant), last);
    version
}

/// The windows a caller names are in use from now on.
fn name_windows(ws: &mut Workspace, tenant: &Tenant, charges: &[Charged]) {
    let now = ws.now;
    for charge in charges.iter().filter(|charge| !charge.limits.is_empty()) {
        let key = (tenant.clone(), charge.scope.clone());
        if ws.scopes.get(&key).is_none() {
            ws.scopes.put(key.clone(), ScopeState::default());
        }
        let row = ws.scopes.get_mut(&key).expect("it was just put");
        for limit in &charge.limits {
            row.name_window(&limit.window, now);
        }
    }
}

fn post(ws: &mut Workspace, tenant: &Tenant, at: Time, charges: &[Charged], hold: Option<HoldId>, sign: i64) {
    let charges: Vec<_> = charges.iter().map(Charged::charge).collect();
    let sums = hold::sums(charges.iter(), |charge| charge.amount).expect("it was checked when the spend was decided");
    for (scope, amount) in sums {
        let key = (tenant.clone(), scope);
        let row = touch_scope(ws, &key);
        let posting = (amount != 0).then(|| row.number(at, sign * amount, hold));
        row.settle(at, 0, posting.as_slice());
        row.rearm_trip();
        ws.postings.extend(posting.map(|posting| (key, posting)));
    }
}

fn mark(ws: &mut Workspace, tenant: &Tenant, scope: &Scope, window: &Window, set: impl FnOnce(&mut Vec<u32>)) -> u64 {
    let row = touch_scope(ws, &(tenant.clone(), scope.clone()));
    if let Some(balance) = row.balances.iter_mut().find(|balance| balance.window == *window) {
        set(&mut balance.crossed);
    }
    row.version
}

/// A bucket that is made larger or smaller keeps what has been taken out of it.
fn carry_bucket(row: &mut ScopeState, before: Option<&Budget>, after: &Budget) {
    let Some((old, new)) = before.and_then(|before| before.replaced_bucket(after)) else { return };
    let Some(taken) = row.balance(old).map(|balance| (balance.spent(), balance.held, balance.since)) else { return };
    row.balances.retain(|balance| balance.window != *old);
    if let Some(balance) = row.balances.iter_mut().find(|balance| balance.window == *new) {
        balance.carry(taken);
    }
}
