//! Executes one operation on many rows: in one request if possible, in one request for each row if that fails.

use std::fmt::Debug;

use bursar_core::answer::Answer;
use bursar_core::context::Context;
use bursar_core::name::Tenant;
use bursar_core::request::{Op, Request};
use bursar_store::StoreError;
use futures_util::future::join_all;

use crate::engine::Engine;
use crate::error::Error;

/// The result of a part of maintenance. An error on one row does not stop the work on the others.
pub(super) struct Done<T> {
    /// The result of what succeeded.
    pub(super) done: T,
    /// The last error, if there were any. All errors have been logged.
    pub(super) error: Option<Error>,
}

/// Executes an operation on all items in one request. If that fails because of some of the items, executes it on each item by itself.
/// Returns the number of items on which it succeeded.
pub(super) async fn execute_on_all<T: Clone + Debug>(
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
    // Concurrently, so that the waits for locked rows overlap.
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

/// Returns whether an error may come from some of the rows only, so that the others can succeed.
fn concerns_rows(error: &Error) -> bool {
    match error {
        Error::Refused(_) | Error::LeaseLost(_) | Error::Internal(_) => true,
        Error::Store(error) => {
            matches!(**error, StoreError::Busy(_) | StoreError::Corrupt { .. } | StoreError::Rejected(_))
        }
        Error::Overloaded { .. } | Error::Worker(_) => false,
    }
}
