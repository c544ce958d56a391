//! `/v1/dead`: dead jobs, which have used up their attempts or failed for good.

use axum::http::Method;
use bursar::{Act, DeadGroupMark, FlowKey, JobKind, JobState, Queue, Tag, page};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::{Input, NoFields};
use crate::convert;
use crate::limits::PAGE_MAX;
use crate::principal::permissions::Action;
use crate::reply::Reply;
use crate::route::Route;
use crate::routes::jobs::{ListQuery, act_on_many, list_page};
use crate::routes::{ListOrder, cursor, page_size};
use crate::wire::Page;
use crate::wire::bulk::{ActedAnswer, MoveManyBody, SelectionBody};
use crate::wire::job::JobAnswer;
use crate::wire::problem::Problem;
use crate::wire::report::DeadGroupAnswer;

pub(super) fn routes() -> Vec<Route> {
    let act = Action::JobsOperate;
    let example = || json!({ "filter": { "queue": "media" }, "reason": "provider is back" });
    let list = Route::new(Method::GET, "/v1/dead", Action::JobsRead, "List dead jobs", list).pages();
    let groups = Route::new(
        Method::GET,
        "/v1/dead/groups",
        Action::JobsRead,
        "Group dead jobs by queue, kind and error",
        groups,
    )
    .pages();
    let acts = vec![
        Route::new(Method::POST, "/v1/dead/retry", act, "Retry dead jobs", retry).example(example()),
        Route::new(Method::POST, "/v1/dead/discard", act, "Discard dead jobs", discard).example(example()),
        Route::new(Method::POST, "/v1/dead/move", act, "Move dead jobs to another queue and retry them there", move_to)
            .example(json!({ "filter": { "queue": "media" }, "to": "slow", "reason": "provider is back" })),
    ];
    acts.into_iter().chain([list, groups]).collect()
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
    let order = ListOrder::Oldest;
    let query = ListQuery { queue, state: None, kind, key, tag, fingerprint, order, cursor, limit };
    list_page(&input.call, query, Some(JobState::Dead)).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GroupsQuery {
    /// Only jobs of this queue.
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

async fn groups(input: Input<(), GroupsQuery>) -> Result<Reply<Page<DeadGroupAnswer>>, Problem> {
    let GroupsQuery { queue, cursor: at, limit } = input.query;
    let (limit, after) = (page_size(limit)?, cursor::<GroupCursor>(at.as_deref())?);
    let after = after.map(|cursor| cursor.0);
    let found = input.call.bursar().jobs().dead_groups(queue.as_ref(), after.as_ref(), limit).await?;
    let full = page::is_full(&found, limit);
    let items = found.into_iter().map(convert::dead_group_answer).collect();
    Ok(Reply::new(Page::of(items, full, GroupCursor::after)))
}

/// A cursor: queue, kind and fingerprint as JSON, because names may contain any separator.
struct GroupCursor(DeadGroupMark);

impl GroupCursor {
    fn after(last: &DeadGroupAnswer) -> String {
        json!([last.queue, last.kind, last.error.fingerprint]).to_string()
    }
}

impl std::str::FromStr for GroupCursor {
    type Err = String;
    fn from_str(text: &str) -> Result<GroupCursor, String> {
        let mark: DeadGroupMark = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match mark.2.chars().all(|c| c.is_ascii_alphanumeric()) {
            true => Ok(GroupCursor(mark)),
            false => Err("not a fingerprint".to_owned()),
        }
    }
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
