//! Finds the jobs that a worker can lease.
//!
//! One statement per queue reads the index `jobs_ready`, which contains only jobs that can be leased, ordered by kind and rank. It finds the
//! kinds by skipping from one to the next in that index (a loose index scan), takes the best jobs of each kind, and of these the best of all.
//! The same statement returns scheduled jobs that are due, and when the next one is due. Jobs that another transaction has locked are
//! skipped.

use bursar_core::bounds::CLAIM_BYTES_MAX;
use bursar_core::job::Job;
use bursar_core::name::FlowKey;
use bursar_core::state::{LineKey, QueueKey};
use bursar_core::time::Time;
use sqlx::Row;

use super::{attach_job_payloads_within, columns};
use crate::claims::DUE_STEP;
use crate::error::StoreError;
use crate::postgres::error::store_error;
use crate::postgres::rows::{LockMode, PgRows};
use crate::transaction::rows::{ClaimQuery, Claimed};

/// Ready jobs (0), scheduled jobs that are due (1), and the instant of the next scheduled job (2).
macro_rules! claim {
    ($lock:literal) => {
        concat!(
            "WITH RECURSIVE k(beginning, kind) AS (
                 SELECT b.beginning, (
                     SELECT j.kind FROM bursar.jobs j
                     WHERE j.state = 0 AND j.tenant = $1 AND j.queue = $2 AND j.kind >= b.beginning
                     ORDER BY j.kind LIMIT 1)
                 FROM unnest($3::text[]) AS b(beginning)
                 UNION ALL
                 SELECT k.beginning, (
                     SELECT j.kind FROM bursar.jobs j
                     WHERE j.state = 0 AND j.tenant = $1 AND j.queue = $2 AND j.kind > k.kind
                     ORDER BY j.kind LIMIT 1)
                 FROM k WHERE k.kind IS NOT NULL AND starts_with(k.kind, k.beginning)),
             kinds(kind) AS (
                 SELECT k.kind FROM k WHERE k.kind IS NOT NULL AND starts_with(k.kind, k.beginning)
                 UNION SELECT unnest($4::text[]))
             (SELECT 0::smallint, NULL::bigint, ",
            columns!(),
            " FROM kinds CROSS JOIN LATERAL (
                 SELECT j.ctid, j.* FROM bursar.jobs j
                 WHERE j.state = 0 AND j.tenant = $1 AND j.queue = $2 AND j.kind = kinds.kind COLLATE \"C\"
                 ORDER BY j.rank, j.id LIMIT $5",
            $lock,
            ") j ORDER BY j.rank, j.id LIMIT $5)
             UNION ALL
             (SELECT 1::smallint, NULL::bigint, ",
            columns!(),
            " FROM (
                 SELECT j.ctid, j.* FROM bursar.jobs j
                 WHERE j.state IN (3, 4) AND j.tenant = $1 AND j.queue = $2 AND j.at <= $6
                 ORDER BY j.at LIMIT $7",
            $lock,
            ") j ORDER BY j.at, j.id)
             UNION ALL
             (SELECT 2::smallint, j.at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM bursar.jobs j
                 WHERE j.state IN (3, 4) AND j.tenant = $1 AND j.queue = $2 AND j.at > $6 ORDER BY j.at LIMIT 1)"
        )
    };
}

/// The jobs behind the heads of lines, best rank first.
macro_rules! behind {
    ($lock:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[])
                 WITH ORDINALITY AS w(tenant, queue, flow, kind, count, n)
             CROSS JOIN LATERAL (
                 SELECT j.ctid, j.* FROM bursar.jobs j
                 WHERE j.state IN (1, 2) AND j.tenant = w.tenant AND j.queue = w.queue AND j.flow = w.flow
                   AND j.state = 1 AND j.kind = w.kind
                 ORDER BY j.rank, j.id LIMIT w.count",
            $lock,
            ") j ORDER BY w.n, j.rank, j.id"
        )
    };
}

/// The heads of lines whose flow key is at its concurrency limit.
macro_rules! barred {
    ($lock:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS w(tenant, queue, flow, n)
             CROSS JOIN LATERAL (
                 SELECT j.ctid, j.* FROM bursar.jobs j
                 WHERE j.state IN (1, 2) AND j.tenant = w.tenant AND j.queue = w.queue AND j.flow = w.flow
                   AND j.state = 2",
            $lock,
            ") j ORDER BY w.n, j.id"
        )
    };
}

