//! One of two nodes is killed under load: nothing that was answered is lost, and what was not answered is done once.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

use serde_json::{Value, json};

use crate::process::{PATIENCE, Process, Stream};

const OPERATOR: &str = "the operator's token, the same on both nodes";
const ENV: [(&str, &str); 1] = [("BURSAR_OPERATOR_TOKEN", OPERATOR)];
/// Nodes that are killed, one after the other.
const KILLS: usize = 3;
/// Threads that ask each of the two nodes.
const CALLERS: usize = 3;
/// Commands that are answered before a node is killed, and by the other one after that.
const ENOUGH: usize = 20;
/// So short that a test can wait for its end.
const LEASE_MS: u64 = 1_000;

#[test]
fn one_of_two_nodes_is_killed_and_nothing_is_lost() {
    let url = bursar_testkit::fresh_database();
    let survivor = Process::start(&url, &ENV);
    let stream = Stream::open(&survivor, OPERATOR, "journal");
    let heard = std::thread::spawn(move || until_the_end(stream));
    let budget = json!({ "limits": [{ "amount": 1_000_000, "window": "lifetime" }] });
    assert_eq!(survivor.ask(OPERATOR, "PUT", "/v1/budgets/room", budget).0, 200);

    let mut commands = Commands::default();
    for kill in 0..KILLS {
        let victim = Process::start(&url, &ENV);
        let leased = commands.under_load(kill, &victim, &survivor);
        a_lease_of_the_dead_node_is_rescued(&survivor, &leased);
    }
    let Commands { answered, unknown } = commands;
    assert_eq!(unknown.len(), KILLS * CALLERS, "each caller of a killed node was left without an answer");

    // Whoever asks again on the other node gets the one answer there is.
    let mut done = answered.clone();
    let mut were_done = 0;
    for key in unknown {
        let first = post(survivor.address, &key).expect("the survivor answers");
        let again = post(survivor.address, &key).expect("the survivor answers");
        assert_eq!((first.status, again.status, again.replayed), (201, 201, true), "{key}");
        assert_eq!(first.body, again.body, "{key}");
        were_done += usize::from(first.replayed);
        done.insert(key, first.body);
    }
    eprintln!(
        "{} commands were answered; of {} without an answer {were_done} were done",
        answered.len(),
        KILLS * CALLERS
    );
    for (key, answer) in &answered {
        let path = format!("/v1/commands/{}", answer["id"].as_str().unwrap());
        let (status, mut found) = survivor.ask(OPERATOR, "GET", &path, Value::Null);
        flag(&mut found);
        assert_eq!((status, &found), (200, answer), "{key} was answered");
        let again = post(survivor.address, key).expect("the survivor answers");
        assert_eq!((again.status, again.replayed, &again.body), (201, true, answer), "{key} is done already");
    }
    // Each is there once: its unit, its job, and nothing else.
    let (_, room) = survivor.ask(OPERATOR, "GET", "/v1/budgets/room", Value::Null);
    assert_eq!(room["balances"][0]["posted"], done.len(), "{room}");
    assert_eq!(payloads(&survivor), done.keys().cloned().collect::<Vec<_>>());
    let (status, verified) = survivor.ask(OPERATOR, "GET", "/v1/verify", Value::Null);
    assert_eq!((status, &verified["ok"]), (200, &json!(true)), "{verified}");

    // Who listened on the survivor has heard all of it: each position, in order, as the journal has it.
    assert_eq!(survivor.ask(OPERATOR, "POST", "/v1/jobs", json!({ "queue": END, "kind": "k" })).0, 201);
    let heard = heard.join().expect("the stream goes on to the end");
    let positions: Vec<u64> = heard.iter().map(|(position, _)| *position).collect();
    assert_eq!(positions, (1..=positions.len() as u64).collect::<Vec<_>>(), "no gap, and nothing twice");
    let journal = journal(&survivor, positions.len());
    for ((position, heard), kept) in heard.iter().zip(&journal) {
        assert_eq!(heard, kept, "what was heard at {position} is what the journal says");
    }
    assert_eq!(heard.len(), journal.len());
    assert_eq!(survivor.end().0, Some(0));
}

/// What callers know of what they asked for, by their keys.
#[derive(Default)]
struct Commands {
    answered: BTreeMap<String, Value>,
    unknown: Vec<String>,
}

impl Commands {
    /// Kills a node while both are asked; the job that one of its workers has leased.
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
                    // It may be done or not: the caller cannot know.
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
            let waited = more.wait_timeout_while(known.lock().unwrap(), PATIENCE, short).unwrap().1;
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
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                until("both are asked", &|known| {
                    count(known, "victim") >= ENOUGH && count(known, "survivor") >= ENOUGH
                });
                let leased = lease_with_a_hold(victim);
                victim.kill();
                until("who asks the killed node is left without an answer", &|known| {
                    known.unknown.len() == (kill + 1) * CALLERS
                });
                let so_far = count(&known.lock().unwrap(), "survivor");
                until("the other node goes on", &|known| count(known, "survivor") >= so_far + ENOUGH);
                leased
            }));
            // Whatever went wrong, nobody goes on asking.
            stop.store(true, Ordering::Relaxed);
            told.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// A worker on a node leases a job that holds ten units.
