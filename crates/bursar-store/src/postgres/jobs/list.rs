//! Reads of jobs, queues, schedules and sums over jobs, without locks.
//!
//! Several statements list the distinct values of the first columns of an index (queues, flow keys, scopes) without reading all rows. A
//! recursive query, or a loop, skips from one value to the next: a loose index scan, which PostgreSQL does not do by itself.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use bursar_core::bounds::PAGE_BYTES_MAX;
use bursar_core::id::JobId;
use bursar_core::job::{Job, QueueConfig, QueueState, Schedule};
use bursar_core::name::{FlowKey, Queue, ScheduleName, Tenant};
use bursar_core::page;
use bursar_core::state::{QueueKey, ScheduleKey, ScopeKey};
use bursar_core::time::Time;
use sqlx::{AssertSqlSafe, Row};
use uuid::Uuid;

use super::{attach_job_payloads, columns, detached_payloads, unpack_live};
use crate::codec::{Packed, from_json, stored_name};
use crate::error::StoreError;
use crate::figures::{Cost, CostMark, DueJobs, HeldMark, HeldSum, JobFilter, SplitSum, first_after};
use crate::job_list::{JobList, JobTable, PAGE, page_order};
use crate::job_row::{state_number, state_of};
use crate::postgres::PostgresStore;
use crate::postgres::conn::Conn;
use crate::postgres::error::store_error;
use crate::postgres::payloads::cut_page;
use crate::postgres::read::sql_limit;
use crate::postgres::rows::{LockMode, PgRows};
use crate::postgres::wall::{Reach, Step};

impl PostgresStore {
    /// Lists live and finished jobs, in order of ids.
    pub(in crate::postgres) async fn read_jobs(
        &self,
        tenant: &Tenant,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError> {
        let mut conn = self.read(Reach::Tenant(tenant)).await?;
        let now = self.time(&mut conn.conn()).await?;
        let mut list = JobList::new(filter, after, limit, now);
        while let Some((table, after)) = list.next_page() {
            list.add(match table {
                JobTable::Live => live_page(&mut conn.conn(), tenant, filter, after).await?,
                JobTable::Ended => ended_page(&mut conn.conn(), tenant, filter, after).await?,
            });
        }
        let mut found = list.finish();
        cut_page(&mut conn.conn(), &mut found, limit, |job| detached_payloads(job).collect())
            .await
            .map_err(store_error)?;
        attach_job_payloads(&mut conn.conn(), &mut found).await?;
        Ok(found)
    }

    pub(in crate::postgres) async fn read_queue(&self, key: &QueueKey) -> Result<Option<QueueState>, StoreError> {
        let mut conn = self.read(Reach::Tenant(&key.0)).await?;
        let found =
            PgRows::new(conn.conn(), self, LockMode::Read).fetch_queues(std::slice::from_ref(key), false).await?;
        Ok(found.into_iter().next().map(|(_, queue)| queue))
    }

    pub(in crate::postgres) async fn read_queues(
        &self,
        tenant: &Tenant,
        after: Option<&Queue>,
        limit: usize,
    ) -> Result<Vec<(Queue, QueueState)>, StoreError> {
        // Skips to the next name among queues with figures and queues with settings.
        let sql = "WITH RECURSIVE q(queue, n) AS (
                SELECT x.queue, 1 FROM (
                    SELECT min(n.queue) AS queue FROM (
                        (SELECT queue FROM bursar.tallies WHERE tenant = $1 AND queue > $2 ORDER BY queue LIMIT 1)
                        UNION ALL
                        (SELECT queue FROM bursar.queues WHERE tenant = $1 AND queue > $2 ORDER BY queue LIMIT 1)) n) x
                WHERE x.queue IS NOT NULL
                UNION ALL
                SELECT x.queue, q.n + 1 FROM q CROSS JOIN LATERAL (
                    SELECT min(n.queue) AS queue FROM (
                        (SELECT t.queue FROM bursar.tallies t WHERE t.tenant = $1 AND t.queue > q.queue
                         ORDER BY t.queue LIMIT 1)
                        UNION ALL
                        (SELECT s.queue FROM bursar.queues s WHERE s.tenant = $1 AND s.queue > q.queue
                         ORDER BY s.queue LIMIT 1)) n) x
                WHERE q.n < $3 AND x.queue IS NOT NULL)
            SELECT q.queue, s.data FROM q LEFT JOIN bursar.queues s ON s.tenant = $1 AND s.queue = q.queue ORDER BY q.n";
        let rows: Vec<(String, Option<String>)> = sqlx::query_as(sql)
            .bind(tenant.as_str())
            .bind(after.map_or("", Queue::as_str))
            .bind(sql_limit(limit))
            .fetch_all(self.read(Reach::Tenant(tenant)).await?.conn())
            .await
            .map_err(store_error)?;
        let queue = |(name, data): (String, Option<String>)| {
            let state = data.map(|data| from_json("queue", &data)).transpose()?;
            Ok((stored_name("queue", name)?, state.unwrap_or_default()))
        };
        rows.into_iter().map(queue).collect()
    }

