//! Hostile clients of many kinds at once: each gets a clear answer, and other clients are not affected.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{Process, TIMEOUT, now};

const OPERATOR: &str = "the operator's token of a server under attack";
/// The server's timeout for heads and bodies, in ms: longer than a regular client takes, even on a slow machine.
const SLOW_MS: &str = "5000";
/// Connections of each kind of slow attack.
const SLOW: usize = 40;
/// Connections that send without end.
const ENDLESS: usize = 4;
/// The most repetitions of each quick attack.
const QUICK_MAX: usize = 100;
/// How often an attack is repeated because the server is overloaded.
const OVERLOADED_MAX: usize = 100;
/// The most memory that the server may use, in MB.
const MEMORY_MB_MAX: u64 = 250;
/// The minimum number of regular commands during the attacks.
const COMMANDS: usize = 20;
/// The longest median latency of regular commands.
const MEDIAN_MAX: Duration = Duration::from_secs(5);

#[test]
fn hostile_clients_are_answered_and_do_not_affect_others() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let env =
        [("BURSAR_OPERATOR_TOKEN", OPERATOR), ("BURSAR_LIMITS_HEAD_MS", SLOW_MS), ("BURSAR_LIMITS_BODY_MS", SLOW_MS)];
    let process = Process::start(&url, &env);
    let budget = json!({ "limits": [{ "amount": 1_000_000, "window": "lifetime" }] });
    assert_eq!(process.request(OPERATOR, "PUT", "/v1/budgets/room", budget).0, 200);

    let (lasting, quick) = (lasting(), quick());
    let running = AtomicUsize::new(lasting.iter().map(|(count, _)| count).sum());
    let mut took = std::thread::scope(|threads| {
        let (address, running) = (process.address, &running);
        for (count, attack) in &lasting {
            for _ in 0..*count {
                threads.spawn(move || {
                    let _running = CountDown(running);
                    attack.run_against(address);
                });
            }
        }
        for attack in &quick {
            threads.spawn(move || {
                attack.run_against(address);
                (1..QUICK_MAX)
                    .take_while(|_| running.load(Ordering::Relaxed) > 0)
                    .for_each(|_| attack.run_against(address));
            });
        }
        // A regular client sends commands in the meantime.
        let mut took = Vec::new();
        while took.len() < COMMANDS || running.load(Ordering::Relaxed) > 0 {
            let command = json!({ "charges": [{ "scope": "room", "amount": 1 }], "settle": "now" });
            let began = now();
            let (status, answer) = process.request(OPERATOR, "POST", "/v1/commands", command);
            took.push(began.elapsed());
            assert_eq!(status, 201, "{answer}");
        }
        took
    });
    took.sort();
    let (median, last, memory) = (took[took.len() / 2], took[took.len() - 1], process.memory_mb_max());
    eprintln!("{} commands in the meantime: median {median:?}, longest {last:?}; peak {memory} MB", took.len());
    assert!(median < MEDIAN_MAX, "the median latency is {median:?}");
    assert!(memory < MEMORY_MB_MAX, "{memory} MB");
    // Every command was executed, and no attack changed anything.
    let (_, room) = process.request(OPERATOR, "GET", "/v1/budgets/room", Value::Null);
    assert_eq!(room["balances"][0]["posted"], took.len(), "{room}");
    assert_eq!(process.request(OPERATOR, "GET", "/v1/jobs", Value::Null).1["items"], json!([]));
    assert_eq!(process.request(OPERATOR, "GET", "/v1/verify", Value::Null).1["ok"], true);
    assert_eq!(process.stop().0, Some(0));
}

/// Decrements the number of running attacks on drop.
struct CountDown<'a>(&'a AtomicUsize);

impl Drop for CountDown<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A hostile request and its expected response.
struct Attack {
    name: &'static str,
    bytes: Vec<u8>,
    then: Then,
    /// The status, and the problem type if the response is a problem.
    answer: (u16, Option<&'static str>),
    /// Whether the connection may close without a response, as when the client still sends after the server has closed.
    or_closed: bool,
}

/// What the client sends after the first bytes.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Nothing,
    /// A byte every 100 ms.
    Trickle,
    /// As much as the server accepts.
    Flood,
}