fn lease_with_a_hold(node: &Process) -> Value {
    let limits = json!([{ "amount": 1_000, "window": "lifetime" }]);
    let command = json!({
        "charges": [{ "scope": "slow", "amount": 10, "limits": limits }], "settle": "job",
        "jobs": [{ "queue": "slow", "kind": "k" }],
    });
    let (status, made) = node.ask(OPERATOR, "POST", "/v1/commands", command);
    assert_eq!(status, 201, "{made}");
    let lease = json!({ "queues": ["slow"], "lease_ms": LEASE_MS, "worker": "of the dead node" });
    let (status, leased) = node.ask(OPERATOR, "POST", "/v1/jobs/lease", lease);
    assert_eq!((status, &leased["jobs"][0]["id"]), (200, &made["jobs"][0]["id"]), "{leased}");
    leased["jobs"][0].clone()
}

/// What a worker of the dead node had is leased again on the other, and the first worker can no longer end it.
fn a_lease_of_the_dead_node_is_rescued(survivor: &Process, leased: &Value) {
    let fence = |leased: &Value| leased["lease"]["fence"].as_u64().unwrap();
    let ask = json!({ "queues": ["slow"], "wait_ms": 60_000, "worker": "of the survivor" });
    let (status, again) = survivor.ask(OPERATOR, "POST", "/v1/jobs/lease", ask);
    let again = &again["jobs"][0];
    assert_eq!((status, &again["id"]), (200, &leased["id"]), "it is rescued when its lease is over");
    assert!(fence(again) > fence(leased), "{again}");
    let path = format!("/v1/jobs/{}/complete", leased["id"].as_str().unwrap());
    let complete = |body: Value| survivor.ask(OPERATOR, "POST", &path, body);
    let spent = || survivor.ask(OPERATOR, "GET", "/v1/budgets/slow/spent", Value::Null).1["spent"].as_i64().unwrap();
    let before = spent();
    let (status, lost) = complete(json!({ "fence": fence(leased) }));
    assert_eq!((status, &lost["type"]), (409, &json!("/problems/lease-lost")), "{lost}");
    let (status, done) = complete(json!({ "fence": fence(again), "usage": [{ "amount": 7 }] }));
    assert_eq!((status, &done["state"]), (200, &json!("succeeded")), "{done}");
    assert_eq!(spent(), before + 7, "and settles what its job held");
}

/// The queue of the last job of all.
const END: &str = "end";

/// Every event until the last job: its position, and what was told.
fn until_the_end(mut stream: Stream) -> Vec<(u64, Value)> {
    let mut heard = Vec::new();
    loop {
        let (position, kind, data) = stream.next();
        let last = kind == "job.enqueued" && data["data"]["spec"]["queue"] == END;
        heard.push((position, data));
        if last {
            return heard;
        }
    }
}

/// So much of the journal, from its beginning.
fn journal(node: &Process, most: usize) -> Vec<Value> {
    let (mut events, mut after) = (Vec::new(), "0".to_owned());
    while events.len() < most {
        let (status, page) = node.ask(OPERATOR, "GET", &format!("/v1/journal?limit=1000&after={after}"), Value::Null);
        assert_eq!(status, 200, "{page}");
        events.extend(page["items"].as_array().unwrap().iter().cloned());
        after = page["next"].as_str().expect("there is more").to_owned();
    }
    events.truncate(most);
    events
}

/// What the jobs of all commands carry, in order.
fn payloads(node: &Process) -> Vec<String> {
    let (mut payloads, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/jobs?queue=media&limit=1000{cursor}");
        let (status, page) = node.ask(OPERATOR, "GET", &path, Value::Null);
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

/// Asks for a command under a key: a unit and a job. `None` if no whole answer came, and nobody knows what became of it.
fn post(address: SocketAddr, key: &str) -> Option<Answer> {
    let body = json!({
        "charges": [{ "scope": "room", "amount": 1 }],
        "jobs": [{ "queue": "media", "kind": "k", "payload": key }],
    })
    .to_string();
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
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
    assert_eq!(flag(&mut body), Some(json!(replayed)), "header and body say the same: {body}");
    Some(Answer { status, replayed, body })
}

/// Takes away what differs between the first answer and the next ones.
fn flag(answer: &mut Value) -> Option<Value> {
    answer.as_object_mut()?.remove("replayed")
}
