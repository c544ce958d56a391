//! Events that workers emit about their jobs: what has happened in the words of the application, beside what Bursar records.

use serde::{Deserialize, Serialize};

use crate::bounds::EMITTED_BYTES_MAX;
use crate::id::JobId;
use crate::name::EventName;
use crate::payload::Payload;
use crate::refusal::Invalid;

/// An event that a worker emits under its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emit {
    /// The job.
    pub job: JobId,
    /// The fence of the lease.
    pub fence: u64,
    /// The name of the event.
    pub event: EventName,
    /// JSON for listeners.
    #[serde(default)]
    pub data: Payload,
}

impl Emit {
    /// Refuses data that is too large for the journal and for listeners, which buffer it in memory.
    pub fn check(&self) -> Result<(), Invalid> {
        let bytes = self.data.as_str().len();
        if bytes > EMITTED_BYTES_MAX {
            let problem =
                format!("has {bytes} bytes; at most {EMITTED_BYTES_MAX} are allowed: store larger data as a blob");
            return Err(Invalid::new("data", problem));
        }
        self.data.check("data")
    }
}
