//! One operation on many rows: together if possible, one by one if some of them fail.

use std::fmt::Debug;

use bursar_core::answer::Answer;
use bursar_core::context::Context;
use bursar_core::name::Tenant;
use bursar_core::request::{Op, Request};
use bursar_store::StoreError;
use futures_util::future::join_all;

use crate::engine::Engine;
use crate::error::Error;

/// The result of a part of maintenance. A bad row does not keep the others from being maintained.
pub(super) struct Done<T> {
    pub(super) done: T,
    /// The last error; all were logged.
    pub(super) error: Option<Error>,
}

/// Executes an operation on all items together; one by one if that fails because of some of them. Returns how many were changed.
pub(super) async fn each<T: Clone + Debug>(
    engine: &Engine,
    tenant: &Tenant,
    items: Vec<T>,
    op: impl Fn(Vec<T>) -> Op,
) -> Done<usize> {
    let execute = |items: Vec<T>| {
        let request = Request::from(op(items)).in_context(Context::of(tenant.clone()));
        async move {
            Ok(match engine.submit(request).await?.answer {
                Answer::Swept { count } => count,
                Answer::Acted { each: answers, .. } => answers.iter().filter(|answer| answer.is_ok()).count(),
                _ => 0,
            })
        }
    };
    let error: Error = match execute(items.clone()).await {
        Ok(done) => return Done { done, error: None },
        Err(error) => error,
    };
    if items.len() <= 1 || !concerns_rows(&error) {
        tracing::warn!(%tenant, count = items.len(), first = ?items.first(), %error, "maintenance failed, retrying later");
        return Done { done: 0, error: Some(error) };
    }
    // All at the same time, so that locked rows are waited for together.
    let answers = join_all(items.iter().map(|item| execute(vec![item.clone()]))).await;
    let (mut done, mut last_error) = (0, None);
    for (item, answer) in items.iter().zip(answers) {
        match answer {
            Ok(count) => done += count,
            Err(error) => {
                tracing::warn!(%tenant, ?item, %error, "maintenance failed, retrying later");
                last_error = Some(error);
            }
        }
    }
    Done { done, error: last_error }
}

/// Whether an error comes from some of the rows, so that others may succeed. An unavailable database is not such an error.
fn concerns_rows(error: &Error) -> bool {
    match error {
        Error::Refused(_) | Error::LeaseLost(_) | Error::Internal(_) => true,
        Error::Store(error) => {
            matches!(**error, StoreError::Busy(_) | StoreError::Corrupt { .. } | StoreError::Rejected(_))
        }
        Error::Overloaded { .. } => false,
    }
}
