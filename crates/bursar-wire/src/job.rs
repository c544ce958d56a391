//! Jobs: `/v1/jobs`.

use bursar_core::answer::{Finished, Renewed};
use bursar_core::bounds::{DELAY_MAX, PRIORITY_MAX};
use bursar_core::id::{BlobId, HoldId, JobId};
use bursar_core::job::{Job, JobAct, JobError, JobSpec, JobState, LastReport, Order};
use bursar_core::name::{FlowKey, IdempotencyKey, JobKind, Queue, Scope, Tag, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::refusal::Invalid;
use bursar_core::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::queue::RetryBody;
use crate::{list, millis, stamp};

/// A job to enqueue.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobBody {
    pub queue: Queue,
    /// The type of work; a worker chooses its handler by it.
    pub kind: JobKind,
    /// JSON for the worker; default: `null`.
    #[serde(default)]
    pub payload: Payload,
    /// Makes the job unique in its queue: a second job with the same key is not enqueued.
    #[serde(default)]
    pub idempotency_key: Option<IdempotencyKey>,
    /// The flow key: the queue can limit concurrency and rate for each key.
    #[serde(default)]
    pub key: Option<FlowKey>,
    /// Tags to find the job by.
    #[serde(default)]
    pub tags: Vec<Tag>,
    /// JSON that is stored with the job for its owner; default: `null`.
    #[serde(default)]
    pub metadata: Payload,
    /// The job that caused this one.
    #[serde(default)]
    pub parent: Option<JobId>,
    /// Jobs with a higher priority run first; default: 0. A difference of 1 outweighs one minute of waiting.
    #[serde(default)]
    #[schemars(range(min = -PRIORITY_MAX, max = PRIORITY_MAX))]
    pub priority: i16,
    /// How long to wait before the job is ready, in milliseconds; default: 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = DELAY_MAX.millis()))]
    pub delay_ms: i64,
    /// The number of failed attempts after which the job is dead; default: that of `retry`, else the queue's setting.
    #[serde(default)]
    pub max_attempts: Option<u32>,
    /// How the job is retried; default: the queue's setting.
    #[serde(default)]
    pub retry: Option<RetryBody>,
    /// How long one attempt may run, in milliseconds; default: the queue's setting.
    #[serde(default)]
    pub deadline_ms: Option<i64>,
    /// Use the payload of the first grant that the command redeems, instead of `payload`.
    #[serde(default)]
    pub payload_from_grant: bool,
    /// The blobs that the job uses, at most 100 together with those that it makes. They are not collected while the job is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blobs: Vec<BlobId>,
}

impl JobBody {
    /// A job with the default settings.
    pub fn new(queue: Queue, kind: JobKind, payload: Payload) -> JobBody {
        JobBody::from(&JobSpec::new(queue, kind, payload))
    }
}

/// The maximum number of jobs in one bulk request.
pub const BULK_MAX: usize = 100_000;

/// Jobs to enqueue: the body of `POST /v1/jobs/bulk`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkBody {
    #[serde(deserialize_with = "list::jobs")]
    pub jobs: Vec<JobBody>,
}

impl TryFrom<JobBody> for JobSpec {
    type Error = Invalid;

