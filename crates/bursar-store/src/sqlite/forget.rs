//! Deleting what is kept for a limited time: figures per minute, unused scopes, ended holds, expired grants and costs. Candidates are found
//! in a snapshot, so that the writer is needed only if there are any.

use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{GrantId, HoldId};
use bursar_core::name::Tenant;
use bursar_core::scope::ScopeState;
use bursar_core::state::{QueueKey, ScopeKey};
use bursar_core::time::Time;
use rusqlite::{Connection, Row, params};

use super::jobs;
use super::read::scope_key;
use super::rows::get_id;
use super::writer::Shared;
use crate::codec::{Packed, stored_name};
use crate::error::StoreError;
use crate::figures::{self, first_minute_kept};
use crate::job_row::minute_tallies;
use crate::sqlite::error::store_error;
use crate::store::Overdue;

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

/// Returns the unused scopes among up to `limit` scopes, and where to continue.
pub(super) fn unused_scopes(
    shared: &Shared,
    conn: &Connection,
    after: Option<&ScopeKey>,
    limit: usize,
) -> Result<(Vec<ScopeKey>, Option<ScopeKey>), StoreError> {
    let sql = "SELECT tenant, scope, state FROM bursar_scopes WHERE (tenant, scope) > (?1, ?2)
        ORDER BY tenant, scope LIMIT ?3";
    let (tenant, scope) = after.map_or(("", ""), |(tenant, scope)| (tenant.as_str(), scope.as_str()));
    let page = shared.rows(conn).all(sql, params![tenant, scope, limit as i64], |row| {
        let key = scope_key(row)?;
        let unused = is_unused(shared, &key, row, 2)?;
        Ok((key, unused))
    })?;
    let next = page.last().filter(|_| page.len() == limit).map(|(key, _)| key.clone());
    Ok((page.into_iter().filter(|(_, unused)| *unused).map(|(key, _)| key).collect(), next))
}

/// Deletes those scopes that are still unused, and returns how many.
pub(super) fn scopes(shared: &Shared, conn: &Connection, unused: &[ScopeKey]) -> Result<usize, StoreError> {
    let rows = shared.rows(conn);
    let mut count = 0;
    for key in unused {
        let params = params![key.0.as_str(), key.1.as_str()];
        let sql = "SELECT state FROM bursar_scopes WHERE tenant = ?1 AND scope = ?2";
        let found = rows.all(sql, params, |row| is_unused(shared, key, row, 0))?;
        if found == [true] {
            for table in ["bursar_scopes", "bursar_postings", "bursar_rollups"] {
                let delete = format!("DELETE FROM {table} WHERE tenant = ?1 AND scope = ?2");
                conn.prepare_cached(&delete).and_then(|mut delete| delete.execute(params)).map_err(store_error)?;
            }
            count += 1;
        }
    }
    Ok(count)
}

/// Returns whether a scope with its state in this column is unused.
fn is_unused(shared: &Shared, key: &ScopeKey, row: &Row<'_>, column: usize) -> Result<bool, StoreError> {
    let state = row.get_ref(column).map_err(store_error)?;
    let state = state.as_blob().map_err(|_| StoreError::corrupt("scope", "its state is not a blob"))?;
    Ok(ScopeState::unpack(state)?.is_unused(&key.1, shared.clock.now()))
}

/// Whether the job of a hold exists.
const HAS_JOB: &str = "SELECT EXISTS (SELECT 1 FROM bursar_jobs WHERE id = ?1)
    OR EXISTS (SELECT 1 FROM bursar_ended_jobs WHERE id = ?1)";
/// Whether the blob of a hold exists.
const HAS_BLOB: &str = "SELECT EXISTS (SELECT 1 FROM bursar_blobs WHERE id = ?1)";

