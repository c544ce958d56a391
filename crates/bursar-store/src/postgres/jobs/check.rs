//! Verifies jobs, and computes the lines of flow keys after a rebuild.

use std::collections::HashMap;

use bursar_core::hold::Hold;
use bursar_core::id::HoldId;
use bursar_core::job::{Job, Place, compute_lines};
use bursar_core::state::{DeadGroupKey, HeldKey, ScopeKey, Tally};
use sqlx::Row;
use uuid::Uuid;

use super::{columns, unpack_live};
use crate::codec::{Packed, stored_name};
use crate::error::StoreError;
use crate::figures::SplitSum;
use crate::job_row::{Columns, parse_tally, state_of};
use crate::postgres::blobs;
use crate::postgres::conn::Conn;
use crate::postgres::error::store_error;
use crate::postgres::rows::{LockMode, PgRows};
use crate::postgres::wall::Reach;
use crate::postgres::{ONE_SNAPSHOT, PostgresStore};
use crate::transaction::rows::Rows;
use crate::verify::{self, JobCounts, PAGE, Report};

/// The id, state, instant, data and fingerprint of an ended job.
type EndedRow = (Uuid, i16, i64, Vec<u8>, Option<String>);

impl PostgresStore {
    /// Checks that the columns of each job agree with its row, each job with its hold, and the sums of all jobs with scopes and figures.
    /// One snapshot serves all pages, because the slots that leases occupy are only known as a sum over all jobs.
    pub(in crate::postgres) async fn check_jobs(&self, report: &mut Report) -> Result<(), StoreError> {
        let mut tx = self.begin(ONE_SNAPSHOT, Reach::All).await?;
        let mut counts = JobCounts::default();
        let mut after = Uuid::nil();
        while let Some(last) = self.check_live(&mut tx.conn(), report, &mut counts, after).await? {
            after = last;
        }
        let mut after = Uuid::nil();
        while let Some(last) = self.check_ended(&mut tx.conn(), report, &mut counts, after).await? {
            after = last;
        }
        let tallies: Vec<(String, String, i16, i64, i64)> = sqlx::query_as(
            "SELECT tenant, queue, what, minute, sum(count)::bigint FROM bursar.tallies WHERE what < 10
             GROUP BY tenant, queue, what, minute",
        )
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        let tally = |(tenant, queue, what, minute, count): (String, String, i16, i64, i64)| {
            let what = parse_tally(i64::from(what), minute)?;
            Ok((Tally { tenant: stored_name("tenant", tenant)?, queue: stored_name("queue", queue)?, what }, count))
        };
        let tallies = tallies.into_iter().map(tally).collect::<Result<Vec<_>, StoreError>>()?;
        report.check_tallies(&counts, tallies.into_iter());
        let held: Vec<(String, String, String, String, i64, i64)> = sqlx::query_as(
            "SELECT tenant, queue, kind, unit, sum(high)::bigint, sum(low)::bigint FROM bursar.held
             GROUP BY tenant, queue, kind, unit",
        )
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        let sum = |(tenant, queue, kind, unit, high, low)| {
            let key: HeldKey =
                (stored_name("tenant", tenant)?, stored_name("queue", queue)?, stored_name("kind", kind)?, unit);
            Ok((key, SplitSum { high, low }.total()))
        };
        let held = held.into_iter().map(sum).collect::<Result<Vec<_>, StoreError>>()?;
        report.check_held(&counts, held.into_iter());
        let dead: Vec<(String, String, String, String, i64)> = sqlx::query_as(
            "SELECT tenant, queue, kind, fingerprint, sum(count)::bigint FROM bursar.dead_groups
             GROUP BY tenant, queue, kind, fingerprint",
        )
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        let group = |(tenant, queue, kind, fingerprint, count)| {
            let (tenant, queue) = (stored_name("tenant", tenant)?, stored_name("queue", queue)?);
            let key: DeadGroupKey = (tenant, queue, stored_name("kind", kind)?, fingerprint);
            Ok((key, count))
        };
        let dead = dead.into_iter().map(group).collect::<Result<Vec<_>, StoreError>>()?;
        report.check_dead(&counts, dead.into_iter());
        blobs::check(self, &mut tx.conn(), &counts, report).await?;
        self.check_scopes_of_jobs(&mut tx.conn(), report, &counts).await?;
        tx.commit().await.map_err(store_error)
    }

