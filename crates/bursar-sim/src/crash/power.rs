//! Power loss: SQLite on a disk that forgets what was not synced.
//!
//! A process works on such a disk; at random calls of the file system what would survive is written elsewhere, with how
//! far its diary was by then. Each of these is opened by the real thing and compared with the diary. The next process
//! goes on from one of them, so that what was recovered is lost again.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use bursar::Bursar;
use bursar_core::mutant::Mutant;
use bursar_forgetful::{Disk, Survivor};

use super::act::Told;
use super::book::Book;
use super::diary::{self, Diary, Line};
use super::dice::Dice;
use super::worker::{Caller, token};
use super::{Failure, define, tables};

/// The word by which this program knows that it is to work on a forgetful disk.
pub(super) const POWER: &str = "power-worker";
/// Losses that one process goes through.
const LOSSES: u64 = 30;
/// Processes that go on from what survived, before a new database is begun.
const GENERATIONS: u64 = 4;
/// Callers at once: so many share a commit at most.
const CALLERS: usize = 4;
/// Calls of the file system between two losses at most; while a database is being made, fewer.
const GAP: u64 = 250;
const FIRST_GAP: u64 = 6;
const FIRST_LOSSES: u64 = 12;

/// What to run.
#[derive(Clone, Debug)]
pub struct PowerPlan {
    /// How often the power goes, at least.
    pub losses: u64,
    /// What chance follows from.
    pub seed: u64,
    /// A fault to be found.
    pub mutant: Option<Mutant>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct PowerTally {
    /// Power losses looked at.
    pub losses: u64,
    /// Requests that were answered "done".
    pub acknowledged: usize,
    /// Journals replayed and compared.
    pub rebuilt: u64,
    /// What was wrong.
    pub findings: Vec<String>,
}

impl fmt::Display for PowerTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PowerTally { losses, acknowledged, rebuilt, findings } = self;
        let found = findings.len();
        write!(f, "{losses} power losses: {acknowledged} acknowledged; {rebuilt} journals replayed; {found} findings")
    }
}

/// Loses the power as often as the plan says, or until something is found.
pub fn lose_power(plan: &PowerPlan, mut tell: impl FnMut(&PowerTally)) -> Result<PowerTally, Failure> {
    let place = tempfile::Builder::new().prefix("bursar-power-").tempdir()?;
    let mut dice = Dice::new(plan.seed);
    let mut tally = PowerTally::default();
    let runtime = super::runtime();
    let (mut life, mut history) = (0, Vec::new());
    while tally.losses < plan.losses && tally.findings.is_empty() {
        let generation = life % GENERATIONS;
        let folder = place.path().join(format!("disk-{life}"));
        if generation == 0 {
            fs::create_dir(&folder)?;
            history.clear();
        }
        let process = Generation { place: place.path(), folder: &folder, number: life, fresh: generation == 0 };
        let images = process.run(plan, &mut dice)?;
        let done = |line: &&Line| matches!(line, Line::Told { told: Told::Done { .. }, .. });
        tally.acknowledged += diary::read(&process.diary(), u64::MAX)?.iter().filter(done).count();
        for image in &images {
            let lines = diary::read(&process.diary(), image.told)?;
            let found = runtime.block_on(image.check(&history, lines));
            let named = |text: &String| format!("power loss {} of disk {life}: {text}", image.number);
            tally.findings.extend(found.iter().map(named));
            tally.losses += 1;
        }
        // Any of them may be the one to go on from.
        let last = &images[usize::try_from(dice.below(images.len() as u64)).unwrap_or(0)];
        history.extend(diary::read(&process.diary(), last.told)?);
        if tally.findings.is_empty() {
            let differ = runtime.block_on(tables::differ_when_rebuilt(&last.checked_url()))?;
            tally.rebuilt += 1;
            tally.findings.extend(differ.into_iter().take(5));
            fs::rename(&last.raw, place.path().join(format!("disk-{}", life + 1)))?;
        }
        life += 1;
        if life % GENERATIONS == 0 {
            fs::remove_dir_all(place.path().join(format!("disk-{life}")))?;
        }
        tell(&tally);
    }
    Ok(tally)
}

/// A process on a disk.
struct Generation<'a> {
    place: &'a Path,
    folder: &'a Path,
    number: u64,
    fresh: bool,
}

/// What survived a power loss.
struct Image {
    number: u64,
    raw: PathBuf,
    checked: PathBuf,
    /// How long the diary was.
    told: u64,
}

