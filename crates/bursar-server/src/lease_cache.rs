//! A cache of the jobs that this node has leased to workers, so that checking a worker's report needs no database read.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bursar::{Job, JobId, JobKind, Queue, Tenant};

/// Maximum number of cached jobs. When it is reached the cache is emptied, and reports on other jobs read the database.
const CACHED_MAX: usize = 100_000;

/// The queue and kind of jobs leased by this node. An entry cannot become wrong: the kind of a job never changes, and a worker may
/// report on a lease from its queue even after the job has been moved to another queue.
#[derive(Default)]
pub(crate) struct LeaseCache {
    jobs: Mutex<HashMap<JobId, (Tenant, Queue, JobKind)>>,
}

impl LeaseCache {
    /// Adds jobs that were just leased.
    pub(crate) fn remember(&self, leased: &[Job]) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.len() + leased.len() > CACHED_MAX {
            jobs.clear();
        }
        jobs.extend(leased.iter().map(|job| (job.id, (job.tenant.clone(), job.queue.clone(), job.kind.clone()))));
    }

    /// Returns the queue and kind of a tenant's job, if cached.
    pub(crate) fn find(&self, tenant: &Tenant, job: JobId) -> Option<(Queue, JobKind)> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.get(&job).filter(|(of, ..)| of == tenant).map(|(_, queue, kind)| (queue.clone(), kind.clone()))
    }

    /// Removes jobs whose lease has ended.
    pub(crate) fn forget(&self, ended: impl Iterator<Item = JobId>) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        ended.for_each(|job| drop(jobs.remove(&job)));
    }
}
