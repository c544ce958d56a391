//! The limits of a budget as rows of a form: an amount and a window each. An empty amount removes a row.

use bursar_core::budget::Limit;
use bursar_core::notation::Unit;
use bursar_core::refusal::Invalid;
use bursar_wire::budget::BudgetBody;
use bursar_wire::window::LimitBody;
use maud::{Markup, html};

use crate::visit::Act;

/// Windows that the field suggests; others can be typed.
const SUGGESTED: [(&str, &str); 9] = [
    ("day", "a day, in UTC"),
    ("month", "a calendar month, in UTC"),
    ("month@Europe/Berlin", "a month in a time zone"),
    ("week", "a week from Monday"),
    ("hour", "a clock hour"),
    ("year", "a calendar year"),
    ("rolling:1h", "the last hour, at any moment"),
    ("bucket:1/h", "a bucket that refills by 1 an hour"),
    ("lifetime", "for ever"),
];

/// A row as it is typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) amount: String,
    pub(crate) window: String,
}

/// Returns the limits of a budget as they are typed. The unit is written beside the field.
pub(crate) fn written(budget: &BudgetBody) -> Vec<Row> {
    let number = Unit { name: String::new(), symbol: None, ..budget.display_unit() };
    let row = |limit: &LimitBody| Row { amount: number.format_typed(limit.amount), window: limit.shown_in(&number) };
    budget.limits.iter().map(row).collect()
}

/// Returns the rows that a form has sent, also those that cannot be read.
pub(crate) fn sent(act: &Act) -> Vec<Row> {
    let rows = act.each("amount").zip(act.each("window"));
    let rows = rows.map(|(amount, window)| Row { amount: amount.to_owned(), window: window.to_owned() });
    rows.filter(|row| !row.amount.is_empty()).collect()
}

/// Reads rows as limits.
pub(crate) fn read(rows: &[Row], unit: &Unit) -> Result<Vec<LimitBody>, Invalid> {
    let limit = |row: &Row| {
        if row.window.is_empty() {
            return Err(Invalid::new(
                "window",
                format!("of {} is missing: write day, month or rolling:1h", row.amount),
            ));
        }
        Limit::parse(&format!("{}:{}", row.amount, row.window), unit).map(|limit| (&limit).into())
    };
    rows.iter().map(limit).collect()
}

/// Shows rows with `spare` empty ones after them. A script adds and removes rows; without one, the spare rows do.
pub(crate) fn rows(rows: &[Row], spare: usize, unit: &str) -> Markup {
    let spare = std::iter::repeat_n(Row::default(), spare);
    html! {
        fieldset.field.limits data-rows {
            legend { "Limits" }
            @for row in rows.iter().cloned().chain(spare) {
                div.limit-row data-row {
                    input.num name="amount" value=(row.amount) aria-label="Amount" placeholder="25" inputmode="decimal" autocomplete="off";
                    span.quiet { (unit) " per" }
                    input.mono name="window" value=(row.window) aria-label="Window" placeholder="day" list="windows" autocomplete="off" spellcheck="false";
                    button.btn.is-quiet.is-small type="button" data-remove aria-label="Remove this limit" title="Remove" { "×" }
                }
            }
            button.btn.is-small.needs-script type="button" data-add { "Add a limit" }
            p.hint {
                "A charge must fit all of them. Windows: " code { "day" } ", " code { "month@Europe/Berlin" } ", " code { "rolling:1h" } ", " code { "lifetime" } ". "
                "A limit without an amount is removed."
            }
            datalist #windows { @for (window, about) in SUGGESTED { option value=(window) { (about) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_typed_as_they_are_shown() {
        let usd = Unit::named("usd");
        let typed = |amount: &str, window: &str| Row { amount: amount.to_owned(), window: window.to_owned() };
        let rows = [
            typed("12.50", "month@Europe/Berlin"),
            typed("2.00", "rolling:1h"),
            typed("500.00", "bucket:500.00:1.50/h"),
        ];
        let limits = read(&rows, &usd).expect("limits");
        assert_eq!(limits.iter().map(|limit| limit.amount).collect::<Vec<_>>(), [12_500_000, 2_000_000, 500_000_000]);
        let budget = BudgetBody { unit: "usd".to_owned(), limits, ..BudgetBody::default() };
        assert_eq!(written(&budget), rows);
        let missing = read(&[typed("5", "")], &usd).expect_err("no window");
        assert!(missing.to_string().contains("window of 5 is missing"), "{missing}");
        assert!(read(&[typed("lots", "day")], &usd).is_err());
    }

    #[test]
    fn a_form_has_a_row_for_each_limit_and_spare_ones() {
        let row = Row { amount: "5".to_owned(), window: "day".to_owned() };
        let html = rows(&[row], 2, "usd").into_string();
        assert_eq!(html.matches("name=\"amount\"").count(), 3, "{html}");
        assert_eq!(html.matches("value=\"5\"").count(), 1, "{html}");
    }
}