    pub(in crate::postgres) async fn read_costs(
        &self,
        tenant: &Tenant,
        days: RangeInclusive<i64>,
        after: Option<&CostMark>,
        limit: usize,
    ) -> Result<Vec<Cost>, StoreError> {
        let (first, last) = days.into_inner();
        let (day, queue, kind, scope) = first_after(first, after);
        let rows: Vec<(i64, String, String, String, i64)> = sqlx::query_as(
            "SELECT day, queue, kind, scope, sum(amount)::bigint FROM bursar.costs
             WHERE tenant = $1 AND (day, queue, kind, scope) > ($2, $3, $4, $5) AND day <= $6
             GROUP BY day, queue, kind, scope ORDER BY 1, 2, 3, 4 LIMIT $7",
        )
        .bind(tenant.as_str())
        .bind(day)
        .bind(queue)
        .bind(kind)
        .bind(scope)
        .bind(last)
        .bind(sql_limit(limit))
        .fetch_all(self.read(Reach::Tenant(tenant)).await?.conn())
        .await
        .map_err(store_error)?;
        let cost = |(day, queue, kind, scope, amount)| {
            Ok(Cost {
                day,
                queue: stored_name("queue", queue)?,
                kind: stored_name("kind", kind)?,
                scope: stored_name("scope", scope)?,
                amount,
            })
        };
        rows.into_iter().map(cost).collect()
    }

    pub(in crate::postgres) async fn read_held(
        &self,
        tenant: &Tenant,
        queue: Option<&Queue>,
        after: Option<&HeldMark>,
        limit: usize,
    ) -> Result<Vec<HeldSum>, StoreError> {
        let sql = "SELECT queue, kind, unit, sum(high)::bigint, sum(low)::bigint FROM bursar.held
            WHERE tenant = $1 AND ($2::text IS NULL OR queue = $2) AND (queue, kind, unit) > ($3, $4, $5)
            GROUP BY queue, kind, unit HAVING sum(high) * 4294967296 + sum(low) <> 0 ORDER BY queue, kind, unit LIMIT $6";
        let (after_queue, kind, unit) = after.map_or(("", "", ""), |(q, k, u)| (q.as_str(), k.as_str(), u.as_str()));
        let rows: Vec<(String, String, String, i64, i64)> = sqlx::query_as(sql)
            .bind(tenant.as_str())
            .bind(queue.map(Queue::as_str))
            .bind(after_queue)
            .bind(kind)
            .bind(unit)
            .bind(sql_limit(limit))
            .fetch_all(self.read(Reach::Tenant(tenant)).await?.conn())
            .await
            .map_err(store_error)?;
        let held = |(queue, kind, unit, high, low)| {
            let (queue, kind) = (stored_name("queue", queue)?, stored_name("kind", kind)?);
            Ok(HeldSum::new(queue, kind, unit, SplitSum { high, low }.total()))
        };
        rows.into_iter().map(held).collect()
    }

    pub(in crate::postgres) async fn read_due_jobs(&self, limit: usize) -> Result<DueJobs, StoreError> {
        let mut conn = self.read(Reach::Nothing).await?;
        let now = self.time(&mut conn.conn()).await?;
        self.enter_step(&mut conn.conn(), Step::due("due_jobs", now, limit)).await?;
        let expired_leases = "SELECT tenant, id FROM bursar.jobs WHERE state = 6 AND at <= $1 ORDER BY at LIMIT $2";
        let parked = "SELECT tenant, id FROM bursar.jobs WHERE state = 5 AND at <= $1 ORDER BY at LIMIT $2";
        Ok(DueJobs {
            lapsed: due_jobs(&mut conn.conn(), expired_leases, now, limit).await?,
            awaiting: due_jobs(&mut conn.conn(), parked, now, limit).await?,
            ended: self.expired_ended(&mut conn.conn(), limit, now).await?,
        })
    }

