//! Power loss: SQLite on a file system that loses unsynced writes.
//!
//! A child process works on such a file system. At random file system calls, the files that would survive a power loss are
//! saved as an image, with the length of the process's log at that moment. Each image is opened with the real file system
//! and compared with the log. The next process continues from one of the images, so that recovered databases lose power again.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use bursar::Bursar;
use bursar_core::mutant::Mutant;
use bursar_lossy_vfs::{Disk, Survivor};

use super::checker::Checker;
use super::client_log::{self, ClientLog, LogLine};
use super::client_process::{Caller, token};
use super::client_request::Response;
use super::opening::Opening;
use super::random::Random;
use super::{RunError, define, tables};

/// The first argument of a process that works on the lossy file system.
pub(super) const POWER: &str = "power-worker";
/// Power losses per process.
const LOSSES: u64 = 30;
/// Processes that continue from an image before a new database is created.
const GENERATIONS: u64 = 4;
/// Callers at once, and so the most requests that share a commit.
const CALLERS: usize = 4;
/// The most file system calls between two power losses; fewer while a database is being created.
const GAP: u64 = 250;
const FIRST_GAP: u64 = 6;
const FIRST_LOSSES: u64 = 12;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct PowerPlan {
    /// The least number of power losses.
    pub losses: u64,
    /// The seed of all random choices.
    pub seed: u64,
    /// A fault that the run must find.
    pub mutant: Option<Mutant>,
}

/// The counts and findings of a run.
#[derive(Clone, Debug, Default)]
pub struct PowerTally {
    /// Power losses checked.
    pub losses: u64,
    /// Requests acknowledged as done.
    pub acknowledged: usize,
    /// Journals replayed and compared.
    pub rebuilt: u64,
    /// Violations that were found.
    pub findings: Vec<String>,
}

impl fmt::Display for PowerTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PowerTally { losses, acknowledged, rebuilt, findings } = self;
        let found = findings.len();
        write!(f, "{losses} power losses: {acknowledged} acknowledged; {rebuilt} journals replayed; {found} findings")
    }
}

/// Runs power losses until the plan is fulfilled or a violation is found; calls `report` after each process.
pub fn lose_power(plan: &PowerPlan, mut report: impl FnMut(&PowerTally)) -> Result<PowerTally, RunError> {
    let root = tempfile::Builder::new().prefix("bursar-power-").tempdir()?;
    let mut random = Random::new(plan.seed);
    let mut tally = PowerTally::default();
    let runtime = super::runtime();
    let (mut disk, mut history) = (0, Vec::new());
    while tally.losses < plan.losses && tally.findings.is_empty() {
        let generation = disk % GENERATIONS;
        let folder = root.path().join(format!("disk-{disk}"));
        if generation == 0 {
            fs::create_dir(&folder)?;
            history.clear();
        }
        let process = Generation { root: root.path(), folder: &folder, number: disk, fresh: generation == 0 };
        let images = process.run(plan, &mut random)?;
        let done = |line: &&LogLine| matches!(line, LogLine::Received { response: Response::Done { .. }, .. });
        tally.acknowledged += client_log::read(&process.log(), u64::MAX)?.iter().filter(done).count();
        for image in &images {
            let lines = client_log::read(&process.log(), image.log_length)?;
            let findings = runtime.block_on(image.check(&history, lines));
            let named = |text: &String| format!("power loss {} of disk {disk}: {text}", image.number);
            tally.findings.extend(findings.iter().map(named));
            tally.losses += 1;
        }
        let next = &images[usize::try_from(random.below(images.len() as u64)).unwrap_or(0)];
        history.extend(client_log::read(&process.log(), next.log_length)?);
        if tally.findings.is_empty() {
            let differ = runtime.block_on(tables::differ_when_rebuilt(&Opening::plain(next.checked_url())))?;
            tally.rebuilt += 1;
            tally.findings.extend(differ.into_iter().take(5));
            fs::rename(&next.raw, root.path().join(format!("disk-{}", disk + 1)))?;
        }
        disk += 1;
        if disk % GENERATIONS == 0 {
            fs::remove_dir_all(root.path().join(format!("disk-{disk}")))?;
        }
        report(&tally);
    }
    Ok(tally)
}

/// A process on one disk.
struct Generation<'a> {
    root: &'a Path,
    folder: &'a Path,
    number: u64,
    fresh: bool,
}

/// The files that survived a power loss.
struct Image {
    number: u64,
    raw: PathBuf,
    checked: PathBuf,
    /// The length of the log at the power loss, in bytes.
    log_length: u64,
}

