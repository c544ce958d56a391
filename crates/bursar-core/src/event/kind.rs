//! The names of events in the journal, and the payloads that events carry.

use crate::event::{Event, Stream};
use crate::job::Emit;
use crate::payload::Payload;

/// Defines the names of events in the journal, once for each event.
macro_rules! kinds {
    ($($event:ident = $name:literal,)*) => {
        impl Event {
            /// The names of all events.
            pub const KINDS: &[&str] = &[$($name),*];

            /// Returns its name in the journal: `hold.placed`.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Event::$event { .. } => $name,)*
                }
            }
        }
    };
}

kinds! {
    HoldPlaced = "hold.placed",
    HoldCommitted = "hold.committed",
    HoldReleased = "hold.released",
    HoldExpired = "hold.expired",
    HoldExtended = "hold.extended",
    Posted = "spend.posted",
    Credited = "spend.credited",
    BudgetDefined = "budget.defined",
    BudgetRemoved = "budget.removed",
    BudgetFrozen = "budget.frozen",
    BudgetTripped = "budget.tripped",
    BudgetUnfrozen = "budget.unfrozen",
    BudgetCrossed = "budget.crossed",
    BudgetCleared = "budget.cleared",
    BudgetWouldRefuse = "budget.would_refuse",
    GrantMinted = "grant.minted",
    GrantRedeemed = "grant.redeemed",
    GrantRevoked = "grant.revoked",
    GrantErased = "grant.erased",
    GrantCurtailed = "grant.curtailed",
    GrantUsed = "grant.used",
    GrantPurged = "grant.purged",
    JobEnqueued = "job.enqueued",
    JobFound = "job.found",
    JobLeased = "job.leased",
    JobSucceeded = "job.succeeded",
    JobFailed = "job.failed",
    JobRescued = "job.rescued",
    JobCheckpointed = "job.checkpointed",
    JobEmitted = "job.emitted",
    JobSnoozed = "job.snoozed",
    JobReturned = "job.returned",
    JobDied = "job.dead_lettered",
    JobParked = "job.parked",
    JobResumed = "job.resumed",
    JobRetried = "job.retried",
    JobFunded = "job.funded",
    JobCancelling = "job.cancelling",
    JobCancelled = "job.cancelled",
    JobDiscarded = "job.discarded",
    JobErased = "job.erased",
    JobMoved = "job.moved",
    JobEdited = "job.edited",
    JobBilled = "job.billed",
    JobForgotten = "job.forgotten",
    QueueDefined = "queue.defined",
    ScheduleDefined = "schedule.defined",
    ScheduleRemoved = "schedule.removed",
    ScheduleTicked = "schedule.ticked",
    ScheduleSkipped = "schedule.skipped",
    NamespaceDefined = "namespace.defined",
    BlobStarted = "blob.started",
    BlobGrown = "blob.grown",
    BlobStored = "blob.stored",
    BlobReferenced = "blob.referenced",
    BlobReleased = "blob.released",
    BlobDeleted = "blob.deleted",
    BlobRestored = "blob.restored",
    BlobMoved = "blob.moved",
    BlobDoomed = "blob.doomed",
    BlobCollected = "blob.collected",
}

impl Event {
    /// Returns the payload or result that it carries.
    pub(crate) fn payload(&self) -> Option<&Payload> {
        match self {
            Event::JobEnqueued { spec, .. } => Some(&spec.payload),
            Event::JobSucceeded { result, .. } => Some(result),
            Event::GrantMinted { payload, .. } => Some(payload),
            _ => None,
        }
    }

    /// Returns the payload or result that it carries, with the key under which that is stored outside the journal.
    pub(crate) fn payload_mut(&mut self) -> Option<(u128, &mut Payload)> {
        match self {
            Event::JobEnqueued { job, spec, .. } => Some((job.0, &mut spec.payload)),
            Event::JobSucceeded { job, result, .. } => Some((job.result_key(), result)),
            Event::GrantMinted { grant, payload, .. } => Some((grant.0, payload)),
            _ => None,
        }
    }

    /// Overwrites the payload, result or checkpoint that it carries, if it is of one of these jobs and grants. Returns whether that changes
    /// it.
    pub(crate) fn erase(&mut self, of: &[Stream]) -> bool {
        let owner = match self {
            Event::JobEnqueued { job, .. } | Event::JobSucceeded { job, .. } | Event::JobEmitted(Emit { job, .. }) => {
                Stream::Job(*job)
            }
            Event::JobCheckpointed(event) => Stream::Job(event.job),
            Event::GrantMinted { grant, .. } => Stream::Grant(*grant),
            _ => return false,
        };
        if !of.contains(&owner) {
            return false;
        }
        match self {
            Event::JobCheckpointed(event) => event.erase(),
            Event::JobEmitted(Emit { data, .. }) => data.erase(),
            other => other.payload_mut().is_some_and(|(_, payload)| payload.erase()),
        }
    }
}
