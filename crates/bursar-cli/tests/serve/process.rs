//! A process of `bursar serve`, and what it is asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bursar_testkit::{Says, ended};
use serde_json::Value;

/// Longer than anything takes here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A running server, which ends with the test.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
    says: Mutex<Says>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The time, for how long something took.
#[expect(clippy::disallowed_methods, reason = "a test of real processes goes by the real clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn command(args: &[&str], env: &[(&str, &str)]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bursar"));
    for name in ["DATABASE", "LISTEN", "OPERATOR_TOKEN", "OPERATOR_TOKEN_FILE", "JWT_SECRET", "JWT_PUBLIC_KEY"] {
        command.env_remove(format!("BURSAR_{name}"));
    }
    command.args(args).envs(env.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
}

impl Process {
    pub(crate) fn start(url: &str, env: &[(&str, &str)]) -> Process {
        Process::start_with(&["serve", "--database", url, "--listen", "127.0.0.1:0"], env)
    }

    pub(crate) fn start_with(args: &[&str], env: &[(&str, &str)]) -> Process {
        let mut child = command(args, env);
        let says = Says::on(child.stderr.take().unwrap());
        let prints = Says::on(child.stdout.take().unwrap());
        let address = loop {
            let Some(line) = prints.next_line() else {
                ended(&mut child);
                panic!("it did not start: {}", says.rest().join("\n"));
            };
            if let Some(address) = line.strip_prefix("listening on http://") {
                break address.parse().unwrap();
            }
            assert!(args[0] == "dev", "the first line says where: {line:?}");
        };
        Process { child, address, says: Mutex::new(says) }
    }

    /// Starts it where it is to fail: how it ended, and what it said.
    pub(crate) fn try_start(url: &str, listen: &str, env: &[(&str, &str)]) -> (Option<i32>, String) {
        let output = command(&["serve", "--database", url, "--listen", listen], env).wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    /// What follows some words on standard error.
    pub(crate) fn told_after(&self, words: &str) -> String {
        loop {
            let line = self.says.lock().unwrap().next_line().expect("it is told");
            if let Some((_, rest)) = line.split_once(words) {
                return rest.to_owned();
            }
        }
    }

    /// The operator's token that this start has made.
    pub(crate) fn made_token(&self) -> String {
        format!("bop_{}", self.told_after("bop_").trim())
    }

    /// Sends a request; the answer is read later.
    #[expect(clippy::needless_pass_by_value, reason = "a call reads like the request it makes")]
    pub(crate) fn send(&self, token: &str, method: &str, path: &str, body: Value) -> Sent {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let media = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{media}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        Sent(BufReader::new(stream))
    }

    pub(crate) fn ask(&self, token: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.send(token, method, path, body).answer()
    }

    /// Until somebody waits for jobs there: then it looks at the bell of the database.
    pub(crate) fn somebody_waits(&self, token: &str) {
        let began = now();
        loop {
            if self.figure(token, "bursar_bells_total") > 0 {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "nobody waits");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// How many listen to events there.
    pub(crate) fn listeners(&self, token: &str) -> u64 {
        self.figure(token, "bursar_event_listeners")
    }

    /// One of its figures.
    pub(crate) fn figure(&self, token: &str, name: &str) -> u64 {
        let mut sent = self.send(token, "GET", "/metrics", Value::Null);
        assert_eq!(sent.head(), 200);
        let mut text = String::new();
        sent.0.read_to_string(&mut text).unwrap();
        let figure = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        figure.unwrap().parse().unwrap()
    }

    /// The memory it has, in MB.
    pub(crate) fn memory_mb(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most memory that it ever had, in MB.
    pub(crate) fn memory_mb_max(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
    }

    /// Kills it: it has time for nothing. Those who ask it may go on doing so.
    pub(crate) fn kill(&self) {
        let killed = Command::new("kill").args(["-KILL", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }

    /// Tells it to end: how it did, and what it said.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let code = ended(&mut self.child).code();
        (code, self.says.lock().unwrap().rest().join("\n"))
    }
}

/// A request that was sent.
pub(crate) struct Sent(BufReader<TcpStream>);

impl Sent {
    fn head(&mut self) -> u16 {
        let mut status = 0;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if status == 0 {
                status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {line:?}")).parse().unwrap();
            }
            if line.trim().is_empty() {
                return status;
            }
        }
    }

    pub(crate) fn answer(mut self) -> (u16, Value) {
        let status = self.head();
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }
}

/// A stream of events.
pub(crate) struct Stream {
    sent: Sent,
    text: String,
}

impl Stream {
    pub(crate) fn open(process: &Process, token: &str, channels: &str) -> Stream {
        let mut sent = process.send(token, "GET", &format!("/v1/events?channels={channels}"), Value::Null);
        assert_eq!(sent.head(), 200);
        let mut stream = Stream { sent, text: String::new() };
        assert_eq!(stream.next().1, "ready");
        stream
    }

    /// The next event: its position, its kind and its data.
    pub(crate) fn next(&mut self) -> (u64, String, Value) {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
                let told = field("event: ").map(|kind| {
                    let position = field("id: ").map_or(0, |id| id.parse().unwrap());
                    (position, kind.to_owned(), serde_json::from_str(field("data: ").unwrap()).unwrap())
                });
                self.text = rest.to_owned();
                match told {
                    Some(told) => return told,
                    None => continue,
                }
            }
            let mut line = String::new();
            self.sent.0.read_line(&mut line).unwrap();
            let length = usize::from_str_radix(line.trim(), 16).unwrap_or_else(|_| panic!("a part: {line:?}"));
            assert!(length > 0, "the stream goes on");
            let mut bytes = vec![0; length + 2];
            self.sent.0.read_exact(&mut bytes).unwrap();
            self.text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        }
    }
}
