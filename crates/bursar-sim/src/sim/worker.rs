//! Workers, which lease jobs, stall, crash and end leases, sometimes twice; and job maintenance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bursar_core::answer::Answer;
use bursar_core::context::Reporter;
use bursar_core::credential::Pattern;
use bursar_core::id::JobId;
use bursar_core::job::{End, Finish, Job, Order};
use bursar_core::name::{LeaseOwner, Tenant, WorkerName};
use bursar_core::request::{Act, Op, Request};
use bursar_store::Maintain as _;
use tokio::time::sleep;

use super::blob_requests::NAMESPACES;
use super::caller::{Cluster, Reply, send};
use super::store::SimStore;
use super::world::{Node, World};

/// The most times a worker sends the same end of a lease.
const ATTEMPTS: u64 = 3;
/// Jobs per kind of maintenance and round.
const MAINTAINED_MAX: usize = 20;

/// Leases jobs until the run is over and runs them concurrently.
pub(crate) async fn worker(world: Arc<World>, cluster: Arc<Cluster>, place: usize) {
    let name = WorkerName::new(format!("w{place}")).expect("a name");
    let reporter = (place % 2 == 1).then(|| reporter(place));
    while !world.is_over() {
        let (pause, request, together) = {
            let state = &mut *world.state();
            let pause = state.random.below(40);
            let request = state.workload.lease(&mut state.random, &name);
            (pause, reported(request, &reporter), state.random.one_in(3))
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

/// Returns a principal that works through a server. For jobs without a hold it may charge one scope, and it reaches one namespace.
fn reporter(place: usize) -> Arc<Reporter> {
    let owner = LeaseOwner::new(format!("p{place}")).expect("a name");
    let only = |name: &str| vec![Pattern::new(name).expect("a pattern")];
    Arc::new(Reporter { owner, charges: only("s0"), namespaces: only(NAMESPACES[0]) })
}

fn reported(mut request: Request, reporter: &Option<Arc<Reporter>>) -> Request {
    request.context.reporter = reporter.clone();
    request
}

/// Runs jobs that were leased together, and ends their leases.
async fn work(
    world: Arc<World>,
    cluster: Arc<Cluster>,
    tenant: Tenant,
    jobs: Vec<Job>,
    reporter: Option<Arc<Reporter>>,
) {
    let length = jobs[0].life.lease.as_ref().map_or(0, |lease| lease.length.millis().unsigned_abs());
    let (takes, stalls, beats, crashes, again) = {
        let random = &mut world.state().random;
        let stalls = random.one_in(5);
        let takes = if stalls { length + random.below(2_500) } else { random.below(150) };
        // Most stalled workers send no heartbeats.
        (takes, stalls, !stalls || random.one_in(3), random.one_in(10), random.below(8))
    };
    let mut left = takes;
    while beats && left > length / 3 && !world.is_over() {
        let part = (length / 3).max(1);
        sleep(Duration::from_millis(part)).await;
        left -= part;
        if must_stop(&world, &cluster, &tenant, &jobs, &reporter).await {
            break;
        }
    }
    sleep(Duration::from_millis(left)).await;
    // Another principal has learnt the job and the fence.
    if world.state().random.one_in(8) {
        let thief = Some(self::reporter(usize::MAX));
        must_stop(&world, &cluster, &tenant, &jobs, &thief).await;
        end(&world, &cluster, &tenant, &jobs, &thief).await;
    }
    if crashes {
        return;
    }
    // A worker that stalled may have lost its lease.
    if stalls {
        must_stop(&world, &cluster, &tenant, &jobs, &reporter).await;
    }
    end(&world, &cluster, &tenant, &jobs, &reporter).await;
    // The end is repeated later, or another one is sent.
    if again < 2 {
        let pause = world.state().random.below(2_000);
        sleep(Duration::from_millis(pause)).await;
        end(&world, &cluster, &tenant, &jobs, &reporter).await;
    }
}

/// Sends heartbeats, some with progress; returns whether an answer was something other than to continue.
async fn must_stop(
    world: &World,
    cluster: &Cluster,
    tenant: &Tenant,
    jobs: &[Job],
    reporter: &Option<Arc<Reporter>>,
) -> bool {
    let request = {
        let workload = &mut world.state().workload;
        let beats = workload.beats(jobs);
        reported(workload.numbered(tenant.clone(), Op::Heartbeat { beats }), reporter)
    };
    let Reply::Answer(Ok(outcome)) = send(world, cluster, &request).await else { return false };
    emit(world, cluster, tenant, jobs, reporter).await;
    let Answer::Renewed(answers) = outcome.answer else { return false };
    answers.iter().any(|answer| !matches!(answer, Ok(beaten) if beaten.order == Order::Continue))
}

/// Emits an event about one of the jobs, sometimes under a lease that is lost.
async fn emit(world: &World, cluster: &Cluster, tenant: &Tenant, jobs: &[Job], reporter: &Option<Arc<Reporter>>) {
    let request = {
        let workload = &mut world.state().workload;
        let event = workload.event(&jobs[0]);
        event.map(|event| reported(workload.numbered(tenant.clone(), Op::Emit(event)), reporter))
    };
    if let Some(request) = request {
        send(world, cluster, &request).await;
    }
}

async fn end(world: &World, cluster: &Cluster, tenant: &Tenant, jobs: &[Job], reporter: &Option<Arc<Reporter>>) {
    let request = {
        let state = &mut *world.state();
        let ends: Vec<End> = jobs.iter().map(|_| state.workload.lease_end(&mut state.random, tenant)).collect();
        let items = jobs.iter().zip(ends).map(|(job, end)| Finish { job: job.id, fence: job.life.fence, end });
        let op = Op::Finish { items: items.collect() };
        reported(state.workload.numbered(tenant.clone(), op), reporter)
    };
    let twice = world.state().random.one_in(6);
    for _ in 0..ATTEMPTS {
        let answered = matches!(send(world, cluster, &request).await, Reply::Answer(Ok(_)));
        if answered && !twice || world.state().judge.failure.is_some() {
            return;
        }
    }
}

/// Rescues expired leases, resumes jobs that await their budget, and removes jobs after their retention.
pub(crate) async fn job_maintenance(world: Arc<World>, cluster: Arc<Cluster>) {
    let store = SimStore::new(&world, Node { place: world.plan.nodes, life: 0 });
    while !world.is_over() {
        let pause = 100 + world.state().random.below(300);
        sleep(Duration::from_millis(pause)).await;
        for request in maintenance_requests(&world, &store).await {
            send(&world, &cluster, &request).await;
        }
    }
}

/// Returns the maintenance requests that are due.
pub(super) async fn maintenance_requests(world: &World, store: &SimStore) -> Vec<Request> {
    let Ok(due) = store.due_jobs(MAINTAINED_MAX).await else { return Vec::new() };
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
