//! Admission: whether limits leave room for charges. Only this module refuses a request for lack of units.
//!
//! Charges to the same scope are merged, and each is charged to the scope and to all its ancestors. On every one of
//! these scopes, every limit of the budget and every limit that the caller gave must leave room for the sum, and the
//! scope must not be frozen. A refusal lists all violations. Admission never passes a limit, except those of a budget in
//! shadow mode, where it returns what would have been refused; spend that was reported after the fact (an overrun, a late
//! commit, usage of a job) is recorded without admission.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::bounds::SCOPES_MAX;
use crate::budget::{Limit, Short, WouldRefuse};
use crate::event::{Charged, Event, Left};
use crate::hold::{HeldCharge, sums};
use crate::mutant::Mutant;
use crate::name::{Scope, Tenant};
use crate::refusal::{Refusal, Violation};
use crate::request::Charge;
use crate::scope::{Freeze, ScopeState};
use crate::state::{ScopeKeyRef, Workspace};

/// Merges charges to the same scope and resolves the ancestors of each.
pub(super) fn resolve(ws: &Workspace, tenant: &Tenant, charges: &[Charge]) -> Result<Vec<HeldCharge>, Refusal> {
    let mut merged: Vec<HeldCharge> = Vec::with_capacity(charges.len());
    let mut indexes: BTreeMap<&Scope, usize> = BTreeMap::new();
    for charge in charges {
        if let Some(index) = indexes.get(&charge.scope) {
            let known = &mut merged[*index];
            known.amount = known
                .amount
                .checked_add(charge.amount)
                .ok_or_else(|| Refusal::Overflow { scope: charge.scope.clone() })?;
            known
                .limits
                .extend(charge.limits.iter().filter(|l| !known.limits.contains(l)).cloned().collect::<Vec<_>>());
            continue;
        }
        if charges.len() > 1 {
            indexes.insert(&charge.scope, merged.len());
        }
        merged.push(HeldCharge {
            scope: charge.scope.clone(),
            amount: charge.amount,
            actual: None,
            ancestors: if Mutant::SkipAncestors.on() { Vec::new() } else { ws.ancestors(tenant, &charge.scope) },
            limits: charge.limits.clone(),
        });
    }
    Ok(merged)
}

/// The scope rows that charges are admitted on, with the default budgets of the charges defined.
pub(super) struct Rows<'a> {
    ws: &'a Workspace,
    tenant: &'a Tenant,
    defined: BTreeMap<&'a Scope, ScopeState>,
}

impl<'a> Rows<'a> {
    /// Uses the loaded rows.
    pub(super) fn new(ws: &'a Workspace, tenant: &'a Tenant) -> Rows<'a> {
        Rows { ws, tenant, defined: BTreeMap::new() }
    }

    /// Uses copies of the rows on which a charge's default budget applies, with that budget defined.
    pub(super) fn with_defaults(
        ws: &'a Workspace,
        tenant: &'a Tenant,
        charges: &'a [Charge],
    ) -> Result<Rows<'a>, Refusal> {
        let mut rows = Rows::new(ws, tenant);
        for charge in charges {
            let Some(default) = &charge.default else { continue };
            let stored = row(ws, tenant, &charge.scope).unwrap_or_else(|| empty_row());
            let same = stored.budget.as_ref().is_some_and(|budget| budget == default || Mutant::KeepOldDefault.on());
            if same || !stored.takes_default() || rows.defined.contains_key(&charge.scope) {
                continue;
            }
            let mut defined = stored.clone();
            defined.define(default, ws.now);
            rows.defined.insert(&charge.scope, defined);
        }
        Ok(rows)
    }

    /// Returns the row of a scope.
    pub(super) fn get(&self, scope: &Scope) -> Option<&ScopeState> {
        self.defined.get(scope).or_else(|| row(self.ws, self.tenant, scope))
    }

    /// Returns the events that define the default budgets.
    pub(super) fn definitions(&self) -> impl Iterator<Item = Event> {
        self.defined.iter().filter_map(|(scope, row)| {
            let budget = Box::new(row.budget.as_deref()?.clone());
            Some(Event::BudgetDefined { scope: (*scope).clone(), budget })
        })
    }
}

/// Charges that were admitted.
pub(super) struct Admitted {
    /// The charges, with what each limit leaves after them.
    pub(super) charged: Vec<Charged>,
    /// The events for what budgets in shadow mode would have refused.
    pub(super) shadowed: Vec<Event>,
}

/// Admits charges and computes what each limit leaves after them, or refuses them with every violation.
pub(super) fn admit(rows: &Rows<'_>, charges: Vec<HeldCharge>) -> Result<Admitted, Refusal> {
    let ws = rows.ws;
    let totals = sums(charges.iter(), |charge| charge.amount)?;
    if totals.len() > SCOPES_MAX {
        return Err(Refusal::TooManyScopes { count: totals.len() });
    }
    let limited = charges.iter().filter(|charge| !charge.limits.is_empty());
    let given: BTreeMap<&Scope, &[Limit]> = limited.map(|charge| (&charge.scope, charge.limits.as_slice())).collect();
    let mut objections = Objections::default();
    for (scope, amount) in &totals {
        let state = rows.get(scope).unwrap_or_else(|| empty_row());
        let given = given.get(scope).copied().unwrap_or_default();
        let limits = limits(state, given);
        if limits.is_empty() {
            return Err(Refusal::UnknownScope { scope: scope.clone() });
        }
        if *amount > 0 && !state.has_room_for(limits.iter().map(|limit| &limit.window), ws.now) {
            return Err(Refusal::TooManyWindows { scope: scope.clone() });
        }
        objections.check_freeze(ws, scope, state, *amount);
        objections.check_limits(ws, scope, state, (&limits, given), *amount);
        if objections.violations.is_empty() && !state.can_take(0, *amount) {
            return Err(Refusal::Overflow { scope: scope.clone() });
        }
    }
    let shadowed = objections.into_events()?;
    let charged = charges.into_iter().map(|charge| {
        let left = left(|scope| rows.get(scope), &charge, |scope, remaining| remaining.saturating_sub(totals[scope]));
        Charged::new(charge, left)
    });
    Ok(Admitted { charged: charged.collect(), shadowed })
}

