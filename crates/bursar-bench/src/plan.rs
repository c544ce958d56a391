//! What is measured: one measurement a line.

use std::fmt::Display;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Nothing.
    None,
    /// The limit: the rows that Bursar wrote, written again by the engine's fastest insert, in the same transactions.
    BulkInsert,
    /// The textbook design: lock, add up, insert, commit.
    Textbook,
    /// Bursar itself with ten thousand rows of history, and no snapshot held.
    History10k,
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
    /// Rows of history.
    pub history: Option<u64>,
    /// How ids are made, those of history too.
    pub keys: Option<Keys>,
    /// Whether somebody else holds a snapshot open all the while.
    pub snapshot: bool,
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
    pub(crate) history: u64,
    pub(crate) keys: Keys,
    pub(crate) snapshot: bool,
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
/// Where the number of callers is not what it is about.
const CALLERS_COMMON: usize = 50;
const SCOPES: [usize; 2] = [1, 1_000];
/// What the textbook design has to add up.
const HISTORY_TEXTBOOK: [u64; 2] = [1_000, 100_000];
const HISTORY_LONG: u64 = 1_000_000;
/// What a long history is compared with.
pub(crate) const HISTORY_SHORT: u64 = 10_000;
const SECONDS: f64 = 2.0;
const ROUNDS: usize = 3;

const CALLERS_MAX: usize = 10_000;
const SCOPES_MAX: usize = 100_000;
const HISTORY_MAX: u64 = 100_000_000;
const SECONDS_MAX: f64 = 600.0;
const ROUNDS_MAX: usize = 100;

impl Options {
    /// Refuses what cannot be measured.
    pub fn check(&self) -> Result<(), BenchError> {
        within("callers", self.callers, 1, CALLERS_MAX)?;
        within("scopes", self.scopes, 1, SCOPES_MAX)?;
        within("rounds", self.rounds, 1, ROUNDS_MAX)?;
        within("history", self.history, 0, HISTORY_MAX)?;
        // Written so that what is not a number is refused as well.
        if let Some(seconds) = self.seconds.filter(|seconds| !(*seconds > 0.0 && *seconds <= SECONDS_MAX)) {
            let detail = format!("seconds must be above 0 and at most {SECONDS_MAX}: {seconds} is not");
            return Err(BenchError::Usage(detail));
        }
        if self.snapshot && matches!(self.baseline, Some(Baseline::BulkInsert | Baseline::Textbook)) {
            let detail = "what a snapshot costs is measured against Bursar without one: the baseline of --snapshot is \
                history-10k or none";
            return Err(BenchError::Usage(detail.into()));
        }
        Ok(())
    }

    pub(crate) fn effort(&self) -> Effort {
        let time = Duration::from_secs_f64(self.seconds.unwrap_or(SECONDS));
        Effort { time, rounds: self.rounds.unwrap_or(ROUNDS) }
    }

    /// The lines it comes to, on each engine.
    pub(crate) fn plan(&self) -> Vec<Measurement> {
        let past = self.history.is_some() || self.keys.is_some() || self.snapshot;
        match self.baseline {
            Some(Baseline::Textbook) => self.beside_textbook(),
            Some(Baseline::History10k) => self.flatness(&[(self.keys.unwrap_or(Keys::Time), self.snapshot)]),
            Some(baseline) => self.lines(&self.benches(), &CALLERS, &SCOPES, &[0], baseline),
            None if past => self.flatness(&[(self.keys.unwrap_or(Keys::Time), self.snapshot)]),
            None if self.bench.is_some() => self.lines(&self.benches(), &CALLERS, &SCOPES, &[0], Baseline::BulkInsert),
            None => {
                let mut lines = self.lines(&BENCHES, &CALLERS, &SCOPES, &[0], Baseline::BulkInsert);
                lines.extend(self.beside_textbook());
                lines.extend(self.flatness(&[(Keys::Time, false), (Keys::Random, false), (Keys::Time, true)]));
                lines
            }
        }
    }

    fn benches(&self) -> Vec<Bench> {
        self.bench.map_or(BENCHES.to_vec(), |bench| vec![bench])
    }

    fn beside_textbook(&self) -> Vec<Measurement> {
        let benches = [self.bench.unwrap_or(Bench::Command)];
        self.lines(&benches, &[CALLERS_COMMON], &SCOPES, &HISTORY_TEXTBOOK, Baseline::Textbook)
    }

    fn flatness(&self, kinds: &[(Keys, bool)]) -> Vec<Measurement> {
        let lines = self.lines(&self.benches(), &[CALLERS_COMMON], &SCOPES[..1], &[HISTORY_LONG], Baseline::History10k);
        let kinds = lines.iter().flat_map(|line| {
            kinds.iter().map(|(keys, snapshot)| Measurement { keys: *keys, snapshot: *snapshot, ..line.clone() })
        });
        kinds.collect()
    }

