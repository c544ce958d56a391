//! Applies events to scopes: postings, credits, definitions, freezes and thresholds.

use std::sync::Arc;

use crate::budget::Budget;
use crate::event::{Charged, Stream};
use crate::hold::{Uncovered, sums};
use crate::id::HoldId;
use crate::mutant::Mutant;
use crate::name::{Scope, Tenant};
use crate::scope::{Freeze, ScopeState};
use crate::state::{ScopeKey, Workspace};
use crate::time::Time;
use crate::window::Window;

/// Posts charges at the current instant.
pub(super) fn post(ws: &mut Workspace, tenant: &Tenant, charges: &[Charged]) {
    let now = ws.now;
    let charges: Vec<_> = charges.iter().map(Charged::charge).collect();
    let sums = sums(charges.iter(), |charge| charge.amount).expect("the sums were checked when the spend was decided");
    for (scope, amount) in sums {
        add_postings(ws, &(tenant.clone(), scope), [(now, amount)], None);
    }
}

/// Posts a credit: the units in `beyond` for the instant of the hold's commit, the rest for `at`.
pub(super) fn credit(
    ws: &mut Workspace,
    tenant: &Tenant,
    at: Time,
    charge: &Charged,
    hold: Option<HoldId>,
    beyond: Option<&Uncovered>,
) {
    for scope in charge.scopes() {
        let uncovered = beyond.and_then(|beyond| Some((beyond.at, *beyond.left.get(scope)?)));
        let (commit_at, uncovered) = uncovered.unwrap_or((at, 0));
        let parts = [(commit_at, -uncovered), (at, uncovered - charge.amount)];
        add_postings(ws, &(tenant.clone(), scope.clone()), parts, hold);
    }
    let (Some(id), Some(beyond)) = (hold, beyond) else { return };
    let left = ws.holds.get_mut(&id).and_then(|hold| hold.beyond.as_mut()).map(|beyond| &mut beyond.left);
    let left = left.expect("only what the commit posted beyond the hold is credited there");
    for (scope, amount) in &beyond.left {
        left.entry(scope.clone()).and_modify(|left| *left -= amount);
    }
}

/// Adds postings to a scope, each for its instant.
fn add_postings<const N: usize>(ws: &mut Workspace, key: &ScopeKey, parts: [(Time, i64); N], hold: Option<HoldId>) {
    let row = touch_scope(ws, key);
    let parts = parts.into_iter().filter(|(_, amount)| *amount != 0);
    let postings: Vec<_> = parts.map(|(at, amount)| row.next_posting(at, amount, hold)).collect();
    row.settle(Time::MIN, 0, &postings);
    row.rearm_trip();
    ws.postings.extend(postings.into_iter().map(|posting| (key.clone(), posting)));
}

/// Defines or replaces a budget.
pub(super) fn defined(ws: &mut Workspace, tenant: &Tenant, scope: &Scope, budget: &Budget) -> u64 {
    let (version, before) = define(ws, tenant, scope, budget);
    move_subtree(ws, tenant, scope, before, budget.parent.clone());
    version
}

/// Changes the row of the scope only. Returns its new version, and the parent that it had.
pub(super) fn define(ws: &mut Workspace, tenant: &Tenant, scope: &Scope, budget: &Budget) -> (u64, Option<Scope>) {
    let now = ws.now;
    let row = touch_scope(ws, &(tenant.clone(), scope.clone()));
    let before = row.define(&Arc::new(budget.clone()), now);
    (row.version, before.and_then(|before| before.parent.clone()))
}

/// Removes a budget. The balances stay; windows that nothing names any more are closed when their place is needed.
pub(super) fn removed(ws: &mut Workspace, tenant: &Tenant, scope: &Scope) -> u64 {
    let (version, before) = remove(ws, tenant, scope);
    move_subtree(ws, tenant, scope, before, None);
    version
}

