//! Tidying: brings idle scopes up to date, and replaces old postings by sums.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_core::name::{Scope, Tenant};
use bursar_core::request::Op;
use bursar_core::state::ScopeKey;
use bursar_store::Store;

use super::bulk::{Done, execute_on_all};
use crate::engine::Engine;
use crate::error::Error;

/// The scopes of one page.
const SCOPES_PAGE: usize = 200;

/// Tidies the next page of scopes after `tidied`.
pub(super) async fn tidy_next(store: &Arc<dyn Store>, engine: &Engine, tidied: &mut Option<ScopeKey>) {
    // On PostgreSQL, reading the journal assigns positions to its new rows. Without this, the first reader would have to assign many.
    if let Err(error) = store.list_journal(u64::MAX - 1, 1).await {
        tracing::warn!(%error, "assigning journal positions failed, retrying later");
    }
    *tidied = tidy_page(store, engine, tidied.as_ref()).await.map_or_else(
        |error| {
            tracing::warn!(%error, "cleaning up scopes failed, starting over later");
            None
        },
        |part| part.done,
    );
}

/// Tidies every scope.
pub(super) async fn tidy_all(store: &Arc<dyn Store>, engine: &Engine) -> Result<(), Error> {
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
