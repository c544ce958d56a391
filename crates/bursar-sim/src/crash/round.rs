//! A round: client processes under load that are killed at random moments, and the server with them.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bursar_testkit::Cluster;
use tokio::time::{Instant, sleep, sleep_until};

use super::WORKER;
use super::client_log::{self, LogLine};
use super::client_process::ClientArgs;
use super::client_request::Response;
use super::crash_worker::COMPLETED;
use super::opening::Opening;
use super::random::Random;

/// The least time under load after each process has received a response.
const LOAD: Duration = Duration::from_millis(300);
/// The time under load after a server restart.
const LOAD_AFTER_RESTART: Duration = Duration::from_millis(250);
/// Requests of each of the last processes that are done, and refused, before it is killed, so that a round on a slow machine
/// has enough of both.
const DONE_LEAST: usize = 15;
const REFUSED_LEAST: usize = 1;
/// Segments that the last processes archive before they are killed, if the journal is archived.
const SEGMENTS_LEAST: usize = 2;
/// How long to wait for responses.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The part of a log that is polled: more than the expected lines need.
const POLLED_BYTES: u64 = 200_000;

/// The settings of a round.
pub(crate) struct Round<'a> {
    pub(crate) database: &'a Opening,
    pub(crate) folder: &'a Path,
    pub(crate) number: u64,
    pub(crate) processes: usize,
    pub(crate) tokens: &'a Path,
    /// The path of the leases that workers killed in earlier rounds left open.
    pub(crate) open_leases: &'a Path,
    /// The server to kill, if any.
    pub(crate) server: Option<Arc<Cluster>>,
}

/// The result of a round.
#[derive(Default)]
pub(crate) struct RoundResult {
    /// The log of each killed process.
    pub(crate) logs: Vec<Vec<LogLine>>,
    pub(crate) killed: usize,
    pub(crate) in_flight: usize,
    pub(crate) server_kills: usize,
    /// Processes that ended without being killed, with the end of their standard error.
    pub(crate) failures: Vec<String>,
}

struct Process {
    child: Child,
    log: PathBuf,
    stderr: PathBuf,
}

impl Round<'_> {
    pub(crate) async fn run(&self, random: &mut Random) -> io::Result<RoundResult> {
        let mut result = RoundResult::default();
        let mut started = 0;
        let mut processes = Vec::new();
        for _ in 0..self.processes {
            processes.push(self.start(&mut started, random)?);
        }
        wait_for_responses(&mut processes, 1, 0).await?;
        let mut end = Instant::now() + LOAD;
        let mut server_at = self.server.as_ref().map(|_| Instant::now() + Duration::from_millis(random.below(200)));
        loop {
            let next = Instant::now() + Duration::from_millis(random.between(10, 120));
            if server_at.is_some_and(|at| at <= next) {
                let at = server_at.take().expect("the time was checked above");
                sleep_until(at).await;
                result.server_kills += self.kill_server().await;
                end = Instant::now() + LOAD_AFTER_RESTART;
                continue;
            }
            if next >= end {
                break;
            }
            sleep_until(next).await;
            let victim = processes.swap_remove(usize::try_from(random.below(processes.len() as u64)).unwrap_or(0));
            result.kill(victim)?;
            processes.push(self.start(&mut started, random)?);
        }
        let completed = |line: &LogLine| matches!(line, LogLine::Ended { end, .. } if end == COMPLETED);
        wait_for_lines(&mut processes, 1, completed).await?;
        sleep_until(end).await;
        wait_for_responses(&mut processes, DONE_LEAST, REFUSED_LEAST).await?;
        if self.database.archive.is_some() {
            wait_for_lines(&mut processes, SEGMENTS_LEAST, |line| matches!(line, LogLine::Archived { .. })).await?;
        }
        while let Some(victim) = random.take(&mut processes) {
            result.kill(victim)?;
        }
        Ok(result)
    }

    fn start(&self, started: &mut usize, random: &mut Random) -> io::Result<Process> {
        *started += 1;
        let name = format!("r{}-p{started}", self.number);
        let (log, stderr) = (self.folder.join(format!("{name}.log")), self.folder.join(format!("{name}.stderr")));
        let args = ClientArgs {
            database: self.database.clone(),
            log: log.display().to_string(),
            seed: random.next(),
            name,
            tokens: self.tokens.display().to_string(),
            open_leases: self.open_leases.display().to_string(),
        };
        let child = Command::new(std::env::current_exe()?)
            .arg(WORKER)
            .args(args.args())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&stderr)?)
            .spawn()?;
        Ok(Process { child, log, stderr })
    }

    async fn kill_server(&self) -> usize {
        let Some(server) = self.server.clone() else { return 0 };
        tokio::task::spawn_blocking(move || server.kill_and_restart()).await.expect("the server restarts");
        1
    }
}

