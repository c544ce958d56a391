//! A line of the table, for programs and for people.

use serde::Serialize;

use crate::engine::Engine;
use crate::load::Round;
use crate::plan::{Bench, Measurement};

/// One measurement. The median of the rounds stands for all of them.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// What was done.
    pub bench: Bench,
    /// On which engine.
    pub engine: Engine,
    /// By how many callers at once.
    pub callers: usize,
    /// On how many scopes in turn.
    pub scopes: usize,
    /// With how much history in the tables.
    pub history_rows: u64,
    /// Operations a second.
    pub per_second: f64,
    /// The median time of an operation.
    pub p50_ms: f64,
    /// What 99 of 100 operations took at most.
    pub p99_ms: f64,
    /// What it is compared with.
    pub baseline: Option<String>,
    /// Operations a second of the baseline.
    pub baseline_per_second: Option<f64>,
    /// The speed as a multiple of the baseline's.
    pub ratio: Option<f64>,
    /// The time of one fsync of the same disk.
    pub fsync_ms: f64,
    /// The most memory this process had at once while it was measured.
    pub rss_mb: f64,
    /// Rounds of each side.
    pub rounds: usize,
    /// The slowest and the fastest round, operations a second.
    pub spread: [f64; 2],
    /// The same of the baseline.
    pub baseline_spread: Option<[f64; 2]>,
}

/// What was measured for a line.
pub(crate) struct Measured {
    pub(crate) rounds: Vec<Round>,
    pub(crate) baseline: Option<(String, Vec<Round>)>,
    pub(crate) fsync_ms: f64,
    pub(crate) rss_mb: f64,
}

impl Line {
    pub(crate) fn new(engine: Engine, line: &Measurement, measured: &Measured) -> Line {
        let per_second = median(&measured.rounds, Round::per_second);
        let baseline =
            measured.baseline.as_ref().map(|(name, rounds)| (name.clone(), median(rounds, Round::per_second)));
        Line {
            bench: line.bench,
            engine,
            callers: line.callers,
            scopes: line.scopes,
            history_rows: 0,
            per_second: rounded(per_second, 1),
            p50_ms: rounded(median(&measured.rounds, |round| round.p50_ms), 4),
            p99_ms: rounded(median(&measured.rounds, |round| round.p99_ms), 4),
            baseline: baseline.as_ref().map(|(name, _)| name.clone()),
            baseline_per_second: baseline.as_ref().map(|(_, speed)| rounded(*speed, 1)),
            ratio: baseline.map(|(_, speed)| rounded(per_second / speed, 4)),
            fsync_ms: rounded(measured.fsync_ms, 4),
            rss_mb: rounded(measured.rss_mb, 1),
            rounds: measured.rounds.len(),
            spread: spread(&measured.rounds),
            baseline_spread: measured.baseline.as_ref().map(|(_, rounds)| spread(rounds)),
        }
    }

    /// The names of the columns for people.
    pub fn head() -> String {
        columns(
            [
                "engine",
                "bench",
                "callers",
                "scopes",
                "history",
                "per second",
                "least–most",
                "p50 ms",
                "p99 ms",
                "p99/fsync",
                "baseline",
                "per second",
                "least–most",
                "ratio",
                "RSS MB",
            ]
            .map(str::to_owned),
        )
    }

    /// The line for people.
    pub fn row(&self) -> String {
        let from_to = |spread: [f64; 2]| format!("{:.0}–{:.0}", spread[0], spread[1]);
        columns([
            match self.engine {
                Engine::Sqlite => "sqlite".to_owned(),
                Engine::Postgres => "postgres".to_owned(),
            },
            self.bench.as_str().to_owned(),
            self.callers.to_string(),
            self.scopes.to_string(),
            self.history_rows.to_string(),
            format!("{:.0}", self.per_second),
            from_to(self.spread),
            format!("{:.2}", self.p50_ms),
            format!("{:.2}", self.p99_ms),
            if self.fsync_ms > 0.0 { format!("{:.1}", self.p99_ms / self.fsync_ms) } else { "-".to_owned() },
            self.baseline.clone().unwrap_or_else(|| "-".to_owned()),
            self.baseline_per_second.map_or_else(|| "-".to_owned(), |speed| format!("{speed:.0}")),
            self.baseline_spread.map_or_else(|| "-".to_owned(), from_to),
            self.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            format!("{:.0}", self.rss_mb),
        ])
    }
}

const WIDTHS: [usize; 15] = [8, 7, 7, 6, 9, 10, 15, 8, 8, 9, 11, 10, 15, 6, 6];

/// Lines come one by one, so that the columns are as wide as they are.
fn columns(cells: [String; 15]) -> String {
    let aligned = cells.iter().zip(WIDTHS).enumerate().map(|(place, (cell, width))| match place {
        0 | 1 | 10 => format!("{cell:<width$}"),
        _ => format!("{cell:>width$}"),
    });
    aligned.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

fn median(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> f64 {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
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