/// Returns the holds that can be deleted among up to `limit` holds, and where to continue.
pub(super) fn forgettable_holds(
    shared: &Shared,
    conn: &Connection,
    after: Option<HoldId>,
    limit: usize,
    now: Time,
) -> Result<(Vec<HoldId>, Option<HoldId>), StoreError> {
    let (old, last) = old_holds(shared, conn, after, limit, now)?;
    let mut forgettable = Vec::new();
    for hold in old {
        if is_forgettable(shared, conn, &hold, now)? {
            forgettable.push(hold.id);
        }
    }
    Ok((forgettable, last))
}

/// Returns the holds that are old enough to be deleted among up to `limit` holds, and where to continue. Whether a job or a blob needs them
/// is not checked.
fn old_holds(
    shared: &Shared,
    conn: &Connection,
    after: Option<HoldId>,
    limit: usize,
    now: Time,
) -> Result<(Vec<Hold>, Option<HoldId>), StoreError> {
    let sql = "SELECT id, CASE WHEN state <> 0 THEN data END FROM bursar_holds WHERE id > ?1 ORDER BY id LIMIT ?2";
    let after = after.unwrap_or(HoldId(0)).0.to_be_bytes();
    let page = shared.rows(conn).all(sql, params![after, limit as i64], |row| {
        let data = row.get::<_, Option<Vec<u8>>>(1).map_err(store_error)?;
        // A row that cannot be read is left for `verify`, and does not keep others.
        let hold = data.and_then(|data| Hold::unpack(&data).ok());
        Ok((HoldId(get_id(row, 0).map_err(store_error)?), hold))
    })?;
    let last = page.last().filter(|_| page.len() == limit).map(|(id, _)| *id);
    let kept = |hold: &Hold| shared.setup.rules.holds_kept(&hold.tenant);
    let holds = page.into_iter().filter_map(|(_, hold)| hold);
    Ok((holds.filter(|hold| hold.is_forgettable(false, false, kept(hold), now)).collect(), last))
}

/// Deletes those holds that can still be deleted, and returns how many: a late commit may have changed one meanwhile.
pub(super) fn holds(shared: &Shared, conn: &Connection, found: &[HoldId]) -> Result<usize, StoreError> {
    let rows = shared.rows(conn);
    let mut count = 0;
    for hold in found {
        let id = hold.0.to_be_bytes();
        let read = |row: &Row<'_>| Hold::unpack(&row.get::<_, Vec<u8>>(0).map_err(store_error)?);
        let row = rows.all("SELECT data FROM bursar_holds WHERE id = ?1", [id], read)?.pop();
        if let Some(hold) = row
            && is_forgettable(shared, conn, &hold, shared.clock.now())?
        {
            let delete = "DELETE FROM bursar_holds WHERE id = ?1";
            conn.prepare_cached(delete).and_then(|mut delete| delete.execute([id])).map_err(store_error)?;
            count += 1;
        }
    }
    Ok(count)
}

fn is_forgettable(shared: &Shared, conn: &Connection, hold: &Hold, now: Time) -> Result<bool, StoreError> {
    let exists = |sql: &str, id: u128| -> Result<bool, StoreError> {
        let mut statement = conn.prepare_cached(sql).map_err(store_error)?;
        statement.query_row([id.to_be_bytes()], |row| row.get(0)).map_err(store_error)
    };
    let has_job = hold.job.map_or(Ok(false), |job| exists(HAS_JOB, job.0))?;
    let has_blob = hold.blob.map_or(Ok(false), |blob| exists(HAS_BLOB, blob.0))?;
    let kept = shared.setup.rules.holds_kept(&hold.tenant);
    Ok(hold.is_forgettable(has_job, has_blob, kept, now))
}

