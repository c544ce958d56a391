//! Balances of budgets, in their units.

use bursar::Unit;
use bursar_wire::budget::{BalanceAnswer, BudgetAnswer};

use crate::moment::moment_in;
use crate::output::cell;

/// The headings of [`row`].
pub(crate) const HEADINGS: [&str; 6] = ["WINDOW", "LIMIT", "POSTED", "HELD", "REMAINING", "RESETS"];

/// Formats the balances of a budget that are limited, without the time at which a window resets.
pub(crate) fn limited(view: &BudgetAnswer) -> impl Iterator<Item = Vec<String>> {
    let unit = view.display_unit();
    view.balances.iter().filter(|balance| balance.limit.is_some()).map(move |balance| {
        let mut row = vec![balance.window.shown_in(balance.limit, &unit)];
        row.extend(amounts(balance, &unit));
        row
    })
}

/// Formats a balance: window, amounts and the time at which the window resets.
pub(crate) fn row(balance: &BalanceAnswer, unit: &Unit) -> Vec<String> {
    let mut row = vec![balance.window.shown_in(balance.limit, unit)];
    row.extend(amounts(balance, unit));
    row.push(moment_in(balance.end.as_ref(), balance.window.zone.as_deref()));
    row
}

/// Formats limit, posted, held and remaining units.
pub(crate) fn amounts(balance: &BalanceAnswer, unit: &Unit) -> [String; 4] {
    let shown = |amount: Option<i64>| cell(amount.map(|amount| unit.format(amount)));
    [shown(balance.limit), shown(Some(balance.posted)), shown(Some(balance.held)), shown(balance.remaining)]
}
