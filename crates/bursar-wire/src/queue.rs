//! Queues: `/v1/queues`.

use bursar_core::job::{Backoff, QueueConfig, Rate, Retention, Retry};
use bursar_core::name::Queue;
use bursar_core::refusal::Invalid;
use bursar_core::time::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::millis;

/// The settings of a queue: the body of `PUT /v1/queues/{name}`. A field that is left out is set to its default.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QueueBody {
    /// No job of a paused queue is leased.
    pub paused: bool,
    /// How many jobs may be leased at the same time; `null`: no limit.
    pub concurrency: Option<u32>,
    /// How many leases may start per period; `null`: no limit.
    pub rate: Option<RateBody>,
    /// How many jobs of one flow key may be leased at the same time; `null`: no limit.
    pub key_concurrency: Option<u32>,
    /// How many leases of one flow key may start per period; `null`: no limit.
    pub key_rate: Option<RateBody>,
    /// How jobs are retried, unless a job has a policy of its own.
    pub retry: RetryBody,
    /// How long a lease lasts without a heartbeat, in milliseconds.
    pub lease_ms: i64,
    /// How long one attempt may run, in milliseconds; `null`: no limit.
    pub deadline_ms: Option<i64>,
    /// How long finished jobs are kept.
    pub retention: RetentionBody,
    /// Why the queue is changed; recorded in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A rate limit: a token bucket of `amount` leases that refills in `per_ms`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateBody {
    /// The number of leases.
    pub amount: u32,
    /// The period, in milliseconds.
    pub per_ms: i64,
}

/// A retry policy. `backoff` decides which of the delays may be given: `first_ms` and `most_ms` for `exponential`, `delay_ms` for `fixed`,
/// `delays_ms` for `list`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryBody {
    /// The number of failed attempts after which a job is dead.
    #[serde(default = "default_max_attempts")]
    pub max_attempts: u32,
    /// How the delay before the next attempt is chosen.
    #[serde(default)]
    pub backoff: BackoffWord,
    /// The upper bound of the first delay, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<i64>,
    /// The upper bound of all delays, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_ms: Option<i64>,
    /// The delay before every attempt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<i64>,
    /// The delay after the first attempt, after the second and so on, in milliseconds. The last one is used for all later attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays_ms: Option<Vec<i64>>,
}

fn default_max_attempts() -> u32 {
    Retry::default().max_attempts
}

/// How the delay before the next attempt is chosen.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackoffWord {
    /// A random delay up to a bound that doubles with each attempt.
    #[default]
    Exponential,
    /// Always the same delay.
    Fixed,
    /// The delays of a list.
    List,
}

/// How long finished jobs are kept, in milliseconds; `null`: forever.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionBody {
    pub succeeded_ms: Option<i64>,
    pub cancelled_ms: Option<i64>,
    pub dead_ms: Option<i64>,
}

impl Default for QueueBody {
    fn default() -> QueueBody {
        QueueBody::from(&QueueConfig::default())
    }
}

impl Default for RetentionBody {
    fn default() -> RetentionBody {
        RetentionBody::from(Retention::default())
    }
}

impl From<Retention> for RetentionBody {
    fn from(kept: Retention) -> RetentionBody {
        RetentionBody {
            succeeded_ms: kept.succeeded.map(Span::millis),
            cancelled_ms: kept.cancelled.map(Span::millis),
            dead_ms: kept.dead.map(Span::millis),
        }
    }
}

impl From<&QueueConfig> for QueueBody {
    fn from(config: &QueueConfig) -> QueueBody {
        let rate = |rate: Rate| RateBody { amount: rate.amount, per_ms: rate.per.millis() };
        QueueBody {
            paused: config.paused,
            concurrency: config.concurrency,
            rate: config.rate.map(rate),
            key_concurrency: config.key_concurrency,
            key_rate: config.key_rate.map(rate),
            retry: RetryBody::from(&config.retry),
            lease_ms: config.lease.millis(),
            deadline_ms: config.deadline.map(Span::millis),
            retention: config.retention.into(),
            reason: None,
        }
    }
}

impl TryFrom<QueueBody> for QueueConfig {
    type Error = Invalid;

    fn try_from(body: QueueBody) -> Result<QueueConfig, Invalid> {
        let rate = |field, rate: Option<RateBody>| {
            rate.map(|rate| Ok::<_, Invalid>(Rate { amount: rate.amount, per: millis(field, rate.per_ms)? }))
                .transpose()
        };
        let span = |field, span: Option<i64>| span.map(|span| millis(field, span)).transpose();
        Ok(QueueConfig {
            paused: body.paused,
            concurrency: body.concurrency,
            rate: rate("rate.per_ms", body.rate)?,
            key_concurrency: body.key_concurrency,
            key_rate: rate("key_rate.per_ms", body.key_rate)?,
            retry: body.retry.try_into()?,
            lease: millis("lease_ms", body.lease_ms)?,
            deadline: span("deadline_ms", body.deadline_ms)?,
            retention: Retention {
                succeeded: span("retention.succeeded_ms", body.retention.succeeded_ms)?,
                cancelled: span("retention.cancelled_ms", body.retention.cancelled_ms)?,
                dead: span("retention.dead_ms", body.retention.dead_ms)?,
            },
        })
    }
}

impl From<&Retry> for RetryBody {
    fn from(retry: &Retry) -> RetryBody {
        let policy = RetryBody {
            max_attempts: retry.max_attempts,
            backoff: BackoffWord::Exponential,
            first_ms: None,
            most_ms: None,
            delay_ms: None,
            delays_ms: None,
        };
        match &retry.backoff {
            Backoff::Exponential { first, most } => {
                RetryBody { first_ms: Some(first.millis()), most_ms: Some(most.millis()), ..policy }
            }
            Backoff::Fixed { delay } => {
                RetryBody { backoff: BackoffWord::Fixed, delay_ms: Some(delay.millis()), ..policy }
            }
            Backoff::List { delays } => {
                let delays_ms = Some(delays.iter().map(|delay| delay.millis()).collect());
                RetryBody { backoff: BackoffWord::List, delays_ms, ..policy }
            }
        }
    }
}

