//! A working folder to run the binary in, and the result of a run.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

/// A working folder, with a database in it once `migrate` or `dev` has run.
pub(crate) struct Workdir(pub(crate) TempDir);

/// The result of a run.
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Workdir {
    pub(crate) fn empty() -> Workdir {
        Workdir(tempfile::tempdir().expect("a folder"))
    }

    /// Returns a folder with a database at the default path.
    pub(crate) fn ready() -> Workdir {
        let dir = Workdir::empty();
        dir.run(&["migrate"]).exits(0);
        dir
    }

    pub(crate) fn run(&self, args: &[&str]) -> Finished {
        self.run_with(args, "")
    }

    /// Runs the binary with text on standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &str) -> Finished {
        self.run_in(&[], args, input)
    }

    /// Runs the binary with environment variables and text on standard input.
    pub(crate) fn run_in(&self, env: &[(&str, &str)], args: &[&str], input: &str) -> Finished {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bursar"))
            .args(args)
            .current_dir(self.0.path())
            .env_remove("BURSAR_DATABASE")
            .env_remove("BURSAR_SERVER")
            .env_remove("BURSAR_TOKEN")
            // `bursar doctor` checks whether the port of the server is free; port 0 always is.
            .envs(args.contains(&"doctor").then_some(("BURSAR_LISTEN", "127.0.0.1:0")))
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // A command that does not read its input may have exited already.
        let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("the binary ends");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Finished { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs with `--json` and returns the data; the command must succeed.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat()).exits(0);
        serde_json::from_str(&ran.out).expect("JSON on standard output")
    }

    /// Runs with `--json` and returns the problem; the command must exit with the code and print no data.
    pub(crate) fn problem(&self, code: i32, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat()).exits(code);
        assert_eq!(ran.out, "", "{args:?}");
        ran.problem()
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    pub(crate) fn database(&self) -> Connection {
        Connection::open(self.0.path().join("bursar-data/bursar.db")).expect("the database")
    }
}

impl Finished {
    pub(crate) fn exits(self, code: i32) -> Finished {
        assert_eq!(self.code, code, "\n--- out\n{}\n--- err\n{}", self.out, self.err);
        self
    }

    pub(crate) fn problem(&self) -> Value {
        let last = self.err.lines().last().expect("a problem on standard error");
        serde_json::from_str(last).unwrap_or_else(|_| panic!("not a problem: {last}"))
    }
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not text: {value}"))
}

/// `2026-11-15T10:00:00.000000Z`.
pub(crate) fn is_time(value: &Value) -> bool {
    let text = text(value);
    text.len() == 27 && text.as_bytes()[10] == b'T' && text.as_bytes()[19] == b'.' && text.ends_with('Z')
}
