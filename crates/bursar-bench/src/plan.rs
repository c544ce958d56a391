//! The measurements of a run: one per line of the result table.

use std::str::FromStr;
use std::time::Duration;

use bursar::bounds::CAPACITY_MAX;
use serde::Serialize;

use crate::check::{CALLERS_HTTP_MAX, CALLERS_SERVED_MAX};
use crate::error::BenchError;

/// The operation that callers repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bench {
    /// A metered command: a hold that a job owns, a grant redeemed, the job, the journal.
    Command,
    /// A hold.
    Hold,
    /// A hold and then its commit, counted as one operation.
    Settle,
    /// A job without a hold or a grant.
    Enqueue,
    /// Many jobs in one call.
    EnqueueBulk,
    /// Empty jobs, leased and completed a thousand at a time.
    Drain,
    /// The time from enqueueing a job to the start of its handler, on an idle system.
    Latency,
    /// A request over HTTP to an application that meters its callers.
    Meter,
    /// A request over HTTP to an application that admits busy callers from memory.
    MeterSlices,
    /// Requests to the server over HTTP.
    Http,
    /// Empty jobs, run by a worker with a handler.
    DrainWorker,
    /// Uploads and downloads of blobs over HTTP.
    Blob,
}

/// A kind of request to the server over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// A command: a hold that a job owns, the job, the journal.
    Command,
    /// Leasing and completing a job, two requests counted as one operation.
    Lease,
    /// An upload of a large blob.
    Put,
    /// An upload of a small blob.
    PutSmall,
    /// A download of a small blob.
    GetSmall,
}

/// The baseline of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// No baseline.
    None,
    /// The engine's limit: the rows that Bursar wrote, written again with its fastest inserts in transactions of the same size.
    BulkInsert,
    /// The textbook design: lock, sum, insert, commit.
    Textbook,
    /// Bursar with ten thousand rows of history and no snapshot.
    History10k,
    /// Bursar without other jobs and without a snapshot.
    Empty,
    /// The same application without the meter.
    Unmetered,
    /// Bare axum routes that parse and answer as many bytes.
    Axum,
    /// Plain files: copied with their SHA-256 and synced, or served by nginx.
    Files,
    /// Bursar on a connection of its own as the owner of the tables, without what `--through` adds.
    Direct,
}

/// What is between Bursar and its tables on PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Through {
    /// PgBouncer in transaction mode.
    Pooler,
    /// Row-level security, with a role that owns nothing.
    Role,
}

/// The kind of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// Increasing with time, as Bursar creates them.
    Time,
    /// Random, to show what that would cost.
    Random,
}

/// The options of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The bench; by default the standard set.
    pub bench: Option<Bench>,
    /// The database URL; by default temporary databases on both engines.
    pub database: Option<String>,
    /// Concurrent callers.
    pub callers: Option<usize>,
    /// Scopes to charge, round-robin.
    pub scopes: Option<usize>,
    /// Jobs per round, for benches with a fixed number.
    pub jobs: Option<usize>,
    /// Processes of `latency`: with 2 the worker runs in a child process.
    pub processes: Option<usize>,
    /// Rows of history; in job benches, finished jobs that are kept.
    pub history: Option<u64>,
    /// Waiting jobs besides those of a round.
    pub backlog: Option<u64>,
    /// The kind of ids, also in the history.
    pub keys: Option<Keys>,
    /// Whether another connection holds a snapshot open.
    pub snapshot: bool,
    /// What is between Bursar and PostgreSQL.
    pub through: Option<Through>,
    /// The length of a round, in seconds.
    pub seconds: Option<f64>,
    /// Rounds per side.
    pub rounds: Option<usize>,
    /// The baseline.
    pub baseline: Option<Baseline>,
}

/// One line of the result table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Measurement {
    pub(crate) bench: Bench,
    /// The HTTP requests, for `http`.
    pub(crate) work: Option<Work>,
    pub(crate) callers: usize,
    pub(crate) scopes: usize,
    /// Jobs per round, for benches with a fixed number.
    pub(crate) jobs: Option<usize>,
    /// Whether the worker runs in a child process.
    pub(crate) child_process: bool,
    pub(crate) history: u64,
    pub(crate) backlog: u64,
    pub(crate) keys: Keys,
    pub(crate) snapshot: bool,
    pub(crate) through: Option<Through>,
    pub(crate) baseline: Baseline,
}

