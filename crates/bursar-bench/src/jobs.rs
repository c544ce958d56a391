//! The job benches, through Bursar's public API: enqueue one by one and in bulk, lease and complete a thousand at a time,
//! and the latency of a waiting worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bursar::bounds::CAPACITY_MAX;
use bursar::{
    Bursar, End, Finish, HandlerError, JobContext, JobKind, JobSpec, LeaseRequest, Payload, Queue, RunningWorker,
    WorkerName,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::child_process::WorkerProcess;
use crate::engine::Database;
use crate::error::BenchError;
use crate::load::Round;
use crate::plan::Bench;

pub(crate) const QUEUE: &str = "work";
pub(crate) const KIND: &str = "nothing";
/// The idle time between two latency samples; odd, so that it does not align with a timer.
const SAMPLE_PAUSE: Duration = Duration::from_millis(23);
/// The timeout of any measured operation.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout of a worker's round.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(600);
/// Jobs and samples of the warm-up.
pub(crate) const WARM_JOBS: u64 = 2_000;
const WARM_SAMPLES: usize = 20;
/// Jobs per step when history is generated.
const STEP: u64 = 100_000;
/// Concurrent loops that generate history.
const LOOPS: usize = 8;

/// The payload of a job.
#[derive(Serialize, Deserialize)]
pub(crate) struct Nothing {
    n: u32,
}

fn job() -> Result<JobSpec, BenchError> {
    Ok(JobSpec::new(Queue::new(QUEUE)?, JobKind::new(KIND)?, Payload::of(&Nothing { n: 1 })?))
}

/// Returns the number of jobs in the warm-up.
pub(crate) fn warm_up(bench: Bench) -> usize {
    if bench == Bench::Latency { WARM_SAMPLES } else { WARM_JOBS as usize }
}

/// Enqueues one job and waits until it is durable.
pub(crate) async fn enqueue(bursar: &Bursar) -> Result<(), BenchError> {
    bursar.jobs().enqueue(job()?).await?;
    Ok(())
}

/// Enqueues `jobs` jobs with `calls` concurrent calls.
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

/// Leases and completes `jobs` waiting jobs with `loops` concurrent loops. A sample is one lease call and one call that
/// completes.
pub(crate) async fn drain(bursar: &Bursar, loops: usize, jobs: usize) -> Result<Round, BenchError> {
    let left = Arc::new(AtomicUsize::new(jobs));
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..loops {
        let (bursar, left) = (bursar.clone(), left.clone());
        tasks.spawn(async move {
            let mut waited = Vec::new();
            while let Some(wanted) = take(&left) {
                let sent = Instant::now();
                let done = work(&bursar, number, wanted).await?;
                left.fetch_add(wanted as usize - done, Ordering::Relaxed);
                waited.push(sent.elapsed());
            }
            Ok::<_, BenchError>(waited)
        });
    }
    let mut waited = Vec::new();
    while let Some(samples) = tasks.join_next().await {
        waited.extend(samples??);
    }
    Ok(Round::of(waited, jobs, begun.elapsed()))
}

/// Runs a worker until it has started `jobs` jobs, and waits until it has completed all that it started.
pub(crate) async fn drain_by_worker(bursar: &Bursar, handlers: usize, jobs: usize) -> Result<Round, BenchError> {
    let (left, all_started) = (Arc::new(AtomicUsize::new(jobs)), Arc::new(Notify::new()));
    let handler = {
        let (left, all_started) = (left.clone(), all_started.clone());
        move |_: Nothing, _: JobContext| {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                all_started.notify_one();
            }
            std::future::ready(Ok::<_, HandlerError>(()))
        }
    };
    let begun = Instant::now();
    let worker = bursar.worker().queue(QUEUE).concurrency(handlers).on(KIND, handler).start()?;
    let done = timeout(DRAIN_TIMEOUT, all_started.notified()).await;
    let completed = worker.drain().await?.completed as usize;
    let took = begun.elapsed();
    if done.is_err() || completed < jobs {
        return Err(BenchError::Failed(format!("{completed} of {jobs} jobs were completed")));
    }
    Ok(Round::of(vec![took], completed, took))
}

/// Takes as many of the remaining jobs as one call may lease.
fn take(left: &AtomicUsize) -> Option<u32> {
    let most = CAPACITY_MAX as usize;
    let before =
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| (left > 0).then_some(left - left.min(most)));
    before.ok().map(|before| before.min(most) as u32)
}

