//! Retention: deletes rows that were kept for long enough, in bounded steps. What was deleted is still in the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bursar_core::bounds::SWEEP_MAX;
use bursar_core::id::{GrantId, HoldId};
use bursar_core::name::Tenant;
use bursar_core::state::{QueueKey, ScopeKey};
use bursar_store::{Forgotten, Store, StoreError};

use crate::error::Error;

/// The queues whose old figures are deleted in one step.
const QUEUES_PAGE: usize = 100;
/// The rows of one step of the others.
const ROWS_PAGE: usize = 1_000;
/// The most steps of one kind in a round. Another step follows only if the last one deleted at least half of its rows.
const STEPS_MAX: usize = 20;

/// The most rows of a kind that are counted as overdue.
pub(crate) const OVERDUE_MAX: usize = 1_000;

/// How many rows this process has deleted since the instance was opened, because they were kept for long enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Idempotency keys.
    pub keys: u64,
    /// Ended holds.
    pub holds: u64,
    /// Expired grants and credentials.
    pub grants: u64,
    /// Ended jobs.
    pub jobs: u64,
    /// Unused scopes.
    pub scopes: u64,
    /// Costs of a day.
    pub costs: u64,
}

/// Counts what was deleted.
#[derive(Default)]
pub(crate) struct RemovedCounts {
    keys: AtomicU64,
    holds: AtomicU64,
    grants: AtomicU64,
    jobs: AtomicU64,
    scopes: AtomicU64,
    costs: AtomicU64,
}

impl RemovedCounts {
    pub(crate) fn get(&self) -> Removed {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Removed {
            keys: get(&self.keys),
            holds: get(&self.holds),
            grants: get(&self.grants),
            jobs: get(&self.jobs),
            scopes: get(&self.scopes),
            costs: get(&self.costs),
        }
    }

    /// Counts ended jobs, which requests remove (`jobs.rs`).
    pub(super) fn count_jobs(&self, jobs: usize) {
        self.jobs.fetch_add(jobs as u64, Ordering::Relaxed);
    }
}

/// Where the next round continues: the last key of each kind.
#[derive(Default)]
pub(super) struct Cursors {
    figures: Option<QueueKey>,
    scopes: Option<ScopeKey>,
    holds: Option<HoldId>,
    grants: Option<GrantId>,
    costs: Option<Tenant>,
}

/// Does a round. The kinds are independent: an error is logged and does not stop the others.
pub(super) async fn remove_next(store: &Arc<dyn Store>, counts: &RemovedCounts, cursors: &mut Cursors) {
    log(remove_keys(store, counts, 1).await, "idempotency keys");
    log(forget_figures(store, &mut cursors.figures).await, "queue statistics");
    log(remove_scopes(store, counts, &mut cursors.scopes, STEPS_MAX).await, "scopes");
    log(remove_holds(store, counts, &mut cursors.holds, STEPS_MAX).await, "holds");
    log(remove_grants(store, counts, &mut cursors.grants, STEPS_MAX).await, "grants");
    log(remove_costs(store, counts, &mut cursors.costs, STEPS_MAX).await, "costs");
}

fn log<T>(result: Result<T, StoreError>, what: &str) {
    if let Err(error) = result {
        tracing::warn!(%error, "deleting old {what} failed, retrying later");
    }
}

/// Deletes everything that was kept for long enough.
pub(super) async fn remove_all(store: &Arc<dyn Store>, counts: &RemovedCounts) -> Result<(), Error> {
    remove_keys(store, counts, usize::MAX).await?;
    let mut cursors = Cursors::default();
    while forget_figures(store, &mut cursors.figures).await? {}
    while remove_scopes(store, counts, &mut cursors.scopes, 1).await? {}
    while remove_holds(store, counts, &mut cursors.holds, 1).await? {}
    while remove_grants(store, counts, &mut cursors.grants, 1).await? {}
    while remove_costs(store, counts, &mut cursors.costs, 1).await? {}
    Ok(())
}

async fn remove_keys(store: &Arc<dyn Store>, counts: &RemovedCounts, steps: usize) -> Result<(), StoreError> {
    for _ in 0..steps {
        let count = store.forget_keys(SWEEP_MAX).await?;
        counts.keys.fetch_add(count as u64, Ordering::Relaxed);
        if count < SWEEP_MAX {
            break;
        }
    }
    Ok(())
}

/// Deletes old figures. Returns whether more queues follow.
async fn forget_figures(store: &Arc<dyn Store>, at: &mut Option<QueueKey>) -> Result<bool, StoreError> {
    let after = at.take();
    *at = store.forget_figures(after.as_ref(), QUEUES_PAGE).await?;
    Ok(at.is_some())
}

/// Defines a function that deletes one kind of row, step by step, and returns whether more rows follow. After an error the next round
/// begins at the first row.
macro_rules! remove {
    ($name:ident, $key:ty, $forget:ident, $count:ident, $after:expr) => {
        async fn $name(
            store: &Arc<dyn Store>,
            counts: &RemovedCounts,
            at: &mut Option<$key>,
            steps: usize,
        ) -> Result<bool, StoreError> {
            for _ in 0..steps {
                let after = at.take();
                let Forgotten { count, last } = store.$forget($after(&after), ROWS_PAGE).await?;
                counts.$count.fetch_add(count as u64, Ordering::Relaxed);
                // A step that deleted as many rows as it may has left some at the same place.
                let full = count == ROWS_PAGE;
                *at = if full { after } else { last };
                if !full && at.is_none() {
                    return Ok(false);
                }
                if count < ROWS_PAGE / 2 {
                    break;
                }
            }
            Ok(true)
        }
    };
}

remove!(remove_scopes, ScopeKey, forget_scopes, scopes, Option::as_ref);
remove!(remove_holds, HoldId, forget_holds, holds, |after: &Option<HoldId>| *after);
remove!(remove_grants, GrantId, forget_grants, grants, |after: &Option<GrantId>| *after);
remove!(remove_costs, Tenant, forget_costs, costs, Option::as_ref);
