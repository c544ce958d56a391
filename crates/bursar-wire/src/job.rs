//! Jobs on the wire.

use bursar_core::answer::{Beaten, Finished};
use bursar_core::bounds::{DELAY_MAX, PRIORITY_MAX};
use bursar_core::id::{HoldId, JobId};
use bursar_core::job::{Job, JobError, JobSpec, JobState, Order};
use bursar_core::name::{FlowKey, IdempotencyKey, JobKind, Queue, Scope, Tag, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::refusal::Invalid;
use bursar_core::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::bounded;
use crate::queue::RetryBody;
use crate::{millis, stamp};

/// A job to be started.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobBody {
    pub queue: Queue,
    pub kind: JobKind,
    #[serde(default)]
    pub payload: Payload,
    #[serde(default)]
    pub idempotency_key: Option<IdempotencyKey>,
    #[serde(default)]
    pub key: Option<FlowKey>,
    #[serde(default)]
    pub tags: Vec<Tag>,
    #[serde(default)]
    pub metadata: Payload,
    #[serde(default)]
    pub parent: Option<JobId>,
    #[serde(default)]
    #[schemars(range(min = -PRIORITY_MAX, max = PRIORITY_MAX))]
    pub priority: i16,
    #[serde(default)]
    #[schemars(range(min = 0, max = DELAY_MAX.millis()))]
    pub delay_ms: i64,
    #[serde(default)]
    pub max_attempts: Option<u32>,
    #[serde(default)]
    pub retry: Option<RetryBody>,
    #[serde(default)]
    pub deadline_ms: Option<i64>,
    #[serde(default)]
    pub payload_from_grant: bool,
}

impl JobBody {
    /// A job with nothing but what it needs.
    pub fn new(queue: Queue, kind: JobKind, payload: Payload) -> JobBody {
        JobBody::from(&JobSpec::new(queue, kind, payload))
    }
}

/// Jobs in one bulk call.
pub const BULK_MAX: usize = 100_000;

/// Many jobs to be started: `POST /v1/jobs/bulk`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkBody {
    #[serde(deserialize_with = "bounded::jobs")]
    pub jobs: Vec<JobBody>,
}

impl TryFrom<JobBody> for JobSpec {
    type Error = Invalid;

    fn try_from(body: JobBody) -> Result<JobSpec, Invalid> {
        let plain = JobSpec::new(body.queue, body.kind, body.payload);
        Ok(JobSpec {
            idempotency_key: body.idempotency_key,
            key: body.key,
            tags: body.tags,
            metadata: body.metadata,
            parent: body.parent,
            priority: body.priority,
            delay: millis("jobs.delay_ms", body.delay_ms)?,
            max_attempts: body.max_attempts,
            retry: body.retry.map(TryInto::try_into).transpose()?,
            deadline: body.deadline_ms.map(|deadline| millis("jobs.deadline_ms", deadline)).transpose()?,
            payload_from_grant: body.payload_from_grant,
            ..plain
        })
    }
}

impl From<&JobSpec> for JobBody {
    fn from(spec: &JobSpec) -> JobBody {
        JobBody {
            queue: spec.queue.clone(),
            kind: spec.kind.clone(),
            payload: spec.payload.clone(),
            idempotency_key: spec.idempotency_key.clone(),
            key: spec.key.clone(),
            tags: spec.tags.clone(),
            metadata: spec.metadata.clone(),
            parent: spec.parent,
            priority: spec.priority,
            delay_ms: spec.delay.millis(),
            max_attempts: spec.max_attempts,
            retry: spec.retry.as_ref().map(RetryBody::from),
            deadline_ms: spec.deadline.map(bursar_core::time::Span::millis),
            payload_from_grant: spec.payload_from_grant,
        }
    }
}

/// A job as it stands.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct JobAnswer {
    pub id: JobId,
    pub queue: Queue,
    pub kind: JobKind,
    pub state: JobState,
    pub payload: Payload,
    pub idempotency_key: Option<IdempotencyKey>,
    pub key: Option<FlowKey>,
    pub tags: Vec<Tag>,
    pub metadata: Payload,
    pub parent: Option<JobId>,
    pub priority: i16,
    pub attempts: u32,
    pub max_attempts: Option<u32>,
    pub enqueued_at: Option<String>,
    /// Of a finished one, when it ended.
    pub run_at: Option<String>,
    pub lease: Option<LeaseAnswer>,
    pub cancelling: bool,
    /// The scope whose budget it waits for.
    pub awaits: Option<Scope>,
    pub result: Payload,
    pub error: Option<ErrorAnswer>,
    pub hold: Option<HoldId>,
    pub cost: Vec<CostAnswer>,
    /// The trace it was enqueued in.
    pub traceparent: Option<String>,
}

/// Who works on a job, and until when that is believed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LeaseAnswer {
    pub fence: u64,
    pub worker: WorkerName,
    pub since: Option<String>,
    pub expires_at: Option<String>,
}

/// What went wrong with an attempt.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ErrorAnswer {
    pub kind: String,
    pub message: String,
    /// The same for errors that differ only in numbers.
    pub fingerprint: String,
}

/// Units charged for a job.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CostAnswer {
    pub scope: Scope,
    pub amount: i64,
}

