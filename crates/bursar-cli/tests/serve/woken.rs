//! How soon a worker that waits on one node hears of a job that is enqueued on another.

use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{PATIENCE, Process, now};

const OPERATOR: &str = "the operator's token, the same on both nodes";
/// Jobs that are looked at, one after the other.
const ROUNDS: usize = 40;
/// What is promised, from the request that enqueues to the worker's answer.
const SOON: Duration = Duration::from_millis(50);
/// Where the machine is so slow that a node needs longer for its own workers, another node may need so many times as long.
const TIMES_MAX: u32 = 5;

#[test]
fn a_job_of_one_node_wakes_who_waits_on_the_other_within_50_ms() {
    let url = bursar_testkit::fresh_database();
    let env = [("BURSAR_OPERATOR_TOKEN", OPERATOR)];
    let (one, two) = (Process::start(&url, &env), Process::start(&url, &env));
    // The first rounds make connections and plans; they are not looked at.
    rounds(&one, &two, 5);
    let own = rounds(&two, &two, ROUNDS);
    let other = rounds(&one, &two, ROUNDS);
    let (own, other, last) = (median(&own), median(&other), other[other.len() * 99 / 100]);
    eprintln!("woken by the other node: median {other:?}, p99 {last:?}; by its own: median {own:?}");
    assert!(
        other <= SOON.max(own * TIMES_MAX),
        "a job of the other node takes {other:?}, one of its own {own:?}, and {SOON:?} are promised"
    );
    assert_eq!((one.end().0, two.end().0), (Some(0), Some(0)));
}

/// How long it takes until a worker that waits on one node has a job that is enqueued on another, in order of length.
fn rounds(enqueues: &Process, waits: &Process, rounds: usize) -> Vec<Duration> {
    let lease = json!({ "queues": ["media"], "wait_ms": 60_000 });
    let round = |_| {
        let waiting = waits.send(OPERATOR, "POST", "/v1/jobs/lease", lease.clone());
        let began = now();
        while waits.figure(OPERATOR, "bursar_lease_waiters") == 0 {
            assert!(began.elapsed() < PATIENCE, "nobody waits");
        }
        let began = now();
        let (status, job) = enqueues.ask(OPERATOR, "POST", "/v1/jobs", json!({ "queue": "media", "kind": "k" }));
        assert_eq!(status, 201, "{job}");
        let (status, leased) = waiting.answer();
        let took = began.elapsed();
        assert_eq!((status, &leased["jobs"][0]["id"]), (200, &job["id"]), "it is the job that was enqueued");
        let done = json!({ "fence": leased["jobs"][0]["lease"]["fence"], "result": Value::Null });
        let path = format!("/v1/jobs/{}/complete", job["id"].as_str().unwrap());
        assert_eq!(waits.ask(OPERATOR, "POST", &path, done).0, 200);
        took
    };
    let mut took: Vec<_> = (0..rounds).map(round).collect();
    took.sort();
    took
}

fn median(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() / 2]
}
