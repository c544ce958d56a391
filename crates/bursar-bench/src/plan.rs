//! What is measured: one measurement a line.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use bursar::bounds::CAPACITY_MAX;
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
    /// A job alone: no hold, no grant.
    Enqueue,
    /// Many jobs in one call.
    EnqueueBulk,
    /// Jobs that do nothing, leased and completed a thousand at a time.
    Drain,
    /// A job on an idle system, from before it is enqueued to the start of its handler.
    Latency,
    /// A request over HTTP to an application that meters its callers.
    Meter,
    /// What is asked of the server over HTTP.
    Http,
    /// Jobs that do nothing, done by a worker with a handler.
    DrainWorker,
}

/// What is asked of the server over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// A command: a hold that a job owns, the job, the journal.
    Command,
    /// A job is leased and completed, by two requests: the pair is one operation.
    Lease,
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
    /// Bursar itself with no job kept or waiting but those of its own rounds, and no snapshot held.
    Empty,
    /// The same application without the meter.
    Unmetered,
    /// A bare route that reads as much and answers as much.
    Axum,
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
    /// Jobs of a round, where that is not a matter of time.
    pub jobs: Option<usize>,
    /// Processes that the latency is measured over: 2 give the worker one of its own.
    pub processes: Option<usize>,
    /// Rows of history; in benches of jobs finished jobs that are kept.
    pub history: Option<u64>,
    /// Jobs that wait behind those of a round.
    pub backlog: Option<u64>,
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
    /// What is asked over HTTP.
    pub(crate) work: Option<Work>,
    pub(crate) callers: usize,
    pub(crate) scopes: usize,
    /// Jobs of a round, where that is not a matter of time.
    pub(crate) jobs: Option<usize>,
    /// Whether the worker has a process of its own.
    pub(crate) apart: bool,
    pub(crate) history: u64,
    pub(crate) backlog: u64,
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
const BENCHES_OF_JOBS: [Bench; 5] =
    [Bench::Enqueue, Bench::EnqueueBulk, Bench::Drain, Bench::DrainWorker, Bench::Latency];
const CALLERS: [usize; 3] = [1, 50, 1_000];
/// Each of them has a connection, of which this process has both ends.
const CALLERS_HTTP: [usize; 2] = [1, 50];
/// Each of them has a connection to a process of its own.
const CALLERS_SERVED: [usize; 2] = [50, 500];
const WORKS: [Work; 2] = [Work::Command, Work::Lease];
/// Where the number of callers is not what it is about.
const CALLERS_COMMON: usize = 50;
const SCOPES: [usize; 2] = [1, 1_000];
/// What the textbook design has to add up.
const HISTORY_TEXTBOOK: [u64; 2] = [1_000, 100_000];
const HISTORY_LONG: u64 = 1_000_000;
/// What a long history is compared with.
pub(crate) const HISTORY_SHORT: u64 = 10_000;
/// Jobs that are enqueued in bulk or drained in a round, and those of which the latency is measured.
const JOBS: usize = 100_000;
const SAMPLES: usize = 200;
/// Jobs that are kept, or wait, where that is measured.
const JOBS_LONG: u64 = 1_000_000;
/// Loops that drain at once: enough that one leases while others complete.
const LOOPS: usize = 8;
/// Handlers of a worker that drains: with as many jobs leased ahead, one call leases as many as it may.
const HANDLERS: usize = 500;
const SECONDS: f64 = 2.0;
const ROUNDS: usize = 3;

const CALLERS_MAX: usize = 10_000;
/// A process may have no more than a thousand files open, as a rule.
const CALLERS_HTTP_MAX: usize = 400;
const CALLERS_SERVED_MAX: usize = 900;
const SCOPES_MAX: usize = 100_000;
const HISTORY_MAX: u64 = 100_000_000;
const JOBS_MAX: usize = 10_000_000;
const SECONDS_MAX: f64 = 600.0;
const ROUNDS_MAX: usize = 100;

