//! A server in a process of its own: the program that measures, run again.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::BenchError;
use crate::jobs::PATIENCE;
use crate::machine::memory_mb;

/// Such a process. It ends at the latest when this is dropped.
pub(super) struct Process {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Process {
    /// Starts it, and waits until it says where it listens. Of the environment it gets nothing that is for a server.
    pub(super) async fn start(args: &[String], operator: Option<&str>) -> Result<Process, BenchError> {
        let mut command = Command::new(std::env::current_exe()?);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BURSAR_")) {
            command.env_remove(name);
        }
        if let Some(token) = operator {
            command.env("BURSAR_OPERATOR_TOKEN", token);
        }
        let mut child = command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().expect("its output is a pipe");
        let mut process = Process { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let (says, said) = oneshot::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(out).lines();
            let _ = says.send(lines.next());
            // Whatever it says further is taken, so that it never waits for a reader.
            lines.for_each(drop);
        });
        let line = timeout(PATIENCE, said).await.ok().and_then(Result::ok).flatten().transpose()?.unwrap_or_default();
        let address = line.strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        process.address =
            address.ok_or_else(|| BenchError::Failed(format!("the server does not say where it listens: {line:?}")))?;
        Ok(process)
    }

    /// Its memory as the kernel tells it under this name, in MB.
    pub(super) fn memory_mb(&self, name: &str) -> Result<f64, BenchError> {
        memory_mb(&format!("/proc/{}/status", self.child.id()), name)
            .ok_or_else(|| BenchError::Failed("the server's process is gone".into()))
    }

    /// Ends it at once: what was answered is on the disk, and its database is removed next.
    pub(super) fn end(&mut self) -> Result<(), BenchError> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
