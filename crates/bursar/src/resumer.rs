//! Jobs that wait for units are looked at as soon as a commit of this process frees some, and soon after one of another does; those
//! that wait for a slot of their flow key as soon as their queue admits more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use bursar_core::event::Entry;
use bursar_core::state::{QueueKey, ScopeKey};
use bursar_store::Store;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::engine::Engine;
use crate::error::Error;
use crate::instance::Inner;
use crate::tending;

/// Scopes that are remembered at once. What is not is looked at when its jobs are due to be looked at anyway.
const SCOPES_MAX: usize = 10_000;
/// Scopes that are looked at for what other processes have freed, each time.
const AWAITED_MAX: usize = 1_000;

/// Whoever leases while a queue is changed may have read it before, and bar a job after those who were barred were let go on: after
/// so long they are looked at once more.
const UNDER_WAY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Resumer {
    inner: OnceLock<Weak<Inner>>,
    freed: Mutex<Freed>,
    /// The versions of the scopes that jobs await, as they were when those were looked at.
    seen: Mutex<BTreeMap<ScopeKey, u64>>,
}

#[derive(Default)]
struct Freed {
    scopes: BTreeSet<ScopeKey>,
    /// Queues that admit more leases of a flow key at once.
    queues: BTreeSet<QueueKey>,
    /// Who looks after them, as long as there are any.
    task: Option<JoinHandle<()>>,
    busy: bool,
}

impl Resumer {
    /// Begins to listen, once there is an instance to act through.
    pub(crate) fn begin(&self, inner: Weak<Inner>) {
        let _ = self.inner.set(inner);
    }

    /// Notes the scopes that an entry freed units of, where jobs await them, and the queues that admit more.
    pub(crate) fn tell(self: &Arc<Self>, entry: &Entry) {
        if entry.wakes.scopes.is_empty() && entry.wakes.unbarred.is_empty() {
            return;
        }
        let Some(inner) = self.inner.get().and_then(Weak::upgrade) else { return };
        let mut freed = self.freed();
        let tenant = &entry.context.tenant;
        if freed.scopes.len() < SCOPES_MAX {
            freed.scopes.extend(entry.wakes.scopes.iter().map(|scope| (tenant.clone(), scope.clone())));
        }
        if freed.queues.len() < SCOPES_MAX {
            freed.queues.extend(entry.wakes.unbarred.iter().map(|queue| (tenant.clone(), queue.clone())));
        }
        if !std::mem::replace(&mut freed.busy, true) {
            let (resumer, weak) = (self.clone(), Arc::downgrade(&inner));
            freed.task = Some(inner.runtime.spawn(async move { resumer.work(&weak).await }));
        }
    }

    async fn work(&self, inner: &Weak<Inner>) {
        loop {
            let next = {
                let mut freed = self.freed();
                let next = (freed.scopes.pop_first(), freed.queues.pop_first());
                freed.busy = next != (None, None);
                next
            };
            let ((scope, queue), Some(inner)) = (next, inner.upgrade()) else { return };
            if (&scope, &queue) == (&None, &None) {
                return;
            }
            if let Some(scope) = scope
                && let Err(error) = tending::resume(&inner.store, &inner.engine, &scope).await
            {
                tracing::warn!(tenant = %scope.0, scope = %scope.1, %error, "jobs that wait were not looked at; it is tried again");
            }
            if let Some(queue) = queue {
                unbar(&inner, &queue).await;
                let weak = Arc::downgrade(&inner);
                inner.runtime.spawn(async move {
                    sleep(UNDER_WAY).await;
                    if let Some(inner) = weak.upgrade() {
                        unbar(&inner, &queue).await;
                    }
                });
            }
        }
    }

    /// Looks after jobs that wait for units of scopes which have changed since: another process may have freed some, and not
    /// have lived to look after them.
    pub(crate) async fn look(&self, store: &Arc<dyn Store>, engine: &Engine) -> Result<(), Error> {
        let awaited: BTreeMap<ScopeKey, u64> = store.awaited(AWAITED_MAX).await?.into_iter().collect();
        let before = std::mem::replace(&mut *self.seen(), awaited.clone());
        let changed = awaited.iter().filter(|(scope, version)| before.get(scope) != Some(version));
        for (scope, _) in changed {
            tending::resume(store, engine, scope).await?;
        }
        Ok(())
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<ScopeKey, u64>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when nobody is left to be looked at.
    pub(crate) async fn settled(&self) {
        let task = self.freed().task.take();
        if let Some(task) = task {
            let _ = task.await;
        }
    }

    fn freed(&self) -> MutexGuard<'_, Freed> {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those who wait for a slot of their flow key are looked at again, and who waits for jobs is told.
async fn unbar(inner: &Inner, queue: &QueueKey) {
    match tending::unbar(&inner.store, &inner.engine, queue).await {
        Ok(true) => inner.hub.ready(queue),
        Ok(false) => {}
        Err(error) => tracing::warn!(
            tenant = %queue.0, queue = %queue.1, %error,
            "jobs that wait for a slot of their key were not looked at; they go on when one of the key ends"
        ),
    }
}
