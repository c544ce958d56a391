//! Queues and their figures.

use bursar::{JobState, Queue, QueueConfig, QueueFigures, QueueSeries};

use crate::wire::queue::{FiguresAnswer, QueueAnswer, SeriesAnswer};
use crate::wire::stamp;

/// Returns the settings of a queue and its figures, with those of each minute if `series` is set.
pub fn queue_answer(name: Queue, config: &QueueConfig, figures: &QueueFigures, series: bool) -> QueueAnswer {
    QueueAnswer { name, config: config.into(), figures: figures_answer(figures, series) }
}

fn figures_answer(figures: &QueueFigures, series: bool) -> FiguresAnswer {
    let states = JobState::ALL.map(|state| (state.as_str().to_owned(), figures.count(state).into()));
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
        series: series.then(|| series_answer(figures.series())),
    }
}

fn series_answer(series: QueueSeries) -> SeriesAnswer {
    let QueueSeries { from, enqueued, succeeded, cancelled, dead, failed_attempts } = series;
    SeriesAnswer { from: from.to_string(), step_ms: 60_000, enqueued, succeeded, cancelled, dead, failed_attempts }
}
