//! `/v1/costs` and `/v1/held`: reports on what jobs have cost, and on the units held for them.

use axum::http::Method;
use bursar::notation::moment;
use bursar::{CostMark, HeldMark, JobKind, Queue, Scope, Time, Unit};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::Input;
use crate::convert;
use crate::limits::PAGE_MAX;
use crate::principal::permissions::Action;
use crate::reply::Reply;
use crate::route::Route;
use crate::routes::{cursor, page_size};
use crate::wire::Page;
use crate::wire::problem::Problem;
use crate::wire::report::{DayCostAnswer, HeldAnswer};

pub(super) fn routes() -> Vec<Route> {
    let read = Action::JobsRead;
    vec![
        Route::new(Method::GET, "/v1/costs", read, "List the cost of jobs by day, queue, kind and scope", list)
            .carries_payloads(),
        Route::new(Method::GET, "/v1/held", read, "List the units held for jobs by queue, kind and unit", held)
            .carries_payloads(),
    ]
}

/// Maximum number of days in one request.
const DAYS_MAX: i64 = 100;
/// Microseconds in a day.
const DAY: i64 = 86_400_000_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DaysQuery {
    /// The first day in UTC: a date such as 2026-11-01, or the day of an instant, of `now`, or of so long ago, such as `-7d`.
    from: String,
    /// The last day, in the same forms. Default: the first day.
    #[serde(default)]
    to: Option<String>,
    /// Where the page begins: `next` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
    /// Maximum number of items, from 1 to 1000. Default: 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

async fn list(input: Input<(), DaysQuery>) -> Result<Reply<Page<DayCostAnswer>>, Problem> {
    let now = input.call.bursar().now().await?;
    let day = |field: &str, text: &str| moment(field, text, now).map(|time| time.micros().div_euclid(DAY));
    let from = day("from", &input.query.from)?;
    let to = input.query.to.as_deref().map_or(Ok(from), |to| day("to", to))?;
    if to - from >= DAYS_MAX {
        return Err(Problem::invalid("to".into(), format!("a request covers at most {DAYS_MAX} days")));
    }
    let (limit, after) = (page_size(input.query.limit)?, cursor::<CostCursor>(input.query.cursor.as_deref())?);
    let costs = input.call.bursar().jobs().costs(from..=to, after.map(|cursor| cursor.0).as_ref(), limit).await?;
    let full = costs.len() >= limit;
    let items = costs.iter().map(convert::day_cost_answer).collect();
    Ok(Reply::new(Page::of(items, full, CostCursor::after)))
}

/// Parses the date of a cursor; returns the number of days since 1970-01-01.
fn day_of(text: &str) -> Option<i64> {
    let time = format!("{text}T00:00:00Z").parse::<Time>().ok()?;
    Some(time.micros().div_euclid(DAY))
}

/// A cursor: day, queue, kind and scope as JSON.
struct CostCursor(CostMark);

impl CostCursor {
    fn after(last: &DayCostAnswer) -> String {
        json!([last.day, last.queue, last.kind, last.scope]).to_string()
    }
}

impl std::str::FromStr for CostCursor {
    type Err = String;
    fn from_str(text: &str) -> Result<CostCursor, String> {
        let fields: (String, Queue, JobKind, Scope) = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let (day, queue, kind, scope) = fields;
        Ok(CostCursor((day_of(&day).ok_or("not a day")?, queue, kind, scope)))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HeldQuery {
    /// Only holds for jobs of this queue.
    #[serde(default)]
    queue: Option<Queue>,
    /// Where the page begins: `next` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
    /// Maximum number of items, from 1 to 1000. Default: 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

async fn held(input: Input<(), HeldQuery>) -> Result<Reply<Page<HeldAnswer>>, Problem> {
    let HeldQuery { queue, cursor: at, limit } = input.query;
    let (limit, after) = (page_size(limit)?, cursor::<HeldCursor>(at.as_deref())?);
    let found = input.call.bursar().jobs().held(queue.as_ref(), after.map(|cursor| cursor.0).as_ref(), limit).await?;
    let full = found.len() >= limit;
    let items = found.into_iter().map(convert::held_answer).collect();
    Ok(Reply::new(Page::of(items, full, HeldCursor::after)))
}

/// A cursor: queue, kind and unit as JSON, because names may contain any separator.
struct HeldCursor(HeldMark);

impl HeldCursor {
    fn after(last: &HeldAnswer) -> String {
        json!([last.queue, last.kind, last.unit]).to_string()
    }
}

impl std::str::FromStr for HeldCursor {
    type Err = String;
    fn from_str(text: &str) -> Result<HeldCursor, String> {
        let fields: (Queue, JobKind, String) = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Unit::named(&fields.2).check().map_err(|error| error.to_string())?;
        Ok(HeldCursor(fields))
    }
}
