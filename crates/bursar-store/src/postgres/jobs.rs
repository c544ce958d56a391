//! Reads and locks jobs, queues and schedules.
//!
//! Live jobs are in `jobs`, finished ones in `ended_jobs`. Each index of `jobs` contains only the jobs of some states, so that a worker that
//! leases jobs does not read jobs that are barred, scheduled or leased. The index of ready jobs contains the head of each line of a flow key,
//! but not the jobs behind it.

mod check;
mod claim;
mod figures;
mod list;
mod write;

use std::collections::HashSet;

use bursar_core::id::JobId;
use bursar_core::job::{Job, LastReport, QueueState, Schedule};
use bursar_core::name::Tenant;
use bursar_core::page::PageItem;
use bursar_core::state::{QueueKey, ScheduleKey};
use bursar_core::time::Time;
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

pub(super) use self::figures::group_dead_jobs;
use super::PostgresStore;
use super::conn::Conn;
use super::error::store_error;
use super::payloads::{load_payload_sizes, load_payloads};
use super::pg_types::Ctid;
use super::rows::{LockMode, PgRows, index, uuids};
use super::settings::settings_sql;
use super::wall::Reach;
use crate::codec::{Packed, from_json, stored_name};
use crate::error::StoreError;
use crate::job_row::{Columns, FixedFields, JobIdentity, MutableFields};
use crate::store::Lock;
use crate::transaction::rows::Found;

/// The columns of a live job, in the order in which [`unpack_live`] reads them.
macro_rules! columns {
    () => {
        "j.ctid, j.id, j.tenant, j.queue, j.kind, j.flow, j.state, j.at, j.spec, j.life"
    };
}
use columns;

/// Decodes a live job from a row of [`columns`] that has `skip` other columns before them. Returns the job and its location.
fn unpack_live(row: &PgRow, skip: usize) -> Result<(Job, Ctid), StoreError> {
    let text = |column: usize| row.try_get_unchecked::<String, _>(skip + column).map_err(store_error);
    let id: Uuid = row.try_get_unchecked(skip + 1).map_err(store_error)?;
    let flow = text(5)?;
    let key = if flow.is_empty() { None } else { Some(stored_name("key", flow)?) };
    let state: i16 = row.try_get_unchecked(skip + 6).map_err(store_error)?;
    let at = Time::from_micros(row.try_get_unchecked(skip + 7).map_err(store_error)?);
    let (spec, life): (&[u8], &[u8]) =
        (row.try_get_unchecked(skip + 8).map_err(store_error)?, row.try_get_unchecked(skip + 9).map_err(store_error)?);
    let place = Columns::place(i64::from(state), at, key.is_some());
    let identity = JobIdentity {
        id: JobId(id.as_u128()),
        tenant: stored_name("tenant", text(2)?)?,
        queue: stored_name("queue", text(3)?)?,
        kind: stored_name("kind", text(4)?)?,
        key,
    };
    let job = identity.into_job(place, FixedFields::unpack(spec)?, MutableFields::unpack(life)?);
    Ok((job, row.try_get_unchecked(skip).map_err(store_error)?))
}

/// Loads the detached payloads of the first jobs, until `room` bytes are used up. The job that uses up the room is included.
pub(super) async fn attach_job_payloads_within(
    conn: &mut Conn<'_>,
    jobs: &mut [Job],
    room: &mut usize,
) -> Result<(), StoreError> {
    let ids = |job: &Job| detached_payloads(job).map(Uuid::from_u128).collect::<Vec<_>>();
    let wanted: Vec<Uuid> = jobs.iter().flat_map(ids).collect();
    let sizes = load_payload_sizes(conn, &wanted).await.map_err(store_error)?;
    let mut end = 0;
    for job in jobs.iter() {
        if *room == 0 {
            break;
        }
        *room =
            room.saturating_sub(job.bytes() + detached_payloads(job).filter_map(|id| sizes.get(&id)).sum::<usize>());
        end += 1;
    }
    attach_job_payloads(conn, &mut jobs[..end]).await
}

/// Returns the ids of the detached payloads of a job: its payload and its result.
pub(super) fn detached_payloads(job: &Job) -> impl Iterator<Item = u128> {
    let payload = job.payload.is_elsewhere().then_some(job.id.0);
    payload.into_iter().chain(job.life.result.is_elsewhere().then_some(job.id.result_key()))
}

