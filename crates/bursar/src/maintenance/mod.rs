//! Maintenance: the background work of an instance. Every part is a request or a bounded deletion, and any number of processes can run
//! it at the same time. No admission depends on it: an expired hold does not count, whether or not it has been swept.

mod bulk;
mod holds;
pub(crate) mod jobs;
mod retention;
pub(crate) mod retry_on_drop;
mod schedules;
mod scopes;

use std::sync::Weak;
use std::time::Duration;

use futures_util::future::join4;
use tokio::task::JoinHandle;

pub use self::holds::Swept;
pub(crate) use self::holds::sweep;
pub use self::jobs::Tended;
pub(crate) use self::jobs::tend;
pub use self::retention::Removed;
pub(crate) use self::retention::{OVERDUE_MAX, RemovedCounts};
pub(crate) use self::schedules::tick;
use crate::api::instance::Inner;
use crate::archive;
use crate::error::Error;

/// The default interval at which holds are swept and scopes tidied.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// The default interval at which expired leases are taken back.
pub(crate) const RESCUE_EVERY: Duration = Duration::from_millis(500);

/// How often the journal is searched for rows to archive, while there are not enough of them.
const ARCHIVE_EVERY: Duration = Duration::from_secs(600);

/// Runs maintenance until the instance is dropped. Its four parts run concurrently, so that a long sweep delays neither expired leases
/// nor ticks, and a slow archive delays nothing.
pub(crate) fn spawn(inner: Weak<Inner>, sweep_every: Duration, rescue_every: Duration) -> JoinHandle<()> {
    let interval = |every: Duration| {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks
    };
    tokio::spawn(async move {
        let jobs = async {
            let mut ticks = interval(rescue_every);
            loop {
                ticks.tick().await;
                let Some(inner) = inner.upgrade() else { return };
                if let Err(error) = jobs::tend_all(&inner.store, &inner.engine, &inner.removed).await {
                    tracing::warn!(%error, "job maintenance failed, retrying");
                }
                if let Err(error) = inner.budget_waiters.resume_changed(&inner.store, &inner.engine).await {
                    tracing::warn!(%error, "resuming jobs that wait for a budget failed, retrying");
                }
            }
        };
        let schedules = async {
            loop {
                let Some(alive) = inner.upgrade() else { return };
                let pause = schedules::tick_all(&alive.store, &alive.engine, rescue_every).await;
                drop(alive);
                let pause = pause.unwrap_or_else(|error| {
                    tracing::warn!(%error, "enqueuing the jobs of due schedules failed, retrying");
                    rescue_every
                });
                tokio::time::sleep(pause).await;
            }
        };
        let scopes = async {
            let mut ticks = interval(sweep_every);
            let (mut tidied, mut cursors) = (None, retention::Cursors::default());
            loop {
                ticks.tick().await;
                let Some(inner) = inner.upgrade() else { return };
                if let Err(error) = holds::sweep_all(&inner.store, &inner.engine).await {
                    tracing::warn!(%error, "recording expired holds failed, retrying");
                }
                scopes::tidy_next(&inner.store, &inner.engine, &mut tidied).await;
                retention::remove_next(&inner.store, &inner.removed, &mut cursors).await;
            }
        };
        let archive = async {
            loop {
                let Some(alive) = inner.upgrade() else { return };
                let more = archive_next(&alive).await;
                drop(alive);
                if !more {
                    tokio::time::sleep(ARCHIVE_EVERY).await;
                }
            }
        };
        join4(jobs, schedules, scopes, archive).await;
    })
}

/// Archives at most one segment of the journal. Returns whether more may follow at once.
async fn archive_next(inner: &Inner) -> bool {
    let Some(options) = inner.journal.options() else { return false };
    match archive::step(&inner.store, options, inner.journal.counters()).await {
        Ok(done) => !done.segments.is_empty() || done.deleted > 0,
        Err(error) => {
            inner.journal.counters().failed();
            tracing::warn!(%error, "archiving the journal failed, retrying later");
            false
        }
    }
}

/// Tidies every scope, and deletes what was kept for long enough. An error of a scope is returned only after everything else is done.
pub(crate) async fn tidy_all(inner: &Inner) -> Result<(), Error> {
    let tidied = scopes::tidy_all(&inner.store, &inner.engine).await;
    retention::remove_all(&inner.store, &inner.removed).await?;
    tidied
}
