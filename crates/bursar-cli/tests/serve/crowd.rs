//! Ten thousand who listen to events at once: what they cost, and that others do not feel them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{PATIENCE, Process, now};

/// As many as a server takes unless it is told otherwise.
const CROWD: usize = 10_000;
/// Files that a process has open beside the streams.
const OTHER_FILES: usize = 300;
/// Threads that open streams.
const HANDS: usize = 8;
/// What an answer may take in the middle; a server that told each stream of it first would take far longer.
const MEDIAN_MAX: Duration = Duration::from_secs(5);
/// What the server may need for all of them.
const MEMORY_MB_MAX: u64 = 400;
const OPERATOR: &str = "the operator's token of a crowded server";

#[test]
fn ten_thousand_streams_cost_little_and_nobody_else_feels_them() {
    let crowd = CROWD.min(open_files().saturating_sub(OTHER_FILES));
    if crowd < CROWD {
        println!("this machine allows {crowd} streams, not {CROWD}: so many are opened");
    }
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let process = Process::start(&url, &[("BURSAR_OPERATOR_TOKEN", OPERATOR)]);
    let budget = json!({ "limits": [{ "amount": 1_000, "window": "lifetime" }] });
    assert_eq!(process.ask(OPERATOR, "PUT", "/v1/budgets/stage", budget).0, 200);
    let idle = process.memory_mb();

    let mut streams = listen(process.address, crowd);
    let memory = process.memory_mb();
    println!("the server has {idle} MB idle and {memory} MB with {crowd} streams");
    assert!(memory < MEMORY_MB_MAX, "{memory} MB for {crowd} streams");

    // Somebody else is answered as if they were not there.
    let charged = |_| {
        let command = json!({ "charges": [{ "scope": "stage", "amount": 1 }], "settle": "now" });
        let began = now();
        let (status, answer) = process.ask(OPERATOR, "POST", "/v1/commands", command);
        assert_eq!(status, 201, "{answer}");
        began.elapsed()
    };
    let mut took: Vec<Duration> = (0..20).map(charged).collect();
    took.sort_unstable();
    assert!(took[10] < MEDIAN_MAX && took[19] < PATIENCE / 2, "20 commands took {took:?}");
    // One more than is allowed is told so at once, and when to come again.
    if crowd == CROWD {
        let (status, problem) = process.ask(OPERATOR, "GET", "/v1/events?channels=queue:door", Value::Null);
        assert_eq!((status, &problem["type"]), (503, &json!("/problems/overloaded")), "{problem}");
        assert!(problem["retry_after_ms"].as_i64().unwrap() > 0, "{problem}");
    }
    // They listen: each hears what happens.
    assert_eq!(process.ask(OPERATOR, "POST", "/v1/jobs", json!({ "queue": "door", "kind": "k" })).0, 201);
    for stream in streams.iter_mut().step_by(97) {
        read_until(stream, "event: job.enqueued");
    }
    let memory = process.memory_mb();
    assert!(memory < MEMORY_MB_MAX, "{memory} MB after all were told something");

    // When they leave there is room again.
    drop(streams);
    let began = now();
    while process.listeners(OPERATOR) > 0 {
        assert!(began.elapsed() < PATIENCE, "they are not let go");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(listen(process.address, 1));
    assert_eq!(process.end().0, Some(0));
}

/// How many files this process may have open, and those it starts; as many as the system lets it.
fn open_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let mut numbers = line.split_whitespace().skip(3);
    let (soft, hard) = (numbers.next().unwrap(), numbers.next().unwrap());
    let (pid, both) = (std::process::id().to_string(), format!("--nofile={hard}:{hard}"));
    let raised = Command::new("prlimit").args(["--pid", &pid, &both]).status().is_ok_and(|status| status.success());
    // One that is not limited has no number.
    (if raised { hard } else { soft }).parse().unwrap_or(usize::MAX)
}

/// Opens so many streams, each until it is told that it listens.
fn listen(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let shares = (0..HANDS).map(|hand| (hand..count).step_by(HANDS).len());
    let hands: Vec<_> =
        shares.map(|share| std::thread::spawn(move || (0..share).map(|_| open(address)).collect())).collect();
    hands.into_iter().flat_map(|hand: std::thread::JoinHandle<Vec<TcpStream>>| hand.join().unwrap()).collect()
}

fn open(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = "GET /v1/events?channels=queue:door HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer";
    stream.write_all(format!("{head} {OPERATOR}\r\n\r\n").as_bytes()).unwrap();
    let read = read_until(&mut stream, "event: ready");
    assert!(read.starts_with("HTTP/1.1 200 "), "{read}");
    stream
}

/// What comes, up to these words.
fn read_until(stream: &mut TcpStream, words: &str) -> String {
    let mut read = String::new();
    while !read.contains(words) {
        let mut bytes = [0; 1_024];
        let length = stream.read(&mut bytes).unwrap();
        assert!(length > 0, "the stream ended: {read}");
        read.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
    }
    read
}
