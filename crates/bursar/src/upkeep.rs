//! Upkeep: sweeping and tidying. It only tidies: no answer depends on it, and it may run anywhere any number of times
//! at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bursar_core::answer::Answer;
use bursar_core::bounds::{SWEEP_DEFAULT, SWEEP_MAX};
use bursar_core::context::Context;
use bursar_core::id::HoldId;
use bursar_core::name::{Scope, Tenant};
use bursar_core::request::{Op, Request};
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use bursar_store::Store;
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::error::Error;
use crate::instance::Inner;

/// How often the background sweeps unless told otherwise.
pub(crate) const EVERY: Duration = Duration::from_secs(5);
/// Scopes tidied in one go.
const PAGE: usize = 200;

/// What a sweep did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Holds written down as expired.
    pub expired_count: usize,
    /// The time up to which it looked.
    pub scanned_at: Time,
}

/// Writes down which holds have expired, at most so many.
pub(crate) async fn sweep(store: &Arc<dyn Store>, engine: &Engine, most: usize) -> Result<Swept, Error> {
    let (due, scanned_at) = store.due_holds(most.min(SWEEP_MAX)).await?;
    let mut by_tenant: BTreeMap<Tenant, Vec<HoldId>> = BTreeMap::new();
    for (tenant, hold) in due {
        by_tenant.entry(tenant).or_default().push(hold);
    }
    let mut expired_count = 0;
    for (tenant, holds) in by_tenant {
        let request = Request::from(Op::Expire { holds }).in_context(Context::of(tenant));
        if let Answer::Swept { count } = engine.submit(request).await?.answer {
            expired_count += count;
        }
    }
    Ok(Swept { expired_count, scanned_at })
}

/// Tidies a page of scopes after one; returns where to go on, `None` at the end.
async fn tidy_page(
    store: &Arc<dyn Store>,
    engine: &Engine,
    after: Option<&ScopeKey>,
) -> Result<Option<ScopeKey>, Error> {
    let page = store.page_scopes(after, PAGE).await?;
    let mut by_tenant: BTreeMap<Tenant, Vec<Scope>> = BTreeMap::new();
    for (tenant, scope) in &page {
        by_tenant.entry(tenant.clone()).or_default().push(scope.clone());
    }
    for (tenant, scopes) in by_tenant {
        engine.submit(Request::from(Op::Tidy { scopes }).in_context(Context::of(tenant))).await?;
    }
    Ok(if page.len() < PAGE { None } else { page.into_iter().next_back() })
}

/// Tidies every scope, and forgets keys whose time is over.
pub(crate) async fn tidy_all(store: &Arc<dyn Store>, engine: &Engine) -> Result<(), Error> {
    let mut after = None;
    loop {
        after = tidy_page(store, engine, after.as_ref()).await?;
        if after.is_none() {
            break;
        }
    }
    while store.forget_keys(SWEEP_MAX).await? == SWEEP_MAX {}
    Ok(())
}

/// Sweeps and tidies in the background until Bursar is gone.
pub(crate) fn spawn(inner: Weak<Inner>, every: Duration) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut after = None;
        loop {
            ticks.tick().await;
            let Some(inner) = inner.upgrade() else { return };
            match once(&inner, after.as_ref()).await {
                Ok(next) => after = next,
                Err(error) => tracing::warn!(%error, "upkeep failed; it is tried again"),
            }
        }
    })
}

async fn once(inner: &Inner, after: Option<&ScopeKey>) -> Result<Option<ScopeKey>, Error> {
    // Until fewer are found than asked for: the backlog of one tick does not wait for the next.
    while sweep(&inner.store, &inner.engine, SWEEP_DEFAULT).await?.expired_count == SWEEP_DEFAULT {}
    inner.store.forget_keys(SWEEP_MAX).await?;
    tidy_page(&inner.store, &inner.engine, after).await
}
