//! The span of the jobs that a request enqueues.

use std::sync::Arc;

use bursar::{Context, JobId, JobSpec, TraceParent};

use super::request::Timing;
use super::span::{Attributes, Span, SpanKind};
use super::{Otlp, derived_span};
use crate::call::Call;

/// The name of the system in attributes.
pub(super) const SYSTEM: &str = "bursar";

/// The span of jobs that are being enqueued.
pub(crate) struct EnqueueSpan {
    otlp: Arc<Otlp>,
    context: TraceParent,
    parent: u64,
    timing: Timing,
    name: String,
    attributes: Attributes,
}

impl EnqueueSpan {
    /// Begins the span of the jobs that a call enqueues, if the call is recorded. The context then names the span, so the jobs keep it.
    pub(crate) fn begin(call: &Call, context: &mut Context, jobs: &[JobSpec]) -> Option<EnqueueSpan> {
        let (otlp, request) = (call.app.otlp.as_ref()?, call.trace.recorded()?);
        let own = request.at(derived_span("enqueue", request.trace(), request.span()));
        context.traceparent = Some(own);
        let mut attributes = Attributes::default()
            .text("messaging.system", SYSTEM)
            .text("messaging.operation.name", "enqueue")
            .text("messaging.operation.type", "send");
        let first = jobs.first();
        let queue = first.map(|job| &job.queue).filter(|queue| jobs.iter().all(|job| job.queue == **queue));
        if let Some(queue) = queue {
            attributes = attributes.text("messaging.destination.name", queue.as_str());
        }
        if let Some(kind) = first.map(|job| &job.kind).filter(|kind| jobs.iter().all(|job| job.kind == **kind)) {
            attributes = attributes.text("bursar.job.kind", kind.as_str());
        }
        Some(EnqueueSpan {
            otlp: otlp.clone(),
            context: own,
            parent: request.span(),
            timing: Timing::begin(&call.app),
            name: queue.map_or_else(|| "enqueue".to_owned(), |queue| format!("enqueue {queue}")),
            attributes,
        })
    }

    /// Begins the span of the jobs that a call enqueues, and makes the call belong to it.
    pub(crate) fn begin_in(call: &mut Call, jobs: &[JobSpec]) -> Option<EnqueueSpan> {
        let mut context = call.context.clone();
        let span = EnqueueSpan::begin(call, &mut context, jobs)?;
        call.context = context;
        Some(span)
    }

    /// Exports the span once the jobs are enqueued.
    pub(crate) fn end(self, jobs: impl Iterator<Item = JobId>) {
        let jobs: Vec<JobId> = jobs.collect();
        let attributes = match jobs.as_slice() {
            [] => return,
            [job] => self.attributes.text("messaging.message.id", &job.to_string()),
            jobs => self.attributes.number("messaging.batch.message_count", jobs.len() as u64),
        };
        self.otlp.push(Span {
            context: self.context,
            parent: Some(self.parent),
            name: self.name,
            kind: SpanKind::Producer,
            began: self.timing.began,
            ended: self.timing.ended(),
            attributes,
            link: None,
            error: None,
        });
    }
}
