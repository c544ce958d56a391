//! Schedules: `/v1/schedules`.

use bursar_core::cron::Cron;
use bursar_core::id::JobId;
use bursar_core::job::{JobSpec, Missed as MissedTicks, Overlap, Schedule, ScheduleSpec};
use bursar_core::name::{FlowKey, JobKind, Queue, ScheduleName, Tag};
use bursar_core::payload::Payload;
use bursar_core::refusal::Invalid;
use bursar_core::time::Span;
use bursar_core::window::Zone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::queue::RetryBody;
use crate::{flat, millis, stamp};

/// A recurring job: the body of `PUT /v1/schedules/{name}`. A field that is left out is set to its default.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleBody {
    /// When the schedule ticks.
    pub cron: Cron,
    /// The time zone of `cron`, such as `Europe/Berlin`; default: UTC.
    #[serde(default = "utc")]
    pub zone: String,
    /// The queue of the job that each tick enqueues.
    pub queue: Queue,
    /// The type of work of that job.
    pub kind: JobKind,
    /// JSON for the worker; default: `null`.
    #[serde(default)]
    pub payload: Payload,
    /// What happens to ticks that were missed, for example while the server was down.
    #[serde(default)]
    pub missed: MissedTicks,
    /// What happens at a tick while the job of the previous tick has not ended.
    #[serde(default)]
    pub overlap: Overlap,
    /// A paused schedule does not tick.
    #[serde(default)]
    pub paused: bool,
    /// The flow key of the job.
    #[serde(default)]
    pub key: Option<FlowKey>,
    /// Tags to find the job by.
    #[serde(default)]
    pub tags: Vec<Tag>,
    /// JSON that is stored with the job for its owner; default: `null`.
    #[serde(default)]
    pub metadata: Payload,
    /// The priority of the job; default: 0.
    #[serde(default)]
    pub priority: i16,
    /// How long the job waits after its tick, in milliseconds; default: 0.
    #[serde(default)]
    pub delay_ms: i64,
    /// The number of failed attempts after which the job is dead; default: that of `retry`, else the queue's setting.
    #[serde(default)]
    pub max_attempts: Option<u32>,
    /// How the job is retried; default: the queue's setting.
    #[serde(default)]
    pub retry: Option<RetryBody>,
    /// How long one attempt may run, in milliseconds; default: the queue's setting.
    #[serde(default)]
    pub deadline_ms: Option<i64>,
    /// Why the schedule is changed; recorded in the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

fn utc() -> String {
    Zone::utc().to_string()
}

impl TryFrom<ScheduleBody> for ScheduleSpec {
    type Error = Invalid;

    fn try_from(body: ScheduleBody) -> Result<ScheduleSpec, Invalid> {
        let job = JobSpec {
            key: body.key,
            tags: body.tags,
            metadata: body.metadata,
            priority: body.priority,
            delay: millis("delay_ms", body.delay_ms)?,
            max_attempts: body.max_attempts,
            retry: body.retry.map(TryInto::try_into).transpose()?,
            deadline: body.deadline_ms.map(|deadline| millis("deadline_ms", deadline)).transpose()?,
            ..JobSpec::new(body.queue, body.kind, body.payload)
        };
        let spec = ScheduleSpec::new(body.cron, Zone::new(&body.zone)?, job);
        Ok(ScheduleSpec { missed: body.missed, overlap: body.overlap, paused: body.paused, ..spec })
    }
}

impl From<&ScheduleSpec> for ScheduleBody {
    fn from(spec: &ScheduleSpec) -> ScheduleBody {
        let job = &spec.job;
        ScheduleBody {
            cron: spec.cron.clone(),
            zone: spec.zone.to_string(),
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            payload: job.payload.clone(),
            missed: spec.missed,
            overlap: spec.overlap,
            paused: spec.paused,
            key: job.key.clone(),
            tags: job.tags.clone(),
            metadata: job.metadata.clone(),
            priority: job.priority,
            delay_ms: job.delay.millis(),
            max_attempts: job.max_attempts,
            retry: job.retry.as_ref().map(RetryBody::from),
            deadline_ms: job.deadline.map(Span::millis),
            reason: None,
        }
    }
}

