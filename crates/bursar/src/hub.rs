//! The hub: who waits for jobs, and how they are woken. Nothing runs here while nobody waits.
//!
//! Those who wait stand in a line for each queue and list of kinds. What makes jobs ready in this process wakes as many as
//! there are jobs; who then gets as many jobs as it asked for wakes the next. What happens in other processes is told by them where
//! the engine has a way for it, and noticed by the store's bell; what becomes due by one timer for all.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::event::Entry;
use bursar_core::job::{LeaseAsk, wants};
use bursar_core::name::{JobKind, Tenant};
use bursar_core::state::QueueKey;
use bursar_core::wakes::Ready;
use bursar_store::Store;
use bursar_store::hint::Hint;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::engine::Counters;
use crate::error::Error;
use crate::hearing::Hearing;
use crate::ringer::Ringer;

/// Those who may wait at once; one more is `overloaded`.
const WAITERS_MAX: usize = 10_000;
/// How often the bell is looked at while somebody waits, unless told otherwise …
pub(crate) const BELL_EVERY: Duration = Duration::from_millis(3);
/// … and at the least where other processes tell what they do.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// How often while it cannot be looked at: a database that is down is not to be bothered.
const FAILED_EVERY: Duration = Duration::from_millis(250);
/// How long the bell is looked at often after somebody was heard to write: it is written first, and seen once the disk has it.
const STIRRED: Duration = Duration::from_secs(1);
/// How long it is listened for other processes when nobody waits any more: somebody may soon again.
const LINGER: Duration = Duration::from_secs(10);
/// The longest that a line does not listen to the bell after it rang for nothing: it rings of every commit there is.
const DEAF_MAX: Duration = Duration::from_millis(50);
/// How often one of each line asks without a reason: for what no bell rang.
const BACKSTOP: Duration = Duration::from_secs(1);

pub(crate) struct Hub {
    store: Arc<dyn Store>,
    bell_every: Duration,
    /// Whether to listen to other processes; not any more where that cannot be.
    listen: AtomicBool,
    lines: Mutex<Lines>,
    /// Whoever watches has to look again what it waits for.
    changed: Notify,
    ringer: Option<Arc<Ringer>>,
    bells: AtomicU64,
    hints: AtomicU64,
}

#[derive(Default)]
struct Lines {
    next: u64,
    count: usize,
    lines: HashMap<QueueKey, Line>,
    watched: bool,
    watch: Option<JoinHandle<()>>,
    closed: bool,
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
    /// Looks so often at the bell, and listens to other processes if it should and can.
    pub(crate) fn new(store: Arc<dyn Store>, bell_every: Duration, listen: bool) -> Arc<Hub> {
        Arc::new(Hub {
            ringer: store.hints().filter(|hints| hints.is_rung()).map(Ringer::new),
            store,
            bell_every,
            listen: listen.into(),
            lines: Mutex::default(),
            changed: Notify::new(),
            bells: AtomicU64::new(0),
            hints: AtomicU64::new(0),
        })
    }

    /// What was done for those who wait, here and elsewhere, beside what counts already.
    pub(crate) fn counters(&self, others: Counters) -> Counters {
        Counters {
            bells: self.bells.load(Ordering::Relaxed),
            hints: self.hints.load(Ordering::Relaxed),
            rings: self.ringer.as_ref().map_or(0, |ringer| ringer.rings()),
            ..others
        }
    }

