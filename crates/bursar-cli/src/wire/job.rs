//! Jobs on the wire, as far as commands start them.

use bursar::{Error, FlowKey, HoldId, IdempotencyKey, Job, JobId, JobKind, JobSpec, Payload, Queue, Tag};
use serde::{Deserialize, Serialize};

use crate::wire::{millis, stamp};

/// A job to be started.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobBody {
    queue: Queue,
    kind: JobKind,
    #[serde(default)]
    payload: Payload,
    #[serde(default)]
    idempotency_key: Option<IdempotencyKey>,
    #[serde(default)]
    key: Option<FlowKey>,
    #[serde(default)]
    tags: Vec<Tag>,
    #[serde(default)]
    priority: i16,
    #[serde(default)]
    delay_ms: i64,
    #[serde(default)]
    max_attempts: Option<u32>,
    #[serde(default)]
    payload_from_grant: bool,
}

impl TryFrom<JobBody> for JobSpec {
    type Error = Error;

    fn try_from(body: JobBody) -> Result<JobSpec, Error> {
        let plain = JobSpec::new(body.queue, body.kind, body.payload);
        Ok(JobSpec {
            idempotency_key: body.idempotency_key,
            key: body.key,
            tags: body.tags,
            priority: body.priority,
            delay: millis("jobs.delay_ms", body.delay_ms)?,
            max_attempts: body.max_attempts.unwrap_or(plain.max_attempts),
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
            priority: spec.priority,
            delay_ms: spec.delay.millis(),
            max_attempts: Some(spec.max_attempts),
            payload_from_grant: spec.payload_from_grant,
        }
    }
}

/// A job as it stands.
#[derive(Serialize)]
pub(crate) struct JobAnswer {
    id: JobId,
    queue: Queue,
    kind: JobKind,
    payload: Payload,
    idempotency_key: Option<IdempotencyKey>,
    key: Option<FlowKey>,
    tags: Vec<Tag>,
    priority: i16,
    max_attempts: u32,
    hold: Option<HoldId>,
    enqueued_at: Option<String>,
    run_at: Option<String>,
}

impl From<&Job> for JobAnswer {
    fn from(job: &Job) -> JobAnswer {
        JobAnswer {
            id: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            payload: job.payload.clone(),
            idempotency_key: job.idempotency_key.clone(),
            key: job.key.clone(),
            tags: job.tags.clone(),
            priority: job.priority,
            max_attempts: job.max_attempts,
            hold: job.hold,
            enqueued_at: stamp(job.enqueued_at),
            run_at: stamp(job.run_at),
        }
    }
}
