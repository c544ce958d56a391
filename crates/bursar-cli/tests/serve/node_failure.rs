//! One of two nodes is killed under load: no answered command is lost, and a retried command runs once.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

use serde_json::{Value, json};

use crate::process::{Process, Stream, TIMEOUT};

const OPERATOR: &str = "the operator's token, the same on both nodes";
const ENV: [(&str, &str); 1] = [("BURSAR_OPERATOR_TOKEN", OPERATOR)];
/// The number of nodes that are killed, one after the other.
const KILLS: usize = 3;
/// Client threads per node.
const CALLERS: usize = 3;
/// Commands answered by each node before the kill, and by the survivor after it.
const ENOUGH: usize = 20;
/// Short enough that a test can wait for its expiry.
const LEASE_MS: u64 = 1_000;

#[test]
fn killing_one_of_two_nodes_loses_no_answered_command() {
    let url = bursar_testkit::fresh_database();
    let survivor = Process::start(&url, &ENV);
    let stream = Stream::open(&survivor, OPERATOR, "journal");
    let received = std::thread::spawn(move || read_until_end(stream));
    let budget = json!({ "limits": [{ "amount": 1_000_000, "window": "lifetime" }] });
    assert_eq!(survivor.request(OPERATOR, "PUT", "/v1/budgets/room", budget).0, 200);

    let mut commands = Commands::default();
    for kill in 0..KILLS {
        let victim = Process::start(&url, &ENV);
        let leased = commands.under_load(kill, &victim, &survivor);
        assert_lease_is_taken_over(&survivor, &leased);
    }
    let Commands { answered, unknown } = commands;
    assert_eq!(unknown.len(), KILLS * CALLERS, "each client of a killed node lost one response");

    // A retry on the survivor runs the command once and returns one answer.
    let mut done = answered.clone();
    let mut executed = 0;
    for key in unknown {
        let first = post(survivor.address, &key).expect("the survivor answers");
        let again = post(survivor.address, &key).expect("the survivor answers");
        assert_eq!((first.status, again.status, again.replayed), (201, 201, true), "{key}");
        assert_eq!(first.body, again.body, "{key}");
        executed += usize::from(first.replayed);
        done.insert(key, first.body);
    }
    eprintln!(
        "{} commands were answered; of {} without a response {executed} had been executed",
        answered.len(),
        KILLS * CALLERS
    );
    for (key, answer) in &answered {
        let path = format!("/v1/commands/{}", answer["id"].as_str().unwrap());
        let (status, mut found) = survivor.request(OPERATOR, "GET", &path, Value::Null);
        take_replayed(&mut found);
        assert_eq!((status, &found), (200, answer), "{key} was answered before");
        let again = post(survivor.address, key).expect("the survivor answers");
        assert_eq!((again.status, again.replayed, &again.body), (201, true, answer), "{key} is replayed");
    }
    // Each command was executed once: one unit and one job.
    let (_, room) = survivor.request(OPERATOR, "GET", "/v1/budgets/room", Value::Null);
    assert_eq!(room["balances"][0]["posted"], done.len(), "{room}");
    assert_eq!(payloads(&survivor), done.keys().cloned().collect::<Vec<_>>());
    let (status, verified) = survivor.request(OPERATOR, "GET", "/v1/verify", Value::Null);
    assert_eq!((status, &verified["ok"]), (200, &json!(true)), "{verified}");

    // The survivor's event stream delivered every position, in order, as in the journal.
    assert_eq!(survivor.request(OPERATOR, "POST", "/v1/jobs", json!({ "queue": END, "kind": "k" })).0, 201);
    let received = received.join().expect("the stream reaches the last event");
    let positions: Vec<u64> = received.iter().map(|(position, _)| *position).collect();
    assert_eq!(positions, (1..=positions.len() as u64).collect::<Vec<_>>(), "no gaps and no duplicates");
    let journal = journal(&survivor, positions.len());
    for ((position, event), stored) in received.iter().zip(&journal) {
        assert_eq!(event, stored, "the event at {position} equals the journal's");
    }
    assert_eq!(received.len(), journal.len());
    assert_eq!(survivor.stop().0, Some(0));
}

