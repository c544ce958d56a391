//! The figures of queues, and the groups of dead jobs.

use std::collections::BTreeMap;

use bursar_core::job::{Job, JobState};
use bursar_core::name::{Queue, Tenant};
use bursar_core::page;
use bursar_core::state::{DeadGroupKey, QueueKey};
use bursar_core::time::Time;
use uuid::Uuid;

use crate::codec::{Packed, stored_name};
use crate::error::StoreError;
use crate::figures::{DeadGroup, DeadGroupMark, Figures, PRIORITY_SCAN_MAX};
use crate::job_row::{minute_tallies, parse_tally, state_number, state_of};
use crate::postgres::PostgresStore;
use crate::postgres::conn::Conn;
use crate::postgres::error::store_error;
use crate::postgres::read::sql_limit;
use crate::postgres::wall::{Reach, Step, TenantList};
use crate::store::QUEUES_COUNTED;
use crate::verify::PAGE;

/// Begins the transaction of a read of many queues. Compiling its statements would take longer than running them: half a second.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL jit = off";

/// The counts of queues. Seeks to the first minute of each figure, so that older ones are not read.
const COUNTS: &str = "SELECT w.n, k.what, t.minute, t.count
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(tenant, queue, n)
    CROSS JOIN unnest($3::smallint[], $4::bigint[]) AS k(what, since)
    CROSS JOIN LATERAL (
        SELECT t.minute, sum(t.count)::bigint AS count FROM bursar.tallies t
        WHERE t.tenant = w.tenant AND t.queue = w.queue AND t.what = k.what AND t.minute >= k.since
        GROUP BY t.minute HAVING sum(t.count) <> 0) t";

/// Since when the oldest job of each queue waits, from three sources, and since when the oldest lease lasts. The sources:
///
/// 1. Waiting jobs whose rank differs from their instant, and jobs that are behind or barred (index `jobs_waiting`).
/// 2. Scheduled jobs that have come due (index `jobs_due`).
/// 3. Ready jobs whose rank is their instant, of each kind the first (index `jobs_ready`). Jobs of higher priority precede it; at most
///    [`PRIORITY_SCAN_MAX`] of them are read.
const OLDEST: &str = "WITH l AS MATERIALIZED (
         SELECT tenant, queue, min(rank) AS since FROM bursar.jobs
         WHERE state = 6 AND tenant = ANY ($1) AND queue = ANY ($2) GROUP BY tenant, queue)
     SELECT least(o.waiting, o.due, o.ready),
         (SELECT l.since FROM l WHERE l.tenant = w.tenant AND l.queue = w.queue)
     FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(tenant, queue, n) CROSS JOIN LATERAL (
         WITH RECURSIVE k(kind) AS (
             (SELECT j.kind FROM bursar.jobs j WHERE j.state = 0 AND j.tenant = w.tenant AND j.queue = w.queue
              ORDER BY j.kind LIMIT 1)
             UNION ALL
             SELECT (SELECT j.kind FROM bursar.jobs j
                     WHERE j.state = 0 AND j.tenant = w.tenant AND j.queue = w.queue AND j.kind > k.kind ORDER BY j.kind LIMIT 1)
             FROM k WHERE k.kind IS NOT NULL)
         SELECT
             (SELECT at FROM bursar.jobs
              WHERE state < 3 AND (state > 0 OR rank <> at) AND tenant = w.tenant AND queue = w.queue ORDER BY at LIMIT 1),
             (SELECT min(at) FROM bursar.jobs
              WHERE state IN (3, 4) AND state = 4 AND tenant = w.tenant AND queue = w.queue AND at <= $3),
             (SELECT min(coalesce(
                  (SELECT r.at FROM (
                       SELECT j.rank, j.at FROM bursar.jobs j
                       WHERE j.state = 0 AND j.tenant = w.tenant AND j.queue = w.queue AND j.kind = k.kind
                       ORDER BY j.rank, j.id LIMIT $4) r
                   WHERE r.rank = r.at LIMIT 1),
                  (SELECT j.rank FROM bursar.jobs j
                   WHERE j.state = 0 AND j.tenant = w.tenant AND j.queue = w.queue AND j.kind = k.kind
                   ORDER BY j.rank, j.id LIMIT 1 OFFSET $4))) FROM k WHERE k.kind IS NOT NULL)
     ) AS o(waiting, due, ready)
     ORDER BY w.n";