    /// Checks the live jobs on the page after an id; returns the last id.
    async fn check_live(
        &self,
        conn: &mut Conn<'_>,
        report: &mut Report,
        counts: &mut JobCounts,
        after: Uuid,
    ) -> Result<Option<Uuid>, StoreError> {
        let sql = concat!("SELECT ", columns!(), ", j.rank FROM bursar.jobs j WHERE j.id > $1 ORDER BY j.id LIMIT $2");
        let rows = sqlx::query(sql).bind(after).bind(PAGE as i64).fetch_all(&mut *conn).await.map_err(store_error)?;
        let mut jobs = Vec::with_capacity(rows.len());
        for row in &rows {
            let (job, _) = unpack_live(row, 0)?;
            let state: i16 = row.try_get_unchecked(6).map_err(store_error)?;
            let at: i64 = row.try_get_unchecked(7).map_err(store_error)?;
            let rank: i64 = row.try_get_unchecked(10).map_err(store_error)?;
            if Columns::of(&job) != (Columns { state: i64::from(state), rank, at }) || job.life.state.is_final() {
                report.violation(format!("{}: it would not be found by its state, rank or instant", job.id));
            }
            jobs.push(job);
        }
        self.check_with_holds(conn, report, counts, &jobs).await?;
        rows.last().map(|row| row.try_get_unchecked(1)).transpose().map_err(store_error)
    }

    /// Checks the ended jobs on the page after an id; returns the last id.
    async fn check_ended(
        &self,
        conn: &mut Conn<'_>,
        report: &mut Report,
        counts: &mut JobCounts,
        after: Uuid,
    ) -> Result<Option<Uuid>, StoreError> {
        let sql = "SELECT id, state, at, data, fingerprint FROM bursar.ended_jobs WHERE id > $1 ORDER BY id LIMIT $2";
        let rows: Vec<EndedRow> =
            sqlx::query_as(sql).bind(after).bind(PAGE as i64).fetch_all(&mut *conn).await.map_err(store_error)?;
        let last = rows.last().map(|(id, ..)| *id);
        let mut jobs = Vec::with_capacity(rows.len());
        for (_, state, at, data, fingerprint) in rows {
            let job = Job::unpack(&data)?;
            let agrees = job.life.state == state_of(i64::from(state))? && job.life.run_at.micros() == at;
            if !agrees || !job.life.state.is_final() {
                report.violation(format!("{}: it would not be found by its state or instant", job.id));
            }
            report.check_fingerprint(&job, fingerprint.as_deref());
            jobs.push(job);
        }
        self.check_with_holds(conn, report, counts, &jobs).await?;
        Ok(last)
    }

    /// Checks jobs against their holds, and counts them.
    async fn check_with_holds(
        &self,
        conn: &mut Conn<'_>,
        report: &mut Report,
        counts: &mut JobCounts,
        jobs: &[Job],
    ) -> Result<(), StoreError> {
        let wanted: Vec<HoldId> = jobs.iter().filter_map(|job| job.hold).collect();
        let found = PgRows::new(conn.reborrow(), self, LockMode::Read).holds(&wanted).await?;
        let holds: HashMap<HoldId, Hold> = found.rows.into_iter().collect();
        for job in jobs {
            report.check_job(job, job.hold.and_then(|hold| holds.get(&hold)));
            counts.add(job);
        }
        Ok(())
    }

    /// Checks the scopes of slots and lines, and the scopes that parked jobs wait for.
    async fn check_scopes_of_jobs(
        &self,
        conn: &mut Conn<'_>,
        report: &mut Report,
        counts: &JobCounts,
    ) -> Result<(), StoreError> {
        let rows: Vec<(String, String, Vec<u8>, Option<String>)> = sqlx::query_as(
            "SELECT tenant, scope, state, budget FROM bursar.scopes
             WHERE scope >= 'bursar:slots:' AND scope < 'bursar:slots;'",
        )
        .fetch_all(&mut *conn)
        .await
        .map_err(store_error)?;
        for (tenant, scope, state, budget) in rows {
            let key: ScopeKey = (stored_name("tenant", tenant)?, stored_name("scope", scope)?);
            let row = self.scope_row(&state, budget.as_deref())?;
            let queries: Vec<_> = verify::history_queries(&key, &row).collect();
            let sums = PgRows::new(conn.reborrow(), self, LockMode::Read).window_histories(&queries).await?;
            report.check_scope(&key, &row, 0, &sums, Some(counts));
        }
        let awaited: Vec<(ScopeKey, bool)> = counts.awaited().map(|key| (key.clone(), false)).collect();
        for (key, row) in PgRows::new(conn.reborrow(), self, LockMode::Read).scopes(&awaited).await?.rows {
            report.check_jobs_of_scope(&key, &row, counts);
        }
        Ok(())
    }

