//! Leases: which worker runs a job, until when, and how it ends.
//!
//! A lease lapses without a heartbeat in time, or at the deadline of the attempt. Its fence identifies it: the fence of
//! a job grows with each lease, and a report with an old fence has no effect on the job.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bounds::{CAPACITY_MAX, ERROR_BYTES_MAX, LEASE_MAX, LEASE_MIN, QUEUES_MAX, check_items};
use crate::id::{BlobId, JobId};
use crate::job::progress::Progress;
use crate::job::spec::{check_blobs, check_delay};
use crate::name::{JobKind, Queue, Scope, WorkerName};
use crate::payload::Payload;
use crate::refusal::Invalid;
use crate::time::{Span, Time};

/// The current lease of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The worker.
    pub worker: WorkerName,
    /// When it began.
    pub since: Time,
    /// When it lapses without another heartbeat.
    pub until: Time,
    /// How long a heartbeat extends it.
    pub length: Span,
    /// When it lapses in any case, because the attempt took too long.
    pub deadline: Time,
    /// The scopes that it takes a slot of.
    pub slots: Vec<Scope>,
}

impl Lease {
    /// Returns when it lapses: without a heartbeat, or at the deadline.
    pub fn lapses_at(&self) -> Time {
        self.until.min(self.deadline)
    }
}

/// How a lease ended. Reporting the same end again is a replay; reporting another end is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseEnd {
    /// The worker completed it.
    Completed,
    /// The worker failed it.
    Failed,
    /// The worker postponed it.
    Snoozed,
    /// The worker returned it.
    Returned,
    /// It lapsed.
    Lapsed,
    /// The job was cancelled.
    Cancelled,
}

/// A worker's request for jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// The queues to lease from.
    pub queues: Vec<Queue>,
    /// The kinds to lease; `video.*` matches every kind that begins with `video.`. Empty: any kind.
    #[serde(default)]
    pub kinds: Vec<JobKind>,
    /// The most jobs to lease.
    pub capacity: u32,
    /// How long the leases last without a heartbeat. Default: the queue's setting.
    #[serde(default)]
    pub lease: Option<Span>,
    /// The worker.
    pub worker: WorkerName,
}

impl LeaseRequest {
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

    /// Returns whether a kind is requested.
    pub fn wants(&self, kind: &JobKind) -> bool {
        wants(&self.kinds, kind)
    }
}

/// Returns whether a kind matches one of the patterns: its name, or a prefix before a `*`. An empty list matches all.
pub fn wants(kinds: &[JobKind], kind: &JobKind) -> bool {
    let matches = |pattern: &JobKind| match pattern.as_str().strip_suffix('*') {
        Some(beginning) => kind.as_str().starts_with(beginning),
        None => pattern == kind,
    };
    kinds.is_empty() || kinds.iter().any(matches)
}

/// Units that a worker has spent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// The scope to charge. Default: the only scope of the job's hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The number of units.
    pub amount: i64,
}

/// A heartbeat for one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatItem {
    /// The job.
    pub job: JobId,
    /// The fence of the lease.
    pub fence: u64,
    /// The progress of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

impl HeartbeatItem {
    /// Creates a heartbeat without progress.
    pub fn new(job: JobId, fence: u64) -> HeartbeatItem {
        HeartbeatItem { job, fence, progress: None }
    }

    /// Returns the heartbeat with the progress of the job.
    #[must_use]
    pub fn with_progress(self, progress: Progress) -> HeartbeatItem {
        HeartbeatItem { progress: Some(progress), ..self }
    }
}

/// What a worker should do with a job that it has leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Continue.
    Continue,
    /// Stop, because the job is being cancelled.
    Cancel,
    /// Finish the leased jobs and lease no more from this queue.
    Drain,
}

/// A worker's report of the end of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// The job.
    pub job: JobId,
    /// The fence of the lease.
    pub fence: u64,
    /// How the lease ends.
    pub end: End,
}

