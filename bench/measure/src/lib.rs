//! The measurement, shared by all peers written in Rust.
//!
//! A driver implements [`Peer`] and passes it to [`run`], which runs one round of one work and prints one line of JSON.
//! `measure.mjs` does the same for peers written in JavaScript; keep both in step.

mod progress;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use serde::Serialize;

pub use progress::Progress;

/// A job queue under measurement.
pub trait Peer: Send + Sync + 'static {
    /// A worker that takes jobs until it is stopped.
    type Worker: Send;

    /// Returns its name, version, and settings for this work.
    fn label(&self, work: Work) -> Label;

    /// Enqueues this many jobs in the fastest way that the peer documents.
    fn enqueue_bulk(&self, jobs: u64) -> impl Future<Output = ()> + Send;

    /// Enqueues one job and returns when it is durable.
    fn enqueue(&self) -> impl Future<Output = ()> + Send;

    /// Starts a worker whose handler only reports to `progress`.
    fn start(&self, progress: Arc<Progress>) -> impl Future<Output = Self::Worker> + Send;

    /// Stops a worker after its finished jobs are recorded in the database.
    fn stop(&self, worker: Self::Worker) -> impl Future<Output = ()> + Send;

    /// Returns the number of waiting and running jobs in the database.
    fn unfinished(&self) -> impl Future<Output = u64> + Send;

    /// Updates statistics and runs a checkpoint after bulk writes.
    fn rest(&self) -> impl Future<Output = ()> + Send;
}

/// The works that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Run all waiting jobs.
    Drain,
    /// Enqueue many jobs at once.
    EnqueueBulk,
    /// Enqueue one job at a time, by many callers.
    Enqueue,
    /// The time from enqueueing to the start of the job, on an idle system.
    Latency,
}

/// The arguments of a driver.
#[derive(Clone, Debug, Parser)]
pub struct Ask {
    /// What to measure.
    pub work: Work,
    /// The URL of an empty database.
    #[arg(long)]
    pub database: String,
    /// Jobs to drain, or to enqueue in bulk.
    #[arg(long, default_value_t = 100_000)]
    pub jobs: u64,
    /// Concurrent callers that enqueue.
    #[arg(long, default_value_t = 50)]
    pub callers: usize,
    /// The length of the enqueue round, in seconds.
    #[arg(long, default_value_t = 5)]
    pub seconds: u64,
    /// Latency samples.
    #[arg(long, default_value_t = 200)]
    pub samples: u32,
    /// Jobs to finish before the round; they stay if the peer keeps finished jobs.
    #[arg(long, default_value_t = 0)]
    pub finished: u64,
    /// Waiting jobs besides the measured ones.
    #[arg(long, default_value_t = 0)]
    pub backlog: u64,
}

/// The measured peer and its settings.
#[derive(Clone, Debug, Serialize)]
pub struct Label {
    /// Its name.
    pub peer: &'static str,
    /// Its version.
    pub version: &'static str,
    /// `postgres` or `sqlite`.
    pub engine: &'static str,
    /// Settings that differ from the peer's own defaults.
    pub settings: String,
}