/// Leases up to `wanted` jobs and completes them; returns how many.
async fn work(bursar: &Bursar, number: usize, wanted: u32) -> Result<usize, BenchError> {
    let request = LeaseRequest {
        queues: vec![Queue::new(QUEUE)?],
        kinds: vec![JobKind::new(KIND)?],
        capacity: wanted,
        lease: None,
        worker: WorkerName::new(format!("loop-{number}"))?,
    };
    let leased = bursar.jobs().lease_wait(request, TIMEOUT).await?.jobs;
    if leased.is_empty() {
        return Err(BenchError::Failed("enqueued jobs could not be leased".into()));
    }
    let done = leased.len();
    let completed = leased.into_iter().map(|job| {
        let end = End::Complete { result: Payload::default(), usage: None, blobs: Vec::new() };
        Finish { job: job.id, fence: job.life.fence, end }
    });
    for answer in bursar.jobs().finish_all(completed.collect()).await? {
        answer?;
    }
    Ok(done)
}

/// Measures one job at a time with a waiting worker: from before it is enqueued to the start of its handler. With a worker in
/// a child process, until this process has received its byte.
pub(crate) async fn latency(
    bursar: &Bursar,
    database: &Database,
    child_process: bool,
    jobs: usize,
) -> Result<Round, BenchError> {
    let mut worker = if child_process {
        LatencyWorker::ChildProcess(WorkerProcess::start(&database.url()).await?)
    } else {
        LatencyWorker::in_process(bursar)?
    };
    let mut waited = Vec::with_capacity(jobs);
    for _ in 0..jobs {
        sleep(SAMPLE_PAUSE).await;
        let sent = Instant::now();
        enqueue(bursar).await?;
        waited.push(worker.started().await?.duration_since(sent));
    }
    worker.end(jobs).await?;
    let took = waited.iter().sum();
    Ok(Round::of(waited, jobs, took))
}

/// The worker whose latency is measured.
enum LatencyWorker {
    InProcess { worker: RunningWorker, starts: mpsc::Receiver<Instant> },
    ChildProcess(WorkerProcess),
}

impl LatencyWorker {
    fn in_process(bursar: &Bursar) -> Result<LatencyWorker, BenchError> {
        let (sender, starts) = mpsc::channel(1);
        let handler = move |_: Nothing, _: JobContext| {
            let now = Instant::now();
            // If a job runs twice the channel is full; the count of completed jobs shows it.
            let _ = sender.try_send(now);
            std::future::ready(Ok::<_, HandlerError>(()))
        };
        let worker = bursar.worker().queue(QUEUE).on(KIND, handler).start()?;
        Ok(LatencyWorker::InProcess { worker, starts })
    }

    /// Waits for the next start of a handler and returns its time.
    async fn started(&mut self) -> Result<Instant, BenchError> {
        match self {
            LatencyWorker::InProcess { starts, .. } => {
                let start = timeout(TIMEOUT, starts.recv()).await.ok().flatten();
                start.ok_or_else(|| BenchError::Failed("a job was not started in time".into()))
            }
            LatencyWorker::ChildProcess(process) => process.started().await,
        }
    }

    async fn end(self, jobs: usize) -> Result<(), BenchError> {
        match self {
            LatencyWorker::InProcess { worker, .. } => {
                let completed = worker.drain().await?.completed;
                let all = completed == jobs as u64;
                if all { Ok(()) } else { Err(BenchError::Failed(format!("{completed} of {jobs} jobs were completed"))) }
            }
            LatencyWorker::ChildProcess(process) => process.end().await,
        }
    }
}

/// Generates history through Bursar: finished jobs, then waiting jobs.
pub(crate) async fn fill(bursar: &Bursar, database: &Database, finished: u64, waiting: u64) -> Result<(), BenchError> {
    for from in (0..finished).step_by(STEP as usize) {
        let jobs = (finished - from).min(STEP) as usize;
        enqueue_bulk(bursar, 1, jobs).await?;
        drain(bursar, LOOPS, jobs).await?;
    }
    for from in (0..waiting).step_by(STEP as usize) {
        enqueue_bulk(bursar, 1, (waiting - from).min(STEP) as usize).await?;
    }
    checkpoint(database).await
}

/// Updates statistics and runs a checkpoint after bulk writes. SQLite restarts its write-ahead log in the existing file, as it
/// does in a long-running program.
pub(crate) async fn checkpoint(database: &Database) -> Result<(), BenchError> {
    match database {
        Database::Sqlite(file) => {
            let conn = file.connect()?;
            tokio::task::block_in_place(|| conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())))?;
        }
        Database::Postgres(named) => crate::postgres::checkpoint(&mut named.connect().await?).await?,
    }
    Ok(())
}
