//! OpenTelemetry: spans of requests, of jobs that are enqueued, and of attempts, sent to a receiver by OTLP.
//!
//! ```text
//!  span of the caller
//!   └ POST /v1/jobs      SERVER    request.rs   recorded if the trace of the request is sampled
//!      └ enqueue media   PRODUCER  enqueue.rs   its id is in the `traceparent` that the job keeps
//!         └ process media   CONSUMER  attempt.rs   from the lease to its end; its id follows from the job and the fence
//!            └ spans of the handler, which gets the id with the lease
//! ```
//!
//! - `settings.rs`: where the receiver is, and how much is sampled.
//! - `span.rs`: a span, and its JSON.
//! - `exporter.rs`: the task that sends batches of spans.
//!
//! No request waits for a span: spans go through a bounded queue, and are dropped and counted when it is full. Without settings nothing
//! of this exists. Spans have no payloads, no paths with ids, no tenants and no secrets.

pub(crate) mod attempt;
pub(crate) mod enqueue;
mod exporter;
pub(crate) mod request;
mod settings;
mod span;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bursar::{Bursar, Job, JobId, TraceParent};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub(crate) use self::exporter::Exporter;
pub use self::settings::{OtlpError, OtlpSettings};
use self::span::Span;
use crate::principal::permissions::Action;
use crate::route::Route;
use crate::trace::Trace;

/// How long the shutdown waits until all spans are sent.
const FLUSH: Duration = Duration::from_secs(5);

/// Takes spans and counts what becomes of them.
pub(crate) struct Otlp {
    queue: mpsc::Sender<Span>,
    sample: f64,
    exported: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// What became of spans since the start of the server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpanCounts {
    /// Spans that the receiver accepted.
    pub(crate) exported: u64,
    /// Spans that found no room in the queue.
    pub(crate) dropped: u64,
    /// Spans that the receiver rejected or that could not be delivered.
    pub(crate) failed: u64,
}

impl Otlp {
    /// Returns the queue for spans, and the exporter that empties it.
    pub(crate) fn new(settings: OtlpSettings) -> (Arc<Otlp>, Exporter) {
        let (queue, spans) = mpsc::channel(settings.queue.max(1));
        let [exported, dropped, failed] = std::array::from_fn(|_| AtomicU64::new(0));
        let otlp = Arc::new(Otlp { queue, sample: settings.sample, exported, dropped, failed });
        (otlp.clone(), Exporter::new(otlp, settings, spans))
    }

    /// Queues a span, or drops it if the queue is full.
    fn push(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.drop_spans(1);
        }
    }

    fn drop_spans(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns what became of spans.
    pub(crate) fn counts(&self) -> SpanCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SpanCounts { exported: load(&self.exported), dropped: load(&self.dropped), failed: load(&self.failed) }
    }

    /// Returns whether a request is recorded. The caller decides if it sent a trace. Otherwise a sample of the writes start one; reads and
    /// the calls of workers never do, because most of them are polls and heartbeats.
    fn records(&self, route: &Route, trace: &Trace) -> bool {
        match trace.parent() {
            Some(parent) => parent.is_sampled(),
            None => route.writes() && route.action != Action::JobsWork && self.samples(trace.trace()),
        }
    }

    /// Returns whether a new trace is sampled. It follows from the trace id, whose lowest 56 bits are random.
    fn samples(&self, trace: u128) -> bool {
        const BITS: u32 = 56;
        let random = (trace & ((1 << BITS) - 1)) as u64;
        (random as f64) < self.sample * (1_u64 << BITS) as f64
    }
}

/// Returns the trace context that a worker gets with a lease: that of the attempt's span, or that of the job if it is not sampled.
pub(crate) fn attempt_traceparent(job: &Job) -> Option<TraceParent> {
    let parent = job.traceparent?;
    Some(if parent.is_sampled() { parent.at(attempt_span(job.id, job.life.fence)) } else { parent })
}

/// Returns the span id of an attempt. It follows from the job and the fence, so the node that ends the attempt knows it without reading it.
fn attempt_span(job: JobId, fence: u64) -> u64 {
    derived_span("attempt", job.0, fence)
}

/// Returns a span id that follows from two numbers.
fn derived_span(what: &str, first: u128, second: u64) -> u64 {
    let mut digest = Sha256::new();
    digest.update(what.as_bytes());
    digest.update(first.to_be_bytes());
    digest.update(second.to_be_bytes());
    let digest: [u8; 32] = digest.finalize().into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    // An id of zero is invalid.
    u64::from_be_bytes([a, b, c, d, e, f, g, h]).max(1)
}

/// The tasks that export spans. They end when this is dropped.
pub(crate) struct Exporting {
    otlp: Arc<Otlp>,
    /// The task that makes spans of attempts, and the one that sends spans. They are stopped in this order.
    tasks: Vec<(JoinHandle<()>, Option<oneshot::Sender<()>>)>,
}

impl Exporting {
    /// Begins to export: spans of attempts that this process ends, and all spans in the queue.
    pub(crate) fn start(otlp: Arc<Otlp>, exporter: Exporter, bursar: &Bursar) -> Exporting {
        let (stop_attempts, attempts_stop) = oneshot::channel();
        let (stop_exporter, exporter_stop) = oneshot::channel();
        // Listening begins now, so that no attempt is missed that ends before the task runs.
        let attempts = tokio::spawn(attempt::export(otlp.clone(), bursar.listen(), attempts_stop));
        let exporter = tokio::spawn(exporter.run(exporter_stop));
        Exporting { otlp, tasks: vec![(attempts, Some(stop_attempts)), (exporter, Some(stop_exporter))] }
    }

    /// Sends what is queued, for a bounded time, and ends the tasks.
    pub(crate) async fn stop(mut self) {
        let stopped = async {
            for (task, stop) in &mut self.tasks {
                let _ = stop.take().map(|stop| stop.send(()));
                let _ = task.await;
            }
        };
        if timeout(FLUSH, stopped).await.is_err() {
            let SpanCounts { exported, dropped, failed } = self.otlp.counts();
            tracing::warn!(
                exported,
                dropped,
                failed,
                "the receiver of OpenTelemetry spans is too slow, leaving the last ones unsent"
            );
        }
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|(task, _)| task.abort());
    }
}
