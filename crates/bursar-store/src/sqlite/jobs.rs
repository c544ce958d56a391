//! Jobs and queues on SQLite: live jobs in one table, finished ones in another, and figures as sums.
//!
//! A live job's row has the columns that an index needs, what never changes (`spec`, written once) and what does (`life`).

mod check;
mod claim;
mod list;
mod write;

use bursar_core::id::{BatchId, HoldId, JobId};
use bursar_core::job::{Job, JobState, Life, Place, Retry};
use bursar_core::name::{FlowKey, IdempotencyKey, JobKind, Queue, Tag, Tenant};
use bursar_core::payload::Payload;
use bursar_core::state::Counted;
use bursar_core::time::{Span, Time};
use rusqlite::Row;
use serde::{Deserialize, Serialize};

pub(super) use self::check::check_jobs;
pub(super) use self::list::{awaiting, costs, due_jobs, figures, list_jobs, list_queues, queue};
use crate::codec::{Packed, stored};
use crate::error::StoreError;
use crate::sqlite::error::failed;
use crate::sqlite::rows::{SqliteRows, get_id, get_time, id, unpack};

/// The indexes of the tables of jobs, each with what rows are in it and what it is ordered by.
pub(super) const INDEXES: [(&str, &str, &str, &str); 8] = [
    ("bursar_jobs", "bursar_jobs_ready", "state = 0", "tenant, queue, kind, rank, id"),
    ("bursar_jobs", "bursar_jobs_lines", "state IN (1, 2)", "tenant, queue, flow, state, kind, rank, id"),
    ("bursar_jobs", "bursar_jobs_due", "state IN (3, 4)", "tenant, queue, at"),
    ("bursar_jobs", "bursar_jobs_waiting", "state < 3", "tenant, queue, at"),
    ("bursar_jobs", "bursar_jobs_lapse", "state = 6", "at, tenant, queue, rank"),
    ("bursar_jobs", "bursar_jobs_look", "state = 5", "at"),
    ("bursar_jobs", "bursar_jobs_awaits", "state = 5", "tenant, awaits, id"),
    ("bursar_ended_jobs", "bursar_ended_jobs_at", "1", "tenant, queue, state, at"),
];

/// How the states of live jobs are stored; the partial indexes know these numbers.
const READY: i64 = 0;
const BEHIND: i64 = 1;
const BARRED: i64 = 2;
const PUT_OFF: i64 = 3;
const SCHEDULED: i64 = 4;
const AWAITING: i64 = 5;
const LEASED: i64 = 6;

/// The columns that follow from where a live job is in its life.
#[derive(Debug, PartialEq, Eq)]
struct Columns {
    state: i64,
    rank: i64,
    at: i64,
}

impl Columns {
    fn of(job: &Job) -> Columns {
        let life = &job.life;
        let (state, at) = match (life.state, life.place, &life.lease) {
            (JobState::Queued, Place::Out | Place::First, _) => (READY, life.run_at),
            (JobState::Queued, Place::Behind, _) => (BEHIND, life.run_at),
            (JobState::Queued, Place::Barred, _) => (BARRED, life.run_at),
            (JobState::Queued, Place::Until(at), _) => (PUT_OFF, at),
            (JobState::AwaitingBudget, ..) => (AWAITING, life.run_at),
            (JobState::Leased, _, Some(lease)) => (LEASED, lease.lapses_at()),
            _ => (SCHEDULED, life.run_at),
        };
        // Nobody ranks those that are leased: there the column tells since when they are.
        let rank = life.lease.as_ref().map_or(life.rank, |lease| lease.since);
        Columns { state, rank: rank.micros(), at: at.micros() }
    }

    /// The place in a line: the column is what counts, so that lining up need not touch the rest.
    fn place(state: i64, at: Time, keyed: bool) -> Place {
        match state {
            READY if keyed => Place::First,
            BEHIND => Place::Behind,
            BARRED => Place::Barred,
            PUT_OFF => Place::Until(at),
            _ => Place::Out,
        }
    }
}

