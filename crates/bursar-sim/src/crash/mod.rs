//! Killing what keeps the purse, and looking whether it kept its word.
//!
//! Real processes ask real things of one database and write down, outside of it, what they are about to ask and what they
//! were told. They are killed with `SIGKILL` at random moments, and so is the server. Then what they were told is compared
//! with what is there.

mod act;
mod book;
mod caps;
mod diary;
mod dice;
mod hand;
mod leases;
mod place;
mod power;
mod round;
mod tables;
mod worker;

use std::fmt;
use std::process::ExitCode;

use bursar::{Budget, Bursar, Context, Limit, Op, Request, Scope, Span, Window};

use tokio::task::JoinSet;

pub use self::place::Engine;
pub use self::power::{PowerPlan, PowerTally, lose_power};

use self::act::{Act, LONG, Told};
use self::book::{Book, OWN, Verdict};
use self::diary::Line;
use self::dice::Dice;
use self::place::Place;
use self::round::Round;
use self::worker::{BRIEF, ORG, Orders, TEAMS, UNDER};

/// What can go wrong with the check itself.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The word by which this program knows that it is to be a worker.
const WORKER: &str = "crash-worker";
/// Rounds on one database, before a new one is made and the journal of the old one is replayed.
const ROUNDS_IN_A_LIFE: u64 = 8;
/// Units that a round may spend on each team, and on those under one parent together: less than their sum.
const ALLOWANCE: i64 = 60;
const ORG_ALLOWANCE: i64 = 100;
/// Tokens that all processes try to redeem in a round.
const TOKENS: usize = 80;
/// Server kills: one round in so many has none.
const SPARED: u64 = 3;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// On what.
    pub engine: Engine,
    /// How often everybody is killed.
    pub rounds: u64,
    /// Processes at once.
    pub processes: usize,
    /// What chance follows from.
    pub seed: u64,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Rounds run.
    pub rounds: u64,
    /// Requests that were answered "done".
    pub acknowledged: usize,
    /// Requests that the rules refused.
    pub refused: usize,
    /// Requests that were told that nothing has changed.
    pub unchanged: usize,
    /// Requests of which nothing was heard.
    pub unknown: usize,
    /// Of these, those that had been done.
    pub unknown_there: usize,
    /// Processes killed.
    pub killed: usize,
    /// Of these, those that waited for an answer.
    pub in_flight: usize,
    /// Leases that workers were told to have.
    pub leased: usize,
    /// Times that workers were told that a job is completed.
    pub completed: usize,
    /// Times that workers were told that their lease is lost.
    pub lost: usize,
    /// Leases that lapsed and were taken back.
    pub rescued: usize,
    /// Of these, those whose spend was told late and charged.
    pub billed: usize,
    /// Servers killed.
    pub server_kills: usize,
    /// Journals replayed and compared.
    pub rebuilt: usize,
    /// Rounds in which nobody was answered, or nobody was killed in flight.
    pub idle: u64,
    /// What was wrong.
    pub findings: Vec<String>,
}

/// Runs this process as a worker, if that is what it was started for.
pub fn child(args: &[String]) -> Option<ExitCode> {
    match args.split_first().map(|(first, rest)| (first.as_str(), rest))? {
        (WORKER, orders) => runtime().block_on(worker::live(&Orders::parse(orders))),
        (power::POWER, orders) => return Some(power::live(orders)),
        _ => return None,
    }
    Some(ExitCode::SUCCESS)
}

/// Runs the whole plan; `tell` hears of each round.
pub fn run(plan: &Plan, tell: impl FnMut(&Tally)) -> Result<Tally, Failure> {
    let mut tell = tell;
    let mut run = Run::new(plan)?;
    for _ in 0..plan.rounds {
        run.load()?;
        run.check()?;
        tell(&run.tally);
        if !run.tally.findings.is_empty() {
            break;
        }
    }
    run.replay()?;
    Ok(run.tally)
}

/// A run in its parts, for tests that meddle in between.
pub struct Run {
    runtime: tokio::runtime::Runtime,
    plan: Plan,
    place: Place,
    dice: Dice,
    url: String,
    book: Book,
    seen: (usize, usize),
    /// What was counted so far.
    pub tally: Tally,
}

impl Run {
    /// Makes a database, and a server if one is wanted.
    pub fn new(plan: &Plan) -> Result<Run, Failure> {
        let mut place = Place::new(plan.engine)?;
        let url = place.fresh();
        Ok(Run {
            runtime: runtime(),
            plan: plan.clone(),
            place,
            dice: Dice::new(plan.seed),
            url,
            book: Book::default(),
            seen: (0, 0),
            tally: Tally::default(),
        })
    }

    /// The address of the database as it is now.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Puts processes under load and kills them all.
    pub fn load(&mut self) -> Result<(), Failure> {
        if self.tally.rounds > 0 && self.tally.rounds.is_multiple_of(ROUNDS_IN_A_LIFE) {
            self.replay()?;
            self.url = self.place.fresh();
            self.book = Book::default();
        }
        let tokens: Vec<String> = (0..TOKENS).map(|_| worker::token(&mut self.dice)).collect();
        let (path, dead) = (self.place.folder().join("tokens"), self.place.folder().join("dead"));
        round::write_tokens(&path, &tokens)?;
        std::fs::write(&dead, serde_json::to_string(&self.book.open_leases())?)?;
        self.runtime.block_on(prepare(&self.url, &tokens, self.tally.rounds, &mut self.book))?;
        let round = Round {
            url: &self.url,
            folder: self.place.folder(),
            number: self.tally.rounds,
            processes: self.plan.processes,
            tokens: &path,
            dead: &dead,
            server: self.place.cluster().filter(|_| self.tally.rounds % SPARED != 2),
        };
        let fallen = self.runtime.block_on(round.run(&mut self.dice))?;
        self.tally.rounds += 1;
        self.seen = (self.tally.acknowledged, self.tally.in_flight);
        self.tally.killed += fallen.killed;
        self.tally.in_flight += fallen.in_flight;
        self.tally.server_kills += fallen.server_kills;
        self.tally.findings.extend(fallen.failures);
        for lines in fallen.diaries {
            self.tally.count(&lines);
            self.book.enter(lines);
        }
        let nothing = (self.tally.acknowledged == self.seen.0) || (self.tally.in_flight == self.seen.1);
        self.tally.idle += u64::from(nothing);
        Ok(())
    }

