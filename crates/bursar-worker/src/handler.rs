//! Handlers: the functions that process jobs, and how an attempt ends.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bursar_core::bounds::{DELAY_MAX, ERROR_BYTES_MAX};
use bursar_core::job::{End, JobError};
use bursar_core::name::JobKind;
use bursar_core::payload::Payload;
use bursar_core::time::Span;
use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::{JobContext, Stop};
use crate::service::JobService;

/// How a handler ends without a result. Any error converts to [`HandlerError::Retry`] with `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerError {
    /// The attempt failed; the job is retried as its retry policy says.
    Retry {
        /// What went wrong.
        error: JobError,
        /// How long to wait before the next attempt, instead of the delay of the policy.
        after: Option<Duration>,
    },
    /// The attempt failed, and another cannot succeed: the job is dead.
    NonRetryable(JobError),
    /// The job runs again after this time, and the attempt does not count.
    Snooze(Duration),
}

impl HandlerError {
    /// A failed attempt that is retried as the retry policy says.
    pub fn retry(kind: impl Into<String>, message: impl Into<String>) -> HandlerError {
        HandlerError::Retry { error: JobError::new(kind, message), after: None }
    }

    /// A failed attempt that is retried after `wait`, such as the retry-after time of an overloaded service.
    pub fn retry_after(wait: Duration, kind: impl Into<String>, message: impl Into<String>) -> HandlerError {
        HandlerError::Retry { error: JobError::new(kind, message), after: Some(wait) }
    }

    /// A failed attempt after which the job is dead.
    pub fn non_retryable(kind: impl Into<String>, message: impl Into<String>) -> HandlerError {
        HandlerError::NonRetryable(JobError::new(kind, message))
    }

    /// A job that runs again after `wait`; the attempt does not count.
    pub fn snooze(wait: Duration) -> HandlerError {
        HandlerError::Snooze(wait)
    }
}

/// The kind of the error is the name of its type, so that equal errors have the same fingerprint.
impl<E: std::error::Error> From<E> for HandlerError {
    fn from(error: E) -> HandlerError {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            message = format!("{message}: {source}");
            cause = source.source();
        }
        HandlerError::retry(std::any::type_name::<E>(), message)
    }
}

/// Handlers by kind.
#[derive(Clone, Default)]
pub(crate) struct Handlers(BTreeMap<JobKind, JobService>);

impl Handlers {
    pub(crate) fn add<P, R, F, Fut>(&mut self, kind: JobKind, handler: F)
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(P, JobContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let handle = move |context: JobContext| {
            let handler = handler.clone();
            async move {
                let payload = serde_json::from_str(context.job().payload.as_str())
                    .map_err(|error| HandlerError::non_retryable("payload", error.to_string()))?;
                let result = handler(payload, context).await?;
                Payload::of(&result).map_err(|error| HandlerError::non_retryable("result", error.to_string()))
            }
        };
        self.0.insert(kind, JobService::new(handle));
    }

    pub(crate) fn kinds(&self) -> Vec<JobKind> {
        self.0.keys().cloned().collect()
    }

    /// Returns the handler of a kind: the one with its exact name, else the one with the longest matching prefix before a `*`.
    fn find(&self, kind: &JobKind) -> Option<JobService> {
        let exact = self.0.get(kind);
        let begins = |pattern: &&JobKind| {
            pattern.as_str().strip_suffix('*').is_some_and(|beginning| kind.as_str().starts_with(beginning))
        };
        let longest = || self.0.keys().filter(begins).max_by_key(|pattern| pattern.as_str().len());
        exact.or_else(|| self.0.get(longest()?)).cloned()
    }

    /// Combines the handlers to one service, which passes each job to the handler of its kind.
    fn into_service(self) -> JobService {
        JobService::new(move |context| {
            let handler = self.find(&context.job().kind);
            async move { handler.expect("the dispatcher returns jobs without a handler").run(context).await }
        })
    }
}

/// Runs the handler of a job inside the layers of the worker.
#[derive(Clone)]
pub(crate) struct Dispatcher {
    handlers: Handlers,
    service: JobService,
}

impl Dispatcher {
    pub(crate) fn new(handlers: Handlers, layers: impl FnOnce(JobService) -> JobService) -> Dispatcher {
        let service = layers(handlers.clone().into_service());
        Dispatcher { handlers, service }
    }

