//! The description of a job to enqueue.

use serde::{Deserialize, Serialize};

use crate::bounds::{ATTEMPTS_MAX, DEADLINE_MAX, DELAY_MAX, JOB_BLOBS_MAX, PRIORITY_MAX, TAGS_MAX, TTL_MIN};
use crate::id::{BlobId, JobId};
use crate::job::Retry;
use crate::name::{FlowKey, IdempotencyKey, JobKind, Queue, Tag};
use crate::payload::Payload;
use crate::refusal::Invalid;
use crate::time::Span;

/// A job to be enqueued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// The queue to enqueue it in.
    pub queue: Queue,
    /// Its kind, which selects the handler.
    pub kind: JobKind,
    /// The input of the handler.
    #[serde(default, skip_serializing_if = "is_default")]
    pub payload: Payload,
    /// A key that makes it unique in its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<IdempotencyKey>,
    /// The flow key to limit it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<FlowKey>,
    /// Tags for searching.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// Data of the caller that Bursar stores and does not read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metadata: Payload,
    /// The job that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<JobId>,
    /// Its priority; higher runs first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i16,
    /// The wait before it may run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay: Span,
    /// The number of failed attempts after which it is dead. Default: as its retry policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Its retry policy. Default: the queue's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// How long one attempt may take. Default: the queue's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// Whether to use the payload of the command's first redeemed grant instead of `payload`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub payload_from_grant: bool,
    /// The blobs it uses. They are not collected while the job is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blobs: Vec<BlobId>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl JobSpec {
    /// Creates a job of `kind` for `queue`.
    pub fn new(queue: Queue, kind: JobKind, payload: Payload) -> JobSpec {
        JobSpec {
            queue,
            kind,
            payload,
            idempotency_key: None,
            key: None,
            tags: Vec::new(),
            metadata: Payload::default(),
            parent: None,
            priority: 0,
            delay: Span::ZERO,
            max_attempts: None,
            retry: None,
            deadline: None,
            payload_from_grant: false,
            blobs: Vec::new(),
        }
    }

    /// Refuses values that are invalid in any state. `redemptions` is the number of grants that the command redeems.
    pub fn check(&self, redemptions: usize) -> Result<(), Invalid> {
        if self.tags.len() > TAGS_MAX {
            return Err(Invalid::new("tags", format!("has more than {TAGS_MAX} entries")));
        }
        check_priority("priority", self.priority)?;
        check_delay("delay_ms", self.delay)?;
        if let Some(attempts) = self.max_attempts.filter(|attempts| !(1..=ATTEMPTS_MAX).contains(attempts)) {
            return Err(Invalid::new("max_attempts", format!("is {attempts}; it must be from 1 to {ATTEMPTS_MAX}")));
        }
        if let Some(retry) = &self.retry {
            retry.check("retry")?;
        }
        check_deadline("deadline_ms", self.deadline)?;
        if self.metadata.is_large() {
            let most = crate::bounds::PAYLOAD_INLINE_BYTES;
            return Err(Invalid::new("metadata", format!("has more than {most} bytes: put it in the payload")));
        }
        self.payload.check("payload")?;
        self.metadata.check("metadata")?;
        check_blobs("blobs", &self.blobs)?;
        if self.payload_from_grant && redemptions == 0 {
            return Err(Invalid::new("payload_from_grant", "needs a redemption in the same command"));
        }
        Ok(())
    }
}

pub(crate) fn check_blobs(field: &'static str, blobs: &[BlobId]) -> Result<(), Invalid> {
    if blobs.len() > JOB_BLOBS_MAX {
        return Err(Invalid::new(field, format!("has {} entries; at most {JOB_BLOBS_MAX} are allowed", blobs.len())));
    }
    Ok(())
}

pub(crate) fn check_priority(field: &'static str, priority: i16) -> Result<(), Invalid> {
    if (-PRIORITY_MAX..=PRIORITY_MAX).contains(&priority) {
        return Ok(());
    }
    Err(Invalid::new(field, format!("is {priority}; it must be from -{PRIORITY_MAX} to {PRIORITY_MAX}")))
}

pub(crate) fn check_delay(field: &'static str, delay: Span) -> Result<(), Invalid> {
    if delay > DELAY_MAX {
        return Err(Invalid::new(field, format!("is above {}", DELAY_MAX.millis())));
    }
    Ok(())
}

pub(crate) fn check_deadline(field: &'static str, deadline: Option<Span>) -> Result<(), Invalid> {
    match deadline {
        Some(span) if !(TTL_MIN..=DEADLINE_MAX).contains(&span) => {
            Err(Invalid::new(field, format!("must be from 1 to {}", DEADLINE_MAX.millis())))
        }
        _ => Ok(()),
    }
}
