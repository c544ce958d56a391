//! The units of budgets, in which amounts are written and shown.

use std::collections::BTreeMap;

use bursar::{Amount, Limit, Scope, Unit};
use bursar_wire::budget::BudgetAnswer;
use bursar_wire::problem::{Kind, Problem};

use crate::args::WrittenLimit;
use crate::context::Context;

/// The most budgets that are read to show amounts; a page of holds may be about more.
const READ_MAX: usize = 100;

/// The units of some budgets. A scope without a budget counts whole numbers without a name.
#[derive(Default)]
pub(crate) struct Units {
    of: BTreeMap<Scope, Unit>,
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
                    }
                    Some(Kind::Forbidden) => {
                        context.out.note("note: this token may not read budgets, so amounts are in their smallest parts");
                        return Ok(());
                    }
                    _ => return Err(error.into()),
                },
            }
        }
        Ok(())
    }

    /// Records the unit of a budget that was read.
    pub(crate) fn put(&mut self, budget: &BudgetAnswer) {
        self.of.insert(budget.scope.clone(), unit_of(budget));
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
        amount.in_unit(unit).map_err(|invalid| {
            Problem::invalid("amount".into(), format!("{scope}: {invalid}; nothing was changed"))
        })
    }

    /// Converts a limit that was written for a scope.
    pub(crate) fn limit(&self, scope: &Scope, limit: &WrittenLimit) -> Result<Limit, Problem> {
        Ok(limit.of(self.of(scope))?)
    }
}

/// Returns the unit of a budget.
pub(crate) fn unit_of(budget: &BudgetAnswer) -> Unit {
    budget.budget.as_ref().map_or_else(Unit::default, |budget| Unit::named(&budget.unit))
}
