//! `/v1/dead`: dead jobs, which have used up their attempts or failed for good.

use axum::http::Method;
use bursar::{Act, FlowKey, JobKind, JobState, Queue, Tag};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::{Input, NoFields};
use crate::limits::PAGE_MAX;
use crate::principal::permissions::Action;
use crate::reply::Reply;
use crate::route::Route;
use crate::routes::jobs::{ListQuery, act_on_many, list_page};
use crate::wire::Page;
use crate::wire::bulk::{ActedAnswer, MoveManyBody, SelectionBody};
use crate::wire::job::JobAnswer;
use crate::wire::problem::Problem;

pub(super) fn routes() -> Vec<Route> {
    let act = Action::JobsOperate;
    let example = || json!({ "filter": { "queue": "media" }, "reason": "provider is back" });
    let list = Route::new(Method::GET, "/v1/dead", Action::JobsRead, "List dead jobs", list).pages();
    let acts = vec![
        Route::new(Method::POST, "/v1/dead/retry", act, "Retry dead jobs", retry).example(example()),
        Route::new(Method::POST, "/v1/dead/discard", act, "Discard dead jobs", discard).example(example()),
        Route::new(Method::POST, "/v1/dead/move", act, "Move dead jobs to another queue and retry them there", move_to)
            .example(json!({ "filter": { "queue": "media" }, "to": "slow", "reason": "provider is back" })),
    ];
    acts.into_iter().chain([list]).collect()
}

/// The filter of the list of dead jobs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeadQuery {
    #[serde(default)]
    queue: Option<Queue>,
    /// A kind, or a prefix of kinds followed by `*`.
    #[serde(default)]
    kind: Option<JobKind>,
    /// The flow key.
    #[serde(default)]
    key: Option<FlowKey>,
    #[serde(default)]
    tag: Option<Tag>,
    /// The fingerprint of the last error.
    #[serde(default)]
    fingerprint: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

async fn list(input: Input<(), DeadQuery>) -> Result<Reply<Page<JobAnswer>>, Problem> {
    let DeadQuery { queue, kind, key, tag, fingerprint, cursor, limit } = input.query;
    let query = ListQuery { queue, state: None, kind, key, tag, fingerprint, cursor, limit };
    list_page(&input.call, query, Some(JobState::Dead)).await
}

async fn retry(input: Input<(), NoFields, SelectionBody>) -> Result<Reply<ActedAnswer>, Problem> {
    act_on_many(input.call, Act::Retry, input.body, Some(JobState::Dead)).await
}

async fn discard(input: Input<(), NoFields, SelectionBody>) -> Result<Reply<ActedAnswer>, Problem> {
    act_on_many(input.call, Act::Discard, input.body, Some(JobState::Dead)).await
}

async fn move_to(input: Input<(), NoFields, MoveManyBody>) -> Result<Reply<ActedAnswer>, Problem> {
    let queue = input.body.to.clone();
    act_on_many(input.call, Act::Move { queue }, input.body.selection(), Some(JobState::Dead)).await
}
