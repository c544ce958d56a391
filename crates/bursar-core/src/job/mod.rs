//! Jobs: durable work in a queue, run by a worker under a lease.
//!
//! ```text
//!  Scheduled ──▶ Queued ──▶ Leased ──▶ Succeeded
//!      ▲           ▲          │ ├────▶ Cancelled
//!      └───────────┴──────────┘ ├────▶ Dead
//!          AwaitingBudget ◀─────┘
//! ```
//!
//! A failed, snoozed, returned or lapsed attempt goes back to `Scheduled` or `Queued` until the attempts are used up.
//! `AwaitingBudget` is a job whose next attempt needs units that its budget does not have now.
//!
//! - `lease.rs`: requests and reports of workers. `crate::decide` has the rules: `lease.rs` and `finish.rs` there.
//! - `emit.rs`: events of the application that workers emit.
//! - `progress.rs`: reports of running jobs, and checkpoints.
//! - `attempt.rs`: what traces record of an attempt that has ended.
//! - `acts.rs`: what callers may do with a job in which state.
//! - `flow.rs`: concurrency and rate limits of queues and flow keys.
//! - `retry.rs`: how long to wait between attempts. `schedule.rs`: recurring jobs.

mod acts;
mod attempt;
mod emit;
mod flow;
mod lease;
mod progress;
mod queue;
mod retry;
mod schedule;
mod spec;

use serde::{Deserialize, Serialize};

use crate::state::DeadGroupKey;

pub(crate) use self::acts::Effect;
pub use self::acts::JobAct;
pub use self::attempt::EndedAttempt;
pub(crate) use self::attempt::RunningAttempt;
pub use self::emit::Emit;
pub use self::flow::{FlowScopes, Place, compute_lines};
pub use self::lease::{End, Finish, HeartbeatItem, JobError, Lease, LeaseEnd, LeaseRequest, Order, Usage, wants};
pub(crate) use self::progress::kept_checkpoint;
pub use self::progress::{LastReport, Progress};
pub use self::queue::{QueueConfig, QueueState, Rate, Retention};
pub use self::retry::{Backoff, Retry};
pub use self::schedule::{Missed, ON_TIME, Overlap, Schedule, ScheduleSpec};
pub use self::spec::JobSpec;
pub(crate) use self::spec::{check_delay, check_priority};
use crate::bounds::PRIORITY_STEP;
use crate::id::{BatchId, BlobId, HoldId, JobId};
use crate::name::{FlowKey, IdempotencyKey, JobKind, LeaseOwner, Queue, Scope, Tag, Tenant};
use crate::payload::Payload;
use crate::request::Fingerprint;
use crate::time::{Span, Time};
use crate::trace::TraceParent;

/// The row of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The tenant it belongs to.
    pub tenant: Tenant,
    /// Its queue.
    pub queue: Queue,
    /// The queue it was enqueued in, if it was moved since.
    pub home: Option<Queue>,
    /// Its kind, which selects the handler.
    pub kind: JobKind,
    /// The input of the handler.
    pub payload: Payload,
    /// The key that makes it unique in the queue it was enqueued in.
    pub idempotency_key: Option<IdempotencyKey>,
    /// The flow key it is limited by.
    pub key: Option<FlowKey>,
    /// Tags for searching.
    pub tags: Vec<Tag>,
    /// Data of the caller that Bursar stores and does not read.
    pub metadata: Payload,
    /// The job that caused it.
    pub parent: Option<JobId>,
    /// Its priority; higher runs first.
    pub priority: i16,
    /// The number of failed attempts after which it is dead. Default: as its retry policy says.
    pub max_attempts: Option<u32>,
    /// Its retry policy. Default: the queue's.
    pub retry: Option<Retry>,
    /// How long one attempt may take. Default: the queue's setting.
    pub deadline: Option<Span>,
    /// The trace it was enqueued in.
    pub traceparent: Option<TraceParent>,
    /// The hold that its end settles; of a finished job the last one.
    pub hold: Option<HoldId>,
    /// When it was enqueued.
    pub enqueued_at: Time,
    /// The number of its events so far.
    pub version: u64,
    /// The last transaction with an event of the job.
    pub last: Option<BatchId>,
    /// The part of the row that changes while the job is processed.
    pub life: JobRuntime,
}

