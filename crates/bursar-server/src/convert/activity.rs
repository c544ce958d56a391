//! What the process has seen since it started.

use std::time::Duration;

use bursar::{RefusalCount, Span, Time, WorkerSeen};

use crate::wire::activity::{RefusalsAnswer, WorkerSeenAnswer};
use crate::wire::stamp;

/// Returns how often a limit has refused.
pub fn refusals_answer(count: &RefusalCount, now: Time) -> RefusalsAnswer {
    RefusalsAnswer {
        scope: count.scope.clone(),
        window: count.window.as_ref().map(ToString::to_string),
        count: count.count,
        last_at: stamp(ago(now, count.last)),
    }
}

/// Returns a worker that has asked for jobs.
pub fn worker_seen_answer(seen: &WorkerSeen, now: Time) -> WorkerSeenAnswer {
    WorkerSeenAnswer {
        name: seen.name.clone(),
        queues: seen.queues.clone(),
        waiting: seen.waiting,
        seen_at: stamp(ago(now, seen.last)),
    }
}

/// Returns the instant that was some time ago.
pub(crate) fn ago(now: Time, past: Duration) -> Time {
    now.before(Span::from_millis(u64::try_from(past.as_millis()).unwrap_or(u64::MAX)))
}
