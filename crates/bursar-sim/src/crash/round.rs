//! A round: processes under load, killed at random moments, and a server killed with them.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bursar_testkit::Cluster;
use tokio::time::{Instant, sleep, sleep_until};

use super::diary::{self, Line};
use super::dice::Dice;
use super::hand::COMPLETED;
use super::worker::Orders;
use super::{WORKER, act::Told};

/// How long processes are left under load at least, once all of them have been answered.
const LOAD: Duration = Duration::from_millis(300);
/// How long after its restart a server is left under load.
const AFTERWARDS: Duration = Duration::from_millis(250);
/// What each of the last processes has done, and how often it was refused, before it is killed: a round on a slow machine has work
/// to lose too, and caps that are felt.
const DONE_LEAST: usize = 15;
const REFUSED_LEAST: usize = 1;
/// How long answers may take.
const TOLD_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How much of a diary is looked at: more than what has to be in it.
const LOOK_BYTES: u64 = 200_000;

/// What a round is to do.
pub(crate) struct Round<'a> {
    pub(crate) url: &'a str,
    pub(crate) folder: &'a Path,
    pub(crate) number: u64,
    pub(crate) processes: usize,
    pub(crate) tokens: &'a Path,
    /// Where the leases of those are who were killed in earlier rounds.
    pub(crate) dead: &'a Path,
    /// The server to be killed, where one is.
    pub(crate) server: Option<Arc<Cluster>>,
}

/// What became of it.
#[derive(Default)]
pub(crate) struct Fallen {
    /// What each process that was killed had written.
    pub(crate) diaries: Vec<Vec<Line>>,
    pub(crate) killed: usize,
    pub(crate) in_flight: usize,
    pub(crate) server_kills: usize,
    /// Processes that ended without being killed, with their last words.
    pub(crate) failures: Vec<String>,
}

struct Process {
    child: Child,
    diary: PathBuf,
    words: PathBuf,
}

impl Round<'_> {
    pub(crate) async fn run(&self, dice: &mut Dice) -> io::Result<Fallen> {
        let mut fallen = Fallen::default();
        let mut started = 0;
        let mut crew = Vec::new();
        for _ in 0..self.processes {
            crew.push(self.start(&mut started, dice)?);
        }
        until_told(&mut crew, 1, 0).await?;
        let mut end = Instant::now() + LOAD;
        let mut server_at = self.server.as_ref().map(|_| Instant::now() + Duration::from_millis(dice.below(200)));
        loop {
            let next = Instant::now() + Duration::from_millis(dice.between(10, 120));
            if server_at.is_some_and(|at| at <= next) {
                let at = server_at.take().expect("it was just there");
                sleep_until(at).await;
                fallen.server_kills += self.kill_server().await;
                end = Instant::now() + AFTERWARDS;
                continue;
            }
            if next >= end {
                break;
            }
            sleep_until(next).await;
            let victim = crew.swap_remove(usize::try_from(dice.below(crew.len() as u64)).unwrap_or(0));
            fallen.kill(victim)?;
            crew.push(self.start(&mut started, dice)?);
        }
        until_worked(&mut crew).await?;
        sleep_until(end).await;
        until_told(&mut crew, DONE_LEAST, REFUSED_LEAST).await?;
        while let Some(victim) = dice.take(&mut crew) {
            fallen.kill(victim)?;
        }
        Ok(fallen)
    }

    fn start(&self, started: &mut usize, dice: &mut Dice) -> io::Result<Process> {
        *started += 1;
        let name = format!("r{}-p{started}", self.number);
        let (diary, words) = (self.folder.join(format!("{name}.diary")), self.folder.join(format!("{name}.words")));
        let orders = Orders {
            url: self.url.to_owned(),
            diary: diary.display().to_string(),
            seed: dice.roll(),
            name,
            tokens: self.tokens.display().to_string(),
            dead: self.dead.display().to_string(),
        };
        let child = Command::new(std::env::current_exe()?)
            .arg(WORKER)
            .args(orders.args())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&words)?)
            .spawn()?;
        Ok(Process { child, diary, words })
    }

    async fn kill_server(&self) -> usize {
        let Some(server) = self.server.clone() else { return 0 };
        tokio::task::spawn_blocking(move || server.kill_and_restart()).await.expect("the server comes back");
        1
    }
}

/// Waits until every process was told so often that something is done, and that it is refused, or has ended; a bounded time.
async fn until_told(crew: &mut [Process], done: usize, refused: usize) -> io::Result<()> {
    let until = Instant::now() + TOLD_WITHIN;
    for process in crew {
        while Instant::now() < until && process.child.try_wait()?.is_none() {
            let lines = diary::read(&process.diary, LOOK_BYTES)?;
            let told =
                lines.iter().filter_map(|line| if let Line::Told { told, .. } = line { Some(told) } else { None });
            let (has_done, others): (Vec<&Told>, Vec<_>) = told.partition(|told| matches!(told, Told::Done { .. }));
            let has_refused = others.iter().filter(|told| matches!(told, Told::Refused(_))).count();
            if has_done.len() >= done && has_refused >= refused {
                break;
            }
            sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}

impl Fallen {
    fn kill(&mut self, mut process: Process) -> io::Result<()> {
        if let Some(status) = process.child.try_wait()? {
            let words = std::fs::read_to_string(&process.words).unwrap_or_default();
            let cause = words.lines().skip_while(|line| !line.contains("panicked")).take(3);
            let last = words.lines().rev().take(3);
            let told: Vec<&str> = cause.chain(last).collect();
            self.failures.push(format!("a process ended by itself ({status}): {told:?}"));
        } else {
            // SIGKILL: nothing of it runs any more.
            process.child.kill()?;
            process.child.wait()?;
            self.killed += 1;
        }
        let lines = diary::read(&process.diary, u64::MAX)?;
        let asks = lines.iter().filter(|line| matches!(line, Line::Asks { .. })).count();
        let answers = lines.iter().filter(|line| matches!(line, Line::Told { .. })).count();
        self.in_flight += usize::from(asks > answers);
        self.diaries.push(lines);
        std::fs::remove_file(&process.words)?;
        if process.diary.exists() {
            std::fs::remove_file(&process.diary)?;
        }
        Ok(())
    }
}

/// Writes the tokens that all processes know to a file.
pub(crate) fn write_tokens(path: &Path, tokens: &[String]) -> io::Result<()> {
    File::create(path)?.write_all(tokens.join("\n").as_bytes())
}

/// How long the first job that is completed may take.
const WORK_WITHIN: Duration = Duration::from_secs(60);
const WORK_LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits until one of the processes has completed a job, or all have ended; a bounded time. Its workers have then told before what came of
/// the leases of the dead.
async fn until_worked(crew: &mut [Process]) -> io::Result<()> {
    let until = Instant::now() + WORK_WITHIN;
    while Instant::now() < until {
        let mut alive = false;
        for process in crew.iter_mut() {
            let lines = diary::read(&process.diary, u64::MAX)?;
            if lines.iter().any(|line| matches!(line, Line::Ended { end, .. } if end == COMPLETED)) {
                return Ok(());
            }
            alive |= process.child.try_wait()?.is_none();
        }
        if !alive {
            break;
        }
        sleep(WORK_LOOK_EVERY).await;
    }
    Ok(())
}
