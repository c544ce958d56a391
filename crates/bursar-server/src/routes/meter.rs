//! `/v1/meter`: the quotas of callers.

use axum::http::request::Parts;
use axum::http::{self, Method};
use bursar::meter::{AgentId, BadCaller, Caller, Meter, Once};
use bursar::{Error, IfMatch, Op, Refusal, Request};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::{Call, Input, NoFields};
use crate::convert;
use crate::metering::{self, QuotaRefusal};
use crate::principal::permissions::Action;
use crate::reply::Reply;
use crate::route::Route;
use crate::wire::meter::{MeteredOperationBody, QuotaAnswer, QuotaCheckAnswer, QuotaCheckBody, QuotaLimitBody};
use crate::wire::problem::Problem;

/// A quota is stored as a budget, so reading it and setting its limits needs the permissions of budgets.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/meter/quota", Action::BudgetsRead, "Get the quota of a caller", show).unmetered(),
        Route::new(
            Method::POST,
            "/v1/meter/check",
            Action::MeterCheck,
            "Charge a caller's quota if it admits the cost",
            check,
        )
        .example(json!({ "agent_id": "0a".repeat(32), "cost": 11 })),
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
    standing(&input.call, &meter(&input.call), &caller).await
}

async fn check(input: Input<(), NoFields, QuotaCheckBody>) -> Result<Reply<QuotaCheckAnswer>, Problem> {
    let Input { call, body, .. } = input;
    let (meter, caller) = (meter(&call), named(&body.agent_id)?);
    let cost = match (body.cost, &body.operation) {
        (Some(cost), None) if cost < 0 => return Err(Problem::invalid("cost".into(), "cost must not be negative")),
        (Some(cost), None) => Some(cost),
        (None, Some(operation)) => meter.cost_of(&head(operation)?, operation.payload_bytes),
        _ => return Err(Problem::invalid("cost".into(), "cost or operation must be given, and not both")),
    };
    if cost.is_none() && call.key.is_none() {
        // The path of the operation costs nothing, so nothing is recorded either. With a key there may be an earlier answer.
        let standing = meter.status(&caller).await?;
        call.report_quota(&standing);
        return Ok(Reply::new(convert::quota_check_answer(&standing, 0)));
    }
    let cost = cost.unwrap_or(0);
    let admission = match call.key.clone() {
        Some(key) => {
            let recorded = meter.check_and_record_once(&caller, cost, Once::new(key).asked(&body)).await?;
            recorded.map(|recorded| (recorded.standing, recorded.cost, recorded.replayed))
        }
        None => meter.check_and_record(&caller, cost).await?.map(|standing| (standing, cost, false)),
    };
    match admission {
        Ok((standing, cost, replayed)) => {
            call.report_quota(&standing);
            Ok(Reply::new(convert::quota_check_answer(&standing, cost)).replayed(replayed))
        }
        Err(exceeded) => {
            let QuotaRefusal { problem, standing } = exceeded.into();
            standing.inspect(|standing| call.report_quota(standing));
            Err(problem)
        }
    }
}

/// Returns the head of the request that an operation describes.
fn head(operation: &MeteredOperationBody) -> Result<Parts, Problem> {
    let MeteredOperationBody { method, path, .. } = operation;
    let bad = |field: &str, problem: &str| {
        Problem::invalid(format!("operation.{field}"), format!("operation.{field} {problem}"))
    };
    let is_method = |method: &&Method| !method.as_str().bytes().any(|byte| byte.is_ascii_lowercase());
    let method = Method::from_bytes(method.as_bytes()).ok();
    let method =
        method.as_ref().filter(is_method).ok_or_else(|| bad("method", "must be an HTTP method such as GET or POST"))?;
    let target = http::Request::builder().method(method).uri(path).body(());
    let request = target.ok().filter(|_| path.starts_with('/'));
    let request = request
        .ok_or_else(|| bad("path", "must be a path that begins with a slash, percent-encoded as it was sent"))?;
    Ok(request.into_parts().0)
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
                return Ok(standing(&call, &meter, &caller).await?.replayed(replayed));
            }
        }
    }
}

/// Returns the meter of the caller's tenant.
fn meter(call: &Call) -> Meter {
    call.app.metering.meter.in_context(call.context.clone())
}

async fn standing(call: &Call, meter: &Meter, caller: &Caller) -> Result<Reply<QuotaAnswer>, Problem> {
    let standing = meter.status(caller).await?;
    call.report_quota(&standing);
    Ok(Reply::new(convert::quota_answer(&standing)))
}

/// Parses the id of a caller. An agent id is normalized, so upper and lower case name the same caller.
fn named(id: &str) -> Result<Caller, Problem> {
    let bad = |bad: BadCaller| Problem::invalid("agent_id".into(), format!("agent_id {}", bad.problem));
    AgentId::caller(id).or_else(|_| Caller::new(id)).map_err(bad)
}
