//! Writes jobs, their keys, queues, schedules and figures.
//!
//! A live job is updated at its location. A job that finishes moves to `ended_jobs`, and one that is retried by an operator moves back.
//!
//! # Counters
//!
//! Figures are sums: jobs per state and minute (`tallies`), costs per day (`costs`), units held by jobs (`held`), and dead jobs by error
//! (`dead_groups`). All batches of a busy queue add to the same few sums, and would wait for each other's row locks. So each sum is split over up to 64 rows, its *lanes*. A
//! connection adds to the lane of its server process (`pg_backend_pid() % 64`), and readers add up all lanes.

use bursar_core::id::JobId;
use bursar_core::job::{Job, Schedule};

use bursar_core::state::{Change, ScheduleKey, Workspace};
use uuid::Uuid;

use crate::codec::Packed;
use crate::codec::to_json;
use crate::figures::SplitSum;
use crate::job_row::{Columns, FixedFields, MutableFields, finished_row, state_number, tally_code};
use crate::postgres::pg_types::Ctid;
use crate::postgres::rows::{LockMode, PgRows};
use crate::postgres::statement::Statement;
use crate::postgres::write::DELETE_PAYLOADS;

const INSERT_JOBS: &str = "INSERT INTO bursar.jobs (id, tenant, queue, kind, flow, state, rank, at, awaits, spec, life)
    SELECT @";
const PUT_JOBS: &str = "INSERT INTO bursar.jobs (id, tenant, queue, kind, flow, state, rank, at, awaits, spec, life)
    SELECT @ ON CONFLICT (id) DO UPDATE SET queue = EXCLUDED.queue, state = EXCLUDED.state,
        rank = EXCLUDED.rank, at = EXCLUDED.at, awaits = EXCLUDED.awaits, life = EXCLUDED.life";
const UPDATE_JOBS: &str = "UPDATE bursar.jobs j
    SET queue = w.queue, state = w.state, rank = w.rank, at = w.at, awaits = w.awaits, life = w.life
    FROM (SELECT @) AS w(place, queue, state, rank, at, awaits, life) WHERE j.ctid = w.place";
const DELETE_LOCATED: &str = "DELETE FROM bursar.jobs WHERE ctid = ANY (ARRAY(SELECT @))";
const DELETE_JOBS: &str = "DELETE FROM bursar.jobs WHERE ctid = ANY (ARRAY(
        SELECT j.ctid FROM (SELECT @) AS w(id)
        CROSS JOIN LATERAL (SELECT j.ctid FROM bursar.jobs j WHERE j.id = w.id OFFSET 0) j))";
const PUT_ENDED: &str = "INSERT INTO bursar.ended_jobs (id, tenant, queue, kind, state, at, data, fingerprint) SELECT @
    ON CONFLICT (id) DO UPDATE SET queue = EXCLUDED.queue, state = EXCLUDED.state, at = EXCLUDED.at, data = EXCLUDED.data,
        fingerprint = EXCLUDED.fingerprint";
const DELETE_ENDED: &str = "DELETE FROM bursar.ended_jobs WHERE ctid = ANY (ARRAY(
        SELECT j.ctid FROM (SELECT @) AS w(id)
        CROSS JOIN LATERAL (SELECT j.ctid FROM bursar.ended_jobs j WHERE j.id = w.id OFFSET 0) j))";
const INSERT_JOB_KEYS: &str = "INSERT INTO bursar.job_keys (tenant, queue, key, job) SELECT @
    ON CONFLICT DO NOTHING";
const DELETE_JOB_KEYS: &str = "DELETE FROM bursar.job_keys WHERE ctid = ANY (ARRAY(
        SELECT k.ctid FROM (SELECT @) AS w(tenant, queue, key)
        CROSS JOIN LATERAL (
            SELECT k.ctid FROM bursar.job_keys k
            WHERE k.tenant = w.tenant AND k.queue = w.queue AND k.key = w.key OFFSET 0) k))";
const PUT_QUEUES: &str = "INSERT INTO bursar.queues (tenant, queue, data) SELECT @
    ON CONFLICT (tenant, queue) DO UPDATE SET data = EXCLUDED.data";
const INSERT_SCHEDULES: &str = "INSERT INTO bursar.schedules (tenant, name, next_at, data) SELECT @
    ON CONFLICT DO NOTHING";
