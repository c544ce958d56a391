//! What this node has leased to workers: whether they may report on it need not be read for each report.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bursar::{Job, JobId, JobKind, Queue, Tenant};

/// Jobs that are remembered; one that is not is read.
const REMEMBERED: usize = 100_000;

/// The queue and the kind of jobs that were leased here. The kind of a job never changes; a lease from a queue may be ended by
/// who may work on that queue, wherever the job is put meanwhile.
#[derive(Default)]
pub(crate) struct Leases {
    known: Mutex<HashMap<JobId, (Tenant, Queue, JobKind)>>,
}

impl Leases {
    /// These were leased.
    pub(crate) fn remember(&self, jobs: &[Job]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() + jobs.len() > REMEMBERED {
            known.clear();
        }
        known.extend(jobs.iter().map(|job| (job.id, (job.tenant.clone(), job.queue.clone(), job.kind.clone()))));
    }

    /// What is known of a job of this tenant.
    pub(crate) fn find(&self, tenant: &Tenant, job: JobId) -> Option<(Queue, JobKind)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&job).filter(|(of, ..)| of == tenant).map(|(_, queue, kind)| (queue.clone(), kind.clone()))
    }

    /// These leases are over.
    pub(crate) fn forget(&self, jobs: impl Iterator<Item = JobId>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.for_each(|job| drop(known.remove(&job)));
    }
}
