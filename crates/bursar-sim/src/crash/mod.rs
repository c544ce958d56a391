//! Crash tests: nothing acknowledged is lost and nothing is done twice when processes and servers are killed.
//!
//! Several processes send requests to one database. Each writes every request and every response to a log outside of the
//! database. The processes, and the database server, are killed with `SIGKILL` at random moments. Then the logs are
//! compared with the journal and the rows.

mod checker;
mod client_log;
mod client_process;
mod client_request;
mod crash_worker;
mod databases;
mod leases;
mod limits;
mod opening;
mod power;
mod random;
mod round;
mod rows;
mod tables;

use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bursar::{Budget, Bursar, Context, Limit, Op, QueueConfig, Request, Retention, Scope, Span, Window};

use bursar_store::{Clock, ManualClock, SystemClock};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use self::databases::Engine;
pub use self::opening::Extras;
pub use self::power::{PowerPlan, PowerTally, lose_power};

use self::checker::{CHECKER, CheckReport, Checker};
use self::client_log::LogLine;
use self::client_process::{ClientArgs, ORG, SHORT_LIVED, TEAMS, TEAMS_UNDER_ORG};
use self::client_request::{ClientRequest, LONG, QUEUE, Response};
use self::databases::Databases;
use self::opening::Opening;
use self::random::Random;
use self::round::Round;

/// An error of the test itself, not of what it tests.
pub type RunError = Box<dyn std::error::Error + Send + Sync>;

/// The first argument of a process that sends requests and is killed.
const WORKER: &str = "crash-worker";
/// Rounds on one database before its journal is replayed and a new one is created.
const ROUNDS_PER_DATABASE: u64 = 8;
/// Units that a round may spend on each team, and on the teams of one parent together: less than their sum.
const ALLOWANCE: i64 = 60;
const ORG_ALLOWANCE: i64 = 100;
/// Grant tokens that all processes try to redeem in a round.
const TOKENS: usize = 80;
/// One round in this many has no server kill.
const ROUNDS_PER_SPARED_SERVER: u64 = 3;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The database engine.
    pub engine: Engine,
    /// Rounds; each ends with every process killed.
    pub rounds: u64,
    /// No round starts after this time.
    pub time: Duration,
    /// What runs besides requests.
    pub extras: Extras,
    /// Processes that run at once.
    pub processes: usize,
    /// The seed of all random choices.
    pub seed: u64,
}

/// The counts and findings of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Rounds run.
    pub rounds: u64,
    /// Requests acknowledged as done.
    pub acknowledged: usize,
    /// Requests refused by the rules.
    pub refused: usize,
    /// Requests that failed with an error which guarantees that nothing changed.
    pub unchanged: usize,
    /// Requests with an unknown outcome: no response, or one that says so.
    pub unknown: usize,
    /// Of these, the ones that had taken effect.
    pub unknown_done: usize,
    /// Processes killed.
    pub killed: usize,
    /// Of these, the ones with a request in flight.
    pub in_flight: usize,
    /// Leases that workers received.
    pub leased: usize,
    /// Completions acknowledged to workers.
    pub completed: usize,
    /// Refusals because a lease was lost.
    pub lost: usize,
    /// Leases that expired and were rescued.
    pub rescued: usize,
    /// Of these, the ones whose spend was reported late and charged.
    pub billed: usize,
    /// Servers killed.
    pub server_kills: usize,
    /// Segments of the journal that were archived.
    pub segments: u64,
    /// Holds, grants and jobs that were deleted because they had been kept for long enough.
    pub removed: usize,
    /// Journals replayed and compared.
    pub rebuilt: usize,
    /// Rounds without an acknowledged request or without a process killed in flight.
    pub idle: u64,
    /// Violations that were found.
    pub findings: Vec<String>,
}

/// Runs this process as a child of the test if its arguments say so.
pub fn child(args: &[String]) -> Option<ExitCode> {
    match args.split_first().map(|(first, rest)| (first.as_str(), rest))? {
        (WORKER, args) => runtime().block_on(client_process::run(&ClientArgs::parse(args))),
        (power::POWER, args) => return Some(power::run(args)),
        _ => return None,
    }
    Some(ExitCode::SUCCESS)
}

