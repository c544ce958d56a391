//! A process of the fleet, from the view of its parent.

use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use bursar::{JobKind, JobSpec, LeaseRequest, Payload, Queue, WorkerName};
use bursar_testkit::{Says, ended};
use tokio::runtime::Runtime;

/// A timeout that only a hanging process exceeds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    says: Says,
}

impl Process {
    /// Starts a process with these arguments, and waits until it is ready.
    pub(crate) fn start(args: &[&str]) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("member")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = Says::on(child.stdout.take().unwrap());
        let process = Process { stdin: child.stdin.take(), child, says };
        assert_eq!(process.hear(), "ready");
        process
    }

    /// Returns the next line that it prints.
    pub(crate) fn hear(&self) -> String {
        self.says.next_line().expect("the process prints a line")
    }

    /// Makes it end, waits for that, and returns the remaining lines.
    pub(crate) fn end(mut self) -> Vec<String> {
        drop(self.stdin.take());
        let rest = self.says.rest();
        assert!(ended(&mut self.child).success());
        rest
    }
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub(crate) fn job() -> JobSpec {
    JobSpec::new(Queue::new("q").unwrap(), JobKind::new("work").unwrap(), Payload::default())
}

pub(crate) fn ask(capacity: u32) -> LeaseRequest {
    let worker = WorkerName::new(format!("process-{}", std::process::id())).unwrap();
    LeaseRequest { queues: vec![Queue::new("q").unwrap()], kinds: Vec::new(), capacity, lease: None, worker }
}
