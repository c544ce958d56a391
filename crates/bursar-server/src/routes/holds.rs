//! `/v1/holds`: units set aside until they are committed, released or expire.

use axum::http::Method;
use bursar::{Answer, HoldId, HoldState, Op, Outcome, Scope, Stream, Time, page};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::{Input, NoFields};
use crate::limits::PAGE_MAX;
use crate::principal::permissions::Action;
use crate::reply::{Created, Reply};
use crate::route::Route;
use crate::routes::budgets::{HistoryQuery, history_of, known, unexpected};
use crate::routes::{BAD_CURSOR, PastQuery, commands, page_size};
use crate::wire::budget::ReasonBody;
use crate::wire::command::{CommandAnswer, CommandBody};
use crate::wire::event::EventAnswer;
use crate::wire::hold::{
    ClampedAnswer, CommitBody, ExtendBody, ExtendedAnswer, HoldAnswer, HoldBody, SettledAnswer, actual,
};
use crate::wire::problem::Problem;
use crate::wire::{Page, millis, stamp};

pub(super) fn routes() -> Vec<Route> {
    let (read, settle) = (Action::CommandsRead, Action::CommandsSubmit);
    vec![
        Route::new(Method::POST, "/v1/holds", settle, "Place a hold", place)
            .example(json!({ "charges": [{ "scope": "room:sales", "amount": 50_000 }], "ttl": "10m" })),
        Route::new(Method::GET, "/v1/holds", read, "List the unsettled holds on a scope, soonest expiry first", list)
            .pages(),
        Route::new(Method::GET, "/v1/holds/{id}", read, "Get a hold", show).carries_payloads(),
        Route::new(Method::GET, "/v1/holds/{id}/history", read, "List a hold's events, newest first", history).pages(),
        Route::new(Method::POST, "/v1/holds/{id}/commit", settle, "Commit a hold with the actual cost", commit)
            .example(json!({ "actual": 42_000 })),
        Route::new(Method::POST, "/v1/holds/{id}/release", settle, "Release a hold", release)
            .example(json!({ "reason": "not needed" })),
        Route::new(Method::POST, "/v1/holds/{id}/extend", settle, "Extend a hold's expiry", extend)
            .example(json!({ "by_ms": 30_000 })),
    ]
}

async fn place(input: Input<(), NoFields, HoldBody>) -> Result<Created<CommandAnswer>, Problem> {
    let (answer, replayed) = commands::submit_command(&input.call, CommandBody::hold(input.body)).await?;
    let hold = answer.hold.as_ref().and_then(|hold| hold.id);
    Ok(Created { location: hold.map(|id| format!("/v1/holds/{id}")), replayed, answer })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    scope: Scope,
    /// `held`, or `expired` for expired holds that maintenance has not closed yet.
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

async fn list(input: Input<(), ListQuery>) -> Result<Reply<Page<HoldAnswer>>, Problem> {
    let limit = page_size(input.query.limit)?;
    let state = match input.query.state.as_deref() {
        None => None,
        Some("held") => Some(HoldState::Held),
        Some("expired") => Some(HoldState::Expired),
        Some(_) => {
            return Err(Problem::invalid(
                "state".into(),
                "state must be held or expired; settled holds are not listed",
            ));
        }
    };
    let bursar = input.call.bursar();
    let after = input.query.cursor.as_deref().map(parse_cursor).transpose()?;
    let found = bursar.ledger().live(&input.query.scope, after, limit).await?;
    if found.is_empty() {
        known(&input.call, &input.query.scope).await?;
    }
    let now = bursar.now().await?;
    let next = found.last().filter(|_| page::is_full(&found, limit));
    let next = next.map(|hold| format!("{}.{}", hold.expires_at.micros(), hold.id));
    let wanted = found.iter().filter(|hold| state.is_none_or(|state| hold.state_at(now) == state));
    let items = wanted.map(|hold| HoldAnswer::at(hold, now)).collect();
    Ok(Reply::new(Page { items, next }))
}

/// Parses a cursor: the expiry in microseconds and the id of the last hold.
fn parse_cursor(text: &str) -> Result<(Time, HoldId), Problem> {
    let parts = text.split_once('.').and_then(|(at, id)| Some((at.parse().ok()?, id.parse().ok()?)));
    let (at, id): (i64, HoldId) = parts.ok_or_else(|| Problem::invalid("cursor".into(), BAD_CURSOR))?;
    Ok((Time::from_micros(at), id))
}

async fn show(input: Input<HoldId, PastQuery>) -> Result<Reply<HoldAnswer>, Problem> {
    let bursar = input.call.bursar();
    let (found, now) = match input.query.moment()? {
        Some(moment) => {
            let past = bursar.past(moment).await?;
            (past.hold(input.parameter).await?, past.instant())
        }
        None => (bursar.ledger().find(input.parameter).await?, bursar.now().await?),
    };
    let found = found.ok_or_else(|| input.query.not_found(format_args!("hold {}", input.parameter)))?;
    Ok(Reply::new(HoldAnswer::at(&found, now)))
}

async fn history(input: Input<HoldId, HistoryQuery>) -> Result<Reply<Page<EventAnswer>>, Problem> {
    if input.call.bursar().ledger().find(input.parameter).await?.is_none() {
        return Err(Problem::not_found(format_args!("hold {}", input.parameter)));
    }
    history_of(&input.call, &Stream::Hold(input.parameter), input.query).await
}

async fn commit(input: Input<HoldId, NoFields, CommitBody>) -> Result<Reply<SettledAnswer>, Problem> {
    let each = input.body.actuals.into_iter().map(|actual| (actual.scope, actual.amount)).collect();
    let actual = actual(input.body.actual, each)?;
    settled(input.call.run(Op::Commit { hold: input.parameter, actual }).await?)
}

async fn release(input: Input<HoldId, NoFields, ReasonBody>) -> Result<Reply<SettledAnswer>, Problem> {
    settled(input.call.with_reason(input.body.reason).run(Op::Release { hold: input.parameter }).await?)
}

fn settled(outcome: Outcome) -> Result<Reply<SettledAnswer>, Problem> {
    match outcome.answer {
        Answer::Settled(settled) => Ok(Reply::new(SettledAnswer::from(&settled)).replayed(outcome.replayed)),
        other => Err(unexpected(&other)),
    }
}

async fn extend(input: Input<HoldId, NoFields, ExtendBody>) -> Result<Reply<ExtendedAnswer>, Problem> {
    let outcome = input.call.run(Op::Extend { hold: input.parameter, by: millis("by_ms", input.body.by_ms)? }).await?;
    match outcome.answer {
        Answer::Extended { hold, expires_at, clamped } => {
            let answer = ExtendedAnswer {
                id: hold,
                expires_at: stamp(expires_at),
                warnings: clamped.iter().map(|clamped| clamped.warning().into()).collect(),
                clamped: clamped.as_ref().map(ClampedAnswer::from),
            };
            Ok(Reply::new(answer).replayed(outcome.replayed))
        }
        other => Err(unexpected(&other)),
    }
}
