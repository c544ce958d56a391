//! `/v1/queues`: settings and statistics of queues.

use axum::http::Method;
use bursar::{Fingerprint, Op, Queue, QueueConfig, Stream};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::{Call, Input, NoFields};
use crate::convert;
use crate::limits::PAGE_MAX;
use crate::principal::permissions::Action;
use crate::reply::Reply;
use crate::route::Route;
use crate::routes::budgets::{HistoryQuery, history_of};
use crate::routes::{name_cursor, page_size};
use crate::suggest;
use crate::wire::Page;
use crate::wire::budget::ReasonBody;
use crate::wire::event::EventAnswer;
use crate::wire::problem::Problem;
use crate::wire::queue::{QueueAnswer, QueueBody};

pub(super) fn routes() -> Vec<Route> {
    let (read, write) = (Action::QueuesRead, Action::QueuesWrite);
    let reason = || json!({ "reason": "provider is down" });
    vec![
        Route::new(Method::GET, "/v1/queues", read, "List queues and their statistics by name", list).pages(),
        Route::new(Method::GET, "/v1/queues/{name}", read, "Get a queue and its statistics", show),
        Route::new(Method::GET, "/v1/queues/{name}/history", read, "List a queue's changes, newest first", history)
            .always_there()
            .pages(),
        Route::new(Method::PUT, "/v1/queues/{name}", write, "Create or replace a queue", define)
            .takes_if_match()
            .ignores(QueueAnswer::READ_ONLY)
            .always_there()
            .example(json!({
                "concurrency": 20, "rate": { "amount": 100, "per_ms": 1_000 }, "key_concurrency": 2, "lease_ms": 30_000,
                "retry": { "max_attempts": 5, "backoff": "exponential", "first_ms": 1_000, "most_ms": 3_600_000 },
            })),
        Route::new(Method::POST, "/v1/queues/{name}/pause", write, "Pause a queue: lease no more jobs", pause)
            .always_there()
            .example(reason()),
        Route::new(Method::POST, "/v1/queues/{name}/resume", write, "Resume a queue", resume)
            .always_there()
            .example(reason()),
    ]
}

/// Maximum of `limit` times `minutes` in one request, so that an answer has a bounded size: 100 queues for a day.
const COUNTS_MAX: usize = 144_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QueuesQuery {
    /// Where the page begins: `next` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
    /// Maximum number of items, from 1 to 1000. Default: 100. Times `minutes` it may be at most 144000.
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
    /// The period of the statistics in minutes, from 1 to 1440. Default: 60.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_440))]
    minutes: Option<u32>,
    /// Whether to return the counts of each minute as well. Default: false.
    #[serde(default)]
    series: bool,
}

async fn list(input: Input<(), QueuesQuery>) -> Result<Reply<Page<QueueAnswer>>, Problem> {
    let QueuesQuery { cursor, limit, minutes, series } = input.query;
    let (limit, minutes) = (page_size(limit)?, period(minutes)?);
    if limit * minutes as usize > COUNTS_MAX {
        let detail = format!("limit times minutes must be at most {COUNTS_MAX}; ask for fewer queues or minutes");
        return Err(Problem::invalid("limit".into(), detail));
    }
    let after: Option<Queue> = name_cursor(cursor.as_deref())?;
    let found = input.call.bursar().queues().list_with_figures(after.as_ref(), limit, minutes).await?;
    let full = found.len() >= limit;
    let answer = |(name, config, figures)| convert::queue_answer(name, &config, &figures, series);
    let items: Vec<_> = found.into_iter().map(answer).collect();
    Ok(Reply::new(Page::of(items, full, |queue| queue.name.to_string())))
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FiguresQuery {
    /// The period of the statistics in minutes, from 1 to 1440. Default: 60.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_440))]
    minutes: Option<u32>,
    /// Whether to return the counts of each minute as well. Default: false.
    #[serde(default)]
    series: bool,
}

/// Returns the period of statistics in minutes.
fn period(minutes: Option<u32>) -> Result<u32, Problem> {
    match minutes.unwrap_or(60) {
        minutes @ 1..=1_440 => Ok(minutes),
        _ => Err(Problem::invalid("minutes".into(), "minutes must be from 1 to 1440")),
    }
}

async fn show(input: Input<Queue, FiguresQuery>) -> Result<Reply<QueueAnswer>, Problem> {
    if input.call.bursar().queues().find(&input.parameter).await?.is_none() {
        return Err(suggest::unknown_queue(&input.parameter, &input.call).await);
    }
    view(&input.call, input.parameter, &input.query).await
}

async fn view(call: &Call, queue: Queue, query: &FiguresQuery) -> Result<Reply<QueueAnswer>, Problem> {
    let minutes = period(query.minutes)?;
    let bursar = call.bursar();
    let config = bursar.queues().get(&queue).await?;
    let figures = bursar.queues().figures(&queue, minutes).await?;
    let tag = Fingerprint::of(&config);
    Ok(Reply::new(convert::queue_answer(queue, &config, &figures, query.series)).tagged(Some(tag)))
}

async fn history(input: Input<Queue, HistoryQuery>) -> Result<Reply<Page<EventAnswer>>, Problem> {
    let stream = Stream::Queue(input.call.context.tenant.clone(), input.parameter);
    history_of(&input.call, &stream, input.query).await
}

async fn define(input: Input<Queue, NoFields, QueueBody>) -> Result<Reply<QueueAnswer>, Problem> {
    let Input { call, parameter: name, mut body, .. } = input;
    let call = call.with_reason(body.reason.take());
    let done = call.run(Op::DefineQueue { queue: name.clone(), config: QueueConfig::try_from(body)? }).await?;
    Ok(view(&call, name, &FiguresQuery::default()).await?.replayed(done.replayed))
}

async fn pause(input: Input<Queue, NoFields, ReasonBody>) -> Result<Reply<QueueAnswer>, Problem> {
    set_paused(input.call.with_reason(input.body.reason), input.parameter, true).await
}

async fn resume(input: Input<Queue, NoFields, ReasonBody>) -> Result<Reply<QueueAnswer>, Problem> {
    set_paused(input.call.with_reason(input.body.reason), input.parameter, false).await
}

async fn set_paused(call: Call, queue: Queue, paused: bool) -> Result<Reply<QueueAnswer>, Problem> {
    let done = call.run(Op::PauseQueue { queue: queue.clone(), paused }).await?;
    Ok(view(&call, queue, &FiguresQuery::default()).await?.replayed(done.replayed))
}