fn post(path: &str, length: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {OPERATOR}\r\nContent-Type: application/json\r\nConnection: close\r\n{length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Attacks that keep a connection open, and the number of each.
fn lasting() -> Vec<(usize, Attack)> {
    let attack = |name, bytes, then, answer, or_closed| Attack { name, bytes, then, answer, or_closed };
    let slow_head = b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ".to_vec();
    let slow_body = post("/v1/jobs", "Content-Length: 100000", b"{");
    let endless = post("/v1/jobs", "Transfer-Encoding: chunked", b"");
    let timeout = (408, Some("timeout"));
    let too_large = (413, Some("too-large"));
    vec![
        (SLOW, attack("a slow head", slow_head.clone(), Then::Trickle, (408, None), true)),
        (SLOW, attack("a head without an end", slow_head, Then::Nothing, (408, None), true)),
        (SLOW, attack("a slow body", slow_body.clone(), Then::Trickle, timeout, true)),
        (SLOW, attack("a body that never comes", slow_body, Then::Nothing, timeout, false)),
        (ENDLESS, attack("a body without an end", endless, Then::Flood, too_large, true)),
        (ENDLESS, attack("a head of 10 MB", big_head(), Then::Nothing, (431, None), true)),
    ]
}

fn big_head() -> Vec<u8> {
    format!("GET /livez HTTP/1.1\r\nHost: x\r\nX-Big: {}\r\n\r\n", "x".repeat(10 << 20)).into_bytes()
}

/// Attacks that end immediately.
fn quick() -> Vec<Attack> {
    let attack = |name, bytes, answer| Attack { name, bytes, then: Then::Nothing, answer, or_closed: false };
    let body = |name, body: &[u8]| {
        attack(name, post("/v1/jobs", &format!("Content-Length: {}", body.len()), body), (400, Some("invalid")))
    };
    let get = |path: &[u8]| {
        let rest = format!(" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {OPERATOR}\r\nConnection: close\r\n\r\n");
        [b"GET ", path, rest.as_bytes()].concat()
    };
    let payload = |json: String| format!("{{\"queue\":\"q\",\"kind\":\"k\",\"payload\":{json}}}").into_bytes();
    let many: String = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    let deep = payload(format!("{}{}", "[".repeat(500_000), "]".repeat(500_000)));
    let huge = format!("{{\"queue\":\"q\",\"kind\":\"k\",\"delay_ms\":{}}}", "9".repeat(100_000)).into_bytes();
    vec![
        attack("200 headers", format!("GET /livez HTTP/1.1\r\nHost: x\r\n{many}\r\n").into_bytes(), (431, None)),
        attack("not HTTP", b"\x16\x03\x01\x02\x00\x01\r\n\r\n".to_vec(), (400, None)),
        body("deep JSON", &deep),
        body("deep JSON without an end", &b"{\"payload\":[".repeat(100_000)),
        body("a duplicate field", br#"{"queue":"q","queue":"r","kind":"k"}"#),
        body("a duplicate field in a payload", &payload(r#"{"a":{"b":1,"b":2}}"#.into())),
        body("a huge number", &huge),
        body("a huge number of digits after a sign", &payload("-".repeat(100_000))),
        body("invalid UTF-8", b"{\"queue\":\"q\",\"kind\":\"\xff\xfe\"}"),
        attack("a path with invalid UTF-8", get(b"/v1/budgets/%ff%fe"), (400, Some("invalid"))),
        attack("a path with invalid bytes", get(b"/v1/budgets/\xff\xfe"), (400, None)),
        attack(
            "a declared length that is never sent",
            post("/v1/jobs", "Content-Length: 9999999999", b""),
            (413, Some("too-large")),
        ),
    ]
}

impl Attack {
    /// Runs the attack and checks the response. While the server has no memory left for another body, it says so, and the attack is
    /// repeated.
    fn run_against(&self, address: SocketAddr) {
        let mut answer = self.response(address);
        for _ in 0..OVERLOADED_MAX {
            let text = String::from_utf8_lossy(&answer);
            if !text.starts_with("HTTP/1.1 503 ") {
                break;
            }
            assert!(
                text.contains("retry-after: ") && text.contains("/problems/overloaded"),
                "{}: {text:.600}",
                self.name
            );
            std::thread::park_timeout(Duration::from_millis(100));
            answer = self.response(address);
        }
        let text = String::from_utf8_lossy(&answer);
        let status = text.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
        if self.or_closed && answer.is_empty() {
            return;
        }
        let (expected, problem) = self.answer;
        assert_eq!(status, Some(expected), "{}: {text:.300}", self.name);
        let has_type = |problem: &str| text.contains(&format!("\"type\":\"/problems/{problem}\""));
        assert!(problem.is_none_or(has_type), "{}: {text:.600}", self.name);
    }

    /// Returns what the server sends until it closes the connection.
    fn response(&self, address: SocketAddr) -> Vec<u8> {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let mut writing = stream.try_clone().unwrap();
            let over = &over;
            // The response may arrive before everything is sent.
            let writer = threads.spawn(move || {
                let flood = format!("{:x}\r\n{}\r\n", 1 << 16, "x".repeat(1 << 16)).into_bytes();
                let mut sent = writing.write_all(&self.bytes);
                while sent.is_ok() && self.then != Then::Nothing && !over.load(Ordering::Relaxed) {
                    sent = match self.then {
                        Then::Flood => writing.write_all(&flood),
                        _ => writing.write_all(b"x"),
                    };
                    if self.then == Then::Trickle {
                        std::thread::park_timeout(Duration::from_millis(100));
                    }
                }
            });
            let (mut answer, mut bytes) = (Vec::new(), [0; 4_096]);
            loop {
                match stream.read(&mut bytes) {
                    Ok(length) if length > 0 => answer.extend_from_slice(&bytes[..length]),
                    Ok(_) => break,
                    Err(error) => {
                        let waited =
                            matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
                        assert!(!waited, "{}: the server did not close the connection", self.name);
                        break;
                    }
                }
            }
            over.store(true, Ordering::Relaxed);
            writer.thread().unpark();
            let _ = stream.shutdown(Shutdown::Both);
            answer
        })
    }
}