    /// Compares what the dead were told with what is there.
    pub fn check(&mut self) -> Result<(), Failure> {
        let (url, book) = (&self.url, &mut self.book);
        let checked: Result<Verdict, Failure> = self.runtime.block_on(async {
            let bursar = Bursar::options(url).upkeep(None).open().await?;
            let verdict = book.check(&bursar).await?;
            bursar.close().await;
            Ok(verdict)
        });
        let verdict = checked?;
        self.tally.unknown_there += verdict.unknown_there;
        self.tally.rescued += verdict.rescued;
        self.tally.billed += verdict.billed;
        let round = self.tally.rounds;
        let named = verdict.findings.into_iter().map(|text| format!("round {round}: {text}"));
        self.tally.findings.extend(named);
        Ok(())
    }

    /// Makes the tables anew on a copy and compares every row.
    pub fn replay(&mut self) -> Result<(), Failure> {
        let copy = self.place.copy(&self.url)?;
        let differ = self.runtime.block_on(tables::differ_when_rebuilt(&copy))?;
        self.tally.rebuilt += 1;
        let round = self.tally.rounds;
        self.tally.findings.extend(differ.into_iter().take(10).map(|row| format!("round {round}: {row}")));
        Ok(())
    }
}

/// Gives each scope room for a while.
async fn define(bursar: &Bursar) -> Result<(), Failure> {
    let scopes = TEAMS.iter().map(|team| (*team, ALLOWANCE)).chain([(BRIEF, 1_000_000)]);
    for (name, room) in [(ORG, ORG_ALLOWANCE)].into_iter().chain(scopes) {
        let view = bursar.ledger().budget(name).await?;
        let spent = view.iter().flat_map(|view| &view.balances).find(|own| own.window == Window::Lifetime);
        let spent = spent.map_or(0, |balance| balance.posted + balance.held);
        let mut budget = Budget::new([Limit::new(spent + room, Window::Lifetime)]);
        (budget.hold.ttl_min, budget.hold.ttl_max) = (Span::from_millis(1), LONG);
        if TEAMS[..UNDER].contains(&name) {
            budget = budget.under(Scope::new(ORG)?);
        }
        let context = Context { correlation_id: Some(OWN.into()), ..Context::default() };
        bursar.request(Request::from(Op::Define { scope: Scope::new(name)?, budget }).in_context(context)).await?;
    }
    Ok(())
}

/// Gives each scope room for a round, and makes the grants that all try to redeem.
async fn prepare(url: &str, tokens: &[String], round: u64, book: &mut Book) -> Result<(), Failure> {
    let bursar = Bursar::options(url).upkeep(None).open().await?;
    define(&bursar).await?;
    let mut minting = JoinSet::new();
    for (place, token) in tokens.iter().enumerate() {
        let (key, act) = (format!("r{round}-t{place}"), Act::Mint { token: token.clone() });
        let bursar = bursar.clone();
        minting.spawn(async move {
            let told = act.ask(&bursar, &key).await;
            vec![Line::Asks { key: key.clone(), act }, Line::Told { key, told }]
        });
    }
    minting.join_all().await.into_iter().for_each(|lines| book.enter(lines));
    bursar.close().await;
    Ok(())
}

impl Tally {
    fn count(&mut self, lines: &[Line]) {
        let mut asked: usize = 0;
        for line in lines {
            match line {
                Line::Asks { .. } => asked += 1,
                Line::Leased { .. } => self.leased += 1,
                Line::Ended { end, .. } => self.completed += usize::from(end == hand::COMPLETED),
                Line::Lost { .. } => self.lost += 1,
                Line::Told { told, .. } => {
                    asked -= 1;
                    match told {
                        Told::Done { .. } => self.acknowledged += 1,
                        Told::Refused(_) => self.refused += 1,
                        Told::Unchanged(_) => self.unchanged += 1,
                        Told::Unknown(_) => self.unknown += 1,
                    }
                }
            }
        }
        self.unknown += asked;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { rounds, acknowledged, refused, unchanged, unknown, unknown_there, .. } = self;
        let Tally { leased, completed, lost, rescued, billed, .. } = self;
        let Tally { killed, in_flight, server_kills, rebuilt, idle, findings, .. } = self;
        write!(
            f,
            "{rounds} rounds: {acknowledged} acknowledged, {refused} refused, {unchanged} told unchanged, {unknown} \
             unknown of which {unknown_there} were there; {leased} leases, {completed} times completed, {rescued} rescued, {lost} \
             times told lost, {billed} billed late; {killed} processes killed, {in_flight} in flight, \
             {server_kills} server kills; {rebuilt} journals replayed; {idle} idle rounds; {} findings",
            findings.len()
        )
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime starts")
}
