//! Jobs as they are measured, through Bursar's public face: enqueued alone and in bulk, leased and completed a thousand at a
//! time, handed to a worker that waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bursar::bounds::CAPACITY_MAX;
use bursar::{
    Bursar, End, Finish, HandlerError, JobContext, JobKind, JobSpec, LeaseAsk, Payload, Queue, RunningWorker,
    WorkerName,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::apart::Apart;
use crate::engine::Database;
use crate::error::BenchError;
use crate::load::Round;
use crate::plan::Bench;

pub(crate) const QUEUE: &str = "work";
pub(crate) const KIND: &str = "nothing";
/// Idle time between two samples of the latency; an odd one does not fall into step with a timer.
const PAUSE: Duration = Duration::from_millis(23);
/// Nothing that is measured waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// A worker that takes longer for its round has stopped.
const DRAIN_PATIENCE: Duration = Duration::from_secs(600);
/// Jobs, or samples, that are not counted.
pub(crate) const WARM_JOBS: u64 = 2_000;
const WARM_SAMPLES: usize = 20;
/// Jobs of one step where a past is made.
const STEP: u64 = 100_000;
/// Loops that make a past.
const LOOPS: usize = 8;

/// What a job works on.
#[derive(Serialize, Deserialize)]
pub(crate) struct Nothing {
    n: u32,
}

fn job() -> Result<JobSpec, BenchError> {
    Ok(JobSpec::new(Queue::new(QUEUE)?, JobKind::new(KIND)?, Payload::of(&Nothing { n: 1 })?))
}

/// Jobs of the round that is not counted.
pub(crate) fn warm_up(bench: Bench) -> usize {
    if bench == Bench::Latency { WARM_SAMPLES } else { WARM_JOBS as usize }
}

/// Enqueues one job, and waits until it is there for good.
pub(crate) async fn enqueue(bursar: &Bursar) -> Result<(), BenchError> {
    bursar.jobs().enqueue(job()?).await?;
    Ok(())
}

/// Enqueues so many jobs by so many calls at once.
pub(crate) async fn enqueue_bulk(bursar: &Bursar, calls: usize, jobs: usize) -> Result<Round, BenchError> {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for call in 0..calls {
        let (bursar, job, share) = (bursar.clone(), job()?, jobs / calls + usize::from(call < jobs % calls));
        tasks.spawn(async move {
            let enqueued = bursar.jobs().enqueue_all(std::iter::repeat_n(job, share)).await?;
            if enqueued.iter().filter(|job| job.created).count() != share {
                return Err(BenchError::Failed("not every job was enqueued".into()));
            }
            Ok::<_, BenchError>(begun.elapsed())
        });
    }
    let mut waited = Vec::with_capacity(calls);
    while let Some(call) = tasks.join_next().await {
        waited.push(call??);
    }
    Ok(Round::of(waited, jobs, begun.elapsed()))
}

/// Leases and completes so many of the jobs that wait, by so many loops at once. What a loop waits for is one call that
/// leases and one that completes.
pub(crate) async fn drain(bursar: &Bursar, loops: usize, jobs: usize) -> Result<Round, BenchError> {
    let left = Arc::new(AtomicUsize::new(jobs));
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..loops {
        let (bursar, left) = (bursar.clone(), left.clone());
        tasks.spawn(async move {
            let mut waited = Vec::new();
            while let Some(wanted) = take(&left) {
                let asked = Instant::now();
                let done = work(&bursar, number, wanted).await?;
                left.fetch_add(wanted as usize - done, Ordering::Relaxed);
                waited.push(asked.elapsed());
            }
            Ok::<_, BenchError>(waited)
        });
    }
    let mut waited = Vec::new();
    while let Some(turns) = tasks.join_next().await {
        waited.extend(turns??);
    }
    Ok(Round::of(waited, jobs, begun.elapsed()))
}

/// Has a worker with a handler do so many of the jobs that wait, and what it has begun by then; until it has told of all of them.
pub(crate) async fn drain_by_worker(bursar: &Bursar, handlers: usize, jobs: usize) -> Result<Round, BenchError> {
    let (left, all_begun) = (Arc::new(AtomicUsize::new(jobs)), Arc::new(Notify::new()));
    let handler = {
        let (left, all_begun) = (left.clone(), all_begun.clone());
        move |_: Nothing, _: JobContext| {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                all_begun.notify_one();
            }
            std::future::ready(Ok::<_, HandlerError>(()))
        }
    };
    let begun = Instant::now();
    let worker = bursar.worker().queue(QUEUE).concurrency(handlers).on(KIND, handler).start()?;
    let done = timeout(DRAIN_PATIENCE, all_begun.notified()).await;
    let completed = worker.drain().await?.completed as usize;
    let took = begun.elapsed();
    if done.is_err() || completed < jobs {
        return Err(BenchError::Failed(format!("{completed} of {jobs} jobs were completed")));
    }
    Ok(Round::of(vec![took], completed, took))
}