/// The part of a job's row that changes while the job is processed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRuntime {
    /// The state last written; see [`Job::state_at`].
    pub state: JobState,
    /// When it may run; while it awaits its budget, when that is tried again; of a finished job, when it ended.
    pub run_at: Time,
    /// Its position among the waiting jobs of its queue; lower is leased first. See [`rank`].
    pub rank: Time,
    /// The number of attempts, without those that were snoozed or returned.
    pub attempts: u32,
    /// The fence of the last lease, which only grows.
    pub fence: u64,
    /// The current lease.
    pub lease: Option<Lease>,
    /// How the last lease ended; `None` while it lasts.
    pub ended: Option<LeaseEnd>,
    /// Whether cancellation was requested while it is leased.
    pub cancelling: bool,
    /// Its position in the line of its flow key.
    pub place: Place,
    /// The scope whose budget it waits for, while parked.
    pub awaits: Option<Scope>,
    /// The result that the worker reported.
    pub result: Payload,
    /// The last error.
    pub error: Option<JobError>,
    /// Units charged for it so far, by scope.
    pub cost: Vec<(Scope, i64)>,
    /// The amounts that its live hold sets aside, by the unit that the budgets had when the hold was placed.
    pub held: Vec<(String, i128)>,
    /// Leases that lapsed, whose workers may still report what they spent.
    pub lapsed: Vec<Lapsed>,
    /// The principal that the last lease is bound to, also after its end; `None` if the embedding program took it.
    #[serde(skip)]
    pub owner: Option<LeaseOwner>,
    /// Units charged to the last lease, by scope; `None` if an earlier version of Bursar began the lease.
    #[serde(skip)]
    pub settled: Option<Vec<(Scope, i64)>>,
    /// The blobs it refers to: those it uses, and those it made.
    #[serde(skip)]
    pub blobs: Vec<BlobId>,
    /// The last progress report.
    #[serde(skip)]
    pub progress: Option<Box<LastReport>>,
    /// The last checkpoint that a worker reported.
    #[serde(skip)]
    pub checkpoint: Option<Payload>,
}

/// A lease that lapsed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lapsed {
    /// Its fence.
    pub fence: u64,
    /// Whether a late report of its worker has been charged.
    pub billed: bool,
    /// The principal it was bound to.
    #[serde(skip)]
    pub owner: Option<LeaseOwner>,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It waits for its start time, also between attempts.
    Scheduled,
    /// It waits for a worker.
    Queued,
    /// It waits until its budget admits another attempt.
    AwaitingBudget,
    /// A worker has leased it.
    Leased,
    /// It completed.
    Succeeded,
    /// A caller cancelled or discarded it.
    Cancelled,
    /// Its last attempt failed.
    Dead,
}

impl JobState {
    /// Every state.
    pub const ALL: [JobState; 7] = [
        JobState::Scheduled,
        JobState::Queued,
        JobState::AwaitingBudget,
        JobState::Leased,
        JobState::Succeeded,
        JobState::Cancelled,
        JobState::Dead,
    ];

    /// Returns its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Scheduled => "scheduled",
            JobState::Queued => "queued",
            JobState::AwaitingBudget => "awaiting_budget",
            JobState::Leased => "leased",
            JobState::Succeeded => "succeeded",
            JobState::Cancelled => "cancelled",
            JobState::Dead => "dead",
        }
    }

    /// Returns whether the job has ended. Only a caller can make it run again.
    pub fn is_final(self) -> bool {
        matches!(self, JobState::Succeeded | JobState::Cancelled | JobState::Dead)
    }
}

impl std::fmt::Display for JobState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for JobState {
    type Err = crate::refusal::Invalid;
    fn from_str(text: &str) -> Result<JobState, Self::Err> {
        let known = JobState::ALL.into_iter().find(|state| state.as_str() == text);
        known.ok_or_else(|| {
            let all = JobState::ALL.map(JobState::as_str).join(", ");
            crate::refusal::Invalid::new("state", format!("must be one of {all}"))
        })
    }
}

