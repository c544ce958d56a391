//! Budgets and their balances.

use bursar::{BalanceView, BudgetView, Unit};

use crate::wire::budget::{BalanceAnswer, BudgetAnswer, BudgetBody, FreezeAnswer};
use crate::wire::stamp;
use crate::wire::window::WindowFields;

/// Returns the state of a budget.
pub fn budget_answer(view: &BudgetView) -> BudgetAnswer {
    let unit = view.budget.as_ref().map(|budget| budget.display_unit()).unwrap_or_default();
    BudgetAnswer {
        scope: view.scope.clone(),
        budget: view.budget.as_ref().map(BudgetBody::from),
        frozen: view.frozen.is_some(),
        freeze: view.frozen.as_ref().map(FreezeAnswer::from),
        balances: view.balances.iter().map(|balance| balance_answer(balance, &unit)).collect(),
        refusals: Vec::new(),
    }
}

fn balance_answer(view: &BalanceView, unit: &Unit) -> BalanceAnswer {
    BalanceAnswer {
        window: WindowFields::from(&view.window),
        start: view.start.and_then(stamp),
        end: view.end.and_then(stamp),
        limit: view.limit,
        posted: view.posted,
        held: view.held,
        remaining: view.remaining,
        unit: unit.clone(),
    }
}
