//! Decides operations on budgets: define, remove, freeze, unfreeze.
//!
//! A parent must have a budget. Chains of parents have no cycle and are at most [`DEPTH_MAX`] deep. Every scope counts
//! the budgets below it level by level, so moving a budget under a parent is also refused if its own descendants would
//! become too deep.

use crate::bounds::DEPTH_MAX;
use crate::budget::Budget;
use crate::context::Context;
use crate::decide::admit;
use crate::event::Event;
use crate::mutant::Mutant;
use crate::name::Scope;
use crate::notation::Unit;
use crate::refusal::{Invalid, Refusal};
use crate::scope::{Freeze, ScopeState};
use crate::state::Workspace;
use crate::window::Window;

/// Defines or replaces a budget.
pub(super) fn define(ws: &Workspace, context: &Context, scope: &Scope, budget: &Budget) -> Result<Vec<Event>, Refusal> {
    let tenant = &context.tenant;
    if let Some(parent) = &budget.parent {
        if parent == scope {
            return Err(Refusal::Cycle { scope: scope.clone(), parent: parent.clone() });
        }
        let above = admit::row(ws, tenant, parent).and_then(|row| row.budget.as_deref());
        let above = above.ok_or_else(|| Refusal::UnknownScope { scope: parent.clone() })?;
        check_units(budget, parent, above)?;
        let above = ws.ancestors(tenant, parent);
        if above.contains(scope) {
            return Err(Refusal::Cycle { scope: scope.clone(), parent: parent.clone() });
        }
        // The depth of the chain: the scope, its parent, the parent's ancestors, and the levels below the scope.
        let row = admit::row(ws, tenant, scope).filter(|_| !Mutant::ForgetBelow.on());
        let below = row.map_or(0, |row| row.below.len());
        if above.len() + 2 + below > DEPTH_MAX {
            return Err(Refusal::TooDeep { scope: scope.clone() });
        }
    }
    if let Some(row) = admit::row(ws, tenant, scope) {
        keep_unit(scope, row, budget)?;
    }
    Ok(vec![Event::BudgetDefined { scope: scope.clone(), budget: Box::new(budget.clone()) }])
}

/// Refuses to change the unit of a budget that has spend or holds: their amounts would be read in a unit they were not counted in.
/// A unit without a name may get one.
fn keep_unit(scope: &Scope, row: &ScopeState, budget: &Budget) -> Result<(), Refusal> {
    let Some(before) = row.budget.as_ref().map(|before| before.display_unit()) else { return Ok(()) };
    let after = budget.display_unit();
    let held = row.balance(&Window::Lifetime).map_or(0, |balance| balance.held);
    let is_used = row.postings > 0 || held > 0;
    if is_used && !before.name.is_empty() && !same_unit(&before, &after) {
        return Err(Refusal::UnitInUse { scope: scope.clone(), before: described(&before), after: described(&after) });
    }
    Ok(())
}

/// Returns whether an amount means the same in both units. Their symbols are for display only.
fn same_unit(one: &Unit, other: &Unit) -> bool {
    one.name.eq_ignore_ascii_case(&other.name) && one.decimals == other.decimals
}

fn described(unit: &Unit) -> String {
    match (unit.name.as_str(), unit.decimals) {
        ("", _) => "whole numbers without a unit".to_owned(),
        (name, 0) => name.to_owned(),
        (name, decimals) => format!("{name} with {decimals} decimals"),
    }
}

/// Refuses a child that counts another unit than its parent: a charge is the same number for both. A budget whose unit has no
/// name counts whatever its parent counts.
fn check_units(budget: &Budget, parent: &Scope, above: &Budget) -> Result<(), Refusal> {
    let (own, theirs) = (budget.display_unit(), above.display_unit());
    let named = !own.name.is_empty() && !theirs.name.is_empty();
    if named && !same_unit(&own, &theirs) {
        let problem = format!(
            "is {}, but the parent {parent} counts {}: a charge is the same number for both, so they must count the same",
            described(&own),
            described(&theirs)
        );
        return Err(Refusal::Invalid(Invalid::new("unit", problem)));
    }
    Ok(())
}

/// Removes a budget. One that has units held, or budgets below it, is in use. A freeze by its trip limit ends with it; one by
/// a caller stays.
pub(super) fn remove(ws: &Workspace, context: &Context, scope: &Scope) -> Result<Vec<Event>, Refusal> {
    let row = admit::row(ws, &context.tenant, scope).filter(|row| row.budget.is_some());
    let row = row.ok_or_else(|| Refusal::UnknownScope { scope: scope.clone() })?;
    let held = row.balance(&Window::Lifetime).map_or(0, |balance| balance.held);
    let held = if Mutant::RemoveHeldBudget.on() { 0 } else { held };
    let children = row.below.first().copied().unwrap_or(0);
    if held > 0 || children > 0 {
        return Err(Refusal::BudgetInUse { scope: scope.clone(), held, children });
    }
    let tripped = matches!(row.frozen, Some(Freeze::Trip { .. }));
    let unfrozen = tripped.then(|| Event::BudgetUnfrozen { scope: scope.clone(), turned: true });
    Ok(unfrozen.into_iter().chain([Event::BudgetRemoved { scope: scope.clone() }]).collect())
}

/// Freezes a scope. A freeze by a trip limit is replaced; one by a caller stays as it is.
pub(super) fn freeze(ws: &Workspace, context: &Context, scope: &Scope) -> Result<Vec<Event>, Refusal> {
    let frozen = current_freeze(ws, context, scope)?;
    let already = matches!(frozen, Some(Freeze::Order { .. }));
    Ok(if already { Vec::new() } else { vec![Event::BudgetFrozen { scope: scope.clone() }] })
}

/// Unfreezes a scope, whatever froze it.
pub(super) fn unfreeze(ws: &Workspace, context: &Context, scope: &Scope) -> Result<Vec<Event>, Refusal> {
    let frozen = current_freeze(ws, context, scope)?;
    Ok(frozen.map(|_| Event::BudgetUnfrozen { scope: scope.clone(), turned: false }).into_iter().collect())
}

/// Returns the freeze of a scope; refuses a scope without events.
fn current_freeze<'a>(ws: &'a Workspace, context: &Context, scope: &Scope) -> Result<Option<&'a Freeze>, Refusal> {
    match admit::row(ws, &context.tenant, scope) {
        Some(row) if row.version > 0 => Ok(row.frozen.as_ref()),
        _ => Err(Refusal::UnknownScope { scope: scope.clone() }),
    }
}
