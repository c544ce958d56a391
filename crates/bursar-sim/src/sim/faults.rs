//! Injected faults: nodes crash, the clock jumps, the disk stalls.

use std::sync::Arc;
use std::time::Duration;

use bursar::Bursar;
use tokio::time::{Instant, sleep};

use super::caller::Cluster;
use super::model::HALF_HOUR_CHANGE;
use super::store::SimStore;
use super::world::{Node, World};

/// The most microseconds that jumps may put the clock ahead: the model knows only one change to summer time.
const AHEAD_MAX: i64 = 150 * 86_400 * 1_000_000;

/// Starts a node in its current life.
pub(crate) fn start(world: &Arc<World>, cluster: &Cluster, place: usize) {
    let node = Node { place, life: world.state().lives[place] };
    let store = Arc::new(SimStore::new(world, node));
    let plan = &world.plan;
    let bursar = Bursar::options("")
        .rules(world.rules.clone())
        .lanes(plan.lanes)
        .batch(plan.batch)
        .queue(60)
        .patience(Duration::from_secs(3))
        .upkeep(Some(Duration::from_millis(500)))
        .open_on(store);
    let mut notices = bursar.listen();
    cluster.set(place, Some((node, bursar)));
    let world = world.clone();
    tokio::spawn(async move {
        while let Some(Ok(notice)) = notices.next().await {
            if !world.is_alive(node) {
                return;
            }
            world.state().judge.notified(node, notice.command());
        }
    });
}

/// Crashes and restarts nodes.
pub(crate) async fn crashes(world: Arc<World>, cluster: Arc<Cluster>) {
    while world.plan.crash_every_ms > 0 && !world.is_over() {
        let (pause, place, down) = {
            let random = &mut world.state().random;
            let pause = random.below(2 * world.plan.crash_every_ms);
            (pause, random.below(world.plan.nodes as u64) as usize, 10 + random.below(300))
        };
        sleep(Duration::from_millis(pause)).await;
        world.crash(place);
        world.state().judge.log(&format!("node {place} crashed"));
        cluster.set(place, None);
        sleep(Duration::from_millis(down)).await;
        start(&world, &cluster, place);
        world.state().judge.log(&format!("node {place} started"));
    }
}

/// Makes the clock jump forward, mostly by little, and back.
pub(crate) async fn jumps(world: Arc<World>) {
    while world.plan.jump_every_ms > 0 && !world.is_over() {
        let (pause, jump) = {
            let mut state = world.state();
            let now = world.now(&state).micros();
            let random = &mut state.random;
            let pause = random.below(2 * world.plan.jump_every_ms);
            let jump = match random.below(12) {
                0..5 => random.between(1, 3_000) * 1_000,
                5..7 => random.between(1, 60) * 1_000_000,
                7 => 3_600 * 1_000_000,
                8 => 25 * 3_600 * 1_000_000,
                9 => (HALF_HOUR_CHANGE - random.between(0, 3_000_000) - now).max(1_000),
                _ => -random.between(1, 60_000) * 1_000,
            };
            (pause, jump)
        };
        sleep(Duration::from_millis(pause)).await;
        let mut state = world.state();
        if state.clock_off + jump < AHEAD_MAX {
            state.clock_off += jump;
            state.judge.log(&format!("the clock jumped by {} ms", jump / 1_000));
        }
    }
}

/// Makes the disk slow for a while.
pub(crate) async fn stalls(world: Arc<World>) {
    while world.plan.stall_every_ms > 0 && !world.is_over() {
        let (pause, length) = {
            let random = &mut world.state().random;
            (random.below(2 * world.plan.stall_every_ms), random.below(150))
        };
        sleep(Duration::from_millis(pause)).await;
        let mut state = world.state();
        state.stalled_until = Instant::now() + Duration::from_millis(length);
        state.judge.log(&format!("the disk stalls for {length} ms"));
    }
}