impl Generation<'_> {
    fn log(&self) -> PathBuf {
        self.root.join(format!("log-{}", self.number))
    }

    fn run(&self, plan: &PowerPlan, random: &mut Random) -> Result<Vec<Image>, RunError> {
        let images = self.root.join(format!("images-{}", self.number));
        fs::create_dir(&images)?;
        let stderr = self.root.join("stderr");
        let status = Command::new(std::env::current_exe()?)
            .arg(POWER)
            .args([self.folder, &self.log(), &images])
            .args([random.next().to_string(), format!("g{}", self.number), self.fresh.to_string()])
            .arg(plan.mutant.map_or("none", Mutant::name))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&stderr)?)
            .status()?;
        if !status.success() {
            let stderr = fs::read_to_string(&stderr)?;
            return Err(format!("the process on the lossy file system failed: {stderr}").into());
        }
        let image = |number| -> io::Result<Image> {
            let raw = images.join(number_name(number));
            let length = fs::read_to_string(images.join(format!("{}.length", number_name(number))))?;
            let checked = images.join(format!("{}-checked", number_name(number)));
            Ok(Image { number, raw, checked, log_length: length.parse().map_err(io::Error::other)? })
        };
        Ok((0..LOSSES).map(image).collect::<io::Result<_>>()?)
    }
}

fn number_name(number: u64) -> String {
    format!("{number:04}")
}

impl Image {
    fn checked_url(&self) -> String {
        url(&self.checked)
    }

    /// Opens a copy with the real file system and checks it; any error is a finding.
    async fn check(&self, history: &[LogLine], lines: Vec<LogLine>) -> Vec<String> {
        let check = async {
            fs::create_dir(&self.checked)?;
            for entry in fs::read_dir(&self.raw)? {
                let entry = entry?;
                fs::copy(entry.path(), self.checked.join(entry.file_name()))?;
            }
            let mut checker = Checker::default();
            checker.add_log(history.to_vec());
            checker.mark_checked();
            checker.add_log(lines);
            let bursar = Bursar::options(&self.checked_url()).upkeep(None).open().await?;
            let report = checker.check(&bursar).await?;
            bursar.close().await;
            Ok::<_, RunError>(report.findings)
        };
        check.await.unwrap_or_else(|error| vec![format!("the surviving database cannot be used: {error}")])
    }
}

fn url(folder: &Path) -> String {
    format!("sqlite://{}", folder.join("bursar.db").display())
}

/// Runs a process on the lossy file system.
pub(super) fn run(args: &[String]) -> ExitCode {
    let [folder, log, images, seed, name, fresh, mutant] = args else {
        panic!("not the arguments of this process: {args:?}")
    };
    let mut random = Random::new(seed.parse().expect("a seed is a number"));
    Mutant::switch(Mutant::named(mutant));
    let fresh = fresh == "true";
    let mut call = 0;
    let losses = (0..LOSSES).map(|number| {
        call += random.between(1, if fresh && number < FIRST_LOSSES { FIRST_GAP } else { GAP });
        call
    });
    let (path, images) = (PathBuf::from(log), PathBuf::from(images));
    let log = Arc::new(ClientLog::open(&path).expect("the log can be written"));
    let mut number = 0;
    let losses: Vec<u64> = losses.collect();
    let save = move |survivors: Vec<Survivor>| {
        let log_length = fs::metadata(&path).expect("the log exists").len();
        save_image(&images, number, log_length, survivors).expect("the image can be written");
        number += 1;
    };
    let disk = Disk::load(Path::new(folder), random.next(), losses, save).expect("the folder can be read");
    let disk = bursar_lossy_vfs::install(disk);
    super::runtime().block_on(work(&url(Path::new(folder)), &log, disk, name, random));
    ExitCode::SUCCESS
}

/// Saves the surviving files.
fn save_image(images: &Path, number: u64, log_length: u64, survivors: Vec<Survivor>) -> io::Result<()> {
    let folder = images.join(number_name(number));
    fs::create_dir(&folder)?;
    for (path, bytes) in survivors {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        // SQLite recreates the index of the write-ahead log, and lock files need not survive.
        let kept = name
            .to_str()
            .is_some_and(|name| name.ends_with(".db") || name.ends_with("-wal") || name.ends_with("-journal"));
        if kept {
            fs::write(folder.join(name), bytes)?;
        }
    }
    fs::write(images.join(format!("{}.length", number_name(number))), log_length.to_string())
}

/// Sends requests until all power losses have happened. The database is closed and reopened at times.
async fn work(url: &str, log: &Arc<ClientLog>, disk: &'static Disk, name: &str, mut random: Random) {
    let shared = Arc::new(vec![token(&mut random)]);
    let mut callers: Vec<Caller> =
        (0..CALLERS).map(|index| Caller::new(format!("{name}-p0-{index}"), random.fork(), shared.clone())).collect();
    while disk.losses_left() > 0 {
        let bursar = Bursar::options(url).upkeep(None).open().await.expect("the live files are intact");
        define(&bursar).await.expect("budgets can be defined");
        let rounds = random.between(5, 120);
        let mut sending = tokio::task::JoinSet::new();
        for mut caller in callers.drain(..) {
            let (bursar, log) = (bursar.clone(), log.clone());
            sending.spawn(async move {
                for _ in 0..rounds {
                    if disk.losses_left() > 0 {
                        caller.send_one(&bursar, &log).await;
                    }
                }
                caller
            });
        }
        callers = sending.join_all().await;
        bursar.close().await;
    }
}
