//! The simulator: real rules, real load–decide–store and real engines over a database, a network and a clock that are
//! made up, in virtual time. A seed makes a run, to the event.

mod caller;
mod chance;
mod drain;
mod expect;
mod faults;
mod follow;
mod jobs;
mod judge;
mod labour;
mod lines;
mod locks;
mod model;
pub mod mutation;
mod operate;
mod plan;
mod rebuild;
mod settle;
mod store;
mod tables;
mod transaction;
mod worker;
mod workload;
mod world;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

pub use self::judge::Failure;

use self::caller::{Cluster, caller, stranger};
use self::plan::Plan;
use self::worker::{janitor, worker};
use self::world::World;

/// How long callers may take to end, in virtual time.
const END_WITHIN: Duration = Duration::from_secs(600);

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The seed it came from.
    pub seed: u64,
    /// Requests that were decided.
    pub decided: u64,
    /// How many of them were refused.
    pub refused: u64,
    /// How many were answered from the journal.
    pub replayed: u64,
    /// Rows of the journal: transactions with an effect.
    pub batches: u64,
    /// Times that a node died.
    pub crashes: u64,
    /// Milliseconds of virtual time.
    pub millis: i64,
    /// A digest of everything that happened, in order.
    pub digest: u64,
    /// What went as it must not.
    pub failure: Option<Failure>,
}

/// Runs the world of a seed until so many requests are decided, or something went as it must not.
///
/// # Panics
/// When no runtime can be made.
#[must_use]
pub fn run(seed: u64, commands: u64) -> Summary {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without threads can be made");
    runtime.block_on(live(seed, Plan::of(seed, commands)))
}

async fn live(seed: u64, plan: Plan) -> Summary {
    let world = World::new(seed, plan);
    let cluster = Arc::new(Cluster::default());
    for place in 0..world.plan.nodes {
        faults::start(&world, &cluster, place);
    }
    let mut tasks = JoinSet::new();
    for _ in 0..world.plan.callers {
        tasks.spawn(caller(world.clone(), cluster.clone()));
    }
    for _ in 0..world.plan.strangers {
        tasks.spawn(stranger(world.clone()));
    }
    for place in 0..world.plan.workers {
        tasks.spawn(worker(world.clone(), cluster.clone(), place));
    }
    if world.plan.workers > 0 {
        tasks.spawn(janitor(world.clone(), cluster.clone()));
    }
    tasks.spawn(faults::crashes(world.clone(), cluster.clone()));
    tasks.spawn(faults::jumps(world.clone()));
    tasks.spawn(faults::stalls(world.clone()));
    let ended = tokio::time::timeout(END_WITHIN, async { while tasks.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        world.fail("everybody is answered", format!("somebody still waits after {END_WITHIN:?}"));
    }
    check_stored(&world, true);
    if world.plan.workers > 0 && world.state().judge.failure.is_none() {
        drain::drain(&world, &cluster).await;
        check_stored(&world, false);
    }
    finish(seed, &world)
}

/// Everything that is stored, against the model, and against what the journal brings back.
fn check_stored(world: &World, replayed: bool) {
    let state = &mut *world.state();
    if state.judge.failure.is_some() {
        return;
    }
    let checked = rebuild::compare_all(&mut state.judge, &state.tables);
    let checked = if replayed { checked.and_then(|()| rebuild::rebuild(&state.tables)) } else { checked };
    if let Err((check, what)) = checked {
        state.judge.fail(check, what);
    }
}

fn finish(seed: u64, world: &World) -> Summary {
    let state = &mut *world.state();
    let crashes = state.lives.iter().sum();
    if state.judge.failure.is_none() {
        let lives = &state.lives;
        state.judge.check_told(|node| lives[node.place] == node.life);
    }
    let judge = &state.judge;
    Summary {
        seed,
        decided: judge.decided,
        refused: judge.refused,
        replayed: judge.replayed,
        batches: state.tables.journal.len() as u64,
        crashes,
        millis: world.elapsed_micros() / 1_000,
        digest: judge.digest,
        failure: judge.failure.clone(),
    }
}
