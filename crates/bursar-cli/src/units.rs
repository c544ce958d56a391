//! The units of budgets, in which amounts are written and shown.

use std::collections::{BTreeMap, BTreeSet};

use bursar::notation::about;
use bursar::{Amount, Limit, Scope, Span, Unit};
use bursar_wire::budget::BudgetAnswer;
use bursar_wire::problem::{Kind, Problem, ViolationAnswer};

use crate::args::WrittenLimit;
use crate::context::Context;

/// The most budgets that are read to show amounts; a page of holds may be about more.
const READ_MAX: usize = 100;

/// Returns the scope of a violation, unless it is about a grant.
fn scope_of(violation: &ViolationAnswer) -> Option<Scope> {
    match violation {
        ViolationAnswer::Limit { scope, .. } | ViolationAnswer::Frozen { scope } => Scope::new(scope).ok(),
        ViolationAnswer::Grant { .. } => None,
    }
}

/// The units of some budgets. A scope without a budget counts whole numbers without a name.
#[derive(Default)]
pub(crate) struct Units {
    of: BTreeMap<Scope, Unit>,
    missing: BTreeSet<Scope>,
    none: Unit,
}

impl Units {
    /// Reads the budgets of these scopes, each once.
    pub(crate) async fn read<'a>(
        scopes: impl IntoIterator<Item = &'a Scope>,
        context: &Context,
    ) -> Result<Units, Problem> {
        let mut units = Units::default();
        units.add(scopes, context).await?;
        Ok(units)
    }

    /// Reads the first page of all budgets, in one request, to show events of many scopes. If they cannot be read, amounts are shown in
    /// their smallest parts.
    pub(crate) async fn listed(context: &Context) -> Units {
        let mut units = Units::default();
        if let Ok(page) = context.client.budgets().list("", None, 1_000).await {
            page.items.iter().for_each(|budget| units.put(budget));
        }
        units
    }

    /// Reads the budgets of further scopes.
    pub(crate) async fn add<'a>(
        &mut self,
        scopes: impl IntoIterator<Item = &'a Scope>,
        context: &Context,
    ) -> Result<(), Problem> {
        for scope in scopes {
            if self.of.contains_key(scope) || self.of.len() >= READ_MAX {
                continue;
            }
            match context.client.budgets().show(scope).await {
                Ok(budget) => self.put(&budget),
                Err(error) => match error.kind() {
                    Some(Kind::NotFound | Kind::UnknownScope) => {
                        self.of.insert(scope.clone(), Unit::default());
                        self.missing.insert(scope.clone());
                    }
                    Some(Kind::Forbidden) => {
                        context
                            .out
                            .note("note: this token may not read budgets, so amounts are in their smallest parts");
                        return Ok(());
                    }
                    _ => return Err(error.into()),
                },
            }
        }
        Ok(())
    }

    /// Whether a scope was looked up and has no budget.
    pub(crate) fn is_missing(&self, scope: &Scope) -> bool {
        self.missing.contains(scope)
    }

    /// Records the unit of a budget that was read.
    pub(crate) fn put(&mut self, budget: &BudgetAnswer) {
        self.of.insert(budget.scope.clone(), budget.display_unit());
    }

    /// Returns the unit of a scope.
    pub(crate) fn of(&self, scope: &Scope) -> &Unit {
        self.of.get(scope).unwrap_or(&self.none)
    }

    /// Shows an amount of a scope.
    pub(crate) fn show(&self, scope: &Scope, amount: i64) -> String {
        self.of(scope).format(amount)
    }

    /// Converts an amount that was written for a scope.
    pub(crate) fn amount(&self, scope: &Scope, amount: &Amount) -> Result<i64, Problem> {
        let unit = self.of(scope);
        amount
            .in_unit(unit)
            .map_err(|invalid| Problem::invalid("amount".into(), format!("{scope}: {invalid}; nothing was changed")))
    }

    /// Describes a refusal by limits and freezes with amounts in their units. The wait is an estimate, and is shown as one.
    pub(crate) async fn explain(&mut self, problem: Problem, context: &Context) -> Problem {
        let scopes: Vec<Scope> = problem.violations.iter().filter_map(scope_of).collect();
        if problem.kind != Kind::Refused || scopes.is_empty() || scopes.len() < problem.violations.len() {
            return problem;
        }
        if self.add(&scopes, context).await.is_err() {
            return problem;
        }
        Problem { detail: format!("refused: {}", self.reasons(&problem).join("; ")), ..problem }
    }

    /// Describes each limit and freeze that refused a request.
    pub(crate) fn reasons(&self, problem: &Problem) -> Vec<String> {
        let violations = problem.violations.iter();
        violations.filter_map(|violation| Some(self.reason(violation, &scope_of(violation)?))).collect()
    }

    fn reason(&self, violation: &ViolationAnswer, scope: &Scope) -> String {
        let ViolationAnswer::Limit { window, limit, requested, available, retry_after_ms, possible, .. } = violation
        else {
            return format!("{scope} is frozen");
        };
        let window = window.shown_in(Some(*limit), self.of(scope));
        let [limit, requested, available] = [*limit, *requested, *available].map(|amount| self.show(scope, amount));
        let left = format!("{scope} has {available} left of {limit} ({window}), {requested} requested");
        match retry_after_ms {
            Some(wait) => format!("{left}, probably possible in {}", about(Span::from_millis(wait.unsigned_abs()))),
            None if !possible => format!("{left}, which is more than the limit itself"),
            None => left,
        }
    }

    /// Converts a limit that was written for a scope.
    pub(crate) fn limit(&self, scope: &Scope, limit: &WrittenLimit) -> Result<Limit, Problem> {
        Ok(limit.of(self.of(scope))?)
    }
}