    /// Runs the handler of a job and returns how to end the lease; `None` if the lease is lost and nothing was spent. A handler that must
    /// stop has the grace period to finish, then it is dropped.
    pub(crate) async fn run(&self, context: &JobContext, grace: Duration) -> Option<End> {
        if self.handlers.find(&context.job().kind).is_none() {
            return Some(End::Return);
        }
        // The service is called inside the future, so that a panic before the first await is caught too.
        let attempt = {
            let (service, context) = (self.service.clone(), context.clone());
            async move { service.run(context).await }
        };
        let ended = tokio::select! {
            ended = AssertUnwindSafe(attempt).catch_unwind() => ended,
            stop = context.overdue(grace) => return overdue_end(context, stop),
        };
        let usage = context.reported();
        Some(match ended {
            Ok(Ok(result)) => End::Complete { result, usage, blobs: context.recorded_blobs() },
            Ok(Err(HandlerError::Retry { error, after })) => {
                let retry_after = after.map(|after| Span::from(after).min(DELAY_MAX));
                End::Fail { error: truncated(error), retryable: true, retry_after, usage }
            }
            Ok(Err(HandlerError::NonRetryable(error))) => failed(error, false, usage),
            // A snooze carries no usage, so an attempt that has spent units is reported as failed.
            Ok(Err(HandlerError::Snooze(wait))) if usage.is_some() => {
                let error = JobError::new("snoozed", "the handler snoozed the job after it had reported usage");
                let retry_after = Some(Span::from(wait).min(DELAY_MAX));
                End::Fail { error, retryable: true, retry_after, usage }
            }
            Ok(Err(HandlerError::Snooze(wait))) => End::Snooze { delay: Span::from(wait).min(DELAY_MAX) },
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                failed(JobError::new("panic", text.unwrap_or_default()), true, usage)
            }
        })
    }
}

/// Returns how to end the lease of a handler that did not stop in its grace period.
fn overdue_end(context: &JobContext, stop: Stop) -> Option<End> {
    let usage = context.reported();
    let message = "the handler did not stop within its grace period";
    match stop {
        // The result is discarded, but spent units are still charged.
        Stop::Lost => usage.map(|usage| failed(JobError::new("lease lost", message), true, Some(usage))),
        Stop::Cancelled => Some(failed(JobError::new("cancelled", message), true, usage)),
        Stop::Draining if usage.is_some() => {
            let error = JobError::new("drained", message);
            Some(End::Fail { error, retryable: true, retry_after: Some(Span::ZERO), usage })
        }
        Stop::Draining => Some(End::Return),
    }
}

fn failed(error: JobError, retryable: bool, usage: Option<Vec<bursar_core::job::Usage>>) -> End {
    End::Fail { error: truncated(error), retryable, retry_after: None, usage }
}

/// Truncates the texts of an error to the maximum length of a report.
fn truncated(error: JobError) -> JobError {
    let cut = |text: String| match text.len() {
        0..=ERROR_BYTES_MAX => text,
        _ => text[..text.floor_char_boundary(ERROR_BYTES_MAX)].to_owned(),
    };
    let kind = if error.kind.is_empty() { "error".to_owned() } else { cut(error.kind) };
    JobError { kind, message: cut(error.message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_handler_is_chosen() {
        let mut handlers = Handlers::default();
        for kind in ["video.cut", "video.*", "*"] {
            let answer = kind.to_owned();
            let handler = move |(): (), _: JobContext| std::future::ready(Ok::<_, HandlerError>(answer.clone()));
            handlers.add(JobKind::new(kind).unwrap(), handler);
        }
        let found = |kind: &str| handlers.find(&JobKind::new(kind).unwrap()).map(|handler| handler.address());
        let of = |pattern: &str| handlers.0.get(&JobKind::new(pattern).unwrap()).map(JobService::address);
        for (kind, pattern) in [("video.cut", "video.cut"), ("video.mix", "video.*"), ("mail.send", "*")] {
            assert_eq!(found(kind), of(pattern), "{kind}");
        }
    }

    #[test]
    fn long_errors_are_truncated() {
        let long = "ä".repeat(ERROR_BYTES_MAX);
        let error = truncated(JobError::new("", long));
        assert_eq!(error.kind, "error");
        assert_eq!(error.message.len(), ERROR_BYTES_MAX);
    }

    #[test]
    fn any_error_becomes_a_failed_attempt_with_its_causes() {
        let error = "x".parse::<i64>().unwrap_err();
        let expected = HandlerError::retry("core::num::error::ParseIntError", "invalid digit found in string");
        assert_eq!(HandlerError::from(error), expected);
    }
}