/// Returns the grants that can be deleted among up to `limit` grants, and where to continue. A grant that has expired never changes
/// in a way that matters here.
pub(super) fn forgettable_grants(
    shared: &Shared,
    conn: &Connection,
    after: Option<GrantId>,
    limit: usize,
    now: Time,
) -> Result<(Vec<GrantId>, Option<GrantId>), StoreError> {
    let sql = "SELECT id, expires_at, tenant FROM bursar_grants WHERE id > ?1 ORDER BY id LIMIT ?2";
    let after = after.unwrap_or(GrantId(0)).0.to_be_bytes();
    let page = shared.rows(conn).all(sql, params![after, limit as i64], |row| {
        let expires_at = Time::from_micros(row.get(1).map_err(store_error)?);
        let tenant: Tenant = stored_name("tenant", row.get(2).map_err(store_error)?)?;
        let kept = shared.setup.rules.grants_kept(&tenant);
        let forgettable = Grant::is_forgettable(expires_at, kept, now);
        Ok((GrantId(get_id(row, 0).map_err(store_error)?), forgettable))
    })?;
    let next = page.last().filter(|_| page.len() == limit).map(|(id, _)| *id);
    Ok((page.into_iter().filter(|(_, forgettable)| *forgettable).map(|(id, _)| id).collect(), next))
}

/// Deletes grants and their payloads.
pub(super) fn grants(conn: &Connection, found: &[GrantId]) -> Result<(), StoreError> {
    for grant in found {
        for delete in ["DELETE FROM bursar_grants WHERE id = ?1", "DELETE FROM bursar_payloads WHERE id = ?1"] {
            let mut delete = conn.prepare_cached(delete).map_err(store_error)?;
            delete.execute([grant.0.to_be_bytes()]).map_err(store_error)?;
        }
    }
    Ok(())
}

/// Counts rows that should have been deleted before an instant.
pub(super) fn overdue(shared: &Shared, conn: &Connection, before: Time, limit: usize) -> Result<Overdue, StoreError> {
    let keys = "SELECT count(*) FROM (SELECT 1 FROM bursar_keys WHERE until <= ?1 LIMIT ?2)";
    let keys: i64 =
        conn.query_row(keys, params![before.micros(), limit as i64], |row| row.get(0)).map_err(store_error)?;
    let is_overdue = |hold: &&Hold| hold.is_overdue(shared.setup.rules.holds_kept(&hold.tenant), before);
    Ok(Overdue {
        keys: keys as usize,
        holds: old_holds(shared, conn, None, limit, before)?.0.iter().filter(is_overdue).count(),
        grants: forgettable_grants(shared, conn, None, limit, before)?.0.len(),
        jobs: jobs::retention_over(&shared.rows(conn), limit, before)?.len(),
    })
}

/// Returns the next tenant with costs, and whether some of them are too old.
pub(super) fn tenant_with_costs(
    shared: &Shared,
    conn: &Connection,
    after: Option<&Tenant>,
) -> Result<Option<(Tenant, bool)>, StoreError> {
    let sql = "SELECT tenant, day FROM bursar_costs WHERE tenant > ?1 ORDER BY tenant, day LIMIT 1";
    let found = shared.rows(conn).all(sql, [after.map_or("", Tenant::as_str)], |row| {
        let tenant: Tenant = stored_name("tenant", row.get(0).map_err(store_error)?)?;
        let old = row.get::<_, i64>(1).map_err(store_error)? < first_day_kept(shared, &tenant);
        Ok((tenant, old))
    })?;
    Ok(found.into_iter().next())
}

/// Deletes costs of a tenant that are too old.
pub(super) fn costs(shared: &Shared, conn: &Connection, tenant: &Tenant, limit: usize) -> Result<usize, StoreError> {
    let delete = "DELETE FROM bursar_costs WHERE (tenant, day, queue, kind, scope) IN (
        SELECT tenant, day, queue, kind, scope FROM bursar_costs WHERE tenant = ?1 AND day < ?2
        ORDER BY day, queue, kind, scope LIMIT ?3)";
    let first = first_day_kept(shared, tenant);
    let mut delete = conn.prepare_cached(delete).map_err(store_error)?;
    delete.execute(params![tenant.as_str(), first, limit as i64]).map_err(store_error)
}

fn first_day_kept(shared: &Shared, tenant: &Tenant) -> i64 {
    figures::first_day_kept(shared.setup.rules.costs_kept(tenant), shared.clock.now())
}
