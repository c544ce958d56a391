//! Streams: the thing that each event belongs to.

use crate::budget::WouldRefuse;
use crate::event::{Charged, CheckpointedJob, Event, GrownBlob, LeasedJob, StartedBlob, StoredBlob};
use crate::id::{BlobId, CommandId, GrantId, HoldId, JobId};
use crate::job::Emit;
use crate::name::{Namespace, Queue, ScheduleName, Scope, Tenant};

/// A thing with a history of events.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// A scope and its budget.
    Scope(Tenant, Scope),
    /// A hold.
    Hold(HoldId),
    /// A grant.
    Grant(GrantId),
    /// A job.
    Job(JobId),
    /// A queue.
    Queue(Tenant, Queue),
    /// A schedule.
    Schedule(Tenant, ScheduleName),
    /// A namespace.
    Namespace(Tenant, Namespace),
    /// A blob.
    Blob(BlobId),
    /// A command, for events that belong to none of the others.
    Command(CommandId),
}

impl Stream {
    /// Returns its name in the links of a batch. A tab separates tenant and name, because names cannot contain one.
    pub fn link(&self) -> String {
        let (mut link, kind) = (String::with_capacity(64), self.kind());
        link.push_str(kind);
        link.push(':');
        match self {
            Stream::Scope(tenant, scope) => link.extend([tenant.as_str(), "\t", scope.as_str()]),
            Stream::Hold(id) => link.push_str(id.text().as_str()),
            Stream::Grant(id) => link.push_str(id.text().as_str()),
            Stream::Job(id) => link.push_str(id.text().as_str()),
            Stream::Queue(tenant, queue) => link.extend([tenant.as_str(), "\t", queue.as_str()]),
            Stream::Schedule(tenant, name) => link.extend([tenant.as_str(), "\t", name.as_str()]),
            Stream::Namespace(tenant, name) => link.extend([tenant.as_str(), "\t", name.as_str()]),
            Stream::Blob(id) => link.push_str(id.text().as_str()),
            Stream::Command(id) => link.push_str(id.text().as_str()),
        }
        link
    }

    /// Returns the kind of thing.
    pub fn kind(&self) -> &'static str {
        match self {
            Stream::Scope(..) => "scope",
            Stream::Hold(_) => "hold",
            Stream::Grant(_) => "grant",
            Stream::Job(_) => "job",
            Stream::Queue(..) => "queue",
            Stream::Schedule(..) => "schedule",
            Stream::Namespace(..) => "namespace",
            Stream::Blob(_) => "blob",
            Stream::Command(_) => "command",
        }
    }
}

impl Stream {
    /// Returns the keys under which its payloads are stored outside the journal.
    pub fn payload_keys(&self) -> Vec<u128> {
        match self {
            Stream::Job(job) => vec![job.0, job.result_key()],
            Stream::Grant(grant) => vec![grant.0],
            _ => Vec::new(),
        }
    }
}

/// Writes the id, or tenant and name.
impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stream::Scope(tenant, scope) => write!(f, "{tenant}/{scope}"),
            Stream::Hold(id) => write!(f, "{id}"),
            Stream::Grant(id) => write!(f, "{id}"),
            Stream::Job(id) => write!(f, "{id}"),
            Stream::Queue(tenant, queue) => write!(f, "{tenant}/{queue}"),
            Stream::Schedule(tenant, name) => write!(f, "{tenant}/{name}"),
            Stream::Namespace(tenant, name) => write!(f, "{tenant}/{name}"),
            Stream::Blob(id) => write!(f, "{id}"),
            Stream::Command(id) => write!(f, "{id}"),
        }
    }
}