    /// Every combination; what was asked for stands instead of what is usual.
    fn lines(
        &self,
        benches: &[Bench],
        callers: &[usize],
        scopes: &[usize],
        history: &[u64],
        baseline: Baseline,
    ) -> Vec<Measurement> {
        let callers = self.callers.map_or(callers.to_vec(), |callers| vec![callers]);
        let scopes = self.scopes.map_or(scopes.to_vec(), |scopes| vec![scopes]);
        let history = self.history.map_or(history.to_vec(), |history| vec![history]);
        let (keys, snapshot) = (self.keys.unwrap_or(Keys::Time), self.snapshot);
        let mut lines = Vec::new();
        for &bench in benches {
            for &callers in &callers {
                for &scopes in &scopes {
                    let line = |&history| Measurement { bench, callers, scopes, history, keys, snapshot, baseline };
                    lines.extend(history.iter().map(line));
                }
            }
        }
        lines
    }
}

fn within<T: Copy + PartialOrd + Display>(name: &str, value: Option<T>, least: T, most: T) -> Result<(), BenchError> {
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
names!(
    Baseline, "baseline",
    "none" => None, "bulk-insert" => BulkInsert, "textbook" => Textbook, "history-10k" => History10k
);
names!(Keys, "kind of keys", "time" => Time, "random" => Random);

#[cfg(test)]
mod tests {
    use super::*;

    fn told(options: &Options) -> Vec<String> {
        let told = |line: &Measurement| {
            let Measurement { bench, callers, scopes, history, keys, snapshot, baseline } = line;
            let held = if *snapshot { " snapshot" } else { "" };
            let (bench, keys, baseline) = (bench.as_str(), keys.as_str(), baseline.as_str());
            format!("{bench} {callers} {scopes} {history} {keys}{held} / {baseline}")
        };
        options.plan().iter().map(told).collect()
    }

    #[test]
    fn what_is_asked_for_stands_instead_of_what_is_usual() {
        let hold = Options { bench: Some(Bench::Hold), callers: Some(7), ..Options::default() };
        assert_eq!(told(&hold), ["hold 7 1 0 time / bulk-insert", "hold 7 1000 0 time / bulk-insert"]);
        let textbook = Options { baseline: Some(Baseline::Textbook), scopes: Some(3), ..Options::default() };
        assert_eq!(told(&textbook), ["command 50 3 1000 time / textbook", "command 50 3 100000 time / textbook"]);
        let long = Options { history: Some(5), snapshot: true, bench: Some(Bench::Settle), ..Options::default() };
        assert_eq!(told(&long), ["settle 50 1 5 time snapshot / history-10k"]);
        let random = Options { keys: Some(Keys::Random), bench: Some(Bench::Hold), ..Options::default() };
        assert_eq!(told(&random), ["hold 50 1 1000000 random / history-10k"]);
    }

    #[test]
    fn the_standard_set_has_every_kind() {
        let lines = Options::default().plan();
        let count = |baseline| lines.iter().filter(|line| line.baseline == baseline).count();
        assert_eq!((count(Baseline::BulkInsert), count(Baseline::Textbook), count(Baseline::History10k)), (18, 4, 9));
        assert_eq!(lines.iter().filter(|line| line.snapshot).count(), 3);
        assert_eq!(lines.iter().filter(|line| line.keys == Keys::Random).count(), 3);
    }

    #[test]
    fn what_cannot_be_measured_is_refused_by_name() {
        for (options, word) in [
            (Options { callers: Some(0), ..Options::default() }, "callers"),
            (Options { callers: Some(10_001), ..Options::default() }, "callers"),
            (Options { scopes: Some(0), ..Options::default() }, "scopes"),
            (Options { rounds: Some(0), ..Options::default() }, "rounds"),
            (Options { history: Some(HISTORY_MAX + 1), ..Options::default() }, "history"),
            (Options { seconds: Some(0.0), ..Options::default() }, "seconds"),
            (Options { seconds: Some(-1.0), ..Options::default() }, "seconds"),
            (Options { seconds: Some(f64::NAN), ..Options::default() }, "seconds"),
            (Options { snapshot: true, baseline: Some(Baseline::Textbook), ..Options::default() }, "snapshot"),
        ] {
            let refused = options.check().unwrap_err().to_string();
            assert!(refused.contains(word), "{refused}");
        }
        assert!(Options::default().check().is_ok());
        let unknown = "quick".parse::<Bench>().unwrap_err().to_string();
        assert!(unknown.contains("quick") && unknown.contains("command, hold, settle"), "{unknown}");
    }
}
