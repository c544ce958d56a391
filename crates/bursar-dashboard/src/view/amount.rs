//! Amounts in the unit of their budget.

use bursar_core::notation::Unit;
use bursar_wire::budget::BudgetAnswer;
use maud::{Markup, html};

/// Returns the unit of a budget; one without a name if the scope has no budget.
pub(crate) fn unit_of(budget: &BudgetAnswer) -> Unit {
    budget.display_unit()
}

/// Shows an amount in a table cell.
pub(crate) fn cell(amount: i64, unit: &Unit) -> Markup {
    html! { td.num.zero[amount == 0] { (unit.format(amount)) } }
}

/// Shows an amount that may be missing in a table cell.
pub(crate) fn cell_or_dash(amount: Option<i64>, unit: &Unit) -> Markup {
    match amount {
        Some(amount) => cell(amount, unit),
        None => html! { td.num.zero { "–" } },
    }
}

/// Writes a count with separators between thousands.
pub(crate) fn count(count: i64) -> String {
    Unit::default().format(count)
}

/// Shows a count in a table cell.
pub(crate) fn count_cell(number: i64) -> Markup {
    html! { td.num.zero[number == 0] { (count(number)) } }
}
