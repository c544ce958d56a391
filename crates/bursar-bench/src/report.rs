//! A line of the result table, as JSON and as text.

use serde::Serialize;

use crate::engine::Engine;
use crate::load::Round;
use crate::plan::{Baseline, Bench, Keys, Measurement, Through, Work};

/// One measurement: the medians of its rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The bench.
    pub bench: Bench,
    /// The HTTP requests, for `http`.
    pub work: Option<Work>,
    /// The size of each blob, for `blob`.
    pub blob_bytes: Option<usize>,
    /// The engine.
    pub engine: Engine,
    /// Concurrent callers.
    pub callers: usize,
    /// Scopes, used round-robin.
    pub scopes: usize,
    /// Jobs per round, for benches with a fixed number.
    pub jobs: Option<usize>,
    /// Processes: two if the worker runs in a child process.
    pub processes: usize,
    /// Rows of history; in job benches, finished jobs that are kept.
    pub history_rows: u64,
    /// Waiting jobs besides those of a round.
    pub backlog: u64,
    /// Operations per second.
    pub per_second: f64,
    /// The median time of an operation, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile of the time of an operation, in milliseconds.
    pub p99_ms: f64,
    /// The baseline.
    pub baseline: Option<&'static str>,
    /// Operations per second of the baseline.
    pub baseline_per_second: Option<f64>,
    /// The speed divided by the baseline's.
    pub ratio: Option<f64>,
    /// The median time of one fsync on the same disk before each round, in milliseconds.
    pub fsync_ms: f64,
    /// The peak memory of this process during the rounds, or of the server for `http`, in MB.
    pub rss_mb: f64,
    /// The memory of the server before the first request, in MB.
    pub rss_idle_mb: Option<f64>,
    /// The kind of ids.
    pub keys: Keys,
    /// Whether another connection held a snapshot open.
    pub snapshot_held: bool,
    /// What was between Bursar and PostgreSQL.
    pub through: Option<Through>,
    /// Rounds per side.
    pub rounds: usize,
    /// The slowest and the fastest round, in operations per second.
    pub spread: [f64; 2],
    /// The slowest and the fastest round of the baseline.
    pub baseline_spread: Option<[f64; 2]>,
    /// The rows of history of the textbook design after its last round, including those it wrote itself.
    pub baseline_history_rows: Option<u64>,
}

/// The measured rounds of a line.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) rounds: Vec<Round>,
    /// Empty without a baseline.
    pub(crate) baseline: Vec<Round>,
    /// Operations of the baseline that failed because the database was busy.
    pub(crate) baseline_busy: usize,
    /// One sample before each round, because the speed of a shared disk varies.
    pub(crate) fsyncs_ms: Vec<f64>,
    pub(crate) rss_mb: f64,
    /// Set if a server was measured.
    pub(crate) idle_mb: Option<f64>,
}

impl Line {
    pub(crate) fn new(engine: Engine, line: &Measurement, measured: &Measured) -> Line {
        let per_second = median(&measured.rounds, Round::per_second);
        let compared = line.baseline != Baseline::None;
        let baseline_per_second = compared.then(|| median(&measured.baseline, Round::per_second));
        Line {
            bench: line.bench,
            work: line.work,
            blob_bytes: line.work.and_then(Work::blob_bytes),
            engine,
            callers: line.callers,
            scopes: line.scopes,
            jobs: line.jobs,
            processes: 1 + usize::from(line.child_process),
            history_rows: line.history,
            backlog: line.backlog,
            per_second: rounded(per_second, 1),
            p50_ms: rounded(median(&measured.rounds, |round| round.p50_ms), 4),
            p99_ms: rounded(median(&measured.rounds, |round| round.p99_ms), 4),
            baseline: compared.then(|| line.baseline.as_str()),
            baseline_per_second: baseline_per_second.map(|speed| rounded(speed, 1)),
            ratio: baseline_per_second.map(|speed| rounded(per_second / speed, 4)),
            fsync_ms: rounded(middle(measured.fsyncs_ms.clone()), 4),
            rss_mb: rounded(measured.rss_mb, 1),
            rss_idle_mb: measured.idle_mb.map(|memory| rounded(memory, 1)),
            keys: line.keys,
            snapshot_held: line.snapshot,
            through: line.through,
            rounds: measured.rounds.len(),
            spread: spread(&measured.rounds),
            baseline_spread: compared.then(|| spread(&measured.baseline)),
            baseline_history_rows: (line.baseline == Baseline::Textbook)
                .then(|| line.history + measured.baseline.iter().map(|round| round.done as u64).sum::<u64>()),
        }
    }

