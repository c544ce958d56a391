//! Deleting what is kept for a limited time: figures per minute, and unused scopes of flow keys.

use bursar_core::scope::ScopeState;
use bursar_core::state::{QueueKey, ScopeKey};
use rusqlite::{Connection, params};

use super::read::scope_key;
use super::writer::Shared;
use crate::codec::{Packed, stored_name};
use crate::error::StoreError;
use crate::figures::first_minute_kept;
use crate::job_row::minute_tallies;
use crate::sqlite::error::store_error;

/// Deletes old figures of up to `limit` queues, and returns the last queue. Seeks from one queue to the next instead of reading all
/// figures.
pub(super) fn figures(
    shared: &Shared,
    conn: &Connection,
    after: Option<QueueKey>,
    limit: usize,
) -> Result<Option<QueueKey>, StoreError> {
    let next =
        "SELECT tenant, queue FROM bursar_tallies WHERE (tenant, queue) > (?1, ?2) ORDER BY tenant, queue LIMIT 1";
    let delete = "DELETE FROM bursar_tallies WHERE tenant = ?1 AND queue = ?2 AND what = ?3 AND minute < ?4";
    let first = first_minute_kept(shared.clock.now());
    let rows = shared.rows(conn);
    let mut at = after;
    for _ in 0..limit {
        let (tenant, queue) = at.as_ref().map_or(("", ""), |(tenant, queue)| (tenant.as_str(), queue.as_str()));
        let found = rows.all(next, params![tenant, queue], |row| {
            let text = |column| row.get::<_, String>(column).map_err(store_error);
            Ok::<QueueKey, StoreError>((stored_name("tenant", text(0)?)?, stored_name("queue", text(1)?)?))
        })?;
        let Some(found) = found.into_iter().next() else { return Ok(None) };
        let (tenant, queue): (&str, &str) = (found.0.as_str(), found.1.as_str());
        for what in minute_tallies() {
            conn.prepare_cached(delete)
                .and_then(|mut delete| delete.execute(params![tenant, queue, what, first]))
                .map_err(store_error)?;
        }
        at = Some(found);
    }
    Ok(at)
}

/// Returns the scopes of unused flow keys among up to `limit` scopes, and where to continue.
pub(super) fn unused_flows(
    shared: &Shared,
    conn: &Connection,
    after: Option<&ScopeKey>,
    limit: usize,
) -> Result<(Vec<ScopeKey>, Option<ScopeKey>), StoreError> {
    let sql = "SELECT tenant, scope, state FROM bursar_scopes WHERE (tenant, scope) > (?1, ?2)
        ORDER BY tenant, scope LIMIT ?3";
    let (tenant, scope) = after.map_or(("", ""), |(tenant, scope)| (tenant.as_str(), scope.as_str()));
    let now = shared.clock.now();
    let page = shared.rows(conn).all(sql, params![tenant, scope, limit as i64], |row| {
        let key = scope_key(row)?;
        let internal = key.1.is_internal();
        let unused = internal
            && is_unused(&key, row.get_ref(2).map_err(store_error)?.as_blob().map_err(|_| not_a_blob())?, now)?;
        Ok((key, unused))
    })?;
    let next = page.last().filter(|_| page.len() == limit).map(|(key, _)| key.clone());
    Ok((page.into_iter().filter(|(_, unused)| *unused).map(|(key, _)| key).collect(), next))
}

/// Deletes those scopes that are still unused.
pub(super) fn flows(shared: &Shared, conn: &Connection, unused: &[ScopeKey]) -> Result<(), StoreError> {
    let rows = shared.rows(conn);
    let now = shared.clock.now();
    for key in unused {
        let params = params![key.0.as_str(), key.1.as_str()];
        let sql = "SELECT state FROM bursar_scopes WHERE tenant = ?1 AND scope = ?2";
        let found = rows.all(sql, params, |row| {
            is_unused(key, row.get_ref(0).map_err(store_error)?.as_blob().map_err(|_| not_a_blob())?, now)
        })?;
        if found == [true] {
            for table in ["bursar_scopes", "bursar_postings", "bursar_rollups"] {
                let delete = format!("DELETE FROM {table} WHERE tenant = ?1 AND scope = ?2");
                conn.prepare_cached(&delete).and_then(|mut delete| delete.execute(params)).map_err(store_error)?;
            }
        }
    }
    Ok(())
}

fn is_unused(key: &ScopeKey, state: &[u8], now: bursar_core::time::Time) -> Result<bool, StoreError> {
    Ok(ScopeState::unpack(state)?.is_unused_flow(&key.1, now))
}

fn not_a_blob() -> StoreError {
    StoreError::corrupt("scope", "its state is not a blob")
}