impl Options {
    /// Refuses what cannot be measured.
    pub fn check(&self) -> Result<(), BenchError> {
        within("callers", self.callers, 1, CALLERS_MAX)?;
        within("scopes", self.scopes, 1, SCOPES_MAX)?;
        within("rounds", self.rounds, 1, ROUNDS_MAX)?;
        within("history", self.history, 0, HISTORY_MAX)?;
        within("backlog", self.backlog, 0, HISTORY_MAX)?;
        within("jobs", self.jobs, 1, JOBS_MAX)?;
        within("processes", self.processes, 1, 2)?;
        if self.bench == Some(Bench::DrainWorker) {
            within("callers", self.callers, 1, CAPACITY_MAX as usize)?;
        }
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
        self.check_baseline()
    }

    /// Refuses a baseline that the bench is not compared with. Other options that it has no use for are left out ([`Options::fit`]).
    fn check_baseline(&self) -> Result<(), BenchError> {
        let wrong = |detail: &str| Err(BenchError::Usage(detail.to_owned()));
        let of_jobs = self.bench.filter(|bench| bench.is_of_jobs());
        match self.bench {
            Some(Bench::Meter) => return self.check_http("meter", CALLERS_HTTP_MAX, Baseline::Unmetered),
            Some(Bench::Http) => return self.check_http("http", CALLERS_SERVED_MAX, Baseline::Axum),
            _ => {}
        }
        match (of_jobs, self.baseline) {
            (_, Some(Baseline::Unmetered)) => wrong("the baseline unmetered is for meter"),
            (_, Some(Baseline::Axum)) => wrong("the baseline axum is for http"),
            (Some(Bench::Enqueue | Bench::EnqueueBulk), Some(Baseline::BulkInsert))
            | (Some(_), None | Some(Baseline::None | Baseline::Empty)) => Ok(()),
            (Some(bench), Some(baseline)) => {
                let (bench, baseline) = (bench.as_str(), baseline.as_str());
                wrong(&format!("{bench} is not compared with {baseline}: there are empty and none"))
            }
            (None, Some(Baseline::Empty)) => {
                wrong("the baseline empty is for enqueue, enqueue-bulk, drain, drain-worker and latency")
            }
            (None, _) => Ok(()),
        }
    }

    fn check_http(&self, name: &str, callers_max: usize, usual: Baseline) -> Result<(), BenchError> {
        within("callers", self.callers, 1, callers_max)?;
        match self.baseline {
            Some(other) if other != Baseline::None && other != usual => {
                let (other, usual) = (other.as_str(), usual.as_str());
                Err(BenchError::Usage(format!("{name} is not compared with {other}: there are {usual} and none")))
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
        if let Some(bench) = self.bench.filter(|bench| bench.is_of_jobs()) {
            return self.lines_of_jobs(bench);
        }
        if self.bench == Some(Bench::Meter) {
            return self.metered(&CALLERS_HTTP, &SCOPES);
        }
        if self.bench == Some(Bench::Http) {
            return self.served();
        }
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
                lines.extend(BENCHES_OF_JOBS.iter().flat_map(|bench| self.lines_of_jobs(*bench)));
                for (history, backlog) in [(Some(JOBS_LONG), None), (None, Some(JOBS_LONG))] {
                    let long = Options { history, backlog, ..self.clone() };
                    lines.extend(long.lines_of_jobs(Bench::Drain));
                }
                lines.extend(self.metered(&[CALLERS_COMMON], &SCOPES[1..]));
                lines.extend(self.served());
                lines
            }
        }
    }

    fn metered(&self, callers: &[usize], scopes: &[usize]) -> Vec<Measurement> {
        let few = Options { callers: self.callers.map(|callers| callers.min(CALLERS_HTTP_MAX)), ..self.clone() };
        few.lines(&[Bench::Meter], callers, scopes, &[0], self.baseline.unwrap_or(Baseline::Unmetered))
    }