impl Generation<'_> {
    fn diary(&self) -> PathBuf {
        self.place.join(format!("diary-{}", self.number))
    }

    fn run(&self, plan: &PowerPlan, dice: &mut Dice) -> Result<Vec<Image>, Failure> {
        let images = self.place.join(format!("images-{}", self.number));
        fs::create_dir(&images)?;
        let words = self.place.join("words");
        let status = Command::new(std::env::current_exe()?)
            .arg(POWER)
            .args([self.folder, &self.diary(), &images])
            .args([dice.roll().to_string(), format!("g{}", self.number), self.fresh.to_string()])
            .arg(plan.mutant.map_or("none", Mutant::name))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&words)?)
            .status()?;
        if !status.success() {
            let words = fs::read_to_string(&words)?;
            return Err(format!("the process on the forgetful disk failed: {words}").into());
        }
        let image = |number| -> io::Result<Image> {
            let raw = images.join(number_name(number));
            let told = fs::read_to_string(images.join(format!("{}.told", number_name(number))))?;
            let checked = images.join(format!("{}-checked", number_name(number)));
            Ok(Image { number, raw, checked, told: told.parse().map_err(io::Error::other)? })
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

    /// Opens a copy with the real thing and looks; an error of any kind is a finding.
    async fn check(&self, history: &[Line], lines: Vec<Line>) -> Vec<String> {
        let look = async {
            fs::create_dir(&self.checked)?;
            for entry in fs::read_dir(&self.raw)? {
                let entry = entry?;
                fs::copy(entry.path(), self.checked.join(entry.file_name()))?;
            }
            let mut book = Book::default();
            book.enter(history.to_vec());
            book.settle_for_good();
            book.enter(lines);
            let bursar = Bursar::options(&self.checked_url()).upkeep(None).open().await?;
            let verdict = book.check(&bursar).await?;
            bursar.close().await;
            Ok::<_, Failure>(verdict.findings)
        };
        look.await.unwrap_or_else(|error| vec![format!("what survived cannot be used: {error}")])
    }
}

fn url(folder: &Path) -> String {
    format!("sqlite://{}", folder.join("bursar.db").display())
}

/// The life of a process on a forgetful disk.
pub(super) fn live(args: &[String]) -> ExitCode {
    let [folder, diary, images, seed, name, fresh, mutant] = args else { panic!("not for this: {args:?}") };
    let mut dice = Dice::new(seed.parse().expect("a seed is a number"));
    Mutant::switch(Mutant::named(mutant));
    let fresh = fresh == "true";
    let mut call = 0;
    let losses = (0..LOSSES).map(|number| {
        call += dice.between(1, if fresh && number < FIRST_LOSSES { FIRST_GAP } else { GAP });
        call
    });
    let (path, images) = (PathBuf::from(diary), PathBuf::from(images));
    let diary = Arc::new(Diary::open(&path).expect("a diary can be kept"));
    let mut number = 0;
    let losses: Vec<u64> = losses.collect();
    let tell = move |survivors: Vec<Survivor>| {
        let told = fs::metadata(&path).expect("the diary is there").len();
        keep(&images, number, told, survivors).expect("what survives can be kept");
        number += 1;
    };
    let disk = Disk::load(Path::new(folder), dice.roll(), losses, tell).expect("the folder can be read");
    let disk = bursar_forgetful::install(disk);
    super::runtime().block_on(work(&url(Path::new(folder)), &diary, disk, name, dice));
    ExitCode::SUCCESS
}

/// Writes down what would survive.
fn keep(images: &Path, number: u64, told: u64, survivors: Vec<Survivor>) -> io::Result<()> {
    let folder = images.join(number_name(number));
    fs::create_dir(&folder)?;
    for (path, bytes) in survivors {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        // The index of the log and the lock files are not asked for back.
        let kept = name
            .to_str()
            .is_some_and(|name| name.ends_with(".db") || name.ends_with("-wal") || name.ends_with("-journal"));
        if kept {
            fs::write(folder.join(name), bytes)?;
        }
    }
    fs::write(images.join(format!("{}.told", number_name(number))), told.to_string())
}

/// Asks until the power has gone often enough. Now and then the database is closed and opened again.
async fn work(url: &str, diary: &Arc<Diary>, disk: &'static Disk, name: &str, mut dice: Dice) {
    let shared = Arc::new(vec![token(&mut dice)]);
    let mut callers: Vec<Caller> =
        (0..CALLERS).map(|place| Caller::new(format!("{name}-p0-{place}"), dice.fork(), shared.clone())).collect();
    while disk.losses_left() > 0 {
        let bursar = Bursar::options(url).upkeep(None).open().await.expect("the disk works until the power goes");
        define(&bursar).await.expect("budgets can be defined");
        let rounds = dice.between(5, 120);
        let mut asking = tokio::task::JoinSet::new();
        for mut caller in callers.drain(..) {
            let (bursar, diary) = (bursar.clone(), diary.clone());
            asking.spawn(async move {
                for _ in 0..rounds {
                    if disk.losses_left() > 0 {
                        caller.ask_one(&bursar, &diary).await;
                    }
                }
                caller
            });
        }
        callers = asking.join_all().await;
        bursar.close().await;
    }
}
