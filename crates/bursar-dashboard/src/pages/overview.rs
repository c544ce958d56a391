//! What is running, what is stuck, what it costs, and who is near a limit.

use std::collections::HashMap;

use axum::Router;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use bursar_client::Scope;
use bursar_core::job::JobState;
use bursar_core::notation::{Unit, about};
use bursar_core::time::Span;
use bursar_wire::activity::{ActivityAnswer, RefusalsAnswer, ScopeActivity};
use bursar_wire::budget::{BalanceAnswer, BudgetAnswer};
use bursar_wire::event::EventAnswer;
use bursar_wire::queue::{FiguresAnswer, QueueAnswer};
use maud::{Markup, html};

use crate::Shared;
use crate::failure::Failure;
use crate::pages::budgets::INTERNAL;
use crate::pages::queues::{self, state_count};
use crate::pages::spenders;
use crate::shell::{self, Live};
use crate::suggested::{DEFINE_BUDGET, ENQUEUE_JOB};
use crate::view::chart::{self, Series};
use crate::view::{amount, badge, bar, list, refusals, time};
use crate::visit::{Visit, encoded};

/// Budgets that are searched for those nearest their limits.
const BUDGETS_SEARCHED: usize = 500;
/// Budgets shown.
const BUDGETS_SHOWN: usize = 8;
/// How long a job may wait before it needs attention.
const WAITING_LONG: Span = Span::from_secs(300);
/// The colours of scopes in the chart of spend.
const SCOPE_CLASSES: [&str; 5] = ["s-1", "s-2", "s-3", "s-4", "s-5"];

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/", get(show))
}

struct Overview {
    queues: Vec<QueueAnswer>,
    budgets: Vec<BudgetAnswer>,
    activity: Option<ActivityAnswer>,
    /// How often the limits of each scope have refused.
    refusals: HashMap<Scope, Vec<RefusalsAnswer>>,
}

async fn show(visit: Visit) -> Result<Response, Failure> {
    if !visit.may("queues.read") {
        // A token for metrics or for a worker has no overview.
        return Ok(Redirect::to(&visit.url("/settings")).into_response());
    }
    let client = &visit.client;
    let mut budgets = client.budgets().list("", None, BUDGETS_SEARCHED).await?.into_inner().items;
    budgets.retain(|budget| !budget.scope.as_str().starts_with(INTERNAL));
    let queues = queues::with_figures(client).await?;
    let activity = match visit.may("journal.read") {
        true => Some(client.journal().activity().await?.into_inner()),
        false => None,
    };
    let refusals = refusals_of(&budgets, activity.as_ref());
    let overview = Overview { queues, budgets, activity, refusals };
    if overview.queues.is_empty() && overview.budgets.is_empty() {
        let start = DEFINE_BUDGET;
        let text = "Define a budget, then charge it from your program or start a job. This page fills as soon as something happens.";
        let body = html! { h1 { "Overview" } div.card data-live id="all" { (list::empty("Nothing here yet", text, Some(start))) } };
        return Ok(shell::page(&visit, "Overview", &Live::Replace(channels(&visit)), &body));
    }
    let headline = headline_of(&overview.budgets).map(|(budget, balance, _)| (budget, balance));
    let spenders = match headline {
        Some((budget, balance)) => {
            let children = spenders::among(&overview.budgets, &budget.scope);
            spenders::by_spend(&visit, children, balance).await?
        }
        None => Vec::new(),
    };
    let body = html! {
        h1.sr-only { "Overview" }
        div.card.stats.has-wide data-live #stats { (stats(&visit, &overview)) }
        div data-live #attention { (attention(&visit, &overview)) }
        div.cols.is-fill data-live #charts { (charts(&overview)) }
        div.cols.is-fill {
            div.stack {
                section.card data-live #queues { (queue_table(&visit, &overview.queues)) }
                div data-live #spenders {
                    @if let Some((budget, balance)) = headline {
                        @if !spenders.is_empty() { section.card { (spenders::top(&visit, budget, balance, &spenders)) } }
                    }
                }
            }
            section.card data-live #budgets { (budget_table(&visit, &overview)) }
        }
    };
    Ok(shell::page(&visit, "Overview", &Live::Replace(channels(&visit)), &body))
}

/// Returns the channels that concern the page and that the visitor may listen to.
fn channels(visit: &Visit) -> String {
    if visit.may("journal.read") { "journal".to_owned() } else { String::new() }
}

fn total(queues: &[QueueAnswer], of: impl Fn(&FiguresAnswer) -> i64) -> i64 {
    queues.iter().map(|queue| of(&queue.figures)).fold(0, i64::saturating_add)
}

