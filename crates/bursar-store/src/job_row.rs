//! How jobs stand in the tables of both engines: the columns that an index needs, what never changes, and what does.

use std::borrow::Cow;

use bursar_core::id::{BatchId, HoldId, JobId};
use bursar_core::job::{Job, JobState, Life, Place, Retry};
use bursar_core::name::{FlowKey, IdempotencyKey, JobKind, LeaseOwner, Name, Queue, Scope, Tag, Tenant};
use bursar_core::payload::Payload;
use bursar_core::state::Counted;
use bursar_core::time::{Span, Time};
use bursar_core::trace::TraceParent;
use serde::{Deserialize, Serialize};

use crate::codec::{Packed, append};
use crate::error::StoreError;

/// How the states of live jobs are stored; the partial indexes know these numbers.
pub(crate) const READY: i64 = 0;
pub(crate) const BEHIND: i64 = 1;
pub(crate) const BARRED: i64 = 2;
pub(crate) const PUT_OFF: i64 = 3;
pub(crate) const SCHEDULED: i64 = 4;
pub(crate) const AWAITING: i64 = 5;
pub(crate) const LEASED: i64 = 6;

/// The columns that follow from where a live job is in its life.
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
        // Nobody ranks those that are leased: there the column tells since when they are.
        let rank = life.lease.as_ref().map_or(life.rank, |lease| lease.since);
        Columns { state, rank: rank.micros(), at: at.micros() }
    }

    /// The place in a line: the column is what counts, so that lining up need not touch the rest.
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

/// What never changes of a job, beside its columns.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Spec<'a> {
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

impl<'a> Spec<'a> {
    pub(crate) fn of(job: &'a Job) -> Spec<'a> {
        Spec {
            payload: light(&job.payload),
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

impl Packed for Spec<'_> {
    const WHAT: &'static str = "job";
}

/// What changes of a job, beside its columns.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Moving<'a> {
    home: Cow<'a, Option<Queue>>,
    priority: i16,
    hold: Option<HoldId>,
    version: u64,
    last: Option<BatchId>,
    life: Cow<'a, Life>,
}

impl<'a> Moving<'a> {
    pub(crate) fn of(job: &'a Job) -> Moving<'a> {
        let Job { home, priority, hold, version, last, life, .. } = job;
        let life = match light(&life.result) {
            Cow::Borrowed(_) => Cow::Borrowed(life),
            Cow::Owned(result) => Cow::Owned(Life { result, ..life.clone() }),
        };
        let home = Cow::Borrowed(home);
        Moving { home, priority: *priority, hold: *hold, version: *version, last: *last, life }
    }
}

impl Packed for Moving<'_> {
    const WHAT: &'static str = "job";

    fn append_later(&self, buffer: &mut Vec<u8>) {
        Later::append(&self.life, buffer);
    }

    fn read_later(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        Later::read(self.life.to_mut(), bytes)
    }
}

/// What was added to a job's life since version 1 of its row.
#[derive(Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Later<'a> {
    owner: Option<Cow<'a, str>>,
    settled: Option<Vec<(Cow<'a, str>, i64)>>,
    /// The owners of the leases that lapsed, in their order.
    lapsed: Vec<Option<Cow<'a, str>>>,
}

impl<'a> Later<'a> {
    pub(crate) fn append(life: &'a Life, buffer: &mut Vec<u8>) {
        let text = |owner: &'a Option<LeaseOwner>| owner.as_ref().map(|owner| Cow::Borrowed(owner.as_str()));
        let settled = |settled: &'a Vec<(Scope, i64)>| {
            settled.iter().map(|(scope, amount)| (Cow::Borrowed(scope.as_str()), *amount)).collect()
        };
        let owned = life.lapsed.iter().any(|lapsed| lapsed.owner.is_some());
        let later = Later {
            owner: text(&life.owner),
            settled: life.settled.as_ref().map(settled),
            lapsed: life.lapsed.iter().filter(|_| owned).map(|lapsed| text(&lapsed.owner)).collect(),
        };
        if later != Later::default() {
            append(&later, buffer);
        }
    }

    pub(crate) fn read(life: &mut Life, bytes: &[u8]) -> postcard::Result<()> {
        let bad = |_| postcard::Error::SerdeDeCustom;
        let Later { owner, settled, lapsed } = postcard::from_bytes::<Later<'_>>(bytes)?;
        let owned = |owner: Option<Cow<'_, str>>| owner.map(|owner| LeaseOwner::stored(&owner)).transpose();
        life.owner = owned(owner).map_err(bad)?;
        let read = |(scope, amount): (Cow<'_, str>, i64)| Ok((Scope::stored(&scope).map_err(bad)?, amount));
        life.settled = settled.map(|settled| settled.into_iter().map(read).collect()).transpose()?;
        for (known, owner) in life.lapsed.iter_mut().zip(lapsed) {
            known.owner = owned(owner).map_err(bad)?;
        }
        Ok(())
    }
}

/// A payload as it stands in a row: a large one is kept beside it.
fn light(payload: &Payload) -> Cow<'_, Payload> {
    if payload.is_large() { Cow::Owned(Payload::elsewhere()) } else { Cow::Borrowed(payload) }
}

/// A job that has ended, as its row has it.
pub(crate) fn ended(job: &Job) -> Cow<'_, Job> {
    if !job.payload.is_large() && !job.life.result.is_large() {
        return Cow::Borrowed(job);
    }
    let life = Life { result: light(&job.life.result).into_owned(), ..job.life.clone() };
    Cow::Owned(Job { payload: light(&job.payload).into_owned(), life, ..job.clone() })
}

