//! Leases: who works on a job, for how long, and how it ends.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bounds::{CAPACITY_MAX, ERROR_BYTES_MAX, LEASE_MAX, LEASE_MIN, QUEUES_MAX, check_items};
use crate::id::JobId;
use crate::job::spec::check_delay;
use crate::name::{JobKind, Queue, Scope, WorkerName};
use crate::payload::Payload;
use crate::refusal::Invalid;
use crate::time::{Span, Time};

/// Who works on a job, and until when that is believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Who.
    pub worker: WorkerName,
    /// Since when.
    pub since: Time,
    /// It lapses here unless there is a heartbeat.
    pub until: Time,
    /// How long a heartbeat puts that off.
    pub length: Span,
    /// The run is over here, heartbeats or not.
    pub deadline: Time,
    /// The scopes it takes a slot of.
    pub slots: Vec<Scope>,
}

impl Lease {
    /// When it lapses: for want of a heartbeat, or because the run took too long.
    pub fn lapses_at(&self) -> Time {
        self.until.min(self.deadline)
    }
}

/// How a lease ended. Asking for the same end again is answered again; anything else has lost the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseEnd {
    /// The worker completed it.
    Completed,
    /// The worker failed it.
    Failed,
    /// The worker put it off.
    Snoozed,
    /// The worker handed it back.
    Returned,
    /// It lapsed.
    Lapsed,
    /// The job was cancelled.
    Cancelled,
}

/// Jobs that a worker wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseAsk {
    /// From these queues.
    pub queues: Vec<Queue>,
    /// Of these kinds; `video.*` is every kind that begins with `video.`. None: of any kind.
    #[serde(default)]
    pub kinds: Vec<JobKind>,
    /// So many at most.
    pub capacity: u32,
    /// For so long; as the queue says unless it is said here.
    #[serde(default)]
    pub lease: Option<Span>,
    /// Who wants them.
    pub worker: WorkerName,
}

impl LeaseAsk {
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.queues.is_empty() {
            return Err(Invalid::new("queues", "must not be empty"));
        }
        for (field, count) in [("queues", self.queues.len()), ("kinds", self.kinds.len())] {
            if count > QUEUES_MAX {
                return Err(Invalid::new(field, format!("has {count} entries; at most {QUEUES_MAX} are allowed")));
            }
        }
        if !(1..=CAPACITY_MAX).contains(&self.capacity) {
            return Err(Invalid::new("capacity", format!("must be from 1 to {CAPACITY_MAX}")));
        }
        match self.lease {
            Some(span) if !(LEASE_MIN..=LEASE_MAX).contains(&span) => {
                let problem = format!("must be from {} to {}", LEASE_MIN.millis(), LEASE_MAX.millis());
                Err(Invalid::new("lease_ms", problem))
            }
            _ => Ok(()),
        }
    }

    /// Whether a kind is wanted.
    pub fn wants(&self, kind: &JobKind) -> bool {
        wants(&self.kinds, kind)
    }
}

/// Whether a kind is among those asked for: by its name, or by its beginning before a `*`. No kinds are all kinds.
pub fn wants(kinds: &[JobKind], kind: &JobKind) -> bool {
    let matches = |pattern: &JobKind| match pattern.as_str().strip_suffix('*') {
        Some(beginning) => kind.as_str().starts_with(beginning),
        None => pattern == kind,
    };
    kinds.is_empty() || kinds.iter().any(matches)
}

/// Units that a worker has really spent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Where; the only scope of the job's hold unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// How many.
    pub amount: i64,
}

/// A sign of life for one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beat {
    /// Which job.
    pub job: JobId,
    /// By which lease.
    pub fence: u64,
}

/// What a worker is to do about a job it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Go on.
    Continue,
    /// Stop: the job is to be cancelled.
    Cancel,
    /// Finish what you have and take no more.
    Drain,
}

/// The end of a lease, for one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// Which job.
    pub job: JobId,
    /// By which lease.
    pub fence: u64,
    /// How.
    pub end: End,
}

