//! Schedules: recurring jobs.
//!
//! The row of a schedule has its next tick and is the lock of its ticks. Handling a tick enqueues the job and moves the
//! next tick in one transaction, so a second process that handles the same tick finds nothing to do. The event records
//! the tick and the next one, so a replay needs no clock and no time zone. In a zone that this build does not know,
//! nothing is enqueued.

use serde::{Deserialize, Serialize};

use crate::bounds::SCHEDULE_PAYLOAD_BYTES_MAX;
use crate::cron::Cron;
use crate::id::{BatchId, JobId};
use crate::job::JobSpec;
use crate::refusal::Invalid;
use crate::time::{Span, Time};
use crate::window::Zone;

/// The definition of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// When its ticks are.
    pub cron: Cron,
    /// The time zone of `cron`.
    pub zone: Zone,
    /// The job that a tick enqueues.
    pub job: JobSpec,
    /// What to do with missed ticks.
    #[serde(default)]
    pub missed: Missed,
    /// What to do while the job of the last tick has not ended.
    #[serde(default)]
    pub overlap: Overlap,
    /// Whether it is paused. Ticks that pass while it is paused are not made up for.
    #[serde(default)]
    pub paused: bool,
}

/// What to do with missed ticks. A tick is missed if it is handled more than 60 seconds late, or if the next one is due
/// already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// Enqueue nothing for them.
    Skip,
    /// Enqueue one job for all missed ticks together with the tick that is on time.
    #[default]
    One,
    /// Enqueue a job for each.
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
    /// Skip the tick.
    Skip,
    /// Cancel that job and enqueue another.
    Cancel,
}

/// The longest delay after which a tick still counts as on time.
pub const ON_TIME: Span = Span::from_secs(60);

/// The row of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Its definition.
    pub spec: ScheduleSpec,
    /// The next tick; `NEVER` if it is paused or has no tick left.
    pub next_at: Time,
    /// The last tick that a job was enqueued for.
    pub last_tick: Option<Time>,
    /// The job of the last tick.
    pub last_job: Option<JobId>,
    /// The number of its events so far.
    pub version: u64,
    /// The last transaction with an event of the schedule.
    pub last: Option<BatchId>,
}

impl ScheduleSpec {
    /// Creates a schedule that enqueues `job` at the times of `cron` in `zone`.
    pub fn new(cron: Cron, zone: Zone, job: JobSpec) -> ScheduleSpec {
        ScheduleSpec { cron, zone, job, missed: Missed::default(), overlap: Overlap::default(), paused: false }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        self.zone.check()?;
        if self.job.idempotency_key.is_some() {
            return Err(Invalid::new("idempotency_key", "must not be set: only the first tick would enqueue a job"));
        }
        if !self.job.blobs.is_empty() {
            return Err(Invalid::new("blobs", "must be empty: a tick could not run once they are deleted"));
        }
        if self.job.payload.as_str().len() > SCHEDULE_PAYLOAD_BYTES_MAX {
            let problem = format!(
                "has more than {SCHEDULE_PAYLOAD_BYTES_MAX} bytes, which is too much because each tick copies it"
            );
            return Err(Invalid::new("payload", problem));
        }
        self.job.check(0)
    }

    /// Returns the first tick after an instant; `NEVER` if it is paused or there is none.
    pub fn next_after(&self, after: Time) -> Time {
        if self.paused {
            return Time::NEVER;
        }
        self.cron.next(&self.zone, after).unwrap_or(Time::NEVER)
    }
}