impl TryFrom<RetryBody> for Retry {
    type Error = Invalid;

    fn try_from(body: RetryBody) -> Result<Retry, Invalid> {
        let RetryBody { max_attempts, backoff, first_ms, most_ms, delay_ms, delays_ms } = body;
        let allowed = |field: &'static str, given: bool, wanted: BackoffWord| match given && backoff != wanted {
            true => Err(Invalid::new(field, "is not allowed with this backoff")),
            false => Ok(()),
        };
        allowed("retry.first_ms", first_ms.is_some(), BackoffWord::Exponential)?;
        allowed("retry.most_ms", most_ms.is_some(), BackoffWord::Exponential)?;
        allowed("retry.delay_ms", delay_ms.is_some(), BackoffWord::Fixed)?;
        allowed("retry.delays_ms", delays_ms.is_some(), BackoffWord::List)?;
        let backoff = match backoff {
            BackoffWord::Exponential => {
                let Backoff::Exponential { first, most } = Backoff::default() else {
                    return Err(Invalid::new("retry.backoff", "has no default in this build"));
                };
                let span = |field, given: Option<i64>, known| given.map_or(Ok(known), |given| millis(field, given));
                Backoff::Exponential {
                    first: span("retry.first_ms", first_ms, first)?,
                    most: span("retry.most_ms", most_ms, most)?,
                }
            }
            BackoffWord::Fixed => {
                let delay = delay_ms.ok_or_else(|| Invalid::new("retry.delay_ms", "is required with \"fixed\""))?;
                Backoff::Fixed { delay: millis("retry.delay_ms", delay)? }
            }
            BackoffWord::List => {
                let delays = delays_ms.ok_or_else(|| Invalid::new("retry.delays_ms", "is required with \"list\""))?;
                let delays = delays.into_iter().map(|delay| millis("retry.delays_ms", delay));
                Backoff::List { delays: delays.collect::<Result<_, _>>()? }
            }
        };
        Ok(Retry { max_attempts, backoff })
    }
}

/// The settings of a queue and its statistics.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct QueueAnswer {
    pub name: Queue,
    #[serde(flatten)]
    pub config: QueueBody,
    pub figures: FiguresAnswer,
}

impl QueueAnswer {
    /// The fields that are not settings. A `PUT` accepts them and ignores them, so that an answer can be changed and sent back.
    pub const READ_ONLY: &[&str] = &["name", "figures"];
}

/// The statistics of a queue.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct FiguresAnswer {
    /// The number of jobs in each state.
    pub states: Map<String, Value>,
    /// The period of the following counts, in milliseconds; it ends with the current minute.
    pub over_ms: i64,
    /// The jobs that were enqueued in the period.
    pub enqueued: i64,
    /// The jobs that succeeded in the period.
    pub succeeded: i64,
    /// The jobs that were cancelled in the period.
    pub cancelled: i64,
    /// The jobs that died in the period.
    pub dead: i64,
    /// The attempts that failed in the period.
    pub failed_attempts: i64,
    /// When the job that has waited longest became ready. It may be too early if many jobs of its kind have a higher priority.
    pub oldest_waiting: Option<String>,
    /// When the longest current lease began.
    pub oldest_lease: Option<String>,
    /// The counts by minute, with `series=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<SeriesAnswer>,
}

/// Counts by minute, oldest first: each list has one number for each minute of the period.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct SeriesAnswer {
    /// When the first minute began. The last one is the current minute.
    pub from: String,
    /// The length of each step: 60000, a minute.
    pub step_ms: i64,
    /// The jobs that were enqueued.
    pub enqueued: Vec<i64>,
    /// The jobs that succeeded.
    pub succeeded: Vec<i64>,
    /// The jobs that were cancelled.
    pub cancelled: Vec<i64>,
    /// The jobs that died.
    pub dead: Vec<i64>,
    /// The attempts that failed.
    pub failed_attempts: Vec<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_the_same_after_a_round_trip() {
        let lists = Backoff::List { delays: vec![Span::from_secs(1), Span::from_secs(9)] };
        for backoff in [Backoff::default(), Backoff::Fixed { delay: Span::from_millis(7) }, lists] {
            let config = QueueConfig {
                paused: true,
                rate: Some(Rate { amount: 5, per: Span::from_secs(1) }),
                retry: Retry { max_attempts: 3, backoff },
                retention: Retention { dead: None, ..Retention::default() },
                ..QueueConfig::default()
            };
            let json = serde_json::to_string(&QueueBody::from(&config)).unwrap();
            let read: QueueBody = serde_json::from_str(&json).unwrap();
            assert_eq!(QueueConfig::try_from(read).unwrap(), config);
        }
    }

    #[test]
    fn delays_of_another_backoff_are_refused() {
        for json in [
            r#"{ "retry": { "backoff": "fixed" } }"#,
            r#"{ "retry": { "backoff": "fixed", "delay_ms": 1, "first_ms": 1 } }"#,
            r#"{ "retry": { "backoff": "list", "delay_ms": 1 } }"#,
            r#"{ "retry": { "delays_ms": [1] } }"#,
            r#"{ "lease_ms": -1 }"#,
        ] {
            let body: QueueBody = serde_json::from_str(json).unwrap();
            assert!(QueueConfig::try_from(body).is_err(), "{json}");
        }
    }
}
