//! The event of a lease.

use serde::{Deserialize, Serialize};

use super::{is_never, never};
use crate::id::JobId;
use crate::name::{LeaseOwner, Scope, WorkerName};
use crate::time::{Span, Time};

/// A worker leased a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeasedJob {
    /// The job.
    pub job: JobId,
    /// The fence of the lease.
    pub fence: u64,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The worker.
    pub worker: WorkerName,
    /// How long the lease lasts without a heartbeat.
    pub lease: Span,
    /// When the attempt must end, heartbeats or not.
    #[serde(default = "never", skip_serializing_if = "is_never")]
    pub deadline: Time,
    /// The scopes that it takes a slot of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<Scope>,
    /// The principal that the lease is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<LeaseOwner>,
}
