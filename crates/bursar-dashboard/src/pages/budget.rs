//! One budget: balances, burn, live holds, history, and its acts.

use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::{get, post};
use bursar_client::Scope;
use bursar_core::bounds::DEPTH_MAX;
use bursar_core::notation::{Unit, relative};
use bursar_core::time::{Span, Time};
use bursar_wire::budget::{BalanceAnswer, BudgetAnswer, CreditBody, FreezeAnswer};
use bursar_wire::event::EventAnswer;
use bursar_wire::hold::HoldAnswer;
use maud::{Markup, html};

use crate::Shared;
use crate::failure::Failure;
use crate::pages::budgets::state;
use crate::pages::spenders;
use crate::shell::{self, Live, head_of};
use crate::view::chart::{self, Burn, RATE_OVER};
use crate::view::{amount, badge, bar, form, limits, list, refusals, time};
use crate::visit::{Act, Visit, encoded, query_value};

/// Holds and events shown.
const SHOWN: usize = 25;
/// Steps of the burn chart.
const STEPS: u32 = 60;

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/budgets/{scope}", get(show))
        .route("/budgets/{scope}/freeze", post(freeze))
        .route("/budgets/{scope}/unfreeze", post(unfreeze))
        .route("/budgets/{scope}/credit", post(credit))
        .route("/budgets/{scope}/limits", post(change_limits))
}

fn path(scope: &Scope) -> String {
    format!("/budgets/{}", encoded(scope.as_str()))
}

async fn show(visit: Visit, Path(scope): Path<String>) -> Result<Response, Failure> {
    let scope = Scope::new(&scope)?;
    let client = &visit.client;
    let budget = client.budgets().show(&scope).await?.into_inner();
    let unit = amount::unit_of(&budget);
    let holds = match visit.may("commands.read") {
        true => client.holds().list(&scope, None, None, SHOWN).await?.into_inner().items,
        false => Vec::new(),
    };
    let history = client.budgets().history(&scope, None, SHOWN).await?.into_inner().items;
    let burn = burn(&visit, &budget).await?;
    let frozen_above = frozen_above(&visit, &budget).await?;
    let headline = bar::tightest(&budget).map(|(balance, _)| balance).or(budget.balances.first());
    let spenders = match headline {
        Some(headline) => spenders::by_spend(&visit, spenders::children(&visit, &scope).await?, headline).await?,
        None => Vec::new(),
    };
    let body = html! {
        (head(&visit, &budget, &unit))
        div data-live #above {
            @if let Some(above) = &frozen_above {
                div.flash.is-bad { p { "Every charge is refused, because " a href=(visit.url(&path(above))) { (above) } " above is frozen." } }
            }
        }
        div.stack data-live #balances { (balances(&visit, &budget, &unit)) }
        div data-live #burn { @if let Some((burn, label)) = &burn { section.card { (burn_chart(&visit, &budget, burn, label, &unit)) } } }
        div data-live #children { @if !spenders.is_empty() { section.card { (spenders::table(&visit, &budget, headline, &spenders)) } } }
        div.cols {
            section.card data-live #holds { (live_holds(&visit, &holds, &unit, &scope)) }
            section.card data-live #history { (history_of(&visit, &history, &unit)) }
        }
    };
    let channel = format!("budget:{}", encoded(scope.as_str()));
    Ok(shell::page(&visit, scope.as_str(), &Live::Replace(channel), &body))
}

/// Returns the nearest ancestor that is frozen.
async fn frozen_above(visit: &Visit, budget: &BudgetAnswer) -> Result<Option<Scope>, Failure> {
    let mut next = budget.budget.as_ref().and_then(|body| body.parent.clone());
    for _ in 0..DEPTH_MAX {
        let Some(scope) = next else { return Ok(None) };
        let above = visit.client.budgets().show(&scope).await?.into_inner();
        if above.frozen {
            return Ok(Some(scope));
        }
        next = above.budget.and_then(|body| body.parent);
    }
    Ok(None)
}

