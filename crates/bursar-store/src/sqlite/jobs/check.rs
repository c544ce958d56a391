//! Verification of jobs, and the lines of flow keys after a rebuild.

use bursar_core::job::{Job, Place, compute_lines};
use bursar_core::name::{JobKind, Queue, Tenant};
use bursar_core::state::Tally;
use rusqlite::{Row, params};

use super::{LIVE, LastNames};
use crate::codec::{Packed, stored_name};
use crate::error::StoreError;
use crate::figures::SplitSum;
use crate::job_row::{Columns, parse_tally, state_of};
use crate::sqlite::error::store_error;
use crate::sqlite::rows::{SqliteRows, get_id, id, unpack};
use crate::verify::{JobCounts, PAGE, Report};

/// Checks that the columns of each job agree with its row, that each job agrees with its hold, and that the stored sums are right.
/// Returns the counts of all jobs.
pub(in crate::sqlite) fn check_jobs(rows: &SqliteRows<'_>, report: &mut Report) -> Result<JobCounts, StoreError> {
    let mut counts = JobCounts::default();
    let live = "SELECT id, tenant, queue, kind, flow, state, at, spec, life, rank FROM bursar_jobs
        WHERE id > ?1 ORDER BY id LIMIT ?2";
    let mut names = LastNames::default();
    let mut after = id(0);
    loop {
        let page = rows.all(live, params![after, PAGE as i64], |row| {
            let number = |column| row.get::<_, i64>(column).map_err(store_error);
            Ok((names.read_live(row)?, Columns { state: number(5)?, rank: number(9)?, at: number(6)? }))
        })?;
        for (job, columns) in &page {
            if Columns::of(job) != *columns || job.life.state.is_final() {
                report.violation(format!("{}: it would not be found by its state, rank or instant", job.id));
            }
            check_job(rows, job, report)?;
            counts.add(job);
        }
        let Some((last, _)) = page.last() else { break };
        after = id(last.id.0);
    }
    let ended = "SELECT id, state, at, data, fingerprint FROM bursar_ended_jobs WHERE id > ?1 ORDER BY id LIMIT ?2";
    let mut after = id(0);
    loop {
        let page: Vec<(u128, i64, i64, Job, Option<String>)> = rows.all(ended, params![after, PAGE as i64], |row| {
            let number = |column| row.get::<_, i64>(column).map_err(store_error);
            let fingerprint = row.get(4).map_err(store_error)?;
            Ok((get_id(row, 0).map_err(store_error)?, number(1)?, number(2)?, unpack(row, 3)?, fingerprint))
        })?;
        for (_, state, at, job, fingerprint) in &page {
            let agrees = job.life.state == state_of(*state)? && job.life.run_at.micros() == *at;
            if !agrees || !job.life.state.is_final() {
                report.violation(format!("{}: it would not be found by its state or instant", job.id));
            }
            report.check_fingerprint(job, fingerprint.as_deref());
            check_job(rows, job, report)?;
            counts.add(job);
        }
        // The key, because the id in the row may be wrong.
        let Some((last, ..)) = page.last() else { break };
        after = id(*last);
    }
    let tallies = "SELECT tenant, queue, what, minute, count FROM bursar_tallies WHERE what < 10";
    let tallies = rows.all(tallies, [], |row| {
        let number = |column| row.get::<_, i64>(column).map_err(store_error);
        let text = |column| row.get::<_, String>(column).map_err(store_error);
        let what = parse_tally(number(2)?, number(3)?)?;
        let (tenant, queue) = (stored_name::<Tenant>("tenant", text(0)?)?, stored_name::<Queue>("queue", text(1)?)?);
        Ok((Tally { tenant, queue, what }, number(4)?))
    })?;
    report.check_tallies(&counts, tallies.into_iter());
    let held = rows.all("SELECT tenant, queue, kind, unit, high, low FROM bursar_held", [], |row| {
        let text = |column| row.get::<_, String>(column).map_err(store_error);
        let (tenant, queue) = (stored_name::<Tenant>("tenant", text(0)?)?, stored_name::<Queue>("queue", text(1)?)?);
        let sum = SplitSum { high: row.get(4).map_err(store_error)?, low: row.get(5).map_err(store_error)? };
        Ok(((tenant, queue, stored_name::<JobKind>("kind", text(2)?)?, text(3)?), sum.total()))
    })?;
    report.check_held(&counts, held.into_iter());
    let dead = rows.all("SELECT tenant, queue, kind, fingerprint, count FROM bursar_dead_groups", [], |row| {
        let text = |column| row.get::<_, String>(column).map_err(store_error);
        let (tenant, queue) = (stored_name::<Tenant>("tenant", text(0)?)?, stored_name::<Queue>("queue", text(1)?)?);
        let key = (tenant, queue, stored_name::<JobKind>("kind", text(2)?)?, text(3)?);
        Ok((key, row.get(4).map_err(store_error)?))
    })?;
    report.check_dead(&counts, dead.into_iter());
    Ok(counts)
}

