//! The end of a world with workers: every job can be leased and ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bursar_core::answer::{Answer, Outcome};
use bursar_core::id::JobId;
use bursar_core::job::{End, Finish, JobState, LeaseRequest, QueueConfig};
use bursar_core::name::{Tenant, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::request::{Act, Op, Request};
use bursar_core::time::Span;
use bursar_store::Maintain as _;
use tokio::time::sleep;

use super::caller::Cluster;
use super::store::SimStore;
use super::worker::maintenance_requests;
use super::worker_requests::queues;
use super::world::{Node, World};

/// The most rounds until every job has ended, and the microseconds that the clock advances between two.
const ROUNDS: usize = 250;
const BETWEEN: i64 = 2_000_000;
/// The longest time until a job that awaits its budget is checked again, in microseconds.
const CHECKED_WITHIN: i64 = 61_000_000;
/// Jobs leased at once.
const CAPACITY: u32 = 50;

/// Completes every job, without injected faults.
pub(crate) async fn drain(world: &Arc<World>, cluster: &Cluster) {
    let store = SimStore::new(world, Node { place: world.plan.nodes, life: 0 });
    for (tenant, queue, config) in paused(world) {
        let config = QueueConfig { paused: false, ..config };
        send(world, cluster, tenant, Op::DefineQueue { queue, config }).await;
    }
    for _ in 0..ROUNDS {
        if world.state().judge.failure.is_some() || world.state().judge.model.unended.is_empty() {
            return;
        }
        let parked = all_parked(world);
        world.state().clock_off += if parked.is_empty() { BETWEEN } else { CHECKED_WITHIN };
        if !parked.is_empty() {
            resume_or_cancel(world, cluster, &store, parked).await;
            continue;
        }
        for request in maintenance_requests(world, &store).await {
            send_until_answered(world, cluster, request).await;
        }
        let tenants = world.state().workload.tenants.clone();
        for tenant in tenants {
            lease_and_complete(world, cluster, tenant).await;
        }
    }
    let left = world.state().judge.model.unended.clone();
    let rows: Vec<_> = left.iter().filter_map(|id| world.state().tables.jobs.get(id).cloned()).take(3).collect();
    let what = format!("{} jobs never ended, such as {rows:?}", left.len());
    world.fail("no lost wake", what);
}

fn paused(world: &World) -> Vec<(Tenant, bursar_core::name::Queue, QueueConfig)> {
    let state = world.state();
    let paused = state.tables.queues.iter().filter(|(_, queue)| queue.config.paused);
    paused.map(|((tenant, name), queue)| (tenant.clone(), name.clone(), queue.config.clone())).collect()
}

/// Returns the jobs that have not ended if all of them await their budgets.
fn all_parked(world: &World) -> Vec<JobId> {
    let state = world.state();
    let model = &state.judge.model;
    let parked = |id: &&JobId| model.jobs[id].state == JobState::AwaitingBudget;
    let waiting: Vec<JobId> = model.unended.iter().filter(parked).copied().collect();
    if waiting.len() == model.unended.len() { waiting } else { Vec::new() }
}

/// Resumes jobs that await their budgets, and cancels them if that fails.
async fn resume_or_cancel(world: &World, cluster: &Cluster, store: &SimStore, parked: Vec<JobId>) {
    let Ok(due) = store.due_jobs(usize::MAX).await else { return };
    // A node may have checked a job just now; then it is due again within the same time.
    let soon = {
        let state = world.state();
        let until = world.now(&state).after(Span::from_micros(CHECKED_WITHIN));
        let soon = |id: &JobId| state.tables.jobs.get(id).is_some_and(|job| job.life.run_at <= until);
        parked.iter().copied().filter(soon).collect::<Vec<_>>()
    };
    let is_due = |id: &JobId| due.awaiting.iter().any(|(_, due)| due == id);
    if let Some(lost) = parked.iter().find(|id| !is_due(id) && !soon.contains(id)) {
        return world.fail("no lost wake", format!("{lost} awaits its budget and is never checked again"));
    }
    let mut by_tenant: BTreeMap<Tenant, Vec<JobId>> = BTreeMap::new();
    due.awaiting.into_iter().for_each(|(tenant, job)| by_tenant.entry(tenant).or_default().push(job));
    for (tenant, jobs) in by_tenant {
        send(world, cluster, tenant.clone(), Op::Act { act: Act::Resume, jobs: jobs.clone() }).await;
        send(world, cluster, tenant, Op::Act { act: Act::Cancel, jobs }).await;
    }
}

async fn lease_and_complete(world: &World, cluster: &Cluster, tenant: Tenant) {
    let worker = WorkerName::new("drain").expect("a name");
    let lease = LeaseRequest { queues: queues(), kinds: Vec::new(), capacity: CAPACITY, lease: None, worker };
    let outcome = send(world, cluster, tenant.clone(), Op::Lease(lease)).await;
    let Some(Answer::Leased(leased)) = outcome.map(|outcome| outcome.answer) else { return };
    let complete = || End::Complete { result: Payload::default(), usage: None, blobs: Vec::new() };
    let items = leased.jobs.iter().map(|job| Finish { job: job.id, fence: job.life.fence, end: complete() });
    let items: Vec<Finish> = items.collect();
    if !items.is_empty() {
        send(world, cluster, tenant, Op::Finish { items }).await;
    }
}

async fn send(world: &World, cluster: &Cluster, tenant: Tenant, op: Op) -> Option<Outcome> {
    let request = world.state().workload.numbered(tenant, op);
    send_until_answered(world, cluster, request).await
}

/// Sends a request until it is answered.
async fn send_until_answered(world: &World, cluster: &Cluster, mut request: Request) -> Option<Outcome> {
    for attempt in 0..20 {
        let place = attempt % world.plan.nodes;
        let Some((_, bursar)) = cluster.get(place) else { continue };
        if let Ok(outcome) = bursar.request(request.clone()).await {
            return Some(outcome);
        }
        // A lease request is not repeated: it could lease a second set of jobs.
        if matches!(request.op, Op::Lease(_)) {
            return None;
        }
        // A repeated definition is a second effect, so that it needs a number of its own.
        if let Op::DefineQueue { .. } = &request.op {
            request = world.state().workload.numbered(request.context.tenant, request.op);
        }
        sleep(Duration::from_millis(50)).await;
    }
    None
}