    /// Returns the header of the text table.
    pub fn head() -> String {
        columns(&COLUMNS.map(|(name, ..)| name.to_owned()))
    }

    /// Returns the row of the text table.
    pub fn row(&self) -> String {
        let range = |spread: [f64; 2]| format!("{}–{}", speed(spread[0]), speed(spread[1]));
        columns(&[
            match (self.engine, self.through) {
                (Engine::Sqlite, _) => "sqlite",
                (Engine::Postgres, None) => "postgres",
                (Engine::Postgres, Some(Through::Pooler)) => "pgbouncer",
                (Engine::Postgres, Some(Through::Role)) => "pg role",
            }
            .to_owned(),
            match self.work {
                Some(work) => format!("{} {}", self.bench.as_str(), work.as_str()),
                None => format!("{}{}", self.bench.as_str(), if self.processes > 1 { " (2)" } else { "" }),
            },
            self.callers.to_string(),
            self.scopes.to_string(),
            self.history_rows.to_string(),
            self.backlog.to_string(),
            format!("{}{}", self.keys.as_str(), if self.snapshot_held { "+snap" } else { "" }),
            speed(self.per_second),
            range(self.spread),
            format!("{:.2}", self.p50_ms),
            format!("{:.2}", self.p99_ms),
            if self.fsync_ms > 0.0 { format!("{:.3}", self.fsync_ms) } else { "-".to_owned() },
            if self.fsync_ms > 0.0 { format!("{:.1}", self.p99_ms / self.fsync_ms) } else { "-".to_owned() },
            self.baseline.unwrap_or("-").to_owned(),
            self.baseline_per_second.map_or_else(|| "-".to_owned(), speed),
            self.baseline_spread.map_or_else(|| "-".to_owned(), range),
            self.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            format!("{:.0}", self.rss_mb),
        ])
    }
}

/// Column names, widths, and whether the column is left-aligned text. Rows are printed one by one, so the widths are fixed.
const COLUMNS: [(&str, usize, bool); 18] = [
    ("engine", 9, true),
    ("bench", 14, true),
    ("callers", 7, false),
    ("scopes", 6, false),
    ("history", 9, false),
    ("backlog", 9, false),
    ("keys", 9, true),
    ("per second", 10, false),
    ("least–most", 15, false),
    ("p50 ms", 8, false),
    ("p99 ms", 8, false),
    ("fsync ms", 8, false),
    ("p99/fsync", 9, false),
    ("baseline", 11, true),
    ("per second", 10, false),
    ("least–most", 15, false),
    ("ratio", 6, false),
    ("RSS MB", 6, false),
];

fn columns(cells: &[String; COLUMNS.len()]) -> String {
    let aligned = cells.iter().zip(COLUMNS).map(|(cell, (_, width, words))| match words {
        true => format!("{cell:<width$}"),
        false => format!("{cell:>width$}"),
    });
    aligned.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// Returns a speed with a decimal only where it matters.
fn speed(per_second: f64) -> String {
    if per_second < 100.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}

fn median(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> f64 {
    middle(rounds.iter().map(figure).collect())
}

fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => 0.0,
        even if even % 2 == 0 => (figures[middle - 1] + figures[middle]) / 2.0,
        _ => figures[middle],
    }
}

fn spread(rounds: &[Round]) -> [f64; 2] {
    let speeds = rounds.iter().map(Round::per_second);
    [rounded(speeds.clone().fold(f64::MAX, f64::min), 1), rounded(speeds.fold(0.0, f64::max), 1)]
}

fn rounded(number: f64, digits: i32) -> f64 {
    let unit = 10_f64.powi(digits);
    (number * unit).round() / unit
}
