//! Looking after jobs: lapsed leases, jobs that await a budget, finished ones whose time is over. Bounded, for all tenants, and
//! safe to be done by any number of processes at once.

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

use crate::engine::Engine;
use crate::error::Error;
use crate::upkeep::{Done, each};

/// What looking after jobs came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tended {
    /// Leases that had lapsed and were taken back.
    pub rescued: usize,
    /// Jobs that awaited a budget and were looked at again.
    pub looked_at: usize,
    /// Finished jobs that were looked at because their time may be over.
    pub ended: usize,
}

/// Jobs that wait for one scope and are looked at together: as long as all of them go on, the next ones are.
const STEP: usize = 16;
/// Such steps at most, each time units are freed.
const STEPS_MAX: usize = 1_000;
/// Flow keys whose lines are looked at together.
const KEYS_STEP: usize = 100;
/// Jobs of each kind that the background looks at together.
const PAGE: usize = 500;
/// Such pages at most in one round: the rest is for the next.
const PAGES_MAX: usize = 20;

/// Looks after jobs once, at most so many of each kind. An error only if nothing could be done.
pub(crate) async fn tend(store: &Arc<dyn Store>, engine: &Engine, most: usize) -> Result<Tended, Error> {
    let DueJobs { lapsed, awaiting, ended } = store.due_jobs(most.clamp(1, ITEMS_MAX)).await?;
    let mut wrong = None;
    let mut did = [0; 3];
    for (did, (jobs, act)) in did.iter_mut().zip([(lapsed, Act::Rescue), (awaiting, Act::Resume), (ended, Act::Forget)])
    {
        let mut by_tenant: BTreeMap<Tenant, Vec<JobId>> = BTreeMap::new();
        for (tenant, job) in jobs {
            by_tenant.entry(tenant).or_default().push(job);
        }
        for (tenant, jobs) in by_tenant {
            let Done { done, wrong: bad } =
                each(engine, &tenant, jobs, |jobs| Op::Act { act: act.clone(), jobs }).await;
            *did += done;
            wrong = bad.or(wrong);
        }
    }
    let [rescued, looked_at, ended] = did;
    match wrong {
        Some(error) if did == [0; 3] => Err(error),
        _ => Ok(Tended { rescued, looked_at, ended }),
    }
}

/// Looks after all that is due, in bounded steps.
pub(crate) async fn tend_backlog(store: &Arc<dyn Store>, engine: &Engine) -> Result<(), Error> {
    for _ in 0..PAGES_MAX {
        let Tended { rescued, looked_at, ended } = tend(store, engine, PAGE).await?;
        if rescued.max(looked_at).max(ended) < PAGE {
            break;
        }
    }
    Ok(())
}

/// A queue admits more leases of a flow key at once: who waits for a slot there is looked at again. Tells whether somebody does.
pub(crate) async fn unbar(store: &Arc<dyn Store>, engine: &Engine, queue: &QueueKey) -> Result<bool, Error> {
    let (mut after, mut any) = (None, false);
    for _ in 0..STEPS_MAX {
        let (jobs, last) = store.barred(queue, after.as_ref(), KEYS_STEP).await?;
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

/// Units of a scope are free: those who have waited longest for them are looked at, as long as all of them can go on.
pub(crate) async fn resume(store: &Arc<dyn Store>, engine: &Engine, scope: &ScopeKey) -> Result<(), Error> {
    for _ in 0..STEPS_MAX {
        let jobs = store.awaiting(scope, STEP).await?;
        if jobs.is_empty() {
            return Ok(());
        }
        let asked = jobs.len();
        let request = Request::from(Op::Act { act: Act::Resume, jobs }).in_context(Context::of(scope.0.clone()));
        let Answer::Acted { each: answers, .. } = engine.submit(request).await?.answer else { return Ok(()) };
        let waits = |state: JobState| state == JobState::AwaitingBudget;
        let resumed = answers.iter().flatten().filter(|job| !waits(job.state)).count();
        if resumed < asked {
            return Ok(());
        }
    }
    Ok(())
}
