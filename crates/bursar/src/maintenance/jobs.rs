//! Job maintenance for all tenants, in bounded steps: takes back expired leases, retries jobs that wait for a budget, and removes
//! finished jobs whose retention is over.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_core::answer::Answer;
use bursar_core::bounds::ITEMS_MAX;
use bursar_core::context::Context;
use bursar_core::id::JobId;
use bursar_core::job::JobState;
use bursar_core::name::Tenant;
use bursar_core::request::{Act, Op, Request};
use bursar_core::state::{QueueKey, ScopeKey};
use bursar_store::{DueJobs, Store};

use super::bulk::{Done, execute_on_all};
use super::retention::RemovedCounts;
use crate::engine::Engine;
use crate::error::Error;

/// The result of job maintenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tended {
    /// Expired leases that were taken back.
    pub rescued: usize,
    /// Jobs that waited for a budget and whose hold was tried again.
    pub looked_at: usize,
    /// Finished jobs whose retention was checked and that were removed if it is over.
    pub ended: usize,
}

/// The jobs waiting for one scope that are resumed in one request. If all of them resume, the next ones are tried.
const STEP: usize = 16;
/// The most such requests each time units are freed.
const STEPS_MAX: usize = 1_000;
/// The flow keys whose barred jobs are made ready in one step.
const KEYS_STEP: usize = 100;
/// The jobs of one page, of each of the three kinds of maintenance.
const PAGE: usize = 500;
/// The most pages in one round. The next round continues.
const PAGES_MAX: usize = 20;

/// Does each of the three kinds of maintenance on at most `limit` jobs. Fails only if nothing could be done.
pub(crate) async fn tend(
    store: &Arc<dyn Store>,
    engine: &Engine,
    removed: &RemovedCounts,
    limit: usize,
) -> Result<Tended, Error> {
    let DueJobs { lapsed, awaiting, ended } = store.due_jobs(limit.clamp(1, ITEMS_MAX)).await?;
    let mut last_error = None;
    let mut counts = [0; 3];
    for (count, (jobs, act)) in
        counts.iter_mut().zip([(lapsed, Act::Rescue), (awaiting, Act::Resume), (ended, Act::Forget)])
    {
        let mut by_tenant: BTreeMap<Tenant, Vec<JobId>> = BTreeMap::new();
        for (tenant, job) in jobs {
            by_tenant.entry(tenant).or_default().push(job);
        }
        for (tenant, jobs) in by_tenant {
            let Done { done, error } =
                execute_on_all(engine, &tenant, jobs, |jobs| Op::Act { act: act.clone(), jobs }).await;
            *count += done;
            last_error = error.or(last_error);
        }
    }
    let [rescued, looked_at, ended] = counts;
    removed.count_jobs(ended);
    match last_error {
        Some(error) if counts == [0; 3] => Err(error),
        _ => Ok(Tended { rescued, looked_at, ended }),
    }
}

/// Maintains all due jobs, up to [`PAGES_MAX`] pages.
pub(super) async fn tend_all(store: &Arc<dyn Store>, engine: &Engine, removed: &RemovedCounts) -> Result<(), Error> {
    for _ in 0..PAGES_MAX {
        let Tended { rescued, looked_at, ended } = tend(store, engine, removed, PAGE).await?;
        if rescued.max(looked_at).max(ended) < PAGE {
            break;
        }
    }
    Ok(())
}

/// Makes the barred jobs of a queue ready, after its settings admit more leases for each flow key. Returns whether there were any.
pub(crate) async fn unbar(store: &Arc<dyn Store>, engine: &Engine, queue: &QueueKey) -> Result<bool, Error> {
    let (mut after, mut any) = (None, false);
    for _ in 0..STEPS_MAX {
        let (jobs, last) = store.jobs_barred(queue, after.as_ref(), KEYS_STEP).await?;
        any |= !jobs.is_empty();
        for jobs in jobs.chunks(ITEMS_MAX) {
            let op = Op::Act { act: Act::Unbar, jobs: jobs.to_vec() };
            engine.submit(Request::from(op).in_context(Context::of(queue.0.clone()))).await?;
        }
        after = last;
        if after.is_none() {
            break;
        }
    }
    Ok(any)
}

/// Resumes jobs that wait for units of a scope, the longest waiting first, until one of them must keep waiting.
pub(crate) async fn resume(store: &Arc<dyn Store>, engine: &Engine, scope: &ScopeKey) -> Result<(), Error> {
    for _ in 0..STEPS_MAX {
        let jobs = store.jobs_awaiting(scope, STEP).await?;
        if jobs.is_empty() {
            return Ok(());
        }
        let count = jobs.len();
        let request = Request::from(Op::Act { act: Act::Resume, jobs }).in_context(Context::of(scope.0.clone()));
        let Answer::Acted { each: answers, .. } = engine.submit(request).await?.answer else { return Ok(()) };
        let waits = |state: JobState| state == JobState::AwaitingBudget;
        let resumed = answers.iter().flatten().filter(|job| !waits(job.state)).count();
        if resumed < count {
            return Ok(());
        }
    }
    Ok(())
}