/// The length and the number of rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) time: Duration,
    pub(crate) rounds: usize,
}

const BENCHES: [Bench; 3] = [Bench::Command, Bench::Hold, Bench::Settle];
const BENCHES_OF_JOBS: [Bench; 5] =
    [Bench::Enqueue, Bench::EnqueueBulk, Bench::Drain, Bench::DrainWorker, Bench::Latency];
const CALLERS: [usize; 3] = [1, 50, 1_000];
/// Callers of `meter`: each has a connection, and this process has both ends.
const CALLERS_HTTP: [usize; 2] = [1, 50];
/// Callers of `http`: each has a connection to the server process.
const CALLERS_SERVED: [usize; 2] = [50, 500];
const WORKS: [Work; 2] = [Work::Command, Work::Lease];
const WORKS_ON_BLOBS: [Work; 3] = [Work::Put, Work::PutSmall, Work::GetSmall];
/// The size of a large and of a small blob.
const BLOB_LARGE: usize = 64 << 20;
const BLOB_SMALL: usize = 4 << 10;
/// Callers in measurements of other parameters.
const CALLERS_COMMON: usize = 50;
const SCOPES: [usize; 2] = [1, 1_000];
/// Rows that the textbook design has to sum.
const HISTORY_TEXTBOOK: [u64; 2] = [1_000, 100_000];
const HISTORY_LONG: u64 = 1_000_000;
/// The history of the baseline of a long history.
pub(crate) const HISTORY_SHORT: u64 = 10_000;
/// Jobs per round of the bulk and drain benches, and samples per round of `latency`.
const JOBS: usize = 100_000;
const SAMPLES: usize = 200;
/// Finished or waiting jobs in measurements of a long history or backlog.
const JOBS_LONG: u64 = 1_000_000;
/// Concurrent drain loops: enough that one leases while others complete.
const LOOPS: usize = 8;
/// Concurrent handlers of `drain-worker`: with as many jobs leased ahead, one call leases the maximum.
const HANDLERS: usize = 500;
const SECONDS: f64 = 2.0;
const ROUNDS: usize = 3;

impl Options {
    pub(crate) fn effort(&self) -> Effort {
        let time = Duration::from_secs_f64(self.seconds.unwrap_or(SECONDS));
        Effort { time, rounds: self.rounds.unwrap_or(ROUNDS) }
    }

    /// Returns the measurements for one engine.
    pub(crate) fn plan(&self) -> Vec<Measurement> {
        let Some(through) = self.through else { return self.plan_direct() };
        let compared = Options { baseline: self.baseline.or(Some(Baseline::Direct)), ..self.clone() };
        let lines = compared.plan_direct().into_iter();
        lines.map(|line| Measurement { through: Some(through), ..line }).collect()
    }

    fn plan_direct(&self) -> Vec<Measurement> {
        if let Some(bench) = self.bench.filter(|bench| bench.is_on_jobs()) {
            return self.lines_of_jobs(bench);
        }
        if let Some(bench @ (Bench::Meter | Bench::MeterSlices)) = self.bench {
            return self.metered(bench, &CALLERS_HTTP, &SCOPES);
        }
        if self.bench == Some(Bench::Http) {
            return self.served();
        }
        if self.bench == Some(Bench::Blob) {
            return self.on_blobs();
        }
        let with_history = self.history.is_some() || self.keys.is_some() || self.snapshot;
        match self.baseline {
            Some(Baseline::Textbook) => self.with_textbook(),
            Some(Baseline::History10k) => self.flatness(&[(self.keys.unwrap_or(Keys::Time), self.snapshot)]),
            Some(baseline) => self.lines(&self.benches(), &CALLERS, &SCOPES, &[0], baseline),
            None if with_history => self.flatness(&[(self.keys.unwrap_or(Keys::Time), self.snapshot)]),
            None if self.bench.is_some() => self.lines(&self.benches(), &CALLERS, &SCOPES, &[0], Baseline::BulkInsert),
            None => {
                let mut lines = self.lines(&BENCHES, &CALLERS, &SCOPES, &[0], Baseline::BulkInsert);
                lines.extend(self.with_textbook());
                lines.extend(self.flatness(&[(Keys::Time, false), (Keys::Random, false), (Keys::Time, true)]));
                lines.extend(BENCHES_OF_JOBS.iter().flat_map(|bench| self.lines_of_jobs(*bench)));
                for (history, backlog) in [(Some(JOBS_LONG), None), (None, Some(JOBS_LONG))] {
                    let long = Options { history, backlog, ..self.clone() };
                    lines.extend(long.lines_of_jobs(Bench::Drain));
                }
                for bench in [Bench::Meter, Bench::MeterSlices] {
                    lines.extend(self.metered(bench, &[CALLERS_COMMON], &SCOPES[1..]));
                }
                lines.extend(self.served());
                lines.extend(self.on_blobs());
                lines
            }
        }
    }

