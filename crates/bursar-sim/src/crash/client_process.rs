//! A process that will be killed: several callers and job workers that send requests without a pause.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bursar::{Bursar, GrantId, HoldId};
use bursar_core::grant::Token;
use bursar_core::id::uuid_v7;
use bursar_core::time::Time;
use bursar_store::{Clock, SystemClock};

use super::client_log::{ClientLog, LogLine};
use super::client_request::{ClientRequest, LONG, Response};
use super::crash_worker::CrashWorker;
use super::leases::LeaseId;
use super::opening::Opening;
use super::random::Random;

/// Scopes with a limit each. The first ones have a common parent, whose limit is below their sum.
pub(crate) const TEAMS: [&str; 4] = ["team:0", "team:1", "team:2", "team:3"];
pub(crate) const TEAMS_UNDER_ORG: usize = 2;
pub(crate) const ORG: &str = "org";
/// A scope for holds that expire before they are settled.
pub(crate) const SHORT_LIVED: &str = "short-lived";

/// How often a request is sent at most with one key. If keys are deleted soon, it is sent once, because a slow server could answer the
/// second time after that.
const TRIES: usize = 2;
/// Callers per process.
const CALLERS: usize = 6;
/// Job workers per process.
const WORKERS: usize = 2;
/// The interval of lease rescues: short, because the processes are.
const RESCUE_INTERVAL: Duration = Duration::from_millis(50);
/// The pause between two attempts to open the database of a server that is down.
const RETRY_INTERVAL: Duration = Duration::from_millis(25);
/// Job keys that callers share in a round, so that some jobs exist already.
const SHARED_JOBS: u64 = 40;

/// The arguments of a client process.
pub(crate) struct ClientArgs {
    pub(crate) database: Opening,
    /// The path of its log.
    pub(crate) log: String,
    pub(crate) seed: u64,
    /// The prefix of its keys, unique per process.
    pub(crate) name: String,
    /// The path of the tokens that all processes know.
    pub(crate) tokens: String,
    /// The path of the leases that workers killed in earlier rounds left open.
    pub(crate) open_leases: String,
}

impl ClientArgs {
    pub(crate) fn args(&self) -> [String; 6] {
        let ClientArgs { database, log, seed, name, tokens, open_leases } = self;
        let database = serde_json::to_string(database).expect("it has no map with other keys than strings");
        [database, log.clone(), seed.to_string(), name.clone(), tokens.clone(), open_leases.clone()]
    }

    pub(crate) fn parse(args: &[String]) -> ClientArgs {
        let [database, log, seed, name, tokens, open_leases] = args else {
            panic!("not the arguments of a client process: {args:?}")
        };
        let seed = seed.parse().expect("a seed is a number");
        let database = serde_json::from_str(database).expect("another process has written it");
        let [log, name, tokens, open_leases] = [log, name, tokens, open_leases].map(String::clone);
        ClientArgs { database, log, seed, name, tokens, open_leases }
    }
}

/// Sends requests until the process is killed.
pub(crate) async fn run(args: &ClientArgs) {
    let log = Arc::new(ClientLog::open(Path::new(&args.log)).expect("the log can be written"));
    let shared = std::fs::read_to_string(&args.tokens).expect("the tokens can be read");
    let shared: Arc<Vec<String>> = Arc::new(shared.lines().map(str::to_owned).collect());
    let open_leases = std::fs::read_to_string(&args.open_leases).expect("the open leases can be read");
    let open_leases: Vec<LeaseId> = serde_json::from_str(&open_leases).expect("the open leases are a list");
    let bursar = open(&args.database).await;
    let mut random = Random::new(args.seed);
    if args.database.archive.is_some() {
        tokio::spawn(archive(bursar.clone(), log.clone(), random.fork()));
    }
    let tries = if args.database.keys_kept().is_some() { 1 } else { TRIES };
    let callers: Vec<_> = (0..CALLERS)
        .map(|index| {
            let name = format!("{}-{index}", args.name);
            let mut caller = Caller::new(name, random.fork(), shared.clone());
            caller.tries = tries;
            tokio::spawn(caller.run(bursar.clone(), log.clone()))
        })
        .collect();
    for index in 0..WORKERS {
        let worker = CrashWorker::new(&format!("{}-{index}", args.name), random.fork());
        tokio::spawn(worker.run(bursar.clone(), log.clone(), open_leases.clone()));
    }
    for caller in callers {
        caller.await.expect("a caller does not panic");
    }
}