/// The text of a statement for a lock mode. A claim never waits for a locked job, because another job can be leased instead.
macro_rules! skip_locked {
    ($mode:expr, $sql:ident) => {
        match $mode {
            LockMode::Skip | LockMode::Wait => $sql!(" FOR UPDATE SKIP LOCKED"),
            LockMode::Read | LockMode::Exclusive => $sql!(" OFFSET 0"),
        }
    };
}

impl PgRows<'_> {
    /// Locks and reads jobs of one queue. `room` is how many bytes of payloads may still be loaded.
    pub(in crate::postgres) async fn claim_one(
        &mut self,
        query: &ClaimQuery,
        now: Time,
        room: &mut usize,
    ) -> Result<Claimed, StoreError> {
        let all = query.kinds.is_empty().then_some("");
        let prefixes = query.kinds.iter().filter_map(|kind| kind.as_str().strip_suffix('*')).chain(all);
        let prefixes: Vec<&str> = prefixes.collect();
        let kinds = query.kinds.iter().map(|kind| kind.as_str()).filter(|kind| !kind.ends_with('*'));
        let kinds: Vec<&str> = kinds.collect();
        let count = i64::try_from(query.count).unwrap_or(i64::MAX);
        let statement = sqlx::query(skip_locked!(self.mode, claim))
            .bind(query.queue.0.as_str())
            .bind(query.queue.1.as_str())
            .bind(prefixes)
            .bind(kinds)
            .bind(count)
            .bind(now.micros())
            .bind(DUE_STEP as i64);
        let rows = self.fetch(statement).await?;
        let mut claimed = Claimed::default();
        for row in &rows {
            match row.try_get_unchecked::<i16, _>(0).map_err(store_error)? {
                0 => claimed.ready.push(self.unpack_located(row, 2, true)?),
                1 => claimed.due.push(self.unpack_located(row, 2, true)?),
                _ => claimed.next_at = Some(Time::from_micros(row.try_get_unchecked(1).map_err(store_error)?)),
            }
        }
        if claimed.due.len() == DUE_STEP {
            // More jobs may be due already.
            claimed.next_at = Some(now);
        }
        // The payload of the best job is loaded in any case, so that this job can always be leased.
        *room = (*room).max(1);
        attach_job_payloads_within(&mut self.conn, &mut claimed.ready, room).await?;
        attach_job_payloads_within(&mut self.conn, &mut claimed.due, room).await?;
        Ok(claimed)
    }

    /// Locks and reads the jobs behind the heads of lines, up to a count for each line.
    pub(in crate::postgres) async fn fetch_behind(
        &mut self,
        lines: &[(LineKey, usize)],
    ) -> Result<Vec<Job>, StoreError> {
        let column = |of: fn(&LineKey) -> &str| lines.iter().map(|(line, _)| of(line)).collect::<Vec<_>>();
        let counts: Vec<i64> = lines.iter().map(|(_, count)| *count as i64).collect();
        let statement = sqlx::query(skip_locked!(self.mode, behind))
            .bind(column(|line| line.0.as_str()))
            .bind(column(|line| line.1.as_str()))
            .bind(column(|line| line.2.as_str()))
            .bind(column(|line| line.3.as_str()))
            .bind(counts);
        let rows = self.fetch(statement).await?;
        let mut jobs = rows.iter().map(|row| self.unpack_located(row, 0, true)).collect::<Result<Vec<_>, _>>()?;
        let mut room = CLAIM_BYTES_MAX;
        attach_job_payloads_within(&mut self.conn, &mut jobs, &mut room).await?;
        Ok(jobs)
    }

    /// Locks and reads the barred heads of the lines of flow keys.
    pub(in crate::postgres) async fn fetch_barred(
        &mut self,
        keys: &[(QueueKey, FlowKey)],
    ) -> Result<Vec<Job>, StoreError> {
        let statement = sqlx::query(skip_locked!(self.mode, barred))
            .bind(keys.iter().map(|((tenant, _), _)| tenant.as_str()).collect::<Vec<_>>())
            .bind(keys.iter().map(|((_, queue), _)| queue.as_str()).collect::<Vec<_>>())
            .bind(keys.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>());
        let rows = self.fetch(statement).await?;
        rows.iter().map(|row| self.unpack_located(row, 0, true)).collect()
    }
}