/// Waits until every process has `done` and `refused` such responses or has ended, or until a timeout.
async fn wait_for_responses(processes: &mut [Process], done: usize, refused: usize) -> io::Result<()> {
    let until = Instant::now() + RESPONSE_TIMEOUT;
    for process in processes {
        while Instant::now() < until && process.child.try_wait()?.is_none() {
            let lines = client_log::read(&process.log, POLLED_BYTES)?;
            let responses = lines.iter().filter_map(|line| match line {
                LogLine::Received { response, .. } => Some(response),
                _ => None,
            });
            let (has_done, others): (Vec<&Response>, Vec<_>) =
                responses.partition(|response| matches!(response, Response::Done { .. }));
            let has_refused = others.iter().filter(|response| matches!(response, Response::Refused(_))).count();
            if has_done.len() >= done && has_refused >= refused {
                break;
            }
            sleep(POLL_INTERVAL).await;
        }
    }
    Ok(())
}

impl RoundResult {
    fn kill(&mut self, mut process: Process) -> io::Result<()> {
        if let Some(status) = process.child.try_wait()? {
            let stderr = std::fs::read_to_string(&process.stderr).unwrap_or_default();
            let cause = stderr.lines().skip_while(|line| !line.contains("panicked")).take(3);
            let last = stderr.lines().rev().take(3);
            let shown: Vec<&str> = cause.chain(last).collect();
            self.failures.push(format!("a process ended without being killed ({status}): {shown:?}"));
        } else {
            // This is SIGKILL: no code of the process runs any more.
            process.child.kill()?;
            process.child.wait()?;
            self.killed += 1;
        }
        let lines = client_log::read(&process.log, u64::MAX)?;
        let sent = lines.iter().filter(|line| matches!(line, LogLine::Sent { .. })).count();
        let received = lines.iter().filter(|line| matches!(line, LogLine::Received { .. })).count();
        self.in_flight += usize::from(sent > received);
        self.logs.push(lines);
        std::fs::remove_file(&process.stderr)?;
        if process.log.exists() {
            std::fs::remove_file(&process.log)?;
        }
        Ok(())
    }
}

/// Writes the tokens that all processes know to a file.
pub(crate) fn write_tokens(path: &Path, tokens: &[String]) -> io::Result<()> {
    File::create(path)?.write_all(tokens.join("\n").as_bytes())
}

/// How long to wait for lines of the logs.
const LINES_TIMEOUT: Duration = Duration::from_secs(60);
const LINES_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits until the processes have logged `least` such lines together or all have ended, or until a timeout. Workers report on
/// the open leases of earlier rounds before they complete a job, and rows are archived only at a certain age.
async fn wait_for_lines(processes: &mut [Process], least: usize, wanted: impl Fn(&LogLine) -> bool) -> io::Result<()> {
    let until = Instant::now() + LINES_TIMEOUT;
    while Instant::now() < until {
        let (mut found, mut alive) = (0, false);
        for process in processes.iter_mut() {
            found += client_log::read(&process.log, u64::MAX)?.iter().filter(|line| wanted(line)).count();
            alive |= process.child.try_wait()?.is_none();
        }
        if found >= least || !alive {
            break;
        }
        sleep(LINES_POLL_INTERVAL).await;
    }
    Ok(())
}
