//! Wake-ups: which waiting workers and parked jobs a request makes ready.
//!
//! When an entry is decided, its wake-ups are computed from its events and the changed rows: queues that have more jobs
//! or slots to lease, and scopes that have units again and that parked jobs wait for. They are part of the entry in
//! memory and are sent after the commit. They are only hints: they are not in the journal, and a process that misses one finds
//! the work by polling.

use crate::event::{Entry, Event};
use crate::job::{Job, JobState, QueueConfig};
use crate::name::{JobKind, Queue, Scope, Tenant};
use crate::state::{ScopeKeyRef, Workspace};
use crate::time::{Span, Time};

/// The wake-ups of one request, to be sent after its commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WakeUps {
    /// Queues with more jobs or slots to lease than before.
    pub queues: Vec<Ready>,
    /// Scopes that have units again and that parked jobs wait for.
    pub scopes: Vec<Scope>,
    /// Queues whose concurrency limit for flow keys was raised: their barred jobs must be made ready again.
    pub unbarred: Vec<Queue>,
}

/// What became ready in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The queue.
    pub queue: Queue,
    /// The kind of the jobs; `None` for slots, which jobs of any kind may take.
    pub kind: Option<JobKind>,
    /// The number of jobs that can be leased now, or of slots that were freed.
    pub count: usize,
    /// How long until the first job that was scheduled is due.
    pub due_in: Option<Span>,
}

impl WakeUps {
    /// Computes the wake-ups of an entry whose events have been applied to the workspace.
    pub(crate) fn of(ws: &Workspace, entry: &Entry) -> WakeUps {
        let tenant = &entry.context.tenant;
        let mut wakes = WakeUps::default();
        for recorded in &entry.events {
            match &recorded.e {
                Event::JobEnqueued { spec, run_at, .. } => {
                    wakes.ready_at(&spec.queue, &spec.kind, *run_at, ws.now);
                }
                Event::QueueDefined { queue, config } if !config.paused => wakes.ready(queue, None),
                Event::HoldCommitted { .. }
                | Event::HoldReleased { .. }
                | Event::HoldExpired { .. }
                | Event::Credited { .. } => {
                    recorded.e.scopes().into_iter().for_each(|scope| wakes.freed(ws, tenant, scope));
                }
                Event::BudgetDefined { scope, .. } | Event::BudgetUnfrozen { scope, .. } => {
                    wakes.freed(ws, tenant, scope);
                }
                event => wakes.of_job(ws, event),
            }
        }
        wakes
    }

    /// Adds the wake-ups of a changed queue configuration.
    pub(crate) fn of_queue(&mut self, queue: &Queue, before: &QueueConfig, after: &QueueConfig) {
        let more = match (before.key_concurrency, after.key_concurrency) {
            (Some(before), Some(after)) => after > before,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if more {
            self.unbarred.push(queue.clone());
        }
    }

    fn of_job(&mut self, ws: &Workspace, event: &Event) {
        let Some(job) = event.job().filter(|id| ws.jobs.is_loaded(id)).and_then(|id| ws.jobs.get(&id)) else { return };
        match event {
            Event::JobFailed { .. }
            | Event::JobRescued { .. }
            | Event::JobSnoozed { .. }
            | Event::JobReturned { .. }
            | Event::JobSucceeded { .. } => {
                self.of_waiting(job, ws.now);
                let slots = |config: &QueueConfig| config.concurrency.or(config.key_concurrency).is_some();
                if ws.queues.get(&(job.tenant.clone(), job.queue.clone())).is_some_and(|queue| slots(&queue.config)) {
                    self.ready(&job.queue, None);
                }
            }
            Event::JobResumed { .. } | Event::JobRetried { .. } | Event::JobMoved { .. } | Event::JobEdited { .. } => {
                self.of_waiting(job, ws.now);
            }
            // The next job of its line may be the head now.
            Event::JobCancelled { .. } if job.key.is_some() => self.ready(&job.queue, Some(&job.kind)),
            _ => {}
        }
    }

    fn of_waiting(&mut self, job: &Job, now: Time) {
        if matches!(job.life.state, JobState::Queued | JobState::Scheduled) {
            self.ready_at(&job.queue, &job.kind, job.life.run_at, now);
        }
    }

    fn ready_at(&mut self, queue: &Queue, kind: &JobKind, run_at: Time, now: Time) {
        if run_at <= now {
            return self.ready(queue, Some(kind));
        }
        let (entry, due_in) = (self.entry(queue, Some(kind)), run_at.since(now));
        entry.due_in = Some(entry.due_in.map_or(due_in, |known| known.min(due_in)));
    }

    fn ready(&mut self, queue: &Queue, kind: Option<&JobKind>) {
        self.entry(queue, kind).count += 1;
    }

    fn entry(&mut self, queue: &Queue, kind: Option<&JobKind>) -> &mut Ready {
        let same = |ready: &Ready| ready.queue == *queue && ready.kind.as_ref() == kind;
        // The jobs of one command are mostly of one kind, so the search starts at the end.
        let place = self.queues.iter().rposition(same).unwrap_or_else(|| {
            self.queues.push(Ready { queue: queue.clone(), kind: kind.cloned(), count: 0, due_in: None });
            self.queues.len() - 1
        });
        &mut self.queues[place]
    }

    fn freed(&mut self, ws: &Workspace, tenant: &Tenant, scope: &Scope) {
        let row = ws
            .scopes
            .is_loaded(&ScopeKeyRef(tenant, scope))
            .then(|| ws.scopes.get(&ScopeKeyRef(tenant, scope)))
            .flatten();
        if row.is_some_and(|row| row.awaited > 0) && !self.scopes.contains(scope) {
            self.scopes.push(scope.clone());
        }
    }
}