    /// Finds finished jobs whose retention is over. Skips from one queue and state to the next, because each queue has its retention.
    pub(in crate::postgres) async fn expired_ended(
        &self,
        conn: &mut Conn<'_>,
        limit: usize,
        now: Time,
    ) -> Result<Vec<(Tenant, JobId)>, StoreError> {
        let next = "SELECT tenant, queue, state FROM bursar.ended_jobs WHERE (tenant, queue, state) > ($1, $2, $3)
            ORDER BY tenant, queue, state LIMIT 1";
        let expired = "SELECT tenant, id FROM bursar.ended_jobs
            WHERE tenant = $1 AND queue = $2 AND state = $3 AND at <= $4 ORDER BY at LIMIT $5";
        let mut found = Vec::new();
        let mut after = (String::new(), String::new(), -1i16);
        while found.len() < limit {
            self.enter_step(conn, Step::after("ended_jobs", &after.0, 1)).await?;
            let row: Option<(String, String, i16)> = sqlx::query_as(next)
                .bind(&after.0)
                .bind(&after.1)
                .bind(after.2)
                .fetch_optional(&mut *conn)
                .await
                .map_err(store_error)?;
            let Some((tenant, queue, state)) = row else { break };
            let key: QueueKey = (stored_name("tenant", tenant.clone())?, stored_name("queue", queue.clone())?);
            let mut rows = PgRows::new(conn.reborrow(), self, LockMode::Read);
            let row = rows.fetch_queues(std::slice::from_ref(&key), false).await?.into_iter().next();
            let config: QueueConfig = row.map(|(_, state)| state.config).unwrap_or_default();
            if let Some(retention) = config.kept(state_of(i64::from(state))?) {
                let page: Vec<(String, Uuid)> = sqlx::query_as(expired)
                    .bind(&tenant)
                    .bind(&queue)
                    .bind(state)
                    .bind(now.before(retention).micros())
                    .bind((limit - found.len()) as i64)
                    .fetch_all(&mut *conn)
                    .await
                    .map_err(store_error)?;
                for row in page {
                    found.push(job_id(row)?);
                }
            }
            after = (tenant, queue, state);
        }
        Ok(found)
    }

