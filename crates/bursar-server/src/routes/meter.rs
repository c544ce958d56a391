//! `/v1/meter`.

use axum::http::Method;
use bursar::meter::{AgentId, BadCaller, Caller, Meter};
use bursar::{Error, IfMatch, Op, Refusal, Request};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::{Ask, Call, Nothing};
use crate::convert;
use crate::metering;
use crate::principal::table::Action;
use crate::reply::Reply;
use crate::route::Route;
use crate::wire::meter::{QuotaAnswer, QuotaLimitBody};
use crate::wire::problem::Problem;

/// A quota is a budget: who may read and change the one may read and change the other.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/meter/quota", Action::BudgetsRead, "How a caller stands with its quota", show),
        Route::new(
            Method::POST,
            "/v1/meter/quota/limit",
            Action::BudgetsWrite,
            "Give a caller limits of its own",
            limit,
        )
        .edits()
        .example(json!({ "agent_id": "0a".repeat(32), "limit": 50_000, "reason": "paid plan" })),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QuotaQuery {
    /// Which caller; who asks, unless it is said.
    #[serde(default)]
    agent_id: Option<String>,
}

async fn show(ask: Ask<(), QuotaQuery>) -> Result<Reply<QuotaAnswer>, Problem> {
    let caller = match &ask.query.agent_id {
        Some(id) => named(id)?,
        None => metering::caller(&ask.call.principal),
    };
    standing(&meter(&ask.call), &caller).await
}

/// How often a budget is read anew because somebody else has changed it meanwhile.
const TRIES: usize = 10;

async fn limit(ask: Ask<(), Nothing, QuotaLimitBody>) -> Result<Reply<QuotaAnswer>, Problem> {
    let Ask { call, mut body, .. } = ask;
    let call = call.because(body.reason.take());
    let (meter, caller) = (meter(&call), named(&body.agent_id)?);
    let limits = body.limits(&meter.settings().quota)?;
    let mut tries = 0;
    loop {
        let (budget, read) = meter.limited(&caller, limits.clone()).await?;
        let request = Request {
            idempotency_key: call.key.clone(),
            if_match: call.if_match.or(read.map(IfMatch::Only)),
            ..Request::from(Op::Define { scope: caller.scope().clone(), budget }).in_context(call.context.clone())
        };
        tries += 1;
        match call.app.bursar.request(request).await {
            Err(Error::Refused(Refusal::Changed { .. })) if call.if_match.is_none() && tries < TRIES => {}
            done => {
                let replayed = done?.replayed;
                return Ok(standing(&meter, &caller).await?.replayed(replayed));
            }
        }
    }
}

/// The meter, acting for the caller's tenant.
fn meter(call: &Call) -> Meter {
    call.app.metering.meter.in_context(call.context.clone())
}

async fn standing(meter: &Meter, caller: &Caller) -> Result<Reply<QuotaAnswer>, Problem> {
    Ok(Reply::new(convert::quota_answer(&meter.status(caller).await?)))
}

/// The caller of a name; one key is one caller, however it is written.
fn named(id: &str) -> Result<Caller, Problem> {
    let bad = |bad: BadCaller| Problem::invalid("agent_id".into(), format!("agent_id {}", bad.problem));
    AgentId::caller(id).or_else(|_| Caller::new(id)).map_err(bad)
}
