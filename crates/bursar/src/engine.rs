//! The engine: requests gather while a batch commits, and share the next one. No timers.

mod queue;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::answer::{Answer, Leased, Outcome};
use bursar_core::context::Context;
use bursar_core::job::{End, Finish, Job};
use bursar_core::mutant::Mutant;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{Op, Request};
use bursar_store::{Lock, Patience, Store, StoreError, Verdict};
use futures_util::FutureExt;
use futures_util::future::join;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use self::queue::{Pending, Queue, keys, weight};
use crate::error::Error;
use crate::feed::Feed;
use crate::histogram::{Distribution, Histogram};

/// What the engine may take on.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Requests that may wait; one more is `overloaded`.
    pub(crate) queue: usize,
    /// Requests that share a commit.
    pub(crate) batch: usize,
    /// Batches at once.
    pub(crate) lanes: usize,
    /// How long a request waits for rows that somebody else has locked, before it is `busy`.
    pub(crate) patience: Duration,
    /// How often the bell is looked at while somebody waits for jobs.
    pub(crate) bell_every: Duration,
    /// Whether to listen to other processes meanwhile, where the engine has a way for it.
    pub(crate) listen: bool,
    /// How often lapsed leases are looked for.
    pub(crate) rescue: Duration,
}

/// What the engine has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were done.
    pub done: u64,
    /// Requests that the rules refused.
    pub refused: u64,
    /// Requests that failed below the rules.
    pub failed: u64,
    /// Transactions they shared.
    pub batches: u64,
    /// Looks at the database's bell, while somebody waited for jobs.
    pub bells: u64,
    /// What other processes told it meanwhile.
    pub hints: u64,
    /// What it told other processes, if any listened.
    pub rings: u64,
}

/// How the engine is right now, and how its commits were.
#[derive(Clone, Debug, PartialEq)]
pub struct Vitals {
    /// Requests that wait for a commit.
    pub waiting: usize,
    /// Workers that wait for jobs.
    pub lease_waiters: usize,
    /// How many requests shared a commit.
    pub batch_size: Distribution,
    /// How long commits took, in seconds.
    pub commit_seconds: Distribution,
}

/// Where the figures of batches and of commits end.
const SIZES: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0];
const SECONDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];

/// So many callers are told before the next batch is taken: they are soon back, and what a batch costs by itself is paid once for
/// all of them.
const FEW: usize = 64;
/// So many are told by two.
const SEVERAL: usize = 16;
/// How often the others have a turn meanwhile, if they are not back before.
const YIELDS: usize = 3;

/// Rows that are waited for at once.
const DETOURS: usize = 4;

pub(crate) struct Engine {
    shared: Arc<Shared>,
    lanes: tokio::sync::Mutex<JoinSet<()>>,
}

struct Shared {
    store: Arc<dyn Store>,
    feed: Feed,
    load: Load,
    queue: Mutex<Queue>,
    /// Something was queued, or keys became free.
    wake: Notify,
    detours: Semaphore,
    counts: [AtomicU64; 4],
    sizes: Histogram,
    seconds: Histogram,
}

impl Engine {
    pub(crate) fn start(store: Arc<dyn Store>, feed: Feed, load: Load) -> Engine {
        let lanes = load.lanes.max(1);
        let shared = Arc::new(Shared {
            store,
            feed,
            load,
            queue: Mutex::default(),
            wake: Notify::new(),
            detours: Semaphore::new(DETOURS),
            counts: Default::default(),
            sizes: Histogram::new(&SIZES),
            seconds: Histogram::new(&SECONDS),
        });
        let mut tasks = JoinSet::new();
        for _ in 0..lanes {
            tasks.spawn(lane(shared.clone()));
        }
        Engine { shared, lanes: tokio::sync::Mutex::new(tasks) }
    }

    /// Does a request; returns when what it did is durable.
    pub(crate) async fn submit(&self, request: Request) -> Result<Outcome, Error> {
        request.check()?;
        let (answer, answered) = oneshot::channel();
        let context = matches!(request.op, Op::Lease(_)).then(|| request.context.clone());
        let mut awaited = Awaited { shared: &self.shared, answered, context };
        let pending = self.shared.pending(request, answer);
        self.shared.accept(pending)?;
        // It was done, or was not: whoever knew has failed.
        (&mut awaited.answered).await.unwrap_or_else(|lost| Err(StoreError::UnknownOutcome(Box::new(lost)).into()))
    }

