//! Reads of jobs and queues, and of sums over jobs.
//!
//! Several queries visit distinct values of an index (queues, kinds, flow keys): they seek from one value to the next instead of reading
//! all rows between.

use std::ops::RangeInclusive;

use bursar_core::id::JobId;
use bursar_core::job::{Job, QueueConfig, QueueState};
use bursar_core::name::{FlowKey, JobKind, Queue, Scope, Tenant};
use bursar_core::state::{QueueKey, ScopeKey};
use bursar_core::time::Time;
use rusqlite::{Connection, Row, params};

use super::{LIVE, LastNames};
use crate::codec::{from_json, stored_name};
use crate::error::StoreError;
use crate::figures::{Cost, CostMark, DueJobs, HeldMark, HeldSum, JobFilter, SplitSum, first_after};
use crate::job_list::{JobList, JobTable, PAGE, page_order};
use crate::job_row::{state_number, state_of};
use crate::sqlite::error::store_error;
use crate::sqlite::read::fill_page;
use crate::sqlite::rows::{SqliteRows, get_id, id, unpack};
use crate::sqlite::writer::Shared;

pub(in crate::sqlite) fn queue(
    shared: &Shared,
    conn: &Connection,
    key: &QueueKey,
) -> Result<Option<QueueState>, StoreError> {
    shared.rows(conn).read_queue(key)
}

impl SqliteRows<'_> {
    pub(in crate::sqlite) fn read_queue(&self, (tenant, queue): &QueueKey) -> Result<Option<QueueState>, StoreError> {
        let sql = "SELECT data FROM bursar_queues WHERE tenant = ?1 AND queue = ?2";
        self.one(sql, params![tenant.as_str(), queue.as_str()], |row| {
            from_json("queue", &row.get::<_, String>(0).map_err(store_error)?)
        })
    }
}

/// Lists live and finished jobs, in order of ids.
pub(in crate::sqlite) fn list_jobs(
    shared: &Shared,
    conn: &Connection,
    tenant: &Tenant,
    filter: &JobFilter,
    after: Option<JobId>,
    limit: usize,
) -> Result<Vec<Job>, StoreError> {
    let rows = shared.rows(conn);
    let mut list = JobList::new(filter, after, limit, shared.clock.now());
    while let Some((table, after)) = list.next_page() {
        list.add(match table {
            JobTable::Live => live_page(&rows, tenant, filter, after)?,
            JobTable::Ended => ended_page(&rows, tenant, filter, after)?,
        });
    }
    fill_page(list.finish(), limit, |job| rows.attach_payloads(job).map(Some))
}

fn live_page(
    rows: &SqliteRows<'_>,
    tenant: &Tenant,
    filter: &JobFilter,
    after: Option<JobId>,
) -> Result<Vec<Job>, StoreError> {
    let (beyond, direction, first) = page_order(filter, after);
    let sql = format!(
        "{LIVE} WHERE id {beyond} ?1 AND tenant = ?2 AND (?3 IS NULL OR queue = ?3) AND (?4 IS NULL OR flow = ?4)
         ORDER BY id {direction} LIMIT ?5"
    );
    let (queue, flow) = (filter.queue.as_ref().map(Queue::as_str), filter.key.as_ref().map(|key| key.as_str()));
    let mut names = LastNames::default();
    rows.all(&sql, params![id(first), tenant.as_str(), queue, flow, PAGE as i64], |row| names.read_live(row))
}

fn ended_page(
    rows: &SqliteRows<'_>,
    tenant: &Tenant,
    filter: &JobFilter,
    after: Option<JobId>,
) -> Result<Vec<Job>, StoreError> {
    let (beyond, direction, first) = page_order(filter, after);
    let sql = format!(
        "SELECT data FROM bursar_ended_jobs
         WHERE id {beyond} ?1 AND tenant = ?2 AND (?3 IS NULL OR queue = ?3) AND (?4 IS NULL OR state = ?4)
            AND (?5 IS NULL OR fingerprint IS NULL OR fingerprint = ?5)
         ORDER BY id {direction} LIMIT ?6"
    );
    let (queue, state) = (filter.queue.as_ref().map(Queue::as_str), filter.state.map(state_number));
    let params = params![id(first), tenant.as_str(), queue, state, filter.dead_fingerprint(), PAGE as i64];
    rows.all(&sql, params, |row| unpack(row, 0))
}