fn check_job(rows: &SqliteRows<'_>, job: &Job, report: &mut Report) -> Result<(), StoreError> {
    let hold = job.hold.map(|hold| rows.read_hold(hold)).transpose()?.flatten();
    report.check_job(job, hold.as_ref());
    Ok(())
}

impl SqliteRows<'_> {
    /// Recomputes the lines of flow keys from the jobs after a rebuild, one flow key at a time.
    pub(in crate::sqlite) fn rebuild_lines(&self) -> Result<(), StoreError> {
        let next = "SELECT tenant, queue, flow FROM bursar_jobs
            WHERE flow <> '' AND (tenant, queue, flow) > (?1, ?2, ?3) ORDER BY tenant, queue, flow LIMIT 1";
        let of_key = format!("{LIVE} WHERE tenant = ?1 AND queue = ?2 AND flow = ?3");
        let mut update = self.prepare("UPDATE bursar_jobs SET state = ?2, at = ?3 WHERE id = ?1")?;
        let text = |row: &Row<'_>, column: usize| row.get::<_, String>(column).map_err(store_error);
        let mut after = (String::new(), String::new(), String::new());
        self.run("CREATE INDEX bursar_lines_anew ON bursar_jobs (tenant, queue, flow)", [])?;
        self.clear_lines()?;
        loop {
            let read = |row: &Row<'_>| Ok((text(row, 0)?, text(row, 1)?, text(row, 2)?));
            let Some(key) = self.one(next, params![after.0, after.1, after.2], read)? else { break };
            let mut names = LastNames::default();
            let mut jobs = self.all(&of_key, params![key.0, key.1, key.2], |row| names.read_live(row))?;
            let before: Vec<Place> = jobs.iter().map(|job| job.life.place).collect();
            let lines = compute_lines(jobs.iter_mut());
            for (job, before) in jobs.iter().zip(before) {
                if job.life.place != before {
                    let Columns { state, at, .. } = Columns::of(job);
                    update.run(params![id(job.id.0), state, at])?;
                }
            }
            for (scope, line) in lines {
                let mut row = self.read_scope(&scope)?.unwrap_or_default();
                row.line = line;
                let sql = "INSERT INTO bursar_scopes (tenant, scope, version, state) VALUES (?1, ?2, ?3, ?4)
                    ON CONFLICT DO UPDATE SET state = excluded.state";
                self.run(sql, params![scope.0.as_str(), scope.1.as_str(), row.version as i64, row.pack()])?;
            }
            after = key;
        }
        drop(update);
        self.run("DROP INDEX bursar_lines_anew", []).map(drop)
    }

    /// Clears the lines that the replay has left in scopes, including those without waiting jobs.
    fn clear_lines(&self) -> Result<(), StoreError> {
        let page = "SELECT tenant, scope FROM bursar_scopes
            WHERE scope >= 'bursar:slots:' AND scope < 'bursar:slots;' AND (tenant, scope) > (?1, ?2)
            ORDER BY tenant, scope LIMIT ?3";
        let sql = "UPDATE bursar_scopes SET state = ?3 WHERE tenant = ?1 AND scope = ?2";
        let (mut tenant, mut scope) = (String::new(), String::new());
        loop {
            let keys = self.all(page, params![tenant, scope, PAGE as i64], crate::sqlite::read::scope_key)?;
            let Some(last) = keys.last() else { return Ok(()) };
            (tenant, scope) = (last.0.to_string(), last.1.to_string());
            for key in &keys {
                let Some(mut row) = self.read_scope(key)?.filter(|row| !row.line.is_empty()) else { continue };
                row.line = Default::default();
                self.run(sql, params![key.0.as_str(), key.1.as_str(), row.pack()])?;
            }
        }
    }
}
