//! Finding jobs to lease. The index `bursar_jobs_ready` has only jobs that can be leased, ordered by kind, rank and id.

use std::collections::{BTreeSet, VecDeque};

use bursar_core::bounds::CLAIM_BYTES_MAX;
use bursar_core::job::Job;
use bursar_core::name::{FlowKey, JobKind};
use bursar_core::state::{LineKey, QueueKey};
use bursar_core::time::Time;
use rusqlite::params;

use super::{LIVE, LastNames};
use crate::claims::DUE_STEP;
use crate::error::StoreError;
use crate::figures::PRIORITY_SCAN_MAX;
use crate::job_row::Columns;
use crate::sqlite::error::store_error;
use crate::sqlite::rows::{SqliteRows, get_time, id};
use crate::transaction::rows::{ClaimQuery, Claimed};

/// The jobs of one kind that can be leased, read in pages, the best rank first.
struct KindCursor {
    kind: JobKind,
    page: VecDeque<Job>,
    /// The rank and id of the last job that was read; `None` if there are no more.
    after: Option<(i64, [u8; 16])>,
}

impl SqliteRows<'_> {
    /// Finds jobs for one query. Large payloads are loaded until `bytes_left` is used up.
    pub(in crate::sqlite) fn claim_one(
        &self,
        query: &ClaimQuery,
        now: Time,
        bytes_left: &mut usize,
    ) -> Result<Claimed, StoreError> {
        let (due, next_at) = self.due_scheduled(&query.queue, now)?;
        let ready = self.ready(query)?;
        // The first job gets its payload even if no bytes are left, so that every queue can be leased from.
        *bytes_left = (*bytes_left).max(1);
        Ok(Claimed {
            ready: self.attach_within(ready, bytes_left)?,
            due: self.attach_within(due, bytes_left)?,
            next_at,
        })
    }

    fn ready(&self, query: &ClaimQuery) -> Result<Vec<Job>, StoreError> {
        let kinds = self.kinds(&query.queue, &query.kinds)?;
        // Small pages for each kind, so that at most twice as many rows are read as requested.
        let page = query.count.div_ceil(kinds.len().max(1));
        let mut names = LastNames::default();
        let mut cursors = Vec::with_capacity(kinds.len());
        for kind in kinds {
            let mut cursor = KindCursor { kind, page: VecDeque::new(), after: Some((i64::MIN, id(0))) };
            self.read_page(&mut cursor, &query.queue, page, &mut names)?;
            cursors.push(cursor);
        }
        let mut best = Vec::new();
        while best.len() < query.count {
            let first = |cursor: &KindCursor| cursor.page.front().map(|job| (job.life.rank, job.id));
            let not_empty = cursors.iter_mut().filter(|cursor| !cursor.page.is_empty());
            let Some(cursor) = not_empty.min_by_key(|cursor| first(cursor)) else { break };
            let job = cursor.page.pop_front().expect("the page is not empty");
            if cursor.page.is_empty() {
                self.read_page(cursor, &query.queue, page, &mut names)?;
            }
            best.push(job);
        }
        Ok(best)
    }

    fn read_page(
        &self,
        cursor: &mut KindCursor,
        queue: &QueueKey,
        page: usize,
        names: &mut LastNames,
    ) -> Result<(), StoreError> {
        let Some((rank, after)) = cursor.after else { return Ok(()) };
        let sql =
            "SELECT id, tenant, queue, kind, flow, state, at, spec, life FROM bursar_jobs INDEXED BY bursar_jobs_ready
            WHERE state = 0 AND tenant = ?1 AND queue = ?2 AND kind = ?3 AND (rank, id) > (?4, ?5)
            ORDER BY rank, id LIMIT ?6";
        let params = params![queue.0.as_str(), queue.1.as_str(), cursor.kind.as_str(), rank, after, page as i64];
        cursor.page.extend(self.all(sql, params, |row| names.read_live(row))?);
        let last = cursor.page.back().filter(|_| cursor.page.len() == page);
        cursor.after = last.map(|job| (Columns::of(job).rank, id(job.id.0)));
        Ok(())
    }

    /// Returns the requested kinds. A prefix is expanded to the kinds of ready jobs, with one index lookup for each.
    fn kinds(&self, (tenant, queue): &QueueKey, wanted: &[JobKind]) -> Result<BTreeSet<JobKind>, StoreError> {
        let sql = "SELECT kind FROM bursar_jobs INDEXED BY bursar_jobs_ready
            WHERE state = 0 AND tenant = ?1 AND queue = ?2 AND kind >= ?3 ORDER BY kind LIMIT 1";
        let (tenant, queue) = (tenant.as_str(), queue.as_str());
        let all = wanted.is_empty().then_some("");
        let prefixes = wanted.iter().filter_map(|kind| kind.as_str().strip_suffix('*')).chain(all);
        let mut kinds: BTreeSet<JobKind> =
            wanted.iter().filter(|kind| !kind.as_str().ends_with('*')).cloned().collect();
        for prefix in prefixes {
            let mut from = prefix.to_owned();
            loop {
                let next =
                    self.one(sql, params![tenant, queue, from], |row| row.get::<_, String>(0).map_err(store_error))?;
                let Some(kind) = next.filter(|kind| kind.starts_with(prefix)) else { break };
                // No name has a control character, so this sorts directly after the kind.
                from = format!("{kind}\u{1}");
                kinds.insert(crate::codec::stored_name("kind", kind)?);
            }
        }
        Ok(kinds)
    }

    /// Returns since when the oldest ready job waits, among those whose rank is their instant; see [`PRIORITY_SCAN_MAX`].
    pub(super) fn oldest_ready(&self, queue: &QueueKey) -> Result<Option<Time>, StoreError> {
        let sql = "SELECT coalesce(
            (SELECT at FROM (
                SELECT rank, at FROM bursar_jobs INDEXED BY bursar_jobs_ready
                WHERE state = 0 AND tenant = ?1 AND queue = ?2 AND kind = ?3 ORDER BY rank, id LIMIT ?4)
             WHERE rank = at LIMIT 1),
            (SELECT rank FROM bursar_jobs INDEXED BY bursar_jobs_ready
             WHERE state = 0 AND tenant = ?1 AND queue = ?2 AND kind = ?3 ORDER BY rank, id LIMIT 1 OFFSET ?4))";
        let mut oldest: Option<i64> = None;
        for kind in self.kinds(queue, &[])? {
            let params = params![queue.0.as_str(), queue.1.as_str(), kind.as_str(), PRIORITY_SCAN_MAX];
            let found = self.one(sql, params, |row| row.get::<_, Option<i64>>(0).map_err(store_error))?.flatten();
            oldest = oldest.into_iter().chain(found).min();
        }
        Ok(oldest.map(Time::from_micros))
    }

    /// Returns a bounded number of scheduled jobs that are due, and when the next one is due.
    fn due_scheduled(&self, queue: &QueueKey, now: Time) -> Result<(Vec<Job>, Option<Time>), StoreError> {
        let next = "SELECT at FROM bursar_jobs INDEXED BY bursar_jobs_due
            WHERE state IN (3, 4) AND tenant = ?1 AND queue = ?2 ORDER BY at LIMIT 1 OFFSET ?3";
        let next = |after: usize| {
            let params = params![queue.0.as_str(), queue.1.as_str(), after as i64];
            self.one(next, params, |row| get_time(row, 0).map_err(store_error))
        };
        let first = next(0)?;
        if first.is_none_or(|at| at > now) {
            return Ok((Vec::new(), first));
        }
        let due =
            "SELECT id, tenant, queue, kind, flow, state, at, spec, life FROM bursar_jobs INDEXED BY bursar_jobs_due
            WHERE state IN (3, 4) AND tenant = ?1 AND queue = ?2 AND at <= ?3 ORDER BY at, id LIMIT ?4";
        let mut names = LastNames::default();
        let params = params![queue.0.as_str(), queue.1.as_str(), now.micros(), DUE_STEP as i64];
        let jobs = self.all(due, params, |row| names.read_live(row))?;
        let next = next(jobs.len())?;
        Ok((jobs, next))
    }

    /// Returns jobs behind the head of a line, the best rank first.
    pub(in crate::sqlite) fn jobs_behind(&self, line: &LineKey, count: usize) -> Result<Vec<Job>, StoreError> {
        let sql =
            "SELECT id, tenant, queue, kind, flow, state, at, spec, life FROM bursar_jobs INDEXED BY bursar_jobs_lines
            WHERE state IN (1, 2) AND state = 1 AND tenant = ?1 AND queue = ?2 AND flow = ?3 AND kind = ?4
            ORDER BY rank, id LIMIT ?5";
        let (tenant, queue, flow, kind) = line;
        let params = params![tenant.as_str(), queue.as_str(), flow.as_str(), kind.as_str(), count as i64];
        let mut names = LastNames::default();
        let jobs = self.all(sql, params, |row| names.read_live(row))?;
        let mut bytes_left = CLAIM_BYTES_MAX;
        self.attach_within(jobs, &mut bytes_left)
    }

    /// Returns the barred jobs of a flow key.
    pub(in crate::sqlite) fn barred_jobs(&self, queue: &QueueKey, key: &FlowKey) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "{LIVE} INDEXED BY bursar_jobs_lines
             WHERE state IN (1, 2) AND state = 2 AND tenant = ?1 AND queue = ?2 AND flow = ?3 ORDER BY id"
        );
        let mut names = LastNames::default();
        self.all(&sql, params![queue.0.as_str(), queue.1.as_str(), key.as_str()], |row| names.read_live(row))
    }
}