/// How a worker ends its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Done.
    Complete {
        /// What came of it.
        result: Payload,
        /// What it cost: as much as was held if it is not said, nothing if the list is empty.
        usage: Option<Vec<Usage>>,
    },
    /// It did not work.
    Fail {
        /// What went wrong.
        error: JobError,
        /// Trying again may help.
        retryable: bool,
        /// Not before this, whatever the policy says.
        retry_after: Option<Span>,
        /// What the attempt cost: nothing if it is not said.
        usage: Option<Vec<Usage>>,
    },
    /// Later; this was no attempt.
    Snooze {
        /// How much later.
        delay: Span,
    },
    /// Somebody else, at once; this was no attempt.
    Return,
}

impl Finish {
    /// Refuses what no state of the world would make right.
    pub fn check(&self) -> Result<(), Invalid> {
        let usage = self.end.usage().unwrap_or_default();
        usage.iter().filter_map(|usage| usage.scope.as_ref()).try_for_each(Scope::check_own)?;
        self.end.check()
    }
}

impl End {
    /// What the lease ends as.
    pub fn as_lease_end(&self) -> LeaseEnd {
        match self {
            End::Complete { .. } => LeaseEnd::Completed,
            End::Fail { .. } => LeaseEnd::Failed,
            End::Snooze { .. } => LeaseEnd::Snoozed,
            End::Return => LeaseEnd::Returned,
        }
    }

    /// What was reported as spent.
    pub fn usage(&self) -> Option<&[Usage]> {
        match self {
            End::Complete { usage, .. } | End::Fail { usage, .. } => usage.as_deref(),
            End::Snooze { .. } | End::Return => None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if let Some(usage) = self.usage() {
            check_items("usage", usage.len())?;
            if usage.iter().any(|usage| usage.amount < 0) {
                return Err(Invalid::new("usage.amount", "must not be negative"));
            }
        }
        match self {
            End::Fail { error, retry_after, .. } => {
                error.check()?;
                retry_after.map_or(Ok(()), |span| check_delay("retry_after_ms", span))
            }
            End::Snooze { delay } => check_delay("delay_ms", *delay),
            End::Complete { .. } | End::Return => Ok(()),
        }
    }
}

/// What went wrong with an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobError {
    /// What kind of error: `timeout`, `provider.rejected`.
    pub kind: String,
    /// In words.
    #[serde(default)]
    pub message: String,
}

impl JobError {
    /// An error of a kind.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> JobError {
        JobError { kind: kind.into(), message: message.into() }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.kind.is_empty() {
            return Err(Invalid::new("error.kind", "must not be empty"));
        }
        for (field, text) in [("error.kind", &self.kind), ("error.message", &self.message)] {
            if text.len() > ERROR_BYTES_MAX {
                return Err(Invalid::new(field, format!("has more than {ERROR_BYTES_MAX} bytes")));
            }
        }
        Ok(())
    }

    /// The same for errors that differ only in numbers: what groups them.
    pub fn fingerprint(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(self.kind.as_bytes());
        digest.update([0]);
        let words = self.message.split(|c: char| !c.is_alphabetic());
        for word in words.filter(|word| !word.is_empty()) {
            digest.update(word.as_bytes());
            digest.update([0]);
        }
        crate::id::base32(&digest.finalize()[..10])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_can_be_asked_for_by_their_beginning() {
        let ask = |kinds: &[&str]| LeaseAsk {
            queues: vec![Queue::new("q").unwrap()],
            kinds: kinds.iter().map(|kind| JobKind::new(kind).unwrap()).collect(),
            capacity: 1,
            lease: None,
            worker: WorkerName::new("w").unwrap(),
        };
        let cases = [
            (&[][..], "a.b", true),
            (&["a.b"], "a.b", true),
            (&["a.*"], "a.b", true),
            (&["a.*"], "ab", false),
            (&["x", "*"], "a.b", true),
            (&["x"], "a.b", false),
        ];
        for (kinds, kind, wanted) in cases {
            assert_eq!(ask(kinds).wants(&JobKind::new(kind).unwrap()), wanted, "{kinds:?} {kind}");
        }
    }

    #[test]
    fn errors_that_differ_in_numbers_are_the_same_error() {
        let error = |message: &str| JobError::new("timeout", message).fingerprint();
        assert_eq!(error("after 30 s at 0x1f"), error("after 31 s at 0x2f"));
        assert_ne!(error("after 30 s"), error("before 30 s"));
        assert_ne!(JobError::new("a", "x").fingerprint(), JobError::new("b", "x").fingerprint());
    }
}