/// Runs the whole plan and calls `report` after each round.
pub fn run(plan: &Plan, report: impl FnMut(&Tally)) -> Result<Tally, RunError> {
    let mut report = report;
    let mut run = Run::new(plan)?;
    let began = Instant::now();
    for _ in 0..plan.rounds {
        if began.elapsed() >= plan.time {
            break;
        }
        run.load()?;
        run.check()?;
        report(&run.tally);
        if !run.tally.findings.is_empty() {
            break;
        }
    }
    run.replay()?;
    Ok(run.tally)
}

/// A run in single steps, for tests that change the database between them.
pub struct Run {
    runtime: tokio::runtime::Runtime,
    plan: Plan,
    databases: Databases,
    random: Random,
    database: Opening,
    checker: Checker,
    seen: (usize, usize),
    /// The counts and findings so far.
    pub tally: Tally,
}

impl Run {
    /// Creates a database, and starts a server if the engine needs one.
    pub fn new(plan: &Plan) -> Result<Run, RunError> {
        let mut databases = Databases::new(plan.engine, plan.extras)?;
        let database = databases.create();
        let checker = Checker::of(&database);
        Ok(Run {
            runtime: runtime(),
            plan: plan.clone(),
            databases,
            random: Random::new(plan.seed),
            database,
            checker,
            seen: (0, 0),
            tally: Tally::default(),
        })
    }

    /// Returns the URL of the current database.
    pub fn url(&self) -> &str {
        &self.database.url
    }

    /// Runs processes under load and kills them all.
    pub fn load(&mut self) -> Result<(), RunError> {
        if self.tally.rounds > 0 && self.tally.rounds.is_multiple_of(ROUNDS_PER_DATABASE) {
            self.replay()?;
            self.database = self.databases.create();
            self.checker = Checker::of(&self.database);
        }
        let tokens: Vec<String> = (0..TOKENS).map(|_| client_process::token(&mut self.random)).collect();
        let (path, open_leases) = (self.databases.folder().join("tokens"), self.databases.folder().join("open-leases"));
        round::write_tokens(&path, &tokens)?;
        std::fs::write(&open_leases, serde_json::to_string(&self.checker.open_leases())?)?;
        self.runtime.block_on(prepare(&self.database, &tokens, self.tally.rounds, &mut self.checker))?;
        let plan = Round {
            database: &self.database,
            folder: self.databases.folder(),
            number: self.tally.rounds,
            processes: self.plan.processes,
            tokens: &path,
            open_leases: &open_leases,
            server: self.databases.cluster().filter(|_| self.tally.rounds % ROUNDS_PER_SPARED_SERVER != 2),
        };
        let round = self.runtime.block_on(plan.run(&mut self.random))?;
        self.tally.rounds += 1;
        self.seen = (self.tally.acknowledged, self.tally.in_flight);
        self.tally.killed += round.killed;
        self.tally.in_flight += round.in_flight;
        self.tally.server_kills += round.server_kills;
        self.tally.findings.extend(round.failures);
        for lines in round.logs {
            self.tally.count(&lines);
            self.checker.add_log(lines);
        }
        let idle = (self.tally.acknowledged == self.seen.0) || (self.tally.in_flight == self.seen.1);
        self.tally.idle += u64::from(idle);
        Ok(())
    }

    /// Compares the logs of the killed processes with the database. Time stands still meanwhile, so that no idempotency key expires.
    pub fn check(&mut self) -> Result<(), RunError> {
        let (database, checker) = (&self.database, &mut self.checker);
        let report: Result<CheckReport, RunError> = self.runtime.block_on(async {
            let clock = Arc::new(ManualClock::at(SystemClock.now()));
            let bursar = database.options().upkeep(None).clock(clock).open().await?;
            let report = checker.check(&bursar).await?;
            bursar.close().await;
            Ok(report)
        });
        let report = report?;
        self.tally.unknown_done += report.unknown_done;
        self.tally.rescued += report.rescued;
        self.tally.billed += report.billed;
        self.tally.segments += report.segments;
        self.tally.removed += report.removed;
        let round = self.tally.rounds;
        let findings = report.findings.into_iter().map(|text| format!("round {round}: {text}"));
        self.tally.findings.extend(findings);
        Ok(())
    }

    /// Rebuilds the tables of a copy from the journal and compares every row.
    pub fn replay(&mut self) -> Result<(), RunError> {
        let copy = self.databases.copy(&self.database)?;
        let differ = self.runtime.block_on(tables::differ_when_rebuilt(&copy))?;
        self.tally.rebuilt += 1;
        let round = self.tally.rounds;
        self.tally.findings.extend(differ.into_iter().take(10).map(|row| format!("round {round}: {row}")));
        Ok(())
    }
}

