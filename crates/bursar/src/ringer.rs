//! Tells other processes what this one has made ready, on engines that have a way for it: after the commit, at once after a pause, and
//! then together, at most once in a few milliseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::event::Entry;
use bursar_core::state::QueueKey;
use bursar_store::hint::{Hint, Hints};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The shortest time between two rings.
const EVERY: Duration = Duration::from_millis(5);

pub(crate) struct Ringer {
    hints: Arc<dyn Hints>,
    runtime: Handle,
    waiting: Mutex<Waiting>,
    rings: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    hint: Hint,
    /// Who tells it, as long as there is something.
    task: Option<JoinHandle<()>>,
    busy: bool,
}

impl Ringer {
    pub(crate) fn new(hints: Arc<dyn Hints>) -> Arc<Ringer> {
        Arc::new(Ringer { hints, runtime: Handle::current(), waiting: Mutex::default(), rings: AtomicU64::new(0) })
    }

    /// Others may wait for what an entry made ready.
    pub(crate) fn tell(self: &Arc<Self>, entry: &Entry) {
        if entry.wakes.queues.is_empty() {
            return;
        }
        let queues = entry.wakes.queues.iter().map(|ready| (entry.context.tenant.clone(), ready.queue.clone()));
        self.tell_queues(queues);
    }

    /// Others may wait for jobs of a queue.
    pub(crate) fn tell_queue(self: &Arc<Self>, queue: &QueueKey) {
        self.tell_queues([queue.clone()]);
    }

    fn tell_queues(self: &Arc<Self>, queues: impl IntoIterator<Item = QueueKey>) {
        let mut waiting = self.waiting();
        queues.into_iter().for_each(|queue| waiting.hint.add_queue(&queue));
        if !std::mem::replace(&mut waiting.busy, true) {
            let ringer = self.clone();
            waiting.task = Some(self.runtime.spawn(async move { ringer.work().await }));
        }
    }

    async fn work(&self) {
        loop {
            let hint = {
                let mut waiting = self.waiting();
                let hint = std::mem::take(&mut waiting.hint);
                waiting.busy = !hint.is_empty();
                hint
            };
            if hint.is_empty() {
                return;
            }
            if let Err(error) = self.hints.ring(&hint).await {
                tracing::debug!(%error, "other processes were not told what is ready; they find it when they look");
            }
            self.rings.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(EVERY).await;
        }
    }

    /// How often others were told, or would have been if there were any.
    pub(crate) fn rings(&self) -> u64 {
        self.rings.load(Ordering::Relaxed)
    }

    /// Returns when all is told.
    pub(crate) async fn settled(&self) {
        let task = self.waiting().task.take();
        if let Some(task) = task {
            let _ = task.await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
