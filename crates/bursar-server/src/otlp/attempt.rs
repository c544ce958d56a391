//! The spans of attempts, from the lease to its end.
//!
//! The feed of this process has every lease that it ends: by a report, a cancellation or its expiry. Each end is committed by one process,
//! so one node exports the span.

use std::sync::Arc;

use bursar::{EndedAttempt, LeaseEnd, Missed, Notice, Notices, TraceParent};
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::enqueue::SYSTEM;
use super::span::{Attributes, Span, SpanKind};
use super::{Otlp, attempt_span};

/// Exports the spans of attempts until it is stopped, and then those of attempts that have ended already.
pub(super) async fn export(otlp: Arc<Otlp>, mut notices: Notices, mut stop: oneshot::Receiver<()>) {
    loop {
        tokio::select! {
            biased;
            _ = &mut stop => break,
            next = notices.next() => match next {
                Some(notice) => record(&otlp, notice),
                None => return,
            },
        }
    }
    while let Some(Some(notice)) = notices.next().now_or_never() {
        record(&otlp, notice);
    }
}

fn record(otlp: &Otlp, notice: Result<Notice, Missed>) {
    match notice {
        Ok(notice) => {
            if let Some(attempt) = notice.ended_attempt() {
                otlp.push(span(attempt, notice.context().traceparent));
            }
        }
        // Each of these requests may have ended an attempt.
        Err(Missed { commands }) => otlp.drop_spans(commands),
    }
}

/// Returns the span of an attempt. It is linked to the request that ended it, if that one belongs to another trace.
fn span(attempt: &EndedAttempt, ended_by: Option<TraceParent>) -> Span {
    let EndedAttempt {
        job, queue, kind, traceparent, attempt: number, fence, worker, began, ended, end, error, ..
    } = attempt;
    let outcome = match end {
        LeaseEnd::Completed => "completed",
        LeaseEnd::Failed => "failed",
        LeaseEnd::Snoozed => "snoozed",
        LeaseEnd::Returned => "returned",
        LeaseEnd::Lapsed => "lapsed",
        LeaseEnd::Cancelled => "cancelled",
    };
    let mut attributes = Attributes::default()
        .text("messaging.system", SYSTEM)
        .text("messaging.operation.name", "process")
        .text("messaging.operation.type", "process")
        .text("messaging.destination.name", queue.as_str())
        .text("messaging.message.id", &job.to_string())
        .text("messaging.client.id", worker.as_str())
        .text("bursar.job.kind", kind.as_str())
        .number("bursar.job.attempt", u64::from(*number))
        .text("bursar.job.outcome", outcome);
    if let Some(error) = error {
        attributes = attributes.text("error.type", error);
    }
    Span {
        context: traceparent.at(attempt_span(*job, *fence)),
        parent: Some(traceparent.span()),
        name: format!("process {queue}"),
        kind: SpanKind::Consumer,
        began: *began,
        ended: *ended,
        attributes,
        link: ended_by.filter(|other| other.is_sampled() && other.trace() != traceparent.trace()),
        error: error.clone(),
    }
}