fn head(visit: &Visit, budget: &BudgetAnswer, unit: &Unit) -> Markup {
    let scope = &budget.scope;
    let parent = budget.budget.as_ref().and_then(|body| body.parent.as_ref());
    let title = html! { (scope) (state(budget)) };
    let meta = html! {
        @if !unit.name.is_empty() { "counts " span.tag { (unit.name) } }
        @if let Some(parent) = parent { " charged up to " a href=(visit.url(&path(parent))) { (parent) } }
    };
    let path = path(scope);
    let acts = html! {
        @if visit.may("budgets.write") {
            (form::with_reason(visit, &format!("{path}/credit"), "Credit", "", &form::field("amount", "Amount to give back", "", "2.50")))
            (form::with_reason(visit, &format!("{path}/limits"), "Change limits", "", &limit_rows(budget, unit)))
            @if budget.frozen { (form::with_reason(visit, &format!("{path}/unfreeze"), "Unfreeze", "", &html! {})) }
            @else { (form::with_reason(visit, &format!("{path}/freeze"), "Freeze", "is-danger", &html! { p.hint { "Every new charge is refused until it is unfrozen." } })) }
        }
    };
    head_of(visit, &[("/budgets", "Budgets")], &title, &meta, &acts)
}

/// Shows the limits of a budget as rows of a form.
fn limit_rows(budget: &BudgetAnswer, unit: &Unit) -> Markup {
    let rows = budget.budget.as_ref().map(limits::written).unwrap_or_default();
    limits::rows(&rows, 1, unit.symbol.as_deref().unwrap_or(&unit.name))
}

fn balances(visit: &Visit, budget: &BudgetAnswer, unit: &Unit) -> Markup {
    let tightest = bar::tightest(budget);
    html! {
        @if budget.budget.as_ref().is_some_and(|body| body.shadow) {
            div.flash { p { "In shadow mode: its limits refuse nothing. What they would have refused is in the events below as "
                code { "budget.would_refuse" } "." } }
        }
        @if let Some(freeze) = &budget.freeze { div.flash.is-bad { p { (frozen(visit, freeze)) } } }
        @if let Some((balance, fill)) = tightest {
            section.card aria-label="Nearest limit" {
                div.stats {
                    div class={ "stat " (fill.class()) } {
                        span.stat-label { "Free in " (balance.window.shown(balance.limit)) }
                        span.stat-value {
                            (balance.remaining.map(|left| amount::brief(left, unit)).unwrap_or_else(|| "–".to_owned()))
                            @if let Some(limit) = balance.limit { " " span.of { "of " (amount::brief(limit, unit)) } }
                        }
                    }
                    div.stat { span.stat-label { "Posted" } span.stat-value { (amount::brief(balance.posted, unit)) } }
                    div.stat { span.stat-label { "Held" } span.stat-value { (amount::brief(balance.held, unit)) } }
                    (refused(visit, budget))
                    div.stat { span.stat-label { "Resets" } span.stat-value { (resets(visit, balance)) } span.stat-note { (balance.end.as_deref().map(time::exact).unwrap_or_default()) } }
                }
                div.card-body {
                    (bar::bar(fill, &bar::label(balance, unit), true, budget.frozen))
                    div.legend { (bar::legend(balance, unit, fill)) span.end.quiet { (thresholds(budget)) } }
                }
            }
        }
        section.card {
            div.card-head { h2 { "Limits" } span.meta { "A charge must fit all of them." } }
            div.table-wrap tabindex="0" role="region" aria-label="Limits" {
                table.table.stacks {
                    thead { tr {
                        th scope="col" { "Window" } th scope="col" { "Used" } th.num scope="col" { "Posted" } th.num scope="col" { "Held" }
                        th.num scope="col" { "Free" } th.num scope="col" { "Limit" } th.num scope="col" { "Refused" } th.num scope="col" { "Resets" }
                    } }
                    tbody { @for balance in with_limits(budget) { (limit_row(visit, budget, balance, unit)) } }
                }
            }
        }
    }
}

/// Returns the balances with a limit; all of them if none has one.
fn with_limits(budget: &BudgetAnswer) -> Vec<&BalanceAnswer> {
    let limited: Vec<&BalanceAnswer> = budget.balances.iter().filter(|balance| balance.limit.is_some()).collect();
    if limited.is_empty() { budget.balances.iter().collect() } else { limited }
}

