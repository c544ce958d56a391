//! `/v1/budgets`: definitions, balances, freezes and credits of scopes.

use std::collections::HashMap;
use std::time::Duration;

use axum::http::Method;
use bursar::notation::moment;
use bursar::{Answer, Budget, BudgetView, Fingerprint, Op, Scope, Span, Stream, Time};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::{Call, Input, NoFields};
use crate::convert;
use crate::limits::PAGE_MAX;
use crate::principal::permissions::Action;
use crate::reply::{NoContent, Reply};
use crate::route::Route;
use crate::routes::{PastQuery, ReasonQuery, cursor, name_cursor, page_size};
use crate::suggest;
use crate::wire::activity::RefusalsAnswer;
use crate::wire::budget::{
    BudgetAnswer, BudgetBody, CreditBody, CreditedAnswer, ReasonBody, SpendSeriesAnswer, SpendStep, SpentAnswer,
};
use crate::wire::event::EventAnswer;
use crate::wire::problem::Problem;
use crate::wire::{Page, stamp};

pub(super) fn routes() -> Vec<Route> {
    let (read, write) = (Action::BudgetsRead, Action::BudgetsWrite);
    vec![
        Route::new(Method::GET, "/v1/budgets", read, "List budgets by scope", list).pages(),
        Route::new(Method::PUT, "/v1/budgets/{scope}", write, "Create or replace a budget", define)
            .takes_if_match()
            .ignores(BudgetAnswer::READ_ONLY)
            .always_there()
            .example(json!({
                "unit": "usd",
                "limits": [{ "amount": 25_000_000, "window": "month@Europe/Berlin" },
                           { "amount": 500_000, "window": "rolling:1h" }],
                "thresholds": [50, 80, 100], "reason": "autumn plan",
            })),
        Route::new(Method::DELETE, "/v1/budgets/{scope}", write, "Remove a budget; its spend stays recorded", remove)
            .takes_if_match(),
        Route::new(Method::GET, "/v1/budgets/{scope}", read, "Get a budget and its balances", show),
        Route::new(Method::GET, "/v1/budgets/{scope}/spent", read, "Get the units posted in a period", spent),
        Route::new(Method::GET, "/v1/budgets/{scope}/series", read, "Get the units posted over time", series),
        Route::new(Method::GET, "/v1/budgets/{scope}/history", read, "List a scope's events, newest first", history)
            .pages(),
        Route::new(Method::POST, "/v1/budgets/{scope}/freeze", write, "Freeze a scope: refuse new charges", freeze)
            .always_there()
            .example(json!({ "reason": "audit" })),
        Route::new(
            Method::POST,
            "/v1/budgets/{scope}/unfreeze",
            write,
            "Unfreeze a scope: admit charges again",
            unfreeze,
        )
        .always_there()
        .example(json!({ "reason": "audit is over" })),
        Route::new(Method::POST, "/v1/budgets/{scope}/credits", write, "Credit units back to a scope", credit)
            .example(json!({ "amount": 1_000, "reason": "refund" })),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only scopes that begin with this text.
    #[serde(default)]
    prefix: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

async fn list(input: Input<(), ListQuery>) -> Result<Reply<Page<BudgetAnswer>>, Problem> {
    let limit = page_size(input.query.limit)?;
    let after: Option<Scope> = name_cursor(input.query.cursor.as_deref())?;
    let prefix = input.query.prefix.filter(|prefix| !prefix.is_empty()).map(Scope::new).transpose();
    let prefix = prefix.map_err(|invalid| Problem::invalid("prefix".into(), format!("prefix {}", invalid.problem)))?;
    let prefix = prefix.map(|prefix| prefix.to_string()).unwrap_or_default();
    let found = input.call.bursar().ledger().budgets(&prefix, after.as_ref(), limit).await?;
    let full = found.len() >= limit;
    let items: Vec<BudgetAnswer> = found.iter().map(convert::budget_answer).collect();
    let items = with_refusals(&input.call, items);
    Ok(Reply::new(Page::of(items, full, |budget| budget.scope.to_string())))
}

async fn define(input: Input<Scope, NoFields, BudgetBody>) -> Result<Reply<BudgetAnswer>, Problem> {
    let Input { call, parameter: scope, mut body, .. } = input;
    let call = call.with_reason(body.reason.take());
    let done = call.run(Op::Define { scope: scope.clone(), budget: Budget::try_from(body)? }).await?;
    Ok(view(&call, scope).await?.replayed(done.replayed))
}

async fn remove(input: Input<Scope, ReasonQuery>) -> Result<NoContent, Problem> {
    let call = input.call.with_reason(input.query.reason);
    let done = call.run(Op::RemoveBudget { scope: input.parameter }).await?;
    Ok(NoContent { replayed: done.replayed })
}

async fn show(input: Input<Scope, PastQuery>) -> Result<Reply<BudgetAnswer>, Problem> {
    let Some(moment) = input.query.moment()? else { return view(&input.call, input.parameter).await };
    let found = input.call.bursar().past(moment).await?.budget(&input.parameter).await?;
    match found {
        Some(found) => Ok(Reply::new(convert::budget_answer(&found))),
        None => Err(input.query.not_found(format_args!("budget {}", input.parameter))),
    }
}

/// Returns the view of a scope; 404 if it was never defined or charged.
pub(super) async fn known(call: &Call, scope: &Scope) -> Result<BudgetView, Problem> {
    match call.bursar().ledger().budget(scope).await? {
        Some(found) => Ok(found),
        None => Err(suggest::scope(Problem::unknown_scope(scope), call).await),
    }
}

/// Returns a budget, with a digest of its definition as the ETag.
async fn view(call: &Call, scope: Scope) -> Result<Reply<BudgetAnswer>, Problem> {
    let found = known(call, &scope).await?;
    let tag = found.budget.as_ref().map(Fingerprint::of);
    let mut answer = with_refusals(call, vec![convert::budget_answer(&found)]);
    Ok(Reply::new(answer.remove(0)).tagged(tag))
}

/// Adds how often the limits of budgets have refused since this process started.
fn with_refusals(call: &Call, mut answers: Vec<BudgetAnswer>) -> Vec<BudgetAnswer> {
    let now = call.app.clock.now();
    let mut refusals: HashMap<Scope, Vec<RefusalsAnswer>> = HashMap::new();
    for count in call.bursar().refusals() {
        refusals.entry(count.scope.clone()).or_default().push(convert::refusals_answer(&count, now));
    }
    for answer in &mut answers {
        answer.refusals = refusals.remove(&answer.scope).unwrap_or_default();
    }
    answers
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SpentQuery {
    /// Start of the period, inclusive: a date (its first instant in UTC), an instant, `now`, or how long ago, such as `-7d`.
    /// Default: the beginning of the journal.
    #[serde(default)]
    from: Option<String>,
    /// End of the period, exclusive, in the same forms. Default: now.
    #[serde(default)]
    to: Option<String>,
}

async fn spent(input: Input<Scope, SpentQuery>) -> Result<Reply<SpentAnswer>, Problem> {
    let bursar = input.call.bursar();
    let now = bursar.now().await?;
    let from = input.query.from.map(|text| moment("from", &text, now)).transpose()?;
    let to = input.query.to.map_or(Ok(now), |text| moment("to", &text, now))?;
    known(&input.call, &input.parameter).await?;
    let spent = bursar.ledger().spent(&input.parameter, from.unwrap_or(Time::MIN), to).await?;
    Ok(Reply::new(SpentAnswer { scope: input.parameter, from: from.and_then(stamp), to: stamp(to), spent }))
}

/// The most steps of a series.
const STEPS_MAX: u32 = 120;
/// How long adding up a series may take. A step is one statement; those that are left after this time are omitted.
const SERIES_WITHIN: Duration = Duration::from_secs(1);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SeriesQuery {
    /// Start of the period, inclusive: a date, an instant, `now`, or how long ago, such as `-7d`. Default: a day before its end.
    #[serde(default)]
    from: Option<String>,
    /// End of the period, exclusive, in the same forms. Default: now.
    #[serde(default)]
    to: Option<String>,
    /// The number of equal steps, from 1 to 120. Default: 60.
    #[serde(default)]
    #[schemars(range(min = 1, max = STEPS_MAX))]
    steps: Option<u32>,
}

async fn series(input: Input<Scope, SeriesQuery>) -> Result<Reply<SpendSeriesAnswer>, Problem> {
    let bursar = input.call.bursar();
    let now = bursar.now().await?;
    let to = input.query.to.map_or(Ok(now), |text| moment("to", &text, now))?;
    let from = match input.query.from {
        Some(text) => moment("from", &text, now)?,
        None => to.before(Span::from_days(1)),
    };
    let steps = i64::from(input.query.steps.unwrap_or(60));
    if !(1..=i64::from(STEPS_MAX)).contains(&steps) {
        return Err(Problem::invalid("steps".into(), format!("steps must be from 1 to {STEPS_MAX}")));
    }
    let length = to.micros().saturating_sub(from.micros());
    if length < steps {
        return Err(Problem::invalid("to".into(), "to must be later than from"));
    }
    known(&input.call, &input.parameter).await?;
    let edge = |step: i64| {
        let elapsed = i128::from(length) * i128::from(step) / i128::from(steps);
        Time::from_micros(from.micros() + elapsed as i64)
    };
    let deadline = tokio::time::Instant::now() + SERIES_WITHIN;
    let mut answer = SpendSeriesAnswer { scope: input.parameter, steps: Vec::new() };
    for step in (0..steps).rev() {
        let (from, to) = (edge(step), edge(step + 1));
        let in_time = tokio::time::Instant::now() < deadline;
        let spent = if in_time { Some(bursar.ledger().spent(&answer.scope, from, to).await?) } else { None };
        answer.steps.push(SpendStep { from: stamp(from), to: stamp(to), spent });
    }
    answer.steps.reverse();
    Ok(Reply::new(answer))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    /// Maximum number of events, from 1 to 1000. Default: 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    pub(super) limit: Option<usize>,
    /// Where the page begins: `next` of the previous page.
    #[serde(default)]
    pub(super) cursor: Option<String>,
}

async fn history(input: Input<Scope, HistoryQuery>) -> Result<Reply<Page<EventAnswer>>, Problem> {
    known(&input.call, &input.parameter).await?;
    let stream = Stream::Scope(input.call.context.tenant.clone(), input.parameter);
    history_of(&input.call, &stream, input.query).await
}

/// Returns one page of the events of a stream, newest first.
pub(super) async fn history_of(
    call: &Call,
    stream: &Stream,
    query: HistoryQuery,
) -> Result<Reply<Page<EventAnswer>>, Problem> {
    let limit = page_size(query.limit)?;
    let from = cursor(query.cursor.as_deref())?;
    let (events, next) = call.bursar().journal().history_page(stream, from, limit).await?;
    let items = events.iter().map(convert::event_answer).collect();
    Ok(Reply::new(Page { items, next: next.map(|next| next.to_string()) }))
}

async fn freeze(input: Input<Scope, NoFields, ReasonBody>) -> Result<Reply<BudgetAnswer>, Problem> {
    let call = input.call.with_reason(input.body.reason);
    let done = call.run(Op::Freeze { scope: input.parameter.clone() }).await?;
    Ok(view(&call, input.parameter).await?.replayed(done.replayed))
}

async fn unfreeze(input: Input<Scope, NoFields, ReasonBody>) -> Result<Reply<BudgetAnswer>, Problem> {
    let call = input.call.with_reason(input.body.reason);
    let done = call.run(Op::Unfreeze { scope: input.parameter.clone() }).await?;
    Ok(view(&call, input.parameter).await?.replayed(done.replayed))
}

async fn credit(input: Input<Scope, NoFields, CreditBody>) -> Result<Reply<CreditedAnswer>, Problem> {
    let Input { call, parameter: scope, body: CreditBody { amount, hold, reason }, .. } = input;
    let done = call.with_reason(reason).run(Op::Credit { scope, amount, hold }).await?;
    match done.answer {
        Answer::Credited(credited) => Ok(Reply::new(CreditedAnswer::from(&credited)).replayed(done.replayed)),
        other => Err(unexpected(&other)),
    }
}

/// Returns the problem for an answer that the operation cannot have.
pub(super) fn unexpected(answer: &Answer) -> Problem {
    Problem::from(bursar::Error::Internal(format!("the engine returned an unexpected answer: {answer:?}")))
}
