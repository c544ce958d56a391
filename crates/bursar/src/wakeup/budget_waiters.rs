//! Resumes jobs that wait for units of a budget: at once when a commit of this process frees units, and at the next round of job
//! maintenance when a commit of another process does. When the settings of a queue admit more leases for each flow key, it also makes
//! the barred jobs of the queue ready, which wait for a slot of their flow key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use bursar_core::event::Entry;
use bursar_core::state::{QueueKey, ScopeKey};
use bursar_store::Store;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::api::instance::Inner;
use crate::engine::Engine;
use crate::error::Error;
use crate::maintenance::jobs as job_maintenance;

/// The most freed scopes, and the most freed queues, that wait for the task. Beyond that, maintenance resumes the jobs of a scope, and a
/// barred job becomes ready when a job of its flow key ends.
const FREED_MAX: usize = 10_000;
/// The most awaited scopes whose versions are compared in one round.
const AWAITED_MAX: usize = 1_000;

/// The pause after which the barred jobs of a queue are made ready a second time. A concurrent lease that still used the old settings may
/// have barred a job after the first time.
const UNBAR_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Resumes waiting jobs in a background task.
#[derive(Default)]
pub(crate) struct BudgetWaiters {
    /// The instance whose store and engine resume the jobs. It is set after construction, because the instance owns this value.
    inner: OnceLock<Weak<Inner>>,
    freed: Mutex<Freed>,
    /// The versions of the scopes that jobs wait for, in the last round.
    last_versions: Mutex<BTreeMap<ScopeKey, u64>>,
}

/// Freed scopes and queues whose jobs are not resumed yet.
#[derive(Default)]
struct Freed {
    /// Scopes that have units again.
    scopes: BTreeSet<ScopeKey>,
    /// Queues that admit more leases for each flow key.
    queues: BTreeSet<QueueKey>,
    /// The task that resumes jobs; it ends when no scope and no queue is left.
    task: Option<JoinHandle<()>>,
    running: bool,
}

impl BudgetWaiters {
    /// Sets the instance that resumes the jobs. Until then, wake-ups are ignored.
    pub(crate) fn set_instance(&self, inner: Weak<Inner>) {
        let _ = self.inner.set(inner);
    }

    /// Resumes, in the background, the jobs that wait for what an entry freed.
    pub(crate) fn wake_for(self: &Arc<Self>, entry: &Entry) {
        if entry.wakes.scopes.is_empty() && entry.wakes.unbarred.is_empty() {
            return;
        }
        let Some(inner) = self.inner.get().and_then(Weak::upgrade) else { return };
        let mut freed = self.freed();
        let tenant = &entry.context.tenant;
        if freed.scopes.len() < FREED_MAX {
            freed.scopes.extend(entry.wakes.scopes.iter().map(|scope| (tenant.clone(), scope.clone())));
        }
        if freed.queues.len() < FREED_MAX {
            freed.queues.extend(entry.wakes.unbarred.iter().map(|queue| (tenant.clone(), queue.clone())));
        }
        if !std::mem::replace(&mut freed.running, true) {
            let (waiters, weak) = (self.clone(), Arc::downgrade(&inner));
            freed.task = Some(inner.runtime.spawn(async move { waiters.resume_all(&weak).await }));
        }
    }

    async fn resume_all(&self, inner: &Weak<Inner>) {
        loop {
            let next = {
                let mut freed = self.freed();
                let next = (freed.scopes.pop_first(), freed.queues.pop_first());
                freed.running = next != (None, None);
                next
            };
            let ((scope, queue), Some(inner)) = (next, inner.upgrade()) else { return };
            if (&scope, &queue) == (&None, &None) {
                return;
            }
            if let Some(scope) = scope
                && let Err(error) = job_maintenance::resume(&inner.store, &inner.engine, &scope).await
            {
                tracing::warn!(tenant = %scope.0, scope = %scope.1, %error, "resuming jobs that wait for a budget failed, maintenance will retry");
            }
            if let Some(queue) = queue {
                unbar(&inner, &queue).await;
                let weak = Arc::downgrade(&inner);
                inner.runtime.spawn(async move {
                    sleep(UNBAR_AGAIN_AFTER).await;
                    if let Some(inner) = weak.upgrade() {
                        unbar(&inner, &queue).await;
                    }
                });
            }
        }
    }

    /// Resumes jobs that wait for scopes which have changed since the last call. This covers units freed by another process, also one
    /// that ended before it resumed the jobs.
    pub(crate) async fn resume_changed(&self, store: &Arc<dyn Store>, engine: &Engine) -> Result<(), Error> {
        let awaited: BTreeMap<ScopeKey, u64> = store.scopes_awaited(AWAITED_MAX).await?.into_iter().collect();
        let before = std::mem::replace(&mut *self.last_versions(), awaited.clone());
        let changed = awaited.iter().filter(|(scope, version)| before.get(scope) != Some(version));
        for (scope, _) in changed {
            job_maintenance::resume(store, engine, scope).await?;
        }
        Ok(())
    }

    fn last_versions(&self) -> MutexGuard<'_, BTreeMap<ScopeKey, u64>> {
        self.last_versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing is left to resume.
    pub(crate) async fn finish(&self) {
        let task = self.freed().task.take();
        if let Some(task) = task {
            let _ = task.await;
        }
    }

    fn freed(&self) -> MutexGuard<'_, Freed> {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the barred jobs of a queue ready, and wakes a worker if there were any.
async fn unbar(inner: &Inner, queue: &QueueKey) {
    match job_maintenance::unbar(&inner.store, &inner.engine, queue).await {
        Ok(true) => inner.lease_waiters.wake_queue(queue),
        Ok(false) => {}
        Err(error) => tracing::warn!(
            tenant = %queue.0, queue = %queue.1, %error,
            "making barred jobs ready failed; each becomes ready when a job of its flow key ends"
        ),
    }
}