fn stats(visit: &Visit, overview: &Overview) -> Markup {
    let queues = &overview.queues;
    let states = |state: JobState| total(queues, |figures| state_count(figures, state));
    let waiting = states(JobState::Queued);
    let oldest = queues.iter().filter_map(|queue| queue.figures.oldest_waiting.as_deref()).min();
    let dead = states(JobState::Dead);
    html! {
        (headline(visit, &overview.budgets))
        a.stat href=(visit.url("/jobs?state=leased")) {
            span.stat-label { "Running" }
            span.stat-value { (amount::count(states(JobState::Leased))) }
            span.stat-note { (amount::count(total(queues, |figures| figures.succeeded))) " done in the last hour" }
        }
        a.stat href=(visit.url("/jobs?state=queued")) {
            span.stat-label { "Waiting" }
            span.stat-value { (amount::count(waiting)) }
            span.stat-note {
                @match time::since(oldest, visit.now) {
                    Some(age) if waiting > 0 => { "oldest " (about(age)) }
                    _ => "no job waits"
                }
            }
        }
        a.stat.is-bad[dead > 0] href=(visit.url("/dead")) {
            span.stat-label { "Dead" }
            span.stat-value { (amount::count(dead)) }
            span.stat-note { (amount::count(total(queues, |figures| figures.dead))) " in the last hour" }
        }
    }
}

/// Returns how often limits have refused: of all scopes, if the visitor may read the journal, else of the budgets that are shown.
fn refusals_of(budgets: &[BudgetAnswer], activity: Option<&ActivityAnswer>) -> HashMap<Scope, Vec<RefusalsAnswer>> {
    let shown = budgets.iter().flat_map(|budget| &budget.refusals);
    let mut of_scopes: HashMap<Scope, Vec<RefusalsAnswer>> = HashMap::new();
    for refusals in activity.map(|activity| activity.refusals.iter()).into_iter().flatten().chain(shown) {
        let known = of_scopes.entry(refusals.scope.clone()).or_default();
        if !known.iter().any(|known| known.window == refusals.window) {
            known.push(refusals.clone());
        }
    }
    of_scopes
}

/// Returns the budget at the top of the tree that is closest to its limit, one with children if there is one.
fn headline_of(budgets: &[BudgetAnswer]) -> Option<(&BudgetAnswer, &BalanceAnswer, bar::Fill)> {
    let is_root = |budget: &&BudgetAnswer| budget.budget.as_ref().is_some_and(|body| body.parent.is_none());
    let roots = budgets.iter().filter(is_root).filter_map(|budget| Some((budget, bar::tightest(budget)?)));
    let has_children = |scope: &str| {
        let is_parent =
            |body: &bursar_client::BudgetBody| body.parent.as_ref().is_some_and(|parent| parent.as_str() == scope);
        budgets.iter().any(|budget| budget.budget.as_ref().is_some_and(is_parent))
    };
    let found = roots.max_by_key(|(budget, (_, fill))| (has_children(budget.scope.as_str()), fill.percent()));
    found.map(|(budget, (balance, fill))| (budget, balance, fill))
}

/// Shows the budget that comes first.
fn headline(visit: &Visit, budgets: &[BudgetAnswer]) -> Markup {
    let Some((budget, balance, fill)) = headline_of(budgets) else {
        return html! {
            a.stat.is-wide href=(visit.url("/budgets")) {
                span.stat-label { "Budgets" }
                span.stat-value { (budgets.len()) }
                span.stat-note { "no budget has a limit" }
            }
        };
    };
    let unit = amount::unit_of(budget);
    let class = fill.class();
    html! {
        a class={ "stat is-wide " (class) } href=(visit.url(&format!("/budgets/{}", encoded(budget.scope.as_str())))) {
            span.stat-label { (budget.scope) ", " (balance.window.shown(balance.limit)) }
            span.stat-value { (amount::brief(balance.posted, &unit)) @if let Some(limit) = balance.limit { " " span.of { "of " (amount::brief(limit, &unit)) } } }
            (bar::bar(fill, &bar::label(balance, &unit), false, budget.frozen))
            span.stat-note {
                (amount::brief(balance.held, &unit)) " held · " (balance.remaining.map(|left| amount::brief(left, &unit)).unwrap_or_default()) " free"
                @if balance.end.is_some() { " · resets " (time::relative(balance.end.as_deref(), visit.now)) }
            }
        }
    }
}

