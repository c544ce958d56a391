//! Writing jobs. A live job is a row of `bursar_jobs`. A job that ends moves to `bursar_ended_jobs`, and back if it is retried.

use bursar_core::id::JobId;
use bursar_core::job::Job;
use bursar_core::state::{Change, Workspace};
use rusqlite::params;

use crate::codec::{Packed, to_json};
use crate::error::StoreError;
use crate::figures::SplitSum;
use crate::job_row::{Columns, MutableFields, finished_row, state_number, tally_code};
use crate::sqlite::rows::{SqliteRows, Statement, id};
use crate::sqlite::write::EncodedRows;

const UPDATE: &str =
    "UPDATE bursar_jobs SET queue = ?2, state = ?3, rank = ?4, at = ?5, awaits = ?6, life = ?7 WHERE id = ?1";
const DELETE: &str = "DELETE FROM bursar_jobs WHERE id = ?1";
const END: &str = "INSERT OR REPLACE INTO bursar_ended_jobs (id, tenant, queue, kind, state, at, data, fingerprint)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
// The low half stays below 2^32, so that adding to it never overflows 64 bits.
const ADD_HELD: &str = "INSERT INTO bursar_held (tenant, queue, kind, unit, high, low) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT DO UPDATE SET high = high + excluded.high + ((low + excluded.low) >> 32),
        low = (low + excluded.low) & 4294967295";
pub(super) const ADD_DEAD: &str = "INSERT INTO bursar_dead_groups (tenant, queue, kind, fingerprint, count)
    VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET count = count + excluded.count";
const DELETE_GROUP: &str = "DELETE FROM bursar_dead_groups
    WHERE tenant = ?1 AND queue = ?2 AND kind = ?3 AND fingerprint = ?4 AND count = 0";
const DELETE_ENDED: &str = "DELETE FROM bursar_ended_jobs WHERE id = ?1";

