//! The main loop of a worker: lease jobs, run their handlers, drain at the end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bursar_core::bounds::CAPACITY_MAX;
use bursar_core::job::{End, Finish, LeaseRequest};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use crate::blobs::BlobStore;
use crate::completion_rate::CompletionRate;
use crate::context::{JobContext, Stop};
use crate::handler::Dispatcher;
use crate::leases::Leases;
use crate::reports::{Backoff, CALLS, Reports, WorkerReport};
use crate::source::{LeasedJob, Source, SourceError};

/// The checked settings of a worker.
pub(crate) struct Config {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) blobs: Option<Arc<dyn BlobStore>>,
    pub(crate) dispatcher: Dispatcher,
    /// The lease request; each call sets its own capacity.
    pub(crate) ask: LeaseRequest,
    pub(crate) wait: Duration,
    pub(crate) concurrency: usize,
    pub(crate) ahead_max: usize,
    pub(crate) grace: Duration,
}

/// Runs jobs until `stop` is ready or the source is closed, then drains.
pub(crate) async fn run(config: Config, stop: impl Future<Output = ()>) -> Result<WorkerReport, SourceError> {
    let leases = Arc::new(Leases::default());
    let (reports, reporter) = Reports::new(config.source.clone(), leases.clone(), config.grace);
    let mut reporting = JoinSet::new();
    for _ in 0..CALLS {
        let reporter = reporter.clone();
        reporting.spawn(async move { reporter.run().await });
    }
    let mut heartbeats = JoinSet::new();
    heartbeats.spawn({
        let (leases, source, reports) = (leases.clone(), config.source.clone(), reports.downgrade());
        async move { leases.send_heartbeats(&source, &reports).await }
    });
    let mut run_loop = RunLoop { config, leases, reports, ready: VecDeque::new(), running: JoinSet::new() };
    let ended = run_loop.run(stop).await;
    reporter.drain();
    run_loop.drain().await;
    let source = run_loop.config.source.clone();
    // This drops the last sender, so that the reporters end. Heartbeats go on until all reports are accepted.
    drop(run_loop);
    while reporting.join_next().await.is_some() {}
    source.settle().await;
    drop(heartbeats);
    ended.map(|()| reporter.counts())
}

/// Returns the span of a handler: its log lines carry the job and the trace in which the job was enqueued.
fn span_of(job: &LeasedJob) -> Span {
    let LeasedJob { id, queue, kind, attempt, traceparent, .. } = job;
    let trace_id = traceparent.map(|parent| parent.trace_id());
    tracing::info_span!("job", %id, %queue, %kind, attempt, trace_id)
}

struct RunLoop {
    config: Config,
    leases: Arc<Leases>,
    reports: Reports,
    /// Jobs that are leased and wait for a free handler.
    ready: VecDeque<LeasedJob>,
    running: JoinSet<()>,
}

type LeaseCall<'a> = BoxFuture<'a, Result<Vec<LeasedJob>, SourceError>>;

impl RunLoop {
    async fn run(&mut self, stop: impl Future<Output = ()>) -> Result<(), SourceError> {
        let mut rate = CompletionRate::new(Instant::now());
        let mut lease_call: Option<LeaseCall<'static>> = None;
        tokio::pin!(stop);
        loop {
            self.start_ready_jobs();
            if lease_call.is_none() {
                lease_call = self.lease(rate.jobs_ahead(Instant::now()));
            }
            let leased = async {
                match &mut lease_call {
                    Some(call) => call.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // The source gives back jobs that a dropped call has leased.
                () = &mut stop => return Ok(()),
                Some(_) = self.running.join_next() => rate.job_ended(Instant::now()),
                answer = leased => {
                    lease_call = None;
                    match answer {
                        Ok(jobs) => {
                            self.leases.add(&jobs);
                            self.ready.extend(jobs);
                        }
                        Err(SourceError::Closed) => return Ok(()),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }

    /// Requests as many jobs as there is room for. Returns `None` if there is no room, or if handlers have enough to do and the room is too
    /// small to be worth a call.
    fn lease(&self, ahead: usize) -> Option<LeaseCall<'static>> {
        let ahead = ahead.min(self.config.ahead_max);
        let have = self.running.len() + self.ready.len();
        let room = (self.config.concurrency + ahead).saturating_sub(have);
        if room == 0 || (have >= self.config.concurrency && room < ahead.div_ceil(4)) {
            return None;
        }
        let capacity = u32::try_from(room).unwrap_or(CAPACITY_MAX).min(CAPACITY_MAX);
        let (ask, wait) = (LeaseRequest { capacity, ..self.config.ask.clone() }, self.config.wait);
        let source = self.config.source.clone();
        let call = async move {
            let mut backoff = Backoff::default();
            loop {
                match source.lease(ask.clone(), wait).await {
                    // An unexpected failure may concern a single row, so it must not stop the worker.
                    Err(SourceError::Transient(error) | SourceError::Failed(error)) => {
                        tracing::warn!(%error, "leasing jobs failed, retrying");
                        backoff.wait().await;
                    }
                    answer => return answer,
                }
            }
        };
        Some(call.boxed())
    }

    fn start_ready_jobs(&mut self) {
        while self.running.len() < self.config.concurrency
            && let Some(job) = self.ready.pop_front()
        {
            let Some(stop) = self.leases.start(&job) else { continue };
            let (id, fence) = (job.id, job.fence);
            let span = span_of(&job);
            let context = JobContext::new(job, self.config.source.clone(), self.config.blobs.clone(), stop);
            let (dispatcher, reports, leases) =
                (self.config.dispatcher.clone(), self.reports.clone(), self.leases.clone());
            let grace = self.config.grace;
            let run = async move {
                match dispatcher.run(&context, grace).await {
                    Some(end) => reports.send(Finish { job: id, fence, end }).await,
                    None => leases.end(id, fence),
                }
            };
            self.running.spawn(run.instrument(span));
        }
    }

    /// Returns the jobs that were not started, tells running handlers to stop, and waits for them.
    async fn drain(&mut self) {
        for LeasedJob { id, fence, .. } in std::mem::take(&mut self.ready) {
            self.reports.send(Finish { job: id, fence, end: End::Return }).await;
        }
        self.leases.stop_all(Stop::Draining);
        while self.running.join_next().await.is_some() {}
    }
}
