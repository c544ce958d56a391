//! The event of a checkpoint, with the progress report that it came with.

use serde::{Deserialize, Serialize};

use crate::event::is_null;
use crate::id::JobId;
use crate::payload::Payload;

/// A worker reported a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointedJob {
    /// The job.
    pub job: JobId,
    /// The fence of the lease.
    pub fence: u64,
    /// The number of the report among those of the lease, from 1.
    pub report: u64,
    /// The checkpoint; `null` removes the last one.
    pub checkpoint: Payload,
    /// The percentage that the report gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// The message of the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The data of the report.
    #[serde(default, skip_serializing_if = "is_null")]
    pub data: Payload,
}

impl CheckpointedJob {
    /// Overwrites what the worker reported. Returns whether that changes it.
    pub(super) fn erase(&mut self) -> bool {
        let message = self.message.take().is_some();
        let (checkpoint, data) = (self.checkpoint.erase(), self.data.erase());
        message || checkpoint || data
    }
}
