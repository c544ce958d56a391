//! Jobs on the wire.

use bursar::{
    Beaten, Error, Finished, FlowKey, HoldId, IdempotencyKey, Job, JobError, JobId, JobKind, JobSpec, Order, Payload,
    Queue, Scope, Tag, Time, WorkerName,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::queue::RetryBody;
use crate::wire::{millis, stamp};

/// A job to be started.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
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
    pub priority: i16,
    #[serde(default)]
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

/// Many jobs to be started: `POST /v1/jobs/bulk`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkBody {
    pub jobs: Vec<JobBody>,
}

impl TryFrom<JobBody> for JobSpec {
    type Error = Error;

    fn try_from(body: JobBody) -> Result<JobSpec, Error> {
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
            deadline_ms: spec.deadline.map(bursar::Span::millis),
            payload_from_grant: spec.payload_from_grant,
        }
    }
}

/// A job as it stands.
#[derive(Serialize, JsonSchema)]
pub struct JobAnswer {
    pub id: JobId,
    queue: Queue,
    kind: JobKind,
    state: &'static str,
    payload: Payload,
    idempotency_key: Option<IdempotencyKey>,
    key: Option<FlowKey>,
    tags: Vec<Tag>,
    metadata: Payload,
    parent: Option<JobId>,
    priority: i16,
    attempts: u32,
    max_attempts: Option<u32>,
    enqueued_at: Option<String>,
    /// Of a finished one, when it ended.
    run_at: Option<String>,
    lease: Option<LeaseAnswer>,
    cancelling: bool,
    /// The scope whose budget it waits for.
    awaits: Option<Scope>,
    result: Payload,
    error: Option<ErrorAnswer>,
    hold: Option<HoldId>,
    cost: Vec<CostAnswer>,
    /// The trace it was enqueued in.
    traceparent: Option<String>,
}

/// Who works on a job, and until when that is believed.
#[derive(Serialize, JsonSchema)]
pub struct LeaseAnswer {
    fence: u64,
    worker: WorkerName,
    since: Option<String>,
    expires_at: Option<String>,
}

/// What went wrong with an attempt.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ErrorAnswer {
    pub kind: String,
    pub message: String,
    /// The same for errors that differ only in numbers.
    pub fingerprint: String,
}

/// Units charged for a job.
#[derive(Serialize, JsonSchema)]
pub struct CostAnswer {
    scope: Scope,
    amount: i64,
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
        let cost = life.cost.iter().map(|(scope, amount)| CostAnswer { scope: scope.clone(), amount: *amount });
        JobAnswer {
            id: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            state: job.state_at(now).as_str(),
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
            cost: cost.collect(),
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
#[derive(Serialize, JsonSchema)]
pub struct LeasedAnswer {
    id: JobId,
    queue: Queue,
    kind: JobKind,
    payload: Payload,
    attempt: u32,
    max_attempts: Option<u32>,
    idempotency_key: Option<IdempotencyKey>,
    hold: Option<HoldId>,
    lease: Option<LeaseAnswer>,
    /// The trace it was enqueued in, for the header of that name.
    traceparent: Option<String>,
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
            lease: lease(job),
            traceparent: job.traceparent.map(|parent| parent.to_string()),
        }
    }
}

/// What a job has become.
#[derive(Serialize, JsonSchema)]
pub struct FinishedAnswer {
    id: JobId,
    state: &'static str,
    run_at: Option<String>,
    hold: Option<HoldId>,
    cost: i64,
}

impl From<&Finished> for FinishedAnswer {
    fn from(done: &Finished) -> FinishedAnswer {
        FinishedAnswer {
            id: done.job,
            state: done.state.as_str(),
            run_at: done.run_at.and_then(stamp),
            hold: done.hold,
            cost: done.cost,
        }
    }
}

/// What a worker is to do about a job.
#[derive(Serialize, JsonSchema)]
pub struct BeatenAnswer {
    order: Order,
    expires_at: Option<String>,
}

impl From<&Beaten> for BeatenAnswer {
    fn from(beaten: &Beaten) -> BeatenAnswer {
        BeatenAnswer { order: beaten.order, expires_at: stamp(beaten.until) }
    }
}