    fn try_from(body: JobBody) -> Result<JobSpec, Invalid> {
        let defaults = JobSpec::new(body.queue, body.kind, body.payload);
        Ok(JobSpec {
            idempotency_key: body.idempotency_key,
            key: body.key,
            tags: body.tags,
            metadata: body.metadata,
            parent: body.parent,
            priority: body.priority,
            delay: millis("delay_ms", body.delay_ms)?,
            max_attempts: body.max_attempts,
            retry: body.retry.map(TryInto::try_into).transpose()?,
            deadline: body.deadline_ms.map(|deadline| millis("deadline_ms", deadline)).transpose()?,
            payload_from_grant: body.payload_from_grant,
            blobs: body.blobs,
            ..defaults
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
            blobs: spec.blobs.clone(),
        }
    }
}

/// The current state of a job.
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
    /// The number of attempts so far.
    pub attempts: u32,
    /// The number of failed attempts after which the job is dead; `null`: the setting of its queue.
    pub max_attempts: Option<u32>,
    pub enqueued_at: Option<String>,
    /// When the job is or was ready; for a finished job, when it ended.
    pub run_at: Option<String>,
    /// The current lease; `null` while no worker has the job.
    pub lease: Option<LeaseAnswer>,
    /// The job was cancelled while it was leased, and its worker has not stopped yet.
    pub cancelling: bool,
    /// The scope whose budget the job waits for.
    pub awaits: Option<Scope>,
    /// The JSON that the worker returned.
    pub result: Payload,
    /// The error of the last failed attempt.
    pub error: Option<ErrorAnswer>,
    /// The last progress that a worker reported; `null` if there is none.
    #[serde(default)]
    pub progress: Option<ProgressAnswer>,
    /// The last checkpoint that a worker reported, which the next lease carries; `null` if there is none.
    #[serde(default)]
    pub checkpoint: Option<Payload>,
    /// The hold that pays for the job.
    pub hold: Option<HoldId>,
    /// The units charged for the job so far, by scope.
    pub cost: Vec<CostAnswer>,
    /// The blobs that the job uses, and those that it made.
    #[serde(default)]
    pub blobs: Vec<BlobId>,
    /// What can be done with the job in its state.
    #[serde(default)]
    pub acts: Vec<JobAct>,
    /// The W3C trace context in which the job was enqueued.
    pub traceparent: Option<String>,
}

/// The lease of a job.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LeaseAnswer {
    /// The number of the lease. Every report on the job must carry it.
    pub fence: u64,
    /// The worker that has the lease.
    pub worker: WorkerName,
    /// When the lease began.
    pub since: Option<String>,
    /// When the lease expires unless a heartbeat extends it.
    pub expires_at: Option<String>,
}

/// The last progress report of a job.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ProgressAnswer {
    /// The percentage that is done, from 0 to 100.
    pub percent: Option<f64>,
    /// A text for people.
    pub message: Option<String>,
    /// JSON for programs.
    pub data: Payload,
    /// The number of the lease that it was reported under.
    pub fence: u64,
    /// When it was received.
    pub at: Option<String>,
}

/// The error of an attempt.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ErrorAnswer {
    /// The type of the error, such as `timeout`.
    pub kind: String,
    pub message: String,
    /// A hash that is equal for errors that differ only in numbers.
    pub fingerprint: String,
}

/// Units charged for a job on one scope.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CostAnswer {
    pub scope: Scope,
    /// The units charged.
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

impl From<&LastReport> for ProgressAnswer {
    fn from(report: &LastReport) -> ProgressAnswer {
        let LastReport { at, fence, number: _, percent, message, data } = report.clone();
        ProgressAnswer { percent, message, data, fence, at: stamp(at) }
    }
}

impl JobAnswer {
    /// Returns the job at an instant; some states follow from the time and are not stored.
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
            max_attempts: job.max_attempts.or_else(|| Some(job.retry.as_ref()?.max_attempts)),
            enqueued_at: stamp(job.enqueued_at),
            run_at: stamp(life.run_at),
            lease: lease(job),
            cancelling: life.cancelling,
            awaits: life.awaits.clone(),
            result: life.result.clone(),
            error: life.error.as_ref().map(ErrorAnswer::from),
            progress: life.progress.as_deref().map(ProgressAnswer::from),
            checkpoint: life.checkpoint.clone(),
            hold: job.hold,
            cost: costs(&life.cost),
            blobs: life.blobs.clone(),
            acts: job.acts(now),
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

/// A job that was leased to a worker.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LeasedAnswer {
    pub id: JobId,
    pub queue: Queue,
    pub kind: JobKind,
    pub payload: Payload,
    /// The number of this attempt, counted from 1.
    pub attempt: u32,
    /// The number of failed attempts after which the job is dead; `null`: the setting of the job's retry policy or of its queue.
    pub max_attempts: Option<u32>,
    pub idempotency_key: Option<IdempotencyKey>,
    /// The hold that pays for the job.
    pub hold: Option<HoldId>,
    /// The units that the hold sets aside, by scope; empty if the job has no hold. `null` if the hold could not be read, or if the holds
    /// of all leased jobs together are too large for one answer.
    #[serde(default)]
    pub held: Option<Vec<HeldUnitsAnswer>>,
    /// The flow key.
    pub key: Option<FlowKey>,
    #[serde(default)]
    pub tags: Vec<Tag>,
    #[serde(default)]
    pub metadata: Payload,
    /// The blobs that the job uses.
    #[serde(default)]
    pub blobs: Vec<BlobId>,
    pub lease: Option<LeaseAnswer>,
    /// The last checkpoint that an earlier attempt reported: where to go on. `null` if there is none.
    #[serde(default)]
    pub checkpoint: Option<Payload>,
    /// The W3C trace context for the worker's spans: that of the job or, if the server exports spans, of this attempt.
    #[serde(default)]
    pub traceparent: Option<String>,
}

