//! The layout of a job in the tables of both SQL engines: columns for the indexes, one blob of fields that never change, and one of
//! fields that do.

use std::borrow::Cow;

use bursar_core::id::{BatchId, HoldId, JobId};
use bursar_core::job::{Job, JobRuntime, JobState, Place, Retry};
use bursar_core::name::{FlowKey, IdempotencyKey, JobKind, LeaseOwner, Name, Queue, Scope, Tag, Tenant};
use bursar_core::payload::Payload;
use bursar_core::state::Counted;
use bursar_core::time::{Span, Time};
use bursar_core::trace::TraceParent;
use serde::{Deserialize, Serialize};

use crate::codec::{Packed, append};
use crate::error::StoreError;

/// The stored states of live jobs. The partial indexes depend on these numbers.
pub(crate) const READY: i64 = 0;
pub(crate) const BEHIND: i64 = 1;
pub(crate) const BARRED: i64 = 2;
pub(crate) const PUT_OFF: i64 = 3;
pub(crate) const SCHEDULED: i64 = 4;
pub(crate) const AWAITING: i64 = 5;
pub(crate) const LEASED: i64 = 6;

/// The words for these states, by their numbers.
pub(crate) const PLACES: [&str; 7] = ["ready", "behind", "barred", "put off", "scheduled", "awaiting_budget", "leased"];

/// The columns of a live job that change with its state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) state: i64,
    pub(crate) rank: i64,
    pub(crate) at: i64,
}

impl Columns {
    pub(crate) fn of(job: &Job) -> Columns {
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
        // A leased job needs no rank, so the column holds the start of its lease.
        let rank = life.lease.as_ref().map_or(life.rank, |lease| lease.since);
        Columns { state, rank: rank.micros(), at: at.micros() }
    }

    /// Returns the place in a line that the columns encode. Only the columns store it, so that a change of place does not rewrite the blobs.
    pub(crate) fn place(state: i64, at: Time, keyed: bool) -> Place {
        match state {
            READY if keyed => Place::First,
            BEHIND => Place::Behind,
            BARRED => Place::Barred,
            PUT_OFF => Place::Until(at),
            _ => Place::Out,
        }
    }
}

/// The fields of a job that never change and have no column.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct FixedFields<'a> {
    payload: Cow<'a, Payload>,
    idempotency_key: Cow<'a, Option<IdempotencyKey>>,
    tags: Cow<'a, [Tag]>,
    metadata: Cow<'a, Payload>,
    parent: Option<JobId>,
    max_attempts: Option<u32>,
    retry: Cow<'a, Option<Retry>>,
    deadline: Option<Span>,
    enqueued_at: Time,
    traceparent: Option<TraceParent>,
}

impl<'a> FixedFields<'a> {
    pub(crate) fn of(job: &'a Job) -> FixedFields<'a> {
        FixedFields {
            payload: without_large(&job.payload),
            idempotency_key: Cow::Borrowed(&job.idempotency_key),
            tags: Cow::Borrowed(&job.tags),
            metadata: Cow::Borrowed(&job.metadata),
            parent: job.parent,
            max_attempts: job.max_attempts,
            retry: Cow::Borrowed(&job.retry),
            deadline: job.deadline,
            enqueued_at: job.enqueued_at,
            traceparent: job.traceparent,
        }
    }
}

impl Packed for FixedFields<'_> {
    const WHAT: &'static str = "job";
}

/// The fields of a job that change and have no column.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct MutableFields<'a> {
    home: Cow<'a, Option<Queue>>,
    priority: i16,
    hold: Option<HoldId>,
    version: u64,
    last: Option<BatchId>,
    life: Cow<'a, JobRuntime>,
}

impl<'a> MutableFields<'a> {
    pub(crate) fn of(job: &'a Job) -> MutableFields<'a> {
        let Job { home, priority, hold, version, last, life, .. } = job;
        let life = match without_large(&life.result) {
            Cow::Borrowed(_) => Cow::Borrowed(life),
            Cow::Owned(result) => Cow::Owned(JobRuntime { result, ..life.clone() }),
        };
        let home = Cow::Borrowed(home);
        MutableFields { home, priority: *priority, hold: *hold, version: *version, last: *last, life }
    }

    pub(crate) fn last_mut(&mut self) -> &mut Option<BatchId> {
        &mut self.last
    }
}

impl Packed for MutableFields<'_> {
    const WHAT: &'static str = "job";

    fn append_added(&self, buffer: &mut Vec<u8>) {
        AddedFields::append(&self.life, buffer);
    }

    fn read_added(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        AddedFields::read(self.life.to_mut(), bytes)
    }
}

/// The fields of [`JobRuntime`] that were added after version 1 of the row.
#[derive(Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct AddedFields<'a> {
    owner: Option<Cow<'a, str>>,
    settled: Option<Vec<(Cow<'a, str>, i64)>>,
    /// The owners of the lapsed leases, in the order of `JobRuntime::lapsed`. Empty if none has an owner.
    lapsed: Vec<Option<Cow<'a, str>>>,
}

