//! The tree of budgets.

use std::collections::{HashMap, HashSet};

use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::get;
use bursar_client::{BudgetBody, Scope};
use bursar_core::bounds::DEPTH_MAX;
use bursar_core::notation::Unit;
use bursar_wire::budget::BudgetAnswer;
use maud::{Markup, html};
use serde::Deserialize;

use crate::Shared;
use crate::failure::Failure;
use crate::shell::{self, Live, head_of};
use crate::suggested::DEFINE_BUDGET;
use crate::view::{amount, badge, bar, form, limits, list, refusals, time};
use crate::visit::{Act, Visit, encoded};

/// Budgets on a page.
const PAGE: usize = 200;
/// The beginning of the scopes that Bursar itself uses.
pub(crate) const INTERNAL: &str = "bursar:";
/// The deepest indentation.
const INDENT_MAX: usize = 7;

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/budgets", get(show)).route("/budgets/new", get(new).post(define))
}

#[derive(Deserialize)]
struct Filter {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    cursor: Option<String>,
}

async fn show(visit: Visit, Query(filter): Query<Filter>) -> Result<Response, Failure> {
    let mut page = visit.client.budgets().list(&filter.prefix, filter.cursor.as_deref(), PAGE).await?.into_inner();
    // Limits of queues and flow keys are kept as scopes too; these have no budget.
    if !filter.prefix.starts_with(INTERNAL) {
        page.items.retain(|budget| !budget.scope.as_str().starts_with(INTERNAL));
    }
    let acts =
        html! { @if visit.may("budgets.write") { a.btn.is-primary href=(visit.url("/budgets/new")) { "New budget" } } };
    let meta = html! { "Each row shows the limit that is nearest." };
    let body = html! {
        (head_of(&visit, &[], &html! { "Budgets" }, &meta, &acts))
        section.card {
            form.filters method="get" {
                @if let Some(tenant) = &visit.tenant { input type="hidden" name="tenant" value=(tenant); }
                div.field.is-grow { label for="prefix" { "Scope begins with" } input.mono #prefix name="prefix" value=(filter.prefix) placeholder="acme/research"; }
                div.acts { button.btn { "Show" } }
            }
            div data-live #budgets {
                @if page.items.is_empty() {
                    (list::empty("No budgets", "A budget limits what a scope may spend.", Some(DEFINE_BUDGET)))
                } @else {
                    div.table-wrap tabindex="0" role="region" aria-label="Budgets" { (tree(&visit, &page.items)) }
                }
            }
            (list::pager(&visit, page.items.len(), "budgets", page.next.as_deref()))
        }
    };
    Ok(shell::page(&visit, "Budgets", &Live::Replace("journal".to_owned()), &body))
}

/// Orders budgets so that children follow their parents, with their depth.
fn ordered(budgets: &[BudgetAnswer]) -> Vec<(&BudgetAnswer, usize)> {
    let known: HashSet<&str> = budgets.iter().map(|budget| budget.scope.as_str()).collect();
    let parent = |budget: &BudgetAnswer| {
        let parent = budget.budget.as_ref().and_then(|body| body.parent.as_ref())?;
        known.get(parent.as_str()).copied().map(str::to_owned)
    };
    let mut children: HashMap<Option<String>, Vec<&BudgetAnswer>> = HashMap::new();
    for budget in budgets {
        children.entry(parent(budget)).or_default().push(budget);
    }
    let mut rows = Vec::new();
    let mut next: Vec<(&BudgetAnswer, usize)> = Vec::new();
    next.extend(children.remove(&None).unwrap_or_default().into_iter().rev().map(|budget| (budget, 0)));
    while let Some((budget, depth)) = next.pop() {
        rows.push((budget, depth));
        let below = children.remove(&Some(budget.scope.to_string())).unwrap_or_default();
        next.extend(below.into_iter().rev().map(|child| (child, depth + 1)));
    }
    rows
}

fn tree(visit: &Visit, budgets: &[BudgetAnswer]) -> Markup {
    html! {
        table.table.tree.stacks {
            thead { tr {
                th scope="col" { "Scope" } th scope="col" { "Window" } th scope="col" { "Used" } th scope="col" { "State" }
                th.num scope="col" { "Posted" } th.num scope="col" { "Held" } th.num scope="col" { "Limit" } th.num scope="col" { "Refused" } th.num scope="col" { "Resets" }
            } }
            tbody { @for (budget, depth) in ordered(budgets) { (row(visit, budget, depth, frozen_above(budgets, budget))) } }
        }
    }
}

/// Returns whether an ancestor on this page is frozen.
fn frozen_above(budgets: &[BudgetAnswer], budget: &BudgetAnswer) -> bool {
    let parent = |budget: &BudgetAnswer| budget.budget.as_ref().and_then(|body| body.parent.clone());
    let mut next = parent(budget);
    for _ in 0..DEPTH_MAX {
        let above = next.and_then(|scope| budgets.iter().find(|budget| budget.scope == scope));
        match above {
            Some(above) if above.frozen => return true,
            above => next = above.and_then(parent),
        }
    }
    false
}

