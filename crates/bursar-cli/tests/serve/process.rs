//! A `bursar serve` process, and HTTP requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bursar_testkit::{Says, ended};
use serde_json::Value;

/// Longer than any step of these tests takes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(90);

/// A running server, killed on drop.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
    stderr: Mutex<Says>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the time, to measure durations.
#[expect(clippy::disallowed_methods, reason = "a test of real processes uses the real clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn command(args: &[&str], env: &[(&str, &str)]) -> Child {
    spawn(Command::new(env!("CARGO_BIN_EXE_bursar")), args, env)
}

fn spawn(mut command: Command, args: &[&str], env: &[(&str, &str)]) -> Child {
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
        Process::run_by(Command::new(env!("CARGO_BIN_EXE_bursar")), args, env)
    }

    /// Starts the program as a command has it prepared: by another path, or in another folder.
    pub(crate) fn run_by(program: Command, args: &[&str], env: &[(&str, &str)]) -> Process {
        let mut child = spawn(program, args, env);
        let stderr = Says::on(child.stderr.take().unwrap());
        let stdout = Says::on(child.stdout.take().unwrap());
        let address = loop {
            let Some(line) = stdout.next_line() else {
                ended(&mut child);
                panic!("the server did not start: {}", stderr.rest().join("\n"));
            };
            if let Some(address) = line.strip_prefix("listening on http://") {
                break address.parse().unwrap();
            }
            assert!(args[0] == "dev", "the first line must be the address: {line:?}");
        };
        Process { child, address, stderr: Mutex::new(stderr) }
    }

    /// Starts a server that must fail; returns its exit code and standard error.
    pub(crate) fn try_start(url: &str, listen: &str, env: &[(&str, &str)]) -> (Option<i32>, String) {
        Process::fails(&["serve", "--database", url, "--listen", listen], env)
    }

    /// Runs a command that must end by itself; returns its exit code and standard error.
    pub(crate) fn fails(args: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String) {
        let output = command(args, env).wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    /// Waits for a line with some words on standard error; returns the rest of the line.
    pub(crate) fn stderr_after(&self, words: &str) -> String {
        loop {
            let line = self.stderr.lock().unwrap().next_line().expect("standard error has the words");
            if let Some((_, rest)) = line.split_once(words) {
                return rest.to_owned();
            }
        }
    }

    /// Returns the screen of `bursar dev`: the lines up to the link at its end.
    pub(crate) fn screen(&self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            lines.push(self.stderr.lock().unwrap().next_line().expect("standard error has the screen"));
            let link = format!("http://{}/login?code=", self.address);
            if lines.last().is_some_and(|line| line.trim().starts_with(&link)) {
                return lines;
            }
        }
    }

    /// Returns the operator token that this start created.
    pub(crate) fn created_token(&self) -> String {
        format!("bop_{}", self.stderr_after("bop_").trim())
    }

    /// Sends a request without reading the response.
    #[expect(clippy::needless_pass_by_value, reason = "call sites pass a literal")]
    pub(crate) fn send(&self, token: &str, method: &str, path: &str, body: Value) -> PendingResponse {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let media = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{media}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        PendingResponse(BufReader::new(stream))
    }

    pub(crate) fn request(&self, token: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.send(token, method, path, body).answer()
    }

    /// Uploads bytes that are made one block after the other.
    pub(crate) fn upload(
        &self,
        token: &str,
        path: &str,
        length: usize,
        blocks: impl IntoIterator<Item = Vec<u8>>,
    ) -> (u16, Value) {
        let mut stream = self.begin(token, "POST", path, &format!("Content-Length: {length}\r\n"));
        for block in blocks {
            stream.write_all(&block).unwrap();
        }
        PendingResponse(BufReader::new(stream)).answer()
    }

    /// Downloads bytes, or a range of them, and passes them on as they arrive. Returns the status.
    pub(crate) fn download(&self, token: &str, path: &str, range: Option<&str>, mut each: impl FnMut(&[u8])) -> u16 {
        let range = range.map(|range| format!("Range: {range}\r\n")).unwrap_or_default();
        let mut response = PendingResponse(BufReader::new(self.begin(token, "GET", path, &range)));
        let status = response.head();
        let mut bytes = vec![0; 1 << 18];
        loop {
            match response.0.read(&mut bytes).unwrap() {
                0 => return status,
                read => each(&bytes[..read]),
            }
        }
    }

    fn begin(&self, token: &str, method: &str, path: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{headers}Connection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    /// Waits until a request waits for jobs: only then does the node watch for wake-ups.
    pub(crate) fn wait_for_lease_waiter(&self, token: &str) {
        let began = now();
        loop {
            if self.metric(token, "bursar_bells_total") > 0 {
                return;
            }
            assert!(began.elapsed() < TIMEOUT, "no request waits for jobs");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the number of event streams.
    pub(crate) fn listeners(&self, token: &str) -> u64 {
        self.metric(token, "bursar_event_listeners")
    }

    /// Returns the value of a metric.
    pub(crate) fn metric(&self, token: &str, name: &str) -> u64 {
        let mut sent = self.send(token, "GET", "/metrics", Value::Null);
        assert_eq!(sent.head(), 200);
        let mut text = String::new();
        sent.0.read_to_string(&mut text).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap().parse().unwrap()
    }

    /// Returns the resident memory, in MB.
    pub(crate) fn memory_mb(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// Returns the peak resident memory, in MB.
    pub(crate) fn memory_mb_max(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
    }

    /// Kills the process without a shutdown; clients may keep sending requests.
    pub(crate) fn kill(&self) {
        let killed = Command::new("kill").args(["-KILL", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }

    /// Stops the server with SIGTERM; returns its exit code and the rest of its standard error.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let code = ended(&mut self.child).code();
        (code, self.stderr.lock().unwrap().rest().join("\n"))
    }
}

/// A request whose response has not been read.
pub(crate) struct PendingResponse(BufReader<TcpStream>);

impl PendingResponse {
    fn head(&mut self) -> u16 {
        let mut status = 0;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if status == 0 {
                status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no response: {line:?}")).parse().unwrap();
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
    sent: PendingResponse,
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

    /// Returns the next event: its position, kind and data.
    pub(crate) fn next(&mut self) -> (u64, String, Value) {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
                let event = field("event: ").map(|kind| {
                    let position = field("id: ").map_or(0, |id| id.parse().unwrap());
                    (position, kind.to_owned(), serde_json::from_str(field("data: ").unwrap()).unwrap())
                });
                self.text = rest.to_owned();
                match event {
                    Some(event) => return event,
                    None => continue,
                }
            }
            let mut line = String::new();
            self.sent.0.read_line(&mut line).unwrap();
            let length =
                usize::from_str_radix(line.trim(), 16).unwrap_or_else(|_| panic!("not a chunk length: {line:?}"));
            assert!(length > 0, "the stream ended");
            let mut bytes = vec![0; length + 2];
            self.sent.0.read_exact(&mut bytes).unwrap();
            self.text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        }
    }
}