impl Event {
    /// Returns the stream that the event belongs to.
    pub fn stream(&self, tenant: &Tenant, command: CommandId) -> Stream {
        match self {
            Event::HoldPlaced { hold, .. }
            | Event::HoldCommitted { hold, .. }
            | Event::HoldReleased { hold, .. }
            | Event::HoldExpired { hold, .. }
            | Event::HoldExtended { hold, .. } => Stream::Hold(*hold),
            Event::Posted { .. } => Stream::Command(command),
            Event::Credited { charge, .. } => Stream::Scope(tenant.clone(), charge.scope.clone()),
            Event::BudgetDefined { scope, .. }
            | Event::BudgetRemoved { scope }
            | Event::BudgetFrozen { scope }
            | Event::BudgetTripped { scope, .. }
            | Event::BudgetUnfrozen { scope, .. }
            | Event::BudgetCrossed { scope, .. }
            | Event::BudgetCleared { scope, .. }
            | Event::BudgetWouldRefuse(WouldRefuse { scope, .. }) => Stream::Scope(tenant.clone(), scope.clone()),
            Event::GrantMinted { grant, .. }
            | Event::GrantRedeemed { grant, .. }
            | Event::GrantRevoked { grant }
            | Event::GrantErased { grant }
            | Event::GrantCurtailed { grant, .. }
            | Event::GrantUsed { grant }
            | Event::GrantPurged { grant } => Stream::Grant(*grant),
            Event::QueueDefined { queue, .. } => Stream::Queue(tenant.clone(), queue.clone()),
            Event::ScheduleDefined { schedule, .. }
            | Event::ScheduleRemoved { schedule }
            | Event::ScheduleTicked { schedule, .. }
            | Event::ScheduleSkipped { schedule, .. } => Stream::Schedule(tenant.clone(), schedule.clone()),
            Event::NamespaceDefined { namespace, .. } => Stream::Namespace(tenant.clone(), namespace.clone()),
            _ => match self.blob() {
                Some(blob) => Stream::Blob(blob),
                None => Stream::Job(self.job().expect("all other events belong to jobs")),
            },
        }
    }

    /// Returns the job that the event belongs to.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Event::JobEnqueued { job, .. }
            | Event::JobFound { job }
            | Event::JobLeased(LeasedJob { job, .. })
            | Event::JobSucceeded { job, .. }
            | Event::JobFailed { job, .. }
            | Event::JobRescued { job, .. }
            | Event::JobCheckpointed(CheckpointedJob { job, .. })
            | Event::JobEmitted(Emit { job, .. })
            | Event::JobSnoozed { job, .. }
            | Event::JobReturned { job, .. }
            | Event::JobDied { job }
            | Event::JobParked { job, .. }
            | Event::JobResumed { job, .. }
            | Event::JobRetried { job, .. }
            | Event::JobFunded { job, .. }
            | Event::JobCancelling { job }
            | Event::JobCancelled { job }
            | Event::JobDiscarded { job }
            | Event::JobErased { job }
            | Event::JobMoved { job, .. }
            | Event::JobEdited { job, .. }
            | Event::JobBilled { job, .. }
            | Event::JobForgotten { job } => Some(*job),
            _ => None,
        }
    }

    /// Returns the blob that the event belongs to.
    pub fn blob(&self) -> Option<BlobId> {
        match self {
            Event::BlobStarted(StartedBlob { blob, .. })
            | Event::BlobGrown(GrownBlob { blob, .. })
            | Event::BlobStored(StoredBlob { blob, .. })
            | Event::BlobReferenced { blob, .. }
            | Event::BlobReleased { blob, .. }
            | Event::BlobDeleted { blob, .. }
            | Event::BlobRestored { blob, .. }
            | Event::BlobMoved { blob, .. }
            | Event::BlobDoomed { blob, .. }
            | Event::BlobCollected { blob } => Some(*blob),
            _ => None,
        }
    }

    /// Returns the scopes whose balances the event changes.
    pub fn scopes(&self) -> Vec<&Scope> {
        let charges = match self {
            Event::HoldPlaced { charges, .. }
            | Event::HoldCommitted { charges, .. }
            | Event::HoldReleased { charges, .. }
            | Event::JobBilled { charges, .. }
            | Event::Posted { charges } => charges.as_slice(),
            Event::JobLeased(LeasedJob { slots, .. }) => return slots.iter().collect(),
            Event::Credited { charge, .. } => std::slice::from_ref(charge),
            Event::HoldExpired { scopes, .. } | Event::HoldExtended { scopes, .. } => return scopes.iter().collect(),
            _ => &[],
        };
        charges.iter().flat_map(Charged::scopes).collect()
    }
}