/// Lists what is wrong.
fn attention(visit: &Visit, overview: &Overview) -> Markup {
    let mut items: Vec<Markup> = Vec::new();
    for queue in &overview.queues {
        let figures = &queue.figures;
        let name = queue.name.as_str();
        let href = visit.url(&format!("/queues/{}", encoded(name)));
        let dead = state_count(figures, JobState::Dead);
        if dead > 0 {
            let href = visit.url(&format!("/dead?queue={}", encoded(name)));
            items.push(html! { li.is-bad {
                span.what { strong { (name) } ": " (amount::count(dead)) @if dead == 1 { " job is dead" } @else { " jobs are dead" } }
                span.when { (amount::count(figures.dead)) " in the last hour" }
                a href=(href) { "open dead jobs" }
            } });
        }
        let waiting = state_count(figures, JobState::Queued);
        if queue.config.paused && waiting > 0 {
            items.push(html! { li {
                span.what { strong { (name) } " is paused with " (amount::count(waiting)) " jobs waiting" }
                span.when {} a href=(href) { "open queue" }
            } });
        } else if let Some(age) =
            time::since(figures.oldest_waiting.as_deref(), visit.now).filter(|age| *age > WAITING_LONG)
        {
            items.push(html! { li {
                span.what { strong { (name) } ": the oldest job has waited " (about(age)) }
                span.when {} a href=(href) { "open queue" }
            } });
        }
    }
    for budget in &overview.budgets {
        let href = visit.url(&format!("/budgets/{}", encoded(budget.scope.as_str())));
        let most = overview.refusals.get(&budget.scope).and_then(|refusals| refusals::most(refusals));
        let most = most.filter(|most| refusals::is_recent(most, visit.now));
        if budget.frozen {
            items.push(html! { li.is-bad {
                span.what { strong { (budget.scope) } " is frozen: it refuses every charge" }
                span.when { @if let Some(most) = most { (refusals::sentence(most, visit.now)) } } a href=(href) { "open budget" }
            } });
        } else if let Some((balance, fill)) = bar::tightest(budget).filter(|(_, fill)| fill.percent() >= 100) {
            items.push(html! { li.is-bad {
                span.what { strong { (budget.scope) } " has used " (fill.percent()) " % of its " (balance.window.shown(balance.limit)) " limit" }
                span.when {
                    @if let Some(most) = most { (refusals::sentence(most, visit.now)) }
                    @else if balance.end.is_some() { "resets " (time::relative(balance.end.as_deref(), visit.now)) }
                }
                a href=(href) { "open budget" }
            } });
        }
    }
    items.extend(refusing_elsewhere(visit, overview));
    let notable = overview.activity.iter().flat_map(|activity| &activity.notable);
    let recent = notable.filter(|event| event.kind == "hold.committed");
    items.extend(recent.take(2).map(|event| overrun(visit, event, &overview.budgets)));
    let more = items.len().saturating_sub(6);
    html! {
        @if !items.is_empty() {
            section.card {
                div.card-head { h2 { "Needs attention" } @if more > 0 { span.meta { "and " (more) " more" } } }
                ul.attention { @for item in items.iter().take(6) { (item) } }
            }
        }
    }
}

/// Lists the limits that have refused lately although they are not full: those that a charge did not fit, or that are not among the
/// budgets of this page.
fn refusing_elsewhere(visit: &Visit, overview: &Overview) -> Vec<Markup> {
    let listed = |scope: &Scope| {
        let full = |budget: &BudgetAnswer| bar::tightest(budget).is_some_and(|(_, fill)| fill.percent() >= 100);
        overview.budgets.iter().any(|budget| budget.scope == *scope && (budget.frozen || full(budget)))
    };
    let others = overview.refusals.iter().filter(|(scope, _)| !listed(scope));
    let mut found: Vec<&RefusalsAnswer> = others.filter_map(|(_, refusals)| refusals::most(refusals)).collect();
    found.retain(|most| refusals::is_recent(most, visit.now));
    found.sort_by(|a, b| (&b.last_at, &a.scope).cmp(&(&a.last_at, &b.scope)));
    let item = |most: &RefusalsAnswer| {
        html! { li {
            span.what { strong { (most.scope) } ": charges did not fit its " (most.window.as_deref().unwrap_or("freeze")) " limit" }
            span.when { (refusals::sentence(most, visit.now)) }
            a href=(visit.url(&format!("/budgets/{}", encoded(most.scope.as_str())))) { "open budget" }
        } }
    };
    found.into_iter().map(item).collect()
}

fn overrun(visit: &Visit, event: &EventAnswer, budgets: &[BudgetAnswer]) -> Markup {
    let scope = event.data["charges"][0]["scope"].as_str().unwrap_or_default();
    let late = event.data["late"].as_bool().unwrap_or_default();
    let unit = budgets.iter().find(|budget| budget.scope.as_str() == scope).map(amount::unit_of).unwrap_or_default();
    let over = event.data["overrun"].as_i64().unwrap_or_default();
    html! { li {
        span.what {
            strong { (scope) } ": a hold was committed "
            @if late { "after it had expired" } @else { (amount::brief(over, &unit)) " above what it held" }
        }
        span.when { (time::relative(event.at.as_deref(), visit.now)) }
        a href=(visit.url(&format!("/budgets/{}", encoded(scope)))) { "open budget" }
    } }
}