pub(in crate::sqlite) fn list_queues(
    shared: &Shared,
    conn: &Connection,
    tenant: &Tenant,
    after: Option<&Queue>,
    limit: usize,
) -> Result<Vec<(Queue, QueueState)>, StoreError> {
    // Seeks from one name to the next instead of reading all figures.
    let next = "SELECT min(queue) FROM (
        SELECT * FROM (SELECT queue FROM bursar_tallies WHERE tenant = ?1 AND queue > ?2 ORDER BY queue LIMIT 1)
        UNION ALL
        SELECT * FROM (SELECT queue FROM bursar_queues WHERE tenant = ?1 AND queue > ?2 ORDER BY queue LIMIT 1))";
    let rows = shared.rows(conn);
    let mut found: Vec<(Queue, QueueState)> = Vec::new();
    while found.len() < limit {
        let last = found.last().map(|(queue, _)| queue).or(after).map_or("", Queue::as_str);
        let name =
            rows.one(next, params![tenant.as_str(), last], |row| row.get::<_, Option<String>>(0).map_err(store_error))?;
        let Some(name) = name.flatten() else { break };
        let queue = stored_name::<Queue>("queue", name)?;
        let state = rows.read_queue(&(tenant.clone(), queue.clone()))?;
        found.push((queue, state.unwrap_or_default()));
    }
    Ok(found)
}

pub(in crate::sqlite) fn costs(
    shared: &Shared,
    conn: &Connection,
    tenant: &Tenant,
    days: RangeInclusive<i64>,
    after: Option<&CostMark>,
    limit: usize,
) -> Result<Vec<Cost>, StoreError> {
    let sql = "SELECT day, queue, kind, scope, amount FROM bursar_costs
        WHERE tenant = ?1 AND (day, queue, kind, scope) > (?2, ?3, ?4, ?5) AND day <= ?6
        ORDER BY day, queue, kind, scope LIMIT ?7";
    let (tenant, (first, last)) = (tenant.as_str(), days.into_inner());
    let (day, queue, kind, scope) = first_after(first, after);
    shared.rows(conn).all(sql, params![tenant, day, queue, kind, scope, last, limit as i64], |row| {
        let text = |column| row.get::<_, String>(column).map_err(store_error);
        Ok(Cost {
            day: row.get(0).map_err(store_error)?,
            queue: stored_name::<Queue>("queue", text(1)?)?,
            kind: stored_name::<JobKind>("kind", text(2)?)?,
            scope: stored_name::<Scope>("scope", text(3)?)?,
            amount: row.get(4).map_err(store_error)?,
        })
    })
}

pub(in crate::sqlite) fn held(
    shared: &Shared,
    conn: &Connection,
    tenant: &Tenant,
    queue: Option<&Queue>,
    after: Option<&HeldMark>,
    limit: usize,
) -> Result<Vec<HeldSum>, StoreError> {
    let sql = "SELECT queue, kind, unit, high, low FROM bursar_held
        WHERE tenant = ?1 AND (?2 IS NULL OR queue = ?2) AND (queue, kind, unit) > (?3, ?4, ?5) AND (high <> 0 OR low <> 0)
        ORDER BY queue, kind, unit LIMIT ?6";
    let (after_queue, kind, unit) = after.map_or(("", "", ""), |(q, k, u)| (q.as_str(), k.as_str(), u.as_str()));
    let params = params![tenant.as_str(), queue.map(Queue::as_str), after_queue, kind, unit, limit as i64];
    shared.rows(conn).all(sql, params, |row| {
        let text = |column| row.get::<_, String>(column).map_err(store_error);
        let (queue, kind) = (stored_name::<Queue>("queue", text(0)?)?, stored_name::<JobKind>("kind", text(1)?)?);
        let sum = SplitSum { high: row.get(3).map_err(store_error)?, low: row.get(4).map_err(store_error)? };
        Ok(HeldSum::new(queue, kind, text(2)?, sum.total()))
    })
}

fn tenant_and_id(row: &Row<'_>) -> Result<(Tenant, JobId), StoreError> {
    let tenant = stored_name::<Tenant>("tenant", row.get(0).map_err(store_error)?)?;
    Ok((tenant, JobId(get_id(row, 1).map_err(store_error)?)))
}

pub(in crate::sqlite) fn due_jobs(shared: &Shared, conn: &Connection, limit: usize) -> Result<DueJobs, StoreError> {
    let (rows, now) = (shared.rows(conn), shared.clock.now());
    let lapsed = "SELECT tenant, id FROM bursar_jobs INDEXED BY bursar_jobs_lapse
        WHERE state = 6 AND at <= ?1 ORDER BY at LIMIT ?2";
    let awaiting = "SELECT tenant, id FROM bursar_jobs INDEXED BY bursar_jobs_look
        WHERE state = 5 AND at <= ?1 ORDER BY at LIMIT ?2";
    let params = params![now.micros(), limit as i64];
    Ok(DueJobs {
        lapsed: rows.all(lapsed, params, tenant_and_id)?,
        awaiting: rows.all(awaiting, params, tenant_and_id)?,
        ended: retention_over(&rows, limit, now)?,
    })
}