fn row(visit: &Visit, budget: &BudgetAnswer, depth: usize, frozen_above: bool) -> Markup {
    let unit = amount::unit_of(budget);
    let tightest = bar::tightest(budget);
    let balance = tightest.map(|(balance, _)| balance);
    let class = tightest.map(|(_, fill)| fill.class()).unwrap_or_default();
    html! {
        tr class=(class) {
            th scope="row" class={ "tree-cell lead-half d" (depth.min(INDENT_MAX)) } {
                a href=(visit.url(&format!("/budgets/{}", encoded(budget.scope.as_str())))) { (budget.scope) }
            }
            td.muted data-label="limit of" { (balance.map(|balance| balance.window.shown(balance.limit)).unwrap_or_default()) }
            td.bar-col { (bar::cell(budget, &unit)) }
            td.at-end { @if frozen_above && !budget.frozen { (badge::badge("frozen", "frozen above")) } @else { (state(budget)) } }
            (amount::cell_or_dash("posted", balance.map(|balance| balance.posted), &unit))
            (amount::cell_or_dash("held", balance.map(|balance| balance.held), &unit))
            (amount::cell_or_dash("of", balance.and_then(|balance| balance.limit), &unit))
            (refusals::cell(refusals::most(&budget.refusals), visit.now))
            td.num data-label="resets" { (time::relative(balance.and_then(|balance| balance.end.as_deref()), visit.now)) }
        }
    }
}

/// Shows how a budget stands.
pub(crate) fn state(budget: &BudgetAnswer) -> Markup {
    let in_shadow = budget.budget.as_ref().is_some_and(|body| body.shadow);
    match bar::tightest(budget).map(|(_, fill)| fill.percent()) {
        Some(100..) if in_shadow => badge::badge("warn", "shadow, past the limit"),
        _ if in_shadow => badge::badge("off", "shadow"),
        _ if budget.frozen => badge::badge("frozen", "frozen"),
        Some(100..) => badge::badge("bad", "at the limit"),
        Some(80..) => badge::badge("warn", "over 80 %"),
        Some(_) => badge::badge("ok", "within"),
        None => badge::badge("off", "no limit"),
    }
}

async fn new(visit: Visit) -> Result<Response, Failure> {
    visit.require("budgets.write")?;
    Ok(new_form(&visit, &|name| if name == "unit" { "usd" } else { "" }, &[], None))
}

/// Shows the form of a new budget with the values of its fields.
fn new_form<'a>(
    visit: &Visit,
    value: &dyn Fn(&'static str) -> &'a str,
    rows: &[limits::Row],
    problem: Option<&str>,
) -> Response {
    let body = html! {
        (head_of(visit, &[("/budgets", "Budgets")], &html! { "New budget" }, &html! {}, &html! {}))
        section.card { div.card-body {
            form.form method="post" action=(visit.url("/budgets/new")) {
                (form::token(visit))
                @if let Some(problem) = problem { div.flash.is-bad role="alert" { p { (problem) } } }
                (form::field("scope", "Scope", value("scope"), "acme/research/scout"))
                (form::field("parent", "Parent, which is charged as well", value("parent"), "acme/research"))
                (form::field("unit", "Unit", value("unit"), "usd, tokens, …"))
                (limits::rows(rows, if rows.is_empty() { 2 } else { 1 }, ""))
                (form::field("reason", "Reason", value("reason"), "why, for the journal"))
                div.form-acts { button.btn.is-primary { "Define" } a.btn.is-quiet href=(visit.url("/budgets")) { "Back" } }
            }
        } }
    };
    shell::page(visit, "New budget", &Live::Still, &body)
}

async fn define(act: Act) -> Result<Response, Failure> {
    match defined(&act).await {
        Ok(scope) => {
            let path = format!("/budgets/{}", encoded(scope.as_str()));
            Ok(act.visit.done(&path, format!("The budget {scope} is defined.")))
        }
        Err(failure) if failure.is_forbidden() => Err(failure),
        Err(failure) => {
            let value = |name: &'static str| act.field(name).unwrap_or_default();
            Ok(new_form(&act.visit, &value, &limits::sent(&act), Some(&failure.text())))
        }
    }
}

async fn defined(act: &Act) -> Result<Scope, Failure> {
    let scope = Scope::new(act.field("scope").unwrap_or_default())?;
    let unit = act.field("unit").unwrap_or_default();
    let limits = limits::read(&limits::sent(act), &Unit::named(unit))?;
    let parent = act.field("parent").map(Scope::new).transpose()?;
    let reason = act.field("reason").map(str::to_owned);
    let body = BudgetBody {
        unit: unit.to_owned(),
        parent,
        limits,
        thresholds: vec![80, 100],
        reason,
        ..BudgetBody::default()
    };
    act.visit.client.budgets().define(&scope, &body).await?;
    Ok(scope)
}
