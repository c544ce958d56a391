//! A decision in the making: the events of one request so far, and the workspace they are applied to.

use crate::answer::Answer;
use crate::apply::apply;
use crate::context::Context;
use crate::decide::queue;
use crate::event::{Event, Recorded};
use crate::id::{HoldId, IdSource, JobId};
use crate::job::{Job, JobState, Place, QueueConfig};
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
    /// Whether events change the workspace. Those of a dry run do not.
    pub(super) applies: bool,
}

/// Why a request came to no outcome. Nothing has happened then.
pub(super) enum Stop {
    /// A rule refuses it.
    Refused(Refusal),
    /// Rows are missing: it must be loaded and decided again.
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

    /// Applies an event of a job or schedule before the next one is decided.
    pub(super) fn emit(&mut self, e: Event) {
        let v = apply(self.ws, self.context, &e);
        // A worker ends many jobs in one request, each of which is of a trace of its own.
        let t = e.job().and_then(|job| self.ws.jobs.get(&job)?.traceparent);
        let t = t.filter(|_| t != self.context.traceparent);
        self.events.push(Recorded { v, e, t });
    }

    pub(super) fn now(&self) -> Time {
        self.ws.now
    }

    pub(super) fn new_hold(&mut self) -> HoldId {
        HoldId(self.ids.next_id(self.ws.now))
    }

    /// Bits that nobody can foresee.
    pub(super) fn random(&mut self) -> u64 {
        // The low bits of an id are drawn; what its version and variant say is not among them once they are moved up.
        (self.ids.next_id(self.ws.now) as u64) << 2
    }

    /// The job, if it is the asker's. Another tenant's job is no job at all.
    pub(super) fn job(&self, id: JobId) -> Result<&Job, Refusal> {
        let job = self.ws.jobs.get(&id).filter(|job| job.tenant == self.context.tenant);
        job.ok_or(Refusal::UnknownJob { job: id })
    }

    /// What is set for a queue.
    pub(super) fn config(&self, queue: &Queue) -> QueueConfig {
        queue::config(self.ws, self.context, queue)
    }

    /// Whether it is known who is next in the line that a job leads, so that the job may leave it.
    pub(super) fn can_leave(&self, job: &Job) -> bool {
        let Some(line) = job.line_led() else { return true };
        let scope = (job.tenant.clone(), job.line().expect("a line has a scope"));
        let waiting = self.ws.scopes.get(&scope).map_or(0, |row| row.line.len(&job.kind));
        waiting <= 1
            || self.ws.lines.get(&line).is_some_and(|next| next.iter().any(|id| self.stands_behind(*id, &line)))
    }

    /// The next of a line becomes the first; who it is.
    pub(super) fn next_in(&mut self, line: &LineKey) -> Option<JobId> {
        loop {
            let next = self.ws.lines.get_mut(line)?.pop_front().filter(|_| !Mutant::LineStands.on())?;
            // Who was read with the line may have left it since.
            if self.stands_behind(next, line) {
                self.ws.step_up(next);
                return Some(next);
            }
        }
    }

    fn stands_behind(&self, id: JobId, line: &LineKey) -> bool {
        let behind = |job: &&Job| job.life.place == Place::Behind && job.line_key().as_ref() == Some(line);
        self.ws.jobs.get(&id).filter(behind).is_some()
    }

    /// A job whose line another stands in must be able to leave it.
    pub(super) fn leaving(&self, job: &Job) -> Result<Option<LineKey>, Refusal> {
        if !self.can_leave(job) {
            let problem = "somebody else is changing its line: ask again";
            return Err(Refusal::WrongState { job: job.id, state: JobState::Queued, problem: problem.into() });
        }
        Ok(job.line_led())
    }
}
