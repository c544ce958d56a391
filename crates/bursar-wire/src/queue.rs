//! Queues on the wire: `PUT /v1/queues/{name}`.

#[cfg(feature = "library")]
use bursar::QueueFigures;
use bursar_core::job::{Backoff, QueueConfig, Rate, Retention, Retry};
use bursar_core::name::Queue;
use bursar_core::refusal::Invalid;
use bursar_core::time::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::millis;
#[cfg(feature = "library")]
use crate::stamp;

/// What is set for a queue. What is not said has its default.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QueueBody {
    pub paused: bool,
    pub concurrency: Option<u32>,
    pub rate: Option<RateBody>,
    pub key_concurrency: Option<u32>,
    pub key_rate: Option<RateBody>,
    pub retry: RetryBody,
    pub lease_ms: i64,
    pub deadline_ms: Option<i64>,
    pub retention: RetentionBody,
    /// Why it is changed, for the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// So many in a time.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateBody {
    pub amount: u32,
    pub per_ms: i64,
}

/// How a job is tried again: `backoff` is `exponential` (`first_ms`, `most_ms`), `fixed` (`delay_ms`) or `list`
/// (`delays_ms`).
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryBody {
    #[serde(default = "attempts")]
    pub max_attempts: u32,
    #[serde(default)]
    pub backoff: BackoffWord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays_ms: Option<Vec<i64>>,
}

fn attempts() -> u32 {
    Retry::default().max_attempts
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackoffWord {
    #[default]
    Exponential,
    Fixed,
    List,
}

/// How long finished jobs are kept; `null` is for ever.
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
        let plain = RetryBody {
            max_attempts: retry.max_attempts,
            backoff: BackoffWord::Exponential,
            first_ms: None,
            most_ms: None,
            delay_ms: None,
            delays_ms: None,
        };
        match &retry.backoff {
            Backoff::Exponential { first, most } => {
                RetryBody { first_ms: Some(first.millis()), most_ms: Some(most.millis()), ..plain }
            }
            Backoff::Fixed { delay } => {
                RetryBody { backoff: BackoffWord::Fixed, delay_ms: Some(delay.millis()), ..plain }
            }
            Backoff::List { delays } => {
                let delays_ms = Some(delays.iter().map(|delay| delay.millis()).collect());
                RetryBody { backoff: BackoffWord::List, delays_ms, ..plain }
            }
        }
    }
}

impl TryFrom<RetryBody> for Retry {
    type Error = Invalid;

    fn try_from(body: RetryBody) -> Result<Retry, Invalid> {
        let RetryBody { max_attempts, backoff, first_ms, most_ms, delay_ms, delays_ms } = body;
        let belongs = |field: &'static str, given: bool, wanted: BackoffWord| match given && backoff != wanted {
            true => Err(Invalid::new(field, "does not belong to this backoff")),
            false => Ok(()),
        };
        belongs("retry.first_ms", first_ms.is_some(), BackoffWord::Exponential)?;
        belongs("retry.most_ms", most_ms.is_some(), BackoffWord::Exponential)?;
        belongs("retry.delay_ms", delay_ms.is_some(), BackoffWord::Fixed)?;
        belongs("retry.delays_ms", delays_ms.is_some(), BackoffWord::List)?;
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
                let delay = delay_ms.ok_or_else(|| Invalid::new("retry.delay_ms", "is needed with \"fixed\""))?;
                Backoff::Fixed { delay: millis("retry.delay_ms", delay)? }
            }
            BackoffWord::List => {
                let delays = delays_ms.ok_or_else(|| Invalid::new("retry.delays_ms", "is needed with \"list\""))?;
                let delays = delays.into_iter().map(|delay| millis("retry.delays_ms", delay));
                Backoff::List { delays: delays.collect::<Result<_, _>>()? }
            }
        };
        Ok(Retry { max_attempts, backoff })
    }
}

/// A queue, with its figures where they were asked for.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct QueueAnswer {
    pub name: Queue,
    #[serde(flatten)]
    pub config: QueueBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<FiguresAnswer>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct FiguresAnswer {
    /// How many jobs are in each state.
    pub states: Map<String, Value>,
    /// Over so long, the minute that runs included.
    pub over_ms: i64,
    pub enqueued: i64,
    pub succeeded: i64,
    pub cancelled: i64,
    pub dead: i64,
    pub failed_attempts: i64,
    pub oldest_waiting: Option<String>,
    pub oldest_lease: Option<String>,
}

#[cfg(feature = "library")]
impl QueueAnswer {
    /// What is set for a queue, and its figures.
    pub fn of(name: Queue, config: &QueueConfig, figures: Option<&QueueFigures>) -> QueueAnswer {
        QueueAnswer { name, config: config.into(), figures: figures.map(FiguresAnswer::from) }
    }
}

#[cfg(feature = "library")]
impl From<&QueueFigures> for FiguresAnswer {
    fn from(figures: &QueueFigures) -> FiguresAnswer {
        let states =
            bursar_core::job::JobState::ALL.map(|state| (state.as_str().to_owned(), figures.count(state).into()));
        FiguresAnswer {
            states: states.into_iter().collect(),
            over_ms: i64::from(figures.minutes) * 60_000,
            enqueued: figures.enqueued,
            succeeded: figures.succeeded,
            cancelled: figures.cancelled,
            dead: figures.dead,
            failed_attempts: figures.failed_attempts,
            oldest_waiting: figures.oldest_waiting.and_then(stamp),
            oldest_lease: figures.oldest_lease.and_then(stamp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
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
    fn delays_that_do_not_belong_to_the_backoff_are_refused() {
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
