//! Attempts and filters of jobs.

use bursar::{Attempt, AttemptEnd, JobFilter, JobState};

use crate::wire::bulk::FilterBody;
use crate::wire::job::{AttemptAnswer, ErrorAnswer};
use crate::wire::stamp;

/// Returns one attempt of a job.
pub fn attempt_answer(attempt: &Attempt) -> AttemptAnswer {
    let end = attempt.end.as_ref();
    AttemptAnswer {
        attempt: attempt.attempt,
        fence: attempt.fence,
        worker: attempt.worker.clone(),
        began_at: stamp(attempt.began_at),
        ended_at: end.and_then(|(at, _)| stamp(*at)),
        end: end.map(|(_, end)| end_word(end).into()),
        error: end.and_then(|(_, end)| end.error()).map(ErrorAnswer::from),
    }
}

fn end_word(end: &AttemptEnd) -> &'static str {
    match end {
        AttemptEnd::Succeeded => "succeeded",
        AttemptEnd::Failed(_) => "failed",
        AttemptEnd::Rescued(_) => "rescued",
        AttemptEnd::Snoozed => "snoozed",
        AttemptEnd::Returned => "returned",
    }
}

/// Returns the filter of a request. `state` replaces the state that the request names.
pub fn job_filter(body: FilterBody, state: Option<JobState>) -> JobFilter {
    let FilterBody { queue, kind, key, tag, fingerprint, state: requested } = body;
    JobFilter { queue, state: state.or(requested), kind, key, tag, fingerprint, newest_first: false }
}
