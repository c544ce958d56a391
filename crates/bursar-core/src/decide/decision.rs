//! The state of one decision, shared by the modules that decide operations.

use crate::answer::Answer;
use crate::apply::apply;
use crate::context::Context;
use crate::decide::queue;
use crate::event::{Event, Recorded};
use crate::id::{HoldId, IdSource, JobId};
use crate::job::{EndedAttempt, Job, JobState, Place, QueueConfig, RunningAttempt};
use crate::mutant::Mutant;
use crate::name::Queue;
use crate::refusal::{Invalid, Refusal};
use crate::state::{LineKey, Workspace};
use crate::time::Time;

/// The events of one request so far, and the workspace they are applied to.
pub(super) struct Decision<'a> {
    pub(super) ws: &'a mut Workspace,
    pub(super) context: &'a Context,
    pub(super) ids: &'a mut (dyn IdSource + Send),
    pub(super) events: Vec<Recorded>,
    /// The attempts of sampled traces that the events end.
    pub(super) attempts: Vec<EndedAttempt>,
    /// Whether events change the workspace. Those of a dry run do not.
    pub(super) applies: bool,
}

/// Why a request was not executed. The workspace is unchanged.
pub(super) enum Stop {
    /// A rule refused it.
    Refused(Refusal),
    /// Rows are missing: the request must be loaded and decided again.
    Reload,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

impl From<Invalid> for Stop {
    fn from(invalid: Invalid) -> Stop {
        Stop::Refused(invalid.into())
    }
}

impl Decision<'_> {
    /// Records events that were decided together.
    pub(super) fn record(&mut self, events: Vec<Event>) {
        for e in events {
            let v = if self.applies { apply(self.ws, self.context, &e) } else { 0 };
            self.events.push(Recorded { v, e, t: None });
        }
    }

    /// Records the events of a sweep, whose answer is how many rows it changed, also when it changed none.
    pub(super) fn sweep(&mut self, events: Vec<Event>) -> Result<Option<Answer>, Stop> {
        let none = events.is_empty();
        self.record(events);
        Ok(none.then_some(Answer::Swept { count: 0 }))
    }

    /// Records one event of a job or schedule. Later events of the same request are decided on the rows as it leaves them.
    pub(super) fn emit(&mut self, e: Event) {
        let running = e.job().filter(|id| self.ws.jobs.is_loaded(id)).and_then(|id| self.ws.jobs.get(&id));
        let running = running.and_then(RunningAttempt::of);
        let v = apply(self.ws, self.context, &e);
        let job = e.job().and_then(|id| self.ws.jobs.get(&id));
        let ended = running.zip(job).and_then(|(running, job)| running.ended_by(self.events.len(), job, self.ws.now));
        self.attempts.extend(ended);
        // One request may end jobs of different traces, so an event carries the trace of its job.
        let t = job.and_then(|job| job.traceparent).filter(|t| Some(*t) != self.context.traceparent);
        self.events.push(Recorded { v, e, t });
    }

    pub(super) fn now(&self) -> Time {
        self.ws.now
    }

    pub(super) fn new_hold(&mut self) -> HoldId {
        HoldId(self.ids.next_id(self.ws.now))
    }

    /// Returns random bits from the source of ids.
    pub(super) fn random(&mut self) -> u64 {
        // The low 64 bits of a UUIDv7 are two bits of variant and 62 random bits. The shift drops the variant.
        (self.ids.next_id(self.ws.now) as u64) << 2
    }

    /// Returns a job of the request's tenant. A job of another tenant is reported as unknown.
    pub(super) fn job(&self, id: JobId) -> Result<&Job, Refusal> {
        let is_known = |job: &&Job| job.tenant == self.context.tenant || Mutant::ActAcrossTenants.on();
        let job = self.ws.jobs.get(&id).filter(is_known);
        job.ok_or(Refusal::UnknownJob { job: id })
    }

    /// Returns the settings of a queue.
    pub(super) fn config(&self, queue: &Queue) -> QueueConfig {
        queue::config(self.ws, self.context, queue)
    }

    /// Returns whether a job may leave its line now: it is not the head, or no other job waits, or the next head is loaded.
    pub(super) fn can_leave_line(&self, job: &Job) -> bool {
        let Some(line) = job.headed_line() else { return true };
        let scope = (job.tenant.clone(), job.line().expect("a job in a line has a flow key"));
        let waiting = self.ws.scopes.get(&scope).map_or(0, |row| row.line.len(&job.kind));
        waiting <= 1 || self.ws.lines.get(&line).is_some_and(|next| next.iter().any(|id| self.is_behind(*id, &line)))
    }

    /// Makes the next job of a line its head, and returns it.
    pub(super) fn promote_next(&mut self, line: &LineKey) -> Option<JobId> {
        loop {
            let next = self.ws.lines.get_mut(line)?.pop_front().filter(|_| !Mutant::LineStands.on())?;
            // An earlier request of the batch may have removed a loaded job from the line.
            if self.is_behind(next, line) {
                self.ws.promote_to_head(next);
                return Some(next);
            }
        }
    }

    /// Returns whether a job waits in a line, behind its head.
    fn is_behind(&self, id: JobId, line: &LineKey) -> bool {
        let behind = |job: &&Job| job.life.place == Place::Behind && job.line_key().as_ref() == Some(line);
        self.ws.jobs.get(&id).filter(behind).is_some()
    }

    /// Returns the line whose head a job is, which needs a new head when the job leaves it. Refuses if the next head is not
    /// loaded, as when another transaction has locked it.
    pub(super) fn line_to_leave(&self, job: &Job) -> Result<Option<LineKey>, Refusal> {
        if !self.can_leave_line(job) {
            let problem = "another transaction is changing the line of its flow key: retry";
            return Err(Refusal::WrongState { job: job.id, state: JobState::Queued, problem: problem.into() });
        }
        Ok(job.headed_line())
    }
}
