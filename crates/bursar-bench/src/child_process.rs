//! A worker in a child process: the measuring program runs itself again.

use std::io::{BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use bursar::{Bursar, HandlerError, JobContext};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::BenchError;
use crate::jobs::{KIND, Nothing, QUEUE, TIMEOUT};

/// The arguments of the child process. A program that receives them must call [`work_apart`] with the URL that follows.
pub const WORKER_ARGS: [&str; 3] = ["bench", "latency", "--work-on"];
/// The bytes that a worker writes: it is waiting for jobs, or a handler has started.
const WAITING: u8 = b'w';
const STARTED: u8 = b'b';

/// Runs the jobs of a latency bench until its standard input ends, and writes a byte when each starts.
pub fn work_apart(url: &str) -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let bursar = Bursar::open(url).await?;
        let handler = |_: Nothing, _: JobContext| std::future::ready(write_byte(STARTED).map_err(HandlerError::from));
        let worker = bursar.worker().queue(QUEUE).on(KIND, handler).start()?;
        write_byte(WAITING)?;
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
        worker.drain().await?;
        bursar.close().await;
        Ok(())
    })
}

fn write_byte(byte: u8) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(&[byte])?;
    out.flush()
}

/// A worker process. It is killed on drop.
pub(crate) struct WorkerProcess {
    child: Child,
    bytes: mpsc::Receiver<(u8, Instant)>,
}

impl WorkerProcess {
    /// Starts the process and waits until its worker waits for jobs.
    pub(crate) async fn start(url: &str) -> Result<WorkerProcess, BenchError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(WORKER_ARGS).arg(url).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (sender, bytes) = mpsc::channel(1);
        let out = child.stdout.take().expect("the output is a pipe");
        // A thread reads the clock when a byte arrives; the runtime might be busy then.
        std::thread::spawn(move || {
            for byte in BufReader::new(out).bytes().map_while(Result::ok) {
                if sender.blocking_send((byte, Instant::now())).is_err() {
                    return;
                }
            }
        });
        let mut process = WorkerProcess { child, bytes };
        process.receive(WAITING).await?;
        Ok(process)
    }

    /// Waits for the next start of a handler and returns its time.
    pub(crate) async fn started(&mut self) -> Result<Instant, BenchError> {
        self.receive(STARTED).await
    }

    async fn receive(&mut self, expected: u8) -> Result<Instant, BenchError> {
        let received = tokio::time::timeout(TIMEOUT, self.bytes.recv()).await.ok().flatten();
        let received = received.filter(|(byte, _)| *byte == expected);
        received.map(|(_, at)| at).ok_or_else(|| BenchError::Failed("the worker process does not respond".into()))
    }

    /// Ends the process and checks its exit status.
    pub(crate) async fn end(mut self) -> Result<(), BenchError> {
        drop(self.child.stdin.take());
        let until = Instant::now() + TIMEOUT;
        while Instant::now() < until {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(BenchError::Failed(format!("the worker process ended with {status}"))),
                None => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            }
        }
        Err(BenchError::Failed("the worker process does not end".into()))
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // This fails if the process has ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
