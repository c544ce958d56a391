//! A process of its own: how it is started, and what it does.

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use bursar_core::budget::Limit;
use bursar_core::context::Context;
use bursar_core::decide::Rules;
use bursar_core::job::JobSpec;
use bursar_core::name::{JobKind, Queue, Scope};
use bursar_core::payload::Payload;
use bursar_core::request::{Charge, Command as Submit, Op, Request, Settle};
use bursar_core::time::Time;
use bursar_core::window::Window;
use bursar_store::conformance::CommitRequests;
use bursar_store::prelude::*;
use bursar_store::{LockPolicy, ManualClock, RequestOutcome, Setup, SqliteStore};
use bursar_testkit::{Says, SeqIds, ended};

/// A started process that waits for the word to begin.
pub(crate) struct Process {
    pub(crate) child: Child,
    says: Says,
}

impl Process {
    pub(crate) fn start(role: &str, path: &Path, seed: usize, count: usize) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", role, path.to_str().unwrap(), &seed.to_string(), &count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = Says::on(child.stdout.take().unwrap());
        let process = Process { child, says };
        assert_eq!(process.hear().as_deref(), Some("ready"));
        process
    }

    pub(crate) fn begin(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap(), "go").unwrap();
    }

    /// The next that it says; `None` when it has ended.
    pub(crate) fn hear(&self) -> Option<String> {
        self.says.next_line()
    }

    /// Waits for its end; it must end well.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(ended(&mut self.child).success());
    }
}

/// Opens the file on a clock that stands, so that nothing is due and rows can be compared as they are.
pub(crate) async fn open(path: &Path, seed: usize) -> SqliteStore {
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_794_823_200_000_000)));
    let ids = Arc::new(Mutex::new(SeqIds::new(seed as u64)));
    let setup = Setup { rules: Rules::default(), clock: Some(clock), ids, migrate: true };
    SqliteStore::open(path, setup).await.unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A hold that a job owns, charged to a scope that all share.
fn request(seed: usize) -> Request {
    let charge = Charge::new(Scope::new("all").unwrap(), 1).within([Limit::new(1_000_000, Window::Lifetime)]);
    let spec = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("k").unwrap(), Payload::default());
    let command = Submit { charges: vec![charge], settle: Settle::Job, jobs: vec![spec], ..Submit::default() };
    let context = Context { correlation_id: Some(seed.to_string()), ..Context::default() };
    Request::from(Op::Submit(command)).in_context(context)
}

/// The life of a process.
pub(crate) fn live(args: &[String]) {
    let [role, path, seed, count] = args else { panic!("role, path, seed and count, not {args:?}") };
    let (path, seed, count) = (Path::new(path), seed.parse().unwrap(), count.parse::<usize>().unwrap());
    let runtime = runtime();
    // A writer opens first, so that its writes begin with the word; an opener only then.
    let opened = (role == "write").then(|| runtime.block_on(open(path, seed)));
    say("ready");
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    let store = opened.unwrap_or_else(|| runtime.block_on(open(path, seed)));
    runtime.block_on(async {
        for _ in 0..count {
            let requests = [Arc::new(request(seed))];
            match store.commit_requests(&requests, LockPolicy::Skip).await.as_deref() {
                Ok([RequestOutcome::Answered(Ok(outcome))]) => say(&outcome.command.to_string()),
                other => say(&format!("failed: {other:?}")),
            }
        }
        say(&format!("schema {}", store.health().await.unwrap().schema));
        store.close().await;
    });
}

/// A whole line at once, so that it is said or not.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}