/// Units that the hold of a job sets aside on one scope.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct HeldUnitsAnswer {
    pub scope: Scope,
    /// The units held.
    pub amount: i64,
}

impl LeasedAnswer {
    /// Returns a job with the units that its hold sets aside, if they are known.
    pub fn new(job: &Job, held: Option<Vec<(Scope, i64)>>) -> LeasedAnswer {
        let units = |(scope, amount)| HeldUnitsAnswer { scope, amount };
        LeasedAnswer {
            id: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            payload: job.payload.clone(),
            attempt: job.life.attempts,
            max_attempts: job.max_attempts,
            idempotency_key: job.idempotency_key.clone(),
            hold: job.hold,
            held: held.map(|held| held.into_iter().map(units).collect()),
            key: job.key.clone(),
            tags: job.tags.clone(),
            metadata: job.metadata.clone(),
            blobs: job.life.blobs.clone(),
            lease: lease(job),
            checkpoint: job.life.checkpoint.clone(),
            traceparent: job.traceparent.map(|parent| parent.to_string()),
        }
    }
}

/// One attempt of a job.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct AttemptAnswer {
    /// The number of the attempt. It starts at 1 again if the job is retried after its end.
    pub attempt: u32,
    /// The number of the lease.
    pub fence: u64,
    pub worker: WorkerName,
    pub began_at: Option<String>,
    /// When the attempt ended; `null` while it runs.
    pub ended_at: Option<String>,
    /// `succeeded`, `failed`, `rescued` (the lease expired or the deadline passed), `snoozed` or `returned`.
    pub end: Option<Cow<'static, str>>,
    /// The error, if the attempt failed or was rescued.
    pub error: Option<ErrorAnswer>,
}

/// The state of a job after an operation on it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct FinishedAnswer {
    pub id: JobId,
    pub state: JobState,
    /// When the job runs again; `null` if it does not.
    pub run_at: Option<String>,
    /// The hold of the job, or its last one.
    pub hold: Option<HoldId>,
    /// The units charged for the job so far, by scope.
    pub cost: Vec<CostAnswer>,
    /// The units that the lease which this request ended spent above the job's hold.
    #[serde(default)]
    pub overrun: i64,
    /// `overrun` if `overrun` is above 0; else empty.
    #[serde(default)]
    pub warnings: Vec<Cow<'static, str>>,
}

impl From<&Finished> for FinishedAnswer {
    fn from(done: &Finished) -> FinishedAnswer {
        FinishedAnswer {
            id: done.job,
            state: done.state,
            run_at: done.run_at.and_then(stamp),
            hold: done.hold,
            cost: costs(&done.cost),
            overrun: done.overrun,
            warnings: done.warnings().into_iter().map(Cow::from).collect(),
        }
    }
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct BeatenAnswer {
    /// What the worker must do now.
    pub order: Order,
    /// When the lease expires unless another heartbeat extends it.
    pub expires_at: Option<String>,
}

impl From<&Renewed> for BeatenAnswer {
    fn from(beaten: &Renewed) -> BeatenAnswer {
        BeatenAnswer { order: beaten.order, expires_at: stamp(beaten.until) }
    }
}
