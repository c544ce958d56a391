//! The simulator: real rules, real transactions and real engines over a simulated database, network and clock, in virtual
//! time. A seed reproduces a run exactly.

mod blob_bytes;
mod blob_life;
mod blob_requests;
mod blobs;
mod caller;
mod collector;
mod drain;
mod engines;
mod event_cursor;
mod expect;
mod faults;
mod follow;
mod holds;
mod jobs;
mod judge;
mod lines;
mod locks;
mod model;
pub mod mutation;
mod operate;
mod past;
mod plan;
mod random;
mod rebuild;
mod reports;
mod settle;
mod store;
mod store_archive;
mod store_reads;
mod transaction;
mod worker;
mod worker_requests;
mod workload;
mod world;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

pub use self::engines::run_on;
pub use self::judge::Failure;

use self::caller::{Cluster, caller, transaction_caller};
use self::collector::collector;
use self::plan::Plan;
use self::worker::{job_maintenance, worker};
use self::world::World;

/// Tasks that collect blobs at the same time.
const COLLECTORS: usize = 2;
/// How long callers may take to finish, in virtual time.
const END_TIMEOUT: Duration = Duration::from_secs(600);

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The seed of the run.
    pub seed: u64,
    /// Requests that were decided.
    pub decided: u64,
    /// How many of them were refused.
    pub refused: u64,
    /// How many were replayed.
    pub replayed: u64,
    /// Batches in the journal: transactions with an effect.
    pub batches: u64,
    /// Crashes of nodes.
    pub crashes: u64,
    /// Virtual time, in milliseconds.
    pub millis: i64,
    /// A digest of all events of the run, in order.
    pub digest: u64,
    /// The first violation, if any.
    pub failure: Option<Failure>,
}

/// Runs the world of a seed until `commands` requests are decided or a check fails.
///
/// # Panics
/// When the runtime cannot be created.
#[must_use]
pub fn run(seed: u64, commands: u64) -> Summary {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without threads can be created");
    runtime.block_on(run_world(seed, Plan::of(seed, commands)))
}

async fn run_world(seed: u64, plan: Plan) -> Summary {
    let world = World::new(seed, plan);
    let cluster = Arc::new(Cluster::default());
    for place in 0..world.plan.nodes {
        faults::start(&world, &cluster, place);
    }
    let mut tasks = JoinSet::new();
    for _ in 0..world.plan.callers {
        tasks.spawn(caller(world.clone(), cluster.clone()));
    }
    for _ in 0..world.plan.transaction_callers {
        tasks.spawn(transaction_caller(world.clone()));
    }
    for place in 0..world.plan.workers {
        tasks.spawn(worker(world.clone(), cluster.clone(), place));
    }
    if world.plan.workers > 0 {
        tasks.spawn(job_maintenance(world.clone(), cluster.clone()));
    }
    for _ in 0..if world.plan.blobs { COLLECTORS } else { 0 } {
        tasks.spawn(collector(world.clone(), cluster.clone()));
    }
    tasks.spawn(faults::crashes(world.clone(), cluster.clone()));
    tasks.spawn(faults::jumps(world.clone()));
    tasks.spawn(faults::stalls(world.clone()));
    let ended = tokio::time::timeout(END_TIMEOUT, async { while tasks.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        world.fail("every caller is answered", format!("a caller still waits after {END_TIMEOUT:?}"));
    }
    check_stored(&world, true);
    if world.plan.workers > 0 && world.state().judge.failure.is_none() {
        drain::drain(&world, &cluster).await;
    }
    if world.plan.blobs && world.state().judge.failure.is_none() {
        collector::drain(&world, &cluster).await;
    }
    if world.plan.workers > 0 || world.plan.blobs {
        check_stored(&world, false);
    }
    finish(seed, &world)
}

/// Compares all stored rows with the model and, if `rebuild`, with a rebuild from the journal.
fn check_stored(world: &World, rebuild: bool) {
    let state = &mut *world.state();
    if state.judge.failure.is_some() {
        return;
    }
    let checked = rebuild::compare_all(&mut state.judge, &state.tables);
    let checked = if rebuild { checked.and_then(|()| rebuild::rebuild(&state.tables)) } else { checked };
    if let Err((check, what)) = checked {
        state.judge.fail(check, what);
    }
}

fn finish(seed: u64, world: &World) -> Summary {
    let state = &mut *world.state();
    let crashes = state.lives.iter().sum();
    if state.judge.failure.is_none() {
        let lives = &state.lives;
        state.judge.check_notified(|node| lives[node.place] == node.life);
    }
    let judge = &state.judge;
    Summary {
        seed,
        decided: judge.decided,
        refused: judge.refused,
        replayed: judge.replayed,
        batches: state.tables.journal.rows().len() as u64,
        crashes,
        millis: world.elapsed_micros() / 1_000,
        digest: judge.digest,
        failure: judge.failure.clone(),
    }
}
