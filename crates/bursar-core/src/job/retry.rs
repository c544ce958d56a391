//! Retry policies: how often and how soon a failed job is retried.
//!
//! The exponential backoff uses full jitter: the wait is drawn evenly between zero and `first * 2^(attempts - 1)`, at
//! most `most`. Jobs that failed together are thereby spread over the whole interval.

use serde::{Deserialize, Serialize};

use crate::bounds::{ATTEMPTS_MAX, BACKOFF_STEPS_MAX, DELAY_MAX};
use crate::refusal::Invalid;
use crate::time::Span;

/// How often and how soon a job is retried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// The number of failed attempts after which the job is dead.
    #[serde(default = "attempts_default")]
    pub max_attempts: u32,
    /// How long to wait before the next attempt.
    #[serde(default)]
    pub backoff: Backoff,
}

fn attempts_default() -> u32 {
    5
}

impl Default for Retry {
    fn default() -> Retry {
        Retry { max_attempts: attempts_default(), backoff: Backoff::default() }
    }
}

/// How long to wait before the next attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Backoff {
    /// The same wait each time.
    Fixed {
        /// The wait.
        delay: Span,
    },
    /// A random wait between zero and a ceiling that doubles with each attempt.
    Exponential {
        /// The first ceiling.
        first: Span,
        /// The highest ceiling.
        most: Span,
    },
    /// The listed waits; the last one applies to all further attempts.
    List {
        /// The waits after the first attempt, the second, and so on.
        delays: Vec<Span>,
    },
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::Exponential { first: Span::from_secs(1), most: Span::from_secs(3_600) }
    }
}

impl Retry {
    /// Returns the wait after the `attempts`th attempt failed. `random` is uniform over 64 bits and sets the jitter.
    pub fn wait(&self, attempts: u32, random: u64) -> Span {
        match &self.backoff {
            Backoff::Fixed { delay } => *delay,
            Backoff::Exponential { first, most } => {
                let doubled = i128::from(first.micros()) << attempts.saturating_sub(1).min(62);
                let ceiling = doubled.min(i128::from(most.micros()));
                let drawn = (ceiling * i128::from(random)) >> 64;
                Span::from_micros(i64::try_from(drawn).unwrap_or(i64::MAX))
            }
            Backoff::List { delays } => {
                let place = (attempts.saturating_sub(1) as usize).min(delays.len().saturating_sub(1));
                delays.get(place).copied().unwrap_or(Span::ZERO)
            }
        }
    }

    pub(crate) fn check(&self, field: &'static str) -> Result<(), Invalid> {
        if !(1..=ATTEMPTS_MAX).contains(&self.max_attempts) {
            let problem = format!("must be from 1 to {ATTEMPTS_MAX}");
            return Err(Invalid::new("max_attempts", problem).within(field));
        }
        let delays: &[Span] = match &self.backoff {
            Backoff::Fixed { delay } => &[*delay],
            Backoff::Exponential { first, most } if first > most => {
                return Err(Invalid::new(field, "has a first delay (first_ms) above the longest one (most_ms)"));
            }
            Backoff::Exponential { most, .. } => &[*most],
            Backoff::List { delays } if delays.is_empty() => {
                return Err(Invalid::new(field, "lists no delay"));
            }
            Backoff::List { delays } if delays.len() > BACKOFF_STEPS_MAX => {
                return Err(Invalid::new(field, format!("lists more than {BACKOFF_STEPS_MAX} delays")));
            }
            Backoff::List { delays } => delays,
        };
        match delays.iter().find(|delay| **delay > DELAY_MAX) {
            Some(_) => Err(Invalid::new(field, format!("waits longer than {} ms", DELAY_MAX.millis()))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_follow_the_policy() {
        let exponential = Retry::default();
        let list = Backoff::List { delays: vec![Span::from_secs(1), Span::from_secs(9)] };
        let list = Retry { backoff: list, ..Retry::default() };
        let fixed = Retry { backoff: Backoff::Fixed { delay: Span::from_secs(3) }, ..Retry::default() };
        let cases = [
            (&exponential, 1, 0, 0),
            (&exponential, 1, u64::MAX, 999),
            (&exponential, 2, u64::MAX, 1_999),
            (&exponential, 3, u64::MAX / 2, 1_999),
            (&exponential, 1_000, u64::MAX, 3_599_999),
            (&list, 1, 7, 1_000),
            (&list, 2, 7, 9_000),
            (&list, 50, 7, 9_000),
            (&fixed, 50, 7, 3_000),
        ];
        for (retry, attempts, random, millis) in cases {
            assert_eq!(retry.wait(attempts, random).micros() / 1_000, millis, "{retry:?} after {attempts}");
        }
    }
}