fn limit_row(visit: &Visit, budget: &BudgetAnswer, balance: &BalanceAnswer, unit: &Unit) -> Markup {
    let fill = bar::Fill::of(balance);
    html! {
        tr {
            th.lead scope="row" { (balance.window.shown(balance.limit)) }
            td.bar-col {
                @if let Some(fill) = fill {
                    div class={ "bar-cell " (fill.class()) } { (bar::bar(fill, &bar::label(balance, unit), false, budget.frozen)) span.num { (fill.percent()) " %" } }
                }
            }
            (amount::cell("posted", balance.posted, unit))
            (amount::cell("held", balance.held, unit))
            (amount::cell_or_dash("free", balance.remaining, unit))
            (amount::cell_or_dash("of", balance.limit, unit))
            (refusals::cell(refusals::of_limit(&budget.refusals, balance), visit.now))
            td.num data-label="resets" { (resets(visit, balance)) }
        }
    }
}

/// Shows how often charges were refused, which is what a limit is for.
fn refused(visit: &Visit, budget: &BudgetAnswer) -> Markup {
    let most = refusals::most(&budget.refusals);
    html! {
        div.stat #refused {
            span.stat-label { "Refused" }
            @match most {
                Some(most) => {
                    span.stat-value { (amount::count(i64::try_from(most.count).unwrap_or(i64::MAX))) " " span.of { @if most.count == 1 { "time" } @else { "times" } } }
                    span.stat-note { "last " (time::relative(most.last_at.as_deref(), visit.now)) ", by " (most.window.as_deref().unwrap_or("its freeze")) ", since this server started" }
                }
                None => { span.stat-value { "0" } span.stat-note { "since this server started" } }
            }
        }
    }
}

fn resets(visit: &Visit, balance: &BalanceAnswer) -> Markup {
    match (balance.end.as_deref(), balance.window.window.as_ref()) {
        (Some(end), _) => time::relative(Some(end), visit.now),
        (None, "rolling") => html! { "slides" },
        (None, "bucket") => html! { "refills" },
        _ => html! { "never" },
    }
}

fn thresholds(budget: &BudgetAnswer) -> String {
    let thresholds = budget.budget.iter().flat_map(|body| &body.thresholds);
    let written: Vec<String> = thresholds.map(|percent| format!("{percent} %")).collect();
    if written.is_empty() { String::new() } else { format!("Thresholds at {}", written.join(", ")) }
}

fn frozen(visit: &Visit, freeze: &FreezeAnswer) -> Markup {
    match freeze {
        FreezeAnswer::Order { actor, reason } => html! {
            "Frozen by " strong { (actor.id.as_deref().unwrap_or(&actor.kind)) }
            @if let Some(reason) = reason { ": " (reason) }
        },
        FreezeAnswer::Trip { until, .. } => html! {
            "Frozen because spending passed the trip limit"
            @if until.is_some() { "; it unfreezes " (time::relative(until.as_deref(), visit.now)) }
        },
    }
}

/// Returns the beginning and the end of the window of a balance, if it can be drawn. A window that slides ends now; a bucket and a
/// lifetime have no beginning.
fn period(balance: &BalanceAnswer, now: Time) -> Option<(Time, Time)> {
    match (&balance.start, &balance.end, balance.window.length_ms) {
        (Some(start), Some(end), _) => Some((start.parse().ok()?, end.parse().ok()?)),
        (_, _, Some(length)) if balance.window.window == "rolling" => {
            Some((now.before(Span::from_millis(u64::try_from(length).ok()?)), now))
        }
        _ => None,
    }
}

/// Returns the balances whose spend can be drawn, the nearest to its limit first.
fn drawable(budget: &BudgetAnswer, now: Time) -> Vec<&BalanceAnswer> {
    let with_period = budget.balances.iter().filter(|balance| period(balance, now).is_some());
    let mut found: Vec<_> =
        with_period.filter_map(|balance| Some((bar::Fill::of(balance)?.percent(), balance))).collect();
    found.sort_by_key(|(percent, _)| std::cmp::Reverse(*percent));
    found.into_iter().map(|(_, balance)| balance).collect()
}

