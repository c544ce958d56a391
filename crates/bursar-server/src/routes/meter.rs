//! `/v1/meter`: the quotas of callers.

use axum::http::Method;
use bursar::meter::{AgentId, BadCaller, Caller, Meter};
use bursar::{Error, IfMatch, Op, Refusal, Request};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::{Call, Input, NoFields};
use crate::convert;
use crate::metering;
use crate::principal::permissions::Action;
use crate::reply::Reply;
use crate::route::Route;
use crate::wire::meter::{QuotaAnswer, QuotaLimitBody};
use crate::wire::problem::Problem;

/// A quota is stored as a budget, so its routes need the permissions of budgets.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/meter/quota", Action::BudgetsRead, "Get the quota of a caller", show),
        Route::new(Method::POST, "/v1/meter/quota/limit", Action::BudgetsWrite, "Set the limits of one caller", limit)
            .takes_if_match()
            .example(json!({ "agent_id": "0a".repeat(32), "limit": 50_000, "reason": "paid plan" })),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QuotaQuery {
    /// The caller. Default: the caller of this request.
    #[serde(default)]
    agent_id: Option<String>,
}

async fn show(input: Input<(), QuotaQuery>) -> Result<Reply<QuotaAnswer>, Problem> {
    let caller = match &input.query.agent_id {
        Some(id) => named(id)?,
        None => metering::caller(&input.call.principal),
    };
    standing(&meter(&input.call), &caller).await
}

/// Maximum number of attempts when concurrent requests change the same budget.
const ATTEMPTS_MAX: usize = 10;

async fn limit(input: Input<(), NoFields, QuotaLimitBody>) -> Result<Reply<QuotaAnswer>, Problem> {
    let Input { call, mut body, .. } = input;
    let call = call.with_reason(body.reason.take());
    let (meter, caller) = (meter(&call), named(&body.agent_id)?);
    let limits = body.limits(&meter.settings().quota)?;
    let mut attempts = 0;
    loop {
        let (budget, read) = meter.limited(&caller, limits.clone()).await?;
        let request = Request {
            idempotency_key: call.key.clone(),
            if_match: call.if_match.or(read.map(IfMatch::Only)),
            ..Request::from(Op::Define { scope: caller.scope().clone(), budget }).in_context(call.context.clone())
        };
        attempts += 1;
        match call.app.bursar.request(request).await {
            Err(Error::Refused(Refusal::Changed { .. })) if call.if_match.is_none() && attempts < ATTEMPTS_MAX => {}
            done => {
                let replayed = done?.replayed;
                return Ok(standing(&meter, &caller).await?.replayed(replayed));
            }
        }
    }
}

/// Returns the meter of the caller's tenant.
fn meter(call: &Call) -> Meter {
    call.app.metering.meter.in_context(call.context.clone())
}

async fn standing(meter: &Meter, caller: &Caller) -> Result<Reply<QuotaAnswer>, Problem> {
    Ok(Reply::new(convert::quota_answer(&meter.status(caller).await?)))
}

/// Parses the id of a caller. An agent id is normalized, so upper and lower case name the same caller.
fn named(id: &str) -> Result<Caller, Problem> {
    let bad = |bad: BadCaller| Problem::invalid("agent_id".into(), format!("agent_id {}", bad.problem));
    AgentId::caller(id).or_else(|_| Caller::new(id)).map_err(bad)
}