impl PostgresStore {
    /// Returns the figures of queues, in the order given. The number of statements does not depend on the number of queues.
    pub(in crate::postgres) async fn read_figures(
        &self,
        queues: &[QueueKey],
        since_minute: i64,
    ) -> Result<Vec<Figures>, StoreError> {
        let all = TenantList::new(queues.iter().map(|(tenant, _)| tenant));
        let mut tx = self.begin(BEGIN, Reach::Tenants(&all)).await?;
        let now = self.time(&mut tx.conn()).await?;
        let (tenants, names): (Vec<&str>, Vec<&str>) =
            queues.iter().map(|(tenant, queue)| (tenant.as_str(), queue.as_str())).unzip();
        let present = (0..JobState::ALL.len() as i16).map(|what| (what, i64::MIN));
        let past = minute_tallies().map(|what| (what as i16, since_minute));
        let (what, since): (Vec<i16>, Vec<i64>) = present.chain(past).unzip();
        let counts: Vec<(i64, i16, i64, i64)> = sqlx::query_as(COUNTS)
            .bind(&tenants)
            .bind(&names)
            .bind(what)
            .bind(since)
            .fetch_all(tx.conn())
            .await
            .map_err(store_error)?;
        let oldest: Vec<(Option<i64>, Option<i64>)> = sqlx::query_as(OLDEST)
            .bind(&tenants)
            .bind(&names)
            .bind(now.micros())
            .bind(PRIORITY_SCAN_MAX)
            .fetch_all(tx.conn())
            .await
            .map_err(store_error)?;
        tx.rollback().await.map_err(store_error)?;
        let figures = |(waiting, lease): (Option<i64>, Option<i64>)| Figures {
            counts: Vec::new(),
            oldest_waiting: waiting.map(Time::from_micros),
            oldest_lease: lease.map(Time::from_micros),
        };
        let mut found: Vec<Figures> = oldest.into_iter().map(figures).collect();
        for (queue, what, minute, count) in counts {
            let place = usize::try_from(queue - 1).ok().and_then(|place| found.get_mut(place));
            let figures = place.ok_or_else(|| StoreError::corrupt("figures", "of a queue that was not requested"))?;
            figures.counts.push((parse_tally(i64::from(what), minute)?, count));
        }
        found.iter_mut().for_each(|figures| figures.counts.sort());
        Ok(found)
    }

