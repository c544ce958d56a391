//! Budgets and their balances.

use bursar::{BalanceView, BudgetView};

use crate::wire::budget::{BalanceAnswer, BudgetAnswer, BudgetBody, FreezeAnswer};
use crate::wire::stamp;
use crate::wire::window::WindowFields;

/// Returns the state of a budget.
pub fn budget_answer(view: &BudgetView) -> BudgetAnswer {
    BudgetAnswer {
        scope: view.scope.clone(),
        budget: view.budget.as_ref().map(BudgetBody::from),
        frozen: view.frozen.is_some(),
        freeze: view.frozen.as_ref().map(FreezeAnswer::from),
        balances: view.balances.iter().map(balance_answer).collect(),
        refusals: Vec::new(),
    }
}

fn balance_answer(view: &BalanceView) -> BalanceAnswer {
    BalanceAnswer {
        window: WindowFields::from(&view.window),
        start: view.start.and_then(stamp),
        end: view.end.and_then(stamp),
        limit: view.limit,
        posted: view.posted,
        held: view.held,
        remaining: view.remaining,
    }
}
