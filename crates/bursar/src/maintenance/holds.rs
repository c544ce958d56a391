//! Sweeping holds: records expired holds as expired. A hold stops counting at the instant it expires, whether or not it was swept.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_core::bounds::{SWEEP_DEFAULT, SWEEP_MAX};
use bursar_core::id::HoldId;
use bursar_core::name::Tenant;
use bursar_core::request::Op;
use bursar_core::time::Time;
use bursar_store::Store;

use super::bulk::{Done, execute_on_all};
use crate::engine::Engine;
use crate::error::Error;

/// The result of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Holds that were recorded as expired.
    pub expired_count: usize,
    /// The instant up to which expired holds were looked for.
    pub scanned_at: Time,
}

/// Records at most `limit` expired holds. Fails only if none could be recorded.
pub(crate) async fn sweep(store: &Arc<dyn Store>, engine: &Engine, limit: usize) -> Result<Swept, Error> {
    let Done { done: (swept, _), error } = sweep_page(store, engine, limit).await?;
    match error {
        Some(error) if swept.expired_count == 0 => Err(error),
        _ => Ok(swept),
    }
}

/// Records expired holds, page by page, until a page is not full or none of it could be recorded.
pub(super) async fn sweep_all(store: &Arc<dyn Store>, engine: &Engine) -> Result<(), Error> {
    while sweep_page(store, engine, SWEEP_DEFAULT).await?.done.1 {}
    Ok(())
}

/// Records a page of expired holds. Returns the result, and whether more may be due.
async fn sweep_page(store: &Arc<dyn Store>, engine: &Engine, limit: usize) -> Result<Done<(Swept, bool)>, Error> {
    let limit = limit.min(SWEEP_MAX);
    let scanned_at = store.now().await?;
    let due = store.due_holds(limit).await?;
    let found = due.len();
    let mut by_tenant: BTreeMap<Tenant, Vec<HoldId>> = BTreeMap::new();
    for (tenant, hold) in due {
        by_tenant.entry(tenant).or_default().push(hold);
    }
    let (mut expired_count, mut last_error) = (0, None);
    for (tenant, holds) in by_tenant {
        let part = execute_on_all(engine, &tenant, holds, |holds| Op::Expire { holds }).await;
        expired_count += part.done;
        last_error = part.error.or(last_error);
    }
    let more = found == limit && expired_count > 0;
    Ok(Done { done: (Swept { expired_count, scanned_at }, more), error: last_error })
}