/// Returns the burn chart of a window: the one that the URL names, or the one that is nearest its limit.
async fn burn(visit: &Visit, budget: &BudgetAnswer) -> Result<Option<(Burn, String)>, Failure> {
    let windows = drawable(budget, visit.now);
    let asked = query_value(&visit.uri, "window");
    let named = windows.iter().find(|balance| asked == Some(balance.window.shown(balance.limit)));
    let Some(balance) = named.or(windows.first()) else { return Ok(None) };
    let (Some((from, until)), Some(limit)) = (period(balance, visit.now), balance.limit) else { return Ok(None) };
    let now = visit.now.min(until);
    let steps = match now.since(from).micros() > i64::from(STEPS) {
        true => {
            let (from, to) = (from.to_string(), now.to_string());
            let series = visit.client.budgets().series(&budget.scope, &from, Some(&to), STEPS).await?;
            series.into_inner().steps.into_iter().map(|step| step.spent).collect()
        }
        false => Vec::new(),
    };
    let recent = now.before(RATE_OVER).to_string();
    let lately = visit.client.budgets().spent(&budget.scope, Some(&recent), None).await?.into_inner().spent;
    let burn = Burn { lately, start: from, end: until, now, steps, posted: balance.posted, held: balance.held, limit };
    Ok(Some((burn, balance.window.shown(balance.limit))))
}

/// Shows the windows that the chart can show, as links.
fn window_picker(visit: &Visit, budget: &BudgetAnswer, shown: &str) -> Markup {
    let windows: Vec<String> =
        drawable(budget, visit.now).iter().map(|balance| balance.window.shown(balance.limit)).collect();
    html! {
        @if windows.len() > 1 {
            nav.picker aria-label="Window of the chart" {
                @for window in &windows {
                    a href={ (list::with_query(visit, "window", Some(window))) "#burn" } aria-current=[(window == shown).then_some("true")] { (window) }
                }
            }
        }
    }
}

fn burn_chart(visit: &Visit, budget: &BudgetAnswer, burn: &Burn, window: &str, unit: &Unit) -> Markup {
    let day = |at: Time| time::exact(&at.to_string()).chars().take(16).collect::<String>();
    let picker = window_picker(visit, budget, window);
    html! {
        (chart::burn(burn, &picker, &|value| amount::brief(value, unit), &day(burn.start), &day(burn.end)))
        p.card-foot {
            (window) ": "
            @match burn.reaches_limit_at() {
                _ if burn.slides() => { "the window slides: what was spent " (relative(burn.start, visit.now)) " counts no longer" }
                Some(at) if at <= visit.now => span.bad { "the limit is reached" },
                Some(at) => span.warn { "at the rate of the last 10 minutes the limit is reached " (relative(at, visit.now)) },
                None => "at the rate of the last 10 minutes the limit is not reached in this window"
            }
        }
    }
}