/// The current state of a schedule.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScheduleAnswer {
    pub name: ScheduleName,
    #[serde(flatten)]
    pub spec: ScheduleBody,
    /// The next tick; `null` if the schedule is paused or never ticks again.
    pub next_at: Option<String>,
    /// The last tick that enqueued a job.
    pub last_tick: Option<String>,
    /// The job of that tick.
    pub last_job: Option<JobId>,
}

impl<'de> Deserialize<'de> for ScheduleAnswer {
    fn deserialize<D: serde::Deserializer<'de>>(de: D) -> Result<ScheduleAnswer, D::Error> {
        #[derive(Deserialize)]
        struct Own {
            name: ScheduleName,
            next_at: Option<String>,
            last_tick: Option<String>,
            last_job: Option<JobId>,
        }
        let (own, spec) = flat::split(de, ScheduleAnswer::READ_ONLY, "cron")?;
        let Own { name, next_at, last_tick, last_job } = own;
        let spec = spec.ok_or_else(|| serde::de::Error::missing_field("cron"))?;
        Ok(ScheduleAnswer { name, spec, next_at, last_tick, last_job })
    }
}

impl ScheduleAnswer {
    /// The fields that are not part of the definition. A `PUT` accepts them and ignores them, so that an answer can be changed and sent back.
    pub const READ_ONLY: &[&str] = &["name", "next_at", "last_tick", "last_job"];

    /// Converts a schedule.
    pub fn of(name: ScheduleName, schedule: &Schedule) -> ScheduleAnswer {
        ScheduleAnswer {
            name,
            spec: ScheduleBody::from(&schedule.spec),
            next_at: stamp(schedule.next_at),
            last_tick: schedule.last_tick.and_then(stamp),
            last_job: schedule.last_job,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_the_same_after_a_round_trip() {
        let job = JobSpec {
            key: Some("k".try_into().unwrap()),
            priority: -3,
            delay: Span::from_millis(7),
            max_attempts: Some(2),
            deadline: Some(Span::from_secs(9)),
            ..JobSpec::new("q".try_into().unwrap(), "work".try_into().unwrap(), Payload::new("[1]").unwrap())
        };
        let spec = ScheduleSpec::new(Cron::new("@daily").unwrap(), Zone::new("Europe/Berlin").unwrap(), job);
        let spec = ScheduleSpec { missed: MissedTicks::All, overlap: Overlap::Cancel, paused: true, ..spec };
        let json = serde_json::to_string(&ScheduleBody::from(&spec)).unwrap();
        let read: ScheduleBody = serde_json::from_str(&json).unwrap();
        assert_eq!(ScheduleSpec::try_from(read).unwrap(), spec);
    }

    #[test]
    fn missing_fields_have_defaults_and_wrong_fields_are_refused() {
        let short = r#"{ "cron": "0 7 * * *", "queue": "q", "kind": "work" }"#;
        let spec = ScheduleSpec::try_from(serde_json::from_str::<ScheduleBody>(short).unwrap()).unwrap();
        let defaults = JobSpec::new("q".try_into().unwrap(), "work".try_into().unwrap(), Payload::default());
        assert_eq!(spec, ScheduleSpec::new(Cron::new("0 7 * * *").unwrap(), Zone::utc(), defaults));
        for json in [
            r#"{ "cron": "0 0 30 2 *", "queue": "q", "kind": "work" }"#,
            r#"{ "cron": "@daily", "queue": "q", "kind": "work", "missed": "some" }"#,
            r#"{ "cron": "@daily", "queue": "q", "kind": "work", "idempotency_key": "k" }"#,
            r#"{ "cron": "@daily", "queue": "q" }"#,
        ] {
            assert!(serde_json::from_str::<ScheduleBody>(json).is_err(), "{json}");
        }
        let nowhere = r#"{ "cron": "@daily", "zone": "Mars/Olympus", "queue": "q", "kind": "work" }"#;
        assert!(ScheduleSpec::try_from(serde_json::from_str::<ScheduleBody>(nowhere).unwrap()).is_err());
    }
}
