//! `/v1/costs`: what jobs cost.

use axum::http::Method;
use bursar::Time;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::Ask;
use crate::principal::table::Action;
use crate::reply::Reply;
use crate::route::Route;
use crate::wire::Page;
use crate::wire::problem::Problem;
use crate::wire::report::DayCostAnswer;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::new(Method::GET, "/v1/costs", Action::JobsRead, "What jobs cost, by day, queue, kind and scope", list)]
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
}

async fn list(ask: Ask<(), DaysQuery>) -> Result<Reply<Page<DayCostAnswer>>, Problem> {
    let day = |field: &str, text: &str| match format!("{text}T00:00:00Z").parse::<Time>() {
        Ok(time) => Ok(time.micros().div_euclid(DAY)),
        Err(_) => Err(Problem::invalid(field.into(), format!("{field} must be a day such as 2026-11-01"))),
    };
    let from = day("from", &ask.query.from)?;
    let to = ask.query.to.as_deref().map_or(Ok(from), |to| day("to", to))?;
    if to - from >= DAYS_MAX {
        return Err(Problem::invalid("to".into(), format!("at most {DAYS_MAX} days are told at once")));
    }
    let costs = ask.call.bursar().jobs().costs(from, to).await?;
    Ok(Reply::new(Page { items: costs.iter().map(DayCostAnswer::from).collect(), next: None }))
}