    fn metered(&self, bench: Bench, callers: &[usize], scopes: &[usize]) -> Vec<Measurement> {
        let few = Options { callers: self.callers.map(|callers| callers.min(CALLERS_HTTP_MAX)), ..self.clone() };
        few.lines(&[bench], callers, scopes, &[0], self.baseline.unwrap_or(Baseline::Unmetered))
    }

    fn served(&self) -> Vec<Measurement> {
        let few = Options { callers: self.callers.map(|callers| callers.min(CALLERS_SERVED_MAX)), ..self.clone() };
        let baseline = self.baseline.unwrap_or(Baseline::Axum);
        let lines = few.lines(&[Bench::Http], &CALLERS_SERVED, &SCOPES[1..], &[0], baseline);
        let of = |work: Work| {
            lines.clone().into_iter().map(move |line| {
                // A job without a hold charges no scope.
                let scopes = if work == Work::Command { line.scopes } else { 0 };
                Measurement { work: Some(work), scopes, ..line }
            })
        };
        WORKS.into_iter().flat_map(of).collect()
    }

    fn on_blobs(&self) -> Vec<Measurement> {
        let baseline = self.baseline.unwrap_or(Baseline::Files);
        let line = |work: Work| {
            let usual = if work == Work::Put { 1 } else { CALLERS_COMMON };
            let few = Options { callers: self.callers.map(|callers| callers.min(CALLERS_SERVED_MAX)), ..self.clone() };
            let lines = Options { scopes: Some(0), ..few }.lines(&[Bench::Blob], &[usual], &[0], &[0], baseline);
            lines.into_iter().map(move |line| Measurement { work: Some(work), ..line })
        };
        WORKS_ON_BLOBS.into_iter().flat_map(line).collect()
    }

    fn benches(&self) -> Vec<Bench> {
        self.bench.map_or(BENCHES.to_vec(), |bench| vec![bench])
    }

    fn with_textbook(&self) -> Vec<Measurement> {
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
            // `latency` runs one job at a time, whatever the options of the standard set are.
            callers: match (bench, self.callers) {
                (Bench::Latency, _) | (_, None) => *callers,
                (Bench::DrainWorker, Some(handlers)) => handlers.min(CAPACITY_MAX as usize),
                (_, Some(callers)) => callers,
            },
            scopes: 0,
            jobs: jobs.map(|usual| self.jobs.unwrap_or(usual)),
            child_process: self.processes == Some(2),
            history,
            backlog,
            keys: self.keys.unwrap_or(Keys::Time),
            snapshot: self.snapshot,
            through: None,
            baseline: self.baseline.unwrap_or(if loaded { Baseline::Empty } else { alone }),
        };
        let mut lines: Vec<Measurement> = callers.iter().map(line).collect();
        lines.dedup();
        lines
    }

    /// Returns every combination of the values; options override the defaults.
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
                        let (work, jobs, child_process, backlog) = (None, None, false, 0);
                        Measurement {
                            bench,
                            work,
                            callers,
                            scopes,
                            jobs,
                            child_process,
                            history,
                            backlog,
                            keys,
                            snapshot,
                            through: None,
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
    /// Returns whether it measures only jobs.
    pub(crate) fn is_on_jobs(self) -> bool {
        BENCHES_OF_JOBS.contains(&self)
    }
}

impl Work {
    /// Returns the size of the blobs that it moves.
    pub(crate) fn blob_bytes(self) -> Option<usize> {
        match self {
            Work::Command | Work::Lease => None,
            Work::Put => Some(BLOB_LARGE),
            Work::PutSmall | Work::GetSmall => Some(BLOB_SMALL),
        }
    }
}

/// Implements parsing from names.
macro_rules! names {
    ($kind:ident, $what:literal, $($name:literal => $value:ident),*) => {
        impl $kind {
            /// Returns its name.
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
                        concat!("unknown ", $what, " {:?}; use one of {}"), text, [$($name),*].join(", ")
                    ))),
                }
            }
        }
    };
}