impl<'a> AddedFields<'a> {
    pub(crate) fn append(life: &'a JobRuntime, buffer: &mut Vec<u8>) {
        let text = |owner: &'a Option<LeaseOwner>| owner.as_ref().map(|owner| Cow::Borrowed(owner.as_str()));
        let settled = |settled: &'a Vec<(Scope, i64)>| {
            settled.iter().map(|(scope, amount)| (Cow::Borrowed(scope.as_str()), *amount)).collect()
        };
        let any_owner = life.lapsed.iter().any(|lapsed| lapsed.owner.is_some());
        let added = AddedFields {
            owner: text(&life.owner),
            settled: life.settled.as_ref().map(settled),
            lapsed: life.lapsed.iter().filter(|_| any_owner).map(|lapsed| text(&lapsed.owner)).collect(),
        };
        // Added later, in this order: a row ends with the last of them that it has.
        let reported = life.progress.is_some() || life.checkpoint.is_some();
        let has_blobs = reported || !life.blobs.is_empty();
        if added != AddedFields::default() || has_blobs {
            append(&added, buffer);
        }
        if has_blobs {
            append(&life.blobs, buffer);
        }
        if reported {
            append(&(&life.progress, &life.checkpoint), buffer);
        }
    }

    pub(crate) fn read(life: &mut JobRuntime, bytes: &[u8]) -> postcard::Result<()> {
        let bad = |_| postcard::Error::SerdeDeCustom;
        let (added, rest) = postcard::take_from_bytes::<AddedFields<'_>>(bytes)?;
        let AddedFields { owner, settled, lapsed } = added;
        if !rest.is_empty() {
            let (blobs, rest) = postcard::take_from_bytes(rest)?;
            life.blobs = blobs;
            if !rest.is_empty() {
                (life.progress, life.checkpoint) = postcard::from_bytes(rest)?;
            }
        }
        let parse_owner = |owner: Option<Cow<'_, str>>| owner.map(|owner| LeaseOwner::stored(&owner)).transpose();
        life.owner = parse_owner(owner).map_err(bad)?;
        let parse_charge = |(scope, amount): (Cow<'_, str>, i64)| Ok((Scope::stored(&scope).map_err(bad)?, amount));
        life.settled = settled.map(|settled| settled.into_iter().map(parse_charge).collect()).transpose()?;
        for (lease, owner) in life.lapsed.iter_mut().zip(lapsed) {
            lease.owner = parse_owner(owner).map_err(bad)?;
        }
        Ok(())
    }
}

/// Replaces a large payload by a marker. Large payloads are stored in a table of their own.
fn without_large(payload: &Payload) -> Cow<'_, Payload> {
    if payload.is_large() { Cow::Owned(Payload::elsewhere()) } else { Cow::Borrowed(payload) }
}

/// The row of a finished job: the job without large payloads.
pub(crate) fn finished_row(job: &Job) -> Cow<'_, Job> {
    if !job.payload.is_large() && !job.life.result.is_large() {
        return Cow::Borrowed(job);
    }
    let life = JobRuntime { result: without_large(&job.life.result).into_owned(), ..job.life.clone() };
    Cow::Owned(Job { payload: without_large(&job.payload).into_owned(), life, ..job.clone() })
}

/// The columns that identify a live job. Their meaning does not depend on its state.
pub(crate) struct JobIdentity {
    pub(crate) id: JobId,
    pub(crate) tenant: Tenant,
    pub(crate) queue: Queue,
    pub(crate) kind: JobKind,
    pub(crate) key: Option<FlowKey>,
}

impl JobIdentity {
    /// Assembles the job from its columns and blobs.
    pub(crate) fn into_job(self, place: Place, spec: FixedFields<'_>, mutable: MutableFields<'_>) -> Job {
        let JobIdentity { id, tenant, queue, kind, key } = self;
        Job {
            id,
            tenant,
            queue,
            home: mutable.home.into_owned(),
            kind,
            payload: spec.payload.into_owned(),
            idempotency_key: spec.idempotency_key.into_owned(),
            key,
            tags: spec.tags.into_owned(),
            metadata: spec.metadata.into_owned(),
            parent: spec.parent,
            priority: mutable.priority,
            max_attempts: spec.max_attempts,
            retry: spec.retry.into_owned(),
            deadline: spec.deadline,
            traceparent: spec.traceparent,
            hold: mutable.hold,
            enqueued_at: spec.enqueued_at,
            version: mutable.version,
            last: mutable.last,
            life: JobRuntime { place, ..mutable.life.into_owned() },
        }
    }
}

/// Returns the stored number of a state, as in the figures and in rows of finished jobs.
pub(crate) fn state_number(state: JobState) -> i64 {
    JobState::ALL.iter().position(|listed| *listed == state).expect("all states are listed") as i64
}

pub(crate) fn state_of(number: i64) -> Result<JobState, StoreError> {
    let state = usize::try_from(number).ok().and_then(|index| JobState::ALL.get(index));
    state.copied().ok_or_else(|| StoreError::corrupt("job", format!("unknown state {number}")))
}

/// The stored number of what a tally counts, and its minute.
pub(crate) fn tally_code(what: Counted) -> (i64, i64) {
    match what {
        Counted::In(state) => (state_number(state), 0),
        Counted::Ended(state, minute) => (10 + state_number(state), minute),
        Counted::Enqueued(minute) => (20, minute),
        Counted::Failed(minute) => (21, minute),
    }
}

/// The stored numbers of all tallies that are kept by the minute.
pub(crate) fn minute_tallies() -> impl Iterator<Item = i64> {
    let ended = JobState::ALL.iter().map(|state| Counted::Ended(*state, 0));
    ended.chain([Counted::Enqueued(0), Counted::Failed(0)]).map(|what| tally_code(what).0)
}

pub(crate) fn parse_tally(number: i64, minute: i64) -> Result<Counted, StoreError> {
    Ok(match number {
        20 => Counted::Enqueued(minute),
        21 => Counted::Failed(minute),
        10.. => Counted::Ended(state_of(number - 10)?, minute),
        _ => Counted::In(state_of(number)?),
    })
}
