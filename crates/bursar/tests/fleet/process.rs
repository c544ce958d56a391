//! A process of the fleet, as its parent has it.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use bursar::{JobKind, JobSpec, LeaseAsk, Payload, Queue, WorkerName};
use tokio::runtime::Runtime;

/// Longer than anything takes that is not stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    says: Receiver<String>,
}

impl Process {
    /// Starts one that is to do this, and waits until it is ready.
    pub(crate) fn start(args: &[&str]) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("member")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, says) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // It must never wait for somebody to read.
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let process = Process { stdin: child.stdin.take(), child, says };
        assert_eq!(process.hear(), "ready");
        process
    }

    /// The next that it says.
    pub(crate) fn hear(&self) -> String {
        self.says.recv_timeout(PATIENCE).expect("it has something to say")
    }

    /// Tells it to end, waits for that, and returns what it said last.
    pub(crate) fn end(mut self) -> Vec<String> {
        drop(self.stdin.take());
        let rest = self.says.iter().collect();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub(crate) fn job() -> JobSpec {
    JobSpec::new(Queue::new("q").unwrap(), JobKind::new("work").unwrap(), Payload::default())
}

pub(crate) fn ask(capacity: u32) -> LeaseAsk {
    let worker = WorkerName::new(format!("process-{}", std::process::id())).unwrap();
    LeaseAsk { queues: vec![Queue::new("q").unwrap()], kinds: Vec::new(), capacity, lease: None, worker }
}
