//! Options that cannot be measured are refused.

use std::fmt::Display;

use bursar::bounds::CAPACITY_MAX;

use crate::error::BenchError;
use crate::plan::{Baseline, Bench, Options};

const CALLERS_MAX: usize = 10_000;
/// Processes are usually limited to about a thousand open files.
pub(crate) const CALLERS_HTTP_MAX: usize = 400;
pub(crate) const CALLERS_SERVED_MAX: usize = 900;
const SCOPES_MAX: usize = 100_000;
pub(crate) const HISTORY_MAX: u64 = 100_000_000;
const JOBS_MAX: usize = 10_000_000;
const SECONDS_MAX: f64 = 600.0;
const ROUNDS_MAX: usize = 100;

impl Options {
    /// Returns an error if the options are invalid.
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
        // Written so that NaN is refused as well.
        if let Some(seconds) = self.seconds.filter(|seconds| !(*seconds > 0.0 && *seconds <= SECONDS_MAX)) {
            let detail = format!("seconds must be above 0 and at most {SECONDS_MAX}, not {seconds}");
            return Err(BenchError::Usage(detail));
        }
        if self.snapshot && matches!(self.baseline, Some(Baseline::BulkInsert | Baseline::Textbook)) {
            let detail = "--snapshot compares Bursar with and without a snapshot: its baseline is history-10k or none";
            return Err(BenchError::Usage(detail.into()));
        }
        match self.through {
            Some(_) => self.check_through(),
            None if self.baseline == Some(Baseline::Direct) => {
                Err(BenchError::Usage("the baseline direct is only for --through".into()))
            }
            None => self.check_baseline(),
        }
    }

    /// Returns an error if the bench cannot be measured through something else, or the baseline is not that of such a measurement.
    fn check_through(&self) -> Result<(), BenchError> {
        let wrong = |detail: String| Err(BenchError::Usage(detail));
        match self.bench {
            None => return wrong("--through needs a benchmark: name one, such as command".into()),
            Some(bench @ (Bench::Latency | Bench::Meter | Bench::MeterSlices | Bench::Http | Bench::Blob)) => {
                return wrong(format!("{} cannot be measured with --through", bench.as_str()));
            }
            Some(_) => {}
        }
        if self.database.is_some() {
            return wrong("--through needs a temporary PostgreSQL server: leave out --database".into());
        }
        match self.baseline {
            Some(other) if !matches!(other, Baseline::None | Baseline::Direct) => {
                wrong(format!("--through has no baseline {}; use direct or none", other.as_str()))
            }
            _ => Ok(()),
        }
    }

    /// Returns an error if the bench does not have the baseline. Other unused options are ignored ([`Options::fit`]).
    fn check_baseline(&self) -> Result<(), BenchError> {
        let wrong = |detail: &str| Err(BenchError::Usage(detail.to_owned()));
        let of_jobs = self.bench.filter(|bench| bench.is_on_jobs());
        match self.bench {
            Some(bench @ (Bench::Meter | Bench::MeterSlices)) => {
                return self.check_http(bench.as_str(), CALLERS_HTTP_MAX, Baseline::Unmetered);
            }
            Some(Bench::Http) => return self.check_http("http", CALLERS_SERVED_MAX, Baseline::Axum),
            Some(Bench::Blob) => return self.check_http("blob", CALLERS_SERVED_MAX, Baseline::Files),
            _ => {}
        }
        match (of_jobs, self.baseline) {
            (_, Some(Baseline::Unmetered)) => wrong("the baseline unmetered is only for meter"),
            (_, Some(Baseline::Axum)) => wrong("the baseline axum is only for http"),
            (_, Some(Baseline::Files)) => wrong("the baseline files is only for blob"),
            (Some(Bench::Enqueue | Bench::EnqueueBulk), Some(Baseline::BulkInsert))
            | (Some(_), None | Some(Baseline::None | Baseline::Empty)) => Ok(()),
            (Some(bench), Some(baseline)) => {
                let (bench, baseline) = (bench.as_str(), baseline.as_str());
                wrong(&format!("{bench} has no baseline {baseline}; use empty or none"))
            }
            (None, Some(Baseline::Empty)) => {
                wrong("the baseline empty is only for enqueue, enqueue-bulk, drain, drain-worker and latency")
            }
            (None, _) => Ok(()),
        }
    }

    fn check_http(&self, name: &str, callers_max: usize, usual: Baseline) -> Result<(), BenchError> {
        within("callers", self.callers, 1, callers_max)?;
        match self.baseline {
            Some(other) if other != Baseline::None && other != usual => {
                let (other, usual) = (other.as_str(), usual.as_str());
                Err(BenchError::Usage(format!("{name} has no baseline {other}; use {usual} or none")))
            }
            _ => Ok(()),
        }
    }
}

fn within<T: Copy + PartialOrd + Display>(name: &str, value: Option<T>, least: T, most: T) -> Result<(), BenchError> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(BenchError::Usage(format!("{name} must be from {least} to {most}, not {value}")))
        }
        _ => Ok(()),
    }
}
