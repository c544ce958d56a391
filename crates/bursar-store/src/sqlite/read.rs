//! What is only read, and the rebuild.

use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::id::{GrantId, HoldId};
use bursar_core::live::ChargeMark;
use bursar_core::name::{Scope, Tenant};
use bursar_core::page::{Filling, Weighs};
use bursar_core::scope::ScopeState;
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use futures_util::FutureExt;
use rusqlite::{Connection, Row, params};

use crate::codec::stored;
use crate::error::StoreError;
use crate::rows::Rows;
use crate::sqlite::error::failed;
use crate::sqlite::rows::{get_id, get_time, id, unpack};
use crate::sqlite::schema;
use crate::sqlite::writer::Shared;
use crate::store::{Health, Journaled};
use crate::work;

pub(super) fn scope(shared: &Shared, conn: &Connection, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
    let mut rows = shared.rows(conn);
    let Some(row) = rows.read_scope(key)? else { return Ok(None) };
    let view = work::view(&mut rows, key, row, shared.clock.now()).now_or_never();
    view.expect("SQLite never waits within a transaction").map(Some)
}

pub(super) fn scopes(
    shared: &Shared,
    conn: &Connection,
    tenant: &Tenant,
    prefix: &str,
    after: Option<&Scope>,
    limit: usize,
) -> Result<Vec<(Scope, ScopeState)>, StoreError> {
    let sql = "SELECT scope FROM bursar_scopes
        WHERE tenant = ?1 AND scope > ?2 AND scope >= ?3 AND substr(scope, 1, length(?3)) = ?3 AND version > 0
        ORDER BY scope LIMIT ?4";
    let after = after.map_or("", Scope::as_str);
    let names = shared.rows(conn).all(sql, params![tenant.as_str(), after, prefix, limit as i64], |row| {
        stored::<Scope>("scope", row.get(0).map_err(failed)?)
    })?;
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let row = scope(shared, conn, &(tenant.clone(), name.clone()))?;
        found.extend(row.map(|row| (name, row)));
    }
    Ok(found)
}

pub(super) fn spent(conn: &Connection, key: &ScopeKey, from: Time, to: Time) -> Result<i64, StoreError> {
    let sql = "SELECT coalesce(sum(amount), 0) FROM bursar_postings WHERE tenant = ?1 AND scope = ?2 AND at >= ?3 AND at < ?4";
    let params = params![key.0.as_str(), key.1.as_str(), from.micros(), to.micros()];
    conn.query_row(sql, params, |row| row.get(0)).map_err(failed)
}

pub(super) fn live_holds(
    shared: &Shared,
    conn: &Connection,
    key: &ScopeKey,
    after: Option<ChargeMark>,
    limit: usize,
) -> Result<Vec<Hold>, StoreError> {
    let sql = "SELECT expires_at, hold FROM bursar_live_charges
        WHERE tenant = ?1 AND scope = ?2 AND (expires_at, hold) > (?3, ?4) ORDER BY expires_at, hold LIMIT ?5";
    let rows = shared.rows(conn);
    let Some(row) = rows.read_scope(key)? else { return Ok(Vec::new()) };
    let (at, hold) = after.unwrap_or((Time::MIN, HoldId(0)));
    let params = params![key.0.as_str(), key.1.as_str(), at.micros(), id(hold.0), limit as i64];
    let mark = |row: &Row<'_>| Ok((get_time(row, 0).map_err(failed)?, HoldId(get_id(row, 1).map_err(failed)?)));
    let ids = row.live_after(after, rows.all(sql, params, mark)?, limit);
    fill_page(ids, limit, |id| rows.read_hold(id))
}

pub(super) fn grants(
    shared: &Shared,
    conn: &Connection,
    tenant: &Tenant,
    after: Option<GrantId>,
    limit: usize,
) -> Result<Vec<Grant>, StoreError> {
    let sql = "SELECT data FROM bursar_grants WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
    let rows = shared.rows(conn);
    let after = after.map_or([0; 16], |after| id(after.0));
    let found: Vec<Grant> = rows.all(sql, params![tenant.as_str(), after, limit as i64], |row| unpack(row, 0))?;
    fill_page(found, limit, |grant| {
        let owner = grant.id.0;
        rows.attach(grant, owner).map(Some)
    })
}