/// What stands in columns of its own of a live job, and never changes what it is called.
pub(crate) struct Named {
    pub(crate) id: JobId,
    pub(crate) tenant: Tenant,
    pub(crate) queue: Queue,
    pub(crate) kind: JobKind,
    pub(crate) key: Option<FlowKey>,
}

impl Named {
    /// The job that a row is of.
    pub(crate) fn job(self, place: Place, spec: Spec<'_>, moving: Moving<'_>) -> Job {
        let Named { id, tenant, queue, kind, key } = self;
        Job {
            id,
            tenant,
            queue,
            home: moving.home.into_owned(),
            kind,
            payload: spec.payload.into_owned(),
            idempotency_key: spec.idempotency_key.into_owned(),
            key,
            tags: spec.tags.into_owned(),
            metadata: spec.metadata.into_owned(),
            parent: spec.parent,
            priority: moving.priority,
            max_attempts: spec.max_attempts,
            retry: spec.retry.into_owned(),
            deadline: spec.deadline,
            traceparent: spec.traceparent,
            hold: moving.hold,
            enqueued_at: spec.enqueued_at,
            version: moving.version,
            last: moving.last,
            life: Life { place, ..moving.life.into_owned() },
        }
    }
}

/// How a state is stored where it is counted, and of finished jobs.
pub(crate) fn state_number(state: JobState) -> i64 {
    JobState::ALL.iter().position(|known| *known == state).expect("all states are listed") as i64
}

pub(crate) fn state_of(number: i64) -> Result<JobState, StoreError> {
    let state = usize::try_from(number).ok().and_then(|place| JobState::ALL.get(place));
    state.copied().ok_or_else(|| StoreError::corrupt("job", format!("unknown state {number}")))
}

/// How it is stored what a figure counts, and for which minute.
pub(crate) fn counted(what: Counted) -> (i64, i64) {
    match what {
        Counted::In(state) => (state_number(state), 0),
        Counted::Ended(state, minute) => (10 + state_number(state), minute),
        Counted::Enqueued(minute) => (20, minute),
        Counted::Failed(minute) => (21, minute),
    }
}

/// All that is counted by the minute, as it is stored.
pub(crate) fn minute_rows() -> impl Iterator<Item = i64> {
    let ended = JobState::ALL.iter().map(|state| Counted::Ended(*state, 0));
    ended.chain([Counted::Enqueued(0), Counted::Failed(0)]).map(|what| counted(what).0)
}

pub(crate) fn what_counts(number: i64, minute: i64) -> Result<Counted, StoreError> {
    Ok(match number {
        20 => Counted::Enqueued(minute),
        21 => Counted::Failed(minute),
        10.. => Counted::Ended(state_of(number - 10)?, minute),
        _ => Counted::In(state_of(number)?),
    })
}
