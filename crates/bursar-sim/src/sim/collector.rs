//! The collection of blobs, on several nodes at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bursar_core::blob::{Blob, BlobState};
use bursar_core::id::BlobId;
use bursar_core::name::Tenant;
use bursar_core::request::{BlobOp, Op, Request};
use bursar_store::Maintain as _;
use tokio::time::sleep;

use super::caller::{Cluster, send};
use super::store::SimStore;
use super::world::{Node, World};

/// Blobs per round.
const COLLECTED_MAX: usize = 20;
/// The most rounds until every blob that is due is collected, and the microseconds that the clock advances between two.
const ROUNDS: usize = 100;
const BETWEEN: i64 = 1_000_000;

/// Dooms and collects blobs until the run is over. The list that it works on may be out of date.
pub(crate) async fn collector(world: Arc<World>, cluster: Arc<Cluster>) {
    let store = SimStore::new(&world, Node { place: world.plan.nodes, life: 0 });
    while !world.is_over() {
        let (pause, delay) = {
            let random = &mut world.state().random;
            (50 + random.below(250), random.below(80))
        };
        sleep(Duration::from_millis(pause)).await;
        let Ok(due) = store.due_blobs(COLLECTED_MAX).await else { continue };
        sleep(Duration::from_millis(delay)).await;
        for request in requests(&world, due) {
            send(&world, &cluster, &request).await;
        }
    }
}

/// Collects every blob that is due, and checks that none is left.
pub(crate) async fn drain(world: &Arc<World>, cluster: &Cluster) {
    let store = SimStore::new(world, Node { place: world.plan.nodes, life: 0 });
    for _ in 0..ROUNDS {
        if world.state().judge.failure.is_some() {
            return;
        }
        world.state().clock_off += BETWEEN;
        let Ok(due) = store.due_blobs(usize::MAX).await else { continue };
        if due.is_empty() {
            break;
        }
        for request in requests(world, due) {
            send(world, cluster, &request).await;
        }
    }
    let left = {
        let state = world.state();
        state.judge.model.blobs_to_collect(world.now(&state).micros())
    };
    if !left.is_empty() {
        world.fail("no blob is left behind", format!("{left:?} are due, but not collected"));
    }
}

/// Returns the requests that doom blobs, and remove those whose bytes are deleted.
fn requests(world: &World, due: Vec<Blob>) -> Vec<Request> {
    let mut by_tenant: BTreeMap<(Tenant, bool), Vec<BlobId>> = BTreeMap::new();
    for blob in due {
        by_tenant.entry((blob.tenant, blob.state == BlobState::Doomed)).or_default().push(blob.id);
    }
    let request = |((tenant, doomed), blobs): ((Tenant, bool), Vec<BlobId>)| {
        let op = if doomed { BlobOp::Collect { blobs } } else { BlobOp::Doom { blobs } };
        world.state().workload.numbered(tenant, Op::Blob(op))
    };
    by_tenant.into_iter().map(request).collect()
}