/// Changes the row of the scope only. Returns its new version, and the parent that it had.
pub(super) fn remove(ws: &mut Workspace, tenant: &Tenant, scope: &Scope) -> (u64, Option<Scope>) {
    let row = touch_scope(ws, &(tenant.clone(), scope.clone()));
    let before = row.budget.take();
    row.redefined = true;
    (row.version, before.and_then(|before| before.parent.clone()))
}

/// Freezes a scope, or unfreezes it if `freeze` is `None`.
pub(super) fn frozen(ws: &mut Workspace, tenant: &Tenant, scope: &Scope, freeze: Option<Freeze>) -> u64 {
    let row = touch_scope(ws, &(tenant.clone(), scope.clone()));
    row.frozen = freeze;
    row.version
}

/// Records that spend passed the trip limit, and freezes the scope.
pub(super) fn tripped(ws: &mut Workspace, tenant: &Tenant, scope: &Scope, window: &Window, until: Option<Time>) -> u64 {
    let row = touch_scope(ws, &(tenant.clone(), scope.clone()));
    // A freeze by a caller outlasts the window, so the trip does not replace it.
    if !matches!(row.frozen, Some(Freeze::Order { .. })) {
        row.frozen = Some(Freeze::Trip { window: window.clone(), until });
    }
    if let Some(balance) = row.balances.iter_mut().find(|balance| balance.window == *window) {
        balance.tripped = true;
    }
    row.version
}

/// Changes the crossed thresholds of a window.
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

/// Returns the row of a scope, counted as touched by an event of this batch.
pub(super) fn touch_scope<'a>(ws: &'a mut Workspace, key: &ScopeKey) -> &'a mut ScopeState {
    let (now, batch) = (ws.now, ws.batch);
    let row = ws.scopes.get_or_put(key, ScopeState::default);
    row.version += 1;
    row.seen = row.seen.max(now);
    let last = row.last.replace(batch);
    ws.prev.link(batch, || Stream::Scope(key.0.clone(), key.1.clone()), last);
    row
}

/// Puts the windows that charges name into use. A charge of 0 units opens none, because a scope can have only a few.
pub(super) fn name_windows(ws: &mut Workspace, tenant: &Tenant, charges: &[Charged]) {
    let now = ws.now;
    for charge in charges.iter().filter(|charge| charge.amount != 0 || Mutant::NothingOpensWindows.on()) {
        if charge.limits.is_empty() {
            continue;
        }
        let key = (tenant.clone(), charge.scope.clone());
        let row = ws.scopes.get_or_put(&key, ScopeState::default);
        for limit in &charge.limits {
            row.name_window(&limit.window, now);
        }
    }
}

/// Moves a budget and everything below it from one parent to another. Every ancestor counts its descendants level by
/// level, so that a definition can be refused if it would make a chain too deep.
fn move_subtree(ws: &mut Workspace, tenant: &Tenant, scope: &Scope, from: Option<Scope>, to: Option<Scope>) {
    if from == to {
        return;
    }
    let row = ws.scopes.get(&(tenant.clone(), scope.clone())).expect("the budget was just defined");
    let moved: Vec<u64> = std::iter::once(1).chain(row.below.iter().copied()).collect();
    for (parent, added) in [(from, false), (to, true)] {
        let Some(parent) = parent else { continue };
        let above = ws.ancestors(tenant, &parent);
        for (levels, scope) in std::iter::once(parent).chain(above).enumerate() {
            let row = ws.scopes.get_mut(&(tenant.clone(), scope)).expect("a parent has a budget");
            let reached = row.below.len().max(levels + moved.len());
            row.below.resize(reached, 0);
            for (count, change) in row.below[levels..].iter_mut().zip(&moved) {
                *count = if added { *count + change } else { count.saturating_sub(*change) };
            }
            let deepest = row.below.iter().rposition(|count| *count > 0).map_or(0, |level| level + 1);
            row.below.truncate(deepest);
        }
    }
}
