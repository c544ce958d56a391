//! `/v1/dead`: dead letters.

use axum::http::Method;
use bursar::{Act, FlowKey, JobKind, JobState, Queue, Tag};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::{Ask, Nothing};
use crate::limits::PAGE_MAX;
use crate::principal::table::Action;
use crate::reply::Reply;
use crate::route::Route;
use crate::routes::jobs::{ListQuery, act_on_many, listed};
use crate::wire::Page;
use crate::wire::bulk::{ActedAnswer, MoveManyBody, SelectionBody};
use crate::wire::job::JobAnswer;
use crate::wire::problem::Problem;

pub(super) fn routes() -> Vec<Route> {
    let act = Action::JobsOperate;
    let example = || json!({ "filter": { "queue": "media" }, "reason": "provider is back" });
    let list = Route::new(Method::GET, "/v1/dead", Action::JobsRead, "Dead letters", list).pages();
    let acts = vec![
        Route::new(Method::POST, "/v1/dead/retry", act, "Try dead letters again", retry).example(example()),
        Route::new(Method::POST, "/v1/dead/discard", act, "Dead letters are not wanted any more", discard)
            .example(example()),
        Route::new(
            Method::POST,
            "/v1/dead/move",
            act,
            "Put dead letters in another queue, where they are tried again",
            move_to,
        )
        .example(json!({ "filter": { "queue": "media" }, "to": "slow", "reason": "provider is back" })),
    ];
    acts.into_iter().chain([list]).collect()
}

/// Which dead letters are listed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeadQuery {
    #[serde(default)]
    queue: Option<Queue>,
    /// A kind, or the beginning of kinds before a `*`.
    #[serde(default)]
    kind: Option<JobKind>,
    /// A flow key.
    #[serde(default)]
    key: Option<FlowKey>,
    #[serde(default)]
    tag: Option<Tag>,
    /// Of the last error.
    #[serde(default)]
    fingerprint: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

async fn list(ask: Ask<(), DeadQuery>) -> Result<Reply<Page<JobAnswer>>, Problem> {
    let DeadQuery { queue, kind, key, tag, fingerprint, cursor, limit } = ask.query;
    let query = ListQuery { queue, state: None, kind, key, tag, fingerprint, cursor, limit };
    listed(&ask.call, query, Some(JobState::Dead)).await
}

async fn retry(ask: Ask<(), Nothing, SelectionBody>) -> Result<Reply<ActedAnswer>, Problem> {
    act_on_many(ask.call, Act::Retry, ask.body, Some(JobState::Dead)).await
}

async fn discard(ask: Ask<(), Nothing, SelectionBody>) -> Result<Reply<ActedAnswer>, Problem> {
    act_on_many(ask.call, Act::Discard, ask.body, Some(JobState::Dead)).await
}

async fn move_to(ask: Ask<(), Nothing, MoveManyBody>) -> Result<Reply<ActedAnswer>, Problem> {
    let queue = ask.body.to.clone();
    act_on_many(ask.call, Act::Move { queue }, ask.body.selection(), Some(JobState::Dead)).await
}
