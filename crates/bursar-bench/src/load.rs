//! Closed-loop callers: each sends a request, waits for the answer, and sends the next.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::error::BenchError;

/// The figures of a round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Round {
    /// Completed operations.
    pub(crate) done: usize,
    /// The time from the first request to the last answer.
    pub(crate) took: Duration,
    /// The median and the 99th percentile of the waiting times, in milliseconds.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Round {
    /// Returns the figures for these waiting times.
    pub(crate) fn of(mut waited: Vec<Duration>, done: usize, took: Duration) -> Round {
        waited.sort_unstable();
        Round { done, took, p50_ms: percentile(&waited, 50), p99_ms: percentile(&waited, 99) }
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.done as f64 / self.took.as_secs_f64().max(f64::EPSILON)
    }
}

/// Runs `callers` for `time`, with at most `most` operations. Each caller runs at least one, however late it is scheduled, so
/// that no round is empty. Each operation gets its number.
pub(crate) async fn closed_loop<F>(
    callers: usize,
    time: Duration,
    most: usize,
    operation: impl Fn(usize) -> F + Clone + Send + 'static,
) -> Result<Round, BenchError>
where
    F: Future<Output = Result<(), BenchError>> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let (next, operation) = (next.clone(), operation.clone());
        tasks.spawn(async move {
            let mut waited = Vec::new();
            let mut sent = Instant::now();
            while waited.is_empty() || sent.duration_since(begun) < time {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= most {
                    break;
                }
                operation(number).await?;
                let answered = Instant::now();
                // Samples count as memory of the measured process, so they are small.
                let micros = answered.duration_since(sent).as_micros();
                waited.push(u32::try_from(micros).unwrap_or(u32::MAX));
                sent = answered;
            }
            Ok::<_, BenchError>(waited)
        });
    }
    let mut waited = Vec::new();
    while let Some(caller) = tasks.join_next().await {
        waited.extend(caller??.into_iter().map(|micros| Duration::from_micros(micros.into())));
    }
    let (done, took) = (waited.len(), begun.elapsed());
    Ok(Round::of(waited, done, took))
}

/// Returns a percentile of sorted times, in milliseconds.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_all_times() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!((percentile(&times, 50), percentile(&times, 99)), (100.0, 198.0));
        assert_eq!((percentile(&times[..1], 50), percentile(&times[..1], 99)), (1.0, 1.0));
        assert_eq!(percentile(&[], 99), 0.0);
    }

    #[tokio::test]
    async fn callers_stop_at_the_limit_or_when_time_is_over() {
        let quick = |_| async { Ok(()) };
        let round = closed_loop(3, Duration::from_secs(60), 100, quick).await.unwrap();
        assert_eq!(round.done, 100);
        assert_eq!(closed_loop(3, Duration::ZERO, 100, quick).await.unwrap().done, 3, "each caller runs once");
        let failing =
            |number| async move { if number == 7 { Err(BenchError::Failed("the seventh".into())) } else { Ok(()) } };
        assert!(closed_loop(3, Duration::from_secs(60), 100, failing).await.is_err());
    }
}
