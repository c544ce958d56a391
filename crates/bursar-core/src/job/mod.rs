//! Jobs: durable work in a queue, run by a worker under a lease.

mod flow;
mod lease;
mod queue;
mod retry;
mod schedule;
mod spec;

use serde::{Deserialize, Serialize};

pub use self::flow::{FlowScopes, Place, line_up};
pub use self::lease::{Beat, End, Finish, JobError, Lease, LeaseAsk, LeaseEnd, Order, Usage, wants};
pub use self::queue::{QueueConfig, QueueState, Rate, Retention};
pub use self::retry::{Backoff, Retry};
pub use self::schedule::{Missed, ON_TIME, Overlap, Schedule, ScheduleSpec};
pub use self::spec::JobSpec;
pub(crate) use self::spec::{check_delay, check_priority};
use crate::bounds::PRIORITY_STEP;
use crate::id::{BatchId, HoldId, JobId};
use crate::name::{FlowKey, IdempotencyKey, JobKind, LeaseOwner, Queue, Scope, Tag, Tenant};
use crate::payload::Payload;
use crate::time::{Span, Time};
use crate::trace::TraceParent;

/// A job as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Whose it is.
    pub tenant: Tenant,
    /// Where it waits.
    pub queue: Queue,
    /// The queue it was enqueued in, where that is another.
    pub home: Option<Queue>,
    /// What it does.
    pub kind: JobKind,
    /// What it works on.
    pub payload: Payload,
    /// Makes it unique in the queue it was enqueued in.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Groups it for flow control.
    pub key: Option<FlowKey>,
    /// Words to find it by.
    pub tags: Vec<Tag>,
    /// What its maker wants to remember of it.
    pub metadata: Payload,
    /// The job that it follows from.
    pub parent: Option<JobId>,
    /// Higher runs first.
    pub priority: i16,
    /// After so many failed attempts it is dead.
    pub max_attempts: Option<u32>,
    /// How it is tried again, where the queue's way is not taken.
    pub retry: Option<Retry>,
    /// How long one run may take, where the queue's is not taken.
    pub deadline: Option<Span>,
    /// The trace it was enqueued in.
    pub traceparent: Option<TraceParent>,
    /// The hold that its end settles; of a finished one the last.
    pub hold: Option<HoldId>,
    /// When it was enqueued.
    pub enqueued_at: Time,
    /// Events of this job so far.
    pub version: u64,
    /// The last transaction with an event of this job.
    pub last: Option<BatchId>,
    /// Where it is in its life.
    pub life: Life,
}

/// Where a job is in its life: what changes while it lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// The state last written; see [`Job::state_at`].
    pub state: JobState,
    /// Not before this; while it awaits budget, when that is looked at again; of a finished one, when it ended.
    pub run_at: Time,
    /// Its place among the others of its queue: lower is leased first. Waiting makes it better, so that nothing starves.
    pub rank: Time,
    /// Attempts begun, less those that were handed back.
    pub attempts: u32,
    /// The number of the last lease; only grows.
    pub fence: u64,
    /// Who works on it.
    pub lease: Option<Lease>,
    /// How the last lease ended, if it has.
    pub ended: Option<LeaseEnd>,
    /// Somebody wants it cancelled while it runs.
    pub cancelling: bool,
    /// What it is in the line of its flow key.
    pub place: Place,
    /// The scope whose budget it waits for.
    pub awaits: Option<Scope>,
    /// What came of it.
    pub result: Payload,
    /// The last error.
    pub error: Option<JobError>,
    /// Units that were charged for it so far, by scope.
    pub cost: Vec<(Scope, i64)>,
    /// What its hold sets aside, by the units that the budgets had when it got the hold; empty without a live one.
    pub held: Vec<(String, i128)>,
    /// Leases that lapsed: their workers may still report what they spent.
    pub lapsed: Vec<Lapsed>,
    /// The principal that the last lease is bound to, also after its end; `None` where the embedding program took it.
    #[serde(skip)]
    pub owner: Option<LeaseOwner>,
    /// Units that the last lease was charged for, by scope; `None` where an earlier version of Bursar began it.
    #[serde(skip)]
    pub settled: Option<Vec<(Scope, i64)>>,
}

/// A lease that lapsed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lapsed {
    /// Its number.
    pub fence: u64,
    /// What its worker spent has been charged.
    pub billed: bool,
    /// The principal it was bound to.
    #[serde(skip)]
    pub owner: Option<LeaseOwner>,
}

/// Where a job is in its life, in the words of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Its time has not come; also between attempts.
    Scheduled,
    /// It waits for a worker.
    Queued,
    /// Its budget does not admit another attempt now.
    AwaitingBudget,
    /// A worker has it.
    Leased,
    /// Done.
    Succeeded,
    /// Given up by order.
    Cancelled,
    /// Given up after its last attempt.
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

    /// The word of the wire.
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

    /// It will not change any more by itself.
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

impl Life {
    /// The life of a job that begins to wait.
    pub fn new(run_at: Time, priority: i16, now: Time) -> Life {
        let state = if run_at > now { JobState::Scheduled } else { JobState::Queued };
        Life {
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
        }
    }
}

/// A job's place among those that wait: each step of priority is worth so much waiting.
pub fn rank(run_at: Time, priority: i16) -> Time {
    let ahead = i64::from(priority) * PRIORITY_STEP.micros();
    Time::from_micros(run_at.micros().saturating_sub(ahead))
}

impl Job {
    /// The state that follows from time: what was scheduled waits for a worker once its time has come.
    pub fn state_at(&self, now: Time) -> JobState {
        match self.life.state {
            JobState::Scheduled if self.life.run_at <= now => JobState::Queued,
            state => state,
        }
    }

    /// What of it follows from events alone, so that a rebuild gives the same at an instant that none of its times passes. Not: whether
    /// somebody has found that it is due, how far heartbeats have put its lapse off, when its budget is looked at again, and its
    /// place and rank in a line.
    #[must_use]
    pub fn lasting(mut self, now: Time) -> Job {
        self.life.state = self.state_at(now);
        self.life.place = Place::Out;
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

    /// The rules of its retries: its own, else those of its queue.
    pub fn retry<'a>(&'a self, queue: &'a QueueConfig) -> &'a Retry {
        self.retry.as_ref().unwrap_or(&queue.retry)
    }

    /// After so many failed attempts it is dead.
    pub fn most_attempts(&self, queue: &QueueConfig) -> u32 {
        self.max_attempts.unwrap_or(self.retry(queue).max_attempts)
    }

    /// The principal that a lease is or was bound to, as far as that is known.
    pub fn owner_of(&self, fence: u64) -> Option<&LeaseOwner> {
        if fence == self.life.fence {
            return self.life.owner.as_ref();
        }
        self.life.lapsed.iter().find(|lapsed| lapsed.fence == fence)?.owner.as_ref()
    }

    /// Units that were charged for it, all scopes together.
    pub fn total_cost(&self) -> i64 {
        self.life.cost.iter().fold(0i64, |sum, (_, amount)| sum.saturating_add(*amount))
    }
}
