//! Ten thousand concurrent event streams: their memory, and the latency of other requests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{Process, TIMEOUT, now};

/// The default limit of a server.
const STREAMS: usize = 10_000;
/// Files that a process has open in addition to the streams.
const OTHER_FILES: usize = 300;
/// Threads that open streams.
const OPENERS: usize = 8;
/// The longest median latency of a request. Notifying each stream first would take far longer.
const MEDIAN_MAX: Duration = Duration::from_secs(5);
/// The most memory that the server may use, in MB.
const MEMORY_MB_MAX: u64 = 400;
const OPERATOR: &str = "the operator's token of a crowded server";

#[test]
fn ten_thousand_streams_use_little_memory_and_delay_no_request() {
    let streams_max = STREAMS.min(open_files().saturating_sub(OTHER_FILES));
    if streams_max < STREAMS {
        println!("this machine allows only {streams_max} of {STREAMS} streams");
    }
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let process = Process::start(&url, &[("BURSAR_OPERATOR_TOKEN", OPERATOR)]);
    let budget = json!({ "limits": [{ "amount": 1_000, "window": "lifetime" }] });
    assert_eq!(process.request(OPERATOR, "PUT", "/v1/budgets/stage", budget).0, 200);
    let idle = process.memory_mb();

    let mut streams = listen(process.address, streams_max);
    let memory = process.memory_mb();
    println!("the server has {idle} MB idle and {memory} MB with {streams_max} streams");
    assert!(memory < MEMORY_MB_MAX, "{memory} MB for {streams_max} streams");

    // Other requests are not delayed.
    let charged = |_| {
        let command = json!({ "charges": [{ "scope": "stage", "amount": 1 }], "settle": "now" });
        let began = now();
        let (status, answer) = process.request(OPERATOR, "POST", "/v1/commands", command);
        assert_eq!(status, 201, "{answer}");
        began.elapsed()
    };
    let mut took: Vec<Duration> = (0..20).map(charged).collect();
    took.sort_unstable();
    assert!(took[10] < MEDIAN_MAX && took[19] < TIMEOUT / 2, "20 commands took {took:?}");
    // One stream too many is refused at once, with a retry time.
    if streams_max == STREAMS {
        let (status, problem) = process.request(OPERATOR, "GET", "/v1/events?channels=queue:door", Value::Null);
        assert_eq!((status, &problem["type"]), (503, &json!("/problems/overloaded")), "{problem}");
        assert!(problem["retry_after_ms"].as_i64().unwrap() > 0, "{problem}");
    }
    // Every stream receives the event.
    assert_eq!(process.request(OPERATOR, "POST", "/v1/jobs", json!({ "queue": "door", "kind": "k" })).0, 201);
    for stream in streams.iter_mut().step_by(97) {
        read_until(stream, "event: job.enqueued");
    }
    let memory = process.memory_mb();
    assert!(memory < MEMORY_MB_MAX, "{memory} MB after an event to every stream");

    // Closed streams free their places.
    drop(streams);
    let began = now();
    while process.listeners(OPERATOR) > 0 {
        assert!(began.elapsed() < TIMEOUT, "the server still counts closed streams");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(listen(process.address, 1));
    assert_eq!(process.stop().0, Some(0));
}

/// Raises the limit of open files of this process as far as allowed; returns the limit.
fn open_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let mut numbers = line.split_whitespace().skip(3);
    let (soft, hard) = (numbers.next().unwrap(), numbers.next().unwrap());
    let (pid, both) = (std::process::id().to_string(), format!("--nofile={hard}:{hard}"));
    let raised = Command::new("prlimit").args(["--pid", &pid, &both]).status().is_ok_and(|status| status.success());
    // The limit may be `unlimited`.
    (if raised { hard } else { soft }).parse().unwrap_or(usize::MAX)
}

/// Opens streams, and waits until each is ready.
fn listen(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let shares = (0..OPENERS).map(|opener| (opener..count).step_by(OPENERS).len());
    let openers: Vec<_> =
        shares.map(|share| std::thread::spawn(move || (0..share).map(|_| open(address)).collect())).collect();
    openers.into_iter().flat_map(|opener: std::thread::JoinHandle<Vec<TcpStream>>| opener.join().unwrap()).collect()
}

fn open(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let head = "GET /v1/events?channels=queue:door HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer";
    stream.write_all(format!("{head} {OPERATOR}\r\n\r\n").as_bytes()).unwrap();
    let read = read_until(&mut stream, "event: ready");
    assert!(read.starts_with("HTTP/1.1 200 "), "{read}");
    stream
}

/// Reads until some words arrive; returns what was read.
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