impl SqliteRows<'_> {
    /// Writes jobs, job keys, queues, schedules and figures. New rows of live jobs are added to `encoded` instead.
    pub(in crate::sqlite) fn write_jobs(&self, ws: &Workspace, encoded: &mut EncodedRows) -> Result<(), StoreError> {
        self.write_job_keys(ws)?;
        let mut statements = Statements {
            update: self.prepare(UPDATE)?,
            delete: self.prepare(DELETE)?,
            end: self.prepare(END)?,
            delete_ended: self.prepare(DELETE_ENDED)?,
            buffer: Vec::new(),
        };
        for (id, change) in ws.jobs.changes() {
            match change {
                _ if encoded.add_job(&change) => {}
                Change::Insert(job) => statements.end(job)?,
                Change::Update(job) if statements.update(job)? => {}
                Change::Update(job) => encoded.add_live_job(job),
                Change::Delete => self.delete_job(&mut statements, *id)?,
            }
        }
        self.write_queues(ws)?;
        self.write_schedules(ws)?;
        self.write_figures(ws)
    }

    fn delete_job(&self, statements: &mut Statements<'_>, job: JobId) -> Result<(), StoreError> {
        statements.delete.run([id(job.0)])?;
        statements.delete_ended.run([id(job.0)])?;
        for owner in [job.0, job.result_key()] {
            self.run("DELETE FROM bursar_payloads WHERE id = ?1", [id(owner)])?;
        }
        Ok(())
    }

    fn write_job_keys(&self, ws: &Workspace) -> Result<(), StoreError> {
        let mut insert = self.prepare(
            "INSERT INTO bursar_job_keys (tenant, queue, key, job) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET job = excluded.job",
        )?;
        let mut delete = self.prepare("DELETE FROM bursar_job_keys WHERE tenant = ?1 AND queue = ?2 AND key = ?3")?;
        for ((tenant, queue, key), change) in ws.job_keys.changes() {
            let (tenant, queue, key) = (tenant.as_str(), queue.as_str(), key.as_str());
            match change {
                Change::Insert(job) | Change::Update(job) => insert.run(params![tenant, queue, key, id(job.0)])?,
                Change::Delete => delete.run(params![tenant, queue, key])?,
            };
        }
        Ok(())
    }

    fn write_queues(&self, ws: &Workspace) -> Result<(), StoreError> {
        let sql = "INSERT INTO bursar_queues (tenant, queue, data) VALUES (?1, ?2, ?3)
            ON CONFLICT DO UPDATE SET data = excluded.data";
        for ((tenant, queue), change) in ws.queues.changes() {
            let (Change::Insert(row) | Change::Update(row)) = change else { continue };
            self.run(sql, params![tenant.as_str(), queue.as_str(), to_json(row)])?;
        }
        Ok(())
    }

    fn write_figures(&self, ws: &Workspace) -> Result<(), StoreError> {
        let mut add = self.prepare(
            "INSERT INTO bursar_tallies (tenant, queue, what, minute, count) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )?;
        for (tally, by) in ws.tallies.iter().filter(|(_, by)| **by != 0) {
            let (what, minute) = tally_code(tally.what);
            add.run(params![tally.tenant.as_str(), tally.queue.as_str(), what, minute, by])?;
        }
        let mut add = self.prepare(
            "INSERT INTO bursar_costs (tenant, day, queue, kind, scope, amount) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO UPDATE SET amount = amount + excluded.amount",
        )?;
        for ((tenant, day, queue, kind, scope), amount) in &ws.costs {
            add.run(params![tenant.as_str(), day, queue.as_str(), kind.as_str(), scope.as_str(), amount])?;
        }
        let held = ws.held.iter().filter(|(_, by)| **by != 0);
        for ((tenant, queue, kind, unit), by) in held {
            let SplitSum { high, low } = SplitSum::from(*by);
            self.run(ADD_HELD, params![tenant.as_str(), queue.as_str(), kind.as_str(), unit, high, low])?;
        }
        for ((tenant, queue, kind, fingerprint), by) in ws.dead.iter().filter(|(_, by)| **by != 0) {
            let (tenant, queue, kind) = (tenant.as_str(), queue.as_str(), kind.as_str());
            self.run(ADD_DEAD, params![tenant, queue, kind, fingerprint, by])?;
            if *by < 0 {
                self.run(DELETE_GROUP, params![tenant, queue, kind, fingerprint])?;
            }
        }
        Ok(())
    }
}

/// The prepared statements for jobs of a batch.
struct Statements<'a> {
    update: Statement<'a>,
    delete: Statement<'a>,
    end: Statement<'a>,
    delete_ended: Statement<'a>,
    /// Reused for the encoding of each row.
    buffer: Vec<u8>,
}

impl Statements<'_> {
    /// Writes a changed job. Returns `false` for a job that had ended and is live again, whose row is still to be inserted.
    fn update(&mut self, job: &Job) -> Result<bool, StoreError> {
        if job.life.state.is_final() {
            self.delete.run([id(job.id.0)])?;
            return self.end(job).map(|()| true);
        }
        let Columns { state, rank, at } = Columns::of(job);
        let awaits = job.life.awaits.as_ref().map(|scope| scope.as_str());
        let life = MutableFields::of(job).pack_to(&mut self.buffer);
        let is_live = self.update.run(params![id(job.id.0), job.queue.as_str(), state, rank, at, awaits, life])? > 0;
        if !is_live {
            self.delete_ended.run([id(job.id.0)])?;
        }
        Ok(is_live)
    }

    fn end(&mut self, job: &Job) -> Result<(), StoreError> {
        let (tenant, queue, kind) = (job.tenant.as_str(), job.queue.as_str(), job.kind.as_str());
        let (state, at) = (state_number(job.life.state), job.life.run_at.micros());
        let (ended, fingerprint) = (finished_row(job), job.dead_fingerprint());
        let data = ended.pack_to(&mut self.buffer);
        self.end.run(params![id(job.id.0), tenant, queue, kind, state, at, data, fingerprint])?;
        Ok(())
    }
}
