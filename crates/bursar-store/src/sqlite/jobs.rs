//! Jobs and queues on SQLite: live jobs in one table, finished ones in another, and figures as sums.
//!
//! A live job's row has the columns that an index needs, what never changes (`spec`, written once) and what does (`life`).

mod check;
mod claim;
mod list;
mod write;

use bursar_core::id::JobId;
use bursar_core::job::Job;
use bursar_core::name::{FlowKey, JobKind, Name, Queue, Tenant};
use bursar_core::page::Weighs;
use rusqlite::Row;

pub(super) use self::check::check_jobs;
pub(super) use self::list::{
    awaited, awaiting, barred, costs, due_jobs, figures, held, job_counts, list_jobs, list_queues, queue,
};
use crate::codec::stored;
use crate::error::StoreError;
use crate::job_row::{Columns, Moving, Named, Spec};
use crate::sqlite::error::failed;
use crate::sqlite::rows::{SqliteRows, get_id, get_time, id, unpack};

/// The indexes of the tables of jobs, each with what rows are in it and what it is ordered by.
pub(super) const INDEXES: [(&str, &str, &str, &str); 8] = [
    ("bursar_jobs", "bursar_jobs_ready", "state = 0", "tenant, queue, kind, rank, id"),
    ("bursar_jobs", "bursar_jobs_lines", "state IN (1, 2)", "tenant, queue, flow, state, kind, rank, id"),
    ("bursar_jobs", "bursar_jobs_due", "state IN (3, 4)", "tenant, queue, at"),
    ("bursar_jobs", "bursar_jobs_waiting", "state < 3 AND (state > 0 OR rank <> at)", "tenant, queue, at"),
    ("bursar_jobs", "bursar_jobs_lapse", "state = 6", "at, tenant, queue, rank"),
    ("bursar_jobs", "bursar_jobs_look", "state = 5", "at"),
    ("bursar_jobs", "bursar_jobs_awaits", "state = 5", "tenant, awaits, id"),
    ("bursar_ended_jobs", "bursar_ended_jobs_at", "1", "tenant, queue, state, at"),
];

const LIVE: &str = "SELECT id, tenant, queue, kind, flow, state, at, spec, life FROM bursar_jobs";
const LIVE_BY_ID: &str = "SELECT id, tenant, queue, kind, flow, state, at, spec, life FROM bursar_jobs WHERE id = ?1";
const ENDED_BY_ID: &str = "SELECT data FROM bursar_ended_jobs WHERE id = ?1";

/// Names that stand in many rows are made once.
#[derive(Default)]
struct Names {
    tenant: Option<Tenant>,
    queue: Option<Queue>,
    kind: Option<JobKind>,
}

fn again<T>(
    known: &mut Option<T>,
    row: &Row<'_>,
    (column, what): (usize, &'static str),
    as_str: impl Fn(&T) -> &str,
) -> Result<T, StoreError>
where
    T: Name + Clone,
{
    let text = row.get_ref(column).map_err(failed)?.as_str().map_err(|error| StoreError::corrupt(what, error))?;
    match known {
        Some(same) if as_str(same) == text => Ok(same.clone()),
        _ => Ok(known.insert(stored(what, text.to_owned())?).clone()),
    }
}

impl Names {
    /// A live job from a row of [`LIVE`], without what is kept beside it.
    fn live(&mut self, row: &Row<'_>) -> Result<Job, StoreError> {
        let flow = row.get_ref(4).map_err(failed)?.as_str().map_err(|error| StoreError::corrupt("key", error))?;
        let key = if flow.is_empty() { None } else { Some(stored::<FlowKey>("key", flow.to_owned())?) };
        let (spec, moving): (Spec<'_>, Moving<'_>) = (unpack(row, 7)?, unpack(row, 8)?);
        let (state, at) = (row.get::<_, i64>(5).map_err(failed)?, get_time(row, 6).map_err(failed)?);
        let place = Columns::place(state, at, key.is_some());
        let named = Named {
            id: JobId(get_id(row, 0).map_err(failed)?),
            tenant: again(&mut self.tenant, row, (1, "tenant"), Tenant::as_str)?,
            queue: again(&mut self.queue, row, (2, "queue"), Queue::as_str)?,
            kind: again(&mut self.kind, row, (3, "kind"), JobKind::as_str)?,
            key,
        };
        Ok(named.job(place, spec, moving))
    }
}

impl SqliteRows<'_> {
    /// A job, live or finished, with its payload and result.
    pub(in crate::sqlite) fn read_job(&self, job: JobId) -> Result<Option<Job>, StoreError> {
        self.find_job(job)?.map(|job| self.attach_payloads(job)).transpose()
    }

    /// A job as its row is.
    pub(in crate::sqlite) fn find_job(&self, job: JobId) -> Result<Option<Job>, StoreError> {
        let live = self.one(LIVE_BY_ID, [id(job.0)], |row| Names::default().live(row))?;
        match live {
            Some(job) => Ok(Some(job)),
            None => self.one(ENDED_BY_ID, [id(job.0)], |row| unpack(row, 0)),
        }
    }

    /// Puts back what is kept beside the row.
    /// Puts back what is kept beside the rows, one job after the other, as far as there is room for it.
    fn attach_within(&self, jobs: Vec<Job>, room: &mut usize) -> Result<Vec<Job>, StoreError> {
        let attach = |job: Job| {
            if *room == 0 {
                return Ok(job);
            }
            let job = self.attach_payloads(job)?;
            *room = room.saturating_sub(job.bytes());
            Ok(job)
        };
        jobs.into_iter().map(attach).collect()
    }

    fn attach_payloads(&self, mut job: Job) -> Result<Job, StoreError> {
        if job.payload.is_elsewhere() {
            job.payload = self.payload(job.id.0)?.unwrap_or_default();
        }
        if job.life.result.is_elsewhere() {
            job.life.result = self.payload(job.id.result_key())?.unwrap_or_default();
        }
        Ok(job)
    }
}