/// As many of what is left as one call may lease.
fn take(left: &AtomicUsize) -> Option<u32> {
    let most = CAPACITY_MAX as usize;
    let before =
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| (left > 0).then_some(left - left.min(most)));
    before.ok().map(|before| before.min(most) as u32)
}

/// Leases up to so many jobs and completes them; tells how many.
async fn work(bursar: &Bursar, number: usize, wanted: u32) -> Result<usize, BenchError> {
    let ask = LeaseAsk {
        queues: vec![Queue::new(QUEUE)?],
        kinds: vec![JobKind::new(KIND)?],
        capacity: wanted,
        lease: None,
        worker: WorkerName::new(format!("loop-{number}"))?,
    };
    let leased = bursar.jobs().lease_wait(ask, PATIENCE).await?.jobs;
    if leased.is_empty() {
        return Err(BenchError::Failed("jobs that were enqueued could not be leased".into()));
    }
    let done = leased.len();
    let completed = leased.into_iter().map(|job| {
        let end = End::Complete { result: Payload::default(), usage: None };
        Finish { job: job.id, fence: job.life.fence, end }
    });
    for answer in bursar.jobs().finish_all(completed.collect()).await? {
        answer?;
    }
    Ok(done)
}

/// One job at a time, for a worker that waits: from before it is enqueued to the start of its handler. With a worker in a
/// process of its own, until this one has heard of it.
pub(crate) async fn latency(
    bursar: &Bursar,
    database: &Database,
    apart: bool,
    jobs: usize,
) -> Result<Round, BenchError> {
    let mut crew = if apart { Crew::Apart(Apart::start(&database.url()).await?) } else { Crew::here(bursar)? };
    let mut waited = Vec::with_capacity(jobs);
    for _ in 0..jobs {
        sleep(PAUSE).await;
        let asked = Instant::now();
        enqueue(bursar).await?;
        waited.push(crew.begun().await?.duration_since(asked));
    }
    crew.end(jobs).await?;
    let took = waited.iter().sum();
    Ok(Round::of(waited, jobs, took))
}

/// Who does the jobs of which the latency is measured.
enum Crew {
    Here { worker: RunningWorker, begun: mpsc::Receiver<Instant> },
    Apart(Apart),
}

impl Crew {
    fn here(bursar: &Bursar) -> Result<Crew, BenchError> {
        let (begins, begun) = mpsc::channel(1);
        let handler = move |_: Nothing, _: JobContext| {
            let now = Instant::now();
            // A job that runs once more than it should finds no room, and is missed in the count of those completed.
            let _ = begins.try_send(now);
            std::future::ready(Ok::<_, HandlerError>(()))
        };
        let worker = bursar.worker().queue(QUEUE).on(KIND, handler).start()?;
        Ok(Crew::Here { worker, begun })
    }

    /// When the next handler began.
    async fn begun(&mut self) -> Result<Instant, BenchError> {
        match self {
            Crew::Here { begun, .. } => {
                let begun = timeout(PATIENCE, begun.recv()).await.ok().flatten();
                begun.ok_or_else(|| BenchError::Failed("a job was not begun".into()))
            }
            Crew::Apart(apart) => apart.begun().await,
        }
    }

    async fn end(self, jobs: usize) -> Result<(), BenchError> {
        match self {
            Crew::Here { worker, .. } => {
                let completed = worker.drain().await?.completed;
                let all = completed == jobs as u64;
                if all { Ok(()) } else { Err(BenchError::Failed(format!("{completed} of {jobs} jobs were completed"))) }
            }
            Crew::Apart(apart) => apart.end().await,
        }
    }
}

/// Gives it a past by its own means: so many finished jobs that are kept, then so many that wait.
pub(crate) async fn fill(bursar: &Bursar, database: &Database, finished: u64, waiting: u64) -> Result<(), BenchError> {
    for from in (0..finished).step_by(STEP as usize) {
        let jobs = (finished - from).min(STEP) as usize;
        enqueue_bulk(bursar, 1, jobs).await?;
        drain(bursar, LOOPS, jobs).await?;
    }
    for from in (0..waiting).step_by(STEP as usize) {
        enqueue_bulk(bursar, 1, (waiting - from).min(STEP) as usize).await?;
    }
    rest(database).await
}

/// Lets the engine come to rest after much was written: statistics, checkpoint. SQLite's log begins anew in the file that is there,
/// as it does again and again where a program runs on.
pub(crate) async fn rest(database: &Database) -> Result<(), BenchError> {
    match database {
        Database::Sqlite(file) => {
            let conn = file.connect()?;
            tokio::task::block_in_place(|| conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())))?;
        }
        Database::Postgres(named) => crate::postgres::rest(&mut named.connect().await?).await?,
    }
    Ok(())
}
