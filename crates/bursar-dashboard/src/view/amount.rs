//! Amounts in the unit of their budget.

use bursar_core::notation::Unit;
use bursar_wire::budget::BudgetAnswer;
use maud::{Markup, html};

/// Returns the unit of a budget; one without a name if the scope has no budget.
pub(crate) fn unit_of(budget: &BudgetAnswer) -> Unit {
    budget.display_unit()
}

/// Writes an amount as a glance needs it: two decimals, four of what is less than one unit, and all of what is less than a hundredth.
pub(crate) fn brief(amount: i64, unit: &Unit) -> String {
    let decimals = u32::from(unit.decimals);
    let power = |exponent: u32| 10_u64.checked_pow(exponent).unwrap_or(u64::MAX);
    let kept = match amount.unsigned_abs() {
        size if size >= power(decimals) => 2,
        size if decimals >= 2 && size >= power(decimals - 2) => 4,
        _ => decimals,
    };
    let Ok(step) = i64::try_from(power(decimals.saturating_sub(kept))) else { return unit.format(amount) };
    // Rounded towards zero, so that what is free is never shown as more than it is.
    unit.format(amount / step * step)
}

/// Shows an amount in a table cell, with the exact one on hover. The label is shown where a row is a card.
pub(crate) fn cell(label: &str, amount: i64, unit: &Unit) -> Markup {
    html! { td.num.zero[amount == 0] data-label=(label) title=(unit.format(amount)) { (brief(amount, unit)) } }
}

/// Shows an amount that may be missing in a table cell.
pub(crate) fn cell_or_dash(label: &str, amount: Option<i64>, unit: &Unit) -> Markup {
    match amount {
        Some(amount) => cell(label, amount, unit),
        None => html! { td.num.zero.hide-sm { "–" } },
    }
}

/// Writes a count with separators between thousands.
pub(crate) fn count(count: i64) -> String {
    Unit::default().format(count)
}

/// Shows a count in a table cell.
pub(crate) fn count_cell(label: &str, number: i64) -> Markup {
    html! { td.num.zero[number == 0] data-label=(label) { (count(number)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_amounts_are_cut_to_cents() {
        let usd = Unit::named("usd");
        let amounts = [57_555_579, 999_999, 10_001, 9_999, 1_000_000, -3_456_789, 0, i64::MAX];
        let shown = amounts.map(|amount| brief(amount, &usd));
        let expected = ["$57.55", "$0.9999", "$0.01", "$0.009999", "$1.00", "-$3.45", "$0.00", "$9,223,372,036,854.77"];
        assert_eq!(shown, expected);
        assert_eq!(brief(1_234_567, &Unit::named("tokens")), "1,234,567 tokens");
    }
}
