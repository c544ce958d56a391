//! What events do to scopes.

use std::sync::Arc;

use crate::budget::Budget;
use crate::event::{Charged, Stream};
use crate::hold::sums;
use crate::id::HoldId;
use crate::name::{Scope, Tenant};
use crate::scope::{Freeze, ScopeState};
use crate::state::{ScopeKey, Workspace};
use crate::time::Time;
use crate::window::Window;

/// Units are spent, or given back when `sign` is negative.
pub(super) fn post(
    ws: &mut Workspace,
    tenant: &Tenant,
    at: Time,
    charges: &[Charged],
    hold: Option<HoldId>,
    sign: i64,
) {
    let charges: Vec<_> = charges.iter().map(Charged::charge).collect();
    let sums = sums(charges.iter(), |charge| charge.amount).expect("it was checked when the spend was decided");
    for (scope, amount) in sums {
        let key = (tenant.clone(), scope);
        let row = touch_scope(ws, &key);
        let posting = (amount != 0).then(|| row.number(at, sign * amount, hold));
        row.settle(at, 0, posting.as_slice());
        row.rearm_trip();
        ws.postings.extend(posting.map(|posting| (key, posting)));
    }
}

/// A budget is registered or changed.
pub(super) fn defined(ws: &mut Workspace, tenant: &Tenant, scope: &Scope, budget: &Budget) -> u64 {
    let now = ws.now;
    let row = touch_scope(ws, &(tenant.clone(), scope.clone()));
    let before = row.budget.replace(Arc::new(budget.clone()));
    row.redefined = true;
    for window in budget.windows() {
        row.name_window(window, now);
    }
    carry_bucket(row, before.as_deref(), budget);
    row.version
}

/// New spend is refused, or admitted again.
pub(super) fn frozen(ws: &mut Workspace, tenant: &Tenant, scope: &Scope, freeze: Option<Freeze>) -> u64 {
    let row = touch_scope(ws, &(tenant.clone(), scope.clone()));
    row.frozen = freeze;
    row.version
}

/// The trip limit was passed.
pub(super) fn tripped(ws: &mut Workspace, tenant: &Tenant, scope: &Scope, window: &Window, until: Option<Time>) -> u64 {
    let row = touch_scope(ws, &(tenant.clone(), scope.clone()));
    // An order outlasts the window; who lifts it has been told of the trip.
    if !matches!(row.frozen, Some(Freeze::Order { .. })) {
        row.frozen = Some(Freeze::Trip { window: window.clone(), until });
    }
    if let Some(balance) = row.balances.iter_mut().find(|balance| balance.window == *window) {
        balance.tripped = true;
    }
    row.version
}

/// Thresholds of a window are marked anew.
pub(super) fn mark(
    ws: &mut Workspace,
    tenant: &Tenant,
    scope: &Scope,
    window: &Window,
    set: impl FnOnce(&mut Vec<u32>),
) -> u64 {
    let row = touch_scope(ws, &(tenant.clone(), scope.clone()));
    if let Some(balance) = row.balances.iter_mut().find(|balance| balance.window == *window) {
        set(&mut balance.crossed);
    }
    row.version
}

/// The scope's row, counted as touched by an event of this batch.
pub(super) fn touch_scope<'a>(ws: &'a mut Workspace, key: &ScopeKey) -> &'a mut ScopeState {
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

/// The windows a caller names are in use from now on.
pub(super) fn name_windows(ws: &mut Workspace, tenant: &Tenant, charges: &[Charged]) {
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

/// A bucket that is made larger or smaller keeps what has been taken out of it.
fn carry_bucket(row: &mut ScopeState, before: Option<&Budget>, after: &Budget) {
    let Some((old, new)) = before.and_then(|before| before.replaced_bucket(after)) else { return };
    let Some(replaced) = row.balance(old).cloned() else { return };
    // It is right until the end of the batch, in case that a neighbour names it again: a hold of this very instant counts in it.
    for balance in row.balances.iter_mut().filter(|balance| balance.window == *old) {
        balance.prospective = true;
    }
    if let Some(balance) = row.balances.iter_mut().find(|balance| balance.window == *new) {
        balance.carry(&replaced);
    }
}