    fn served(&self) -> Vec<Measurement> {
        let few = Options { callers: self.callers.map(|callers| callers.min(CALLERS_SERVED_MAX)), ..self.clone() };
        let baseline = self.baseline.unwrap_or(Baseline::Axum);
        let lines = few.lines(&[Bench::Http], &CALLERS_SERVED, &SCOPES[1..], &[0], baseline);
        let of = |work: Work| {
            lines.clone().into_iter().map(move |line| {
                // A job alone charges nothing.
                let scopes = if work == Work::Command { line.scopes } else { 0 };
                Measurement { work: Some(work), scopes, ..line }
            })
        };
        WORKS.into_iter().flat_map(of).collect()
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

    fn lines_of_jobs(&self, bench: Bench) -> Vec<Measurement> {
        let (history, backlog) = (self.history.unwrap_or(0), self.backlog.unwrap_or(0));
        let loaded = history > 0 || backlog > 0 || self.keys.is_some() || self.snapshot;
        let (callers, jobs, alone) = match bench {
            Bench::Enqueue => (&CALLERS[..], None, Baseline::BulkInsert),
            Bench::EnqueueBulk => (&[1][..], Some(JOBS), Baseline::BulkInsert),
            Bench::Latency => (&[1][..], Some(SAMPLES), Baseline::None),
            Bench::DrainWorker => (&[HANDLERS][..], Some(JOBS), Baseline::None),
            _ => (&[LOOPS][..], Some(JOBS), Baseline::None),
        };
        let line = |callers: &usize| Measurement {
            bench,
            work: None,
            // The latency is that of one job at a time, whatever the standard set is asked for.
            callers: match (bench, self.callers) {
                (Bench::Latency, _) | (_, None) => *callers,
                (Bench::DrainWorker, Some(handlers)) => handlers.min(CAPACITY_MAX as usize),
                (_, Some(asked)) => asked,
            },
            scopes: 0,
            jobs: jobs.map(|usual| self.jobs.unwrap_or(usual)),
            apart: self.processes == Some(2),
            history,
            backlog,
            keys: self.keys.unwrap_or(Keys::Time),
            snapshot: self.snapshot,
            baseline: self.baseline.unwrap_or(if loaded { Baseline::Empty } else { alone }),
        };
        let mut lines: Vec<Measurement> = callers.iter().map(line).collect();
        lines.dedup();
        lines
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
                    let line = |&history| {
                        let (work, jobs, apart, backlog) = (None, None, false, 0);
                        Measurement {
                            bench,
                            work,
                            callers,
                            scopes,
                            jobs,
                            apart,
                            history,
                            backlog,
                            keys,
                            snapshot,
                            baseline,
                        }
                    };
                    lines.extend(history.iter().map(line));
                }
            }
        }
        lines
    }
}

