//! Queues and their figures.

use bursar::{JobState, Queue, QueueConfig, QueueFigures};

use crate::wire::queue::{FiguresAnswer, QueueAnswer};
use crate::wire::stamp;

/// Returns the settings of a queue and, if given, its figures.
pub fn queue_answer(name: Queue, config: &QueueConfig, figures: Option<&QueueFigures>) -> QueueAnswer {
    QueueAnswer { name, config: config.into(), figures: figures.map(figures_answer) }
}

fn figures_answer(figures: &QueueFigures) -> FiguresAnswer {
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
    }
}
