//! Workers, in the making and at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bursar_core::bounds::CAPACITY_MAX;
use bursar_core::job::LeaseAsk;
use bursar_core::name::{JobKind, Queue, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::refusal::{Invalid, Refusal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower_layer::Layer;
use tower_service::Service;

use crate::context::JobContext;
use crate::crew::{self, Plan};
use crate::handler::{HandlerError, Handlers, Labour};
use crate::reports::WorkerReport;
use crate::service::JobService;
use crate::source::{Source, SourceError};

type Layers = Box<dyn FnOnce(JobService) -> JobService + Send>;

/// Runs handlers of jobs. What is wrong with a part is told when it is started.
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    source: Arc<dyn Source>,
    handlers: Handlers,
    layers: Layers,
    queues: Vec<Queue>,
    name: Option<WorkerName>,
    lease: Option<Duration>,
    concurrency: usize,
    ahead_max: usize,
    wait: Duration,
    grace: Duration,
    wrong: Option<Invalid>,
}

/// A worker at work.
#[derive(Debug)]
pub struct RunningWorker {
    stop: oneshot::Sender<()>,
    done: JoinHandle<Result<WorkerReport, SourceError>>,
}

impl Worker {
    /// A worker that gets its jobs from there.
    pub fn new(source: Arc<dyn Source>) -> Worker {
        Worker {
            source,
            handlers: Handlers::default(),
            layers: Box::new(|service| service),
            queues: Vec::new(),
            name: None,
            lease: None,
            concurrency: 10,
            ahead_max: 500,
            wait: Duration::from_secs(20),
            grace: Duration::from_secs(30),
            wrong: None,
        }
    }

    fn with<T>(mut self, part: Result<T, Invalid>, take: impl FnOnce(&mut Self, T)) -> Self {
        match part {
            Ok(part) => take(&mut self, part),
            Err(invalid) => drop(self.wrong.get_or_insert(invalid)),
        }
        self
    }

    /// Takes jobs from a queue.
    pub fn queue(self, queue: impl TryInto<Queue, Error = Invalid>) -> Self {
        self.with(queue.try_into(), |this, queue| this.queues.push(queue))
    }

    /// What is done for jobs of a kind; `video.*` is every kind that begins with `video.`. Jobs of other kinds are left to
    /// others.
    ///
    /// A job runs **at least once**: see [`JobContext`]. A handler that fails or panics has failed an attempt; see
    /// [`HandlerError`] for other ends. A payload that is not of its type is a failure that trying again does not mend.
    pub fn on<P, R, F, Fut>(self, kind: impl TryInto<JobKind, Error = Invalid>, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(P, JobContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
    {
        self.with(kind.try_into(), |this, kind| this.handlers.add(kind, handler))
    }

    /// Puts a `tower` layer around all handlers, such as a timeout, a limit or a trace. The service it wraps takes a
    /// [`JobContext`] and gives the result as JSON. The layer that is put first is outermost. An error of a layer's own is a failed
    /// attempt; that of the handler, a [`JobFailure`](crate::JobFailure), is what the handler said.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<JobService> + Send + 'static,
        L::Service: Service<JobContext, Response = Payload> + Clone + Send + 'static,
        <L::Service as Service<JobContext>>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        <L::Service as Service<JobContext>>::Future: Send,
    {
        let outer = self.layers;
        self.layers = Box::new(move |service| outer(service.within(&layer)));
        self
    }

    /// How it is called in the journal.
    pub fn name(self, name: impl TryInto<WorkerName, Error = Invalid>) -> Self {
        self.with(name.try_into(), |this, name| this.name = Some(name))
    }

    /// How many handlers run at once; ten unless it is said.
    pub fn concurrency(self, most: usize) -> Self {
        let wrong = Invalid::new("concurrency", format!("must be from 1 to {CAPACITY_MAX}"));
        let checked = if (1..=CAPACITY_MAX as usize).contains(&most) { Ok(most) } else { Err(wrong) };
        self.with(checked, |this, most| this.concurrency = most)
    }

    /// How many jobs may be leased ahead of those that run, where jobs are short; 500 unless it is said. Jobs that take long are
    /// never leased ahead.
    pub fn ahead(mut self, most: usize) -> Self {
        self.ahead_max = most.min(CAPACITY_MAX as usize);
        self
    }

    /// How long a lease lasts without a heartbeat; as the queue says unless it is said.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// How long a handler has to come to an end after it was told to let go of its job; half a minute unless it is said. Then it
    /// is dropped.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Works until there is nobody to ask any more.
    pub async fn run(self) -> Result<WorkerReport, SourceError> {
        self.run_until(std::future::pending()).await
    }

    /// Works until `stop` is ready, such as a signal to the process; then hands back what was not begun, without burning an
    /// attempt, and waits for the handlers that run.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<WorkerReport, SourceError> {
        crew::work(self.plan()?, stop).await
    }

    /// Works until the process is told to end (`SIGTERM`, or `SIGINT` from a terminal), then drains like
    /// [`run_until`](Worker::run_until).
    pub async fn run_until_terminated(self) -> Result<WorkerReport, SourceError> {
        self.run_until(terminated()).await
    }

    /// Works in a task of its own.
    pub fn start(self) -> Result<RunningWorker, SourceError> {
        let plan = self.plan()?;
        let (stop, stopped) = oneshot::channel();
        // A worker whose handle is dropped goes on.
        let stopped = async move {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        Ok(RunningWorker { stop, done: tokio::spawn(crew::work(plan, stopped)) })
    }

    fn plan(self) -> Result<Plan, SourceError> {
        let kinds = self.handlers.kinds();
        let missing = |field, problem| Refusal::from(Invalid::new(field, problem));
        match self.wrong {
            Some(invalid) => return Err(Refusal::from(invalid).into()),
            None if self.queues.is_empty() => return Err(missing("queues", "must not be empty").into()),
            None if kinds.is_empty() => return Err(missing("kinds", "must not be empty: there is no handler").into()),
            None => {}
        }
        let worker = match self.name {
            Some(name) => name,
            None => WorkerName::new(default_name()).map_err(Refusal::from)?,
        };
        let lease = self.lease.map(Into::into);
        Ok(Plan {
            source: self.source,
            labour: Labour::new(self.handlers, self.layers),
            ask: LeaseAsk { queues: self.queues, kinds, capacity: 1, lease, worker },
            wait: self.wait,
            concurrency: self.concurrency,
            ahead_max: self.ahead_max,
            grace: self.grace,
        })
    }
}

/// Until the process is told to end.
async fn terminated() {
    let interrupted = async {
        // Where nobody can be told of it, it ends the process as it always does.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let told = async {
            match signal(SignalKind::terminate()) {
                Ok(mut told) => drop(told.recv().await),
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = interrupted => {}
            () = told => {}
        }
    }
    #[cfg(not(unix))]
    interrupted.await;
}

/// A name that no other worker of this process has.
fn default_name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    format!("worker-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

impl RunningWorker {
    /// Takes no more jobs, hands back what was not begun, and waits for the handlers that run.
    pub async fn drain(self) -> Result<WorkerReport, SourceError> {
        let _ = self.stop.send(());
        self.done.await.unwrap_or_else(|error| Err(SourceError::Failed(Box::new(error))))
    }
}
