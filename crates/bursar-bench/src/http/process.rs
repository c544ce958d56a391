//! A server in a child process: the measuring program runs itself again.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::BenchError;
use crate::jobs::TIMEOUT;
use crate::machine::memory_mb;

/// A server process. It is killed on drop.
pub(super) struct Process {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Process {
    /// Starts the process and waits until it prints its address. Variables that configure a server are removed.
    pub(super) async fn start(args: &[String], operator: Option<&str>) -> Result<Process, BenchError> {
        let mut command = Command::new(std::env::current_exe()?);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BURSAR_")) {
            command.env_remove(name);
        }
        if let Some(token) = operator {
            command.env("BURSAR_OPERATOR_TOKEN", token);
        }
        let mut child = command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().expect("the output is a pipe");
        let mut process = Process { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let (sender, first_line) = oneshot::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(out).lines();
            let _ = sender.send(lines.next());
            // Drain the rest, so that the process never blocks on a full pipe.
            lines.for_each(drop);
        });
        let line =
            timeout(TIMEOUT, first_line).await.ok().and_then(Result::ok).flatten().transpose()?.unwrap_or_default();
        let address = line.strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        process.address =
            address.ok_or_else(|| BenchError::Failed(format!("the server did not print its address: {line:?}")))?;
        Ok(process)
    }

    /// Returns a memory figure of the process, in MB.
    pub(super) fn memory_mb(&self, name: &str) -> Result<f64, BenchError> {
        memory_mb(&format!("/proc/{}/status", self.child.id()), name)
            .ok_or_else(|| BenchError::Failed("the server process has ended".into()))
    }

    /// Kills the process: its answered requests are durable, and its database is removed next.
    pub(super) fn end(&mut self) -> Result<(), BenchError> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // This fails if the process has ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