/// Raises the limit of each scope above what is spent and held.
async fn define(bursar: &Bursar) -> Result<(), RunError> {
    let scopes = TEAMS.iter().map(|team| (*team, ALLOWANCE)).chain([(SHORT_LIVED, 1_000_000)]);
    for (name, room) in [(ORG, ORG_ALLOWANCE)].into_iter().chain(scopes) {
        let view = bursar.ledger().budget(name).await?;
        let spent = view.iter().flat_map(|view| &view.balances).find(|own| own.window == Window::Lifetime);
        let spent = spent.map_or(0, |balance| balance.posted + balance.held);
        let mut budget = Budget::new([Limit::new(spent + room, Window::Lifetime)]);
        (budget.hold.ttl_min, budget.hold.ttl_max) = (Span::from_millis(1), Some(LONG));
        if TEAMS[..TEAMS_UNDER_ORG].contains(&name) {
            budget = budget.under(Scope::new(ORG)?);
        }
        let context = Context { correlation_id: Some(CHECKER.into()), ..Context::default() };
        bursar.request(Request::from(Op::Define { scope: Scope::new(name)?, budget }).in_context(context)).await?;
    }
    Ok(())
}

/// Has ended jobs deleted soon.
async fn forget_jobs_soon(bursar: &Bursar) -> Result<(), RunError> {
    let kept = Some(opening::KEPT);
    let retention = Retention { succeeded: kept, cancelled: kept, dead: kept };
    bursar.queues().define(QUEUE, QueueConfig { retention, ..QueueConfig::default() }).await?;
    Ok(())
}

/// Raises the limits for a round and mints the grants that all processes try to redeem.
async fn prepare(database: &Opening, tokens: &[String], round: u64, checker: &mut Checker) -> Result<(), RunError> {
    let bursar = database.options().upkeep(None).open().await?;
    define(&bursar).await?;
    if database.retention {
        let context = Context { correlation_id: Some(CHECKER.into()), ..Context::default() };
        forget_jobs_soon(&bursar.in_context(context)).await?;
    }
    let mut minting = JoinSet::new();
    for (index, token) in tokens.iter().enumerate() {
        let (key, request) = (
            format!("r{round}-t{index}"),
            ClientRequest::Mint { token: token.clone(), ttl_ms: LONG.millis().unsigned_abs() },
        );
        let bursar = bursar.clone();
        minting.spawn(async move {
            let response = request.send(&bursar, &key).await;
            vec![LogLine::Sent { key: key.clone(), request }, LogLine::Received { key, response }]
        });
    }
    minting.join_all().await.into_iter().for_each(|lines| checker.add_log(lines));
    bursar.close().await;
    Ok(())
}

impl Tally {
    fn count(&mut self, lines: &[LogLine]) {
        let mut unanswered: usize = 0;
        for line in lines {
            match line {
                LogLine::Sent { .. } => unanswered += 1,
                LogLine::Leased { .. } => self.leased += 1,
                LogLine::Ended { end, .. } => self.completed += usize::from(end == crash_worker::COMPLETED),
                LogLine::Lost { .. } => self.lost += 1,
                LogLine::Archived { .. } => {}
                LogLine::Received { response, .. } => {
                    unanswered -= 1;
                    match response {
                        Response::Done { .. } => self.acknowledged += 1,
                        Response::Refused(_) => self.refused += 1,
                        Response::Unchanged(_) => self.unchanged += 1,
                        Response::Unknown(_) => self.unknown += 1,
                    }
                }
            }
        }
        self.unknown += unanswered;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { rounds, acknowledged, refused, unchanged, unknown, unknown_done, .. } = self;
        let Tally { leased, completed, lost, rescued, billed, .. } = self;
        let Tally { killed, in_flight, server_kills, segments, removed, rebuilt, idle, findings, .. } = self;
        write!(
            f,
            "{rounds} rounds: {acknowledged} acknowledged, {refused} refused, {unchanged} failed unchanged, {unknown} \
             unknown of which {unknown_done} were done; {leased} leases, {completed} completions, {rescued} rescued, {lost} \
             lost, {billed} billed late; {killed} processes killed, {in_flight} in flight, \
             {server_kills} server kills; {segments} segments archived, {removed} rows found deleted; {rebuilt} journals replayed; {idle} idle rounds; {} findings",
            findings.len()
        )
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime starts")
}
