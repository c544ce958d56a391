//! Bars: how much of a limit is posted, held and free.

use bursar_core::notation::Unit;
use bursar_wire::budget::{BalanceAnswer, BudgetAnswer};
use maud::{Markup, html};

/// The width of a bar in its own units; the browser scales it.
const WIDTH: i64 = 1_000;

/// How full a limit is, in thousandths; more than 1,000 after an overrun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) posted: i64,
    pub(crate) held: i64,
}

impl Fill {
    /// Returns the fill of a balance; `None` without a limit.
    pub(crate) fn of(balance: &BalanceAnswer) -> Option<Fill> {
        let limit = i128::from(balance.limit?);
        // A limit of zero is full from the start.
        let part = |amount: i64| match limit {
            0 => WIDTH,
            limit => (i128::from(amount) * i128::from(WIDTH) / limit).clamp(0, 1_000_000) as i64,
        };
        Some(Fill { posted: part(balance.posted), held: if limit == 0 { 0 } else { part(balance.held) } })
    }

    /// Returns how much is not free, in percent.
    pub(crate) fn percent(self) -> i64 {
        (self.posted + self.held) / 10
    }

    /// Returns the class that tells how close the limit is.
    pub(crate) fn class(self) -> &'static str {
        match self.percent() {
            ..80 => "",
            80..100 => "is-warn",
            _ => "is-bad",
        }
    }
}

/// Returns the balance of a budget that is closest to its limit.
pub(crate) fn tightest(budget: &BudgetAnswer) -> Option<(&BalanceAnswer, Fill)> {
    let fills = budget.balances.iter().filter_map(|balance| Some((balance, Fill::of(balance)?)));
    fills.max_by_key(|(_, fill)| fill.percent())
}

/// Shows a bar; `off` greys it out.
pub(crate) fn bar(fill: Fill, label: &str, large: bool, off: bool) -> Markup {
    let posted = fill.posted.min(WIDTH);
    let held = fill.held.min(WIDTH - posted);
    let class = if off { "is-off" } else { fill.class() };
    let hatch = match class {
        "" => "url(#hatch)",
        "is-warn" => "url(#hatch-warn)",
        "is-bad" => "url(#hatch-bad)",
        _ => "url(#hatch-off)",
    };
    let (size, height) = if large { ("is-lg", 16) } else { ("", 8) };
    html! {
        svg class={ "bar " (class) " " (size) } width="100%" height=(height) role="img" aria-label=(label) {
            rect.bar-track width="100%" height=(height) {}
            rect.bar-posted width=(percent(posted)) height=(height) {}
            @if held > 0 { rect.bar-held x=(percent(posted)) width=(percent(held)) height=(height) fill=(hatch) {} }
        }
    }
}

/// Shows thousandths of a whole as a bar without states.
pub(crate) fn share(thousandths: i64, label: &str) -> Markup {
    html! {
        svg.bar width="100%" height="8" role="img" aria-label=(label) {
            rect.bar-track width="100%" height="8" {}
            rect.bar-share width=(percent(thousandths.clamp(0, WIDTH))) height="8" {}
        }
    }
}

/// Writes thousandths as an SVG length.
fn percent(thousandths: i64) -> String {
    format!("{}.{}%", thousandths / 10, thousandths % 10)
}

/// Shows what the parts of a bar mean, with their amounts.
pub(crate) fn legend(balance: &BalanceAnswer, unit: &Unit, fill: Fill) -> Markup {
    let (posted, hatch) = match fill.class() {
        "is-warn" => ("s-retried", "url(#hatch-warn)"),
        "is-bad" => ("s-failed", "url(#hatch-bad)"),
        _ => ("s-posted", "url(#hatch)"),
    };
    html! {
        span.key { svg viewBox="0 0 12 12" aria-hidden="true" { rect class=(posted) width="12" height="12" {} } "posted " span.num { (unit.format(balance.posted)) } }
        span.key { svg viewBox="0 0 12 12" aria-hidden="true" { rect width="12" height="12" fill=(hatch) {} } "held " span.num { (unit.format(balance.held)) } }
        @if let Some(left) = balance.remaining {
            span.key { svg viewBox="0 0 12 12" aria-hidden="true" { rect.bar-track width="12" height="12" {} } "free " span.num { (unit.format(left)) } }
        }
    }
}

/// Shows a bar with its percentage, for a table cell.
pub(crate) fn cell(budget: &BudgetAnswer, unit: &Unit) -> Markup {
    match tightest(budget) {
        Some((balance, fill)) => html! {
            div class={ "bar-cell " (fill.class()) } {
                (bar(fill, &label(balance, unit), false, budget.frozen))
                span.num { (fill.percent()) " %" }
            }
        },
        None => html! { span.quiet { "no limit" } },
    }
}

/// Describes a balance for people who cannot see its bar.
pub(crate) fn label(balance: &BalanceAnswer, unit: &Unit) -> String {
    let limit = balance.limit.map_or_else(|| "no limit".to_owned(), |limit| format!("of {}", unit.format(limit)));
    format!("{} posted and {} held {limit}", unit.format(balance.posted), unit.format(balance.held))
}

/// The patterns that bars fill held units with. Every page has them once.
pub(crate) fn patterns() -> Markup {
    html! {
        svg.sprite aria-hidden="true" {
            defs {
                @for (id, class) in [("hatch", ""), ("hatch-warn", "is-warn"), ("hatch-bad", "is-bad"), ("hatch-off", "is-off")] {
                    pattern id=(id) width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                        rect class={ "hatch-ground " (class) } width="6" height="6" {}
                        line class={ "hatch-line " (class) } x1="1" y1="0" x2="1" y2="6" {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balance(limit: Option<i64>, posted: i64, held: i64) -> BalanceAnswer {
        let window = bursar_wire::window::WindowFields::default();
        BalanceAnswer { window, start: None, end: None, limit, posted, held, remaining: None, unit: Unit::default() }
    }

    #[test]
    fn fills_are_bounded_and_exact_for_large_amounts() {
        assert_eq!(Fill::of(&balance(None, 5, 5)), None);
        assert_eq!(Fill::of(&balance(Some(200), 100, 50)), Some(Fill { posted: 500, held: 250 }));
        let large = Fill::of(&balance(Some(i64::MAX), i64::MAX, 0)).expect("a limit");
        assert_eq!((large.percent(), large.class()), (100, "is-bad"));
        assert_eq!(Fill::of(&balance(Some(0), 0, 0)).map(Fill::percent), Some(100));
        assert_eq!(Fill::of(&balance(Some(1), i64::MAX, 0)).map(Fill::percent), Some(100_000));
        assert_eq!(Fill::of(&balance(Some(100), -5, 0)).map(Fill::percent), Some(0));
    }

    #[test]
    fn an_overrun_fills_the_bar_and_not_more() {
        let html = bar(Fill { posted: 5_000, held: 900 }, "x", false, false).into_string();
        assert!(html.contains("width=\"100.0%\"") && !html.contains("500.0%") && html.contains("is-bad"), "{html}");
    }
}
