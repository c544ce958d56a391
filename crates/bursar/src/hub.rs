//! The hub: who waits for jobs, and how they are woken. Nothing runs here while nobody waits.
//!
//! Those who wait stand in a line for each queue and list of kinds. What makes jobs ready in this process wakes as many as
//! there are jobs; who then gets as many jobs as it asked for wakes the next. What happens in other processes is noticed by the
//! store's bell, and what becomes due by one timer for all.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::event::Entry;
use bursar_core::job::{LeaseAsk, wants};
use bursar_core::name::{JobKind, Tenant};
use bursar_core::state::QueueKey;
use bursar_core::wakes::Ready;
use bursar_store::Store;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::error::Error;

/// Those who may wait at once; one more is `overloaded`.
const WAITERS_MAX: usize = 10_000;
/// How often the bell is looked at while somebody waits, unless told otherwise.
pub(crate) const BELL_EVERY: Duration = Duration::from_millis(3);
/// The longest that a line does not listen to the bell after it rang for nothing: it rings of every commit there is.
const DEAF_MAX: Duration = Duration::from_millis(50);
/// How often one of each line asks without a reason: for what no bell rang.
const BACKSTOP: Duration = Duration::from_secs(1);

pub(crate) struct Hub {
    store: Arc<dyn Store>,
    bell_every: Duration,
    lines: Mutex<Lines>,
    bells: AtomicU64,
}

#[derive(Default)]
struct Lines {
    next: u64,
    count: usize,
    lines: HashMap<QueueKey, Line>,
    watched: bool,
}

/// Those who wait for jobs of a queue.
#[derive(Default)]
struct Line {
    by_kinds: HashMap<Arc<[JobKind]>, VecDeque<Waiter>>,
    /// When the next job is due, as far as it is known.
    due: Option<Instant>,
    /// It listens to the bell again from then on …
    deaf_until: Option<Instant>,
    /// … and is deaf so long the next time the bell rings for nothing …
    deaf: Duration,
    /// … and it rang meanwhile.
    rang: bool,
}

struct Waiter {
    id: u64,
    wake: Arc<Notify>,
}

/// A place in the lines of the queues that somebody wants jobs from.
pub(crate) struct Place {
    hub: Arc<Hub>,
    id: u64,
    queues: Vec<QueueKey>,
    kinds: Arc<[JobKind]>,
    wake: Arc<Notify>,
}

impl Hub {
    pub(crate) fn new(store: Arc<dyn Store>, bell_every: Duration) -> Arc<Hub> {
        Arc::new(Hub { store, bell_every, lines: Mutex::default(), bells: AtomicU64::new(0) })
    }

    /// How often the bell was looked at so far.
    pub(crate) fn bells(&self) -> u64 {
        self.bells.load(Ordering::Relaxed)
    }

    /// Takes a place in the lines, before asking: what happens meanwhile is not missed.
    pub(crate) fn join(self: &Arc<Self>, tenant: &Tenant, ask: &LeaseAsk) -> Result<Place, Error> {
        let mut kinds = ask.kinds.clone();
        kinds.sort();
        let (kinds, wake): (Arc<[JobKind]>, _) = (kinds.into(), Arc::new(Notify::new()));
        let queues: Vec<QueueKey> = ask.queues.iter().map(|queue| (tenant.clone(), queue.clone())).collect();
        let mut lines = self.lines();
        if lines.count >= WAITERS_MAX {
            return Err(Error::Overloaded { waiting: lines.count });
        }
        lines.count += 1;
        lines.next += 1;
        let id = lines.next;
        drop(lines);
        let place = Place { hub: self.clone(), id, queues, kinds, wake };
        place.stand();
        Ok(place)
    }

    /// Wakes those who wait for what an entry made ready.
    pub(crate) fn tell(&self, entry: &Entry) {
        if entry.wakes.queues.is_empty() {
            return;
        }
        let mut lines = self.lines();
        if lines.count == 0 {
            return;
        }
        for Ready { queue, kind, count, due_in } in &entry.wakes.queues {
            let Some(line) = lines.lines.get_mut(&(entry.context.tenant.clone(), queue.clone())) else { continue };
            if let Some(due_in) = due_in {
                line.due_at(Instant::now() + Duration::from(*due_in));
            }
            line.wake(kind.as_ref(), *count);
        }
    }

