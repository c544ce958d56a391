//! Who spends: the children of a budget by their spend in one of its windows.

use std::cmp::Reverse;

use bursar_client::Scope;
use bursar_core::time::{Span, Time};
use bursar_wire::budget::{BalanceAnswer, BudgetAnswer};
use maud::{Markup, html};

use crate::failure::Failure;
use crate::view::{amount, bar, refusals};
use crate::visit::{Visit, encoded};

/// Budgets that are searched for the children of one.
const SEARCHED: usize = 500;
/// Children without a limit over the window whose postings are added up: those that have spent most ever.
const ADDED_UP: usize = 12;
/// Children shown on a budget's page.
const SHOWN: usize = 50;
/// Children shown on the overview.
const SHOWN_FIRST: usize = 5;

/// A child of a budget and its spend in the window.
pub(crate) struct Spender {
    budget: BudgetAnswer,
    spent: i64,
}

/// Returns whether a budget is a child of a scope.
fn is_child(budget: &BudgetAnswer, parent: &Scope) -> bool {
    budget.budget.as_ref().and_then(|body| body.parent.as_ref()) == Some(parent)
}

/// Returns the budgets below a scope: those whose names begin with its name or, if there is none, among all.
pub(crate) async fn children(visit: &Visit, parent: &Scope) -> Result<Vec<BudgetAnswer>, Failure> {
    for prefix in [parent.as_str(), ""] {
        let page = visit.client.budgets().list(prefix, None, SEARCHED).await?.into_inner();
        let found: Vec<BudgetAnswer> = page.items.into_iter().filter(|budget| is_child(budget, parent)).collect();
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Returns the children of a scope among known budgets.
pub(crate) fn among(budgets: &[BudgetAnswer], parent: &Scope) -> Vec<BudgetAnswer> {
    budgets.iter().filter(|budget| is_child(budget, parent)).cloned().collect()
}

/// Returns when the window of a balance began; `None` if it has always been.
fn began(balance: &BalanceAnswer, now: Time) -> Option<Time> {
    let rolling = (balance.window.window == "rolling").then_some(balance.window.length_ms).flatten();
    let length = rolling.and_then(|millis| u64::try_from(millis).ok());
    length.map(|millis| now.before(Span::from_millis(millis))).or_else(|| balance.start.as_ref()?.parse().ok())
}

/// Orders children by their spend in the window of a balance of their parent, the largest first.
pub(crate) async fn by_spend(
    visit: &Visit,
    children: Vec<BudgetAnswer>,
    balance: &BalanceAnswer,
) -> Result<Vec<Spender>, Failure> {
    let posted = |budget: &BudgetAnswer, window: &str| {
        let found = budget.balances.iter().find(|own| own.window.shown(own.limit) == window);
        found.map(|own| own.posted)
    };
    let window = balance.window.shown(balance.limit);
    let since = began(balance, visit.now);
    let (mut spenders, mut others) = (Vec::new(), Vec::new());
    for budget in children {
        let ever = posted(&budget, "lifetime").unwrap_or_default();
        // A bucket has no beginning, so that everything counts.
        match posted(&budget, &window).or(since.is_none().then_some(ever)) {
            Some(spent) => spenders.push(Spender { budget, spent }),
            None => others.push((ever, budget)),
        }
    }
    others.sort_by_key(|(ever, _)| Reverse(*ever));
    let since = since.map(|since| since.to_string());
    for (_, budget) in others.into_iter().take(ADDED_UP) {
        let spent = visit.client.budgets().spent(&budget.scope, since.as_deref(), None).await?.into_inner().spent;
        spenders.push(Spender { budget, spent });
    }
    spenders.sort_by(|a, b| (b.spent, &a.budget.scope).cmp(&(a.spent, &b.budget.scope)));
    Ok(spenders)
}

/// Shows the largest spenders with their shares of what their parent has spent.
pub(crate) fn top(visit: &Visit, parent: &BudgetAnswer, balance: &BalanceAnswer, spenders: &[Spender]) -> Markup {
    let unit = amount::unit_of(parent);
    html! {
        div.card-head { h2 { "Top spenders" } span.meta { (parent.scope) ", " (balance.window.shown(balance.limit)) } a.more href=(path(visit, &parent.scope)) { "Open " (parent.scope) } }
        div.table-wrap {
            table.table.stacks {
                thead { tr { th scope="col" { "Budget" } th scope="col" { "Share" } th.num scope="col" { "Spent" } } }
                tbody {
                    @for spender in spenders.iter().take(SHOWN_FIRST) {
                        tr {
                            td.clip.lead-half { a href=(path(visit, &spender.budget.scope)) { (spender.budget.scope) } }
                            td.bar-col { (share(spender.spent, balance.posted)) }
                            td.num.at-end title=(unit.format(spender.spent)) { (amount::brief(spender.spent, &unit)) }
                        }
                    }
                }
            }
        }
    }
}

/// Shows the children of a budget: how full their own limits are, and what they have spent in the parent's window.
pub(crate) fn table(
    visit: &Visit,
    parent: &BudgetAnswer,
    balance: Option<&BalanceAnswer>,
    spenders: &[Spender],
) -> Markup {
    let unit = amount::unit_of(parent);
    let more = spenders.len().saturating_sub(SHOWN);
    html! {
        div.card-head {
            h2 { "Budgets below" }
            span.meta { "by spend" @if let Some(balance) = balance { " in " (balance.window.shown(balance.limit)) } @if more > 0 { ", the first " (SHOWN) " of " (spenders.len()) } }
        }
        div.table-wrap tabindex="0" role="region" aria-label="Budgets below" {
            table.table.stacks {
                thead { tr {
                    th scope="col" { "Budget" } th scope="col" { "State" } th scope="col" { "Nearest limit" } th.num scope="col" { "Free" }
                    th.num scope="col" { "Refused" } th.num scope="col" { "Spent" } th scope="col" { "Share" }
                } }
                tbody { @for spender in spenders.iter().take(SHOWN) {
                    @let tightest = bar::tightest(&spender.budget).map(|(balance, _)| balance);
                    tr {
                        th.lead-half scope="row" { a href=(path(visit, &spender.budget.scope)) { (spender.budget.scope) } }
                        td.at-end { (crate::pages::budgets::state(&spender.budget)) }
                        td.bar-col { (bar::cell(&spender.budget, &amount::unit_of(&spender.budget))) }
                        td.num data-label="free" { (tightest.and_then(|balance| balance.remaining).map(|left| amount::brief(left, &amount::unit_of(&spender.budget))).unwrap_or_else(|| "–".to_owned())) }
                        (refusals::cell(refusals::most(&spender.budget.refusals), visit.now))
                        td.num data-label="spent" title=(unit.format(spender.spent)) { (amount::brief(spender.spent, &unit)) }
                        td.share-col { (share(spender.spent, balance.map_or(0, |balance| balance.posted))) }
                    }
                } }
            }
        }
    }
}

fn path(visit: &Visit, scope: &Scope) -> String {
    visit.url(&format!("/budgets/{}", encoded(scope.as_str())))
}

/// Shows a part of a whole as a bar with its percentage.
fn share(part: i64, whole: i64) -> Markup {
    let thousandths =
        if whole <= 0 { 0 } else { (i128::from(part) * 1_000 / i128::from(whole)).clamp(0, 1_000) as i64 };
    let label = format!("{} % of the spend", thousandths / 10);
    html! { div.bar-cell { (bar::share(thousandths, &label)) span.num { (thousandths / 10) " %" } } }
}

#[cfg(test)]
mod tests {
    use bursar_wire::window::WindowFields;

    use super::*;

    #[test]
    fn a_window_begins_where_its_balance_says() {
        let now = Time::from_micros(7_200_000_000);
        let balance = |window: &'static str, length_ms, start: Option<&str>| BalanceAnswer {
            window: WindowFields { window: window.into(), length_ms, ..WindowFields::default() },
            start: start.map(str::to_owned),
            end: None,
            limit: Some(1),
            posted: 0,
            held: 0,
            remaining: None,
            unit: bursar_core::notation::Unit::default(),
        };
        let hour = Time::from_micros(3_600_000_000);
        assert_eq!(began(&balance("rolling", Some(3_600_000), None), now), Some(hour));
        assert_eq!(began(&balance("day", None, Some(&hour.to_string())), now), Some(hour));
        assert_eq!(began(&balance("lifetime", None, None), now), None);
        assert_eq!(began(&balance("bucket", Some(3_600_000), None), now), None);
    }

    #[test]
    fn shares_are_bounded() {
        for (part, whole, percent) in [(1, 4, "25 %"), (5, 0, "0 %"), (9, 3, "100 %"), (-1, 3, "0 %")] {
            assert!(share(part, whole).into_string().contains(&format!(">{percent}<")), "{part} of {whole}");
        }
    }
}