    /// Computes all lines from the jobs, one flow key at a time. Lines are not in the journal, so a rebuild cannot replay them.
    pub(in crate::postgres) async fn rebuild_lines(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        self.clear_lines(conn).await?;
        let next = "SELECT tenant, queue, flow FROM bursar.jobs
            WHERE flow <> '' AND (tenant, queue, flow) > ($1, $2, $3) ORDER BY tenant, queue, flow LIMIT 1";
        let of_key =
            concat!("SELECT ", columns!(), " FROM bursar.jobs j WHERE j.tenant = $1 AND j.queue = $2 AND j.flow = $3");
        let index = "CREATE INDEX lines_anew ON bursar.jobs (tenant, queue, flow)";
        sqlx::raw_sql(index).execute(&mut *conn).await.map_err(store_error)?;
        let mut after = (String::new(), String::new(), String::new());
        loop {
            let key: Option<(String, String, String)> = sqlx::query_as(next)
                .bind(&after.0)
                .bind(&after.1)
                .bind(&after.2)
                .fetch_optional(&mut *conn)
                .await
                .map_err(store_error)?;
            let Some(key) = key else { break };
            let select = sqlx::query(of_key).bind(&key.0).bind(&key.1).bind(&key.2);
            let rows = select.fetch_all(&mut *conn).await.map_err(store_error)?;
            let mut jobs =
                rows.iter().map(|row| Ok(unpack_live(row, 0)?.0)).collect::<Result<Vec<Job>, StoreError>>()?;
            let before: Vec<Place> = jobs.iter().map(|job| job.life.place).collect();
            let lines = compute_lines(jobs.iter_mut());
            for (job, before) in jobs.iter().zip(before) {
                if job.life.place != before {
                    let Columns { state, at, .. } = Columns::of(job);
                    sqlx::query("UPDATE bursar.jobs SET state = $2, at = $3 WHERE id = $1")
                        .bind(Uuid::from_u128(job.id.0))
                        .bind(state as i16)
                        .bind(at)
                        .execute(&mut *conn)
                        .await
                        .map_err(store_error)?;
                }
            }
            for (scope, line) in lines {
                let found =
                    PgRows::new(conn.reborrow(), self, LockMode::Read).scopes(&[(scope.clone(), false)]).await?;
                let mut row = found.rows.into_iter().next().map(|(_, row)| row).unwrap_or_default();
                row.line = line;
                self.write_line(conn, &scope, &row).await?;
            }
            after = key;
        }
        sqlx::raw_sql("DROP INDEX bursar.lines_anew").execute(conn).await.map_err(store_error)?;
        Ok(())
    }

    async fn write_line(
        &self,
        conn: &mut Conn<'_>,
        key: &ScopeKey,
        row: &bursar_core::scope::ScopeState,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO bursar.scopes (tenant, scope, version, state) VALUES ($1, $2, $3, $4)
            ON CONFLICT (tenant, scope) DO UPDATE SET state = EXCLUDED.state";
        sqlx::query(sql)
            .bind(key.0.as_str())
            .bind(key.1.as_str())
            .bind(i64::try_from(row.version).unwrap_or(i64::MAX))
            .bind(row.pack())
            .execute(conn)
            .await
            .map_err(store_error)?;
        Ok(())
    }

    /// Empties the lines that the replay has filled.
    async fn clear_lines(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        let rows: Vec<(String, String, Vec<u8>)> = sqlx::query_as(
            "SELECT tenant, scope, state FROM bursar.scopes
             WHERE scope >= 'bursar:slots:' AND scope < 'bursar:slots;'",
        )
        .fetch_all(&mut *conn)
        .await
        .map_err(store_error)?;
        for (tenant, scope, state) in rows {
            let key: ScopeKey = (stored_name("tenant", tenant)?, stored_name("scope", scope)?);
            let mut row = self.scope_row(&state, None)?;
            if !row.line.is_empty() {
                row.line = Default::default();
                self.write_line(conn, &key, &row).await?;
            }
        }
        Ok(())
    }
}