/// What limits and freezes have against charges.
#[derive(Default)]
pub(super) struct Objections {
    /// What refuses them.
    violations: Vec<Violation>,
    /// What would refuse them, if its budget were not in shadow mode.
    shadowed: Vec<WouldRefuse>,
}

impl Objections {
    /// Refuses the charges, or returns the events for what shadow mode would have refused.
    pub(super) fn into_events(self) -> Result<Vec<Event>, Refusal> {
        if !self.violations.is_empty() {
            return Err(Refusal::Refused(self.violations));
        }
        let recorded = self.shadowed.into_iter().filter(|_| !Mutant::ForgetShadow.on());
        Ok(recorded.map(Event::BudgetWouldRefuse).collect())
    }

    /// Adds the freeze of a scope. One by a caller refuses also in shadow mode, because it is an order and no limit.
    pub(super) fn check_freeze(&mut self, ws: &Workspace, scope: &Scope, state: &ScopeState, requested: i64) {
        let Some(freeze) = state.frozen_at(ws.now).filter(|_| !Mutant::FrozenAdmits.on()) else { return };
        let scope = scope.clone();
        if state.in_shadow() && matches!(freeze, Freeze::Trip { .. }) {
            self.shadowed.push(WouldRefuse { scope, requested, short: None });
        } else {
            self.violations.push(Violation::Frozen { scope });
        }
    }

    /// Adds every limit that leaves too little. `given` are those of the caller.
    fn check_limits(
        &mut self,
        ws: &Workspace,
        scope: &Scope,
        state: &ScopeState,
        (limits, given): (&[&Limit], &[Limit]),
        amount: i64,
    ) {
        for limit in limits {
            let fresh;
            let balance = match state.balance(&limit.window) {
                Some(balance) => balance,
                None => {
                    fresh = crate::scope::Balance::open(limit.window.clone(), ws.now, Default::default());
                    &fresh
                }
            };
            let available = balance.remaining(limit.amount) + i64::from(Mutant::OneTooMany.on());
            if amount <= 0 || amount <= available {
                continue;
            }
            let (scope, window, available) = (scope.clone(), limit.window.clone(), available.max(0));
            if state.in_shadow() && !given.contains(limit) {
                let short = Some(Short { window, limit: limit.amount, available });
                self.shadowed.push(WouldRefuse { scope, requested: amount, short });
                continue;
            }
            self.violations.push(Violation::Limit {
                scope,
                window,
                limit: limit.amount,
                requested: amount,
                available,
                retry_after: balance.retry_after(limit.amount, amount, ws.now, state.next_expiry),
                possible: balance.could_fit(limit.amount, amount),
                unit: state.budget.as_ref().map(|budget| budget.display_unit()).unwrap_or_default(),
            });
        }
    }
}

/// Returns the limits that apply to a scope: those of its budget, then those the caller gave.
pub(super) fn limits<'a>(state: &'a ScopeState, given: &'a [Limit]) -> Vec<&'a Limit> {
    let registered = state.budget.as_ref().map_or(&[][..], |budget| &budget.limits);
    let given = given.iter().filter(|limit| !registered.contains(limit) && !Mutant::IgnoreGivenLimits.on());
    registered.iter().chain(given).collect()
}

/// Returns what the limits on a charge's scope and its ancestors leave in `rows`, changed by `adjust`.
pub(super) fn left<'a>(
    rows: impl Fn(&Scope) -> Option<&'a ScopeState>,
    charge: &HeldCharge,
    adjust: impl Fn(&Scope, i64) -> i64,
) -> Vec<Left> {
    let mut left = Vec::new();
    for scope in charge.scopes() {
        let named = *scope == charge.scope;
        let state = rows(scope).unwrap_or_else(|| empty_row());
        for limit in limits(state, if named { &charge.limits } else { &[] }) {
            let remaining = match state.balance(&limit.window) {
                Some(balance) => balance.remaining(limit.amount),
                None => limit.amount,
            };
            left.push(Left {
                scope: (!named).then(|| scope.clone()),
                remaining: adjust(scope, remaining),
                limit: limit.amount,
                window: limit.window.clone(),
            });
        }
    }
    left
}

/// Returns the state of a scope that has no row.
fn empty_row() -> &'static ScopeState {
    static EMPTY: LazyLock<ScopeState> = LazyLock::new(ScopeState::default);
    &EMPTY
}

/// Returns the loaded row of a scope.
pub(super) fn row<'a>(ws: &'a Workspace, tenant: &Tenant, scope: &Scope) -> Option<&'a ScopeState> {
    ws.scopes.get(&ScopeKeyRef(tenant, scope))
}
