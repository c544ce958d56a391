//! The span of a request.

use std::sync::Arc;

use axum::http::StatusCode;
use bursar::{Span as Duration, Time, TraceParent};
use tokio::time::Instant;

use super::Otlp;
use super::span::{Attributes, Span, SpanKind};
use crate::app::App;
use crate::route::Route;
use crate::trace::Trace;

/// The span of a request that is running.
pub(crate) struct RequestSpan {
    otlp: Arc<Otlp>,
    route: Arc<Route>,
    context: TraceParent,
    parent: Option<u64>,
    timing: Timing,
}

impl RequestSpan {
    /// Begins the span of a request, if the request is recorded. Its trace is marked, so that jobs belong to the span.
    pub(crate) fn begin(app: &App, route: &Arc<Route>, trace: &Trace) -> Option<RequestSpan> {
        let otlp = app.otlp.as_ref().filter(|otlp| otlp.records(route, trace))?;
        let context = trace.record();
        let parent = trace.parent().map(|parent| parent.span());
        Some(RequestSpan { otlp: otlp.clone(), route: route.clone(), context, parent, timing: Timing::begin(app) })
    }

    /// Exports the span with the status of the answer.
    pub(crate) fn end(self, status: StatusCode) {
        // A caller without a token could otherwise add spans to the trace of anyone.
        if status == StatusCode::UNAUTHORIZED {
            return;
        }
        let RequestSpan { otlp, route, context, parent, timing } = self;
        let method = route.method_name();
        let mut attributes = Attributes::default()
            .text("http.request.method", method)
            .text("http.route", route.path)
            .number("http.response.status_code", status.as_u16().into());
        let error = status.is_server_error().then(|| status.as_str().to_owned());
        if let Some(error) = &error {
            attributes = attributes.text("error.type", error);
        }
        otlp.push(Span {
            context,
            parent,
            name: format!("{method} {}", route.path),
            kind: SpanKind::Server,
            began: timing.began,
            ended: timing.ended(),
            attributes,
            link: None,
            error,
        });
    }
}

/// When a span began. Its duration is measured by a clock that is never set back.
pub(super) struct Timing {
    pub(super) began: Time,
    since: Instant,
}

impl Timing {
    pub(super) fn begin(app: &App) -> Timing {
        Timing { began: app.clock.now(), since: Instant::now() }
    }

    pub(super) fn ended(&self) -> Time {
        self.began.after(Duration::from(self.since.elapsed()))
    }
}