    /// What was done so far.
    pub(crate) fn counters(&self) -> Counters {
        let [done, refused, failed, batches] = &self.shared.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [done, refused, failed, batches] = [done, refused, failed, batches].map(read);
        Counters { done, refused, failed, batches, ..Counters::default() }
    }

    /// How it is; who waits for jobs is known elsewhere.
    pub(crate) fn vitals(&self, lease_waiters: usize) -> Vitals {
        let waiting = self.shared.queue().waiting();
        let (batch_size, commit_seconds) = (self.shared.sizes.read(), self.shared.seconds.read());
        Vitals { waiting, lease_waiters, batch_size, commit_seconds }
    }

    /// Takes nothing more, does what was accepted, and stops.
    pub(crate) async fn close(&self) {
        self.shared.queue().close();
        self.shared.wake.notify_waiters();
        let mut lanes = self.lanes.lock().await;
        while lanes.join_next().await.is_some() {}
    }
}

/// What a batch came to.
#[derive(Default)]
struct Settled {
    /// What is durable, refused or failed, and must be told.
    answers: Vec<(Pending, Result<Outcome, Error>)>,
    /// What must be asked again.
    again: Vec<Pending>,
}

impl Settled {
    /// A request that failed. Where it is not known whether it was done, its key makes asking again safe.
    fn fail(&mut self, mut pending: Pending, error: Error) {
        let unknown = matches!(&error, Error::Store(error) if matches!(**error, StoreError::UnknownOutcome(_)));
        let safe = pending.request.idempotency_key.is_some() || Mutant::RetryWithoutKey.on();
        if unknown && safe && Instant::now() < pending.until {
            pending.unknown = Some(error);
            self.again.push(pending);
        } else {
            self.answers.push((pending, Err(error)));
        }
    }
}

/// An answer that somebody waits for. Jobs that were leased for who went away meanwhile are handed back: that nobody works on
/// them would be noticed only when the lease lapses, and count as an attempt.
struct Awaited<'a> {
    shared: &'a Shared,
    answered: oneshot::Receiver<Result<Outcome, Error>>,
    /// In which context jobs are leased, where they are.
    context: Option<Context>,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let Some(context) = self.context.take() else { return };
        self.answered.close();
        if let Ok(Ok(outcome)) = self.answered.try_recv() {
            self.shared.hand_back(context, &outcome);
        }
    }
}

impl Shared {
    fn pending(&self, request: Request, answer: oneshot::Sender<Result<Outcome, Error>>) -> Pending {
        Pending {
            // One lane has nobody to make way for.
            keys: if self.load.lanes > 1 { keys(&request) } else { Vec::new() },
            weight: weight(&request),
            request: Arc::new(request),
            until: Instant::now() + self.load.patience,
            unknown: None,
            answer,
        }
    }