/// How a worker ends its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The job succeeded.
    Complete {
        /// The result of the job.
        result: Payload,
        /// What it cost. `None`: all that was held; an empty list: nothing.
        usage: Option<Vec<Usage>>,
        /// The blobs it made. They are not collected while the job is kept.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        blobs: Vec<BlobId>,
    },
    /// The attempt failed.
    Fail {
        /// The error.
        error: JobError,
        /// Whether a retry may succeed.
        retryable: bool,
        /// The wait before the next attempt. Default: as the retry policy says.
        retry_after: Option<Span>,
        /// What the attempt cost. `None`: nothing.
        usage: Option<Vec<Usage>>,
    },
    /// Run the job later; this does not count as an attempt.
    Snooze {
        /// The wait before the next attempt.
        delay: Span,
    },
    /// Make the job ready for another worker; this does not count as an attempt.
    Return,
}

impl Finish {
    /// Refuses a report that is invalid in any state.
    pub fn check(&self) -> Result<(), Invalid> {
        for (index, usage) in self.end.usage().unwrap_or_default().iter().enumerate() {
            let checked = usage.scope.as_ref().map_or(Ok(()), Scope::check_own);
            checked.map_err(|invalid| invalid.of_entry("usage", index))?;
        }
        self.end.check()
    }
}

impl End {
    /// Returns the recorded end of the lease.
    pub fn as_lease_end(&self) -> LeaseEnd {
        match self {
            End::Complete { .. } => LeaseEnd::Completed,
            End::Fail { .. } => LeaseEnd::Failed,
            End::Snooze { .. } => LeaseEnd::Snoozed,
            End::Return => LeaseEnd::Returned,
        }
    }

    /// Returns the reported usage.
    pub fn usage(&self) -> Option<&[Usage]> {
        match self {
            End::Complete { usage, .. } | End::Fail { usage, .. } => usage.as_deref(),
            End::Snooze { .. } | End::Return => None,
        }
    }

    /// Returns the blobs that the job made.
    pub fn blobs(&self) -> &[BlobId] {
        match self {
            End::Complete { blobs, .. } => blobs,
            End::Fail { .. } | End::Snooze { .. } | End::Return => &[],
        }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        check_blobs("blobs", self.blobs())?;
        if let Some(usage) = self.usage() {
            check_items("usage", usage.len())?;
            if let Some(index) = usage.iter().position(|usage| usage.amount < 0) {
                return Err(Invalid::new("amount", "must not be negative").of_entry("usage", index));
            }
        }
        match self {
            End::Fail { error, retry_after, .. } => {
                error.check()?;
                retry_after.map_or(Ok(()), |span| check_delay("retry_after_ms", span))
            }
            End::Snooze { delay } => check_delay("delay_ms", *delay),
            End::Complete { result, .. } => result.check("result"),
            End::Return => Ok(()),
        }
    }
}

/// The error of a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobError {
    /// The kind of error: `timeout`, `provider.rejected`.
    pub kind: String,
    /// A description for people.
    #[serde(default)]
    pub message: String,
}

impl JobError {
    /// Creates an error.
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

    /// Returns a digest that groups errors: equal for errors of a kind whose messages have the same words.
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
    fn kinds_can_be_requested_by_prefix() {
        let request = |kinds: &[&str]| LeaseRequest {
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
            assert_eq!(request(kinds).wants(&JobKind::new(kind).unwrap()), wanted, "{kinds:?} {kind}");
        }
    }

    #[test]
    fn errors_that_differ_only_in_numbers_have_one_fingerprint() {
        let error = |message: &str| JobError::new("timeout", message).fingerprint();
        assert_eq!(error("after 30 s at 0x1f"), error("after 31 s at 0x2f"));
        assert_ne!(error("after 30 s"), error("before 30 s"));
        assert_ne!(JobError::new("a", "x").fingerprint(), JobError::new("b", "x").fingerprint());
    }
}
