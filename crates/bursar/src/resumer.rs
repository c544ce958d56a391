//! Jobs that wait for units are looked at as soon as a commit of this process frees some.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bursar_core::event::Entry;
use bursar_core::state::ScopeKey;
use tokio::task::JoinHandle;

use crate::instance::Inner;
use crate::tending;

/// Scopes that are remembered at once. What is not is looked at when its jobs are due to be looked at anyway.
const SCOPES_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct Resumer {
    inner: OnceLock<Weak<Inner>>,
    freed: Mutex<Freed>,
}

#[derive(Default)]
struct Freed {
    scopes: BTreeSet<ScopeKey>,
    /// Who looks after them, as long as there are any.
    task: Option<JoinHandle<()>>,
    busy: bool,
}

impl Resumer {
    /// Begins to listen, once there is an instance to act through.
    pub(crate) fn begin(&self, inner: Weak<Inner>) {
        let _ = self.inner.set(inner);
    }

    /// Notes the scopes that an entry freed units of, where jobs await them.
    pub(crate) fn tell(self: &Arc<Self>, entry: &Entry) {
        if entry.wakes.scopes.is_empty() {
            return;
        }
        let Some(inner) = self.inner.get().and_then(Weak::upgrade) else { return };
        let mut freed = self.freed();
        if freed.scopes.len() < SCOPES_MAX {
            freed.scopes.extend(entry.wakes.scopes.iter().map(|scope| (entry.context.tenant.clone(), scope.clone())));
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
                let next = freed.scopes.pop_first();
                freed.busy = next.is_some();
                next
            };
            let (Some(scope), Some(inner)) = (next, inner.upgrade()) else { return };
            if let Err(error) = tending::resume(&inner.store, &inner.engine, &scope).await {
                tracing::warn!(tenant = %scope.0, scope = %scope.1, %error, "jobs that wait were not looked at; it is tried again");
            }
        }
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
