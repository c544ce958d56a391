//! Handlers as `tower` services, so that layers can wrap them.

use std::convert::identity;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bursar_core::payload::Payload;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tower_layer::Layer;
use tower_service::Service;

use crate::context::JobContext;
use crate::handler::HandlerError;

type Handle = dyn Fn(JobContext) -> BoxFuture<'static, Result<Payload, JobFailure>> + Send + Sync;

/// The handlers of a worker as a `tower` service: the request is a job, the response is its result as JSON.
#[derive(Clone)]
pub struct JobService(Arc<Handle>);

/// A [`HandlerError`] as an error type that layers can pass on.
#[derive(Debug, thiserror::Error)]
#[error("{0:?}")]
pub struct JobFailure(pub HandlerError);

impl JobService {
    pub(crate) fn new<F, Fut>(handle: F) -> JobService
    where
        F: Fn(JobContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Payload, HandlerError>> + Send + 'static,
    {
        JobService(Arc::new(move |context| handle(context).map(|ended| ended.map_err(JobFailure)).boxed()))
    }

    /// Wraps the service in a layer.
    pub(crate) fn within<L>(self, layer: &L) -> JobService
    where
        L: Layer<JobService>,
        L::Service: Service<JobContext, Response = Payload> + Clone + Send + 'static,
        <L::Service as Service<JobContext>>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        <L::Service as Service<JobContext>>::Future: Send,
    {
        // Every job gets a clone: `tower` layers share their state between clones.
        let service = Mutex::new(layer.layer(self));
        JobService(Arc::new(move |context| {
            let mut service = service.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let attempt = async move {
                poll_fn(|waker| service.poll_ready(waker)).await.map_err(|error| failed(error.into()))?;
                service.call(context).await.map_err(|error| failed(error.into()))
            };
            attempt.boxed()
        }))
    }

    #[cfg(test)]
    pub(crate) fn address(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }

    pub(crate) async fn run(&self, context: JobContext) -> Result<Payload, HandlerError> {
        (self.0)(context).await.map_err(|JobFailure(error)| error)
    }
}

impl Service<JobContext> for JobService {
    type Response = Payload;
    type Error = JobFailure;
    type Future = BoxFuture<'static, Result<Payload, JobFailure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), JobFailure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, context: JobContext) -> Self::Future {
        (self.0)(context)
    }
}

/// Returns the error of the handler; an error of a layer becomes a failed attempt.
fn failed(error: Box<dyn std::error::Error + Send + Sync>) -> JobFailure {
    error
        .downcast::<JobFailure>()
        .map_or_else(|error| JobFailure(HandlerError::retry("layer", error.to_string())), |failure| identity(*failure))
}