impl JobRuntime {
    /// Creates the state of a new job.
    pub fn new(run_at: Time, priority: i16, now: Time) -> JobRuntime {
        let state = if run_at > now { JobState::Scheduled } else { JobState::Queued };
        JobRuntime {
            state,
            run_at,
            rank: rank(run_at, priority),
            attempts: 0,
            fence: 0,
            lease: None,
            ended: None,
            cancelling: false,
            place: Place::Out,
            awaits: None,
            result: Payload::default(),
            error: None,
            cost: Vec::new(),
            held: Vec::new(),
            lapsed: Vec::new(),
            owner: None,
            settled: None,
            blobs: Vec::new(),
            progress: None,
            checkpoint: None,
        }
    }
}

/// Returns a job's position among the waiting jobs: `run_at - priority * PRIORITY_STEP`; lower is leased first.
///
/// The rank of a waiting job does not change, while new jobs get higher ranks as time passes. So no job starves, and
/// one index by rank serves all priorities.
pub fn rank(run_at: Time, priority: i16) -> Time {
    let ahead = i64::from(priority) * PRIORITY_STEP.micros();
    Time::from_micros(run_at.micros().saturating_sub(ahead))
}

impl Job {
    /// Returns the state at `now`: a scheduled job is queued once its time has come, even if the row does not say so
    /// yet.
    pub fn state_at(&self, now: Time) -> JobState {
        match self.life.state {
            JobState::Scheduled if self.life.run_at <= now => JobState::Queued,
            state => state,
        }
    }

    /// Returns the job with only what follows from events, which a rebuild must reproduce.
    ///
    /// Left out are the effects of time: whether the job was found due, the end of its lease and its last progress report
    /// (heartbeats have no events), when its budget is tried again, and its position and rank under a flow key.
    #[must_use]
    pub fn lasting(mut self, now: Time) -> Job {
        self.life.state = self.state_at(now);
        self.life.place = Place::Out;
        self.life.progress = None;
        if let Some(lease) = &mut self.life.lease {
            lease.until = lease.since;
        }
        if self.life.state == JobState::AwaitingBudget {
            self.life.run_at = Time::NEVER;
        }
        if self.key.is_some() {
            self.life.rank = self.life.run_at;
        }
        self
    }

    /// Returns its retry policy: its own, else that of its queue.
    pub fn retry<'a>(&'a self, queue: &'a QueueConfig) -> &'a Retry {
        self.retry.as_ref().unwrap_or(&queue.retry)
    }

    /// Returns the number of failed attempts after which it is dead.
    pub fn most_attempts(&self, queue: &QueueConfig) -> u32 {
        self.max_attempts.unwrap_or(self.retry(queue).max_attempts)
    }

    /// Returns the principal that a lease is or was bound to, if known.
    pub fn owner_of(&self, fence: u64) -> Option<&LeaseOwner> {
        if fence == self.life.fence {
            return self.life.owner.as_ref();
        }
        self.life.lapsed.iter().find(|lapsed| lapsed.fence == fence)?.owner.as_ref()
    }

    /// Returns the group that counts it: a dead job belongs to the group of its last error, any other job to none.
    pub fn dead_group(&self) -> Option<DeadGroupKey> {
        let fingerprint = self.dead_fingerprint()?;
        Some((self.tenant.clone(), self.queue.clone(), self.kind.clone(), fingerprint))
    }

    /// Returns the fingerprint of a dead job's last error; `None` if the job is not dead.
    pub fn dead_fingerprint(&self) -> Option<String> {
        let error = self.life.error.as_ref().filter(|_| self.life.state == JobState::Dead);
        error.map(JobError::fingerprint)
    }

    /// Returns its id and its last progress report, if it has one.
    pub fn last_report(&self) -> Option<(JobId, LastReport)> {
        Some((self.id, self.life.progress.as_deref()?.clone()))
    }

    /// Returns a digest that differs after each event of the job. Heartbeats and progress are not events.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&(self.id, self.version))
    }

    /// Returns the units charged for it, summed over all scopes.
    pub fn total_cost(&self) -> i64 {
        self.life.cost.iter().fold(0i64, |sum, (_, amount)| sum.saturating_add(*amount))
    }
}
