//! Jobs, as far as a command starts them.

use serde::{Deserialize, Serialize};

use crate::bounds::{ATTEMPTS_MAX, DELAY_MAX, TAGS_MAX};
use crate::id::{BatchId, HoldId, JobId};
use crate::name::{FlowKey, IdempotencyKey, JobKind, Queue, Tag, Tenant};
use crate::payload::Payload;
use crate::refusal::Invalid;
use crate::time::{Span, Time};

/// A job to be enqueued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Where it waits.
    pub queue: Queue,
    /// What it does.
    pub kind: JobKind,
    /// What it works on.
    #[serde(default)]
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
    /// Higher runs first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i16,
    /// Not before this has passed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay: Span,
    /// After so many failed attempts it is dead.
    #[serde(default = "attempts_default", skip_serializing_if = "is_attempts_default")]
    pub max_attempts: u32,
    /// Takes the payload of the command's first redeemed grant instead of its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub payload_from_grant: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn attempts_default() -> u32 {
    5
}

fn is_attempts_default(attempts: &u32) -> bool {
    *attempts == attempts_default()
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
            priority: 0,
            delay: Span::ZERO,
            max_attempts: attempts_default(),
            payload_from_grant: false,
        }
    }

    pub(crate) fn check(&self, redemptions: usize) -> Result<(), Invalid> {
        if self.tags.len() > TAGS_MAX {
            return Err(Invalid::new("jobs.tags", format!("has more than {TAGS_MAX} entries")));
        }
        if self.delay > DELAY_MAX {
            return Err(Invalid::new("jobs.delay_ms", format!("is above {}", DELAY_MAX.millis())));
        }
        if !(1..=ATTEMPTS_MAX).contains(&self.max_attempts) {
            return Err(Invalid::new("jobs.max_attempts", format!("must be from 1 to {ATTEMPTS_MAX}")));
        }
        if self.payload_from_grant && redemptions == 0 {
            return Err(Invalid::new("jobs.payload_from_grant", "needs a redemption in the same command"));
        }
        Ok(())
    }
}

/// A job as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Whose it is.
    pub tenant: Tenant,
    /// Where it waits.
    pub queue: Queue,
    /// What it does.
    pub kind: JobKind,
    /// What it works on.
    pub payload: Payload,
    /// Makes it unique in its queue.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Groups it for flow control.
    pub key: Option<FlowKey>,
    /// Words to find it by.
    pub tags: Vec<Tag>,
    /// Higher runs first.
    pub priority: i16,
    /// Not before this.
    pub run_at: Time,
    /// After so many failed attempts it is dead.
    pub max_attempts: u32,
    /// The hold that its end settles.
    pub hold: Option<HoldId>,
    /// When it was enqueued.
    pub enqueued_at: Time,
    /// Events of this job so far.
    pub version: u64,
    /// The last transaction with an event of this job.
    pub last: Option<BatchId>,
}
