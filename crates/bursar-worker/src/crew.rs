//! The loop of a worker: lease, start, and in the end drain.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bursar_core::bounds::CAPACITY_MAX;
use bursar_core::job::{End, Finish, LeaseAsk};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use crate::context::{JobContext, Stop};
use crate::handler::Labour;
use crate::leases::Leases;
use crate::pace::Pace;
use crate::reports::{CALLS, Pause, Reports, WorkerReport};
use crate::source::{LeasedJob, Source, SourceError};

/// What a worker was told.
pub(crate) struct Plan {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) labour: Labour,
    /// What is asked for, but for the capacity.
    pub(crate) ask: LeaseAsk,
    pub(crate) wait: Duration,
    pub(crate) concurrency: usize,
    pub(crate) ahead_max: usize,
    pub(crate) grace: Duration,
}

/// Works until it is told to stop or there is nobody to ask any more, then drains.
pub(crate) async fn work(plan: Plan, stop: impl Future<Output = ()>) -> Result<WorkerReport, SourceError> {
    let leases = Arc::new(Leases::default());
    let (reports, reporter) = Reports::new(plan.source.clone(), leases.clone(), plan.grace);
    let mut reporting = JoinSet::new();
    for _ in 0..CALLS {
        let reporter = reporter.clone();
        reporting.spawn(async move { reporter.work().await });
    }
    let mut keeping = JoinSet::new();
    keeping.spawn({
        let (leases, source, reports) = (leases.clone(), plan.source.clone(), reports.downgrade());
        async move { leases.keep(&source, &reports).await }
    });
    let mut crew = Crew { plan, leases, reports, ready: VecDeque::new(), running: JoinSet::new() };
    let ended = crew.lead(stop).await;
    reporter.drain();
    crew.drain().await;
    // Nobody is left who could report anything. Heartbeats go on until all of it has been taken.
    let source = crew.plan.source.clone();
    drop(crew);
    while reporting.join_next().await.is_some() {}
    source.settle().await;
    drop(keeping);
    ended.map(|()| reporter.counted())
}

/// What a handler logs is known by its job, and by the trace that the job was enqueued in.
fn span_of(job: &LeasedJob) -> Span {
    let LeasedJob { id, queue, kind, attempt, traceparent, .. } = job;
    let trace_id = traceparent.map(|parent| parent.trace_id());
    tracing::info_span!("job", %id, %queue, %kind, attempt, trace_id)
}

struct Crew {
    plan: Plan,
    leases: Arc<Leases>,
    reports: Reports,
    /// Leased, and not begun.
    ready: VecDeque<LeasedJob>,
    running: JoinSet<()>,
}

type Asking<'a> = BoxFuture<'a, Result<Vec<LeasedJob>, SourceError>>;

impl Crew {
    async fn lead(&mut self, stop: impl Future<Output = ()>) -> Result<(), SourceError> {
        let mut pace = Pace::new(Instant::now());
        let mut asking: Option<Asking<'static>> = None;
        tokio::pin!(stop);
        loop {
            self.start_some();
            if asking.is_none() {
                asking = self.ask(pace.ahead(Instant::now()));
            }
            let answered = async {
                match &mut asking {
                    Some(asking) => asking.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // A call that is dropped leases nothing: its source sees to that.
                () = &mut stop => return Ok(()),
                Some(_) = self.running.join_next() => pace.ended(Instant::now()),
                answer = answered => {
                    asking = None;
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

    /// Asks for as many jobs as there is room for, if that is worth a call.
    fn ask(&self, ahead: usize) -> Option<Asking<'static>> {
        let ahead = ahead.min(self.plan.ahead_max);
        let (most, have) = (self.plan.concurrency + ahead, self.running.len() + self.ready.len());
        let room = most.saturating_sub(have);
        let worth = room > 0 && (have < self.plan.concurrency || room >= ahead.div_ceil(4));
        if !worth {
            return None;
        }
        let capacity = u32::try_from(room).unwrap_or(CAPACITY_MAX).min(CAPACITY_MAX);
        let (ask, wait) = (LeaseAsk { capacity, ..self.plan.ask.clone() }, self.plan.wait);
        let source = self.plan.source.clone();
        let call = async move {
            let mut pause = Pause::default();
            loop {
                match source.lease(ask.clone(), wait).await {
                    // Also what looks like a defect is tried again: it may be of one row, and others wait.
                    Err(SourceError::Transient(error) | SourceError::Failed(error)) => {
                        tracing::warn!(%error, "no jobs could be leased; it is tried again");
                        pause.wait().await;
                    }
                    answer => return answer,
                }
            }
        };
        Some(call.boxed())
    }

    fn start_some(&mut self) {
        while self.running.len() < self.plan.concurrency
            && let Some(job) = self.ready.pop_front()
        {
            let Some(stop) = self.leases.start(&job) else { continue };
            let (id, fence) = (job.id, job.fence);
            let span = span_of(&job);
            let context = JobContext::new(job, self.plan.source.clone(), stop);
            let (labour, reports, leases) = (self.plan.labour.clone(), self.reports.clone(), self.leases.clone());
            let grace = self.plan.grace;
            let run = async move {
                match labour.run(&context, grace).await {
                    Some(end) => reports.send(Finish { job: id, fence, end }).await,
                    None => leases.end(id, fence),
                }
            };
            self.running.spawn(run.instrument(span));
        }
    }

    /// Hands back what was not begun, and waits for the rest.
    async fn drain(&mut self) {
        for LeasedJob { id, fence, .. } in std::mem::take(&mut self.ready) {
            self.reports.send(Finish { job: id, fence, end: End::Return }).await;
        }
        self.leases.tell_all(Stop::Draining);
        while self.running.join_next().await.is_some() {}
    }
}