/// Returns finished jobs whose retention is over. Seeks from one queue and state to the next.
pub(in crate::sqlite) fn retention_over(
    rows: &SqliteRows<'_>,
    limit: usize,
    now: Time,
) -> Result<Vec<(Tenant, JobId)>, StoreError> {
    let next = "SELECT tenant, queue, state FROM bursar_ended_jobs INDEXED BY bursar_ended_jobs_at
        WHERE (tenant, queue, state) > (?1, ?2, ?3) ORDER BY tenant, queue, state LIMIT 1";
    let over = "SELECT tenant, id FROM bursar_ended_jobs INDEXED BY bursar_ended_jobs_at
        WHERE tenant = ?1 AND queue = ?2 AND state = ?3 AND at <= ?4 ORDER BY at LIMIT ?5";
    let read = |row: &Row<'_>| {
        let text = |column| row.get::<_, String>(column).map_err(store_error);
        Ok((text(0)?, text(1)?, row.get::<_, i64>(2).map_err(store_error)?))
    };
    let mut found = Vec::new();
    let mut at = (String::new(), String::new(), -1i64);
    while found.len() < limit {
        let Some((tenant, queue, state)) = rows.one(next, params![at.0, at.1, at.2], read)? else { break };
        let key = (stored_name::<Tenant>("tenant", tenant.clone())?, stored_name::<Queue>("queue", queue.clone())?);
        let config: QueueConfig = rows.read_queue(&key)?.map(|row| row.config).unwrap_or_default();
        if let Some(kept) = config.kept(state_of(state)?) {
            let params = params![tenant, queue, state, now.before(kept).micros(), (limit - found.len()) as i64];
            found.extend(rows.all(over, params, tenant_and_id)?);
        }
        at = (tenant, queue, state);
    }
    Ok(found)
}

pub(in crate::sqlite) fn awaiting(
    shared: &Shared,
    conn: &Connection,
    scope: &ScopeKey,
    limit: usize,
) -> Result<Vec<JobId>, StoreError> {
    let sql = "SELECT id FROM bursar_jobs INDEXED BY bursar_jobs_awaits
        WHERE state = 5 AND tenant = ?1 AND awaits = ?2 ORDER BY id LIMIT ?3";
    let params = params![scope.0.as_str(), scope.1.as_str(), limit as i64];
    shared.rows(conn).all(sql, params, |row| get_id(row, 0).map(JobId).map_err(store_error))
}

/// Returns the scopes that jobs await, with their versions. Seeks from one scope to the next instead of reading all jobs.
pub(in crate::sqlite) fn awaited(
    shared: &Shared,
    conn: &Connection,
    limit: usize,
) -> Result<Vec<(ScopeKey, u64)>, StoreError> {
    let sql = "SELECT tenant, awaits, coalesce((SELECT version FROM bursar_scopes s
            WHERE s.tenant = j.tenant AND s.scope = j.awaits), 0)
        FROM bursar_jobs j INDEXED BY bursar_jobs_awaits
        WHERE state = 5 AND (tenant, awaits) > (?1, ?2) ORDER BY tenant, awaits LIMIT 1";
    let rows = shared.rows(conn);
    let mut found: Vec<(ScopeKey, u64)> = Vec::new();
    while found.len() < limit {
        let (tenant, scope) = found.last().map_or(("", ""), |((tenant, scope), _)| (tenant.as_str(), scope.as_str()));
        let next = rows.all(sql, params![tenant, scope], |row| {
            let text = |column| row.get::<_, String>(column).map_err(store_error);
            let key = (stored_name("tenant", text(0)?)?, stored_name("scope", text(1)?)?);
            Ok((key, row.get::<_, i64>(2).map_err(store_error)?.unsigned_abs()))
        })?;
        let Some(next) = next.into_iter().next() else { break };
        found.push(next);
    }
    Ok(found)
}

/// Returns barred jobs of up to `limit` flow keys, and where to continue. Seeks from one flow key to the next.
pub(in crate::sqlite) fn barred(
    shared: &Shared,
    conn: &Connection,
    queue: &QueueKey,
    after: Option<FlowKey>,
    limit: usize,
) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError> {
    let next = "SELECT flow FROM bursar_jobs INDEXED BY bursar_jobs_lines
        WHERE state IN (1, 2) AND tenant = ?1 AND queue = ?2 AND flow > ?3 ORDER BY flow LIMIT 1";
    let first = "SELECT id FROM bursar_jobs INDEXED BY bursar_jobs_lines
        WHERE state IN (1, 2) AND state = 2 AND tenant = ?1 AND queue = ?2 AND flow = ?3";
    let rows = shared.rows(conn);
    let (mut found, mut last) = (Vec::new(), after);
    for _ in 0..limit {
        let at = last.as_ref().map_or("", |key| key.as_str());
        let key = rows.all(next, params![queue.0.as_str(), queue.1.as_str(), at], |row| {
            stored_name::<FlowKey>("flow key", row.get::<_, String>(0).map_err(store_error)?)
        })?;
        let Some(key) = key.into_iter().next() else { return Ok((found, None)) };
        let params = params![queue.0.as_str(), queue.1.as_str(), key.as_str()];
        found.extend(rows.all(first, params, |row| get_id(row, 0).map(JobId).map_err(store_error))?);
        last = Some(key);
    }
    Ok((found, last))
}
