//! Ticks of schedules: enqueues what is due. For all tenants, in bounded steps, and safe to be done by any number of processes at
//! once: whoever comes second finds the tick done.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::bounds::ITEMS_MAX;
use bursar_core::context::Context;
use bursar_core::request::{Op, Request};
use bursar_core::state::ScheduleKey;
use bursar_store::Store;
use futures_util::future::join_all;

use crate::engine::Engine;
use crate::error::Error;
use crate::upkeep::Done;

/// Schedules that the background ticks together.
const PAGE: usize = 100;
/// Such pages at most in one round: the rest is for the next.
const PAGES_MAX: usize = 20;
/// The shortest rest between two rounds: clocks differ by a hair.
const REST_MIN: Duration = Duration::from_millis(1);

/// Ticks the schedules that are due, at most so many, those first that are due longest; returns how many were. One that cannot be is
/// logged and keeps nobody else from it; an error only if none could be.
pub(crate) async fn tick(store: &Arc<dyn Store>, engine: &Engine, most: usize) -> Result<usize, Error> {
    let (due, _) = store.due_schedules(most.clamp(1, ITEMS_MAX)).await?;
    match tick_all(engine, &due).await {
        Done { done: 0, wrong: Some(error) } => Err(error),
        Done { done, .. } => Ok(done),
    }
}

async fn tick_all(engine: &Engine, due: &[ScheduleKey]) -> Done<usize> {
    let ask = |(tenant, schedule): &ScheduleKey| {
        let op = Op::Tick { schedule: schedule.clone() };
        engine.submit(Request::from(op).in_context(Context::of(tenant.clone())))
    };
    // All at once: they share commits, and those that somebody has locked are waited for together.
    let answers = join_all(due.iter().map(ask)).await;
    let (mut done, mut wrong) = (0, None);
    for ((tenant, schedule), answer) in due.iter().zip(answers) {
        match answer {
            Ok(_) => done += 1,
            Err(error) => {
                tracing::warn!(%tenant, %schedule, %error, "a schedule was not ticked; it is tried again");
                wrong = Some(error);
            }
        }
    }
    Done { done, wrong }
}

/// Ticks all that is due, in bounded steps; returns how long to rest until the next tick, `every` at most.
pub(crate) async fn tick_backlog(store: &Arc<dyn Store>, engine: &Engine, every: Duration) -> Result<Duration, Error> {
    for _ in 0..PAGES_MAX {
        let (due, next) = store.due_schedules(PAGE).await?;
        // What is due after it was ticked has more to do, unless it cannot be: that is tried again after a rest.
        if due.is_empty() || tick_all(engine, &due).await.wrong.is_some() {
            let Some(next) = next else { return Ok(every) };
            // Every engine tells its time with what is due; asking for nothing costs nothing.
            let now = store.due_holds(0).await?.1;
            return Ok(Duration::from(next.since(now)).clamp(REST_MIN, every));
        }
    }
    Ok(REST_MIN)
}