    /// Counts the jobs of each queue by state. Skips from one queue to the next, so that no figures per minute are read.
    pub(in crate::postgres) async fn read_queue_counts(&self) -> Result<Vec<(QueueKey, JobState, i64)>, StoreError> {
        let sql = "WITH RECURSIVE q(tenant, queue, n) AS (
                (SELECT tenant, queue, 1 FROM bursar.tallies ORDER BY tenant, queue LIMIT 1)
                UNION ALL
                SELECT x.tenant, x.queue, q.n + 1 FROM q CROSS JOIN LATERAL (
                    SELECT t.tenant, t.queue FROM bursar.tallies t WHERE (t.tenant, t.queue) > (q.tenant, q.queue)
                    ORDER BY t.tenant, t.queue LIMIT 1) x
                WHERE q.n < $1)
            SELECT q.tenant, q.queue, c.what, c.count FROM q CROSS JOIN LATERAL (
                SELECT t.what, sum(t.count)::bigint AS count FROM bursar.tallies t
                WHERE t.tenant = q.tenant AND t.queue = q.queue AND t.what < 10
                GROUP BY t.what HAVING sum(t.count) <> 0) c
            ORDER BY q.n, c.what";
        let mut tx = self.begin(BEGIN, Reach::Nothing).await?;
        self.enter_step(&mut tx.conn(), Step::after("tallies", "", QUEUES_COUNTED)).await?;
        let counts: Vec<(String, String, i16, i64)> =
            sqlx::query_as(sql).bind(QUEUES_COUNTED as i64).fetch_all(tx.conn()).await.map_err(store_error)?;
        tx.rollback().await.map_err(store_error)?;
        let count = |(tenant, queue, what, count): (String, String, i16, i64)| {
            let key = (stored_name("tenant", tenant)?, stored_name("queue", queue)?);
            Ok((key, state_of(i64::from(what))?, count))
        };
        counts.into_iter().map(count).collect()
    }

    /// Lists groups of dead jobs. Seeks to the first and the last job of each group.
    pub(in crate::postgres) async fn read_dead_groups(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&DeadGroupMark>,
        limit: usize,
    ) -> Result<Vec<DeadGroup>, StoreError> {
        let sql = "SELECT g.fingerprint, g.count, first.at, last.data
            FROM (
                SELECT queue, kind, fingerprint, sum(count)::bigint AS count FROM bursar.dead_groups
                WHERE tenant = $1 AND ($2::text IS NULL OR queue = $2) AND (queue, kind, fingerprint) > ($3, $4, $5)
                GROUP BY queue, kind, fingerprint HAVING sum(count) <> 0 ORDER BY queue, kind, fingerprint LIMIT $6) g
            CROSS JOIN LATERAL (
                SELECT j.at FROM bursar.ended_jobs j
                WHERE j.tenant = $1 AND j.queue = g.queue AND j.kind = g.kind AND j.fingerprint = g.fingerprint
                ORDER BY j.at LIMIT 1) first
            CROSS JOIN LATERAL (
                SELECT j.data FROM bursar.ended_jobs j
                WHERE j.tenant = $1 AND j.queue = g.queue AND j.kind = g.kind AND j.fingerprint = g.fingerprint
                ORDER BY j.at DESC, j.id DESC LIMIT 1) last
            ORDER BY g.queue, g.kind, g.fingerprint";
        let (after_queue, kind, fingerprint) =
            after.map_or(("", "", ""), |(q, k, f)| (q.as_str(), k.as_str(), f.as_str()));
        let rows: Vec<(String, i64, i64, Vec<u8>)> = sqlx::query_as(sql)
            .bind(tenant.as_str())
            .bind(queue.map(Queue::as_str))
            .bind(after_queue)
            .bind(kind)
            .bind(fingerprint)
            .bind(sql_limit(limit))
            .fetch_all(self.read(Reach::Tenant(tenant)).await?.conn())
            .await
            .map_err(store_error)?;
        let group = |(fingerprint, count, first, data): (String, i64, i64, Vec<u8>)| {
            DeadGroup::new(fingerprint, count, Time::from_micros(first), Job::unpack(&data)?)
        };
        let found = rows.into_iter().map(group).collect::<Result<Vec<DeadGroup>, StoreError>>()?;
        Ok(page::cut(found, limit))
    }
}

/// Groups the dead jobs of a database whose version did not.
pub(in crate::postgres) async fn group_dead_jobs(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    let page = "SELECT id, data FROM bursar.ended_jobs WHERE state = $1 AND id > $2 ORDER BY id LIMIT $3";
    let update = "UPDATE bursar.ended_jobs j SET fingerprint = w.fingerprint
        FROM unnest($1::uuid[], $2::text[]) AS w(id, fingerprint) WHERE j.id = w.id";
    let mut groups: BTreeMap<DeadGroupKey, i64> = BTreeMap::new();
    let mut after = Uuid::nil();
    loop {
        let rows: Vec<(Uuid, Vec<u8>)> = sqlx::query_as(page)
            .bind(state_number(JobState::Dead) as i16)
            .bind(after)
            .bind(PAGE as i64)
            .fetch_all(&mut *conn)
            .await
            .map_err(store_error)?;
        let Some((last, _)) = rows.last() else { break };
        after = *last;
        let (mut ids, mut fingerprints) = (Vec::new(), Vec::new());
        for (id, data) in rows {
            let Some(group) = Job::unpack(&data)?.dead_group() else { continue };
            ids.push(id);
            fingerprints.push(group.3.clone());
            *groups.entry(group).or_default() += 1;
        }
        sqlx::query(update).bind(ids).bind(fingerprints).execute(&mut *conn).await.map_err(store_error)?;
    }
    for ((tenant, queue, kind, fingerprint), count) in groups {
        let insert = "INSERT INTO bursar.dead_groups (tenant, queue, kind, fingerprint, lane, count)
            VALUES ($1, $2, $3, $4, 0, $5)";
        sqlx::query(insert)
            .bind(tenant.as_str())
            .bind(queue.as_str())
            .bind(kind.as_str())
            .bind(fingerprint)
            .bind(count)
            .execute(&mut *conn)
            .await
            .map_err(store_error)?;
    }
    Ok(())
}