    /// How many wait for jobs.
    pub(crate) fn waiters(&self) -> usize {
        self.lines().count
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

    /// Wakes those who wait for what an entry made ready, here and elsewhere.
    pub(crate) fn tell(&self, entry: &Entry) {
        if let Some(ringer) = &self.ringer {
            ringer.tell(entry);
        }
        if entry.wakes.queues.is_empty() {
            return;
        }
        let mut lines = self.lines();
        if lines.count == 0 {
            return;
        }
        let mut later = false;
        for Ready { queue, kind, count, due_in } in &entry.wakes.queues {
            let Some(line) = lines.lines.get_mut(&(entry.context.tenant.clone(), queue.clone())) else { continue };
            if let Some(due_in) = due_in {
                line.due_at(Instant::now() + Duration::from(*due_in));
                later = true;
            }
            line.wake(kind.as_ref(), *count);
        }
        drop(lines);
        if later {
            self.changed.notify_one();
        }
    }

    /// A queue has something to lease that no entry tells of. Who gets all it asked for wakes the next.
    pub(crate) fn ready(&self, queue: &QueueKey) {
        if let Some(ringer) = &self.ringer {
            ringer.tell_queue(queue);
        }
        if let Some(line) = self.lines().lines.get_mut(queue) {
            line.wake(None, 1);
        }
    }

    /// Looks for what this process does not do itself, until nobody waits.
    fn watch(self: &Arc<Self>) {
        let mut lines = self.lines();
        if lines.watched || lines.closed {
            self.changed.notify_one();
            return;
        }
        lines.watched = true;
        lines.watch = Some(tokio::spawn(Watch::new(self.clone()).run()));
    }

    /// Ends what runs in the background, as nobody will ask any more.
    pub(crate) fn shut(&self) {
        self.lines().closed = true;
        self.changed.notify_one();
    }

    /// The same, and returns when all is told and nothing is listened to any more.
    pub(crate) async fn close(&self) {
        self.shut();
        if let Some(ringer) = &self.ringer {
            ringer.settled().await;
        }
        let watch = self.lines().watch.take();
        if let Some(watch) = watch {
            let _ = watch.await;
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks and listens for those who wait.
struct Watch {
    hub: Arc<Hub>,
    hearing: Hearing,
    /// What the bell said last. What happened before the first look is not known: that is a reason to ask.
    heard: Option<u64>,
    look_at: Instant,
    /// Somebody was heard to write: until then it is looked often, and not listened for more of it.
    stirred_until: Instant,
    backstop: Instant,
    /// Nobody waits; when that stays so until then, it is over.
    idle_until: Option<Instant>,
}

impl Watch {
    fn new(hub: Arc<Hub>) -> Watch {
        let hearing = Hearing::new(hub.store.hints().filter(|_| hub.listen.load(Ordering::Relaxed)));
        let now = Instant::now();
        let (look_at, stirred_until, backstop) = (now, now, now + BACKSTOP);
        Watch { hub, hearing, heard: None, look_at, stirred_until, backstop, idle_until: None }
    }

    async fn run(mut self) {
        loop {
            if Instant::now() >= self.look_at && self.idle_until.is_none() {
                self.look().await;
            }
            let now = Instant::now();
            if now >= self.backstop {
                self.backstop = now + BACKSTOP;
                self.hub.lines().wake_one_each();
            }
            let stays = self.hearing.is_open() && self.idle_until.is_none_or(|until| now < until);
            let next = self.hub.lines().next_look(now, stays);
            let due = match next {
                Next::At(due) => {
                    self.idle_until = None;
                    due.min(self.look_at)
                }
                Next::Nobody => *self.idle_until.get_or_insert(now + LINGER),
                Next::Over => return self.hearing.close().await,
            };
            tokio::select! {
                biased;
                hint = self.hearing.next(), if now >= self.stirred_until => self.told(&hint),
                () = self.hub.changed.notified() => {}
                () = sleep_until(due) => {}
            }
        }
    }

    fn told(&mut self, hint: &Hint) {
        if hint.is_of_a_write() {
            self.look_at = Instant::now();
            self.stirred_until = self.look_at + STIRRED;
        } else {
            self.hub.hints.fetch_add(1, Ordering::Relaxed);
            self.hub.lines().hint(hint);
        }
    }

    async fn look(&mut self) {
        if self.hearing.is_deaf() {
            self.hub.listen.store(false, Ordering::Relaxed);
        }
        let told = self.hearing.is_told() && Instant::now() >= self.stirred_until;
        let mut every = if told { TOLD_EVERY.max(self.hub.bell_every) } else { self.hub.bell_every };
        match self.hub.store.bell().await {
            Ok(bell) if self.heard == Some(bell) => {}
            Ok(bell) => {
                self.heard = Some(bell);
                self.hub.lines().ring(Instant::now());
            }
            Err(error) => {
                tracing::debug!(%error, "the bell could not be looked at");
                every = every.max(FAILED_EVERY);
            }
        }
        self.hub.bells.fetch_add(1, Ordering::Relaxed);
        self.look_at = Instant::now() + every;
    }
}

/// What whoever watches does next.
enum Next {
    /// It looks by then.
    At(Instant),
    /// Nobody waits: it only listens, for a while.
    Nobody,
    /// Nobody watches from now on.
    Over,
}

impl Lines {
    fn ring(&mut self, now: Instant) {
        self.lines.values_mut().for_each(|line| line.ring(now));
    }

    /// Another process has something to lease for some.
    fn hint(&mut self, hint: &Hint) {
        self.lines.iter_mut().filter(|(key, _)| hint.is_of(key)).for_each(|(_, line)| line.wake(None, 1));
    }

    fn wake_one_each(&mut self) {
        self.lines.values_mut().for_each(|line| line.wake(None, 1));
    }

    /// Wakes for what is due; says when the next is. Whoever watches may stay for a while when nobody waits.
    fn next_look(&mut self, now: Instant, stays: bool) -> Next {
        if self.closed || (self.count == 0 && !stays) {
            self.watched = false;
            return Next::Over;
        }
        if self.count == 0 {
            return Next::Nobody;
        }
        let mut next = now + BACKSTOP;
        for line in self.lines.values_mut() {
            if line.rang {
                line.ring(now);
            }
            if let Some(until) = line.deaf_until.filter(|_| line.rang) {
                next = next.min(until);
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
        Next::At(next)
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
        drop(lines);
        self.hub.changed.notify_one();
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
