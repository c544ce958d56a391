//! `/v1/queues`: settings and statistics of queues.

use axum::http::Method;
use bursar::{Fingerprint, Op, Queue, QueueConfig};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::{Call, Input, NoFields};
use crate::convert;
use crate::principal::permissions::Action;
use crate::reply::Reply;
use crate::route::Route;
use crate::routes::{PageQuery, name_cursor, page_size};
use crate::wire::Page;
use crate::wire::budget::ReasonBody;
use crate::wire::problem::Problem;
use crate::wire::queue::{QueueAnswer, QueueBody};

pub(super) fn routes() -> Vec<Route> {
    let (read, write) = (Action::QueuesRead, Action::QueuesWrite);
    let reason = || json!({ "reason": "provider is down" });
    vec![
        Route::new(Method::GET, "/v1/queues", read, "List queues by name", list).carries_payloads(),
        Route::new(Method::GET, "/v1/queues/{name}", read, "Get a queue and its statistics", show).always_there(),
        Route::new(Method::PUT, "/v1/queues/{name}", write, "Create or replace a queue", define)
            .takes_if_match()
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

async fn list(input: Input<(), PageQuery>) -> Result<Reply<Page<QueueAnswer>>, Problem> {
    let limit = page_size(input.query.limit)?;
    let after: Option<Queue> = name_cursor(input.query.cursor.as_deref())?;
    let found = input.call.bursar().queues().list(after.as_ref(), limit).await?;
    let full = found.len() >= limit;
    let items: Vec<_> = found.into_iter().map(|(name, config)| convert::queue_answer(name, &config, None)).collect();
    Ok(Reply::new(Page::of(items, full, |queue| queue.name.to_string())))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FiguresQuery {
    /// The period of the statistics in minutes, from 1 to 1440. Default: 60.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_440))]
    minutes: Option<u32>,
}

async fn show(input: Input<Queue, FiguresQuery>) -> Result<Reply<QueueAnswer>, Problem> {
    view(&input.call, input.parameter, input.query.minutes).await
}

async fn view(call: &Call, queue: Queue, minutes: Option<u32>) -> Result<Reply<QueueAnswer>, Problem> {
    let minutes = minutes.unwrap_or(60);
    if !(1..=1_440).contains(&minutes) {
        return Err(Problem::invalid("minutes".into(), "minutes must be from 1 to 1440"));
    }
    let bursar = call.bursar();
    let config = bursar.queues().get(&queue).await?;
    let figures = bursar.queues().figures(&queue, minutes).await?;
    let tag = Fingerprint::of(&config);
    Ok(Reply::new(convert::queue_answer(queue, &config, Some(&figures))).tagged(Some(tag)))
}

async fn define(input: Input<Queue, NoFields, QueueBody>) -> Result<Reply<QueueAnswer>, Problem> {
    let Input { call, parameter: name, mut body, .. } = input;
    let call = call.with_reason(body.reason.take());
    let done = call.run(Op::DefineQueue { queue: name.clone(), config: QueueConfig::try_from(body)? }).await?;
    Ok(view(&call, name, None).await?.replayed(done.replayed))
}

async fn pause(input: Input<Queue, NoFields, ReasonBody>) -> Result<Reply<QueueAnswer>, Problem> {
    set_paused(input.call.with_reason(input.body.reason), input.parameter, true).await
}

async fn resume(input: Input<Queue, NoFields, ReasonBody>) -> Result<Reply<QueueAnswer>, Problem> {
    set_paused(input.call.with_reason(input.body.reason), input.parameter, false).await
}

async fn set_paused(call: Call, queue: Queue, paused: bool) -> Result<Reply<QueueAnswer>, Problem> {
    let done = call.run(Op::PauseQueue { queue: queue.clone(), paused }).await?;
    Ok(view(&call, queue, None).await?.replayed(done.replayed))
}
