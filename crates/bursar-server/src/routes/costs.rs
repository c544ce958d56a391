//! `/v1/costs` and `/v1/held`: what jobs cost, and what is set aside for them.

use axum::http::Method;
use bursar::{Budget, CostMark, HeldMark, JobKind, Queue, Scope, Time};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::Ask;
use crate::convert;
use crate::limits::PAGE_MAX;
use crate::principal::table::Action;
use crate::reply::Reply;
use crate::route::Route;
use crate::routes::{cursor, page_size};
use crate::wire::Page;
use crate::wire::problem::Problem;
use crate::wire::report::{DayCostAnswer, HeldAnswer};

pub(super) fn routes() -> Vec<Route> {
    let read = Action::JobsRead;
    vec![
        Route::new(Method::GET, "/v1/costs", read, "What jobs cost, by day, queue, kind and scope", list)
            .carries_payloads(),
        Route::new(Method::GET, "/v1/held", read, "What is held for jobs now, by queue, kind and unit", held)
            .carries_payloads(),
    ]
}

/// Days that one call looks at.
const DAYS_MAX: i64 = 100;
/// Microseconds in a day.
const DAY: i64 = 86_400_000_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DaysQuery {
    /// The first day, such as 2026-11-01, in UTC.
    from: String,
    /// The last day; the first one unless it is said.
    #[serde(default)]
    to: Option<String>,
    /// Where the page begins, as `next` of the last one said.
    #[serde(default)]
    cursor: Option<String>,
    /// So many at most, from 1 to 1000.
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

async fn list(ask: Ask<(), DaysQuery>) -> Result<Reply<Page<DayCostAnswer>>, Problem> {
    let day = |field: &str, text: &str| {
        day_of(text).ok_or_else(|| Problem::invalid(field.into(), format!("{field} must be a day such as 2026-11-01")))
    };
    let from = day("from", &ask.query.from)?;
    let to = ask.query.to.as_deref().map_or(Ok(from), |to| day("to", to))?;
    if to - from >= DAYS_MAX {
        return Err(Problem::invalid("to".into(), format!("at most {DAYS_MAX} days are told at once")));
    }
    let (limit, after) = (page_size(ask.query.limit)?, cursor::<Billed>(ask.query.cursor.as_deref())?);
    let costs = ask.call.bursar().jobs().costs(from..=to, after.map(|told| told.0).as_ref(), limit).await?;
    let full = costs.len() >= limit;
    let items = costs.iter().map(convert::day_cost_answer).collect();
    Ok(Reply::new(Page::of(items, full, Billed::after)))
}

/// The day since 1970 that is written so.
fn day_of(text: &str) -> Option<i64> {
    let time = format!("{text}T00:00:00Z").parse::<Time>().ok()?;
    Some(time.micros().div_euclid(DAY))
}

/// A cursor: day, queue, kind and scope as JSON.
struct Billed(CostMark);

impl Billed {
    fn after(told: &DayCostAnswer) -> String {
        json!([told.day, told.queue, told.kind, told.scope]).to_string()
    }
}

impl std::str::FromStr for Billed {
    type Err = String;
    fn from_str(text: &str) -> Result<Billed, String> {
        let told: (String, Queue, JobKind, Scope) = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let (day, queue, kind, scope) = told;
        Ok(Billed((day_of(&day).ok_or("it names no day")?, queue, kind, scope)))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HeldQuery {
    /// Of this queue only.
    #[serde(default)]
    queue: Option<Queue>,
    /// Where the page begins, as `next` of the last one said.
    #[serde(default)]
    cursor: Option<String>,
    /// So many at most, from 1 to 1000.
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

async fn held(ask: Ask<(), HeldQuery>) -> Result<Reply<Page<HeldAnswer>>, Problem> {
    let HeldQuery { queue, cursor: at, limit } = ask.query;
    let (limit, after) = (page_size(limit)?, cursor::<Mark>(at.as_deref())?);
    let found = ask.call.bursar().jobs().held(queue.as_ref(), after.map(|mark| mark.0).as_ref(), limit).await?;
    let full = found.len() >= limit;
    let items = found.into_iter().map(convert::held_answer).collect();
    Ok(Reply::new(Page::of(items, full, Mark::after)))
}

/// A cursor: queue, kind and unit as JSON, for each may have any sign in it.
struct Mark(HeldMark);

impl Mark {
    fn after(told: &HeldAnswer) -> String {
        json!([told.queue, told.kind, told.unit]).to_string()
    }
}

impl std::str::FromStr for Mark {
    type Err = String;
    fn from_str(text: &str) -> Result<Mark, String> {
        let told: (Queue, JobKind, String) = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Budget::check_unit(&told.2).map_err(|error| error.to_string())?;
        Ok(Mark(told))
    }
}
