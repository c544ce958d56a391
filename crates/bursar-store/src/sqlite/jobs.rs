//! Jobs and queues: live jobs in one table, finished ones in another, and figures as sums that each transaction adds to.
//!
//! The row of a live job has the columns that an index needs, the part that never changes (`spec`, written once), and the part that
//! does (`life`).

mod check;
mod claim;
mod figures;
mod list;
mod write;

use bursar_core::id::JobId;
use bursar_core::job::Job;
use bursar_core::name::{FlowKey, JobKind, Name, Queue, Tenant};
use bursar_core::page::PageItem;
use rusqlite::Row;

pub(super) use self::check::check_jobs;
pub(super) use self::figures::{dead_groups, figures, group_dead_jobs, queue_counts};
pub(super) use self::list::{
    awaited, awaiting, barred, costs, due_jobs, held, list_jobs, list_queues, queue, retention_over,
};
use crate::codec::stored_name;
use crate::error::StoreError;
use crate::job_row::{Columns, FixedFields, JobIdentity, MutableFields};
use crate::sqlite::error::store_error;
use crate::sqlite::rows::{SqliteRows, get_id, get_time, id, unpack};

/// The indexes of the tables of jobs: table, index, the condition for rows in it, and its columns.
pub(super) const INDEXES: [(&str, &str, &str, &str); 9] = [
    ("bursar_jobs", "bursar_jobs_ready", "state = 0", "tenant, queue, kind, rank, id"),
    ("bursar_jobs", "bursar_jobs_lines", "state IN (1, 2)", "tenant, queue, flow, state, kind, rank, id"),
    ("bursar_jobs", "bursar_jobs_due", "state IN (3, 4)", "tenant, queue, at"),
    ("bursar_jobs", "bursar_jobs_waiting", "state < 3 AND (state > 0 OR rank <> at)", "tenant, queue, at"),
    ("bursar_jobs", "bursar_jobs_lapse", "state = 6", "at, tenant, queue, rank"),
    ("bursar_jobs", "bursar_jobs_look", "state = 5", "at"),
    ("bursar_jobs", "bursar_jobs_awaits", "state = 5", "tenant, awaits, id"),
    ("bursar_ended_jobs", "bursar_ended_jobs_at", "1", "tenant, queue, state, at"),
    ("bursar_ended_jobs", "bursar_ended_jobs_dead", "fingerprint IS NOT NULL", "tenant, queue, kind, fingerprint, at"),
];

const LIVE: &str = "SELECT id, tenant, queue, kind, flow, state, at, spec, life FROM bursar_jobs";
const LIVE_BY_ID: &str = "SELECT id, tenant, queue, kind, flow, state, at, spec, life FROM bursar_jobs WHERE id = ?1";
const ENDED_BY_ID: &str = "SELECT data FROM bursar_ended_jobs WHERE id = ?1";

/// The names of the last row that was read. Rows that follow each other mostly share them, so they are cloned and not parsed again.
#[derive(Default)]
struct LastNames {
    tenant: Option<Tenant>,
    queue: Option<Queue>,
    kind: Option<JobKind>,
}

/// Reads a name, and clones the last one if it is the same.
fn read_name<T>(
    last: &mut Option<T>,
    row: &Row<'_>,
    (column, what): (usize, &'static str),
    as_str: impl Fn(&T) -> &str,
) -> Result<T, StoreError>
where
    T: Name + Clone,
{
    let text = row.get_ref(column).map_err(store_error)?.as_str().map_err(|error| StoreError::corrupt(what, error))?;
    match last {
        Some(same) if as_str(same) == text => Ok(same.clone()),
        _ => Ok(last.insert(stored_name(what, text.to_owned())?).clone()),
    }
}

impl LastNames {
    /// Reads a live job from a row of [`LIVE`], without large payloads.
    fn read_live(&mut self, row: &Row<'_>) -> Result<Job, StoreError> {
        let flow = row.get_ref(4).map_err(store_error)?.as_str().map_err(|error| StoreError::corrupt("key", error))?;
        let key = if flow.is_empty() { None } else { Some(stored_name::<FlowKey>("key", flow.to_owned())?) };
        let (spec, moving): (FixedFields<'_>, MutableFields<'_>) = (unpack(row, 7)?, unpack(row, 8)?);
        let (state, at) = (row.get::<_, i64>(5).map_err(store_error)?, get_time(row, 6).map_err(store_error)?);
        let place = Columns::place(state, at, key.is_some());
        let identity = JobIdentity {
            id: JobId(get_id(row, 0).map_err(store_error)?),
            tenant: read_name(&mut self.tenant, row, (1, "tenant"), Tenant::as_str)?,
            queue: read_name(&mut self.queue, row, (2, "queue"), Queue::as_str)?,
            kind: read_name(&mut self.kind, row, (3, "kind"), JobKind::as_str)?,
            key,
        };
        Ok(identity.into_job(place, spec, moving))
    }
}

impl SqliteRows<'_> {
    /// Reads a job, live or finished, with its payload and result.
    pub(in crate::sqlite) fn read_job(&self, job: JobId) -> Result<Option<Job>, StoreError> {
        self.find_job(job)?.map(|job| self.attach_payloads(job)).transpose()
    }

    /// Reads a job, live or finished, without large payloads.
    pub(in crate::sqlite) fn find_job(&self, job: JobId) -> Result<Option<Job>, StoreError> {
        let live = self.one(LIVE_BY_ID, [id(job.0)], |row| LastNames::default().read_live(row))?;
        match live {
            Some(job) => Ok(Some(job)),
            None => self.one(ENDED_BY_ID, [id(job.0)], |row| unpack(row, 0)),
        }
    }

    /// Loads large payloads into jobs until `bytes_left` is used up; the remaining jobs stay without theirs.
    fn attach_within(&self, jobs: Vec<Job>, bytes_left: &mut usize) -> Result<Vec<Job>, StoreError> {
        let attach = |job: Job| {
            if *bytes_left == 0 {
                return Ok(job);
            }
            let job = self.attach_payloads(job)?;
            *bytes_left = bytes_left.saturating_sub(job.bytes());
            Ok(job)
        };
        jobs.into_iter().map(attach).collect()
    }

    /// Loads the payload and the result of a job if they are large and stored in a table of their own.
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
