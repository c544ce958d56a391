//! Callers: they ask, wait, lose messages, and ask again with the same key.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar::{Bursar, Error, Outcome, Request, StoreError};
use tokio::time::{sleep, timeout};

use super::store::{SimStore, commit};
use super::world::{Node, World};

/// How often a caller asks at most.
const ATTEMPTS: u64 = 5;

/// The nodes that are up.
#[derive(Default)]
pub(crate) struct Cluster(Mutex<Vec<Option<(Node, Bursar)>>>);

impl Cluster {
    pub(crate) fn set(&self, place: usize, node: Option<(Node, Bursar)>) {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if nodes.len() <= place {
            nodes.resize_with(place + 1, || None);
        }
        nodes[place] = node;
    }

    pub(crate) fn get(&self, place: usize) -> Option<(Node, Bursar)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(place)?.clone()
    }
}

/// What came back.
pub(super) enum Reply {
    Answer(Result<Outcome, Error>),
    /// Nothing: the message, the answer or the node was lost.
    Nothing,
}

/// Asks for one thing after the other until the run is over.
pub(crate) async fn caller(world: Arc<World>, cluster: Arc<Cluster>) {
    while !world.is_over() {
        let (pause, request) = {
            let state = &mut *world.state();
            let pause = if state.chance.one_in(2) { 0 } else { state.chance.below(20) };
            (pause, state.workload.next(&mut state.chance))
        };
        if pause > 0 {
            sleep(Duration::from_millis(pause)).await;
        }
        ask(&world, &cluster, request).await;
    }
}

async fn ask(world: &Arc<World>, cluster: &Arc<Cluster>, request: Request) {
    let keyed = request.idempotency_key.is_some();
    if keyed && world.state().chance.one_in(30) {
        // The network delivers it a second time, some time.
        let (world, cluster, twin) = (world.clone(), cluster.clone(), request.clone());
        tokio::spawn(async move {
            send(&world, &cluster, &twin).await;
        });
    }
    for _ in 0..ATTEMPTS {
        let again = match send(world, cluster, &request).await {
            Reply::Answer(Ok(outcome)) => {
                let state = &mut *world.state();
                state.workload.learn(&mut state.chance, &request, &outcome);
                false
            }
            Reply::Answer(Err(Error::Refused(_))) => false,
            Reply::Answer(Err(_)) | Reply::Nothing => keyed,
        };
        if !again || world.state().judge.failure.is_some() {
            return;
        }
    }
}

/// One message to one node, and what comes back of it.
pub(super) async fn send(world: &World, cluster: &Cluster, request: &Request) -> Reply {
    let (place, patience, there, back) = {
        let state = &mut *world.state();
        let place = state.chance.below(world.plan.nodes as u64) as usize;
        let patience = if state.chance.one_in(8) { 20 + state.chance.below(200) } else { 8_000 };
        let mut way = || (state.chance.one_in(world.plan.lose_message_in), late(&mut state.chance));
        (place, patience, way(), way())
    };
    let patience = Duration::from_millis(patience);
    sleep_some(there.1).await;
    let Some((node, bursar)) = cluster.get(place).filter(|_| !there.0) else {
        sleep(Duration::from_millis(50)).await;
        return Reply::Nothing;
    };
    let answer = timeout(patience, bursar.request(request.clone())).await;
    drop(bursar);
    // Whoever waits for a node that died meanwhile waits in vain.
    let Some(answer) = answer.ok().filter(|_| world.is_alive(node)) else { return Reply::Nothing };
    judge(world, node, request, &answer);
    sleep_some(back.1).await;
    if back.0 { Reply::Nothing } else { Reply::Answer(answer) }
}

fn late(chance: &mut super::chance::Chance) -> u64 {
    if chance.one_in(40) {
        100 + chance.below(900)
    } else if chance.one_in(3) {
        chance.below(10)
    } else {
        0
    }
}

async fn sleep_some(millis: u64) {
    if millis > 0 {
        sleep(Duration::from_millis(millis)).await;
    }
}

/// What a node answers must be so.
fn judge(world: &World, node: Node, request: &Request, answer: &Result<Outcome, Error>) {
    let mut state = world.state();
    match answer {
        Ok(outcome) => state.judge.acknowledged(node, request, &Ok(outcome.clone())),
        Err(Error::Refused(refusal)) => state.judge.acknowledged(node, request, &Err(refusal.clone())),
        Err(Error::Overloaded { .. }) => state.judge.note(&[2]),
        Err(Error::Store(error)) => match &**error {
            StoreError::Busy(_) => state.judge.note(&[3]),
            StoreError::UnknownOutcome(_) => state.judge.note(&[4]),
            // A connection that is lost again and again.
            StoreError::Unavailable { .. } => state.judge.note(&[5]),
            other => state.judge.fail("no strange error", format!("{other:?} was answered to {request:?}")),
        },
        Err(other) => state.judge.fail("no strange error", format!("{other:?} was answered to {request:?}")),
    }
}

/// A caller that does requests within transactions of its own, holds them open, and commits or not.
pub(crate) async fn stranger(world: Arc<World>) {
    // It has no node: nothing crashes it.
    let store = SimStore::new(&world, Node { place: world.plan.nodes, life: 0 });
    while !world.is_over() {
        let (pause, parts, held, gives_up) = {
            let chance = &mut world.state().chance;
            let held = if chance.one_in(8) { chance.below(3_000) } else { chance.below(60) };
            (20 + chance.below(200), 1 + chance.below(3), held, chance.one_in(4))
        };
        sleep(Duration::from_millis(pause)).await;
        let Some(mut tx) = store.begin(Duration::from_secs(2)).await else { continue };
        let mut decisions = Vec::new();
        for _ in 0..parts {
            let mut request = {
                let state = &mut *world.state();
                state.workload.next(&mut state.chance)
            };
            // What its transaction did may be undone, so that only its own commit tells.
            request.dry_run = false;
            if request.check().is_err() {
                continue;
            }
            let Some(decision) = store.part(&mut tx, &request).await else {
                decisions.clear();
                break;
            };
            decisions.push(decision);
        }
        sleep_some(held).await;
        if !decisions.is_empty() && !gives_up {
            commit(&mut tx, &decisions);
        }
    }
}