#[derive(Debug, Serialize)]
struct Line {
    #[serde(flatten)]
    label: Label,
    work: String,
    n: u64,
    per_second: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

/// Jobs of the warm-up, so that code is compiled, statements are planned and connections are open.
const WARM_JOBS: u64 = 2_000;
const WARM: Duration = Duration::from_secs(1);
const WARM_SAMPLES: u32 = 20;
/// The idle time between two latency samples; odd, so that it does not align with a timer of the peer.
const PAUSE: Duration = Duration::from_millis(23);
/// The timeout of a round.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs one round and prints its line.
///
/// # Panics
/// When the round exceeds its timeout.
pub async fn run<P: Peer>(peer: P, ask: &Ask) {
    let peer = Arc::new(peer);
    let round = async {
        match ask.work {
            Work::Drain => drain(&peer, ask).await,
            Work::EnqueueBulk => enqueue_bulk(&peer, ask).await,
            Work::Enqueue => enqueue(&peer, ask).await,
            Work::Latency => latency(&peer, ask).await,
        }
    };
    let (n, per_second, samples) = tokio::time::timeout(PATIENCE, round).await.expect("the round exceeded its timeout");
    let work = ask.work.to_possible_value().expect("every work has a name").get_name().to_owned();
    let line = Line {
        label: peer.label(ask.work),
        work,
        n,
        per_second,
        p50_ms: percentile(&samples, 0.50),
        p99_ms: percentile(&samples, 0.99),
    };
    println!("{}", serde_json::to_string(&line).expect("a line is JSON"));
}

type Round = (u64, Option<f64>, Vec<Duration>);

/// Measures from the first job passed to a handler until the database has no unfinished job. With a backlog, which is not
/// drained, until the last measured job was passed to a handler.
async fn drain<P: Peer>(peer: &Arc<P>, ask: &Ask) -> Round {
    finish(peer, WARM_JOBS + ask.finished).await;
    peer.enqueue_bulk(ask.jobs + ask.backlog).await;
    peer.rest().await;
    let progress = Arc::new(Progress::new(ask.jobs));
    let worker = peer.start(Arc::clone(&progress)).await;
    let (first, last) = progress.reached().await;
    let end = if ask.backlog == 0 { empty(peer).await } else { last };
    peer.stop(worker).await;
    (ask.jobs, Some(ask.jobs as f64 / (end - first).as_secs_f64()), Vec::new())
}

async fn enqueue_bulk<P: Peer>(peer: &Arc<P>, ask: &Ask) -> Round {
    peer.enqueue_bulk(WARM_JOBS).await;
    peer.rest().await;
    let began = Instant::now();
    peer.enqueue_bulk(ask.jobs).await;
    (ask.jobs, Some(ask.jobs as f64 / began.elapsed().as_secs_f64()), Vec::new())
}

async fn enqueue<P: Peer>(peer: &Arc<P>, ask: &Ask) -> Round {
    let began = Instant::now() + WARM;
    let end = began + Duration::from_secs(ask.seconds);
    let callers: Vec<_> = (0..ask.callers)
        .map(|_| {
            let peer = Arc::clone(peer);
            tokio::spawn(async move {
                let mut took = Vec::new();
                loop {
                    let asked = Instant::now();
                    if asked >= end {
                        return took;
                    }
                    peer.enqueue().await;
                    let answered = Instant::now();
                    if asked >= began && answered <= end {
                        took.push(answered - asked);
                    }
                }
            })
        })
        .collect();
    let mut samples = Vec::new();
    for caller in callers {
        samples.extend(caller.await.expect("a caller does not panic"));
    }
    let n = samples.len() as u64;
    (n, Some(n as f64 / ask.seconds as f64), samples)
}

async fn latency<P: Peer>(peer: &Arc<P>, ask: &Ask) -> Round {
    let progress = Arc::new(Progress::new(1));
    let worker = peer.start(Arc::clone(&progress)).await;
    let mut samples = Vec::new();
    for sample in 0..WARM_SAMPLES + ask.samples {
        tokio::time::sleep(PAUSE).await;
        progress.again(1);
        let asked = Instant::now();
        peer.enqueue().await;
        let (started, _) = progress.reached().await;
        if sample >= WARM_SAMPLES {
            samples.push(started - asked);
        }
    }
    peer.stop(worker).await;
    (u64::from(ask.samples), None, samples)
}

/// Lets the peer run `jobs` jobs; they stay if it keeps finished jobs.
async fn finish<P: Peer>(peer: &Arc<P>, jobs: u64) {
    peer.enqueue_bulk(jobs).await;
    let progress = Arc::new(Progress::new(jobs));
    let worker = peer.start(Arc::clone(&progress)).await;
    progress.reached().await;
    empty(peer).await;
    peer.stop(worker).await;
}

async fn empty<P: Peer>(peer: &Arc<P>) -> Instant {
    while peer.unfinished().await > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Instant::now()
}

fn percentile(samples: &[Duration], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    let at = (last as f64 * share).round() as usize;
    Some(sorted[at].as_secs_f64() * 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<_> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&samples, 0.50), Some(51.0));
        assert_eq!(percentile(&samples, 0.99), Some(99.0));
        assert_eq!(percentile(&[], 0.50), None);
    }
}