const PUT_SCHEDULES: &str = "INSERT INTO bursar.schedules (tenant, name, next_at, data) SELECT @
    ON CONFLICT (tenant, name) DO UPDATE SET next_at = EXCLUDED.next_at, data = EXCLUDED.data";
const DELETE_SCHEDULES: &str = "DELETE FROM bursar.schedules s USING (SELECT @) AS w(tenant, name)
    WHERE s.tenant = w.tenant AND s.name = w.name";
const ADD_TALLIES: &str = "INSERT INTO bursar.tallies AS t (tenant, queue, what, minute, lane, count)
    SELECT w.tenant, w.queue, w.what, w.minute, pg_backend_pid() % 64, w.count
    FROM (SELECT @) AS w(tenant, queue, what, minute, count)
    ON CONFLICT (tenant, queue, what, minute, lane) DO UPDATE SET count = t.count + EXCLUDED.count";
const ADD_COSTS: &str = "INSERT INTO bursar.costs AS c (tenant, day, queue, kind, scope, lane, amount)
    SELECT w.tenant, w.day, w.queue, w.kind, w.scope, pg_backend_pid() % 64, w.amount
    FROM (SELECT @) AS w(tenant, day, queue, kind, scope, amount)
    ON CONFLICT (tenant, day, queue, kind, scope, lane) DO UPDATE SET amount = c.amount + EXCLUDED.amount";
// A sum has 128 bits: `high` counts in steps of 2^32. `low` stays below 2^32, so that adding up all lanes does not overflow 64 bits.
const ADD_HELD: &str = "INSERT INTO bursar.held AS h (tenant, queue, kind, unit, lane, high, low)
    SELECT w.tenant, w.queue, w.kind, w.unit, pg_backend_pid() % 64, w.high, w.low
    FROM (SELECT @) AS w(tenant, queue, kind, unit, high, low)
    ON CONFLICT (tenant, queue, kind, unit, lane) DO UPDATE
    SET high = h.high + EXCLUDED.high + ((h.low + EXCLUDED.low) >> 32), low = (h.low + EXCLUDED.low) & 4294967295";
const ADD_DEAD: &str = "INSERT INTO bursar.dead_groups AS g (tenant, queue, kind, fingerprint, lane, count)
    SELECT w.tenant, w.queue, w.kind, w.fingerprint, pg_backend_pid() % 64, w.count
    FROM (SELECT @) AS w(tenant, queue, kind, fingerprint, count)
    ON CONFLICT (tenant, queue, kind, fingerprint, lane) DO UPDATE SET count = g.count + EXCLUDED.count";

impl PgRows<'_> {
    /// Adds the parts that write jobs, their keys, queues, schedules and figures.
    pub(in crate::postgres) fn write_jobs(&self, statement: &mut Statement, ws: &Workspace) {
        write_job_keys(statement, ws);
        let (mut new, mut located, mut revived, mut finished) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut ended, mut not_ended, mut deleted, mut payloads) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (id, change) in ws.jobs.changes() {
            let location = self.locations.jobs.get(&id.0);
            match change {
                Change::Insert(job) if job.life.state.is_final() => ended.push(job),
                Change::Insert(job) => new.push(job),
                Change::Update(job) => match (job.life.state.is_final(), location) {
                    (true, Some(ctid)) => {
                        finished.push(*ctid);
                        ended.push(job);
                    }
                    (true, None) => {
                        // The job had ended before. A rebuild does not record locations, so the job may also be live.
                        deleted.extend((self.mode == LockMode::Exclusive).then_some(*id));
                        ended.push(job);
                    }
                    (false, Some(ctid)) => located.push((*ctid, job)),
                    (false, None) => {
                        not_ended.push(*id);
                        revived.push(job);
                    }
                },
                Change::Delete => {
                    not_ended.push(*id);
                    deleted.push(*id);
                    payloads.extend([id.0, id.result_key()]);
                }
            }
        }
        // Ids grow with time. Sorted, rows go to neighbouring pages of the index.
        new.sort_unstable_by_key(|job| job.id);
        ended.sort_unstable_by_key(|job| job.id);
        statement.part(INSERT_JOBS, &new, live_columns);
        statement.part(PUT_JOBS, &revived, live_columns);
        statement.counted_part(UPDATE_JOBS, &located, changed_columns);
        statement.counted_part(DELETE_LOCATED, &finished, |part, rows| part.array(rows.iter().copied()));
        statement.part(PUT_ENDED, &ended, ended_columns);
        for (sql, ids) in [(DELETE_ENDED, not_ended), (DELETE_JOBS, deleted)] {
            statement.part(sql, &ids, |part, rows: &[JobId]| {
                part.array(rows.iter().map(|id| Uuid::from_u128(id.0)));
            });
        }
        statement.part(DELETE_PAYLOADS, &payloads, |part, rows| {
            part.array(rows.iter().map(|id| Uuid::from_u128(*id)));
        });
        write_queues(statement, ws);
        write_schedules(statement, ws);
        write_figures(statement, ws);
    }
}