/// What never changes of a job, beside its columns.
#[derive(Clone, Serialize, Deserialize)]
struct Spec {
    payload: Payload,
    idempotency_key: Option<IdempotencyKey>,
    tags: Vec<Tag>,
    metadata: Payload,
    parent: Option<JobId>,
    max_attempts: Option<u32>,
    retry: Option<Retry>,
    deadline: Option<Span>,
    enqueued_at: Time,
}

impl Packed for Spec {
    const WHAT: &'static str = "job";
}

/// What changes of a job, beside its columns.
#[derive(Clone, Serialize, Deserialize)]
struct Moving {
    home: Option<Queue>,
    priority: i16,
    hold: Option<HoldId>,
    version: u64,
    last: Option<BatchId>,
    life: Life,
}

impl Packed for Moving {
    const WHAT: &'static str = "job";
}

/// A payload as it stands in a row: a large one is kept beside it.
fn light(payload: &Payload) -> Payload {
    if payload.is_large() { Payload::elsewhere() } else { payload.clone() }
}

fn pack_spec(job: &Job) -> Vec<u8> {
    Spec {
        payload: light(&job.payload),
        idempotency_key: job.idempotency_key.clone(),
        tags: job.tags.clone(),
        metadata: job.metadata.clone(),
        parent: job.parent,
        max_attempts: job.max_attempts,
        retry: job.retry.clone(),
        deadline: job.deadline,
        enqueued_at: job.enqueued_at,
    }
    .pack()
}

fn pack_moving(job: &Job) -> Vec<u8> {
    let life = Life { result: light(&job.life.result), ..job.life.clone() };
    let Job { home, priority, hold, version, last, .. } = job;
    Moving { home: home.clone(), priority: *priority, hold: *hold, version: *version, last: *last, life }.pack()
}

fn pack_ended(job: &Job) -> Vec<u8> {
    let life = Life { result: light(&job.life.result), ..job.life.clone() };
    Job { payload: light(&job.payload), life, ..job.clone() }.pack()
}

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
    T: TryFrom<String> + Clone,
    T::Error: std::fmt::Display,
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
        let (spec, moving): (Spec, Moving) = (unpack(row, 7)?, unpack(row, 8)?);
        let (state, at) = (row.get::<_, i64>(5).map_err(failed)?, get_time(row, 6).map_err(failed)?);
        let place = Columns::place(state, at, key.is_some());
        Ok(Job {
            id: JobId(get_id(row, 0).map_err(failed)?),
            tenant: again(&mut self.tenant, row, (1, "tenant"), Tenant::as_str)?,
            queue: again(&mut self.queue, row, (2, "queue"), Queue::as_str)?,
            home: moving.home,
            kind: again(&mut self.kind, row, (3, "kind"), JobKind::as_str)?,
            payload: spec.payload,
            idempotency_key: spec.idempotency_key,
            key,
            tags: spec.tags,
            metadata: spec.metadata,
            parent: spec.parent,
            priority: moving.priority,
            max_attempts: spec.max_attempts,
            retry: spec.retry,
            deadline: spec.deadline,
            hold: moving.hold,
            enqueued_at: spec.enqueued_at,
            version: moving.version,
            last: moving.last,
            life: Life { place, ..moving.life },
        })
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

/// How a state is stored where it is counted, and of finished jobs.
fn state_number(state: JobState) -> i64 {
    JobState::ALL.iter().position(|known| *known == state).expect("all states are listed") as i64
}

fn state_of(number: i64) -> Result<JobState, StoreError> {
    let state = usize::try_from(number).ok().and_then(|place| JobState::ALL.get(place));
    state.copied().ok_or_else(|| StoreError::corrupt("job", format!("unknown state {number}")))
}

/// How it is stored what a figure counts, and for which minute.
fn counted(what: Counted) -> (i64, i64) {
    match what {
        Counted::In(state) => (state_number(state), 0),
        Counted::Ended(state, minute) => (10 + state_number(state), minute),
        Counted::Enqueued(minute) => (20, minute),
        Counted::Failed(minute) => (21, minute),
    }
}

fn what_counts(number: i64, minute: i64) -> Result<Counted, StoreError> {
    Ok(match number {
        20 => Counted::Enqueued(minute),
        21 => Counted::Failed(minute),
        10.. => Counted::Ended(state_of(number - 10)?, minute),
        _ => Counted::In(state_of(number)?),
    })
}