impl Bench {
    /// Whether it is of jobs alone.
    pub(crate) fn is_of_jobs(self) -> bool {
        BENCHES_OF_JOBS.contains(&self)
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

names!(
    Bench, "bench",
    "command" => Command, "hold" => Hold, "settle" => Settle, "enqueue" => Enqueue, "enqueue-bulk" => EnqueueBulk,
    "drain" => Drain, "latency" => Latency, "meter" => Meter, "http" => Http, "drain-worker" => DrainWorker
);
names!(
    Baseline, "baseline",
    "none" => None, "bulk-insert" => BulkInsert, "textbook" => Textbook, "history-10k" => History10k, "empty" => Empty,
    "unmetered" => Unmetered, "axum" => Axum
);
names!(Work, "work", "command" => Command, "lease" => Lease);
names!(Keys, "kind of keys", "time" => Time, "random" => Random);

#[cfg(test)]
mod tests {
    use super::*;

    fn told(options: &Options) -> Vec<String> {
        let told = |line: &Measurement| {
            let Measurement { bench, work, callers, scopes, jobs, apart, history, backlog, keys, snapshot, baseline } =
                line;
            assert!(!apart);
            if let Some(work) = work {
                return format!("{} {} {callers} {scopes} / {}", bench.as_str(), work.as_str(), baseline.as_str());
            }
            if let Some(jobs) = jobs {
                return format!(
                    "{} {callers} of {jobs}, {history} + {backlog} / {}",
                    bench.as_str(),
                    baseline.as_str()
                );
            }
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
        let meter = Options { bench: Some(Bench::Meter), callers: Some(7), ..Options::default() };
        assert_eq!(told(&meter), ["meter 7 1 0 time / unmetered", "meter 7 1000 0 time / unmetered"]);
        let http = Options { bench: Some(Bench::Http), ..Options::default() };
        let lines = ["command 50 1000", "command 500 1000", "lease 50 0", "lease 500 0"];
        assert_eq!(told(&http), lines.map(|line| format!("http {line} / axum")));
    }

    #[test]
    fn benches_of_jobs_have_lines_of_their_own() {
        let of = |bench| Options { bench: Some(bench), ..Options::default() };
        let enqueue = Options { callers: Some(50), ..of(Bench::Enqueue) };
        assert_eq!(told(&enqueue), ["enqueue 50 0 0 time / bulk-insert"]);
        assert_eq!(told(&of(Bench::EnqueueBulk)), ["enqueue-bulk 1 of 100000, 0 + 0 / bulk-insert"]);
        assert_eq!(told(&of(Bench::Drain)), ["drain 8 of 100000, 0 + 0 / none"]);
        assert_eq!(told(&of(Bench::DrainWorker)), ["drain-worker 500 of 100000, 0 + 0 / none"]);
        assert_eq!(told(&of(Bench::Latency)), ["latency 1 of 200, 0 + 0 / none"]);
        let loaded = Options { history: Some(7), backlog: Some(5), jobs: Some(3), ..of(Bench::Drain) };
        assert_eq!(told(&loaded), ["drain 8 of 3, 7 + 5 / empty"]);
        let alone = Options { baseline: Some(Baseline::None), ..loaded };
        assert_eq!(told(&alone), ["drain 8 of 3, 7 + 5 / none"]);
    }

    #[test]
    fn the_standard_set_has_every_kind() {
        let lines = Options::default().plan();
        let count = |baseline| lines.iter().filter(|line| line.baseline == baseline).count();
        // Those of the kernel, and four that enqueue.
        assert_eq!(count(Baseline::BulkInsert), 18 + 4);
        assert_eq!((count(Baseline::Textbook), count(Baseline::History10k)), (4, 9));
        // A million kept, a million waiting; drain by loops, by a worker, and latency alone.
        assert_eq!((count(Baseline::Empty), count(Baseline::None)), (2, 3));
        assert_eq!((count(Baseline::Unmetered), count(Baseline::Axum)), (1, 4));
        assert_eq!(lines.iter().filter(|line| line.snapshot).count(), 3);
        let told = format!("# the standard set: {} lines an engine\n", lines.len());
        let guide = include_str!("../../../docs/performance.md");
        assert!(guide.contains(&told), "docs/performance.md does not say: {told}");
        let few = Options { callers: Some(7), ..Options::default() };
        let callers = |bench| few.plan().iter().filter(|line| line.bench == bench).map(|line| line.callers).max();
        assert_eq!((callers(Bench::Enqueue), callers(Bench::Latency)), (Some(7), Some(1)));
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
            (Options { callers: Some(401), bench: Some(Bench::Meter), ..Options::default() }, "callers"),
            (Options { baseline: Some(Baseline::Empty), bench: Some(Bench::Meter), ..Options::default() }, "empty"),
            (Options { baseline: Some(Baseline::Unmetered), ..Options::default() }, "unmetered"),
            (Options { baseline: Some(Baseline::Axum), ..Options::default() }, "axum"),
            (Options { baseline: Some(Baseline::Empty), bench: Some(Bench::Http), ..Options::default() }, "empty"),
            (Options { callers: Some(901), bench: Some(Bench::Http), ..Options::default() }, "callers"),
            (Options { callers: Some(1_001), bench: Some(Bench::DrainWorker), ..Options::default() }, "callers"),
            (Options { backlog: Some(HISTORY_MAX + 1), ..Options::default() }, "backlog"),
            (Options { jobs: Some(0), ..Options::default() }, "jobs"),
            (Options { processes: Some(3), bench: Some(Bench::Latency), ..Options::default() }, "processes"),
            (
                Options { baseline: Some(Baseline::BulkInsert), bench: Some(Bench::Drain), ..Options::default() },
                "bulk-insert",
            ),
            (Options { baseline: Some(Baseline::Empty), bench: Some(Bench::Hold), ..Options::default() }, "empty"),
        ] {
            let refused = options.check().unwrap_err().to_string();
            assert!(refused.contains(word), "{refused}");
        }
        assert!(Options::default().check().is_ok());
        let unknown = "quick".parse::<Bench>().unwrap_err().to_string();
        assert!(unknown.contains("quick") && unknown.contains("command, hold, settle"), "{unknown}");
    }
}