names!(
    Bench, "benchmark",
    "command" => Command, "hold" => Hold, "settle" => Settle, "enqueue" => Enqueue, "enqueue-bulk" => EnqueueBulk,
    "drain" => Drain, "latency" => Latency, "meter" => Meter, "meter-slices" => MeterSlices, "http" => Http,
    "drain-worker" => DrainWorker, "blob" => Blob
);
names!(
    Baseline, "baseline",
    "none" => None, "bulk-insert" => BulkInsert, "textbook" => Textbook, "history-10k" => History10k, "empty" => Empty,
    "unmetered" => Unmetered, "axum" => Axum, "files" => Files, "direct" => Direct
);
names!(Through, "kind of connection", "pooler" => Pooler, "role" => Role);
names!(
    Work, "work",
    "command" => Command, "lease" => Lease, "put" => Put, "put-small" => PutSmall, "get-small" => GetSmall
);
names!(Keys, "kind of keys", "time" => Time, "random" => Random);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::HISTORY_MAX;

    fn described(options: &Options) -> Vec<String> {
        let describe = |line: &Measurement| {
            let Measurement {
                bench,
                work,
                callers,
                scopes,
                jobs,
                child_process,
                history,
                backlog,
                keys,
                snapshot,
                through,
                baseline,
            } = line;
            assert!(!child_process && through.is_none());
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
        options.plan().iter().map(describe).collect()
    }

    #[test]
    fn options_override_the_defaults() {
        let hold = Options { bench: Some(Bench::Hold), callers: Some(7), ..Options::default() };
        assert_eq!(described(&hold), ["hold 7 1 0 time / bulk-insert", "hold 7 1000 0 time / bulk-insert"]);
        let textbook = Options { baseline: Some(Baseline::Textbook), scopes: Some(3), ..Options::default() };
        assert_eq!(described(&textbook), ["command 50 3 1000 time / textbook", "command 50 3 100000 time / textbook"]);
        let long = Options { history: Some(5), snapshot: true, bench: Some(Bench::Settle), ..Options::default() };
        assert_eq!(described(&long), ["settle 50 1 5 time snapshot / history-10k"]);
        let random = Options { keys: Some(Keys::Random), bench: Some(Bench::Hold), ..Options::default() };
        assert_eq!(described(&random), ["hold 50 1 1000000 random / history-10k"]);
        let meter = Options { bench: Some(Bench::Meter), callers: Some(7), ..Options::default() };
        assert_eq!(described(&meter), ["meter 7 1 0 time / unmetered", "meter 7 1000 0 time / unmetered"]);
        let http = Options { bench: Some(Bench::Http), ..Options::default() };
        let lines = ["command 50 1000", "command 500 1000", "lease 50 0", "lease 500 0"];
        assert_eq!(described(&http), lines.map(|line| format!("http {line} / axum")));
        let blob = Options { bench: Some(Bench::Blob), ..Options::default() };
        let lines = ["put 1 0", "put-small 50 0", "get-small 50 0"];
        assert_eq!(described(&blob), lines.map(|line| format!("blob {line} / files")));
    }

    #[test]
    fn job_benches_have_their_own_lines() {
        let of = |bench| Options { bench: Some(bench), ..Options::default() };
        let enqueue = Options { callers: Some(50), ..of(Bench::Enqueue) };
        assert_eq!(described(&enqueue), ["enqueue 50 0 0 time / bulk-insert"]);
        assert_eq!(described(&of(Bench::EnqueueBulk)), ["enqueue-bulk 1 of 100000, 0 + 0 / bulk-insert"]);
        assert_eq!(described(&of(Bench::Drain)), ["drain 8 of 100000, 0 + 0 / none"]);
        assert_eq!(described(&of(Bench::DrainWorker)), ["drain-worker 500 of 100000, 0 + 0 / none"]);
        assert_eq!(described(&of(Bench::Latency)), ["latency 1 of 200, 0 + 0 / none"]);
        let loaded = Options { history: Some(7), backlog: Some(5), jobs: Some(3), ..of(Bench::Drain) };
        assert_eq!(described(&loaded), ["drain 8 of 3, 7 + 5 / empty"]);
        let alone = Options { baseline: Some(Baseline::None), ..loaded };
        assert_eq!(described(&alone), ["drain 8 of 3, 7 + 5 / none"]);
    }

    #[test]
    fn a_connection_is_compared_with_a_direct_one() {
        let of = |bench| Options { bench: Some(bench), through: Some(Through::Role), ..Options::default() };
        for options in [of(Bench::Command), of(Bench::Drain), Options { history: Some(5), ..of(Bench::Hold) }] {
            let lines = options.plan();
            let compared = |line: &Measurement| (line.through, line.baseline);
            assert!(lines.iter().all(|line| compared(line) == (Some(Through::Role), Baseline::Direct)), "{lines:?}");
        }
        let alone = Options { baseline: Some(Baseline::None), ..of(Bench::Hold) };
        assert!(alone.plan().iter().all(|line| line.baseline == Baseline::None));
    }

    #[test]
    fn the_standard_set_has_every_baseline() {
        let lines = Options::default().plan();
        let count = |baseline| lines.iter().filter(|line| line.baseline == baseline).count();
        // The budget benches, and four that enqueue.
        assert_eq!(count(Baseline::BulkInsert), 18 + 4);
        assert_eq!((count(Baseline::Textbook), count(Baseline::History10k)), (4, 9));
        // A million finished and a million waiting jobs; drain, drain-worker and latency without a baseline.
        assert_eq!((count(Baseline::Empty), count(Baseline::None)), (2, 3));
        assert_eq!((count(Baseline::Unmetered), count(Baseline::Axum), count(Baseline::Files)), (2, 4, 3));
        assert_eq!(lines.iter().filter(|line| line.snapshot).count(), 3);
        let text = format!("# the standard set: {} lines an engine\n", lines.len());
        let guide = include_str!("../../../docs/performance.md");
        assert!(guide.contains(&text), "docs/performance.md lacks: {text}");
        let few = Options { callers: Some(7), ..Options::default() };
        let callers = |bench| few.plan().iter().filter(|line| line.bench == bench).map(|line| line.callers).max();
        assert_eq!((callers(Bench::Enqueue), callers(Bench::Latency)), (Some(7), Some(1)));
        assert_eq!(lines.iter().filter(|line| line.keys == Keys::Random).count(), 3);
    }

    #[test]
    fn invalid_options_are_refused_by_name() {
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
            (Options { callers: Some(901), bench: Some(Bench::Blob), ..Options::default() }, "callers"),
            (Options { baseline: Some(Baseline::Axum), bench: Some(Bench::Blob), ..Options::default() }, "axum"),
            (Options { baseline: Some(Baseline::Files), ..Options::default() }, "files"),
            (Options { callers: Some(1_001), bench: Some(Bench::DrainWorker), ..Options::default() }, "callers"),
            (Options { backlog: Some(HISTORY_MAX + 1), ..Options::default() }, "backlog"),
            (Options { jobs: Some(0), ..Options::default() }, "jobs"),
            (Options { processes: Some(3), bench: Some(Bench::Latency), ..Options::default() }, "processes"),
            (
                Options { baseline: Some(Baseline::BulkInsert), bench: Some(Bench::Drain), ..Options::default() },
                "bulk-insert",
            ),
            (Options { baseline: Some(Baseline::Empty), bench: Some(Bench::Hold), ..Options::default() }, "empty"),
            (Options { through: Some(Through::Role), ..Options::default() }, "name one"),
            (Options { through: Some(Through::Role), bench: Some(Bench::Latency), ..Options::default() }, "latency"),
            (Options { through: Some(Through::Pooler), bench: Some(Bench::Meter), ..Options::default() }, "meter"),
            (
                Options {
                    through: Some(Through::Pooler),
                    bench: Some(Bench::Hold),
                    database: Some("postgres://h".into()),
                    ..Options::default()
                },
                "temporary PostgreSQL",
            ),
            (Options { baseline: Some(Baseline::Direct), bench: Some(Bench::Hold), ..Options::default() }, "--through"),
            (
                Options {
                    through: Some(Through::Role),
                    bench: Some(Bench::Hold),
                    baseline: Some(Baseline::Textbook),
                    ..Options::default()
                },
                "textbook",
            ),
        ] {
            let refused = options.check().unwrap_err().to_string();
            assert!(refused.contains(word), "{refused}");
        }
        assert!(Options::default().check().is_ok());
        let unknown = "quick".parse::<Bench>().unwrap_err().to_string();
        assert!(unknown.contains("quick") && unknown.contains("command, hold, settle"), "{unknown}");
    }
}
