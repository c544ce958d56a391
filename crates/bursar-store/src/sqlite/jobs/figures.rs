//! The figures of queues, and the groups of dead jobs.

use std::collections::HashMap;

use bursar_core::job::{Job, JobState};
use bursar_core::name::{Queue, Tenant};
use bursar_core::page;
use bursar_core::state::QueueKey;
use bursar_core::time::Time;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};

use super::write::ADD_DEAD;
use crate::codec::{Packed, stored_name};
use crate::error::StoreError;
use crate::figures::{DeadGroup, DeadGroupMark, Figures};
use crate::job_row::{minute_tallies, parse_tally, state_number, state_of};
use crate::sqlite::error::store_error;
use crate::sqlite::rows::{SqliteRows, get_id, get_time, id, unpack};
use crate::sqlite::writer::Shared;
use crate::store::QUEUES_COUNTED;
use crate::verify::PAGE;

/// Returns the figures of queues, in the order given.
pub(in crate::sqlite) fn figures(
    shared: &Shared,
    conn: &Connection,
    queues: &[QueueKey],
    since_minute: i64,
) -> Result<Vec<Figures>, StoreError> {
    let (rows, now) = (shared.rows(conn), shared.clock.now());
    // The index of all leased jobs is read once for all queues of a tenant, or for all tenants.
    let only = queues.first().map(|(tenant, _)| tenant).filter(|first| queues.iter().all(|(of, _)| of == *first));
    let leased = "SELECT tenant, queue, min(rank) FROM bursar_jobs INDEXED BY bursar_jobs_lapse
        WHERE state = 6 AND (?1 IS NULL OR tenant = ?1) GROUP BY tenant, queue";
    let since = |row: &Row<'_>| {
        let text = |column| row.get::<_, String>(column).map_err(store_error);
        Ok(((text(0)?, text(1)?), row.get(2).map_err(store_error)?))
    };
    let leased: HashMap<(String, String), i64> =
        rows.all(leased, [only.map(Tenant::as_str)], since)?.into_iter().collect();
    let figures = |key: &QueueKey| {
        let since = leased.get(&(key.0.to_string(), key.1.to_string()));
        Ok(Figures {
            counts: rows.read_tallies(key, since_minute)?,
            oldest_waiting: rows.oldest_waiting(key, now)?,
            oldest_lease: since.map(|since| Time::from_micros(*since)),
        })
    };
    queues.iter().map(figures).collect()
}

/// Returns the jobs in each state of at most `QUEUES_COUNTED` queues. Seeks from one queue to the next instead of reading the figures per
/// minute.
pub(in crate::sqlite) fn queue_counts(
    shared: &Shared,
    conn: &Connection,
) -> Result<Vec<(QueueKey, JobState, i64)>, StoreError> {
    let next =
        "SELECT tenant, queue FROM bursar_tallies WHERE (tenant, queue) > (?1, ?2) ORDER BY tenant, queue LIMIT 1";
    let counts = "SELECT what, count FROM bursar_tallies
        WHERE tenant = ?1 AND queue = ?2 AND what < 10 AND count <> 0 ORDER BY what";
    let (rows, mut found) = (shared.rows(conn), Vec::new());
    let mut at = (String::new(), String::new());
    for _ in 0..QUEUES_COUNTED {
        let text = |row: &Row<'_>| Ok((row.get(0).map_err(store_error)?, row.get(1).map_err(store_error)?));
        let Some(next) = rows.one(next, params![at.0, at.1], text)? else { break };
        at = next;
        let key: QueueKey = (stored_name("tenant", at.0.clone())?, stored_name("queue", at.1.clone())?);
        let number = |row: &Row<'_>| {
            Ok((row.get::<_, i64>(0).map_err(store_error)?, row.get::<_, i64>(1).map_err(store_error)?))
        };
        for (what, count) in rows.all(counts, params![at.0, at.1], number)? {
            found.push((key.clone(), state_of(what)?, count));
        }
    }
    Ok(found)
}

