//! Workers: they lease, work, stall, die, and end their leases, sometimes twice; and the upkeep of jobs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bursar_core::answer::Answer;
use bursar_core::context::Reporter;
use bursar_core::credential::Pattern;
use bursar_core::id::JobId;
use bursar_core::job::{Beat, End, Finish, Job, Order};
use bursar_core::name::{LeaseOwner, Tenant, WorkerName};
use bursar_core::request::{Act, Op, Request};
use bursar_store::Store;
use tokio::time::sleep;

use super::caller::{Cluster, Reply, send};
use super::store::SimStore;
use super::world::{Node, World};

/// How often a worker says the same before it gives up.
const ATTEMPTS: u64 = 3;
/// Jobs of each kind that one round of the upkeep looks at.
const LOOKED_AT: usize = 20;

/// Asks for work until the run is over. Each job is worked on beside the others.
pub(crate) async fn worker(world: Arc<World>, cluster: Arc<Cluster>, place: usize) {
    let name = WorkerName::new(format!("w{place}")).expect("a name");
    let reporter = (place % 2 == 1).then(|| reporter(place));
    while !world.is_over() {
        let (pause, request, together) = {
            let state = &mut *world.state();
            let pause = state.chance.below(40);
            let request = state.workload.lease(&mut state.chance, &name);
            (pause, reported(request, &reporter), state.chance.one_in(3))
        };
        sleep(Duration::from_millis(pause)).await;
        let Reply::Answer(Ok(outcome)) = send(&world, &cluster, &request).await else { continue };
        let Answer::Leased(leased) = outcome.answer else { continue };
        let tenant = request.context.tenant;
        let parts: Vec<Vec<Job>> = match together {
            true => vec![leased.jobs],
            false => leased.jobs.into_iter().map(|job| vec![job]).collect(),
        };
        for jobs in parts.into_iter().filter(|jobs| !jobs.is_empty()) {
            tokio::spawn(work(world.clone(), cluster.clone(), tenant.clone(), jobs, reporter.clone()));
        }
    }
}

/// A principal that works through a server. Without a hold it may charge one scope.
fn reporter(place: usize) -> Arc<Reporter> {
    let owner = LeaseOwner::new(format!("p{place}")).expect("a name");
    Arc::new(Reporter { owner, charges: vec![Pattern::new("s0").expect("a pattern")] })
}

fn reported(mut request: Request, reporter: &Option<Arc<Reporter>>) -> Request {
    request.context.reporter = reporter.clone();
    request
}

/// Works on jobs that were leased together, and ends their leases.
async fn work(
    world: Arc<World>,
    cluster: Arc<Cluster>,
    tenant: Tenant,
    jobs: Vec<Job>,
    reporter: Option<Arc<Reporter>>,
) {
    let length = jobs[0].life.lease.as_ref().map_or(0, |lease| lease.length.millis().unsigned_abs());
    let (takes, beats, dies, again) = {
        let chance = &mut world.state().chance;
        let stalls = chance.one_in(5);
        let takes = if stalls { length + chance.below(2_500) } else { chance.below(150) };
        // Who goes on without a sign of life has stalled.
        (takes, !stalls || chance.one_in(3), chance.one_in(10), chance.below(8))
    };
    let mut left = takes;
    while beats && left > length / 3 && !world.is_over() {
        let part = (length / 3).max(1);
        sleep(Duration::from_millis(part)).await;
        left -= part;
        if is_told_to_stop(&world, &cluster, &tenant, &jobs, &reporter).await {
            break;
        }
    }
    sleep(Duration::from_millis(left)).await;
    // Somebody else has learnt which lease it is.
    if world.state().chance.one_in(8) {
        let thief = Some(self::reporter(usize::MAX));
        is_told_to_stop(&world, &cluster, &tenant, &jobs, &thief).await;
        end(&world, &cluster, &tenant, &jobs, &thief).await;
    }
    if dies {
        return;
    }
    end(&world, &cluster, &tenant, &jobs, &reporter).await;
    // Somebody repeats it later, or says something else.
    if again < 2 {
        let pause = world.state().chance.below(2_000);
        sleep(Duration::from_millis(pause)).await;
        end(&world, &cluster, &tenant, &jobs, &reporter).await;
    }
}

/// Gives a sign of life; whether there was another answer than to go on.
async fn is_told_to_stop(
    world: &World,
    cluster: &Cluster,
    tenant: &Tenant,
    jobs: &[Job],
    reporter: &Option<Arc<Reporter>>,
) -> bool {
    let beats = jobs.iter().map(|job| Beat { job: job.id, fence: job.life.fence }).collect();
    let request = reported(world.state().workload.numbered(tenant.clone(), Op::Heartbeat { beats }), reporter);
    let Reply::Answer(Ok(outcome)) = send(world, cluster, &request).await else { return false };
    let Answer::Beaten(answers) = outcome.answer else { return false };
    answers.iter().any(|answer| !matches!(answer, Ok(beaten) if beaten.order == Order::Continue))
}

async fn end(world: &World, cluster: &Cluster, tenant: &Tenant, jobs: &[Job], reporter: &Option<Arc<Reporter>>) {
    let request = {
        let state = &mut *world.state();
        let ends: Vec<End> = jobs.iter().map(|_| state.workload.ending(&mut state.chance)).collect();
        let items = jobs.iter().zip(ends).map(|(job, end)| Finish { job: job.id, fence: job.life.fence, end });
        let op = Op::Finish { items: items.collect() };
        reported(state.workload.numbered(tenant.clone(), op), reporter)
    };
    let twice = world.state().chance.one_in(6);
    for _ in 0..ATTEMPTS {
        let answered = matches!(send(world, cluster, &request).await, Reply::Answer(Ok(_)));
        if answered && !twice || world.state().judge.failure.is_some() {
            return;
        }
    }
}

/// Takes back leases that lapsed, looks at jobs that await their budget, and forgets those whose time is over.
pub(crate) async fn janitor(world: Arc<World>, cluster: Arc<Cluster>) {
    let store = SimStore::new(&world, Node { place: world.plan.nodes, life: 0 });
    while !world.is_over() {
        let pause = 100 + world.state().chance.below(300);
        sleep(Duration::from_millis(pause)).await;
        for request in upkeep(&world, &store).await {
            send(&world, &cluster, &request).await;
        }
    }
}

/// What there is to do now.
pub(super) async fn upkeep(world: &World, store: &SimStore) -> Vec<Request> {
    let Ok(due) = store.due_jobs(LOOKED_AT).await else { return Vec::new() };
    let mut requests = Vec::new();
    for (act, jobs) in [(Act::Rescue, due.lapsed), (Act::Resume, due.awaiting), (Act::Forget, due.ended)] {
        let mut by_tenant: BTreeMap<Tenant, Vec<JobId>> = BTreeMap::new();
        jobs.into_iter().for_each(|(tenant, job)| by_tenant.entry(tenant).or_default().push(job));
        for (tenant, jobs) in by_tenant {
            requests.push(world.state().workload.numbered(tenant, Op::Act { act: act.clone(), jobs }));
        }
    }
    requests
}