/// As many items as go onto one page, each read when it is its turn.
pub(super) fn fill_page<K, T: Weighs>(
    keys: Vec<K>,
    limit: usize,
    mut read: impl FnMut(K) -> Result<Option<T>, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let (mut page, mut found) = (Filling::new(limit), Vec::new());
    for key in keys {
        if page.is_full() {
            break;
        }
        if let Some(item) = read(key)? {
            page.add(item.bytes());
            found.push(item);
        }
    }
    Ok(found)
}

pub(super) fn journal(
    shared: &Shared,
    conn: &Connection,
    after: u64,
    limit: usize,
) -> Result<Vec<Journaled>, StoreError> {
    // A reader may ask from the middle of a row.
    let sql = "SELECT position, at, prev, entries FROM bursar_journal
        WHERE position >= coalesce((SELECT position FROM bursar_journal WHERE position <= ?1 + 1 ORDER BY position DESC LIMIT 1), 0)
          AND position + count > ?1 + 1
        ORDER BY position LIMIT ?2";
    let rows = shared.rows(conn);
    rows.page(sql, params![i64::try_from(after).unwrap_or(i64::MAX - 1), limit as i64], limit, |row| {
        let batch = rows.unpack_batch(row)?;
        Ok(Journaled { position: batch.id.0 as u64, batch })
    })
}

pub(super) fn due_holds(
    shared: &Shared,
    conn: &Connection,
    limit: usize,
) -> Result<(Vec<(Tenant, HoldId)>, Time), StoreError> {
    let sql = "SELECT tenant, id FROM bursar_holds
        WHERE state = 0 AND expires_at <= ?1 AND expires_at < 9223372036854775807 ORDER BY expires_at LIMIT ?2";
    let now = shared.clock.now();
    let read = |row: &Row<'_>| {
        let tenant = stored::<Tenant>("tenant", row.get(0).map_err(failed)?)?;
        Ok((tenant, HoldId(get_id(row, 1).map_err(failed)?)))
    };
    Ok((shared.rows(conn).all(sql, params![now.micros(), limit as i64], read)?, now))
}

pub(super) fn page_scopes(
    shared: &Shared,
    conn: &Connection,
    after: Option<&ScopeKey>,
    limit: usize,
) -> Result<Vec<ScopeKey>, StoreError> {
    let sql =
        "SELECT tenant, scope FROM bursar_scopes WHERE (tenant, scope) > (?1, ?2) ORDER BY tenant, scope LIMIT ?3";
    let (tenant, scope) = after.map_or(("", ""), |(tenant, scope)| (tenant.as_str(), scope.as_str()));
    shared.rows(conn).all(sql, params![tenant, scope, limit as i64], scope_key)
}

pub(super) fn scope_key(row: &Row<'_>) -> Result<ScopeKey, StoreError> {
    let tenant = stored::<Tenant>("tenant", row.get(0).map_err(failed)?)?;
    Ok((tenant, stored::<Scope>("scope", row.get(1).map_err(failed)?)?))
}

/// Makes the tables anew, within the caller's transaction.
pub(super) fn rebuild(shared: &Shared, conn: &Connection) -> Result<u64, StoreError> {
    for table in schema::REBUILT {
        conn.execute(&format!("DELETE FROM {table}"), []).map_err(failed)?;
    }
    let (mut after, mut events) = (0, 0);
    loop {
        let page = journal(shared, conn, after, 100)?;
        for journaled in &page {
            let mut rows = shared.rows(conn);
            let work = async {
                let ws = work::replay(&mut rows, &journaled.batch).await?;
                rows.store(&ws, None).await
            };
            work.now_or_never().expect("SQLite never waits within a transaction")?;
            let count = journaled.batch.count() as u64;
            after = journaled.position + count - 1;
            events += count;
        }
        if page.is_empty() {
            shared.rows(conn).line_up()?;
            return Ok(events);
        }
    }
}

pub(super) fn health(shared: &Shared, conn: &Connection) -> Result<Health, StoreError> {
    let rows = shared.rows(conn);
    let (next, last_event_at) = rows.end_of_journal()?;
    Ok(Health {
        engine: format!("SQLite {}", rusqlite::version()),
        schema: schema::version(conn)?,
        place: shared.path.as_ref().map_or("memory".into(), |path| path.display().to_string()),
        problems: Vec::new(),
        position: next - 1,
        last_event_at,
        now: shared.clock.now(),
    })
}
