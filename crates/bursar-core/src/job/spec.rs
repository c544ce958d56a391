//! What a job is enqueued with.

use serde::{Deserialize, Serialize};

use crate::bounds::{ATTEMPTS_MAX, DEADLINE_MAX, DELAY_MAX, PRIORITY_MAX, TAGS_MAX, TTL_MIN};
use crate::id::JobId;
use crate::job::Retry;
use crate::name::{FlowKey, IdempotencyKey, JobKind, Queue, Tag};
use crate::payload::Payload;
use crate::refusal::Invalid;
use crate::time::Span;

/// A job to be enqueued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Where it waits.
    pub queue: Queue,
    /// What it does.
    pub kind: JobKind,
    /// What it works on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub payload: Payload,
    /// Makes it unique in its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<IdempotencyKey>,
    /// Groups it for flow control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<FlowKey>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// What its maker wants to remember of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metadata: Payload,
    /// The job that it follows from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<JobId>,
    /// Higher runs first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i16,
    /// Not before this has passed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay: Span,
    /// After so many failed attempts it is dead; as its queue says unless it is said here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How it is tried again; as its queue says unless it is said here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// How long one run may take; as its queue says unless it is said here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// Takes the payload of the command's first redeemed grant instead of its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub payload_from_grant: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl JobSpec {
    /// A job of `kind` for `queue`.
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
        }
    }

    /// Refuses what no state of the world would make right, in a command that redeems so many grants.
    pub fn check(&self, redemptions: usize) -> Result<(), Invalid> {
        if self.tags.len() > TAGS_MAX {
            return Err(Invalid::new("jobs.tags", format!("has more than {TAGS_MAX} entries")));
        }
        check_priority("jobs.priority", self.priority)?;
        check_delay("jobs.delay_ms", self.delay)?;
        if let Some(attempts) = self.max_attempts.filter(|attempts| !(1..=ATTEMPTS_MAX).contains(attempts)) {
            return Err(Invalid::new(
                "jobs.max_attempts",
                format!("is {attempts}; it must be from 1 to {ATTEMPTS_MAX}"),
            ));
        }
        if let Some(retry) = &self.retry {
            retry.check("jobs.retry")?;
        }
        check_deadline("jobs.deadline_ms", self.deadline)?;
        if self.metadata.is_large() {
            let most = crate::bounds::PAYLOAD_INLINE_BYTES;
            return Err(Invalid::new("jobs.metadata", format!("has more than {most} bytes: put it in the payload")));
        }
        if self.payload_from_grant && redemptions == 0 {
            return Err(Invalid::new("jobs.payload_from_grant", "needs a redemption in the same command"));
        }
        Ok(())
    }
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
