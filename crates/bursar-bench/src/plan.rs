//! What is measured: one measurement a line.

use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use crate::error::BenchError;

/// What a caller does again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bench {
    /// A metered command: a hold that a job owns, a grant redeemed, the job, the journal.
    Command,
    /// A hold.
    Hold,
    /// A hold, and its commit once it is there: the pair is one operation.
    Settle,
}

/// What a measurement is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// Nothing.
    None,
    /// The limit: the rows that Bursar wrote, written again by the engine's fastest insert, in the same transactions.
    BulkInsert,
}

/// How ids are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// As Bursar makes them: they grow with time.
    Time,
    /// At random, which Bursar never does: it shows what that would cost.
    Random,
}

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which bench; the standard set without.
    pub bench: Option<Bench>,
    /// Where; both engines in places of their own without.
    pub database: Option<String>,
    /// Callers at once.
    pub callers: Option<usize>,
    /// Scopes they charge in turn.
    pub scopes: Option<usize>,
    /// How long a round is, in seconds.
    pub seconds: Option<f64>,
    /// Rounds of each side.
    pub rounds: Option<usize>,
    /// What to compare with.
    pub baseline: Option<Baseline>,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Measurement {
    pub(crate) bench: Bench,
    pub(crate) callers: usize,
    pub(crate) scopes: usize,
    pub(crate) baseline: Baseline,
}

/// How long, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) time: Duration,
    pub(crate) rounds: usize,
}

const BENCHES: [Bench; 3] = [Bench::Command, Bench::Hold, Bench::Settle];
const CALLERS: [usize; 3] = [1, 50, 1_000];
const SCOPES: [usize; 2] = [1, 1_000];
const SECONDS: f64 = 2.0;
const ROUNDS: usize = 3;

const CALLERS_MAX: usize = 10_000;
const SCOPES_MAX: usize = 100_000;
const SECONDS_MAX: f64 = 600.0;
const ROUNDS_MAX: usize = 100;

impl Options {
    /// Refuses what cannot be measured.
    pub fn check(&self) -> Result<(), BenchError> {
        within("callers", self.callers, 1, CALLERS_MAX)?;
        within("scopes", self.scopes, 1, SCOPES_MAX)?;
        within("rounds", self.rounds, 1, ROUNDS_MAX)?;
        match self.seconds {
            // Written so that what is not a number is refused as well.
            Some(seconds) if !(seconds > 0.0 && seconds <= SECONDS_MAX) => {
                Err(BenchError::Usage(format!("seconds must be above 0 and at most {SECONDS_MAX}: {seconds} is not")))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn effort(&self) -> Effort {
        let time = Duration::from_secs_f64(self.seconds.unwrap_or(SECONDS));
        Effort { time, rounds: self.rounds.unwrap_or(ROUNDS) }
    }

    /// The lines it comes to, on each engine.
    pub(crate) fn plan(&self) -> Vec<Measurement> {
        let benches = self.bench.map_or(BENCHES.to_vec(), |bench| vec![bench]);
        let callers = self.callers.map_or(CALLERS.to_vec(), |callers| vec![callers]);
        let scopes = self.scopes.map_or(SCOPES.to_vec(), |scopes| vec![scopes]);
        let baseline = self.baseline.unwrap_or(Baseline::BulkInsert);
        let mut lines = Vec::new();
        for bench in benches {
            for &callers in &callers {
                for &scopes in &scopes {
                    lines.push(Measurement { bench, callers, scopes, baseline });
                }
            }
        }
        lines
    }
}

fn within(name: &str, value: Option<usize>, least: usize, most: usize) -> Result<(), BenchError> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(BenchError::Usage(format!("{name} must be from {least} to {most}: {value} is not")))
        }
        _ => Ok(()),
    }
}

/// Names by which things are asked for.
macro_rules! names {
    ($kind:ident, $what:literal, $($name:literal => $value:ident),*) => {
        impl $kind {
            /// Its name.
            pub fn as_str(self) -> &'static str {
                match self { $($kind::$value => $name),* }
            }
        }

        impl FromStr for $kind {
            type Err = BenchError;
            fn from_str(text: &str) -> Result<$kind, BenchError> {
                match text {
                    $($name => Ok($kind::$value),)*
                    _ => Err(BenchError::Usage(format!(
                        concat!("there is no ", $what, " {:?}: there are {}"), text, [$($name),*].join(", ")
                    ))),
                }
            }
        }
    };
}

names!(Bench, "bench", "command" => Command, "hold" => Hold, "settle" => Settle);
names!(Baseline, "baseline", "none" => None, "bulk-insert" => BulkInsert);
names!(Keys, "kind of keys", "time" => Time, "random" => Random);