/// What clients know of their commands, by idempotency key.
#[derive(Default)]
struct Commands {
    answered: BTreeMap<String, Value>,
    unknown: Vec<String>,
}

impl Commands {
    /// Kills a node while both are under load; returns the job that one of its workers had leased.
    fn under_load(&mut self, kill: usize, victim: &Process, survivor: &Process) -> Value {
        let (known, more, stop) = (Mutex::new(self), Condvar::new(), AtomicBool::new(false));
        let caller = |node: &str, address: SocketAddr, caller: usize| {
            for number in 0.. {
                let key = format!("{node}-{kill}-{caller}-{number}");
                match post(address, &key) {
                    Some(answer) => {
                        assert_eq!((answer.status, answer.replayed), (201, false), "{}", answer.body);
                        known.lock().unwrap().answered.insert(key, answer.body);
                    }
                    // The command may have been executed or not; the client cannot know.
                    None => {
                        known.lock().unwrap().unknown.push(key);
                        more.notify_all();
                        return;
                    }
                }
                more.notify_all();
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        };
        let until = |what: &str, enough: &dyn Fn(&Commands) -> bool| {
            let short = |known: &mut &mut Commands| !enough(known);
            let waited = more.wait_timeout_while(known.lock().unwrap(), TIMEOUT, short).unwrap().1;
            assert!(!waited.timed_out(), "{what}");
        };
        let count = |known: &Commands, node: &str| {
            known.answered.keys().filter(|key| key.starts_with(&format!("{node}-{kill}-"))).count()
        };
        std::thread::scope(|threads| {
            for number in 0..CALLERS {
                threads.spawn(move || caller("victim", victim.address, number));
                threads.spawn(move || caller("survivor", survivor.address, number));
            }
            let leased = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                until("both nodes answer", &|known| {
                    count(known, "victim") >= ENOUGH && count(known, "survivor") >= ENOUGH
                });
                let leased = lease_with_a_hold(victim);
                victim.kill();
                until("every client of the killed node lost a response", &|known| {
                    known.unknown.len() == (kill + 1) * CALLERS
                });
                let so_far = count(&known.lock().unwrap(), "survivor");
                until("the survivor keeps answering", &|known| count(known, "survivor") >= so_far + ENOUGH);
                leased
            }));
            // Stop the clients even after a panic.
            stop.store(true, Ordering::Relaxed);
            leased.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Leases a job that holds ten units, through a node.
fn lease_with_a_hold(node: &Process) -> Value {
    let limits = json!([{ "amount": 1_000, "window": "lifetime" }]);
    let command = json!({
        "charges": [{ "scope": "slow", "amount": 10, "limits": limits }], "settle": "job",
        "jobs": [{ "queue": "slow", "kind": "k" }],
    });
    let (status, made) = node.request(OPERATOR, "POST", "/v1/commands", command);
    assert_eq!(status, 201, "{made}");
    let lease = json!({ "queues": ["slow"], "lease_ms": LEASE_MS, "worker": "on the victim" });
    let (status, leased) = node.request(OPERATOR, "POST", "/v1/jobs/lease", lease);
    assert_eq!((status, &leased["jobs"][0]["id"]), (200, &made["jobs"][0]["id"]), "{leased}");
    leased["jobs"][0].clone()
}

/// Asserts that the survivor leases the job again, and that the first lease can no longer complete it.
fn assert_lease_is_taken_over(survivor: &Process, leased: &Value) {
    let fence = |leased: &Value| leased["lease"]["fence"].as_u64().unwrap();
    let lease = json!({ "queues": ["slow"], "wait_ms": 60_000, "worker": "on the survivor" });
    let (status, again) = survivor.request(OPERATOR, "POST", "/v1/jobs/lease", lease);
    let again = &again["jobs"][0];
    assert_eq!((status, &again["id"]), (200, &leased["id"]), "the job is leased again after its lease expired");
    assert!(fence(again) > fence(leased), "{again}");
    let path = format!("/v1/jobs/{}/complete", leased["id"].as_str().unwrap());
    let complete = |body: Value| survivor.request(OPERATOR, "POST", &path, body);
    let spent =
        || survivor.request(OPERATOR, "GET", "/v1/budgets/slow/spent", Value::Null).1["spent"].as_i64().unwrap();
    let before = spent();
    let (status, lost) = complete(json!({ "fence": fence(leased) }));
    assert_eq!((status, &lost["type"]), (409, &json!("/problems/lease-lost")), "{lost}");
    let (status, done) = complete(json!({ "fence": fence(again), "usage": [{ "amount": 7 }] }));
    assert_eq!((status, &done["state"]), (200, &json!("succeeded")), "{done}");
    assert_eq!(spent(), before + 7, "completing the job settles its hold");
}

/// The queue of the last job of all.
const END: &str = "end";

/// Reads events until the last job; returns their positions and data.
fn read_until_end(mut stream: Stream) -> Vec<(u64, Value)> {
    let mut received = Vec::new();
    loop {
        let (position, kind, data) = stream.next();
        let last = kind == "job.enqueued" && data["data"]["spec"]["queue"] == END;
        received.push((position, data));
        if last {
            return received;
        }
    }
}

/// Reads the first events of the journal.
fn journal(node: &Process, most: usize) -> Vec<Value> {
    let (mut events, mut after) = (Vec::new(), "0".to_owned());
    while events.len() < most {
        let (status, page) =
            node.request(OPERATOR, "GET", &format!("/v1/journal?limit=1000&after={after}"), Value::Null);
        assert_eq!(status, 200, "{page}");
        events.extend(page["items"].as_array().unwrap().iter().cloned());
        after = page["next"].as_str().expect("a next page").to_owned();
    }
    events.truncate(most);
    events
}

/// Returns the sorted payloads of all jobs.
fn payloads(node: &Process) -> Vec<String> {
    let (mut payloads, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/jobs?queue=media&limit=1000{cursor}");
        let (status, page) = node.request(OPERATOR, "GET", &path, Value::Null);
        assert_eq!(status, 200, "{page}");
        let found = page["items"].as_array().unwrap();
        payloads.extend(found.iter().map(|job| job["payload"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    payloads.sort();
    payloads
}

struct Answer {
    status: u16,
    replayed: bool,
    body: Value,
}

/// Submits a command of one unit and one job under a key. Returns `None` if no complete response arrived.
fn post(address: SocketAddr, key: &str) -> Option<Answer> {
    let body = json!({
        "charges": [{ "scope": "room", "amount": 1 }],
        "jobs": [{ "queue": "media", "kind": "k", "payload": key }],
    })
    .to_string();
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let head = format!(
        "POST /v1/commands HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {OPERATOR}\r\nIdempotency-Key: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).ok()?;
    let mut stream = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|length| *length > 0).map(|_| line.trim().to_ascii_lowercase())
    };
    let status = line()?.split(' ').nth(1)?.parse().ok()?;
    let mut replayed = false;
    loop {
        match line()?.as_str() {
            "" => break,
            header => replayed |= header == "idempotent-replayed: true",
        }
    }
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let mut body = serde_json::from_str(&text).ok()?;
    assert_eq!(take_replayed(&mut body), Some(json!(replayed)), "header and body agree: {body}");
    Some(Answer { status, replayed, body })
}

/// Removes the field that differs between the first answer and a replay.
fn take_replayed(answer: &mut Value) -> Option<Value> {
    answer.as_object_mut()?.remove("replayed")
}
