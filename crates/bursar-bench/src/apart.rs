//! A worker in a process of its own: the program that measures, run again.

use std::io::{BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use bursar::{Bursar, HandlerError, JobContext};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::BenchError;
use crate::jobs::{KIND, Nothing, PATIENCE, QUEUE};

/// The arguments after which a program that uses this crate is to call [`work_apart`] with the address that follows.
pub const APART: [&str; 3] = ["bench", "latency", "--work-on"];
/// What a worker says: that it waits, and that a handler has begun.
const WAITS: u8 = b'w';
const BEGUN: u8 = b'b';

/// Works on the jobs of a latency bench until its input ends, and tells by a byte that each has begun.
pub fn work_apart(url: &str) -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let bursar = Bursar::open(url).await?;
        let handler = |_: Nothing, _: JobContext| std::future::ready(say(BEGUN).map_err(HandlerError::from));
        let worker = bursar.worker().queue(QUEUE).on(KIND, handler).start()?;
        say(WAITS)?;
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
        worker.drain().await?;
        bursar.close().await;
        Ok(())
    })
}

fn say(byte: u8) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(&[byte])?;
    out.flush()
}

/// Such a process. It ends with its input, and at the latest when this is dropped.
pub(crate) struct Apart {
    child: Child,
    said: mpsc::Receiver<(u8, Instant)>,
}

impl Apart {
    /// Starts it, and waits until it waits.
    pub(crate) async fn start(url: &str) -> Result<Apart, BenchError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(APART).arg(url).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (says, said) = mpsc::channel(1);
        let out = child.stdout.take().expect("its output is a pipe");
        // A thread, because the runtime may be busy when a byte comes, and the clock is read when it does.
        std::thread::spawn(move || {
            for byte in BufReader::new(out).bytes().map_while(Result::ok) {
                if says.blocking_send((byte, Instant::now())).is_err() {
                    return;
                }
            }
        });
        let mut apart = Apart { child, said };
        apart.hear(WAITS).await?;
        Ok(apart)
    }

    /// When the next handler began.
    pub(crate) async fn begun(&mut self) -> Result<Instant, BenchError> {
        self.hear(BEGUN).await
    }

    async fn hear(&mut self, expected: u8) -> Result<Instant, BenchError> {
        let said = tokio::time::timeout(PATIENCE, self.said.recv()).await.ok().flatten();
        let heard = said.filter(|(byte, _)| *byte == expected);
        heard.map(|(_, at)| at).ok_or_else(|| BenchError::Failed("the worker's process says nothing".into()))
    }

    /// Lets it end, and looks how it did.
    pub(crate) async fn end(mut self) -> Result<(), BenchError> {
        drop(self.child.stdin.take());
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(BenchError::Failed(format!("the worker's process ended with {status}"))),
                None => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            }
        }
        Err(BenchError::Failed("the worker's process does not end".into()))
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