    /// Looks for what this process does not do itself, until nobody waits.
    fn watch(self: &Arc<Self>) {
        if std::mem::replace(&mut self.lines().watched, true) {
            return;
        }
        let hub = self.clone();
        tokio::spawn(async move {
            // What happened before the first look is not known: that is a reason to ask.
            let mut heard = None;
            let mut backstop = Instant::now() + BACKSTOP;
            loop {
                match hub.store.bell().await {
                    Ok(bell) if heard == Some(bell) => {}
                    Ok(bell) => {
                        heard = Some(bell);
                        hub.lines().ring(Instant::now());
                    }
                    Err(error) => tracing::debug!(%error, "the bell could not be looked at"),
                }
                hub.bells.fetch_add(1, Ordering::Relaxed);
                let now = Instant::now();
                if now >= backstop {
                    backstop = now + BACKSTOP;
                    hub.lines().wake_one_each();
                }
                let Some(due) = hub.lines().next_look(now) else { return };
                sleep_until((now + hub.bell_every).min(due)).await;
            }
        });
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn ring(&mut self, now: Instant) {
        self.lines.values_mut().for_each(|line| line.ring(now));
    }

    fn wake_one_each(&mut self) {
        self.lines.values_mut().for_each(|line| line.wake(None, 1));
    }

    /// Wakes for what is due; says when the next is. `None` when nobody waits, and nobody watches from then on.
    fn next_look(&mut self, now: Instant) -> Option<Instant> {
        if self.count == 0 {
            self.watched = false;
            return None;
        }
        let mut next = now + BACKSTOP;
        for line in self.lines.values_mut() {
            if line.rang {
                line.ring(now);
            }
            match line.due {
                Some(due) if due <= now => {
                    line.due = None;
                    line.wake(None, 1);
                }
                Some(due) => next = next.min(due),
                None => {}
            }
        }
        Some(next)
    }
}

impl Line {
    fn due_at(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |known| known.min(at)));
    }

    /// Somebody committed something, somewhere. One looks whether it is of use here. As long as it never is, that is done less
    /// and less often.
    fn ring(&mut self, now: Instant) {
        if self.deaf_until.is_some_and(|until| now < until) {
            self.rang = true;
            return;
        }
        let quiet = self.deaf_until.is_none_or(|until| now > until + DEAF_MAX);
        self.deaf = if quiet { BELL_EVERY } else { (self.deaf * 2).min(DEAF_MAX) };
        self.deaf_until = Some(now + self.deaf);
        self.rang = false;
        self.wake(None, 1);
    }

    /// Wakes as many as there are jobs of a kind; where the kind does not matter, as many of each list of kinds.
    fn wake(&mut self, kind: Option<&JobKind>, count: usize) {
        let mut left = count;
        for (kinds, waiters) in &mut self.by_kinds {
            if kind.is_some_and(|kind| !wants(kinds, kind)) {
                continue;
            }
            let some = if kind.is_some() { left } else { count };
            for waiter in waiters.drain(..some.min(waiters.len())) {
                waiter.wake.notify_one();
                left -= usize::from(kind.is_some());
            }
        }
    }
}

impl Place {
    /// Stands in every line, at the end of those it was called out of.
    pub(crate) fn stand(&self) {
        let mut lines = self.hub.lines();
        for queue in &self.queues {
            let line = lines.lines.entry(queue.clone()).or_default();
            let waiters = line.by_kinds.entry(self.kinds.clone()).or_default();
            if !waiters.iter().any(|waiter| waiter.id == self.id) {
                waiters.push_back(Waiter { id: self.id, wake: self.wake.clone() });
            }
        }
    }

    /// It got jobs: its lines have reason to listen.
    pub(crate) fn found(&self) {
        let mut lines = self.hub.lines();
        for queue in &self.queues {
            if let Some(line) = lines.lines.get_mut(queue) {
                (line.deaf_until, line.rang) = (None, false);
            }
        }
    }

    /// Waits until it is woken.
    pub(crate) async fn woken(&self) {
        self.hub.watch();
        self.wake.notified().await;
    }

    /// The next job is due in so long, as far as it is known.
    pub(crate) fn due_in(&self, span: Duration) {
        let at = Instant::now() + span;
        let mut lines = self.hub.lines();
        for queue in &self.queues {
            if let Some(line) = lines.lines.get_mut(queue) {
                line.due_at(at);
            }
        }
    }

    /// There may be more than it took: the next one is to look.
    pub(crate) fn pass_on(&self) {
        let mut lines = self.hub.lines();
        for queue in &self.queues {
            let line = lines.lines.get_mut(queue);
            let next = line.and_then(|line| {
                let waiters = line.by_kinds.get_mut(&self.kinds)?;
                let place = waiters.iter().position(|waiter| waiter.id != self.id)?;
                waiters.remove(place)
            });
            if let Some(waiter) = next {
                waiter.wake.notify_one();
                return;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Whoever goes without having looked lets another look.
        let woken = {
            use futures_util::FutureExt;
            self.wake.notified().now_or_never().is_some()
        };
        if woken {
            self.pass_on();
        }
        let mut lines = self.hub.lines();
        lines.count -= 1;
        for queue in &self.queues {
            let Some(line) = lines.lines.get_mut(queue) else { continue };
            if let Some(waiters) = line.by_kinds.get_mut(&self.kinds) {
                waiters.retain(|waiter| waiter.id != self.id);
                if waiters.is_empty() {
                    line.by_kinds.remove(&self.kinds);
                }
            }
            if line.by_kinds.is_empty() {
                lines.lines.remove(queue);
            }
        }
    }
}
