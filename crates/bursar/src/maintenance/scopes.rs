//! Tidying: brings idle scopes up to date, replaces old postings by sums, and deletes rows that are no longer needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_core::bounds::SWEEP_MAX;
use bursar_core::name::{Scope, Tenant};
use bursar_core::request::Op;
use bursar_core::state::{QueueKey, ScopeKey};
use bursar_store::Store;

use super::bulk::{Done, execute_on_all};
use crate::engine::Engine;
use crate::error::Error;

/// The scopes of one page.
const SCOPES_PAGE: usize = 200;
/// The queues whose old figures are deleted in one step.
const QUEUES_PAGE: usize = 100;
/// The scopes among which unused flow keys are deleted in one step.
const FLOWS_PAGE: usize = 1_000;

/// Where the background task continues: the last key that each part has handled.
#[derive(Default)]
pub(super) struct Cursors {
    tidied: Option<ScopeKey>,
    figures: Option<QueueKey>,
    flows: Option<ScopeKey>,
}

/// Does one page of each part. The parts are independent: an error is logged and does not stop the others.
pub(super) async fn tidy_next(store: &Arc<dyn Store>, engine: &Engine, cursors: &mut Cursors) {
    if let Err(error) = store.forget_keys(SWEEP_MAX).await {
        tracing::warn!(%error, "deleting expired idempotency keys failed, retrying later");
    }
    // On PostgreSQL, reading the journal assigns positions to its new rows. Without this, the first reader would have to assign many.
    if let Err(error) = store.list_journal(u64::MAX - 1, 1).await {
        tracing::warn!(%error, "assigning journal positions failed, retrying later");
    }
    cursors.figures = store.forget_figures(cursors.figures.as_ref(), QUEUES_PAGE).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "deleting old queue statistics failed, starting over later");
        None
    });
    cursors.flows = store.forget_flows(cursors.flows.as_ref(), FLOWS_PAGE).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "deleting unused flow keys failed, starting over later");
        None
    });
    cursors.tidied = tidy_page(store, engine, cursors.tidied.as_ref()).await.map_or_else(
        |error| {
            tracing::warn!(%error, "cleaning up scopes failed, starting over later");
            None
        },
        |part| part.done,
    );
}

/// Tidies every scope, and deletes expired keys, old figures and unused flow keys. An error of a scope is returned only after everything
/// else is done.
pub(crate) async fn tidy_all(store: &Arc<dyn Store>, engine: &Engine) -> Result<(), Error> {
    let tidied = tidy_scopes(store, engine).await;
    while store.forget_keys(SWEEP_MAX).await? == SWEEP_MAX {}
    let mut queue = None;
    loop {
        queue = store.forget_figures(queue.as_ref(), QUEUES_PAGE).await?;
        if queue.is_none() {
            break;
        }
    }
    let mut scope = None;
    loop {
        scope = store.forget_flows(scope.as_ref(), FLOWS_PAGE).await?;
        if scope.is_none() {
            return tidied;
        }
    }
}

async fn tidy_scopes(store: &Arc<dyn Store>, engine: &Engine) -> Result<(), Error> {
    let (mut after, mut last_error) = (None, None);
    loop {
        let part = tidy_page(store, engine, after.as_ref()).await?;
        last_error = part.error.or(last_error);
        after = part.done;
        if after.is_none() {
            return last_error.map_or(Ok(()), Err);
        }
    }
}

/// Tidies the page of scopes after a key. Returns the last key of the page, `None` at the end.
async fn tidy_page(
    store: &Arc<dyn Store>,
    engine: &Engine,
    after: Option<&ScopeKey>,
) -> Result<Done<Option<ScopeKey>>, Error> {
    let page = store.list_scope_keys(after, SCOPES_PAGE).await?;
    let mut by_tenant: BTreeMap<Tenant, Vec<Scope>> = BTreeMap::new();
    for (tenant, scope) in &page {
        by_tenant.entry(tenant.clone()).or_default().push(scope.clone());
    }
    let mut last_error = None;
    for (tenant, scopes) in by_tenant {
        last_error = execute_on_all(engine, &tenant, scopes, |scopes| Op::Tidy { scopes }).await.error.or(last_error);
    }
    let next = if page.len() < SCOPES_PAGE { None } else { page.into_iter().next_back() };
    Ok(Done { done: next, error: last_error })
}
