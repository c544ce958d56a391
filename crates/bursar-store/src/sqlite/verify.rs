//! Verification: whether the tables agree with each other, read page by page.

use bursar_core::hold::{Hold, HoldState};
use bursar_core::id::HoldId;
use bursar_core::live::LiveCharge;
use bursar_core::scope::ScopeState;
use bursar_core::state::ScopeKey;
use bursar_core::time::Time;
use futures_util::FutureExt;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use serde::de::DeserializeOwned;

use crate::codec::Packed;
use crate::error::StoreError;
use crate::sqlite::blobs;
use crate::sqlite::error::store_error;
use crate::sqlite::jobs::check_jobs;
use crate::sqlite::maintain::scope_keys;
use crate::sqlite::read::scope_key;
use crate::sqlite::rows::{SqliteRows, get_id, get_time, id, unpack};
use crate::sqlite::writer::Shared;
use crate::transaction::rows::Rows;
use crate::verify::{JobCounts, PAGE, Report, has_recent_charge, history_queries, required_charges};

pub(super) fn verify(shared: &Shared, conn: &Connection) -> Result<Report, StoreError> {
    let mut report = Report::default();
    let mut rows = shared.rows(conn);
    for found in rows.all("PRAGMA quick_check(10)", [], |row| row.get::<_, String>(0).map_err(store_error))? {
        if found != "ok" {
            report.violation(format!("the database file is damaged: {found}"));
        }
    }
    let jobs = check_jobs(&rows, &mut report)?;
    let mut after = None;
    loop {
        let page = scope_keys(shared, conn, after.as_ref(), PAGE)?;
        check_scopes(&mut rows, &page, &jobs, &mut report)?;
        let Some(last) = page.into_iter().next_back() else { break };
        after = Some(last);
    }
    blobs::check(&rows, &jobs, &mut report)?;
    check_charges(&rows, &mut report)?;
    check_holds(&rows, &mut report)?;
    Ok(report)
}

fn check_scopes(
    rows: &mut SqliteRows<'_>,
    page: &[ScopeKey],
    jobs: &JobCounts,
    report: &mut Report,
) -> Result<(), StoreError> {
    let rollup = "SELECT amount FROM bursar_rollups WHERE tenant = ?1 AND scope = ?2";
    for key in page {
        let row: ScopeState = rows
            .read_scope(key)?
            .ok_or_else(|| StoreError::corrupt("scope", "its row disappeared during the verification"))?;
        let history_queries: Vec<_> = history_queries(key, &row).collect();
        let sums =
            rows.window_histories(&history_queries).now_or_never().expect("SQLite never waits within a transaction")?;
        let rollup =
            rows.all(rollup, params![key.0.as_str(), key.1.as_str()], |row| row.get(0).map_err(store_error))?;
        report.check_scope(key, &row, rollup.first().copied().unwrap_or(0), &sums, Some(jobs));
        for charge in &row.recent {
            report.check_charge(key, charge, rows.read_hold(charge.hold)?.as_ref());
        }
    }
    Ok(())
}

/// Checks that every live charge agrees with its hold.
fn check_charges(rows: &SqliteRows<'_>, report: &mut Report) -> Result<(), StoreError> {
    let sql = "SELECT l.tenant, l.scope, l.expires_at, l.hold, l.placed_at, l.amount, l.on_expiry, h.data
        FROM bursar_live_charges l LEFT JOIN bursar_holds h ON h.id = l.hold
        WHERE (l.tenant, l.scope, l.expires_at, l.hold) > (?1, ?2, ?3, ?4)
        ORDER BY l.tenant, l.scope, l.expires_at, l.hold LIMIT ?5";
    let read = |row: &Row<'_>| {
        let charge = || -> rusqlite::Result<LiveCharge> {
            let (expires_at, hold) = (get_time(row, 2)?, HoldId(get_id(row, 3)?));
            Ok(LiveCharge {
                expires_at,
                hold,
                placed_at: get_time(row, 4)?,
                amount: row.get(5)?,
                on_expiry: row.get(6)?,
            })
        };
        Ok((scope_key(row)?, charge().map_err(store_error)?, unpack_optional::<Hold>(row, 7)?))
    };
    let mut after = (String::new(), String::new(), i64::MIN, id(0));
    loop {
        let page = rows.all(sql, params![after.0, after.1, after.2, after.3, PAGE as i64], read)?;
        for (key, charge, hold) in &page {
            report.check_charge(key, charge, hold.as_ref());
        }
        let Some(((tenant, scope), charge, _)) = page.last() else { return Ok(()) };
        after = (tenant.to_string(), scope.to_string(), charge.expires_at.micros(), id(charge.hold.0));
    }
}

/// Checks that every hold that is not settled has all its live charges.
fn check_holds(rows: &SqliteRows<'_>, report: &mut Report) -> Result<(), StoreError> {
    let sql = "SELECT id, state, expires_at, data FROM bursar_holds WHERE id > ?1 ORDER BY id LIMIT ?2";
    let live = "SELECT 1 FROM bursar_live_charges WHERE tenant = ?1 AND scope = ?2 AND expires_at = ?3 AND hold = ?4";
    let read = |row: &Row<'_>| {
        let columns = (row.get::<_, i16>(1).map_err(store_error)?, get_time(row, 2).map_err(store_error)?);
        Ok((get_id(row, 0).map_err(store_error)?, columns, unpack::<Hold>(row, 3)?))
    };
    let mut after = id(0);
    loop {
        let page: Vec<(u128, (i16, Time), Hold)> = rows.all(sql, params![after, PAGE as i64], read)?;
        for (_, columns, hold) in &page {
            let mut missing = Vec::new();
            for ((tenant, scope), at, hold) in required_charges(hold) {
                let params = params![tenant.as_str(), scope.as_str(), at.micros(), id(hold.0)];
                if rows.all(live, params, |_| Ok(()))?.is_empty() {
                    let key = (tenant, scope);
                    if !has_recent_charge(rows.read_scope(&key)?.as_ref(), at, hold) {
                        missing.push(key.1);
                    }
                }
            }
            report.check_hold(hold, *columns, &missing);
            let owner = hold.job.filter(|_| hold.state == HoldState::Held).map(|job| rows.find_job(job)).transpose()?;
            report.check_owner(hold, owner.flatten().as_ref());
        }
        // The key, because the id in the row may be wrong.
        let Some((last, ..)) = page.last() else { return Ok(()) };
        after = id(*last);
    }
}

fn unpack_optional<T: Packed + DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<Option<T>, StoreError> {
    match row.get_ref(column).map_err(store_error)? {
        ValueRef::Null => Ok(None),
        _ => unpack(row, column).map(Some),
    }
}
