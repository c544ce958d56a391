//! Who wants work: the best of what can be leased, read from an index that holds nothing else.

use std::collections::{BTreeSet, VecDeque};

use bursar_core::bounds::CLAIM_BYTES_MAX;
use bursar_core::job::Job;
use bursar_core::name::{FlowKey, JobKind};
use bursar_core::state::{LineKey, QueueKey};
use bursar_core::time::Time;
use rusqlite::params;

use super::{LIVE, Names};
use crate::claims::DUE_STEP;
use crate::error::StoreError;
use crate::figures::AHEAD_LOOK;
use crate::job_row::Columns;
use crate::sqlite::error::failed;
use crate::sqlite::rows::{SqliteRows, get_time, id};
use crate::transaction::rows::{ClaimAsk, Claimed};

/// The jobs of one kind that can be leased, read in pages, the best first.
struct Kind {
    kind: JobKind,
    page: VecDeque<Job>,
    /// Read up to here; `None` when there is nothing more.
    mark: Option<(i64, [u8; 16])>,
}

impl SqliteRows<'_> {
    pub(in crate::sqlite) fn claim_one(
        &self,
        ask: &ClaimAsk,
        now: Time,
        room: &mut usize,
    ) -> Result<Claimed, StoreError> {
        let (due, next_at) = self.come_due(&ask.queue, now)?;
        let ready = self.ready(ask)?;
        // The best of the queue is read in any case, so that it can always be leased.
        *room = (*room).max(1);
        Ok(Claimed { ready: self.attach_within(ready, room)?, due: self.attach_within(due, room)?, next_at })
    }

    fn ready(&self, ask: &ClaimAsk) -> Result<Vec<Job>, StoreError> {
        let kinds = self.kinds(&ask.queue, &ask.kinds)?;
        // Each kind is read a little at a time, so that no more rows are read than twice what is wanted.
        let page = ask.count.div_ceil(kinds.len().max(1));
        let mut names = Names::default();
        let mut heads = Vec::with_capacity(kinds.len());
        for kind in kinds {
            let mut head = Kind { kind, page: VecDeque::new(), mark: Some((i64::MIN, id(0))) };
            self.read_on(&mut head, &ask.queue, page, &mut names)?;
            heads.push(head);
        }
        let mut best = Vec::new();
        while best.len() < ask.count {
            let first = |head: &Kind| head.page.front().map(|job| (job.life.rank, job.id));
            let heads_left = heads.iter_mut().filter(|head| !head.page.is_empty());
            let Some(head) = heads_left.min_by_key(|head| first(head)) else { break };
            let job = head.page.pop_front().expect("it has a first");
            if head.page.is_empty() {
                self.read_on(head, &ask.queue, page, &mut names)?;
            }
            best.push(job);
        }
        Ok(best)
    }

    fn read_on(&self, head: &mut Kind, queue: &QueueKey, page: usize, names: &mut Names) -> Result<(), StoreError> {
        let Some((rank, after)) = head.mark else { return Ok(()) };
        let sql =
            "SELECT id, tenant, queue, kind, flow, state, at, spec, life FROM bursar_jobs INDEXED BY bursar_jobs_ready
            WHERE state = 0 AND tenant = ?1 AND queue = ?2 AND kind = ?3 AND (rank, id) > (?4, ?5)
            ORDER BY rank, id LIMIT ?6";
        let params = params![queue.0.as_str(), queue.1.as_str(), head.kind.as_str(), rank, after, page as i64];
        head.page.extend(self.all(sql, params, |row| names.live(row))?);
        let last = head.page.back().filter(|_| head.page.len() == page);
        head.mark = last.map(|job| (Columns::of(job).rank, id(job.id.0)));
        Ok(())
    }

    /// The kinds that are asked for, as far as there may be such jobs: from one to the next, past all jobs between.
    fn kinds(&self, (tenant, queue): &QueueKey, wanted: &[JobKind]) -> Result<BTreeSet<JobKind>, StoreError> {
        let sql = "SELECT kind FROM bursar_jobs INDEXED BY bursar_jobs_ready
            WHERE state = 0 AND tenant = ?1 AND queue = ?2 AND kind >= ?3 ORDER BY kind LIMIT 1";
        let (tenant, queue) = (tenant.as_str(), queue.as_str());
        let all = wanted.is_empty().then_some("");
        let beginnings = wanted.iter().filter_map(|kind| kind.as_str().strip_suffix('*')).chain(all);
        let mut kinds: BTreeSet<JobKind> =
            wanted.iter().filter(|kind| !kind.as_str().ends_with('*')).cloned().collect();
        for beginning in beginnings {
            let mut from = beginning.to_owned();
            loop {
                let next =
                    self.one(sql, params![tenant, queue, from], |row| row.get::<_, String>(0).map_err(failed))?;
                let Some(kind) = next.filter(|kind| kind.starts_with(beginning)) else { break };
                // No name has a control character, so that this is before all that are after it.
                from = format!("{kind}\u{1}");
                kinds.insert(crate::codec::stored("kind", kind)?);
            }
        }
        Ok(kinds)
    }

    /// Since when the oldest waits of those that can be leased and stand where their instant says; see [`AHEAD_LOOK`].
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
            let params = params![queue.0.as_str(), queue.1.as_str(), kind.as_str(), AHEAD_LOOK];
            let found = self.one(sql, params, |row| row.get::<_, Option<i64>>(0).map_err(failed))?.flatten();
            oldest = oldest.into_iter().chain(found).min();
        }
        Ok(oldest.map(Time::from_micros))
    }

    /// A bounded number of those that time alone kept and that are due, and when the next one is.
    fn come_due(&self, queue: &QueueKey, now: Time) -> Result<(Vec<Job>, Option<Time>), StoreError> {
        let next = "SELECT at FROM bursar_jobs INDEXED BY bursar_jobs_due
            WHERE state IN (3, 4) AND tenant = ?1 AND queue = ?2 ORDER BY at LIMIT 1 OFFSET ?3";
        let next = |after: usize| {
            let params = params![queue.0.as_str(), queue.1.as_str(), after as i64];
            self.one(next, params, |row| get_time(row, 0).map_err(failed))
        };
        let first = next(0)?;
        if first.is_none_or(|at| at > now) {
            return Ok((Vec::new(), first));
        }
        let due =
            "SELECT id, tenant, queue, kind, flow, state, at, spec, life FROM bursar_jobs INDEXED BY bursar_jobs_due
            WHERE state IN (3, 4) AND tenant = ?1 AND queue = ?2 AND at <= ?3 ORDER BY at, id LIMIT ?4";
        let mut names = Names::default();
        let params = params![queue.0.as_str(), queue.1.as_str(), now.micros(), DUE_STEP as i64];
        let jobs = self.all(due, params, |row| names.live(row))?;
        let next = next(jobs.len())?;
        Ok((jobs, next))
    }

    pub(in crate::sqlite) fn stand_behind(&self, line: &LineKey, count: usize) -> Result<Vec<Job>, StoreError> {
        let sql =
            "SELECT id, tenant, queue, kind, flow, state, at, spec, life FROM bursar_jobs INDEXED BY bursar_jobs_lines
            WHERE state IN (1, 2) AND state = 1 AND tenant = ?1 AND queue = ?2 AND flow = ?3 AND kind = ?4
            ORDER BY rank, id LIMIT ?5";
        let (tenant, queue, flow, kind) = line;
        let params = params![tenant.as_str(), queue.as_str(), flow.as_str(), kind.as_str(), count as i64];
        let mut names = Names::default();
        let jobs = self.all(sql, params, |row| names.live(row))?;
        let mut room = CLAIM_BYTES_MAX;
        self.attach_within(jobs, &mut room)
    }

    pub(in crate::sqlite) fn are_barred(&self, queue: &QueueKey, key: &FlowKey) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "{LIVE} INDEXED BY bursar_jobs_lines
             WHERE state IN (1, 2) AND state = 2 AND tenant = ?1 AND queue = ?2 AND flow = ?3 ORDER BY id"
        );
        let mut names = Names::default();
        self.all(&sql, params![queue.0.as_str(), queue.1.as_str(), key.as_str()], |row| names.live(row))
    }
}
