//! Crews: tasks that share one instance of Bursar, or processes with one instance each.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bursar::{Bursar, PostgresOptions, Span, Time};
use bursar_testkit::{FileClock, Says, ended};
use tokio::runtime::Runtime;

use crate::act::{Act, Member, Report};

/// A long lock timeout, so that contention never fails a request on a slow machine.
const PATIENCE: Duration = Duration::from_secs(300);
const MORNING: Time = Time::from_micros(1_794_823_200_000_000);

/// The argument of a member behind a pooler.
pub(crate) const POOLED: &str = "pooled";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
    /// PostgreSQL behind PgBouncer in transaction mode.
    PgBouncer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tasks,
    Processes,
}

/// A new database and a clock that every member reads.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) runtime: Runtime,
    pub(crate) bursar: Bursar,
    url: String,
    clock: Arc<FileClock>,
    folder: tempfile::TempDir,
}

async fn open(url: &str, pooled: bool, clock: Arc<FileClock>) -> Bursar {
    let postgres = PostgresOptions { pooled, ..PostgresOptions::default() };
    let options = Bursar::options(url).postgres(postgres).clock(clock).upkeep(None).patience(PATIENCE);
    options.open().await.unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime starts")
}

impl World {
    pub(crate) fn new(engine: Engine) -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let url = match engine {
            Engine::Sqlite => format!("sqlite://{}", folder.path().join("bursar.db").display()),
            Engine::Postgres => bursar_testkit::fresh_database(),
            Engine::PgBouncer => bursar_testkit::pooler().url(&bursar_testkit::fresh_database()),
        };
        let clock = Arc::new(FileClock::open(&World::clock_path(folder.path()), MORNING));
        let runtime = runtime();
        let bursar = runtime.block_on(open(&url, engine == Engine::PgBouncer, clock.clone()));
        World { engine, runtime, bursar, url, clock, folder }
    }

    fn clock_path(folder: &Path) -> PathBuf {
        folder.join("clock")
    }

    pub(crate) fn advance(&self, millis: u64) {
        self.clock.advance(Span::from_millis(millis));
    }

    pub(crate) fn turn_back(&self, millis: u64) {
        let now = bursar::Clock::now(&*self.clock);
        self.clock.set(now.before(Span::from_millis(millis)));
    }

    /// Returns how many requests stand for many. Through PgBouncer fewer do: the rules are the same there, and the path is slower.
    pub(crate) fn many(&self, count: usize) -> usize {
        if self.engine == Engine::PgBouncer { count / 20 } else { count }
    }

    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

/// The members that perform actions.
pub(crate) enum Crew<'a> {
    Tasks { world: &'a World, members: Vec<Arc<Member>> },
    Processes { world: &'a World, members: Vec<Mutex<Process>> },
}

pub(crate) struct Process {
    child: Child,
    answers: Says,
}

impl<'a> Crew<'a> {
    pub(crate) fn gather(kind: Kind, size: usize, world: &'a World) -> Crew<'a> {
        match kind {
            Kind::Tasks => {
                let member = || Arc::new(Member::new(world.bursar.clone(), world.url.clone()));
                Crew::Tasks { world, members: (0..size).map(|_| member()).collect() }
            }
            Kind::Processes => {
                let members = (0..size).map(|_| Mutex::new(Process::start(world))).collect();
                Crew::Processes { world, members }
            }
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Crew::Tasks { .. } => Kind::Tasks,
            Crew::Processes { .. } => Kind::Processes,
        }
    }

    pub(crate) fn size(&self) -> usize {
        match self {
            Crew::Tasks { members, .. } => members.len(),
            Crew::Processes { members, .. } => members.len(),
        }
    }

    /// Makes every member act at the same time, and waits for all.
    pub(crate) fn all(&self, act: impl Fn(usize) -> Act) -> Vec<Report> {
        let acts: Vec<Act> = (0..self.size()).map(act).collect();
        thread::scope(|scope| {
            let threads: Vec<_> =
                acts.into_iter().enumerate().map(|(index, act)| scope.spawn(move || self.one(index, act))).collect();
            threads.into_iter().map(|member| member.join().expect("a member answers")).collect()
        })
    }

    /// Makes one member act and waits for it.
    pub(crate) fn one(&self, index: usize, act: Act) -> Report {
        match self {
            Crew::Tasks { world, members } => {
                let member = members[index].clone();
                world.run(async { world.runtime.spawn(async move { member.act(act).await }).await.expect("no panic") })
            }
            Crew::Processes { members, .. } => {
                let mut process = members[index].lock().expect("no thread panicked with the lock");
                process.tell(&act);
                process.hear().unwrap_or_else(|| panic!("a member died during {act:?}"))
            }
        }
    }

    /// Makes a process perform an action in which it dies.
    pub(crate) fn last_words(&self, index: usize, act: &Act) {
        let Crew::Processes { members, .. } = self else { panic!("a task cannot die alone") };
        let mut process = members[index].lock().expect("no thread panicked with the lock");
        process.tell(act);
        assert_eq!(process.hear(), None, "the process should have died");
        ended(&mut process.child);
    }

    /// Adds up reports.
    pub(crate) fn sum(reports: Vec<Report>) -> Report {
        reports.into_iter().fold(Report::default(), |mut sum, report| {
            sum.done += report.done;
            sum.refused += report.refused;
            sum.late += report.late;
            sum.holds.extend(report.holds);
            sum.errors.extend(report.errors);
            sum
        })
    }

    /// Asserts that the balances equal the sums of holds and postings.
    pub(crate) fn verified(&self) {
        let (Crew::Tasks { world, .. } | Crew::Processes { world, .. }) = self;
        let report = world.run(world.bursar.verify()).expect("the database works");
        assert!(report.is_ok(), "{:#?}", report.violations);
    }
}

impl Process {
    fn start(world: &World) -> Process {
        let mut child = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(["member", &world.url])
            .arg(World::clock_path(world.folder.path()))
            .args((world.engine == Engine::PgBouncer).then_some(POOLED))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process starts");
        let answers = Says::on(child.stdout.take().expect("the pipe is open"));
        let process = Process { child, answers };
        assert_eq!(process.answers.next_line().as_deref(), Some("ready"));
        process
    }

    fn tell(&mut self, act: &Act) {
        let line = serde_json::to_string(act).expect("plain data");
        writeln!(self.child.stdin.as_mut().expect("the pipe is open"), "{line}").expect("the member reads");
    }

    fn hear(&self) -> Option<Report> {
        self.answers.next_line().map(|line| serde_json::from_str(&line).expect("a report"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if thread::panicking() {
            // The process may hang.
            let _ = self.child.kill();
        }
        ended(&mut self.child);
    }
}

/// Runs a member in a process of its own: reads actions from stdin and prints reports.
pub(crate) fn serve(url: &str, clock: &str, pooled: bool) {
    let runtime = runtime();
    let clock = Arc::new(FileClock::open(Path::new(clock), MORNING));
    let member = Member::new(runtime.block_on(open(url, pooled, clock)), url.to_owned());
    println!("ready");
    for line in std::io::stdin().lines() {
        let act = serde_json::from_str(&line.expect("the line is text")).expect("an act");
        let report = runtime.block_on(member.act(act));
        println!("{}", serde_json::to_string(&report).expect("plain data"));
    }
    runtime.block_on(member.bursar.close());
}