/// The columns of a live job.
fn live_columns(part: &mut Statement, jobs: &[&Job]) {
    let columns: Vec<Columns> = jobs.iter().map(|job| Columns::of(job)).collect();
    part.array(jobs.iter().map(|job| Uuid::from_u128(job.id.0)));
    part.array(jobs.iter().map(|job| job.tenant.as_str()));
    part.array(jobs.iter().map(|job| job.queue.as_str()));
    part.array(jobs.iter().map(|job| job.kind.as_str()));
    part.array(jobs.iter().map(|job| job.key.as_ref().map_or("", |key| key.as_str())));
    part.array(columns.iter().map(|columns| columns.state as i16));
    part.array(columns.iter().map(|columns| columns.rank));
    part.array(columns.iter().map(|columns| columns.at));
    part.array(jobs.iter().map(|job| job.life.awaits.as_ref().map(|scope| scope.as_str())));
    part.array(jobs.iter().map(|job| FixedFields::of(job).pack()));
    part.array(jobs.iter().map(|job| MutableFields::of(job).pack()));
}

/// The columns of a live job that change.
fn changed_columns(part: &mut Statement, jobs: &[(Ctid, &Job)]) {
    let columns: Vec<Columns> = jobs.iter().map(|(_, job)| Columns::of(job)).collect();
    part.array(jobs.iter().map(|(ctid, _)| *ctid));
    part.array(jobs.iter().map(|(_, job)| job.queue.as_str()));
    part.array(columns.iter().map(|columns| columns.state as i16));
    part.array(columns.iter().map(|columns| columns.rank));
    part.array(columns.iter().map(|columns| columns.at));
    part.array(jobs.iter().map(|(_, job)| job.life.awaits.as_ref().map(|scope| scope.as_str())));
    part.array(jobs.iter().map(|(_, job)| MutableFields::of(job).pack()));
}

/// The columns of an ended job.
fn ended_columns(part: &mut Statement, jobs: &[&Job]) {
    part.array(jobs.iter().map(|job| Uuid::from_u128(job.id.0)));
    part.array(jobs.iter().map(|job| job.tenant.as_str()));
    part.array(jobs.iter().map(|job| job.queue.as_str()));
    part.array(jobs.iter().map(|job| job.kind.as_str()));
    part.array(jobs.iter().map(|job| state_number(job.life.state) as i16));
    part.array(jobs.iter().map(|job| job.life.run_at.micros()));
    part.array(jobs.iter().map(|job| finished_row(job).pack()));
    part.array(jobs.iter().map(|job| job.dead_fingerprint()));
}

/// Writes job keys, sorted, so that transactions that insert the same keys do not deadlock.
fn write_job_keys(statement: &mut Statement, ws: &Workspace) {
    let (mut taken, mut released) = (Vec::new(), Vec::new());
    for (key, change) in ws.job_keys.changes() {
        match change {
            Change::Insert(job) | Change::Update(job) => taken.push((key, *job)),
            Change::Delete => released.push(key),
        }
    }
    taken.sort_unstable();
    statement.counted_part(INSERT_JOB_KEYS, &taken, |part, rows| {
        part.array(rows.iter().map(|(key, _)| key.0.as_str()));
        part.array(rows.iter().map(|(key, _)| key.1.as_str()));
        part.array(rows.iter().map(|(key, _)| key.2.as_str()));
        part.array(rows.iter().map(|(_, job)| Uuid::from_u128(job.0)));
    });
    statement.part(DELETE_JOB_KEYS, &released, |part, rows| {
        part.array(rows.iter().map(|key| key.0.as_str()));
        part.array(rows.iter().map(|key| key.1.as_str()));
        part.array(rows.iter().map(|key| key.2.as_str()));
    });
}