    pub(in crate::postgres) async fn read_awaiting(
        &self,
        scope: &ScopeKey,
        limit: usize,
    ) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT id FROM bursar.jobs WHERE state = 5 AND tenant = $1 AND awaits = $2 ORDER BY id LIMIT $3";
        let ids: Vec<Uuid> = sqlx::query_scalar(sql)
            .bind(scope.0.as_str())
            .bind(scope.1.as_str())
            .bind(sql_limit(limit))
            .fetch_all(self.read(Reach::Tenant(&scope.0)).await?.conn())
            .await
            .map_err(store_error)?;
        Ok(ids.into_iter().map(|id| JobId(id.as_u128())).collect())
    }

    /// Finds the barred jobs of up to `limit` flow keys. Skips from one key to the next, so that the jobs behind are not read.
    pub(in crate::postgres) async fn read_barred(
        &self,
        queue: &QueueKey,
        after: Option<&FlowKey>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<FlowKey>), StoreError> {
        let sql = "WITH RECURSIVE f(flow, n) AS (
                (SELECT flow, 1 FROM bursar.jobs WHERE state IN (1, 2) AND tenant = $1 AND queue = $2 AND flow > $3
                 ORDER BY flow LIMIT 1)
                UNION ALL
                SELECT x.flow, f.n + 1 FROM f CROSS JOIN LATERAL (
                    SELECT j.flow FROM bursar.jobs j
                    WHERE j.state IN (1, 2) AND j.tenant = $1 AND j.queue = $2 AND j.flow > f.flow
                    ORDER BY j.flow LIMIT 1) x
                WHERE f.n < $4)
            SELECT f.flow, j.id FROM f LEFT JOIN LATERAL (
                SELECT j.id FROM bursar.jobs j WHERE j.state IN (1, 2) AND j.tenant = $1 AND j.queue = $2
                    AND j.flow = f.flow AND j.state = 2 OFFSET 0) j ON true
            ORDER BY f.flow, j.id";
        let rows: Vec<(String, Option<Uuid>)> = sqlx::query_as(sql)
            .bind(queue.0.as_str())
            .bind(queue.1.as_str())
            .bind(after.map_or("", |key| key.as_str()))
            .bind(sql_limit(limit))
            .fetch_all(self.read(Reach::Tenant(&queue.0)).await?.conn())
            .await
            .map_err(store_error)?;
        let keys: BTreeSet<&str> = rows.iter().map(|(key, _)| key.as_str()).collect();
        let last = keys.last().filter(|_| keys.len() == limit);
        let last = last.map(|key| stored_name("flow key", (*key).to_owned())).transpose()?;
        Ok((rows.into_iter().filter_map(|(_, id)| Some(JobId(id?.as_u128()))).collect(), last))
    }

    /// Finds the scopes that parked jobs wait for. Skips from one scope to the next, so that not all jobs are read.
    pub(in crate::postgres) async fn read_awaited(&self, limit: usize) -> Result<Vec<(ScopeKey, u64)>, StoreError> {
        let sql = "WITH RECURSIVE s(tenant, awaits) AS (
                (SELECT tenant, awaits FROM bursar.jobs WHERE state = 5 ORDER BY tenant, awaits LIMIT 1)
                UNION ALL
                SELECT n.tenant, n.awaits FROM s CROSS JOIN LATERAL (
                    SELECT j.tenant, j.awaits FROM bursar.jobs j
                    WHERE j.state = 5 AND (j.tenant, j.awaits) > (s.tenant, s.awaits)
                    ORDER BY j.tenant, j.awaits LIMIT 1) n)
            SELECT s.tenant, s.awaits, coalesce((SELECT x.version FROM bursar.scopes x
                WHERE x.tenant = s.tenant AND x.scope = s.awaits), 0) FROM s LIMIT $1";
        let mut conn = self.read(Reach::Nothing).await?;
        self.enter_step(&mut conn.conn(), Step::after("awaited", "", limit)).await?;
        let rows: Vec<(String, String, i64)> =
            sqlx::query_as(sql).bind(sql_limit(limit)).fetch_all(conn.conn()).await.map_err(store_error)?;
        let read = |(tenant, scope, version): (String, String, i64)| {
            Ok(((stored_name("tenant", tenant)?, stored_name("scope", scope)?), version.unsigned_abs()))
        };
        rows.into_iter().map(read).collect()
    }

    pub(in crate::postgres) async fn read_schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        let mut conn = self.read(Reach::Tenant(&key.0)).await?;
        let mut rows = PgRows::new(conn.conn(), self, LockMode::Read);
        let found = rows.fetch_schedules(std::slice::from_ref(key)).await?;
        Ok(found.rows.into_iter().next().map(|(_, schedule)| schedule))
    }

    pub(in crate::postgres) async fn read_schedules(
        &self,
        tenant: &Tenant,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<Vec<(ScheduleName, Schedule)>, StoreError> {
        let sql = "SELECT s.name, s.data FROM (
                SELECT s.name, s.data, sum(octet_length(s.data)) OVER (ORDER BY s.name) - octet_length(s.data) AS before
                FROM (SELECT name, data FROM bursar.schedules WHERE tenant = $1 AND name > $2 ORDER BY name LIMIT $3) s) s
            WHERE s.before < $4 ORDER BY s.name";
        let rows: Vec<(String, String)> = sqlx::query_as(sql)
            .bind(tenant.as_str())
            .bind(after.map_or("", ScheduleName::as_str))
            .bind(sql_limit(limit))
            // A row has less than twice the bytes that its item counts on a page.
            .bind(2 * PAGE_BYTES_MAX as i64)
            .fetch_all(self.read(Reach::Tenant(tenant)).await?.conn())
            .await
            .map_err(store_error)?;
        let read = |(name, data): (String, String)| Ok((stored_name("schedule", name)?, from_json("schedule", &data)?));
        let found = rows.into_iter().map(read).collect::<Result<Vec<(ScheduleName, Schedule)>, StoreError>>()?;
        Ok(page::cut(found, limit))
    }

    pub(in crate::postgres) async fn read_due_schedules(
        &self,
        limit: usize,
    ) -> Result<(Vec<ScheduleKey>, Option<Time>), StoreError> {
        let mut conn = self.read(Reach::Nothing).await?;
        let now = self.time(&mut conn.conn()).await?;
        self.enter_step(&mut conn.conn(), Step::due("due_schedules", now, limit)).await?;
        let now = now.micros();
        let due = "SELECT tenant, name FROM bursar.schedules WHERE next_at <= $1 ORDER BY next_at LIMIT $2";
        let rows: Vec<(String, String)> =
            sqlx::query_as(due).bind(now).bind(sql_limit(limit)).fetch_all(conn.conn()).await.map_err(store_error)?;
        let next = "SELECT next_at FROM bursar.schedules WHERE next_at > $1 AND next_at < $2 ORDER BY next_at LIMIT 1";
        let next: Option<i64> = sqlx::query_scalar(next)
            .bind(now)
            .bind(Time::NEVER.micros())
            .fetch_optional(conn.conn())
            .await
            .map_err(store_error)?;
        let key = |(tenant, name)| Ok((stored_name("tenant", tenant)?, stored_name("schedule", name)?));
        Ok((rows.into_iter().map(key).collect::<Result<_, StoreError>>()?, next.map(Time::from_micros)))
    }
}

