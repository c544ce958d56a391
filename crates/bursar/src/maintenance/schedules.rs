//! Ticking schedules of all tenants, in bounded steps: enqueues the jobs of due ticks. If several processes tick the same schedule, the
//! first enqueues the job and the others do nothing.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::bounds::ITEMS_MAX;
use bursar_core::context::Context;
use bursar_core::request::{Op, Request};
use bursar_core::state::ScheduleKey;
use bursar_store::Store;
use futures_util::future::join_all;

use super::bulk::Done;
use crate::engine::Engine;
use crate::error::Error;

/// The schedules that are ticked concurrently.
const PAGE: usize = 100;
/// The most pages in one round. The next round continues.
const PAGES_MAX: usize = 20;
/// The shortest pause between two rounds. Without it, the loop would spin while the clock of the store is slightly behind.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Ticks at most `limit` due schedules, the longest overdue first, and returns how many succeeded. A failure is logged and does not stop
/// the others. Fails only if all of them failed.
pub(crate) async fn tick(store: &Arc<dyn Store>, engine: &Engine, limit: usize) -> Result<usize, Error> {
    let (due, _) = store.due_schedules(limit.clamp(1, ITEMS_MAX)).await?;
    match tick_each(engine, &due).await {
        Done { done: 0, error: Some(error) } => Err(error),
        Done { done, .. } => Ok(done),
    }
}

async fn tick_each(engine: &Engine, due: &[ScheduleKey]) -> Done<usize> {
    let submit = |(tenant, schedule): &ScheduleKey| {
        let op = Op::Tick { schedule: schedule.clone() };
        engine.submit(Request::from(op).in_context(Context::of(tenant.clone())))
    };
    // Concurrently, so that they share batches and their waits for locked rows overlap.
    let answers = join_all(due.iter().map(submit)).await;
    let (mut done, mut last_error) = (0, None);
    for ((tenant, schedule), answer) in due.iter().zip(answers) {
        match answer {
            Ok(_) => done += 1,
            Err(error) => {
                tracing::warn!(%tenant, %schedule, %error, "enqueuing the job of a due schedule failed, retrying");
                last_error = Some(error);
            }
        }
    }
    Done { done, error: last_error }
}

/// Ticks all due schedules, up to [`PAGES_MAX`] pages. Returns how long to wait for the next tick, at most `every`.
pub(super) async fn tick_all(store: &Arc<dyn Store>, engine: &Engine, every: Duration) -> Result<Duration, Error> {
    for _ in 0..PAGES_MAX {
        let (due, next) = store.due_schedules(PAGE).await?;
        // A schedule with more missed ticks is due again on the next page. After a failure, a pause comes first.
        if due.is_empty() || tick_each(engine, &due).await.error.is_some() {
            let Some(next) = next else { return Ok(every) };
            let now = store.now().await?;
            return Ok(Duration::from(next.since(now)).clamp(PAUSE_MIN, every));
        }
    }
    Ok(PAUSE_MIN)
}
