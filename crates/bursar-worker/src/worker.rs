//! The builder of a worker, and the handle of a running one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bursar_core::bounds::CAPACITY_MAX;
use bursar_core::job::LeaseRequest;
use bursar_core::name::{JobKind, Queue, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::refusal::{Invalid, Refusal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower_layer::Layer;
use tower_service::Service;

use crate::blobs::BlobStore;
use crate::context::JobContext;
use crate::handler::{Dispatcher, HandlerError, Handlers};
use crate::reports::WorkerReport;
use crate::run_loop::{self, Config};
use crate::service::JobService;
use crate::source::{Source, SourceError};

type Layers = Box<dyn FnOnce(JobService) -> JobService + Send>;

/// A worker that runs handlers of jobs. An invalid setting is reported when the worker starts.
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    source: Arc<dyn Source>,
    blobs: Option<Arc<dyn BlobStore>>,
    handlers: Handlers,
    layers: Layers,
    queues: Vec<Queue>,
    name: Option<WorkerName>,
    lease: Option<Duration>,
    concurrency: usize,
    ahead_max: usize,
    wait: Duration,
    grace: Duration,
    /// The first invalid setting.
    invalid: Option<Invalid>,
}

/// The handle of a worker that runs in a task. The worker goes on if the handle is dropped.
#[derive(Debug)]
pub struct RunningWorker {
    stop: oneshot::Sender<()>,
    done: JoinHandle<Result<WorkerReport, SourceError>>,
}

impl Worker {
    /// A worker that gets its jobs from `source`.
    pub fn new(source: Arc<dyn Source>) -> Worker {
        Worker {
            source,
            blobs: None,
            handlers: Handlers::default(),
            layers: Box::new(|service| service),
            queues: Vec::new(),
            name: None,
            lease: None,
            concurrency: 10,
            ahead_max: 500,
            wait: Duration::from_secs(20),
            grace: Duration::from_secs(30),
            invalid: None,
        }
    }

    fn with<T>(mut self, value: Result<T, Invalid>, set: impl FnOnce(&mut Self, T)) -> Self {
        match value {
            Ok(value) => set(&mut self, value),
            Err(invalid) => drop(self.invalid.get_or_insert(invalid)),
        }
        self
    }

    /// Adds a queue to lease jobs from.
    pub fn queue(self, queue: impl TryInto<Queue, Error = Invalid>) -> Self {
        self.with(queue.try_into(), |this, queue| this.queues.push(queue))
    }

    /// Sets the handler for jobs of a kind; `video.*` matches every kind that begins with `video.`. The worker leases no other kinds.
    ///
    /// A job runs **at least once**: see [`JobContext`]. An error or a panic of the handler is a failed attempt; see [`HandlerError`] for
    /// other ends. A payload that cannot be parsed as `P` makes the job dead.
    pub fn on<P, R, F, Fut>(self, kind: impl TryInto<JobKind, Error = Invalid>, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(P, JobContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
    {
        self.with(kind.try_into(), |this, kind| this.handlers.add(kind, handler))
    }

    /// Wraps all handlers in a `tower` layer, such as a timeout, a limit or a trace. The first layer is the outermost. The wrapped service
    /// takes a [`JobContext`] and returns the result as JSON. Its error is a [`JobFailure`](crate::JobFailure), which the layer passes on;
    /// any other error of a layer is a failed attempt.
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

    /// Sets where handlers store and read blobs ([`JobContext::blobs`]); default: a worker of a server uses that server, one in this process
    /// has no blobs.
    pub fn blobs(mut self, blobs: Arc<dyn BlobStore>) -> Self {
        self.blobs = Some(blobs);
        self
    }

    /// Sets the name of the worker in the journal; default: a name with the process id.
    pub fn name(self, name: impl TryInto<WorkerName, Error = Invalid>) -> Self {
        self.with(name.try_into(), |this, name| this.name = Some(name))
    }

    /// Sets how many handlers run at the same time; default: 10.
    pub fn concurrency(self, max: usize) -> Self {
        let invalid = Invalid::new("concurrency", format!("must be from 1 to {CAPACITY_MAX}"));
        let checked = if (1..=CAPACITY_MAX as usize).contains(&max) { Ok(max) } else { Err(invalid) };
        self.with(checked, |this, max| this.concurrency = max)
    }

    /// Sets how many short jobs may be leased ahead of those that run; default: 500. The worker leases ahead as many jobs as it completes
    /// in a tenth of a second, so that long jobs are left to other workers.
    pub fn ahead(mut self, max: usize) -> Self {
        self.ahead_max = max.min(CAPACITY_MAX as usize);
        self
    }

    /// Sets how long a lease lasts without a heartbeat; default: the queue's setting.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Sets the grace period: how long a handler that must stop may go on before it is dropped; default: 30 seconds.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Runs until the source is closed.
    pub async fn run(self) -> Result<WorkerReport, SourceError> {
        self.run_until(std::future::pending()).await
    }

    /// Runs until `stop` is ready, then drains: returns the jobs that were not started, which does not count as an attempt, and waits for
    /// the running handlers.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<WorkerReport, SourceError> {
        run_loop::run(self.config()?, stop).await
    }

    /// Runs until the process receives `SIGTERM` or `SIGINT` (Ctrl-C), then drains like
    /// [`run_until`](Worker::run_until).
    pub async fn run_until_terminated(self) -> Result<WorkerReport, SourceError> {
        self.run_until(terminated()).await
    }

    /// Runs in a task of its own.
    pub fn start(self) -> Result<RunningWorker, SourceError> {
        let config = self.config()?;
        let (stop, stopped) = oneshot::channel();
        // Dropping the handle must not stop the worker.
        let stopped = async move {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        Ok(RunningWorker { stop, done: tokio::spawn(run_loop::run(config, stopped)) })
    }

    fn config(self) -> Result<Config, SourceError> {
        let kinds = self.handlers.kinds();
        let missing = |field, problem| Refusal::from(Invalid::new(field, problem));
        match self.invalid {
            Some(invalid) => return Err(Refusal::from(invalid).into()),
            None if self.queues.is_empty() => return Err(missing("queues", "must not be empty").into()),
            None if kinds.is_empty() => {
                return Err(missing("kinds", "must not be empty: the worker has no handler").into());
            }
            None => {}
        }
        let worker = match self.name {
            Some(name) => name,
            None => WorkerName::new(default_name()).map_err(Refusal::from)?,
        };
        let lease = self.lease.map(Into::into);
        Ok(Config {
            source: self.source,
            blobs: self.blobs,
            dispatcher: Dispatcher::new(self.handlers, self.layers),
            ask: LeaseRequest { queues: self.queues, kinds, capacity: 1, lease, worker },
            wait: self.wait,
            concurrency: self.concurrency,
            ahead_max: self.ahead_max,
            grace: self.grace,
        })
    }
}

/// Waits for `SIGTERM` or `SIGINT`.
async fn terminated() {
    let interrupted = async {
        // Without a signal handler the signal ends the process, which is its default action.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let terminated = async {
            match signal(SignalKind::terminate()) {
                Ok(mut signal) => drop(signal.recv().await),
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = interrupted => {}
            () = terminated => {}
        }
    }
    #[cfg(not(unix))]
    interrupted.await;
}

/// Returns a name that no other worker of this process has.
fn default_name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    format!("worker-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

impl RunningWorker {
    /// Stops leasing, returns the jobs that were not started, and waits for the running handlers.
    pub async fn drain(self) -> Result<WorkerReport, SourceError> {
        let _ = self.stop.send(());
        self.done.await.unwrap_or_else(|error| Err(SourceError::Failed(Box::new(error))))
    }
}