fn job_id((tenant, id): (String, Uuid)) -> Result<(Tenant, JobId), StoreError> {
    Ok((stored_name("tenant", tenant)?, JobId(id.as_u128())))
}

/// Runs a query for due jobs.
async fn due_jobs(
    conn: &mut Conn<'_>,
    sql: &'static str,
    now: Time,
    limit: usize,
) -> Result<Vec<(Tenant, JobId)>, StoreError> {
    let rows: Vec<(String, Uuid)> =
        sqlx::query_as(sql).bind(now.micros()).bind(sql_limit(limit)).fetch_all(conn).await.map_err(store_error)?;
    rows.into_iter().map(job_id).collect()
}

/// Reads a page of live jobs.
async fn live_page(
    conn: &mut Conn<'_>,
    tenant: &Tenant,
    filter: &JobFilter,
    after: Option<JobId>,
) -> Result<Vec<Job>, StoreError> {
    let (beyond, direction, first) = page_order(filter, after);
    let sql = format!(
        "SELECT {} FROM bursar.jobs j WHERE j.id {beyond} $1 AND j.tenant = $2 AND ($3::text IS NULL OR j.queue = $3)
            AND ($4::text IS NULL OR j.flow = $4) ORDER BY j.id {direction} LIMIT $5",
        columns!()
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(Uuid::from_u128(first))
        .bind(tenant.as_str())
        .bind(filter.queue.as_ref().map(Queue::as_str))
        .bind(filter.key.as_ref().map(|key| key.as_str()))
        .bind(PAGE as i64)
        .fetch_all(conn)
        .await
        .map_err(store_error)?;
    rows.iter().map(|row| Ok(unpack_live(row, 0)?.0)).collect()
}

/// Reads a page of finished jobs.
async fn ended_page(
    conn: &mut Conn<'_>,
    tenant: &Tenant,
    filter: &JobFilter,
    after: Option<JobId>,
) -> Result<Vec<Job>, StoreError> {
    let (beyond, direction, first) = page_order(filter, after);
    let sql = format!(
        "SELECT data FROM bursar.ended_jobs WHERE id {beyond} $1 AND tenant = $2 AND ($3::text IS NULL OR queue = $3)
        AND ($4::smallint IS NULL OR state = $4) AND ($5::text IS NULL OR fingerprint IS NULL OR fingerprint = $5)
        ORDER BY id {direction} LIMIT $6"
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(Uuid::from_u128(first))
        .bind(tenant.as_str())
        .bind(filter.queue.as_ref().map(Queue::as_str))
        .bind(filter.state.map(|state| state_number(state) as i16))
        .bind(filter.dead_fingerprint())
        .bind(PAGE as i64)
        .fetch_all(conn)
        .await
        .map_err(store_error)?;
    rows.iter().map(|row| Job::unpack(row.try_get_unchecked(0).map_err(store_error)?)).collect()
}