    /// Hands back what was leased for somebody who is gone.
    fn hand_back(&self, context: Context, outcome: &Outcome) {
        let Answer::Leased(Leased { jobs, .. }) = &outcome.answer else { return };
        if jobs.is_empty() {
            return;
        }
        let back = |job: &Job| Finish { job: job.id, fence: job.life.fence, end: End::Return };
        let request = Request::from(Op::Finish { items: jobs.iter().map(back).collect() }).in_context(context);
        // Where even that cannot be taken on, the leases lapse.
        let _ = self.accept(self.pending(request, oneshot::channel().0));
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(&self, pending: Pending) -> Result<(), Error> {
        if self.queue().accept(pending, self.load.queue)? {
            self.wake.notify_one();
        }
        Ok(())
    }

    fn answer(&self, mut pending: Pending, answer: Result<Outcome, Error>) {
        let answer = self.announce(&mut pending, answer);
        self.send(pending, answer);
    }

    /// Counts an answer, and tells listeners what was done, in the order of commits.
    fn announce(&self, pending: &mut Pending, answer: Result<Outcome, Error>) -> Result<Outcome, Error> {
        // That a later attempt changed nothing does not say what became of the earlier one; only the rules, which look
        // for the key, can say that.
        let answer = match (answer, pending.unknown.take()) {
            (Err(error), Some(unknown)) if error.refusal().is_none() => Err(unknown),
            (answer, _) => answer,
        };
        let [done, refused, failed, _] = &self.counts;
        match &answer {
            Ok(Outcome { entry, .. }) => {
                done.fetch_add(1, Ordering::Relaxed);
                if let Some(entry) = entry {
                    if self.load.lanes > 1 {
                        self.queue().learn(entry);
                    }
                    self.feed.tell(entry);
                    if Mutant::AnnounceTwice.on() {
                        self.feed.tell(entry);
                    }
                }
            }
            Err(Error::Refused(refusal)) => {
                refused.fetch_add(1, Ordering::Relaxed);
                log_refusal(&pending.request, refusal);
            }
            Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
        }
        answer
    }

    fn send(&self, pending: Pending, answer: Result<Outcome, Error>) {
        // A caller that went away has its effect all the same.
        if let Err(Ok(outcome)) = pending.answer.send(answer) {
            self.hand_back(pending.request.context.clone(), &outcome);
        }
    }

    /// Commits a batch, whatever fails on the way: a lane that ends would leave everybody waiting.
    async fn commit(self: &Arc<Self>, batch: Vec<Pending>, patience: Patience) -> Settled {
        AssertUnwindSafe(self.try_commit(batch, patience)).catch_unwind().await.unwrap_or_default()
    }

    /// Commits a batch: says what each request comes to, and which must be asked again.
    async fn try_commit(self: &Arc<Self>, batch: Vec<Pending>, patience: Patience) -> Settled {
        self.counts[3].fetch_add(1, Ordering::Relaxed);
        let requests: Vec<Arc<Request>> = batch.iter().map(|pending| pending.request.clone()).collect();
        self.sizes.add(requests.len() as f64);
        let began = Instant::now();
        let work = AssertUnwindSafe(self.store.commit(&requests, patience.clone())).catch_unwind().await;
        self.seconds.add(began.elapsed().as_secs_f64());
        let verdicts = match work {
            Ok(Ok(verdicts)) => verdicts,
            // Whose time is over is for the detour to say.
            Ok(Err(StoreError::Busy(_))) if patience != Patience::Skip => {
                return Settled { again: batch, ..Settled::default() };
            }
            Ok(Err(error)) => return self.failed(batch, patience, error.into()).await,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                return self.failed(batch, patience, Error::Internal(text.unwrap_or_else(|| "panic".into()))).await;
            }
        };
        let mut settled = Settled::default();
        for (pending, verdict) in batch.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Answered(answer) => settled.answers.push((pending, answer.map_err(Error::from))),
                Verdict::Again => settled.again.push(pending),
                Verdict::Blocked(locks) => self.detour(pending, &locks),
                Verdict::Failed(error) => settled.fail(pending, Error::Store(error)),
            }
        }
        settled
    }

    /// A batch that failed as a whole. A row that cannot be read, or that a rule stumbles over, must not fail its
    /// neighbours for ever, so that such a batch is run again in halves.
    async fn failed(self: &Arc<Self>, mut batch: Vec<Pending>, patience: Patience, error: Error) -> Settled {
        let splits = match &error {
            Error::Internal(_) => true,
            Error::Store(error) => {
                matches!(**error, StoreError::Corrupt { .. } | StoreError::Closure(_) | StoreError::Rejected(_))
            }
            _ => false,
        };
        if splits && batch.len() > 1 {
            let second = batch.split_off(batch.len() / 2);
            let mut settled = Box::pin(self.commit(batch, patience.clone())).await;
            let second = Box::pin(self.commit(second, patience)).await;
            settled.answers.extend(second.answers);
            settled.again.extend(second.again);
            return settled;
        }
        tracing::error!(%error, requests = batch.len(), "a batch failed");
        let mut settled = Settled::default();
        batch.into_iter().for_each(|pending| settled.fail(pending, error.clone()));
        settled
    }

    fn answer_all(&self, answers: Vec<(Pending, Result<Outcome, Error>)>) {
        for (pending, answer) in answers {
            calm(|| self.answer(pending, answer));
        }
    }

    /// Answers callers that are few, and lets them come back: by two tasks, as one alone would wake the other threads again and
    /// again, each time for one caller.
    async fn tell_few(self: &Arc<Self>, answers: Vec<(Pending, Result<Outcome, Error>)>) {
        let all = self.queue().waiting() + answers.len();
        let announced = |(mut pending, answer): (Pending, Result<Outcome, Error>)| {
            calm(|| {
                let answer = self.announce(&mut pending, answer);
                (pending, answer)
            })
        };
        let mut answers: Vec<_> = answers.into_iter().filter_map(announced).collect();
        let other = (answers.len() >= SEVERAL).then(|| {
            let (shared, second) = (self.clone(), answers.split_off(answers.len() / 2));
            tokio::spawn(async move { shared.tell(second, all).await })
        });
        self.tell(answers, all).await;
        if let Some(other) = other {
            let _ = other.await;
        }
    }

    /// Answers, and waits a little for so many to be in line.
    async fn tell(&self, answers: Vec<(Pending, Result<Outcome, Error>)>, all: usize) {
        for (pending, answer) in answers {
            calm(|| self.send(pending, answer));
        }
        for _ in 0..YIELDS {
            if self.queue().waiting() >= all {
                break;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Moves a request out of the lanes, to wait for a row that somebody else has locked.
    fn detour(self: &Arc<Self>, pending: Pending, locks: &[Lock]) {
        let Some(lock) = locks.iter().min() else {
            self.queue().back(vec![pending]);
            return;
        };
        if self.queue().detour(pending, locks) {
            tokio::spawn(detour(self.clone(), lock.clone()));
        }
    }
}

/// Refusals are logged, not journaled; why a token was not taken stands only here.
fn log_refusal(request: &Request, refusal: &Refusal) {
    let faults = match refusal {
        Refusal::Refused(violations) => violations.as_slice(),
        _ => &[],
    };
    for violation in faults {
        if let Violation::Grant { purpose, fault } = violation {
            tracing::info!(tenant = %request.context.tenant, %purpose, %fault, "a token was not taken");
        }
    }
    tracing::debug!(tenant = %request.context.tenant, %refusal, "refused");
}

/// What is done is done. Who cannot be told knows that it does not know, and the lane goes on for the others.
fn calm<T>(work: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Has something done that nobody is answered for; whatever comes of it, the lane goes on.
async fn calmly(work: impl Future<Output = ()>) {
    let _ = AssertUnwindSafe(work).catch_unwind().await;
}

/// Commits batch after batch. The next one is on its way to the disk while the callers of the last one are answered, unless they are
/// few.
async fn lane(shared: Arc<Shared>) {
    let mut answers = Vec::new();
    let mut ready = false;
    loop {
        let woken = shared.wake.notified();
        tokio::pin!(woken);
        // Registered before looking, so that nothing queued meanwhile is missed.
        woken.as_mut().enable();
        let batch = shared.queue().take(shared.load.batch, shared.load.lanes > 1);
        let told = std::mem::take(&mut answers);
        if batch.is_empty() {
            if !told.is_empty() {
                shared.answer_all(told);
                continue;
            }
            if std::mem::take(&mut ready) {
                calmly(shared.store.stand_down()).await;
                continue;
            }
            if shared.queue().is_over() {
                shared.wake.notify_waiters();
                return;
            }
            woken.await;
            continue;
        }
        ready = false;
        let keys: Vec<u64> = batch.iter().flat_map(|pending| pending.keys.iter().copied()).collect();
        let (settled, ()) = join(shared.commit(batch, Patience::Skip), async { shared.answer_all(told) }).await;
        answers = settled.answers;
        if answers.len() <= FEW {
            // They are expected back where they are several, and were done.
            ready = answers.len() > 1 && answers.iter().any(|(_, answer)| answer.is_ok());
            let tell = shared.tell_few(std::mem::take(&mut answers));
            if ready {
                join(calmly(shared.store.stand_ready()), tell).await;
            } else {
                tell.await;
            }
        }
        let more = {
            let mut queue = shared.queue();
            queue.give_back(&keys);
            queue.back(settled.again);
            queue.has_waiting()
        };
        // This lane goes on by itself; another may find something beside it.
        if more && shared.load.lanes > 1 {
            shared.wake.notify_one();
        }
    }
}

/// Waits for one row, holding nothing meanwhile, and does all that want it, batch after batch, until none is left.
async fn detour(shared: Arc<Shared>, lock: Lock) {
    loop {
        let Some(until) = shared.queue().deadline(&lock) else { break };
        if let Ok(Ok(_permit)) = timeout_at(until, shared.detours.acquire()).await {
            let wait = until.saturating_duration_since(Instant::now());
            let batch = shared.queue().take_detoured(&lock, shared.load.batch);
            let settled = shared.commit(batch, Patience::First(lock.clone(), wait)).await;
            shared.queue().detour_again(&lock, settled.again);
            shared.answer_all(settled.answers);
        }
        for pending in shared.queue().overdue(&lock, Instant::now()) {
            let busy = StoreError::Busy("somebody else has locked what the request needs".into());
            shared.answer(pending, Err(busy.into()));
        }
    }
    shared.wake.notify_waiters();
}