/// Opens the database; retries while its server is down.
async fn open(database: &Opening) -> Bursar {
    loop {
        match database.options().rescue(RESCUE_INTERVAL).open().await {
            Ok(bursar) => return bursar,
            Err(error) => eprintln!("the database cannot be opened, retrying: {error}"),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Archives the journal again and again. Other processes do so at the same time.
async fn archive(bursar: Bursar, log: Arc<ClientLog>, mut random: Random) {
    loop {
        tokio::time::sleep(Duration::from_millis(random.between(1, 120))).await;
        match bursar.journal().archive().await {
            Ok(done) => {
                for segment in done.segments {
                    log.write(&LogLine::Archived { last: segment.last }).expect("the log can be written");
                }
            }
            Err(error) => eprintln!("the journal cannot be archived, retrying: {error}"),
        }
    }
}

/// A caller with its open holds and unused tokens.
pub(crate) struct Caller {
    name: String,
    random: Random,
    sent: u64,
    tries: usize,
    holds: Vec<(HoldId, i64)>,
    settled: Option<HoldId>,
    tokens: Vec<String>,
    shared: Arc<Vec<String>>,
}

impl Caller {
    pub(crate) fn new(name: String, random: Random, shared: Arc<Vec<String>>) -> Caller {
        Caller { name, random, sent: 0, tries: TRIES, holds: Vec::new(), settled: None, tokens: Vec::new(), shared }
    }

    async fn run(mut self, bursar: Bursar, log: Arc<ClientLog>) {
        loop {
            self.send_one(&bursar, &log).await;
        }
    }

    /// Sends a random request and logs it. Retries once, half of the time, if it was not done or its outcome is unknown.
    pub(crate) async fn send_one(&mut self, bursar: &Bursar, log: &ClientLog) {
        let request = self.next_request();
        self.sent += 1;
        let key = format!("{}-{}", self.name, self.sent);
        for _ in 0..self.tries {
            log.write(&LogLine::Sent { key: key.clone(), request: request.clone() }).expect("the log can be written");
            let response = request.send(bursar, &key).await;
            log.write(&LogLine::Received { key: key.clone(), response: response.clone() })
                .expect("the log can be written");
            match response {
                Response::Done { created, .. } => return self.remember(&request, created.hold),
                Response::Refused(_) => return,
                Response::Unchanged(_) | Response::Unknown(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
            if self.random.percent(50) {
                return;
            }
        }
    }

    fn remember(&mut self, request: &ClientRequest, hold: Option<HoldId>) {
        match request {
            ClientRequest::Hold { amount, .. } | ClientRequest::Metered { amount, owned: false, .. } => {
                self.holds.extend(hold.map(|hold| (hold, *amount)));
            }
            ClientRequest::Extend { hold, .. } => self.holds.push((*hold, 1)),
            ClientRequest::Commit { hold, .. } | ClientRequest::Release { hold } => self.settled = Some(*hold),
            ClientRequest::Mint { token, .. } => self.tokens.push(token.clone()),
            ClientRequest::Metered { .. } | ClientRequest::Post { .. } => {}
        }
    }

    fn next_request(&mut self) -> ClientRequest {
        let kind = self.random.below(100);
        let amount = i64::try_from(self.random.between(1, 4)).unwrap_or(1);
        let scope = TEAMS[usize::try_from(self.random.below(4)).unwrap_or(0)].to_owned();
        match kind {
            0..5 => {
                return ClientRequest::Hold { scope: SHORT_LIVED.into(), amount, ttl_ms: self.random.between(1, 60) };
            }
            5..15 => {
                let ttl_ms =
                    if self.random.percent(30) { self.random.between(1, 100) } else { LONG.millis().unsigned_abs() };
                return ClientRequest::Mint { token: token(&mut self.random), ttl_ms };
            }
            15..25 => return ClientRequest::Post { scope, amount: 1 },
            25..30 => {
                // Already settled: must be refused.
                if let Some(hold) = self.settled.take() {
                    return ClientRequest::Commit { hold, actual: 0 };
                }
            }
            30..55 => {
                let token = match self.random.take(&mut self.tokens) {
                    Some(own) if self.random.percent(60) => own,
                    _ => self.shared[usize::try_from(self.random.below(self.shared.len() as u64)).unwrap_or(0)].clone(),
                };
                let round = self.name.split('-').next().unwrap_or_default();
                let owned = self.random.percent(40);
                let job = match self.random.percent(30) {
                    true => format!("job-{round}-{owned}-{}", self.random.below(SHARED_JOBS)),
                    false => format!("job-{}-{}", self.name, self.sent),
                };
                return ClientRequest::Metered { scope, amount, token, job, owned };
            }
            55..85 => {
                if let Some((hold, held)) = self.random.take(&mut self.holds) {
                    return match self.random.below(10) {
                        0..5 => ClientRequest::Commit {
                            hold,
                            actual: self.random.below(2).try_into().unwrap_or(0).min(held),
                        },
                        5..9 => ClientRequest::Release { hold },
                        _ => ClientRequest::Extend { hold, by_ms: 1_000 },
                    };
                }
            }
            _ => {}
        }
        ClientRequest::Hold { scope, amount, ttl_ms: 12 * 3_600_000 }
    }
}

/// Returns a new token. Its secret is reproducible, so that the request can be sent again.
pub(crate) fn token(random: &mut Random) -> String {
    let now = SystemClock.now();
    let mut secret = [0; 32];
    secret.chunks_mut(8).for_each(|part| part.copy_from_slice(&random.next().to_le_bytes()));
    let random = u128::from(random.next()) << 64 | u128::from(random.next());
    Token::new(GrantId(uuid_v7(now.max(Time::from_micros(0)), random)), secret).reveal()
}