impl SqliteRows<'_> {
    /// Seeks to the first minute of each figure, so that older ones are not read.
    fn read_tallies(
        &self,
        key: &QueueKey,
        since_minute: i64,
    ) -> Result<Vec<(bursar_core::state::Counted, i64)>, StoreError> {
        let counts = "SELECT what, minute, count FROM bursar_tallies
            WHERE tenant = ?1 AND queue = ?2 AND what = ?3 AND minute >= ?4 AND count <> 0";
        let now = (0..JobState::ALL.len() as i64).map(|what| (what, 0));
        let mut found = Vec::new();
        for (what, since) in now.chain(minute_tallies().map(|what| (what, since_minute))) {
            found.extend(self.all(counts, params![key.0.as_str(), key.1.as_str(), what, since], |row| {
                let number = |column| row.get::<_, i64>(column).map_err(store_error);
                Ok((parse_tally(number(0)?, number(1)?)?, number(2)?))
            })?);
        }
        found.sort();
        Ok(found)
    }

    fn oldest_waiting(&self, key: &QueueKey, now: Time) -> Result<Option<Time>, StoreError> {
        let (tenant, queue) = (key.0.as_str(), key.1.as_str());
        let waiting = "SELECT at FROM bursar_jobs INDEXED BY bursar_jobs_waiting
            WHERE state < 3 AND (state > 0 OR rank <> at) AND tenant = ?1 AND queue = ?2 ORDER BY at LIMIT 1";
        let due = "SELECT at FROM bursar_jobs INDEXED BY bursar_jobs_due
            WHERE state IN (3, 4) AND state = 4 AND tenant = ?1 AND queue = ?2 AND at <= ?3 ORDER BY at LIMIT 1";
        let at = |row: &Row<'_>| get_time(row, 0).map_err(store_error);
        let waiting = self.one(waiting, params![tenant, queue], at)?;
        let due = self.one(due, params![tenant, queue, now.micros()], at)?;
        Ok([waiting, due, self.oldest_ready(key)?].into_iter().flatten().min())
    }
}

/// Lists groups of dead jobs. Seeks to the first and the last job of each group.
pub(in crate::sqlite) fn dead_groups(
    shared: &Shared,
    conn: &Connection,
    tenant: &Tenant,
    queue: Option<&Queue>,
    after: Option<&DeadGroupMark>,
    limit: usize,
) -> Result<Vec<DeadGroup>, StoreError> {
    let sql = "SELECT g.fingerprint, g.count,
            (SELECT j.at FROM bursar_ended_jobs j INDEXED BY bursar_ended_jobs_dead
             WHERE j.tenant = g.tenant AND j.queue = g.queue AND j.kind = g.kind AND j.fingerprint = g.fingerprint
             ORDER BY j.at LIMIT 1),
            (SELECT j.data FROM bursar_ended_jobs j INDEXED BY bursar_ended_jobs_dead
             WHERE j.tenant = g.tenant AND j.queue = g.queue AND j.kind = g.kind AND j.fingerprint = g.fingerprint
             ORDER BY j.at DESC, j.id DESC LIMIT 1)
        FROM bursar_dead_groups g
        WHERE g.tenant = ?1 AND (?2 IS NULL OR g.queue = ?2) AND (g.queue, g.kind, g.fingerprint) > (?3, ?4, ?5)
        ORDER BY g.queue, g.kind, g.fingerprint LIMIT ?6";
    let (after_queue, kind, fingerprint) = after.map_or(("", "", ""), |(q, k, f)| (q.as_str(), k.as_str(), f.as_str()));
    let params = params![tenant.as_str(), queue.map(Queue::as_str), after_queue, kind, fingerprint, limit as i64];
    let found = shared.rows(conn).all(sql, params, |row| {
        // A group that counts jobs although there are none is damage, which a verification reports.
        if row.get_ref(3).map_err(store_error)? == ValueRef::Null {
            return Ok(None);
        }
        let (fingerprint, count) = (row.get(0).map_err(store_error)?, row.get(1).map_err(store_error)?);
        let first = get_time(row, 2).map_err(store_error)?;
        DeadGroup::new(fingerprint, count, first, unpack::<Job>(row, 3)?).map(Some)
    })?;
    Ok(page::cut(found.into_iter().flatten().collect(), limit))
}

/// Groups the dead jobs of a database whose version did not.
pub(in crate::sqlite) fn group_dead_jobs(conn: &Connection) -> Result<(), StoreError> {
    let page = "SELECT id, data FROM bursar_ended_jobs WHERE state = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
    let dead = state_number(JobState::Dead);
    let mut after = id(0);
    loop {
        let mut select = conn.prepare_cached(page).map_err(store_error)?;
        let mut rows = select.query(params![dead, after, PAGE as i64]).map_err(store_error)?;
        let mut jobs = Vec::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            let data: Vec<u8> = row.get(1).map_err(store_error)?;
            jobs.push((get_id(row, 0).map_err(store_error)?, Job::unpack(&data)?));
        }
        let Some((last, _)) = jobs.last() else { return Ok(()) };
        after = id(*last);
        for (key, job) in jobs {
            let Some((tenant, queue, kind, fingerprint)) = job.dead_group() else { continue };
            let update = "UPDATE bursar_ended_jobs SET fingerprint = ?2 WHERE id = ?1";
            conn.execute(update, params![id(key), fingerprint]).map_err(store_error)?;
            let group = params![tenant.as_str(), queue.as_str(), kind.as_str(), fingerprint, 1];
            conn.execute(ADD_DEAD, group).map_err(store_error)?;
        }
    }
}