fn write_queues(statement: &mut Statement, ws: &Workspace) {
    let changed = ws.queues.changes().filter_map(|(key, change)| match change {
        Change::Insert(row) | Change::Update(row) => Some((key, row)),
        Change::Delete => None,
    });
    let changed: Vec<_> = changed.collect();
    statement.part(PUT_QUEUES, &changed, |part, rows| {
        part.array(rows.iter().map(|(key, _)| key.0.as_str()));
        part.array(rows.iter().map(|(key, _)| key.1.as_str()));
        part.array(rows.iter().map(|(_, row)| to_json(*row)));
    });
}

fn write_schedules(statement: &mut Statement, ws: &Workspace) {
    let (mut new, mut updated, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
    for (key, change) in ws.schedules.changes() {
        match change {
            Change::Insert(row) => new.push((key, row)),
            Change::Update(row) => updated.push((key, row)),
            Change::Delete => deleted.push(key),
        }
    }
    statement.counted_part(INSERT_SCHEDULES, &new, schedule_columns);
    statement.part(PUT_SCHEDULES, &updated, schedule_columns);
    statement.part(DELETE_SCHEDULES, &deleted, |part, rows| {
        part.array(rows.iter().map(|key| key.0.as_str()));
        part.array(rows.iter().map(|key| key.1.as_str()));
    });
}

fn schedule_columns(part: &mut Statement, rows: &[(&ScheduleKey, &Schedule)]) {
    part.array(rows.iter().map(|(key, _)| key.0.as_str()));
    part.array(rows.iter().map(|(key, _)| key.1.as_str()));
    part.array(rows.iter().map(|(_, row)| row.next_at.micros()));
    part.array(rows.iter().map(|(_, row)| to_json(*row)));
}

fn write_figures(statement: &mut Statement, ws: &Workspace) {
    let tallies: Vec<_> = ws.tallies.iter().filter(|(_, by)| **by != 0).collect();
    statement.part(ADD_TALLIES, &tallies, |part, rows| {
        part.array(rows.iter().map(|(tally, _)| tally.tenant.as_str()));
        part.array(rows.iter().map(|(tally, _)| tally.queue.as_str()));
        part.array(rows.iter().map(|(tally, _)| tally_code(tally.what).0 as i16));
        part.array(rows.iter().map(|(tally, _)| tally_code(tally.what).1));
        part.array(rows.iter().map(|(_, by)| **by));
    });
    let costs: Vec<_> = ws.costs.iter().collect();
    statement.part(ADD_COSTS, &costs, |part, rows| {
        part.array(rows.iter().map(|((tenant, ..), _)| tenant.as_str()));
        part.array(rows.iter().map(|((_, day, ..), _)| *day));
        part.array(rows.iter().map(|((_, _, queue, ..), _)| queue.as_str()));
        part.array(rows.iter().map(|((_, _, _, kind, _), _)| kind.as_str()));
        part.array(rows.iter().map(|((_, _, _, _, scope), _)| scope.as_str()));
        part.array(rows.iter().map(|(_, amount)| **amount));
    });
    let held: Vec<_> = ws.held.iter().filter(|(_, by)| **by != 0).collect();
    statement.part(ADD_HELD, &held, |part, rows| {
        part.array(rows.iter().map(|((tenant, ..), _)| tenant.as_str()));
        part.array(rows.iter().map(|((_, queue, ..), _)| queue.as_str()));
        part.array(rows.iter().map(|((_, _, kind, _), _)| kind.as_str()));
        part.array(rows.iter().map(|((_, _, _, unit), _)| unit.as_str()));
        part.array(rows.iter().map(|(_, by)| SplitSum::from(**by).high));
        part.array(rows.iter().map(|(_, by)| SplitSum::from(**by).low));
    });
    let dead: Vec<_> = ws.dead.iter().filter(|(_, by)| **by != 0).collect();
    statement.part(ADD_DEAD, &dead, |part, rows| {
        part.array(rows.iter().map(|((tenant, ..), _)| tenant.as_str()));
        part.array(rows.iter().map(|((_, queue, ..), _)| queue.as_str()));
        part.array(rows.iter().map(|((_, _, kind, _), _)| kind.as_str()));
        part.array(rows.iter().map(|((_, _, _, fingerprint), _)| fingerprint.as_str()));
        part.array(rows.iter().map(|(_, by)| **by));
    });
}
