//! Schedules: what enqueues a job again and again.

use serde::{Deserialize, Serialize};

use crate::bounds::SCHEDULE_PAYLOAD_BYTES_MAX;
use crate::cron::Cron;
use crate::id::{BatchId, JobId};
use crate::job::JobSpec;
use crate::refusal::Invalid;
use crate::time::{Span, Time};
use crate::window::Zone;

/// What is enqueued when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// When.
    pub cron: Cron,
    /// On the clocks of which zone.
    pub zone: Zone,
    /// What.
    pub job: JobSpec,
    /// What becomes of ticks that nobody was there for.
    #[serde(default)]
    pub missed: Missed,
    /// What to do while the job of the last tick has not ended.
    #[serde(default)]
    pub overlap: Overlap,
    /// Nothing is enqueued. Ticks that pass meanwhile are nobody's.
    #[serde(default)]
    pub paused: bool,
}

/// What becomes of ticks that nobody was there for: one that is noticed when the next is due already, or later than
/// [`ON_TIME`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// They are left out.
    Skip,
    /// One job for all of them, and for the one that is on time.
    #[default]
    One,
    /// A job for each.
    All,
}

/// What to do while the job of the last tick has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Enqueue another.
    #[default]
    Allow,
    /// Leave the tick out.
    Skip,
    /// Cancel that one and enqueue another.
    Cancel,
}

/// A tick that is noticed so late is not missed.
pub const ON_TIME: Span = Span::from_secs(60);

/// A schedule as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// What is enqueued when.
    pub spec: ScheduleSpec,
    /// The next tick; `NEVER` while it is paused or when there is none.
    pub next_at: Time,
    /// The last tick that a job was enqueued for.
    pub last_tick: Option<Time>,
    /// The job of the last tick.
    pub last_job: Option<JobId>,
    /// Events of this schedule so far.
    pub version: u64,
    /// The last transaction with an event of this schedule.
    pub last: Option<BatchId>,
}

impl ScheduleSpec {
    /// A job at the times that `cron` says on the clocks of `zone`.
    pub fn new(cron: Cron, zone: Zone, job: JobSpec) -> ScheduleSpec {
        ScheduleSpec { cron, zone, job, missed: Missed::default(), overlap: Overlap::default(), paused: false }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        self.zone.check()?;
        if self.job.idempotency_key.is_some() {
            return Err(Invalid::new("idempotency_key", "would let only the first tick enqueue anything"));
        }
        if self.job.payload.as_str().len() > SCHEDULE_PAYLOAD_BYTES_MAX {
            let problem = format!("has more than {SCHEDULE_PAYLOAD_BYTES_MAX} bytes, and each tick copies it");
            return Err(Invalid::new("payload", problem));
        }
        self.job.check(0)
    }

    /// The first tick after an instant.
    pub fn next_after(&self, after: Time) -> Time {
        if self.paused {
            return Time::NEVER;
        }
        self.cron.next(&self.zone, after).unwrap_or(Time::NEVER)
    }
}
