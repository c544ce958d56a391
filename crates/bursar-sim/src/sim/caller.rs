//! Callers: they send requests over a lossy network and retry with the same key.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar::{Bursar, Error, Outcome, Request, StoreError};
use bursar_core::request::CheckedRequest;
use tokio::time::{sleep, timeout};

use super::store::{SimStore, commit};
use super::world::{Node, World};

/// The most times a caller sends a request.
const ATTEMPTS: u64 = 5;

/// The running nodes.
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

/// The reply to a message.
pub(super) enum Reply {
    Answer(Result<Outcome, Error>),
    /// No reply: the message, the answer or the node was lost.
    Nothing,
}

/// Sends one request after the other until the run is over.
pub(crate) async fn caller(world: Arc<World>, cluster: Arc<Cluster>) {
    while !world.is_over() {
        let (pause, request) = {
            let state = &mut *world.state();
            let pause = if state.random.one_in(2) { 0 } else { state.random.below(20) };
            (pause, state.workload.next(&mut state.random))
        };
        if pause > 0 {
            sleep(Duration::from_millis(pause)).await;
        }
        send_with_retries(&world, &cluster, request).await;
    }
}

async fn send_with_retries(world: &Arc<World>, cluster: &Arc<Cluster>, request: Request) {
    let keyed = request.idempotency_key.is_some();
    if keyed && world.state().random.one_in(30) {
        // The network delivers the message a second time, at any later time.
        let (world, cluster, duplicate) = (world.clone(), cluster.clone(), request.clone());
        tokio::spawn(async move {
            send(&world, &cluster, &duplicate).await;
        });
    }
    for _ in 0..ATTEMPTS {
        let retry = match send(world, cluster, &request).await {
            Reply::Answer(Ok(outcome)) => {
                let state = &mut *world.state();
                state.workload.learn(&mut state.random, &request, &outcome);
                false
            }
            Reply::Answer(Err(Error::Refused(_))) => false,
            Reply::Answer(Err(_)) | Reply::Nothing => keyed,
        };
        if !retry || world.state().judge.failure.is_some() {
            return;
        }
    }
}

/// Sends one message to a random node and returns the reply.
pub(super) async fn send(world: &World, cluster: &Cluster, request: &Request) -> Reply {
    let (place, timeout_ms, there, back) = {
        let state = &mut *world.state();
        let place = state.random.below(world.plan.nodes as u64) as usize;
        let timeout_ms = if state.random.one_in(8) { 20 + state.random.below(200) } else { 8_000 };
        let mut way = || (state.random.one_in(world.plan.lose_message_in), delay(&mut state.random));
        (place, timeout_ms, way(), way())
    };
    sleep_some(there.1).await;
    let Some((node, bursar)) = cluster.get(place).filter(|_| !there.0) else {
        sleep(Duration::from_millis(50)).await;
        return Reply::Nothing;
    };
    let answer = timeout(Duration::from_millis(timeout_ms), bursar.request(request.clone())).await;
    drop(bursar);
    // A node that crashed meanwhile does not answer.
    let Some(answer) = answer.ok().filter(|_| world.is_alive(node)) else { return Reply::Nothing };
    check_answer(world, node, request, &answer);
    sleep_some(back.1).await;
    if back.0 { Reply::Nothing } else { Reply::Answer(answer) }
}

fn delay(random: &mut super::random::Random) -> u64 {
    if random.one_in(40) {
        100 + random.below(900)
    } else if random.one_in(3) {
        random.below(10)
    } else {
        0
    }
}

async fn sleep_some(millis: u64) {
    if millis > 0 {
        sleep(Duration::from_millis(millis)).await;
    }
}

/// Passes a node's answer to the judge.
fn check_answer(world: &World, node: Node, request: &Request, answer: &Result<Outcome, Error>) {
    let mut state = world.state();
    match answer {
        Ok(outcome) => state.judge.acknowledged(node, request, &Ok(outcome.clone())),
        Err(Error::Refused(refusal)) => state.judge.acknowledged(node, request, &Err(refusal.clone())),
        Err(Error::Overloaded { .. }) => state.judge.note(&[2]),
        Err(Error::Store(error)) => match &**error {
            StoreError::Busy(_) => state.judge.note(&[3]),
            StoreError::UnknownOutcome(_) => state.judge.note(&[4]),
            // The connection was lost repeatedly.
            StoreError::Unavailable { .. } => state.judge.note(&[5]),
            other => state.judge.fail("no unexpected error", format!("{other:?} was answered to {request:?}")),
        },
        Err(other) => state.judge.fail("no unexpected error", format!("{other:?} was answered to {request:?}")),
    }
}

/// A caller that runs requests in transactions of its own, keeps them open, and commits or rolls back.
pub(crate) async fn transaction_caller(world: Arc<World>) {
    // It belongs to no node and never crashes.
    let store = SimStore::new(&world, Node { place: world.plan.nodes, life: 0 });
    while !world.is_over() {
        let (pause, parts, held, rolls_back) = {
            let random = &mut world.state().random;
            let held = if random.one_in(8) { random.below(3_000) } else { random.below(60) };
            (20 + random.below(200), 1 + random.below(3), held, random.one_in(4))
        };
        sleep(Duration::from_millis(pause)).await;
        let Some(mut tx) = store.begin(Duration::from_secs(2)).await else { continue };
        let mut decisions = Vec::new();
        for _ in 0..parts {
            let mut request = {
                let state = &mut *world.state();
                state.workload.next(&mut state.random)
            };
            // No dry runs here: decisions are judged only when their transaction commits.
            request.dry_run = false;
            let Ok(request) = CheckedRequest::new(request) else { continue };
            let Some(decision) = store.part(&mut tx, &request).await else {
                decisions.clear();
                break;
            };
            decisions.push(decision);
        }
        sleep_some(held).await;
        if !decisions.is_empty() && !rolls_back {
            commit(&mut tx, &decisions);
        }
    }
}