fn charts(overview: &Overview) -> Markup {
    let jobs = queues::series(&overview.queues);
    html! {
        section.card { (chart::columns("Jobs a minute", "by outcome", &jobs, &amount::count)) }
        section.card {
            @match &overview.activity {
                Some(activity) => (spend_chart(activity, &overview.budgets)),
                None => (list::empty("Spend a minute", "The role of this token does not allow reading the journal, from which spend is added up.", None)),
            }
        }
    }
}

/// Shows the spend of the busiest scopes that count in the same unit.
fn spend_chart(activity: &ActivityAnswer, budgets: &[BudgetAnswer]) -> Markup {
    let unit = |scope: &ScopeActivity| {
        let found = budgets.iter().find(|budget| budget.scope == scope.scope);
        found.map_or_else(Unit::default, amount::unit_of)
    };
    let Some(first) = activity.scopes.first() else {
        return list::empty("Spend a minute", "No units were spent in the last hour.", None);
    };
    let shown = unit(first);
    let alike: Vec<&ScopeActivity> = activity.scopes.iter().filter(|scope| unit(scope) == shown).collect();
    let one =
        |scope: &ScopeActivity, class| Series { name: scope.scope.to_string(), class, values: scope.spent.clone() };
    let mut series: Vec<Series> =
        alike.iter().zip(&SCOPE_CLASSES[..4]).map(|(scope, class)| one(scope, class)).collect();
    if alike.len() > 4 {
        let minutes = activity.minutes;
        let sum = |minute: usize| {
            alike[4..]
                .iter()
                .filter_map(|scope| scope.spent.get(minute))
                .fold(0_i64, |sum, spent| sum.saturating_add(*spent))
        };
        series.push(Series {
            name: "others".to_owned(),
            class: SCOPE_CLASSES[4],
            values: (0..minutes).map(sum).collect(),
        });
    }
    chart::columns("Spend a minute", "by budget", &series, &|value| amount::brief(value, &shown))
}

fn queue_table(visit: &Visit, queues: &[QueueAnswer]) -> Markup {
    html! {
        div.card-head { h2 { "Queues" } a.more href=(visit.url("/queues")) { "All queues" } }
        @if queues.is_empty() {
            (list::empty("No queues yet", "A queue appears with its first job.", Some(ENQUEUE_JOB)))
        } @else {
            div.table-wrap { (queues::table(visit, queues)) }
        }
    }
}

fn budget_table(visit: &Visit, overview: &Overview) -> Markup {
    let budgets = &overview.budgets;
    let mut near: Vec<(&BudgetAnswer, i64)> =
        budgets.iter().filter_map(|budget| Some((budget, bar::tightest(budget)?.1.percent()))).collect();
    near.sort_by_key(|(_, percent)| std::cmp::Reverse(*percent));
    html! {
        div.card-head { h2 { "Budgets nearest their limit" } a.more href=(visit.url("/budgets")) { "All budgets" } }
        @if near.is_empty() {
            (list::empty("No limits yet", "A budget with a limit is listed here.", Some(DEFINE_BUDGET)))
        } @else {
            div.table-wrap {
                table.table.stacks {
                    thead { tr { th scope="col" { "Budget" } th scope="col" { "Used" } th.num scope="col" { "Free" } th.num scope="col" { "Refused" } th.num.hide-sm scope="col" { "Resets" } } }
                    tbody {
                        @for (budget, _) in near.iter().take(BUDGETS_SHOWN) { (budget_row(visit, overview, budget)) }
                    }
                }
            }
        }
    }
}

fn budget_row(visit: &Visit, overview: &Overview, budget: &BudgetAnswer) -> Markup {
    let refused = overview.refusals.get(&budget.scope).and_then(|refusals| refusals::most(refusals));
    let unit = amount::unit_of(budget);
    let tightest = bar::tightest(budget).map(|(balance, _)| balance);
    html! {
        tr {
            td.clip.lead-half {
                a href=(visit.url(&format!("/budgets/{}", encoded(budget.scope.as_str())))) { (budget.scope) }
                @if budget.frozen { " " (badge::badge("frozen", "frozen")) }
            }
            td.bar-col { (bar::cell(budget, &unit)) }
            (amount::cell_or_dash("free", tightest.and_then(|balance| balance.remaining), &unit))
            (refusals::cell(refused, visit.now))
            td.num.hide-sm { (time::relative(tightest.and_then(|balance| balance.end.as_deref()), visit.now)) }
        }
    }
}
