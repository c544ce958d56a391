//! Handlers: what is done for a kind of job, and how it can end.

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

/// How a handler ends without a result. Any error becomes one by `?`, and its job is tried again as its policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerError {
    /// It did not work. Trying again may help.
    Retry {
        /// What went wrong.
        error: JobError,
        /// Not before this, whatever the policy says.
        after: Option<Duration>,
    },
    /// It did not work, and never will: the job is dead.
    NonRetryable(JobError),
    /// Not now; this was no attempt.
    Snooze(Duration),
}

impl HandlerError {
    /// It did not work. Trying again may help.
    pub fn retry(kind: impl Into<String>, message: impl Into<String>) -> HandlerError {
        HandlerError::Retry { error: JobError::new(kind, message), after: None }
    }

    /// The same, but not before this has passed: what a provider asks for that is overloaded.
    pub fn retry_after(wait: Duration, kind: impl Into<String>, message: impl Into<String>) -> HandlerError {
        HandlerError::Retry { error: JobError::new(kind, message), after: Some(wait) }
    }

    /// It did not work, and never will.
    pub fn non_retryable(kind: impl Into<String>, message: impl Into<String>) -> HandlerError {
        HandlerError::NonRetryable(JobError::new(kind, message))
    }

    /// Not now; this was no attempt.
    pub fn snooze(wait: Duration) -> HandlerError {
        HandlerError::Snooze(wait)
    }
}

/// The kind of the error is the name of its type, so that the same errors group.
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

    /// The handler of a kind: by its name, else by the longest beginning before a `*`.
    fn of(&self, kind: &JobKind) -> Option<JobService> {
        let exact = self.0.get(kind);
        let begins = |pattern: &&JobKind| {
            pattern.as_str().strip_suffix('*').is_some_and(|beginning| kind.as_str().starts_with(beginning))
        };
        let longest = || self.0.keys().filter(begins).max_by_key(|pattern| pattern.as_str().len());
        exact.or_else(|| self.0.get(longest()?)).cloned()
    }

    /// All of them as one: each job goes to the handler of its kind.
    fn together(self) -> JobService {
        JobService::new(move |context| {
            let handler = self.of(&context.job().kind);
            // Layers pass on the job that they were given.
            async move { handler.expect("a job without a handler is handed back before").run(context).await }
        })
    }
}

/// What a worker does with a job: its handlers, with the layers around them.
#[derive(Clone)]
pub(crate) struct Labour {
    handlers: Handlers,
    service: JobService,
}

impl Labour {
    pub(crate) fn new(handlers: Handlers, layers: impl FnOnce(JobService) -> JobService) -> Labour {
        let service = layers(handlers.clone().together());
        Labour { handlers, service }
    }

    /// Runs the handler of a job and says how its lease is to end; `None` if there is nothing to say. After the job was to be
    /// let go of, the handler has so long to come to an end.
    pub(crate) async fn run(&self, context: &JobContext, grace: Duration) -> Option<End> {
        if self.handlers.of(&context.job().kind).is_none() {
            return Some(End::Return);
        }
        // Also what the handler does before its first await is caught.
        let work = {
            let (service, context) = (self.service.clone(), context.clone());
            async move { service.run(context).await }
        };
        let ended = tokio::select! {
            ended = AssertUnwindSafe(work).catch_unwind() => ended,
            stop = context.overdue(grace) => return abandoned(context, stop),
        };
        let usage = context.reported();
        Some(match ended {
            Ok(Ok(result)) => End::Complete { result, usage },
            Ok(Err(HandlerError::Retry { error, after })) => {
                let retry_after = after.map(|after| Span::from(after).min(DELAY_MAX));
                End::Fail { error: fitting(error), retryable: true, retry_after, usage }
            }
            Ok(Err(HandlerError::NonRetryable(error))) => failed(error, false, usage),
            // What was spent must be told, and a lease that is put off tells nothing.
            Ok(Err(HandlerError::Snooze(wait))) if usage.is_some() => {
                let error = JobError::new("snoozed", "put off after it had spent something");
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

/// A handler that did not come to an end in time.
fn abandoned(context: &JobContext, stop: Stop) -> Option<End> {
    let usage = context.reported();
    let message = "the handler did not come to an end in time";
    match stop {
        // Only what it spent still matters.
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
    End::Fail { error: fitting(error), retryable, retry_after: None, usage }
}

/// An error as it may be reported: what is too long is cut off.
fn fitting(error: JobError) -> JobError {
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
    fn the_nearest_handler_is_found() {
        let mut handlers = Handlers::default();
        for kind in ["video.cut", "video.*", "*"] {
            let answer = kind.to_owned();
            let handler = move |(): (), _: JobContext| std::future::ready(Ok::<_, HandlerError>(answer.clone()));
            handlers.add(JobKind::new(kind).unwrap(), handler);
        }
        let found = |kind: &str| handlers.of(&JobKind::new(kind).unwrap()).map(|handler| handler.address());
        let of = |pattern: &str| handlers.0.get(&JobKind::new(pattern).unwrap()).map(JobService::address);
        for (kind, pattern) in [("video.cut", "video.cut"), ("video.mix", "video.*"), ("mail.send", "*")] {
            assert_eq!(found(kind), of(pattern), "{kind}");
        }
    }

    #[test]
    fn errors_are_cut_to_what_is_taken() {
        let long = "ä".repeat(ERROR_BYTES_MAX);
        let error = fitting(JobError::new("", long));
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