fn live_holds(visit: &Visit, holds: &[HoldAnswer], unit: &Unit, scope: &Scope) -> Markup {
    let held = |hold: &HoldAnswer| {
        let own = hold.charges.iter().filter(|charge| charge.scope == *scope || charge.ancestors.contains(scope));
        own.map(|charge| charge.amount).fold(0, i64::saturating_add)
    };
    html! {
        div.card-head { h2 { "Live holds" } span.meta { "first to expire first" } }
        @if holds.is_empty() {
            (list::empty("No live holds", "Nothing is set aside on this scope.", None))
        } @else {
            div.table-wrap {
                table.table.stacks {
                    thead { tr { th scope="col" { "Hold" } th.num scope="col" { "Amount" } th scope="col" { "Job" } th.num scope="col" { "Expires" } } }
                    tbody {
                        @for hold in holds {
                            tr {
                                td.lead-half { (list::plain_id(&hold.id.to_string())) }
                                (amount::cell("amount", held(hold), unit))
                                td data-label="job" { @if let Some(job) = &hold.job { (list::id(&visit.url(&format!("/jobs/{job}")), &job.to_string())) } }
                                td.num data-label="expires" { @if hold.expires_at.is_some() { (time::relative(hold.expires_at.as_deref(), visit.now)) } @else { "with its job" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn history_of(visit: &Visit, events: &[EventAnswer], unit: &Unit) -> Markup {
    html! {
        div.card-head { h2 { "History" } span.meta { "newest first" } }
        @if events.is_empty() {
            (list::empty("No events", "Nothing has happened on this scope yet.", None))
        } @else {
            div.table-wrap {
                table.table.stacks {
                    thead { tr { th scope="col" { "Event" } th.num scope="col" { "Amount" } th scope="col" { "By" } th.num scope="col" { "When" } } }
                    tbody {
                        @for event in events {
                            tr {
                                td.lead { (badge::event_kind(&event.kind)) " " (badge::event_detail(event)) (flags(event)) }
                                (amount::cell_or_dash("amount", amount_of(event), unit))
                                td data-label="by" { (event.actor.id.as_deref().unwrap_or(&event.actor.kind)) @if let Some(reason) = &event.reason { span.quiet { ": " (reason) } } }
                                td.num { (time::relative(event.at.as_deref(), visit.now)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Shows that a commit was late or above its hold.
fn flags(event: &EventAnswer) -> Markup {
    let late = event.data["late"].as_bool().unwrap_or_default();
    let over = event.kind == "hold.committed" && event.data["overrun"].as_i64().unwrap_or_default() > 0;
    html! {
        @if late && event.kind == "hold.committed" { (badge::badge("late", "late")) }
        @if over { (badge::badge("overrun", "overrun")) }
    }
}

/// Returns the amount of the first charge of an event.
fn amount_of(event: &EventAnswer) -> Option<i64> {
    if event.kind == "budget.would_refuse" {
        return event.data["requested"].as_i64();
    }
    let charge = event.data.get("charges").and_then(|charges| charges.get(0)).or_else(|| event.data.get("charge"))?;
    charge.get("actual").and_then(serde_json::Value::as_i64).or_else(|| charge.get("amount")?.as_i64())
}

async fn freeze(Path(scope): Path<String>, act: Act) -> Result<Response, Failure> {
    let scope = Scope::new(&scope)?;
    act.visit.client.budgets().freeze(&scope, act.field("reason")).await?;
    Ok(act.visit.done(&path(&scope), format!("{scope} is frozen: every new charge is refused.")))
}

async fn unfreeze(Path(scope): Path<String>, act: Act) -> Result<Response, Failure> {
    let scope = Scope::new(&scope)?;
    act.visit.client.budgets().unfreeze(&scope, act.field("reason")).await?;
    Ok(act.visit.done(&path(&scope), format!("{scope} admits charges again.")))
}

async fn credit(Path(scope): Path<String>, act: Act) -> Result<Response, Failure> {
    let scope = Scope::new(&scope)?;
    match credited(&act, &scope).await {
        Ok(text) => Ok(act.visit.done(&path(&scope), text)),
        Err(failure) => act.visit.failed(&path(&scope), failure),
    }
}

async fn credited(act: &Act, scope: &Scope) -> Result<String, Failure> {
    let budgets = act.visit.client.budgets();
    let budget = budgets.show(scope).await?.into_inner();
    let unit = amount::unit_of(&budget);
    let amount = unit.parse(act.field("amount").unwrap_or_default())?;
    let body = CreditBody { amount, hold: None, reason: act.field("reason").map(str::to_owned) };
    let excess = budgets.credit(scope, &body).await?.excess;
    let credited = format!("{} credited to {scope}.", unit.format(amount));
    Ok(match excess {
        0 => credited,
        excess => {
            let excess = unit.format(excess);
            format!("{credited} That is {excess} more than it has spent, so its limits admit that much more.")
        }
    })
}

async fn change_limits(Path(scope): Path<String>, act: Act) -> Result<Response, Failure> {
    let scope = Scope::new(&scope)?;
    match changed(&act, &scope).await {
        Ok(()) => Ok(act.visit.done(&path(&scope), format!("The limits of {scope} are changed."))),
        Err(failure) => act.visit.failed(&path(&scope), failure),
    }
}

/// Replaces the limits, provided that the budget has not changed since it was read.
async fn changed(act: &Act, scope: &Scope) -> Result<(), Failure> {
    let client = &act.visit.client;
    let shown = client.budgets().show(scope).await?;
    let etag = shown.etag().map(str::to_owned);
    let mut body = shown.into_inner().budget.unwrap_or_default();
    body.limits = limits::read(&limits::sent(act), &body.display_unit())?;
    body.reason = act.field("reason").map(str::to_owned);
    let client = etag.map_or_else(|| client.clone(), |etag| client.if_match(etag));
    client.budgets().define(scope, &body).await?;
    Ok(())
}