/// Loads the detached payloads of jobs into them. An erased payload becomes `null`.
pub(super) async fn attach_job_payloads(conn: &mut Conn<'_>, jobs: &mut [Job]) -> Result<(), StoreError> {
    let wanted: Vec<Uuid> = jobs.iter().flat_map(detached_payloads).map(Uuid::from_u128).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut loaded = load_payloads(conn, &wanted).await.map_err(store_error)?;
    for job in jobs {
        if job.payload.is_elsewhere() {
            job.payload = loaded.remove(&job.id.0).unwrap_or_default();
        }
        if job.life.result.is_elsewhere() {
            job.life.result = loaded.remove(&job.id.result_key()).unwrap_or_default();
        }
    }
    Ok(())
}

macro_rules! live_by_id {
    ($lock:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT j.ctid, j.* FROM bursar.jobs j WHERE j.id = w.id",
            $lock,
            ") j"
        )
    };
}

macro_rules! ended_by_id {
    ($lock:literal) => {
        concat!(
            "SELECT j.data FROM unnest($1::uuid[]) AS w(id)
             CROSS JOIN LATERAL (SELECT j.data FROM bursar.ended_jobs j WHERE j.id = w.id",
            $lock,
            ") j"
        )
    };
}

macro_rules! schedules_by_name {
    ($lock:literal) => {
        concat!(
            "SELECT w.n, s.data FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(tenant, name, n)
             CROSS JOIN LATERAL (
                 SELECT s.data FROM bursar.schedules s WHERE s.tenant = w.tenant AND s.name = w.name",
            $lock,
            ") s"
        )
    };
}

/// The text of a statement for a lock mode, or without locks if the caller needs none.
macro_rules! in_mode {
    ($locked:expr, $mode:expr, $sql:ident) => {
        match $mode {
            LockMode::Skip if $locked => $sql!(" FOR UPDATE SKIP LOCKED"),
            LockMode::Wait if $locked => $sql!(" FOR UPDATE"),
            _ => $sql!(" OFFSET 0"),
        }
    };
}

impl PgRows<'_> {
    /// Reads jobs by their ids, live or finished. Locked ones come without their detached payloads, which no decision needs.
    pub(super) async fn fetch_jobs(&mut self, ids: &[JobId], locked: bool) -> Result<Found<JobId, Job>, StoreError> {
        let mut found = Vec::with_capacity(ids.len());
        if locked {
            for (mode, ids) in self.in_lock_order(ids, |id| Lock::Job(*id)) {
                found.extend(self.fetch_with_retry(mode, ids, locked).await?);
            }
        } else {
            found = self.fetch_with_retry(self.mode, ids, locked).await?;
        }
        let missing = missing(ids, &found);
        let mut blocked = Vec::new();
        if locked && self.may_skip() && !missing.is_empty() {
            let exists = "SELECT w.id FROM unnest($1::uuid[]) AS w(id)
                WHERE EXISTS (SELECT 1 FROM bursar.jobs j WHERE j.id = w.id)
                   OR EXISTS (SELECT 1 FROM bursar.ended_jobs j WHERE j.id = w.id)";
            let exists = sqlx::query_scalar::<_, Uuid>(exists).bind(uuids(&missing, |id| id.0));
            let exists = exists.fetch_all(&mut self.conn).await.map_err(|e| self.statement_error(e))?;
            blocked = exists.into_iter().map(|id| JobId(id.as_u128())).collect();
        }
        if !locked {
            attach_job_payloads(&mut self.conn, &mut found).await?;
        }
        Ok(Found { rows: found.into_iter().map(|job| (job.id, job)).collect(), blocked })
    }

    /// Reads jobs from `jobs`, and those that are not there from `ended_jobs`.
    async fn fetch_once(&mut self, mode: LockMode, ids: &[JobId], locked: bool) -> Result<Vec<Job>, StoreError> {
        let rows = self.fetch(sqlx::query(in_mode!(locked, mode, live_by_id)).bind(uuids(ids, |id| id.0))).await?;
        let mut found = Vec::with_capacity(ids.len());
        for row in &rows {
            found.push(self.unpack_located(row, 0, locked)?);
        }
        let missing = missing(ids, &found);
        if !missing.is_empty() {
            let sql = in_mode!(locked, mode, ended_by_id);
            let rows = self.fetch(sqlx::query(sql).bind(uuids(&missing, |id| id.0))).await?;
            for row in &rows {
                found.push(Job::unpack(row.try_get_unchecked(0).map_err(store_error)?)?);
            }
        }
        Ok(found)
    }

    /// Reads jobs from both tables, and looks up missing ones a second time. Another transaction may have moved a job from one table to
    /// the other between the two statements, or while this one waited for its lock.
    async fn fetch_with_retry(&mut self, mode: LockMode, ids: &[JobId], locked: bool) -> Result<Vec<Job>, StoreError> {
        let mut found = self.fetch_once(mode, ids, locked).await?;
        let missing = missing(ids, &found);
        if !missing.is_empty() && mode != LockMode::Skip {
            found.extend(self.fetch_once(mode, &missing, locked).await?);
        }
        Ok(found)
    }

    /// Decodes a live job, and records its location if it is locked.
    fn unpack_located(&mut self, row: &PgRow, skip: usize, locked: bool) -> Result<Job, StoreError> {
        let (job, ctid) = unpack_live(row, skip)?;
        if locked && self.locks() {
            self.locations.jobs.insert(job.id.0, ctid);
        }
        Ok(job)
    }

    pub(super) async fn fetch_queues(
        &mut self,
        keys: &[QueueKey],
        locked: bool,
    ) -> Result<Vec<(QueueKey, QueueState)>, StoreError> {
        let names = keys.iter().map(|(tenant, queue)| (tenant.as_str(), queue.as_str())).unzip();
        let found = self.fetch_settings(&settings_sql!("queues", "queue"), "queue", names, locked).await?;
        Ok(found.into_iter().map(|(n, queue)| (keys[n].clone(), queue)).collect())
    }

    pub(super) async fn fetch_schedules(
        &mut self,
        keys: &[ScheduleKey],
    ) -> Result<Found<ScheduleKey, Schedule>, StoreError> {
        let select = |sql: &'static str, keys: &[ScheduleKey]| {
            let (tenants, names): (Vec<String>, Vec<String>) =
                keys.iter().map(|(tenant, name)| (tenant.as_str().to_owned(), name.as_str().to_owned())).unzip();
            sqlx::query_as::<_, (i64, String)>(sql).bind(tenants).bind(names)
        };
        let mut rows = Vec::with_capacity(keys.len());
        for (mode, keys) in self.in_lock_order(keys, |key| Lock::Schedule(key.clone())) {
            let found = select(in_mode!(true, mode, schedules_by_name), keys).fetch_all(&mut self.conn).await;
            for (n, data) in found.map_err(|e| self.statement_error(e))? {
                rows.push((keys[index(n)].clone(), from_json("schedule", &data)?));
            }
        }
        let mut blocked = Vec::new();
        if rows.len() < keys.len() && self.may_skip() {
            let locked: HashSet<&ScheduleKey> = rows.iter().map(|(key, _)| key).collect();
            let exists = select(schedules_by_name!(" OFFSET 0"), keys).fetch_all(&mut self.conn).await;
            let exists = exists.map_err(|e| self.statement_error(e))?.into_iter().map(|(n, _)| &keys[index(n)]);
            blocked = exists.filter(|key| !locked.contains(key)).cloned().collect();
        }
        Ok(Found { rows, blocked })
    }
}

/// Returns the ids that were not found.
fn missing(ids: &[JobId], found: &[Job]) -> Vec<JobId> {
    if ids.len() == found.len() {
        return Vec::new();
    }
    let found: HashSet<JobId> = found.iter().map(|job| job.id).collect();
    ids.iter().copied().filter(|id| !found.contains(id)).collect()
}

impl PostgresStore {
    pub(super) async fn read_job(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
        let mut conn = self.read(Reach::Tenant(tenant)).await?;
        let found = PgRows::new(conn.conn(), self, LockMode::Read).fetch_jobs(&[id], false).await?;
        Ok(found.rows.into_iter().next().map(|(_, job)| job).filter(|job| job.tenant == *tenant))
    }

    pub(super) async fn read_last_reports(
        &self,
        tenant: &Tenant,
        ids: &[JobId],
    ) -> Result<Vec<(JobId, LastReport)>, StoreError> {
        let mut conn = self.read(Reach::Tenant(tenant)).await?;
        let mut rows = PgRows::new(conn.conn(), self, LockMode::Read);
        let found = rows.fetch_with_retry(LockMode::Read, ids, false).await?;
        Ok(found.iter().filter(|job| job.tenant == *tenant).filter_map(Job::last_report).collect())
    }
}