fn costs(costs: &[(Scope, i64)]) -> Vec<CostAnswer> {
    costs.iter().map(|(scope, amount)| CostAnswer { scope: scope.clone(), amount: *amount }).collect()
}

impl From<&JobError> for ErrorAnswer {
    fn from(error: &JobError) -> ErrorAnswer {
        let fingerprint = error.fingerprint();
        ErrorAnswer { kind: error.kind.clone(), message: error.message.clone(), fingerprint }
    }
}

impl JobAnswer {
    /// The job at an instant.
    pub fn at(job: &Job, now: Time) -> JobAnswer {
        let life = &job.life;
        JobAnswer {
            id: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            state: job.state_at(now),
            payload: job.payload.clone(),
            idempotency_key: job.idempotency_key.clone(),
            key: job.key.clone(),
            tags: job.tags.clone(),
            metadata: job.metadata.clone(),
            parent: job.parent,
            priority: job.priority,
            attempts: life.attempts,
            max_attempts: job.max_attempts,
            enqueued_at: stamp(job.enqueued_at),
            run_at: stamp(life.run_at),
            lease: lease(job),
            cancelling: life.cancelling,
            awaits: life.awaits.clone(),
            result: life.result.clone(),
            error: life.error.as_ref().map(ErrorAnswer::from),
            hold: job.hold,
            cost: costs(&life.cost),
            traceparent: job.traceparent.map(|parent| parent.to_string()),
        }
    }
}

fn lease(job: &Job) -> Option<LeaseAnswer> {
    job.life.lease.as_ref().map(|lease| LeaseAnswer {
        fence: job.life.fence,
        worker: lease.worker.clone(),
        since: stamp(lease.since),
        expires_at: stamp(lease.lapses_at()),
    })
}

/// A job that was leased, as a worker is told it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LeasedAnswer {
    pub id: JobId,
    pub queue: Queue,
    pub kind: JobKind,
    pub payload: Payload,
    pub attempt: u32,
    pub max_attempts: Option<u32>,
    pub idempotency_key: Option<IdempotencyKey>,
    pub hold: Option<HoldId>,
    pub key: Option<FlowKey>,
    #[serde(default)]
    pub tags: Vec<Tag>,
    #[serde(default)]
    pub metadata: Payload,
    pub lease: Option<LeaseAnswer>,
    /// The trace it was enqueued in, for the header of that name.
    #[serde(default)]
    pub traceparent: Option<String>,
}

impl From<&Job> for LeasedAnswer {
    fn from(job: &Job) -> LeasedAnswer {
        LeasedAnswer {
            id: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            payload: job.payload.clone(),
            attempt: job.life.attempts,
            max_attempts: job.max_attempts,
            idempotency_key: job.idempotency_key.clone(),
            hold: job.hold,
            key: job.key.clone(),
            tags: job.tags.clone(),
            metadata: job.metadata.clone(),
            lease: lease(job),
            traceparent: job.traceparent.map(|parent| parent.to_string()),
        }
    }
}

/// One attempt of a job.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct AttemptAnswer {
    /// Which attempt it was; a job that is retried after its end begins with the first again.
    pub attempt: u32,
    pub fence: u64,
    pub worker: WorkerName,
    pub began_at: Option<String>,
    /// `null` while it goes on.
    pub ended_at: Option<String>,
    /// `succeeded`, `failed`, `rescued` (no sign of life, or too long), `snoozed` or `returned`.
    pub end: Option<Cow<'static, str>>,
    pub error: Option<ErrorAnswer>,
}

#[cfg(feature = "library")]
impl From<&bursar::Attempt> for AttemptAnswer {
    fn from(attempt: &bursar::Attempt) -> AttemptAnswer {
        use bursar::AttemptEnd::{Failed, Rescued, Returned, Snoozed, Succeeded};
        let word = |end: &bursar::AttemptEnd| match end {
            Succeeded => "succeeded",
            Failed(_) => "failed",
            Rescued(_) => "rescued",
            Snoozed => "snoozed",
            Returned => "returned",
        };
        let end = attempt.end.as_ref();
        AttemptAnswer {
            attempt: attempt.attempt,
            fence: attempt.fence,
            worker: attempt.worker.clone(),
            began_at: stamp(attempt.began_at),
            ended_at: end.and_then(|(at, _)| stamp(*at)),
            end: end.map(|(_, end)| word(end).into()),
            error: end.and_then(|(_, end)| end.error()).map(ErrorAnswer::from),
        }
    }
}

/// What a job has become.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct FinishedAnswer {
    pub id: JobId,
    pub state: JobState,
    pub run_at: Option<String>,
    pub hold: Option<HoldId>,
    /// Units charged for it so far, scope by scope.
    pub cost: Vec<CostAnswer>,
}

impl From<&Finished> for FinishedAnswer {
    fn from(done: &Finished) -> FinishedAnswer {
        FinishedAnswer {
            id: done.job,
            state: done.state,
            run_at: done.run_at.and_then(stamp),
            hold: done.hold,
            cost: costs(&done.cost),
        }
    }
}

/// What a worker is to do about a job.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct BeatenAnswer {
    pub order: Order,
    pub expires_at: Option<String>,
}

impl From<&Beaten> for BeatenAnswer {
    fn from(beaten: &Beaten) -> BeatenAnswer {
        BeatenAnswer { order: beaten.order, expires_at: stamp(beaten.until) }
    }
}
